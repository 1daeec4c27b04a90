"""The fields of a tool call's raw input by what they mean: names in lower case and without separators."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache

__all__ = [
    "ARGUMENTS",
    "COMMANDS",
    "CONTENTS",
    "ENVIRONMENTS",
    "FOLDERS",
    "PATHS",
    "URLS",
    "fields_of",
    "path_names_of",
    "plain_name",
    "texts_of",
]

COMMANDS = frozenset(
    {
        "argv", "bash", "bashcommand", "cmd", "command", "commandline", "commands", "exec", "script", "shell",
        "shellcommand",
    }
)  # fmt: skip
# What goes behind a command in a field beside it.
ARGUMENTS = ("args", "arguments", "argv", "parameters")
FOLDERS = ("cwd", "workdir", "workingdirectory", "workingdir", "directory", "dir")
ENVIRONMENTS = frozenset({"env", "environment", "environmentvariables", "envvars"})
PATHS = frozenset(
    {
        "absolutepath", "abspath", "cwd", "destination", "dir", "directory", "file", "filename", "filepath",
        "filepaths", "files", "folder", "newpath", "notebookpath", "oldpath", "path", "paths", "root", "source",
        "target", "workdir", "workingdir", "workingdirectory",
    }
)  # fmt: skip
URLS = frozenset({"uri", "uris", "url", "urls"})
# The old and the new text of a change.
CONTENTS = frozenset(
    {
        "content", "contents", "filetext", "newcontent", "newstr", "newstring", "newtext", "oldstr", "oldstring",
        "oldtext", "text",
    }
)  # fmt: skip

# A field's name that is a path: it has a dot or a slash, or begins as a path can. Addresses of the web are none.
_PATH_NAME = re.compile(r"(?!(?!(?i:file):)\w+://)(?:[~$][^\n]*|[^\n]*[./\\][^\n]*)")
# A field's name as JSON Schema and databases have them. As the value of a field it would be a variable.
_KEYWORD = re.compile(r"\$[a-z]\w*")


def fields_of(raw: object) -> Iterator[tuple[str, object]]:
    """Every field of a JSON value, at any depth, by its plain name; the outer ones first."""
    level = deque([raw])
    while level:
        value = level.popleft()
        if isinstance(value, dict):
            for name, inner in value.items():
                yield plain_name(name), inner
                level.append(inner)
        elif isinstance(value, list):
            level.extend(value)


def path_names_of(raw: object) -> Iterator[str]:
    """The fields of a JSON value, at any depth, whose names are paths: `{"changes": {"src/a.py": …}}`."""
    level = deque([raw])
    while level:
        value = level.popleft()
        if isinstance(value, dict):
            yield from filter(_PATH_NAME.fullmatch, _names(value))
            level.extend(value.values())
        elif isinstance(value, list):
            level.extend(value)


@lru_cache(4_096)
def plain_name(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def texts_of(value: object, *, into_objects: bool = True) -> Iterator[str]:
    """Every text in a JSON value, at any depth; of objects the names and the values, or nothing."""
    level = deque([value])
    while level:
        text = level.popleft()
        if isinstance(text, str):
            if text:
                yield text
        elif isinstance(text, list):
            level.extend(text)
        elif isinstance(text, dict) and into_objects:
            level.extend(_names(text))
            level.extend(text.values())


def _names(fields: Iterable[str]) -> Iterator[str]:
    return (name for name in fields if not _KEYWORD.fullmatch(name))
