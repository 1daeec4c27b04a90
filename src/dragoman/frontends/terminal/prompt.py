"""The input line: history, several lines, the user's editor, completion of commands, tools and files."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, to_filter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.output.plain_text import PlainTextOutput
from prompt_toolkit.styles import Style

from dragoman.frontends.terminal.editor import CannotEdit, edited
from dragoman.frontends.terminal.interrupts import Interrupts
from dragoman.frontends.terminal.keys import keep_typed_ahead
from dragoman.frontends.terminal.mentions import begun_mention, written
from dragoman.frontends.terminal.prompt_history import prompt_history
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.status import StatusPart
from dragoman.frontends.terminal.suspension import Suspension
from dragoman.visible import visible_line

__all__ = ["CONTINUATION", "MARK", "REASON_MARK", "PromptInterrupted", "PromptLine", "Suggestion"]

MARK = "❯ "
CONTINUATION = "… "
REASON_MARK = "  Why not? (Enter for no reason) "
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

    `suggest` is given the text before the cursor, and answers with what its last word could become; `files` is given the
    beginning of a path, and answers with paths, in a thread. The arrow keys recall the prompts that `is_recalled`
    accepts. `toolbar` has the parts of the line below that fit into a width; `switch_mode` is what Shift-Tab does.
    """

    def __init__(
        self,
        screen: Screen,
        interrupts: Interrupts,
        *,
        state_dir: Path | None = None,
        suggest: Callable[[str], Iterable[Suggestion]] = lambda _before: (),
        files: Callable[[str], Iterable[str]] | None = None,
        is_recalled: Callable[[str], bool] = lambda _prompt: True,
        suspension: Suspension | None = None,
        toolbar: Callable[[int], Sequence[StatusPart]] = lambda _width: (),
        switch_mode: Callable[[], object] = lambda: None,
        source: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._screen = screen
        self._interrupts = interrupts
        self._suggest = suggest
        self._files = files
        self._suspension = suspension or Suspension(screen)
        self._toolbar = toolbar
        # What the next prompt begins with, in the editor.
        self._draft: str | None = None
        self._switch_mode = switch_mode
        self._hint = ""
        self._was_read = False
        if output is None and self._is_dumb:
            # The library shows the cursor with a control sequence, which such a terminal prints.
            output = PlainTextOutput(sys.stdout)
        self._session: PromptSession[str] = PromptSession(
            history=prompt_history(state_dir, is_recalled),
            completer=_Completer(suggest, files),
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
        self._session.default_buffer.on_text_changed += self._on_typing
        # The toolbar stands below what is typed, not at the far end of an empty screen.
        for window in self._session.layout.find_all_windows():
            window.dont_extend_height = to_filter(True)  # noqa: FBT003 - the library's own way to say so
        self._reasons: PromptSession[str] = PromptSession(
            history=InMemoryHistory(),
            key_bindings=_reason_bindings(self._suspension),
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
        draft, self._draft = self._draft, None
        try:
            with self._screen.lend():
                return await self._session.prompt_async(
                    self._mark(),
                    default=draft or "",
                    pre_run=None if draft is None else self._open_editor,
                    handle_sigint=False,
                )
        except EOFError:
            return None

    def edit_next(self, draft: str) -> None:
        """Begin the next prompt in the user's editor."""
        self._draft = draft

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

    def _on_typing(self, _buffer: Buffer) -> None:
        self._hint = ""
        # A Ctrl-C that cleared the line was not the first of two: the user goes on.
        self._interrupts.forget()

    def _is_completing(self) -> bool:
        """Whether there is something to complete: only then a menu needs room."""
        before = self._session.default_buffer.document.text_before_cursor
        if self._files is not None and begun_mention(before) is not None:
            return True
        return any(True for _ in self._suggest(before))

    def _open_editor(self) -> None:
        get_app().create_background_task(self._edit(self._session.default_buffer))

    async def _edit(self, buffer: Buffer) -> None:
        """Open the prompt in the editor. What comes back is in the line; the user sends it."""
        try:
            # Ctrl-C and Ctrl-Z are the editor's meanwhile.
            with self._interrupts.paused(), self._suspension.lent():
                text = await run_in_terminal(lambda: edited(buffer.text), in_executor=True)
        except CannotEdit as problem:
            self._hint = visible_line(str(problem))
            get_app().invalidate()
        else:
            buffer.document = Document(text, len(text))

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

        @bindings.add("c-z")
        def suspend(_event: KeyPressEvent) -> None:
            run_in_terminal(self._suspension.suspend)

        @bindings.add("c-g")
        @bindings.add("c-x", "c-e")
        def edit(_event: KeyPressEvent) -> None:
            self._open_editor()

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


def _reason_bindings(suspension: Suspension) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("c-z")
    def suspend(_event: KeyPressEvent) -> None:
        run_in_terminal(suspension.suspend)

    # Eager: no key that begins with Escape has a meaning here.
    @bindings.add("escape", eager=True)
    def none(event: KeyPressEvent) -> None:
        event.current_buffer.reset()
        event.current_buffer.validate_and_handle()

    return bindings


class _Completer(Completer):
    def __init__(
        self,
        suggest: Callable[[str], Iterable[Suggestion]],
        files: Callable[[str], Iterable[str]] | None,
    ) -> None:
        self._suggest = suggest
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        before = document.text_before_cursor
        word = before.split()[-1] if before and not before[-1].isspace() else ""
        for text, about in self._suggest(before):
            yield Completion(text, start_position=-len(word), display_meta=about)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        begun, files = begun_mention(document.text_before_cursor), self._files
        if files is None or begun is None:
            for completion in self.get_completions(document, complete_event):
                yield completion
            return
        # A folder on a slow disk does not hold up what is typed.
        for path in await asyncio.to_thread(lambda: list(files(begun.path))):
            yield Completion(written(path), start_position=-begun.length, display=visible_line(path))
