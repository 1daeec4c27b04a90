"""An agent's request for permission as a tool call, and the way back. Values in, values out.

The agent's words describe, they never decide. What class of risk a request is in follows from what it would do: a
command is `execute` whatever the agent calls it, and wherever in its input it stands; a diff is an edit; moving counts
as deleting; reading is `read` only where every path is known and inside the workspace and nothing else is in the input;
what is not known is `other`. There is one permission tool for each class, because editors approve by tool, and a
session at a time.

Paths are judged by their words, and by where they lead as far as whoever asks can tell: nothing here looks at the disk.
"""

from __future__ import annotations

import os.path
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal, TypeAlias

from dragoman.backends.agent.acp.messages import Diff, PermissionRequest, ToolActivity
from dragoman.backends.agent.diffs import proposed
from dragoman.lm import JsonObject, ToolCallPart
from dragoman.lm.gfm import code, escape, fence
from dragoman.lm.json import canonical, pretty
from dragoman.visible import visible_exactly

__all__ = [
    "PERMISSION_TOOLS",
    "Action",
    "Choice",
    "RiskClass",
    "choose",
    "classify",
    "describe",
    "is_permission_tool",
    "permission_call",
]

RiskClass: TypeAlias = Literal["read", "edit", "delete", "execute", "fetch", "other"]
_PREFIX = "dragoman-agent-action-"
PERMISSION_TOOLS: dict[RiskClass, str] = {
    risk: f"{_PREFIX}{risk}" for risk in ("read", "edit", "delete", "execute", "fetch", "other")
}

# Names of fields in the raw input of a tool call, in lower case and without separators.
_COMMANDS = frozenset(
    {
        "argv",
        "bash",
        "bashcommand",
        "cmd",
        "command",
        "commandline",
        "commands",
        "exec",
        "script",
        "shell",
        "shellcommand",
    }
)
_PATHS = frozenset(
    {
        "absolutepath",
        "abspath",
        "cwd",
        "destination",
        "dir",
        "directory",
        "file",
        "filename",
        "filepath",
        "filepaths",
        "files",
        "folder",
        "newpath",
        "notebookpath",
        "oldpath",
        "path",
        "paths",
        "root",
        "source",
        "target",
        "workdir",
        "workingdirectory",
    }
)
_URLS = frozenset({"uri", "uris", "url", "urls"})
# What a request to read or search may say beside its paths. Text under any other name may be anything.
_OF_READING = frozenset(
    {"description", "encoding", "exclude", "glob", "include", "outputmode", "pattern", "query", "regex"}
)
# Patterns can name places too.
_LEAVES = re.compile(r"(?:\A|[\s{,(|\[])[/~]|\.\.(?:[/\\]|\Z)")
_WEB = re.compile(r"https?://", re.IGNORECASE)
# A person reads a screen, not a file. The rest is counted.
_DIFF_LINES = 200
_DETAIL_CHARACTERS = 4_000
_TITLE_CHARACTERS = 500
_LISTED = 50


def is_permission_tool(name: str) -> bool:
    return name.startswith(_PREFIX)


@dataclass(frozen=True, slots=True)
class Action:
    """What an agent wants to do, as far as it can be known."""

    risk: RiskClass
    kind: str
    title: str
    command: str | None = None
    paths: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    diffs: tuple[Diff, ...] = ()
    raw: JsonObject | None = None


def classify(
    activity: ToolActivity,
    workspace: tuple[str, ...],
    resolved: Callable[[str], str] = os.path.normpath,
) -> Action:
    """Read a request for what it would do. `activity` has everything the agent said of that tool call so far.

    `resolved` says where a path leads, for whoever can look: a folder may have come with a link in it that leads out.
    """
    raw = activity.raw_input
    fields = tuple(_fields(raw))
    commands = dict.fromkeys(_as_command(value) for name, value in fields if name in _COMMANDS and value)
    paths = [location.path for location in activity.locations or ()]
    paths += [diff.path for diff in activity.diffs]
    paths += [path for name, value in fields if name in _PATHS for path in _texts(value)]
    urls = [url for name, value in fields if name in _URLS for url in _texts(value)]
    action = Action(
        "other",
        activity.kind or "other",
        activity.title or activity.name or activity.kind or "other",
        "\n".join(commands).strip() or None,
        tuple(dict.fromkeys(paths)),
        tuple(dict.fromkeys(urls)),
        activity.diffs,
        raw if raw is None or isinstance(raw, dict) else {"input": raw},
    )
    return replace(action, risk=_risk(action, raw, workspace, resolved))


def _risk(
    action: Action, raw: object, workspace: tuple[str, ...], resolved: Callable[[str], str]
) -> RiskClass:
    if action.command is not None or action.kind == "execute":
        return "execute"
    if action.kind in ("delete", "move"):
        return "delete"
    if action.diffs or action.kind == "edit":
        return "edit"
    if action.urls or action.kind == "fetch":
        is_web = all(map(_WEB.match, action.urls)) and action.kind in ("fetch", "read", "search")
        return "fetch" if is_web else "other"
    if action.kind in ("read", "search") and action.paths and _only_reads(raw):
        is_inside = all(_inside(path, workspace, resolved) for path in action.paths)
        return "read" if is_inside else "other"
    return "other"


def _only_reads(raw: object) -> bool:
    """Whether nothing stands in the input but paths, numbers, and words to search for."""
    return (raw is None or isinstance(raw, dict)) and all(
        name in _PATHS or (name in _OF_READING and not _LEAVES.search(text))
        for name, value in _fields(raw)
        for text in _texts(value)
    )


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
    """The words of a field: it is a text, or a list of them."""
    level = deque([value])
    while level:
        text = level.popleft()
        if isinstance(text, str) and text:
            yield text
        elif isinstance(text, list):
            level.extend(text)


def _as_command(value: object) -> str:
    match value:
        case str():
            return value
        case list() if all(isinstance(word, str) for word in value):
            return " ".join(map(str, value))
        case _:
            return canonical(value)


def _inside(path: str, workspace: tuple[str, ...], resolved: Callable[[str], str]) -> bool:
    """Whether a path lies in the workspace, by its words and by where it leads. A relative path is not trusted."""
    if not PurePath(path).is_absolute():
        return False
    try:
        return all(_is_below(lead(path), map(lead, workspace)) for lead in (os.path.normpath, resolved))
    except ValueError:
        # Characters that no path can have.
        return False


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


# Towards a person.


def permission_call(action: Action, call_id: str, nonce: str) -> ToolCallPart:
    """What the consumer is given. Its input only selects: the dialog is made from what we hold."""
    return ToolCallPart(
        call_id,
        PERMISSION_TOOLS[action.risk],
        {
            "title": visible_exactly(action.title),
            "kind": action.kind,
            "details": describe(action),
            "nonce": nonce,
        },
    )


def describe(action: Action) -> str:
    """Everything needed in order to decide, as Markdown that shows it and does nothing else."""
    pieces = [escape(_shown(action.title, _TITLE_CHARACTERS))]
    if action.command is not None:
        pieces.append(fence(_shown(action.command, _DETAIL_CHARACTERS), "sh"))
    for diff in action.diffs[:_LISTED]:
        pieces += [code(visible_exactly(diff.path)), proposed(diff, _DIFF_LINES)]
    changed = {diff.path for diff in action.diffs[:_LISTED]}
    places = [place for place in (*action.paths, *action.urls) if place not in changed]
    pieces += [f"- {code(visible_exactly(place))}" for place in places[:_LISTED]]
    if len(places) > _LISTED:
        pieces.append(f"- … {len(places) - _LISTED} more")
    rest = {name: value for name, value in (action.raw or {}).items() if not _is_shown(name, value)}
    if rest and not action.diffs:
        pieces.append(fence(_shown(pretty(rest), _DETAIL_CHARACTERS), "json"))
    return "\n\n".join(pieces)


def _is_shown(name: str, value: object) -> bool:
    """Whether a field stands above already, all of it."""
    plain = _plain(name)
    return plain in _COMMANDS or (
        plain in _PATHS | _URLS and isinstance(value, str | list) and not any(_fields(value))
    )


def _shown(text: str, characters: int) -> str:
    """Nothing in it leaves no mark; the rest is counted."""
    shown = visible_exactly(text[:characters])
    return shown if len(text) <= characters else f"{shown}\n… {len(text) - characters} more characters"


# Towards the agent.


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer to a permission request: an option of the agent's, or `cancelled`; and what the user should know."""

    option: str | None
    notice: str | None = None


def choose(request: PermissionRequest, *, granted: bool) -> Choice:
    """The narrowest option that says what was decided. Never wider than that."""
    if granted:
        once = request.option("allow_once")
        if once is not None:
            return Choice(once)
        refusal = choose(request, granted=False)
        return Choice(
            refusal.option,
            "The agent offers only to be allowed always; a single approval cannot say that, so it was refused.",
        )
    return Choice(request.option("reject_once"))
