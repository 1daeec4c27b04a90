"""The commands of the chat: `/model`, `/tools` and the others.

Each is a function from the session and the words after its name to what is shown. None of them waits for anything: what has
to wait is raised, and the chat does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from rich.console import RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from dragoman.config import ConfigError
from dragoman.frontends.terminal.command_names import ALIASES, meant
from dragoman.frontends.terminal.compacting import compact_command, how_else
from dragoman.frontends.terminal.exporting import (
    CannotExport,
    clipboard_sequence,
    last_answer,
)
from dragoman.frontends.terminal.layout import column, note, place
from dragoman.frontends.terminal.prompt import Suggestion
from dragoman.frontends.terminal.rule_views import explained_command, rule_list
from dragoman.frontends.terminal.session import ChatSession
from dragoman.frontends.terminal.steps import usage_in_words
from dragoman.lm import LanguageModelError
from dragoman.nearest import nearest
from dragoman.permissions.approvals import Approval
from dragoman.store import StoreError
from dragoman.tools.builtin.approval_words import approval_in_words
from dragoman.tools.registry import RegistryError, ToolInfo
from dragoman.visible import visible_line

__all__ = ["AgentCommand", "Commands", "Compact", "EditPrompt", "Export", "Leave", "ResetApprovals", "Resume"]

_DIM = Style(dim=True)
_BOLD = Style(bold=True)
_ERROR = Style(color="red")
_ON = ("●", Style(color="green"))
_OFF = ("○", _DIM)
_SAVE = "--save"
_OVERWRITE = "--overwrite"
_MODE = Style(color="yellow")
_ACCEPTING = (
    "Edits in this folder are made without a question, and shown. You are still asked about commands, deletions, "
    "sensitive files and all that a rule asks about. /accept-edits off, or Shift-Tab, ends it; so do /new and another /model."
)
_LONGEST_NUMBER = 3


class Leave(Exception):
    """The user leaves the chat."""


class Resume(Exception):
    """The user goes on with a stored chat: one whose id begins so, or one to choose."""

    def __init__(self, wanted: str | None) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class EditPrompt(Exception):
    """The user writes the next prompt in an editor, beginning with this text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class AgentCommand(Exception):
    """The command is one of the agent's: this prompt runs it."""

    def __init__(self, prompt: str) -> None:
        super().__init__(prompt)
        self.prompt = prompt


class Compact(Exception):
    """The model is to make its context shorter."""


class Export(Exception):
    """The user wants the chat in a file: in this one, or in a new one."""

    def __init__(self, wanted: str | None, *, overwrite: bool) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.overwrite = overwrite


class ResetApprovals(Exception):
    """The user takes back all approvals, and is asked first. There are so many."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


class _Misuse(Exception):
    """A command that cannot be carried out, and what to type instead."""


_Run: TypeAlias = Callable[[list[str]], RenderableType]


@dataclass(frozen=True, slots=True)
class _Command:
    usage: str
    about: str
    run: _Run
    # What may stand after the name, for completion.
    complete: Callable[[list[str]], Iterable[Suggestion]] = lambda _words: ()
    # Whether all behind the first word stays one text, to the letter.
    takes_text: bool = False


class Commands:
    """`toggle_thinking` says whether thinking is shown in full from now on; `folded` has what was shown in part.

    `control` sends a sequence to the terminal.
    """

    def __init__(
        self,
        session: ChatSession,
        *,
        toggle_thinking: Callable[[], bool],
        control: Callable[[str], None] = lambda _sequence: None,
        folded: Callable[[int], RenderableType | None] = lambda _which: None,
    ) -> None:
        self._session = session
        self._control = control
        self._toggle_thinking = toggle_thinking
        self._folded = folded
        self._all = {
            "model": _Command(
                "[NAME] [--save]", "list the models, or go on with another", self._model, self._complete_model
            ),
            "tools": _Command(
                "[on|off NAME [--save]]",
                "list the tools, or choose among them",
                self._tools,
                self._complete_tools,
            ),
            "approvals": _Command(
                "[revoke ID|reset]",
                "what needs no question any more",
                self._approvals,
                self._complete_approvals,
            ),
            "accept-edits": _Command(
                "[on|off]",
                "make edits in this folder without a question, or ask again",
                self._accept_edits,
                lambda words: () if words else [("on", "make edits here"), ("off", "ask about each")],
            ),
            "policy": _Command(
                "[explain COMMAND]",
                "the rules that decide before you are asked",
                self._policy,
                lambda words: () if words else [("explain", "what would happen to a command")],
                takes_text=True,
            ),
            "thinking": _Command("", "show thinking in full, or folded", self._thinking),
            "last": _Command("[N]", "all of an output or a change that was shown in part", self._last),
            "usage": _Command("", "how full the context is, and what it took", self._usage),
            "compact": _Command("[HINT]", "make a long context shorter", self._compact, takes_text=True),
            "edit": _Command("[TEXT]", "write the prompt in your editor", self._edit, takes_text=True),
            "export": _Command(
                "[FILE]", "write the conversation to a Markdown file", self._export, takes_text=True
            ),
            "copy": _Command("", "copy the last answer", self._copy),
            "new": _Command("", "start a new conversation", self._new),
            "resume": _Command("[ID]", "go on with an earlier chat of this folder", self._resume),
            "help": _Command("", "this list", self._help),
            "quit": _Command("", "leave", self._quit),
        }

    def run(self, line: str) -> RenderableType:
        """Run a line that begins with `/`, and return what to print."""
        name, rest = (*line[1:].split(maxsplit=1), "", "")[:2]
        command = self._all.get(meant(name))
        if command is None and name in {each.name for each in self._session.agent_commands}:
            raise AgentCommand(line)
        if command is None:
            near = nearest(name, [*self._all, *ALIASES])
            hint = f" Did you mean /{meant(near)}?" if near else ""
            return note("✗", f"There is no /{visible_line(name)}.{hint} /help lists them.", _ERROR)
        try:
            return command.run(rest.split(maxsplit=1) if command.takes_text else rest.split())
        except (_Misuse, CannotExport, RegistryError, ConfigError, LanguageModelError, StoreError) as problem:
            return note("✗", visible_line(_sentence(problem)), _ERROR)

    def suggest(self, before: str) -> Iterable[Suggestion]:
        """What the last word before the cursor could become: a command, what follows one, or a tool."""
        words = before.split(" ")
        if before.startswith("/"):
            if len(words) == 1:
                # A name from another tool is completed if it is typed, but it is not in the list.
                other = [(f"/{name}", f"the same as /{command}") for name, command in ALIASES.items()]
                own = [(f"/{name}", it.about) for name, it in self._all.items()]
                own += [
                    (f"/{each.name}", visible_line(each.description))
                    for each in self._session.agent_commands
                    if meant(each.name) not in self._all
                ]
                return [each for each in own if each[0].startswith(before)] or [
                    each for each in other if each[0].startswith(before)
                ]
            command = self._all.get(meant(words[0][1:]))
            found = command.complete(words[1:-1]) if command else ()
            return [(text, about) for text, about in found if text.startswith(words[-1])]
        if words[-1].startswith("#"):
            return [
                (f"#{info.reference_name}", info.display_name)
                for info in self._session.registry.available()
                if info.reference_name is not None and f"#{info.reference_name}".startswith(words[-1])
            ]
        return ()

    # --- /model ------------------------------------------------------------------------------------------------------

    def _model(self, words: list[str]) -> RenderableType:
        match words:
            case []:
                rows = [(_on(name == self._session.model_name), Text(name)) for name in self._session.models]
                return _table(rows)
            case [name] if name != _SAVE:
                return note("●", self._go_on_with(name))
            case [name, option] if option == _SAVE:
                said = self._go_on_with(name)
                return note("●", f"{said} {_saved(self._session.save_model())}")
            case [option] if option == _SAVE:
                return note("●", _saved(self._session.save_model()))
            case _:
                raise _Misuse("Name one model: /model NAME, or /model NAME --save for later chats, too.")

    def _go_on_with(self, name: str) -> str:
        accepted = self._session.accepts_edits
        self._session.use(name)
        ended = accepted and not self._session.accepts_edits
        said = f"Going on with {visible_line(self._session.model.info.name)}."
        return f"{said} You are asked about every edit again." if ended else said

    def _complete_model(self, words: list[str]) -> Iterable[Suggestion]:
        match words:
            case []:
                return [(name, "") for name in self._session.models]
            case [_]:
                return [(_SAVE, "also for later chats")]
            case _:
                return ()

    # --- /tools ------------------------------------------------------------------------------------------------------

    def _tools(self, words: list[str]) -> RenderableType:
        registry = self._session.registry
        match words:
            case []:
                offered = {info.name for info in registry.tools()}
                rows = [
                    (
                        _on(info.name in offered),
                        Text(info.name, _BOLD),
                        Text(f"#{info.reference_name}" if info.reference_name else "", _DIM),
                        Text("" if info.read_only else "asks first", _DIM),
                        Text(visible_line(info.user_description or ""), _DIM),
                    )
                    for info in self._choosable()
                ]
                return _table(rows) if rows else note("○", "There are no tools here.")
            case ["on", name, *options] if options in ([], [_SAVE]):
                registry.select(name)
                saved = f" {_saved(self._session.save_tool(name, is_on=True))}" if options else ""
                return note("●", f"{visible_line(name)} is offered.{saved}")
            case ["off", name, *options] if options in ([], [_SAVE]):
                registry.deselect(name)
                saved = f" {_saved(self._session.save_tool(name, is_on=False))}" if options else ""
                return note(
                    "○", f"{visible_line(name)} is not offered any more, unless a prompt names it.{saved}"
                )
            case _:
                raise _Misuse(
                    "Type /tools, /tools on NAME or /tools off NAME; with --save for later chats, too."
                )

    def _choosable(self) -> list[ToolInfo]:
        """The tools that the user may select and deselect: all but those that carry an agent's permission requests."""
        from dragoman.permissions.action import is_permission_tool  # noqa: PLC0415 - agents only

        return [info for info in self._session.registry.available() if not is_permission_tool(info.name)]

    def _complete_tools(self, words: list[str]) -> Iterable[Suggestion]:
        match words:
            case []:
                return [("on", "offer a tool"), ("off", "offer a tool no longer")]
            case ["on" | "off"]:
                return [(info.name, info.user_description or info.display_name) for info in self._choosable()]
            case ["on" | "off", _]:
                return [(_SAVE, "also for later chats")]
            case _:
                return ()

    # --- /approvals --------------------------------------------------------------------------------------------------

    def _approvals(self, words: list[str]) -> RenderableType:
        approvals = self._session.approvals
        granted = approvals.list()
        match words:
            case [] | ["reset"] if not granted:
                return note("○", "Nothing is approved: every tool that changes something asks.")
            case []:
                return _table((Text(each.id, _BOLD), self._approval(each)) for each in granted)
            case ["revoke", id_]:
                if not approvals.revoke(id_):
                    raise _Misuse(f'There is no approval "{visible_line(id_)}". /approvals lists them.')
                return note("○", f"Approval {visible_line(id_)} is taken back.")
            case ["reset"]:
                raise ResetApprovals(len(granted))
            case _:
                raise _Misuse("Type /approvals, /approvals revoke ID or /approvals reset.")

    def _approval(self, approval: Approval) -> Text:
        """An approval as its question said it; below, for whom it is, where, and since when."""
        words = approval_in_words(approval)
        since = approval.granted_at.astimezone().strftime("%Y-%m-%d %H:%M")
        text = Text(visible_line(words.what), overflow="fold")
        return text.append(f"\n{visible_line(words.agent)} · {self._reach(approval)} · {since}", _DIM)

    def _reach(self, approval: Approval) -> str:
        """The scope of an approval: the list also has those for other folders."""
        here = [str(folder.resolve()) for folder in self._session.workspace[:1]]
        match approval.level:
            case "always":
                return "always"
            case "workspace" if approval.workspace not in here:
                return f"in {visible_line(place(approval.workspace or ''))}"
            case level:
                return f"this {level}"

    def _complete_approvals(self, words: list[str]) -> Iterable[Suggestion]:
        match words:
            case []:
                return [("revoke", "take one back"), ("reset", "take all back")]
            case ["revoke"]:
                return [
                    (each.id, visible_line(approval_in_words(each).what))
                    for each in self._session.approvals.list()
                ]
            case _:
                return ()

    # --- /policy -----------------------------------------------------------------------------------------------------

    def _policy(self, words: list[str]) -> RenderableType:
        match words:
            case []:
                return rule_list(self._session.rules)
            case ["explain", line]:
                return explained_command(self._session, line.strip())
            case _:
                raise _Misuse("Type /policy, or /policy explain COMMAND.")

    # --- The small ones. ---------------------------------------------------------------------------------------------

    def _thinking(self, words: list[str]) -> RenderableType:
        _no_words(words, "/thinking")
        return note("✻", "Thinking is shown in full." if self._toggle_thinking() else "Thinking is folded.")

    def _accept_edits(self, words: list[str]) -> RenderableType:
        match words:
            case []:
                pass
            case ["on" | "off" as wanted]:
                self._session.accept_edits(on=wanted == "on")
            case _:
                raise _Misuse("Type /accept-edits on or /accept-edits off.")
        if not self._session.accepts_edits:
            return note("○", "You are asked about every edit. /accept-edits on, or Shift-Tab, changes that.")
        return note("●", _ACCEPTING, _MODE)

    def _last(self, words: list[str]) -> RenderableType:
        match words:
            case []:
                which = 1
            case [number] if number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER:
                which = int(number)
            case _:
                raise _Misuse("Type /last, or /last 2 for the one before.")
        shown = self._folded(which)
        return shown if shown is not None else note("○", "Nothing was shown in part so far.")

    def _usage(self, words: list[str]) -> RenderableType:
        _no_words(words, "/usage")
        usage = self._session.usage
        known = usage_in_words(usage) if usage is not None else ""
        return note("●", f"{known[:1].upper()}{known[1:]}." if known else "The model has not said.")

    def _compact(self, words: list[str]) -> RenderableType:
        if not self._session.messages:
            raise _Misuse("Nothing has been said yet.")
        if not self._session.is_agent:
            raise Compact
        command = compact_command(each.name for each in self._session.agent_commands)
        if command is None:
            raise _Misuse(how_else(self._session.model.info.name))
        raise AgentCommand(" ".join([f"/{command}", *words]))

    def _edit(self, words: list[str]) -> RenderableType:
        raise EditPrompt(" ".join(words))

    def _export(self, words: list[str]) -> RenderableType:
        if not self._session.messages:
            raise _Misuse("Nothing has been said yet.")
        overwrite = words[:1] == [_OVERWRITE]
        wanted = " ".join(words[1:] if overwrite else words).strip() or None
        if overwrite and wanted is None:
            raise _Misuse("Name the file to replace: /export --overwrite FILE")
        raise Export(wanted, overwrite=overwrite)

    def _copy(self, words: list[str]) -> RenderableType:
        _no_words(words, "/copy")
        answer = last_answer(self._session.messages)
        if not answer:
            raise _Misuse("There is no answer to copy yet.")
        self._control(clipboard_sequence(answer))
        said = f"Sent {len(answer):,} characters to the clipboard, if your terminal takes them (OSC 52)."
        return note("●", said)

    def _new(self, words: list[str]) -> RenderableType:
        _no_words(words, "/new")
        self._session.start_over()
        return note("●", "A new conversation.")

    def _resume(self, words: list[str]) -> RenderableType:
        match words:
            case []:
                raise Resume(None)
            case [wanted]:
                raise Resume(wanted)
            case _:
                raise _Misuse("Name one chat: /resume ID")

    def _quit(self, words: list[str]) -> RenderableType:
        _no_words(words, "/quit")
        raise Leave

    def _help(self, words: list[str]) -> RenderableType:
        _no_words(words, "/help")
        rows = [
            (Text(f"/{name}", _BOLD), Text(command.usage), Text(command.about, _DIM))
            for name, command in self._all.items()
        ]
        keys = [
            (Text("Enter", _BOLD), Text(), Text("send; Alt-Enter begins a new line", _DIM)),
            (Text("Esc", _BOLD), Text(), Text("stop the answer; Ctrl-C twice, or Ctrl-D: leave", _DIM)),
            (Text("Shift-Tab", _BOLD), Text(), Text("accept edits in this folder, or ask again", _DIM)),
            (Text("Ctrl-G", _BOLD), Text(), Text("write the prompt in your editor", _DIM)),
            (Text("@path", _BOLD), Text(), Text("send a file or a picture along; Tab completes", _DIM)),
            (Text("#name", _BOLD), Text(), Text("offer a tool by name; Tab completes", _DIM)),
        ]
        return _table(rows + keys)


def _saved(file: Path) -> str:
    return f"Saved for later chats in {visible_line(place(file))}"


def _no_words(words: list[str], command: str) -> None:
    if words:
        raise _Misuse(f"{command} takes nothing after its name.")


def _sentence(problem: Exception) -> str:
    return problem.sentence if isinstance(problem, LanguageModelError) else str(problem)


def _on(is_on: bool) -> Text:  # noqa: FBT001 - its name says what it is
    mark, style = _ON if is_on else _OFF
    return Text(mark, style)


def _table(rows: Iterable[tuple[Text, ...]]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    return column(table)
