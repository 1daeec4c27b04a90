"""The console's pairing codes on the terminal of `dragoman serve`, and its page in a browser."""

from __future__ import annotations

import ipaddress
import logging
import os
import sys
import threading
import webbrowser
from types import TracebackType
from typing import Self

from dragoman.cli.console_dialogue import CodeDialogue, code_text
from dragoman.cli.key_presses import KeyPresses
from dragoman.cli.layout import say
from dragoman.frontends.console.console import Console
from dragoman.frontends.console.sessions import ConsoleScope

__all__ = ["TerminalCodes", "local_address", "open_browser"]

_log = logging.getLogger(__name__)


def local_address(host: str, port: int) -> str:
    """The server's address as seen from this machine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"http://{host}:{port}/"
    if address.is_unspecified:
        # Every address, also those of this machine alone.
        return f"http://{'[::1]' if address.version == 6 else '127.0.0.1'}:{port}/"  # noqa: PLR2004 - IPv6
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class TerminalCodes:
    """Shows a pairing code, and within the block makes new ones on key presses.

    Only for a person: both standard input and standard output must be a terminal. `always` shows one code elsewhere.
    """

    def __init__(self, console: Console | None, *, always: bool) -> None:
        self._console = console
        self._always = always
        self._keys: KeyPresses | None = None

    def __enter__(self) -> Self:
        console = self._console
        if console is None:
            return self
        if not console.has_usable_address:
            _log.warning(
                "the console cannot be used at %s: without TLS it is for this machine only. "
                "Put a proxy with TLS before it, and set `url` in [console].",
                console.address,
            )
        elif sys.stdin.isatty() and sys.stdout.isatty():
            dialogue = CodeDialogue(console, _show, can_show_qr=_can_show_qr())
            self._keys = KeyPresses(sys.stdin.fileno(), dialogue.press)
            # Before the first code: a person who sees it may press a key at once.
            dialogue.has_keys = self._keys.start()
            dialogue.begin()
        elif self._always:
            _show(f"the console is at {console.address}")
            _show(code_text(console, console.new_code("decide", ConsoleScope())))
        else:
            # On standard error, as the address of the server.
            say(
                f"dragoman: the console is at {console.address}. To pair a browser, start the server in a terminal, "
                "or with --pairing-code.",
                sys.stderr,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Give the terminal back before the end of the block."""
        if self._keys is not None:
            self._keys.stop()


def open_browser(address: str) -> None:
    """Open a page, without waiting for the browser."""

    def work() -> None:
        if not webbrowser.open(address):
            say(f"dragoman: no browser was found. Open {address}", sys.stderr)

    is_desktop = sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    if is_desktop:
        threading.Thread(target=work, name="browser", daemon=True).start()
    else:
        # A browser in the terminal would take it from us, and cannot show the page.
        say(f"dragoman: there is no desktop to open a browser on. Open {address}", sys.stderr)


def _show(text: str) -> None:
    if text.startswith("\x1b"):
        # A picture: its lines must not be filled anew.
        print(text, flush=True)
    else:
        # With our name before it, as in every other line of `serve`.
        say(f"dragoman: {text}")


def _can_show_qr() -> bool:
    try:
        "▀▄█".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return os.environ.get("TERM", "dumb") != "dumb"
