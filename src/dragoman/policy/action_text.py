"""An action from one text: for examples of rules, `dragoman policy explain` and `/policy explain`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from dragoman.permissions.action import Action
from dragoman.permissions.describe import describe
from dragoman.permissions.sensitive import Places

__all__ = ["Meaning", "action_from_text"]

# What the text is. "tool" is the name of a tool.
Meaning: TypeAlias = Literal["command", "path", "url", "tool"]


def action_from_text(
    meaning: Meaning,
    text: str,
    places: Places,
    *,
    agent: str = "",
    kind: str | None = None,
    tool: str | None = None,
) -> Action:
    """The action of a request that an agent would send. `kind` is for paths and tools, `tool` names the agent's tool."""
    sent: dict[str, object]
    match meaning:
        case "command":
            kind, sent = "execute", {"command": text}
        case "url":
            kind, sent = "fetch", {"url": text}
        case "path":
            kind, sent = kind or "edit", {"path": places.absolute(text, places.workspace[0])}
        case "tool":
            # The tool's input is not known. A request without any input would have only a title.
            kind, tool, sent = kind or "tool", text, {"input": "any"}
    return describe(
        agent=agent, agent_name=agent, places=places, title=text, kind=kind, tool=tool, input=sent
    )
