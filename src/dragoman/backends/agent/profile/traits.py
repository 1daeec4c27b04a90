"""Known traits of agents that the protocol does not report, in the form that the bridge uses.

The facts are data: `_meta.dragoman` of each entry in `dragoman/agents/catalogue.json`. An agent that is not there gets
careful defaults; the response to `initialize` wins over both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from dragoman.acp.messages import ToolActivity
from dragoman.agents.catalogue import shipped
from dragoman.agents.entry import Caution, Facts
from dragoman.backends.agent.profile.observations import HistoryTiming, Observed
from dragoman.lm import JsonObject

__all__ = ["CATALOGUE", "UNKNOWN", "Traits", "cautions_for", "recognise", "recognise_request", "traits_of"]

# A place in a tool call, dots between the names, and what stands there for a tool of a server: one of several, with a
# bar between. One that ends in an asterisk is the beginning of a longer text. A place that begins with `announced` is in
# the updates before the permission request.
_Field: TypeAlias = tuple[str, str]
_Fields: TypeAlias = tuple[_Field, ...]
_LONGER = "*"


@dataclass(frozen=True, slots=True)
class Traits:
    # Whether it is in a catalogue.
    is_known: bool = True
    # After so many seconds the agent gives a tool call up, whatever progress it is sent. None: progress keeps it alive.
    tool_limit_seconds: float | None = None
    # Whether the agent lists the tools when a session begins, and again when they change. None: it was never seen.
    lists: bool | None = True
    lists_again: bool | None = True
    # When it sends the history of a session that it loads.
    history: HistoryTiming | None = None
    # Ways to recognise that a tool call is one of a server's tools: each is a set of fields that must all agree.
    recognised_by: tuple[_Fields, ...] = ()
    # Environment without which the agent does not ask for permission, or hides our tools.
    env: tuple[tuple[str, str], ...] = ()
    # What cannot work with it, by the name of the scenario in `tests/agents`, and why.
    cannot: tuple[tuple[str, str], ...] = ()
    # What a person can do when the agent lists no tools, or its model does not see them.
    when_no_tools: str | None = None
    # Whether file access through its client works with it.
    takes_client_files: bool = True
    cautions: tuple[Caution, ...] = ()
    # For people.
    quirks: tuple[str, ...] = ()

    def after(self, learnt: Observed) -> Traits:
        """The traits updated by observations. They weigh less for an agent in the catalogue: it may have failed once."""
        limits = [each for each in (self.tool_limit_seconds, learnt.tool_limit_seconds) if each is not None]
        lists, lists_again = self.lists, self.lists_again
        if learnt.lists is not None:
            lists = True if learnt.lists else None if self.is_known else False
        if learnt.lists_again is not None and not (self.is_known and lists_again is False):
            # Where the catalogue says that it does not, it may do so too late.
            lists_again = learnt.lists_again
        return replace(
            self,
            tool_limit_seconds=min(limits, default=None),
            lists=lists,
            lists_again=lists_again,
            history=learnt.history or self.history,
        )


# The limit that MCP's own TypeScript library gives to a call: agents that were never tried gave up after 60 and 120 seconds.
_CAREFUL_LIMIT_SECONDS = 60.0
# An agent that is in no catalogue.
UNKNOWN = Traits(is_known=False, tool_limit_seconds=_CAREFUL_LIMIT_SECONDS, lists=None, lists_again=None)


def traits_of(agent: str | None, facts: Mapping[str, Facts] | None = None) -> Traits:
    """The traits of an agent. `facts` are additional catalogue entries, such as those of a registry."""
    found = (facts or {}).get(agent or "")
    if found is None:
        return CATALOGUE.get(agent or "", UNKNOWN)
    traits = _traits(found)
    if (
        agent in CATALOGUE
        or found.tool_limit is not None
        or not found.lists_again
        or found.resumes
        or found.loads
    ):
        return traits
    # A registry has the sources of agents, and usually no facts about their behaviour.
    return replace(
        traits,
        is_known=False,
        tool_limit_seconds=UNKNOWN.tool_limit_seconds,
        lists=UNKNOWN.lists,
        lists_again=UNKNOWN.lists_again,
    )


def _traits(facts: Facts) -> Traits:
    limit = facts.tool_limit
    return Traits(
        tool_limit_seconds=None if limit is None or limit.progress_extends else limit.seconds,
        lists_again=facts.lists_again,
        recognised_by=tuple(tuple(fields.items()) for fields in facts.recognised_by),
        env=tuple(facts.env.items()),
        cannot=tuple(facts.cannot.items()),
        when_no_tools=facts.when_no_tools,
        takes_client_files=facts.takes_client_files,
        cautions=facts.cautions,
        quirks=facts.quirks,
    )


# The data is in `agents/catalogue.json`.
CATALOGUE: Mapping[str, Traits] = {id_: _traits(entry.facts) for id_, entry in shipped().items()}


def cautions_for(
    traits: Traits, command: Sequence[str], *, fs: bool, mode: str | None = None
) -> tuple[str, ...]:
    """What a person must hear of an agent that is started so: where it acts without asking."""
    return tuple(
        caution.text
        for caution in traits.cautions
        if caution.unless_argument not in command
        and not (caution.unless_fs and fs)
        and (caution.unless_mode is None or caution.unless_mode != mode)
    )


def recognise(
    traits: Traits, updates: Iterable[ToolActivity], server: str, tools: Iterable[str]
) -> str | None:
    """Which of our tools a tool call is for, by its updates so far; None where they do not show it.

    `server` is random for each conversation: a model cannot name it by chance.
    """
    activities = tuple(updates)
    return _only(
        tool
        for tool in tools
        if any(
            _agrees(activity, fields, server, tool)
            for fields in traits.recognised_by
            for activity in activities
        )
    )


def recognise_request(
    traits: Traits, announced: ToolActivity, asked: ToolActivity, server: str, tools: Iterable[str]
) -> str | None:
    """Which of our tools a permission request is for.

    Earlier updates of the call count only where the request does not contradict them: a call that is announced as ours
    and requested as a command is a command.
    """
    names = tuple(tools)
    shown = [
        tool
        for tool in names
        if any(_agrees(asked, fields, server, tool, announced) for fields in traits.recognised_by)
    ]
    if shown:
        return _only(shown)
    if asked.kind in (None, announced.kind) and asked.title in (None, announced.title):
        return recognise(traits, (announced.updated(asked),), server, names)
    return None


def _only(tools: Iterable[str]) -> str | None:
    """The only matching tool. Where the beginning of an id matches two (`look`, `look__up`), there is none."""
    found = tuple(tools)
    return found[0] if len(found) == 1 else None


def _agrees(
    activity: ToolActivity, fields: _Fields, server: str, tool: str, announced: ToolActivity | None = None
) -> bool:
    return all(
        any(_fits(_at(activity, announced, path), form, server, tool) for form in forms.split("|"))
        for path, forms in fields
    )


def _fits(value: object, form: str, server: str, tool: str) -> bool:
    expected = form.removesuffix(_LONGER).format(server=server, tool=tool)
    if not form.endswith(_LONGER):
        return value == expected
    return isinstance(value, str) and value.startswith(expected) and value != expected


def _at(activity: ToolActivity, announced: ToolActivity | None, path: str) -> object:
    first, *rest = path.split(".")
    match first:
        case "announced":
            return None if announced is None else _at(announced, None, ".".join(rest))
        case "toolCallId":
            value: object = activity.tool_call_id
        case "title":
            value = activity.title
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
