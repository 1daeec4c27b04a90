"""Describe an agent's request: from the fields that it sent to an `Action`.

The agent's words describe, they never decide. The class of risk follows from what the request would do: a command is
`execute` whatever the agent calls it, and wherever in the input it stands; a diff is an edit; moving counts as
deleting; reading is `read` only where every path is known and inside the workspace and nothing else is in the input;
what is not known is `other`.
"""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from dragoman.lm import JsonObject
from dragoman.lm.json import canonical
from dragoman.permissions.action import (
    Action,
    Content,
    DiffContent,
    OtherContent,
    Place,
    RiskClass,
    TextContent,
)
from dragoman.permissions.sensitive import Places

__all__ = ["describe"]

# Names of fields in the raw input of a tool call, in lower case and without separators.
_COMMANDS = frozenset(
    {
        "argv", "bash", "bashcommand", "cmd", "command", "commandline", "commands", "exec", "script", "shell",
        "shellcommand",
    }
)  # fmt: skip
# What goes behind a command in a field beside it.
_ARGUMENTS = frozenset({"args", "arguments", "argv", "parameters"})
_FOLDERS = ("cwd", "workdir", "workingdirectory", "workingdir", "directory", "dir")
_ENVIRONMENTS = frozenset({"env", "environment", "environmentvariables", "envvars"})
_PATHS = frozenset(
    {
        "absolutepath", "abspath", "cwd", "destination", "dir", "directory", "file", "filename", "filepath",
        "filepaths", "files", "folder", "newpath", "notebookpath", "oldpath", "path", "paths", "root", "source",
        "target", "workdir", "workingdir", "workingdirectory",
    }
)  # fmt: skip
_URLS = frozenset({"uri", "uris", "url", "urls"})
# What a request to read or search may say beside its paths. Text under any other name may be anything.
_OF_READING = frozenset(
    {"description", "encoding", "exclude", "glob", "include", "outputmode", "pattern", "query", "regex"}
)
# Patterns can name places too.
_LEAVES = re.compile(r"(?:\A|[\s{,(|\[])[/~]|\.\.(?:[/\\]|\Z)")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_TOOL_NAMES = frozenset({"toolname", "tool"})
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
    """What an agent wants to do, from everything it said of that tool call so far."""
    fields = tuple(_fields(input))
    named = tuple(Place(path, line) for path, line in locations)
    blocks = tuple(map(_block, content))
    tool = tool or _tool_of(meta)
    first_folder = places.workspace[0] if places.workspace else "/"
    given = next(
        (value for name in _FOLDERS for field, value in fields if field == name and isinstance(value, str)),
        "",
    )
    folder = places.absolute(given, first_folder) if given else first_folder
    paths = [place.path for place in named]
    paths += [block.path for block in blocks if isinstance(block, DiffContent)]
    paths += [
        folder if name in _FOLDERS and path == given else path
        for name, value in (*fields, *_fields(extra))
        if name in _PATHS
        for path in _texts(value)
    ]
    urls = [url for name, value in fields if name in _URLS for url in _texts(value)]
    plain = Action(
        agent=agent,
        agent_name=agent_name,
        risk="other",
        kind=kind or "other",
        title=title or tool or kind or "other",
        tool=tool,
        command=_command(input, fields),
        environment=next((value for name, value in fields if name in _ENVIRONMENTS), None),
        paths=tuple(dict.fromkeys(paths)),
        urls=tuple(dict.fromkeys(urls)),
        content=blocks,
        locations=named,
        input=input,
        extra=extra or {},
        folder=folder,
    )
    leads = [places.absolute(path, folder) for path in plain.paths]
    # A relative path is taken as the agent takes it, and that is not known: so it is not reading.
    is_inside = len(leads) <= _MOST_PATHS and all(map(places.is_inside, (folder, *leads)))
    is_exact = all(path.startswith("/") for path in plain.paths)
    risk = _risk(plain, input, is_read=is_inside and is_exact)
    return replace(plain, risk=risk, is_inside=is_inside, sensitive=_sensitive(plain, risk, places, leads))


def _risk(action: Action, raw: object, *, is_read: bool) -> RiskClass:
    if action.command is not None or action.kind == "execute":
        return "execute"
    if action.kind in ("delete", "move"):
        return "delete"
    if action.diffs or action.kind == "edit":
        return "edit"
    if action.urls or action.kind == "fetch":
        is_web = all(map(_WEB.match, action.urls)) and action.kind in ("fetch", "read", "search")
        return "fetch" if is_web else "other"
    if action.kind in ("read", "search") and action.paths and not action.extra and _only_reads(raw):
        return "read" if is_read else "other"
    return "other"


def _sensitive(action: Action, risk: RiskClass, places: Places, leads: Iterable[str]) -> str | None:
    """Why it is sensitive: by its paths, by its folder, or by a path that stands in its words."""
    texts = [text for _, value in (*_fields(action.input), *_fields(action.extra)) for text in _texts(value)]
    texts = [text for text in texts if len(text) <= _LONGEST_PATH and "\n" not in text]
    if len(action.paths) + len(texts) > _MOST_PATHS:
        return f"it has {len(action.paths) + len(texts):,} values that may be paths, too many to check"
    reads = risk in ("read", "fetch") or (risk == "other" and action.kind in ("read", "search"))
    why: Callable[[str], str | None] = places.why_reading if reads else places.why_changing
    reasons: list[str | None] = [why(path) for path in leads]
    if risk == "execute":
        reasons.append(
            None if places.is_inside(action.folder) else f"it runs in {action.folder}, outside the workspace"
        )
    reasons += [places.why_reading(places.absolute(text, action.folder)) for text in texts]
    if not action.diffs:
        said = [action.command or "", action.title]
        said += [block.text for block in action.content if isinstance(block, TextContent)]
        reasons += [places.why_mentioning(text, action.folder) for text in said]
        if risk != "read":
            reasons += [places.why_mentioning(text, action.folder) for text in texts]
    return next((reason for reason in reasons if reason is not None), None)


def _only_reads(raw: object) -> bool:
    """Whether nothing stands in the input but paths, numbers, and words to search for."""
    return (raw is None or isinstance(raw, dict)) and all(
        name in _PATHS or (name in _OF_READING and not _LEAVES.search(text))
        for name, value in _fields(raw)
        for text in _texts(value)
    )


def _block(value: object) -> Content:
    match value:
        case {"type": "content", "content": {"type": "text", "text": str(text), **more}} if not more:
            return TextContent(text)
        case {"type": "diff", "path": str(path), "newText": str(new), **more} if _is_old(
            more.get("oldText")
        ) and not (more.keys() - {"oldText", "_meta"}):
            old = more.get("oldText")
            return DiffContent(path, old if isinstance(old, str) else None, new)
        case _:
            return OtherContent(value)


def _is_old(value: object) -> bool:
    return value is None or isinstance(value, str)


def _tool_of(meta: object) -> str | None:
    """A tool's name in an agent's metadata, where some have it and nowhere else."""
    return next(
        (str(value) for name, value in _fields(meta) if name in _TOOL_NAMES and isinstance(value, str)), None
    )


# Commands.


def _command(raw: object, fields: tuple[tuple[str, object], ...]) -> str | None:
    """Every command in the request, one on each line; the words of an argument vector are quoted where needed."""
    found = [_as_command(name, value) for name, value in fields if name in _COMMANDS and value]
    if isinstance(raw, dict):
        by_name = {_plain(name): value for name, value in raw.items()}
        for name in ("command", "cmd", "exec", "shell"):
            program = by_name.get(name)
            for arguments in (by_name.get(each) for each in _ARGUMENTS):
                if (
                    isinstance(program, str)
                    and isinstance(arguments, list)
                    and arguments
                    and _are_words(arguments)
                ):
                    found = [line for line in found if line not in (program, shlex.join(map(str, arguments)))]
                    found.insert(0, shlex.join([program, *map(str, arguments)]))
    return "\n".join(dict.fromkeys(found)).strip() or None


def _as_command(name: str, value: object) -> str:
    match value:
        case str():
            return value
        case list() if name == "commands" and _are_words(value):
            return "\n".join(map(str, value))
        case list() if _are_words(value):
            return shlex.join(map(str, value))
        case _:
            return canonical(value)


def _are_words(values: list[object]) -> bool:
    return all(isinstance(value, str) for value in values)


# A JSON value, field by field.


def _fields(raw: object) -> Iterator[tuple[str, object]]:
    """Every field of a JSON value, at any depth, by its plain name; the outer ones first."""
    level = deque([raw])
    while level:
        value = level.popleft()
        if isinstance(value, dict):
            for name, inner in value.items():
                yield _plain(name), inner
                level.append(inner)
        elif isinstance(value, list):
            level.extend(value)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _texts(value: object) -> Iterator[str]:
    """The texts of a field: it is a text, or a list of them."""
    level = deque([value])
    while level:
        text = level.popleft()
        if isinstance(text, str) and text:
            yield text
        elif isinstance(text, list):
            level.extend(text)
