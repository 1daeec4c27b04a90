"""Single keys, while a question is open; Escape and a quiet terminal, while an answer is."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

__all__ = [
    "BURST",
    "END",
    "ESCAPE",
    "INTERRUPT",
    "SHOW",
    "SUSPEND",
    "SWITCH_MODE",
    "KeySource",
    "TerminalKeys",
    "keep_typed_ahead",
    "quiet",
]

ESCAPE = "escape"
INTERRUPT = "c-c"
SUSPEND = "c-z"
# Shift-Tab.
SWITCH_MODE = "s-tab"
# Several keys at once: a paste, or fast typing. Neither is an answer to a question.
BURST = "burst"
# The terminal is gone.
END = "end"
# Typed as a word while a question is open: it shows the whole question.
SHOW = "/show"

# The keys with arrows and the like begin as Escape does. What follows it follows at once; after this it stands alone.
_ESCAPE_SECONDS = 0.1
# A user does not type ahead by more; what does not fit is not an answer either.
_MOST_KEYS = 64
# Typed ahead during an answer. The terminal itself holds 4,096; a paste may be longer.
_MOST_TYPED_AHEAD = 64 * 1024

_LOCAL_MODES = 3


class KeySource(Protocol):
    """A source of keys. Names are those of prompt_toolkit: `y`, `escape`, `c-c`, `enter`."""

    @contextmanager
    def listening(self) -> Iterator[bool]:
        """Discard what was typed before, then take keys. The value says whether anything was discarded."""
        ...

    async def key(self) -> str: ...


class TerminalKeys:
    """The keys of the terminal on standard input. Ctrl-Z is no key of a question: `suspend` is called."""

    def __init__(self, source: Input | None = None, *, suspend: Callable[[], None] | None = None) -> None:
        self._input = source or create_input()
        self._suspend = suspend
        self._keys: asyncio.Queue[str] = asyncio.Queue(_MOST_KEYS)
        self._flush: asyncio.TimerHandle | None = None

    @contextmanager
    def listening(self) -> Iterator[bool]:
        with self._input.raw_mode():
            forgotten = self._forget()
            with self._input.attach(lambda: self._read(self._take)):
                try:
                    yield forgotten
                finally:
                    self._stop_flushing()

    @contextmanager
    def watching(self, on_escape: Callable[[], None]) -> Iterator[None]:
        """Call `on_escape` when Escape is pressed in this block. All other keys wait for the next prompt.

        A question in this block takes the keys for itself, and discards those that wait.
        """
        if not os.isatty(self._input.fileno()):
            yield
            return

        def take(pressed: list[KeyPress]) -> None:
            if pressed and all(one.key is Keys.Escape for one in pressed):
                on_escape()
            else:
                self._type_ahead(pressed)

        with self._input.attach(lambda: self._read(take)):
            try:
                yield
            finally:
                self._stop_flushing()
                # The beginning of a key that is not there yet. The rest alone would be taken for text.
                self._input.flush_keys()

    async def key(self) -> str:
        return await self._keys.get()

    def _forget(self) -> bool:
        self._stop_flushing()
        fd = self._input.fileno()
        forgotten = bool(select.select([fd], [], [], 0)[0])
        if forgotten and os.isatty(fd):
            termios.tcflush(fd, termios.TCIFLUSH)
        while self._input.read_keys():
            forgotten = True
        self._input.flush_keys()
        if get_typeahead(self._input):
            forgotten = True
        while not self._keys.empty():
            self._keys.get_nowait()
        return forgotten

    def _type_ahead(self, pressed: list[KeyPress]) -> None:
        waiting = [*get_typeahead(self._input), *pressed]
        store_typeahead(self._input, waiting[:_MOST_TYPED_AHEAD])

    def _read(self, take: Callable[[list[KeyPress]], None]) -> None:
        self._stop_flushing()
        if pressed := self._input.read_keys():
            take(pressed)
        elif self._input.closed:
            self._put(END)
            asyncio.get_running_loop().remove_reader(self._input.fileno())
        else:
            self._flush = asyncio.get_running_loop().call_later(_ESCAPE_SECONDS, self._flushed, take)

    def _flushed(self, take: Callable[[list[KeyPress]], None]) -> None:
        self._flush = None
        take(self._input.flush_keys())

    def _stop_flushing(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None

    def _take(self, pressed: list[KeyPress]) -> None:
        match pressed:
            case []:
                pass
            case [one] if _name(one) == SUSPEND and self._suspend is not None:
                self._suspend()
            case [one]:
                self._put(_name(one))
            case _ if (typed := "".join(one.data for one in pressed)).rstrip("\r\n") == SHOW:
                # Typed so fast that it comes in one piece: the one burst that is a command.
                for one in pressed[: len(typed)]:
                    self._put(_name(one))
            case _:
                self._put(BURST)

    def _put(self, key: str) -> None:
        if not self._keys.full():
            self._keys.put_nowait(key)


def _name(pressed: KeyPress) -> str:
    return str(getattr(pressed.key, "value", pressed.key))


@contextmanager
def quiet() -> Iterator[None]:
    """The terminal on standard input without echo, so that what is typed ahead does not get into what is printed.

    It stays in the terminal's own buffer for the next reader. Ctrl-C and Ctrl-Z still are signals.
    """
    if not sys.stdin.isatty():
        yield
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    modes = termios.tcgetattr(fd)
    # Carriage returns stay what they are: Enter, typed ahead, must look to the next reader like Enter.
    modes[0] &= ~termios.ICRNL
    modes[_LOCAL_MODES] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(fd, termios.TCSANOW, modes)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)


def keep_typed_ahead(source: Input) -> None:
    """Keep for the next prompt what was typed before the terminal was `quiet`.

    Until then the terminal itself makes a line feed of Enter, which would only begin a new line: it is made Enter again.
    """
    if not os.isatty(source.fileno()):
        return
    while pressed := source.read_keys():
        store_typeahead(
            source, [KeyPress(Keys.Enter, "\r") if one.key is Keys.ControlJ else one for one in pressed]
        )
