"""What the bridge makes of what is known of agents beyond what they say of themselves.

The facts are data: `_meta.dragoman` of each entry in `dragoman/agents/catalogue.json`. An agent that is not there gets
the careful defaults; what `initialize` says wins over both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dragoman.agents.catalogue import shipped
from dragoman.agents.entry import Caution, Facts
from dragoman.backends.agent.acp.messages import ToolActivity
from dragoman.lm import JsonObject

__all__ = ["CATALOGUE", "Traits", "recognise", "recognise_asked", "traits_of", "warned"]

# A place in a tool call, dots between the names, and what stands there for a tool of a server: one of several, with a
# bar between. A place that begins with `announced` is in what the agent said before it asked for permission.
_Field: TypeAlias = tuple[str, str]
_Fields: TypeAlias = tuple[_Field, ...]


@dataclass(frozen=True, slots=True)
class Traits:
    # After so many seconds the agent gives a tool call up, whatever progress it is sent. None: progress keeps it alive.
    tool_limit_seconds: float | None = None
    # Whether the agent lists tools again when told that they changed.
    lists_again: bool = True
    # Ways to recognise that a tool call is one of a server's tools: each is a set of fields that must all agree.
    recognised_by: tuple[_Fields, ...] = ()
    # Environment without which the agent decides by itself, or hides our tools.
    env: tuple[tuple[str, str], ...] = ()
    # What cannot work with it, by the name of the scenario in `tests/agents`, and why.
    cannot: tuple[tuple[str, str], ...] = ()
    cautions: tuple[Caution, ...] = ()
    # For people.
    quirks: tuple[str, ...] = ()


def traits_of(agent: str | None, facts: Mapping[str, Facts] | None = None) -> Traits:
    """`facts` are those of somebody who knows more than what came with us."""
    found = (facts or {}).get(agent or "")
    return _traits(found) if found is not None else CATALOGUE.get(agent or "", Traits())


def _traits(facts: Facts) -> Traits:
    limit = facts.tool_limit
    return Traits(
        tool_limit_seconds=None if limit is None or limit.progress_extends else limit.seconds,
        lists_again=facts.lists_again,
        recognised_by=tuple(tuple(fields.items()) for fields in facts.recognised_by),
        env=tuple(facts.env.items()),
        cannot=tuple(facts.cannot.items()),
        cautions=facts.cautions,
        quirks=facts.quirks,
    )


# The data is in `agents/catalogue.json`.
CATALOGUE: Mapping[str, Traits] = {id_: _traits(entry.facts) for id_, entry in shipped().items()}


def warned(traits: Traits, command: Sequence[str], *, fs: bool) -> tuple[str, ...]:
    """What a person must hear of an agent that is started so: where it acts without asking."""
    return tuple(
        caution.text
        for caution in traits.cautions
        if caution.unless_argument not in command and not (caution.unless_fs and fs)
    )


def recognise(traits: Traits, said: Iterable[ToolActivity], server: str, tools: Iterable[str]) -> str | None:
    """Which of our tools a tool call is, by what was said of it so far; None where that does not show.

    `server` is random for each conversation: a model cannot name it by chance.
    """
    activities = tuple(said)
    for tool in tools:
        for fields in traits.recognised_by:
            if any(_agrees(activity, fields, server, tool) for activity in activities):
                return tool
    return None


def recognise_asked(
    traits: Traits, announced: ToolActivity, asked: ToolActivity, server: str, tools: Iterable[str]
) -> str | None:
    """Which of our tools a request for permission is about.

    What the agent said of the call before counts only where the request says nothing else: a call that is announced as
    ours and asked for as a command is a command.
    """
    names = tuple(tools)
    for tool in names:
        if any(_agrees(asked, fields, server, tool, announced) for fields in traits.recognised_by):
            return tool
    if asked.kind in (None, announced.kind) and asked.title in (None, announced.title):
        return recognise(traits, (announced.updated(asked),), server, names)
    return None


def _agrees(
    activity: ToolActivity, fields: _Fields, server: str, tool: str, announced: ToolActivity | None = None
) -> bool:
    return all(
        _at(activity, announced, path) in [form.format(server=server, tool=tool) for form in forms.split("|")]
        for path, forms in fields
    )


def _at(activity: ToolActivity, announced: ToolActivity | None, path: str) -> object:
    first, *rest = path.split(".")
    match first:
        case "announced":
            return None if announced is None else _at(announced, None, ".".join(rest))
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
