"""A request for a permission as an event. Pure."""

from __future__ import annotations

import hashlib

from dragoman.journal.agent_events import PermissionRequested
from dragoman.lm.json import canonical
from dragoman.permissions.action import Action

__all__ = ["permission_requested"]

_DIGEST_BYTES = 16


def permission_requested(id_: str, action: Action) -> PermissionRequested:
    digest = hashlib.blake2b(canonical(action).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return PermissionRequested(
        id_, action.agent, action.risk, action.permission_tool, digest, action.sensitive is not None, action
    )
