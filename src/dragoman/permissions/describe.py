"""Describe an agent's request: from the fields that it sent to an `Action`.

The agent's words describe, they never decide. The class of risk follows from what the request would do: a command is
`execute` whatever the agent calls it, and wherever in the input it stands; a diff is an edit; moving counts as
deleting; reading is `read` only where every path is known and inside the workspace and nothing else is in the input;
what is not known is `other`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from dragoman.lm import JsonObject
from dragoman.permissions.action import (
    Action,
    ActionContent,
    ActionLocation,
    DiffContent,
    OtherContent,
    RiskClass,
    TextContent,
)
from dragoman.permissions.commands import commands_in, in_one_text
from dragoman.permissions.fields import (
    ENVIRONMENTS,
    FOLDERS,
    PATHS,
    URLS,
    fields_of,
    path_names_of,
    texts_of,
)
from dragoman.permissions.sensitive import Places, SensitivePathScan

__all__ = ["describe", "tool_name_in"]

# What a request to read or search may say beside its paths. Text under any other name may be anything.
_OF_READING = frozenset(
    {"description", "encoding", "exclude", "glob", "include", "outputmode", "pattern", "query", "regex"}
)
# The same for one that fetches an address.
_OF_FETCHING = frozenset({"description", "format", "prompt", "query", "reason"})
# Text that may lead out of the workspace: a leading `/` or `~`, or `..`.
_LEAVES = re.compile(r"(?:\A|[\s{,(|\[])[/~]|\.\.(?:[/\\]|\Z)")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_TOOL_NAMES = frozenset({"toolname", "tool"})
# A value that names a place by itself, whatever its field is called.
_IS_A_PLACE = re.compile(r"(?:/|~|file:|\$)[^\n]*", re.IGNORECASE)
# Longer values are texts and not names of files.
_LONGEST_PATH = 4_096
# Each is looked up on the disk.
_MOST_PATHS = 2_000


def describe(
    *,
    agent: str,
    agent_name: str,
    places: Places,
    title: str | None = None,
    kind: str | None = None,
    tool: str | None = None,
    content: Iterable[object] = (),
    locations: Iterable[tuple[str, int | None]] = (),
    input: object = None,  # noqa: A002 - what ACP calls it
    extra: JsonObject | None = None,
    meta: JsonObject | None = None,
) -> Action:
    """Make an action from everything that the agent sent about a tool call so far."""
    fields = (*fields_of(input), *fields_of(extra))
    named = tuple(ActionLocation(path, line) for path, line in locations)
    blocks = tuple(block for value in content for block in _blocks(value))
    tool = tool or tool_name_in(meta)
    meta = None if _only_names(tool, meta) else meta
    first_folder = places.workspace[0] if places.workspace else "/"
    given = next(
        (value for name in FOLDERS for field, value in fields if field == name and isinstance(value, str)), ""
    )
    folder = places.absolute(given, first_folder) if given else first_folder
    paths = [place.path for place in named]
    paths += [block.path for block in blocks if isinstance(block, DiffContent)]
    paths += [
        folder if name in FOLDERS and path == given else path
        for name, value in fields
        if name in PATHS
        for path in texts_of(value, into_objects=False)
    ]
    paths += path_names_of([input, extra])
    urls = [url for name, value in fields if name in URLS for url in texts_of(value, into_objects=False)]
    plain = Action(
        agent=agent,
        agent_name=agent_name,
        risk="other",
        kind=kind or "other",
        title=title or tool or kind or "other",
        tool=tool,
        command=in_one_text(commands_in(input, extra)),
        environment=next((value for name, value in fields if name in ENVIRONMENTS), None),
        paths=tuple(dict.fromkeys(paths)),
        urls=tuple(dict.fromkeys(urls)),
        content=blocks,
        locations=named,
        input=input,
        extra=extra or {},
        meta=meta or {},
        folder=folder,
    )
    if (too_much := _too_much(plain)) is not None:
        return replace(plain, risk=_risk(plain, input, is_read=False), sensitive=too_much)
    leads = [places.absolute(path, folder) for path in plain.paths]
    is_inside = all(map(places.is_inside, (folder, *leads)))
    # We do not know which folder the agent resolves a relative path against, so the class is not `read`.
    is_exact = all(path.startswith("/") for path in plain.paths)
    risk = _risk(plain, input, is_read=is_inside and is_exact)
    return replace(plain, risk=risk, is_inside=is_inside, sensitive=_sensitive(plain, risk, places, leads))


def _too_much(action: Action) -> str | None:
    """Why it is not checked path by path: that would take too long."""
    if len(action.paths) > _MOST_PATHS:
        return f"it names {len(action.paths):,} paths, too many to check"
    longest = max(map(len, (*action.paths, action.folder)), default=0)
    return f"it names a path of {longest:,} characters" if longest > _LONGEST_PATH else None


def _risk(action: Action, raw: object, *, is_read: bool) -> RiskClass:
    if action.command is not None or action.kind == "execute":
        return "execute"
    if action.kind in ("delete", "move"):
        return "delete"
    if action.diffs or action.kind == "edit":
        return "edit"
    if action.urls or action.kind == "fetch":
        is_web = all(map(_WEB.match, action.urls)) and action.kind in ("fetch", "read", "search")
        return "fetch" if is_web and not action.extra and _says_only(raw, URLS, _OF_FETCHING) else "other"
    if action.kind in ("read", "search") and action.paths and not action.extra and _only_reads(raw):
        return "read" if is_read else "other"
    return "other"


def _sensitive(action: Action, risk: RiskClass, places: Places, leads: Iterable[str]) -> str | None:
    """Why it is sensitive: by its paths, by its folder, or by a path that stands anywhere in its words."""
    is_reading = risk in ("read", "fetch") or (
        risk == "other"
        and action.kind in ("read", "search")
        and not action.extra
        and _only_reads(action.input)
    )
    why: Callable[[str], str | None] = places.why_reading if is_reading else places.why_changing
    for path in leads:
        if (reason := why(path)) is not None:
            return reason
    if risk == "execute" and not places.is_inside(action.folder):
        return f"it runs in {action.folder}, outside the workspace"
    # What a change would write is shown as its diff: words in it name nothing.
    written = {text for diff in action.diffs for text in (diff.old, diff.new)}
    said = (action.title, action.command or "", *_words(action))
    texts = [text for text in dict.fromkeys(said) if text and text not in written]
    if not is_reading and risk != "execute":
        named = [
            text for text in texts[:_MOST_PATHS] if len(text) <= _LONGEST_PATH and _IS_A_PLACE.fullmatch(text)
        ]
        for text in named:
            if (reason := places.why_changing(places.absolute(text, action.folder))) is not None:
                return reason
    return SensitivePathScan(places, action.folder, changing=not is_reading).why(texts)


def _words(action: Action) -> Iterator[str]:
    yield from texts_of(action.input)
    yield from texts_of(action.extra)
    yield from texts_of(action.meta)
    for block in action.content:
        match block:
            case TextContent(text=text):
                yield text
            case OtherContent(value=value):
                yield from texts_of(value)


def _only_reads(raw: object) -> bool:
    """Whether nothing stands in the input but paths, numbers, and words to search for."""
    return _says_only(raw, PATHS, _OF_READING)


def _says_only(raw: object, names: frozenset[str], words: frozenset[str]) -> bool:
    """Whether every text of an input stands under one of these names, or is one of these words and names no place."""
    return (raw is None or isinstance(raw, dict)) and all(
        name in names or (name in words and not _LEAVES.search(text))
        for name, value in fields_of(raw)
        for text in texts_of(value, into_objects=False)
    )


def _blocks(value: object) -> Iterator[ActionContent]:
    """A content block; what stands beside a diff is a block of its own."""
    match value:
        case {"type": "content", "content": {"type": "text", "text": str(text), **inner}, **more} if (
            not inner and not more
        ):
            yield TextContent(text)
        case {"type": "diff", "path": str(path), "newText": str(new), **more} if _is_old(more.get("oldText")):
            old = more.pop("oldText", None)
            yield DiffContent(path, old if isinstance(old, str) else None, new)
            if more:
                yield OtherContent(more)
        case _:
            yield OtherContent(value)


def _is_old(value: object) -> bool:
    return value is None or isinstance(value, str)


def tool_name_in(meta: object) -> str | None:
    """A tool's name in an agent's metadata, where some have it and nowhere else."""
    return next(
        (str(value) for name, value in fields_of(meta) if name in _TOOL_NAMES and isinstance(value, str)),
        None,
    )


def _only_names(tool: str | None, meta: object) -> bool:
    """Whether metadata holds one value, and that is the tool's name, which is shown anyway."""
    values = [value for _, value in fields_of(meta) if not isinstance(value, dict | list)]
    return values == [tool]
