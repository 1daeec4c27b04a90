"""Text that we compose ourselves, safe to render as GitHub Flavored Markdown.

Names, paths, commands and error texts come from outside. Whatever stands in them, they must show as what they are:
no link, no image, no icon, no formula, no table, no way out of a code block.
"""

from __future__ import annotations

import re

from dragoman.lm.errors import LanguageModelError
from dragoman.lm.parts import NoticePart

__all__ = ["code", "error_part", "error_text", "escape", "fence", "notice", "notice_part", "plain"]

# A backslash before ASCII punctuation makes it literal. Beside Markdown's own characters: `$` begins a formula or an
# icon `$(…)` in VS Code, `:` and `@` and `www.` make bare addresses into links, `&` begins an entity.
# Not escaped, because clients without Markdown show the backslash: `:` before a line number, `_` inside a word,
# and the `~` of a home, which could begin a strike-through but not end one.
_SPECIAL = re.compile(
    r"[\\`*\[\]<>$|&@]|~(?!/)|(?<! )~|(?<![^\W_])_|_(?![^\W_])|!(?=\[|\Z)"
    r"|:(?!\d+(?![\w:]))(?=/|[^\s:])|(?<=mailto):|(?<=xmpp):|(?<=www)\.",
    re.IGNORECASE,
)
_LINE_START = re.compile(r"^([ \t]*)(#{1,6}(?=\s|$)|[-+=]|\d{1,9}(?=[.)]))", re.MULTILINE)
_ORDERED = re.compile(r"^([ \t]*\d{1,9})([.)])", re.MULTILINE)
# Renderers end a line at each of them.
_LINE_END = re.compile(r"\r\n|\r|\n")
_FENCE_RUN = re.compile(r"`+|~+")
_LANGUAGE = re.compile(r"[^A-Za-z0-9_+#.-]")
# What a text has of Markdown that is made of the functions here, except fences: escaped characters, code, and emphasis.
_MARKS = re.compile(r"\\([!-/:-@\[-`{-~])|(?<!`)(`+)(?!`)(.+?)(?<!`)\2(?!`)|\*+", re.DOTALL)
# A code block that would drown the chat is cut; what is cut is said.
_INLINE_LIMIT = 2_000


def escape(text: str) -> str:
    """`text`, to be read as it stands."""
    text = _LINE_END.sub("\n", text)
    text = _SPECIAL.sub(r"\\\g<0>", text)
    text = _ORDERED.sub(r"\1\\\2", text)
    # Four spaces or a tab at the start of a line would make a code block.
    return re.sub(r"^[ \t]+", " ", _LINE_START.sub(_escape_start, text), flags=re.MULTILINE)


def _escape_start(match: re.Match[str]) -> str:
    space, mark = match.groups()
    return f"{space}{mark}" if mark[0].isdigit() else f"{space}\\{mark}"


def code(text: str) -> str:
    """`text` as inline code, on one line."""
    text = _LINE_END.sub(" ", text)
    if len(text) > _INLINE_LIMIT:
        text = f"{text[:_INLINE_LIMIT]}…"
    if not text.strip():
        return "` `"
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    # A space each side is taken away again by the renderer; without it a tick at the edge would join the fence.
    pad = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fence(text: str, language: str = "") -> str:
    """`text` as a code block, fenced longer than any run of ticks or tildes inside."""
    longest = max((len(run) for run in _FENCE_RUN.findall(text)), default=0)
    ticks = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{ticks}{_LANGUAGE.sub('', language)}\n{text}{end}{ticks}"


def notice(text: str) -> str:
    """A line of ours between what a model says: set apart, in italics. `text` is Markdown already."""
    return f"\n\n*{text}*\n\n"


def notice_part(text: str, *, is_recorded: bool = True) -> NoticePart:
    """`notice` as a part of a response."""
    return NoticePart(notice(text), is_recorded=is_recorded)


def error_text(error: LanguageModelError) -> str:
    """An error as Markdown text, in the form that every front end uses."""
    return f"\n\n**Error:** {escape(error.sentence)}\n\n"


def error_part(error: LanguageModelError) -> NoticePart:
    """`error_text` as a part of a response."""
    return NoticePart(error_text(error))


def plain(markdown: str) -> str:
    """Text that was composed of the functions here, except fences, for those who see Markdown as it is written."""
    return _MARKS.sub(_unmarked, markdown)


def _unmarked(mark: re.Match[str]) -> str:
    escaped, ticks, inside = mark.groups()
    if ticks is None:
        return escaped or ""
    is_padded = inside.startswith(" ") and inside.endswith(" ") and bool(inside.strip())
    return inside[1:-1] if is_padded else inside
