"""The mode in which a chat accepts edits: changes to files of the workspace need no question.

A person switches it on for one chat, and off again. Nothing is stored: another chat and another process ask. It covers an
action only if all of this holds:

- it changes files, and does nothing else: it runs nothing, deletes nothing and contacts nothing;
- every file lies inside the workspace, and none is sensitive;
- its whole change is known as a diff, so that the person sees what was done.

`decide` has its place in the order: rules, `eligible` and sensitive actions go before it.
"""

from __future__ import annotations

import os.path

from dragoman.diffs import file_diff
from dragoman.permissions.action import Action, DiffContent, TextContent

__all__ = ["EditMode", "change_of", "is_plain_edit"]


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
        and (bool(change) or _diffs_show_everything(action))
    )


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
