"""Commands that a person approved in the turn under way. Each approval is valid for one terminal."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.lm.json import canonical
from dragoman.permissions.action import Action

__all__ = ["ApprovedCommands"]


class _Command(NamedTuple):
    text: str
    folder: str
    # The variables, as canonical JSON.
    environment: str


class ApprovedCommands:
    """An approval covers exactly its command, in its folder, with its variables."""

    def __init__(self) -> None:
        self._approved: list[_Command] = []

    def add(self, action: Action) -> None:
        if (command := _command(action)) is not None:
            self._approved.append(command)

    def spend(self, action: Action) -> bool:
        """Whether exactly this command is approved. The approval is used up then."""
        command = _command(action)
        if command is None or command not in self._approved:
            return False
        self._approved.remove(command)
        return True

    def clear(self) -> None:
        self._approved.clear()


def _command(action: Action) -> _Command | None:
    if action.risk != "execute" or action.command is None:
        return None
    return _Command(action.command, action.folder, canonical(action.environment or {}))
