"""The question about an action: everything the agent sent, in labelled sections.

Front ends lay a question out, as Markdown (an editor, a terminal, an HTTP client), as plain text (a modal dialog) or as data
(the console). They build nothing: all forms come from the same sections. A section that is too long is shown from both ends with the
number of characters left out; `Question.whole` has all of it. A field of the input is left out only where its value
stands above already, to the letter.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby

from dragoman.diffs import changed_lines
from dragoman.lm import JsonObject, gfm
from dragoman.lm.json import pretty
from dragoman.permissions.action import Action, OtherContent, TextContent, ToolClass
from dragoman.permissions.decide import Ask
from dragoman.permissions.fields import (
    ARGUMENTS,
    COMMANDS,
    CONTENTS,
    ENVIRONMENTS,
    FOLDERS,
    PATHS,
    URLS,
    plain_name,
)
from dragoman.permissions.keys import approval_key, covered
from dragoman.permissions.layout import (
    LINE_WIDTH,
    broken,
    from_both_ends,
    in_short,
    on_one_line,
    shown_exactly,
)

__all__ = ["WANTS", "ActionQuestion", "ShownSection", "in_one_line", "question_about", "what_in_one_line"]

# The requested action as a verb, after the agent's name.
WANTS: dict[ToolClass, str] = {
    "read": "read",
    "edit": "change files",
    "delete": "delete or move files",
    "execute": "run a command",
    "fetch": "fetch from the network",
    "other": "do this",
    "sensitive": "do something sensitive",
}
# A person reads a screen, not a file: so many characters of a section.
_SECTION = 4_000
_CHANGE = 12_000
# With many files each gets a smaller share, but some of its lines.
_ALL_CHANGES = 48_000
_SMALLEST_CHANGE = 400
_LISTED = 100
_ONE_LINE = 200
# A field is spelled in one way, or in a few.
_MOST_SPELLINGS = 8
_NO_SUBSTANCE = (
    "The request does not say what it would do, only what it is called. So it can be allowed once, or denied."
)


@dataclass(frozen=True, slots=True)
class _Section:
    """`text` is as the agent sent it; `label` and `note` are ours."""

    label: str
    text: str = ""
    language: str = ""
    note: str = ""
    limit: int = _SECTION
    # A short text, beside its label.
    is_inline: bool = False
    # Ours, and read as a sentence: its lines break between words.
    is_sentence: bool = False


@dataclass(frozen=True, slots=True)
class ShownSection:
    """A section as data. Everything in `text` that would leave no mark is shown, as in the other forms."""

    label: str
    text: str
    language: str
    note: str
    # A short text, beside its label. It has no line breaks unless something was left out of it.
    is_inline: bool


@dataclass(frozen=True)
class ActionQuestion:
    """What a person is asked about an action."""

    title: str
    # Markdown that shows and does nothing else; the same as plain text.
    message: str
    plain: str
    # What a lasting yes would cover, in words; None: there is no lasting yes for this.
    covers: str | None
    is_cut: bool
    _sections: tuple[_Section, ...]
    _spaced: bool

    @cached_property
    def whole(self) -> str:
        """All of it as Markdown, where the message leaves something out; else the message."""
        return _markdown(self._sections, cut=False, spaced=self._spaced) if self.is_cut else self.message

    def sections(self, *, cut: bool) -> tuple[ShownSection, ...]:
        """The sections without Markdown and without breaks in long lines: for a page that breaks lines itself."""
        return tuple(
            ShownSection(
                section.label,
                _visible(section, cut=cut, lay_out=_unbroken),
                section.language,
                section.note,
                section.is_inline,
            )
            for section in self._sections
        )


def question_about(action: Action, ask: Ask | None = None, *, spaced: bool = False) -> ActionQuestion:
    """`ask` is why the person is asked. `spaced` is for VS Code: every text in a block that ends with an empty line."""
    ask = ask or Ask()
    sections = tuple(_sections(action, ask))
    is_lasting = action.sensitive is None and action.has_substance and not ask.once
    return ActionQuestion(
        _title(action),
        _markdown(sections, cut=True, spaced=spaced),
        _plain(sections),
        covered(approval_key(action)) if is_lasting else None,
        any(len(section.text) > section.limit for section in sections),
        sections,
        spaced,
    )


def in_one_line(action: Action, verb: str = "wants to") -> str:
    """The agent and its request on one line, for a record of the question."""
    return f"{in_short(action.agent_name, _ONE_LINE)} {verb} {what_in_one_line(action)}"


def what_in_one_line(action: Action) -> str:
    """The request alone: a verb, and what it is about."""
    what = action.title if action.command is None else action.command
    wants = WANTS[action.risk] if action.command is None else "run"
    return f"{wants}: {in_short(what, _ONE_LINE)}"


def _title(action: Action) -> str:
    name = in_short(action.agent_name, _ONE_LINE)
    if action.sensitive is not None:
        return f"{name} wants to {WANTS[action.risk]} (sensitive: {in_short(action.sensitive, _ONE_LINE)})"
    if action.command is not None:
        # The agent's title is not what runs: the command stands below, to the letter.
        return f"{name} wants to run a command"
    return f"{name} wants to {WANTS[action.risk]}: {in_short(action.title, _ONE_LINE)}"


# Sections.


def _sections(action: Action, ask: Ask) -> Iterator[_Section]:
    if ask.because is not None:
        yield _Section("A rule, so you are asked", ask.because, "text", is_sentence=True)
    if action.sensitive is not None:
        yield _Section("Sensitive, so asked about every time", action.sensitive, "text")
    if not action.has_substance:
        yield _Section("Caution", note=_NO_SUBSTANCE)
    if action.command is not None:
        yield _Section("Command", action.command, "sh")
    yield from _changes(action)
    yield from _words(action)
    yield from _targets(action)
    if action.environment is not None:
        yield _Section("Environment", pretty(action.environment), "json")
    if rest := _rest(action):
        yield _Section("Input", pretty(rest), "json")
    for block in action.content:
        if isinstance(block, OtherContent):
            yield _Section("Also shown by the agent", pretty(block.value), "json")
    if action.extra:
        yield _Section("Also sent by the agent", pretty(action.extra), "json")
    if action.meta:
        yield _Section("Metadata", pretty(action.meta), "json")
    is_elsewhere = not action.is_inside and action.risk != "fetch"
    note = "(not all of this lies inside the workspace)" if is_elsewhere else ""
    yield _Section("Folder", action.folder, note=note, is_inline=True)
    yield _Section("Agent", f"{action.agent_name} ({action.agent})", is_inline=True)
    if action.tool is not None:
        yield _Section("Tool", action.tool, is_inline=True)
    is_in_title = action.command is None and action.sensitive is None and len(action.title) <= _ONE_LINE
    if not is_in_title and action.title not in (action.command, action.tool):
        yield _Section("Title by the agent", action.title, is_inline=True)
    if action.kind not in (action.risk, "other"):
        yield _Section("Kind, says the agent", action.kind, is_inline=True)


def _changes(action: Action) -> Iterator[_Section]:
    diffs = action.diffs
    limit = max(_SMALLEST_CHANGE, min(_CHANGE, _ALL_CHANGES // len(diffs))) if diffs else 0
    for diff in diffs:
        kind = "New file" if diff.old is None else "Change to"
        if lines := "\n".join(changed_lines(diff.old, diff.new)):
            yield _Section(kind, diff.path, is_inline=True)
            yield _Section("", lines, "diff", limit=limit)
        else:
            note = "It would be empty." if diff.old is None else "Nothing in it would change."
            yield _Section(kind, diff.path, note=note, is_inline=True)


def _words(action: Action) -> Iterator[_Section]:
    for block in action.content:
        if (
            isinstance(block, TextContent)
            and block.text.strip()
            and block.text not in (action.title, action.command)
        ):
            yield _Section("The agent says", block.text, "text")


def _targets(action: Action) -> Iterator[_Section]:
    """Files and addresses that stand nowhere else: those of a change and the folder have a place."""
    has_place = {action.folder, *(diff.path for diff in action.diffs)}
    at_line = [place for place in action.locations if place.line is not None]
    has_place |= {place.path for place in at_line}
    files = [f"{place.path}, line {place.line}" for place in at_line]
    files += [path for path in action.paths if path not in has_place]
    for label, found in (("File", files), ("Address", list(action.urls))):
        if len(found) <= _LISTED:
            yield from (_Section(label, each, is_inline=True) for each in found)
        else:
            text = "\n".join(each.replace("\n", "␊") for each in found)
            yield _Section(f"{len(found):,} {label.lower()}s", text, "text")


def _rest(action: Action) -> object:
    """The input without the fields that are shown above, to the letter: each by its own name, never by its value."""
    raw = action.input
    if raw in (None, {}):
        return None
    if not isinstance(raw, dict):
        return {"input": raw}
    hidden = set(_command_fields(action, raw))
    files = [path for path in action.paths if path != action.folder]
    shown_paths = {diff.path for diff in action.diffs} | ({files[0]} if len(files) == 1 else set())
    written = {text for diff in action.diffs for text in (diff.old, diff.new)}
    for name, value in raw.items():
        plain = plain_name(name)
        if (
            isinstance(value, str)
            and (
                (plain in FOLDERS and value == action.folder)
                or (plain in PATHS and value in shown_paths)
                or (plain in URLS and action.urls == (value,))
                or (plain in CONTENTS and value in written)
            )
        ) or (plain in ENVIRONMENTS and value is action.environment and value is not None):
            hidden.add(name)
    return {name: value for name, value in raw.items() if name not in hidden}


def _command_fields(action: Action, raw: JsonObject) -> Iterator[str]:
    """The fields that the command is made of, if it is made of nothing else: one of them, or a program and its arguments."""
    vectors = {
        name: value
        for name, value in raw.items()
        if isinstance(value, list) and all(isinstance(each, str) for each in value)
    }
    arguments = [name for name in vectors if plain_name(name) in ARGUMENTS][:_MOST_SPELLINGS]
    for name in [name for name in raw if plain_name(name) in COMMANDS][:_MOST_SPELLINGS]:
        value = raw[name]
        if value == action.command or (name in vectors and shlex.join(vectors[name]) == action.command):
            yield name
            return
        for other in arguments:
            if isinstance(value, str) and shlex.join([value, *vectors[other]]) == action.command:
                yield from (name, other)
                return


# Renderings.


def _markdown(sections: tuple[_Section, ...], *, cut: bool, spaced: bool) -> str:
    pieces: list[str] = []
    for is_inline, group in groupby(sections, key=lambda section: section.is_inline):
        run = tuple(group)
        pieces += (
            _together(run, spaced=spaced) if is_inline else [_block(it, cut=cut, spaced=spaced) for it in run]
        )
    return "\n\n".join(pieces)


def _together(group: tuple[_Section, ...], *, spaced: bool) -> Iterator[str]:
    """Short sections that follow each other: a line each in a block where it is narrow, else beside each other.

    A narrow chat cuts off a long word that stands in a paragraph; in a block it breaks the line. Neither a new line nor
    the dot between two can stand in what the agent sent: both would be shown by a mark.
    """
    lines = [(f"{section.label}:", on_one_line(section.text), section.note) for section in group]
    if spaced:
        text = "\n".join(" ".join(filter(None, line)) for line in lines)
        yield gfm.fence(f"{broken(text)}\n\n", "text")
        return
    for is_short, run in groupby(lines, key=lambda line: len(line[1]) <= LINE_WIDTH):
        if is_short:
            yield " · ".join(
                " ".join(filter(None, (label, gfm.code(text), note))) for label, text, note in run
            )
        else:
            yield from (
                f"{' '.join(filter(None, (label, note)))}\n{gfm.fence(broken(text), 'text')}"
                for label, text, note in run
            )


def _block(section: _Section, *, cut: bool, spaced: bool) -> str:
    head = " ".join(filter(None, (f"{section.label}:" if section.label else "", section.note)))
    if not section.text:
        return head
    body = gfm.fence(_shown(section, cut=cut) + ("\n\n" if spaced else ""), section.language or "text")
    return f"{head}\n{body}" if head else body


def _plain(sections: tuple[_Section, ...]) -> str:
    """For a dialog without Markdown: a label, and below it the text, indented."""
    return "\n\n".join(_as_plain(section) for section in sections)


def _as_plain(section: _Section) -> str:
    head = " ".join(filter(None, (f"{section.label}:" if section.label else "", section.note)))
    body = "\n".join(f"    {line}" for line in _shown(section, cut=True).split("\n")) if section.text else ""
    return "\n".join(filter(None, (head, body)))


def _shown(section: _Section, *, cut: bool) -> str:
    return _visible(section, cut=cut, lay_out=partial(broken, at_spaces=section.is_sentence))


def _visible(section: _Section, *, cut: bool, lay_out: Callable[[str], str]) -> str:
    exactly: Callable[[str], str] = (
        on_one_line if section.is_inline else _code if section.language in ("diff", "json") else shown_exactly
    )
    limit = section.limit if cut else len(section.text)
    head, tail, left_out = from_both_ends(section.text, limit)
    if not left_out:
        return lay_out(exactly(head))
    return f"{lay_out(exactly(head))}\n⟨{left_out:,} characters left out⟩\n{lay_out(exactly(tail))}"


def _unbroken(text: str) -> str:
    return text


def _code(text: str) -> str:
    return shown_exactly(text, dots=False)
