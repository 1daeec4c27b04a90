"""The input line: history, several lines, completion of commands and of tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, to_filter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.output.plain_text import PlainTextOutput
from prompt_toolkit.styles import Style

from dragoman.frontends.terminal.interrupts import Interrupts
from dragoman.frontends.terminal.keys import keep_typed_ahead
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.status import StatusPart
from dragoman.store import private_folder

__all__ = ["CONTINUATION", "MARK", "REASON_MARK", "PromptInterrupted", "PromptLine", "Suggestion"]

MARK = "❯ "
CONTINUATION = "… "
REASON_MARK = "  Why not? (Enter for no reason) "
_HISTORY_FILE = "prompts"
_PRIVATE_FILE = 0o600
# Some thousands of prompts: more than a user scrolls back to.
_HISTORY_BYTES = 1024 * 1024
_MENU_ROWS = 6

_STYLE = Style.from_dict(
    {
        "mark": "ansicyan bold",
        "question": "bold",
        # Not bright black: in some palettes that is the background.
        "bottom-toolbar": "noreverse dim",
        "bottom-toolbar.model": "nodim ansicyan",
        "bottom-toolbar.mode": "nodim reverse",
    }
)

# What could stand instead of the word before the cursor, and what it is.
Suggestion = tuple[str, str]


class PromptInterrupted(Exception):
    """Ctrl-C: at a question once, at the prompt twice."""


class PromptLine:
    """The input line for prompts and reasons.

    `suggest` is given the text before the cursor, and answers with what its last word could become; `toolbar` has the
    parts of the line below that fit into a width; `switch_mode` is what Shift-Tab does.
    """

    def __init__(
        self,
        screen: Screen,
        interrupts: Interrupts,
        *,
        state_dir: Path | None = None,
        suggest: Callable[[str], Iterable[Suggestion]] = lambda _before: (),
        toolbar: Callable[[int], Sequence[StatusPart]] = lambda _width: (),
        switch_mode: Callable[[], object] = lambda: None,
        source: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._screen = screen
        self._interrupts = interrupts
        self._suggest = suggest
        self._toolbar = toolbar
        self._switch_mode = switch_mode
        self._hint = ""
        self._was_read = False
        if output is None and self._is_dumb:
            # The library shows the cursor with a control sequence, which such a terminal prints.
            output = PlainTextOutput(sys.stdout)
        self._session: PromptSession[str] = PromptSession(
            history=_history(state_dir),
            completer=_Completer(suggest),
            complete_while_typing=Condition(self._is_completing),
            multiline=True,
            prompt_continuation=FormattedText([("class:mark", CONTINUATION)]),
            key_bindings=self._bindings(),
            bottom_toolbar=self._bottom,
            reserve_space_for_menu=_MENU_ROWS,
            style=_STYLE,
            input=source,
            output=output,
        )
        self._session.default_buffer.on_text_changed += self._forget_hint
        # The toolbar stands below what is typed, not at the far end of an empty screen.
        for window in self._session.layout.find_all_windows():
            window.dont_extend_height = to_filter(True)  # noqa: FBT003 - the library's own way to say so
        self._reasons: PromptSession[str] = PromptSession(
            history=InMemoryHistory(),
            key_bindings=_reason_bindings(),
            interrupt_exception=PromptInterrupted,
            style=_STYLE,
            input=source,
            output=output,
        )

    async def read(self) -> str | None:
        """Read a prompt; None when the user leaves with Ctrl-D. `PromptInterrupted` after Ctrl-C twice."""
        self._hint = ""
        if not self._was_read:
            self._was_read = True
            keep_typed_ahead(self._session.input)
        try:
            with self._screen.lend():
                return await self._session.prompt_async(self._mark(), handle_sigint=False)
        except EOFError:
            return None

    async def read_reason(self) -> str | None:
        """Read a line; None if it is empty. `PromptInterrupted` after Ctrl-C."""
        try:
            with self._screen.lend():
                text = await self._reasons.prompt_async(
                    FormattedText([("class:question", REASON_MARK)]), handle_sigint=False
                )
        except EOFError:
            return None
        return text.strip() or None

    @property
    def _is_dumb(self) -> bool:
        return self._screen.console.is_dumb_terminal

    def _mark(self) -> FormattedText:
        """The mark before what is typed. Without a status line, the mode stands before it."""
        parts = self._toolbar(self._session.output.get_size().columns) if self._is_dumb else ()
        mode = "".join(f"{part.text} " for part in parts if part.kind == "mode")
        return FormattedText([("class:mark", f"{mode}{MARK}")])

    def _forget_hint(self, _buffer: Buffer) -> None:
        self._hint = ""

    def _is_completing(self) -> bool:
        """Whether there is something to complete: only then a menu needs room."""
        return any(True for _ in self._suggest(self._session.default_buffer.document.text_before_cursor))

    def _bottom(self) -> FormattedText:
        if self._hint:
            return FormattedText([("class:bottom-toolbar", self._hint)])
        parts = self._toolbar(self._session.output.get_size().columns)
        line: list[tuple[str, str]] = []
        for part in parts:
            line += [("class:bottom-toolbar", " · "), (f"class:bottom-toolbar.{part.kind}", part.text)]
        return FormattedText(line[1:])

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()

        @bindings.add("enter")
        def send(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        # Alt-Enter arrives as Escape and Enter; some terminals send a line feed for Shift- or Ctrl-Enter.
        @bindings.add("escape", "enter")
        @bindings.add("c-j")
        def break_line(event: KeyPressEvent) -> None:
            event.current_buffer.newline(copy_margin=False)

        @bindings.add("c-c")
        def interrupt(event: KeyPressEvent) -> None:
            if self._interrupts.press():
                event.app.exit(exception=PromptInterrupted())
                return
            event.current_buffer.reset()
            self._hint = "Ctrl-C again leaves"

        # While completions are shown, it goes to the one before.
        # A terminal that cannot draw a status line would not show the switch: there is a command for it.
        @bindings.add("s-tab", filter=~has_completions & Condition(lambda: not self._is_dumb))
        def switch_mode(event: KeyPressEvent) -> None:
            self._switch_mode()
            event.app.invalidate()

        @bindings.add("c-d")
        def leave(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.delete()
            else:
                event.app.exit(exception=EOFError())

        return bindings


def _reason_bindings() -> KeyBindings:
    bindings = KeyBindings()

    # Eager: no key that begins with Escape has a meaning here.
    @bindings.add("escape", eager=True)
    def none(event: KeyPressEvent) -> None:
        event.current_buffer.reset()
        event.current_buffer.validate_and_handle()

    return bindings


class _Completer(Completer):
    def __init__(self, suggest: Callable[[str], Iterable[Suggestion]]) -> None:
        self._suggest = suggest

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        before = document.text_before_cursor
        word = before.split()[-1] if before and not before[-1].isspace() else ""
        for text, about in self._suggest(before):
            yield Completion(text, start_position=-len(word), display_meta=about)


def _history(state_dir: Path | None) -> History:
    if state_dir is None:
        return InMemoryHistory()
    path = state_dir / _HISTORY_FILE
    try:
        private_folder(state_dir)
        _shorten(path)
        # Prompts are private: the file is created before the library would create it readable for all users.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, _PRIVATE_FILE))
        path.chmod(_PRIVATE_FILE)
    except OSError:
        # A folder that cannot be written costs the history, not the chat.
        return InMemoryHistory()
    return FileHistory(str(path))


def _shorten(path: Path) -> None:
    """Delete the older half of a history that has grown too long."""
    if not path.exists() or path.stat().st_size <= _HISTORY_BYTES:
        return
    newest = path.read_bytes()[-_HISTORY_BYTES // 2 :]
    # Entries begin with an empty line and a comment.
    path.write_bytes(newest[max(0, newest.find(b"\n\n# ")) :])
