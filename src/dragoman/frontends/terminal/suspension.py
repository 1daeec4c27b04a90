"""Ctrl-Z: stops the process, with the terminal as the shell left it, and puts everything back after `fg`.

The chat changes the modes of the terminal (no echo, single keys), hides the cursor and draws live lines. A process that
stops like that leaves a shell in which typing is invisible. So the modes and the live lines are taken back first. Where no
shell waits for the process, the system does not stop it, and nothing happens.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from dragoman.frontends.terminal.screen import Screen

__all__ = ["Suspension"]

_Modes: TypeAlias = list[int | list[bytes | int]]


class Suspension:
    """Made before the chat changes the modes of the terminal."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._before = _modes()
        self._is_handling = False
        # Another program uses the terminal, and restores it itself.
        self._is_lent = False

    def suspend(self) -> None:
        """Stop this process and those that the shell started with it: Ctrl-Z as a key."""
        self._stop(0)

    @contextmanager
    def on_signal(self) -> Iterator[None]:
        """Handle SIGTSTP in this block: Ctrl-Z where it is no key."""
        self._handle(is_handled=True)
        try:
            yield
        finally:
            self._handle(is_handled=False)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Leave the modes of the terminal alone in this block, in which another program uses it."""
        self._is_lent = True
        try:
            yield
        finally:
            self._is_lent = False

    def _on_signal(self) -> None:
        # The terminal has sent the signal to the others, too.
        self._stop(os.getpid())

    def _handle(self, *, is_handled: bool) -> None:
        loop = asyncio.get_running_loop()
        self._is_handling = is_handled
        if is_handled:
            loop.add_signal_handler(signal.SIGTSTP, self._on_signal)
        else:
            loop.remove_signal_handler(signal.SIGTSTP)

    def _stop(self, process: int) -> None:
        was_handling = self._is_handling
        with self._screen.lend(), self._as_before():
            if was_handling:
                self._handle(is_handled=False)
            try:
                os.kill(process, signal.SIGTSTP)
            finally:
                if was_handling:
                    self._handle(is_handled=True)

    @contextmanager
    def _as_before(self) -> Iterator[None]:
        now = _modes()
        if self._before is None or now is None or self._is_lent:
            yield
            return
        _set(self._before)
        try:
            yield
        finally:
            # The shell may have changed them meanwhile: the next Ctrl-Z leads back to those.
            self._before = _modes()
            _set(now)


def _modes() -> _Modes | None:
    return termios.tcgetattr(sys.stdin.fileno()) if sys.stdin.isatty() else None


def _set(modes: _Modes) -> None:
    # What was typed meanwhile is for us.
    termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, modes)
