"""The mode in which a chat accepts edits: changes to files of the workspace need no question.

A person switches it on for one chat, and off again. Nothing is stored: another chat and another process ask. It covers an
action only if all of this holds:

- it changes files, and does nothing else: it runs nothing, deletes nothing and contacts nothing. It is called an edit,
  a foreign tool does not make it, and every field of it is one that describes an edit;
- every file lies inside the workspace, and none is sensitive;
- its whole change is known as a diff, so that the person sees what was done.

`decide` has its place in the order: rules, `eligible` and sensitive actions go before it.
"""

from __future__ import annotations

import os.path

from dragoman.diffs import file_diff
from dragoman.permissions.action import Action, DiffContent, TextContent
from dragoman.permissions.fields import CONTENTS, plain_name

__all__ = ["EditMode", "change_of", "is_plain_edit"]

# The tools of agents that change files and do nothing else, and those of the terminal, by their plain names.
_TOOLS = frozenset(
    {
        "create", "createfile", "edit", "editfile", "multiedit", "replace", "strreplace", "strreplacefile", "write",
        "writefile",
    }
)  # fmt: skip
# The fields of an edit, by their plain names: its files, its parts, and how often to replace. `source` or `target` may
# mean a move.
_FILES = frozenset(
    {"absolutepath", "abspath", "file", "filename", "filepath", "filepaths", "files", "path", "paths"}
)
_PARTS = frozenset({"changes", "edits", "files"})
_COUNTS = frozenset({"expectedreplacements", "replaceall"})


class EditMode:
    """The chats of this process in which edits are accepted, by their session ids."""

    def __init__(self) -> None:
        self._sessions: set[str] = set()

    def is_on(self, session: str) -> bool:
        return session in self._sessions

    def switch(self, session: str, *, on: bool) -> None:
        if on:
            self._sessions.add(session)
        else:
            self._sessions.discard(session)

    def accepts(self, session: str, action: Action, change: str = "") -> bool:
        """Whether the mode is on and covers this action. `change`: its diff, where a tool has made one."""
        return self.is_on(session) and is_plain_edit(action, change)


def change_of(action: Action) -> str:
    """The change that an agent's request shows, as one unified diff."""
    return "\n".join(file_diff(diff.path, diff.old, diff.new) for diff in action.diffs)


def is_plain_edit(action: Action, change: str = "") -> bool:
    """Whether an action is nothing but a change to files of the workspace, with its diff."""
    return (
        action.risk == "edit"
        and action.sensitive is None
        and action.is_inside
        and bool(action.paths)
        and action.command is None
        and not action.urls
        # The terminal's own tools are of the kind `tool`, and make the diff themselves.
        and (action.kind == "edit" or (action.kind == "tool" and bool(change)))
        and (action.tool is None or plain_name(action.tool) in _TOOLS)
        and not action.extra
        and not action.meta
        and (action.input is None or _is_of_edit(action.input))
        and (bool(change) or _diffs_show_everything(action))
    )


def _is_of_edit(given: object) -> bool:
    """Whether a value is an object, and each of its fields describes an edit. Its files are among the action's paths."""
    return isinstance(given, dict) and all(
        _is_field_of_edit(plain_name(name), value) for name, value in given.items()
    )


def _is_field_of_edit(name: str, value: object) -> bool:
    match value:
        case None:
            return name in _FILES | CONTENTS | _PARTS | _COUNTS
        case bool() | int():
            return name in _COUNTS
        case str():
            return name in _FILES | CONTENTS
        case list() if name in _FILES and all(isinstance(each, str) for each in value):
            return True
        case list():
            return name in _PARTS and all(map(_is_of_edit, value))
        case _:
            return False


def _diffs_show_everything(action: Action) -> bool:
    """Whether an agent's request has a diff for every path in it.

    A diff in which nothing changes does not show the change. One that empties a file counts as a deletion.
    """
    diffs = action.diffs
    shown = {_absolute(diff.path, action) for diff in diffs}
    return (
        bool(diffs)
        and all(isinstance(block, DiffContent | TextContent) for block in action.content)
        and all(_absolute(path, action) in shown for path in action.paths)
        and all(diff.old != diff.new and (diff.new or not diff.old) for diff in diffs)
    )


def _absolute(path: str, action: Action) -> str:
    return os.path.normpath(os.path.join(action.folder, path))  # noqa: PTH118 - any text, not only a path
