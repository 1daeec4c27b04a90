r"""Single key presses from the terminal of a process that also prints there.

The terminal gives a line only after Enter, and shows what is typed. Both are switched off while this process is in the
foreground, and switched on again when it ends or is suspended. Ctrl-C, Ctrl-Z and Ctrl-\ stay signals.

A process in the background must not touch the terminal: the system would stop it. So this looks every second whether
the process is in the foreground. A shell sends no signal when it brings a running job there.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import termios
from collections.abc import Callable
from typing import Any

__all__ = ["KeyPresses"]

_LOOK_SECONDS = 1.0
# More than one key at once is a paste, or a key such as an arrow: neither is meant.
_READ_BYTES = 1024
_LOCAL_MODES = 3
_SPECIAL_CHARACTERS = 6
_SIGNALS = (signal.SIGTSTP, signal.SIGCONT, signal.SIGQUIT)


class KeyPresses:
    """Calls `on_key` with each key, between `start` and `stop`."""

    def __init__(self, fd: int, on_key: Callable[[str], None]) -> None:
        self._terminal = fd
        # A file of its own while the process runs: the event loop makes it non-blocking, and the terminal's own files are shared
        # with the shell and with standard output.
        self._fd = -1
        self._on_key = on_key
        self._loop: asyncio.AbstractEventLoop | None = None
        # The terminal's modes before they were changed, while they are.
        self._before: list[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> bool:
        """Returns whether keys can be read: not if another user has logged in at this terminal."""
        try:
            self._fd = os.open(
                os.ttyname(self._terminal), os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError:
            return False
        self._loop = asyncio.get_running_loop()
        # For an end that does not come through `stop`.
        atexit.register(self._restore)
        for number in _SIGNALS:
            # One that is ignored stays ignored: so the parent wants it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._loop.add_signal_handler(number, self._on_signal, number)
        self._look()
        return True

    def stop(self) -> None:
        """Give the terminal back. Does nothing the second time."""
        if self._loop is None:
            return
        self._let_go()
        if self._timer is not None:
            self._timer.cancel()
        for number in _SIGNALS:
            self._loop.remove_signal_handler(number)
        self._loop = None
        atexit.unregister(self._restore)
        os.close(self._fd)

    def _look(self) -> None:
        """Take the terminal if this process is in its foreground; leave it alone if not."""
        if self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        is_foreground = self._is_foreground()
        if is_foreground and self._before is None:
            self._take(self._loop)
        elif not is_foreground and self._before is not None:
            self._leave()
        self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _take(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            before = termios.tcgetattr(self._fd)
            modes = termios.tcgetattr(self._fd)
            modes[_LOCAL_MODES] &= ~(termios.ECHO | termios.ICANON)
            modes[_SPECIAL_CHARACTERS][termios.VMIN] = 1
            modes[_SPECIAL_CHARACTERS][termios.VTIME] = 0
            termios.tcsetattr(self._fd, termios.TCSANOW, modes)
        except termios.error:
            # The terminal is gone. The server goes on without it.
            return
        self._before = before
        loop.add_reader(self._fd, self._readable)

    def _let_go(self) -> None:
        if self._before is not None:
            self._restore()
            self._leave()

    def _leave(self) -> None:
        self._before = None
        if self._loop is not None:
            self._loop.remove_reader(self._fd)

    def _restore(self) -> None:
        if self._before is not None and self._is_foreground():
            try:
                termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
            except termios.error:
                return

    def _is_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            # Not the terminal that controls this process: then no shell moves it to the background.
            return True

    def _readable(self) -> None:
        if not self._is_foreground():
            self._leave()
            return
        try:
            typed = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            # Another process of this group was faster.
            return
        except OSError:
            typed = b""
        if not typed:
            # The terminal is gone.
            self._leave()
        elif len(typed) == 1:
            self._on_key(typed.decode("ascii", "replace"))

    def _on_signal(self, number: signal.Signals) -> None:
        if self._loop is None:
            return
        if number != signal.SIGCONT:
            # What the signal does by itself, with the terminal as it was before.
            self._let_go()
            self._loop.remove_signal_handler(number)
            os.kill(os.getpid(), number)
            # Here the process goes on after Ctrl-Z.
            self._loop.add_signal_handler(number, self._on_signal, number)
        self._look()
