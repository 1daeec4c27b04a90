"""What is known of agents beyond what they say of themselves. Data, not branches.

An agent that is not here gets the careful defaults; what `initialize` says wins over both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from dragoman.backends.agent.acp.messages import ToolActivity
from dragoman.lm import JsonObject

__all__ = ["CATALOGUE", "Traits", "recognise", "traits_of"]

# A place in a tool call, dots between the names, and what stands there for a tool of a server.
_Field: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Traits:
    # After so many seconds the agent gives a tool call up, whatever progress it is sent. None: progress keeps it alive.
    tool_limit_seconds: float | None = None
    # Whether the agent lists tools again when told that they changed.
    lists_again: bool = True
    # Ways to recognise that a tool call is one of a server's tools: each is a set of fields that must all agree.
    recognised_by: tuple[tuple[_Field, ...], ...] = ()
    # Environment without which the agent decides by itself, or hides our tools.
    env: tuple[tuple[str, str], ...] = ()
    # What cannot work with it, by the name of the scenario in `tests/agents`, and why.
    cannot: tuple[tuple[str, str], ...] = ()


_BY_SERVER_AND_TOOL: tuple[_Field, ...] = (("rawInput.server", "{server}"), ("rawInput.tool", "{tool}"))

_CLAUDE = Traits(
    recognised_by=((("_meta.claudeCode.toolName", "mcp__{server}__{tool}"),),),
    env=(("ENABLE_TOOL_SEARCH", "false"),),
)

CATALOGUE: Mapping[str, Traits] = {
    "demo": Traits(recognised_by=(_BY_SERVER_AND_TOOL,)),
    "claude": _CLAUDE,
    # 0.49, the last for Node 20: a prompt right behind its new listing still goes with the old one.
    "claude-node20": replace(_CLAUDE, lists_again=False),
    "codex": Traits(
        tool_limit_seconds=300.0,
        lists_again=False,
        recognised_by=(_BY_SERVER_AND_TOOL,),
        env=(("INITIAL_AGENT_MODE", "read-only"),),
        cannot=(("one_of_two_denied", "a denial ends its turn, before what was allowed beside it has run"),),
    ),
    # The title of a command is what the model calls it; its kind is not the model's to choose.
    "copilot": Traits(recognised_by=((("title", "{server}-{tool}"), ("kind", "other")),)),
    "fast-agent": Traits(
        # It does, but a prompt that comes right behind still goes with the old list.
        lists_again=False,
        recognised_by=((("title", "{server}/{tool}"),),),
    ),
    "gemini": Traits(tool_limit_seconds=600.0),
    "opencode": Traits(recognised_by=((("title", "{server}_{tool}"), ("kind", "other")),)),
    "qwen": Traits(tool_limit_seconds=600.0, lists_again=False),
}


def traits_of(agent: str | None) -> Traits:
    return CATALOGUE.get(agent or "", Traits())


def recognise(traits: Traits, said: Iterable[ToolActivity], server: str, tools: Iterable[str]) -> str | None:
    """Which of our tools a tool call is, by what was said of it so far; None where that does not show.

    `server` is random for each conversation: a model cannot name it by chance.
    """
    activities = tuple(said)
    for tool in tools:
        for fields in traits.recognised_by:
            for activity in activities:
                if all(_at(activity, path) == form.format(server=server, tool=tool) for path, form in fields):
                    return tool
    return None


def _at(activity: ToolActivity, path: str) -> object:
    first, *rest = path.split(".")
    match first:
        case "title":
            value: object = activity.title
        case "kind":
            value = activity.kind
        case "rawInput":
            value = activity.raw_input
        case "_meta":
            value = activity.meta
        case _:
            value = None
    for name in rest:
        fields: JsonObject = value if isinstance(value, dict) else {}
        value = fields.get(name)
    return value
