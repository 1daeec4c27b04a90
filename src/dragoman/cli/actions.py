"""Commands that have actions of their own: `dragoman approvals revoke 3`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.cli.errors import UsageError
from dragoman.nearest import nearest

__all__ = ["check_action"]


def check_action(
    command: str,
    action: str,
    ids: Sequence[str],
    *,
    alone: tuple[str, ...],
    with_ids: tuple[str, ...],
    ids_are: re.Pattern[str] | None = None,
) -> None:
    """Refuse unknown actions, ids for an action that takes none, and missing ids. `ids_are`: the form of an id."""
    actions = (*alone, *with_ids)
    if action not in actions:
        meant = nearest(action, actions)
        if meant is None and ids_are is not None and ids_are.fullmatch(action):
            meant = " ".join((with_ids[0], action, *ids))
        hint = f'Did you mean "{meant}"?' if meant else f"There are {', '.join(actions)}."
        raise UsageError(f'{command}: there is no "{action}". {hint}')
    if action in with_ids and not ids:
        raise UsageError(f"{command} {action}: which? Give the ids that `dragoman {command}` shows.")
    if action in alone and ids:
        raise UsageError(f'{command} {action}: takes no ids. Did you mean "{with_ids[0]} {" ".join(ids)}"?')
