"""Actions for tests, described as an agent's request is."""

from __future__ import annotations

from typing import Any

from dragoman.permissions.action import Action
from dragoman.permissions.describe import describe
from dragoman.permissions.sensitive import Places

__all__ = ["HOME", "WORKSPACE", "action", "diff", "text"]

WORKSPACE = "/srv/project"
HOME = "/home/user"


def action(
    *,
    agent: str = "claude",
    agent_name: str = "Claude Code",
    places: Places | None = None,
    title: str = "Do it",
    **fields: Any,
) -> Action:
    return describe(
        agent=agent,
        agent_name=agent_name,
        places=places or Places((WORKSPACE,), HOME),
        title=title,
        **fields,
    )


def text(value: str) -> dict[str, object]:
    return {"type": "content", "content": {"type": "text", "text": value}}


def diff(path: str, old: str | None, new: str) -> dict[str, object]:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}
