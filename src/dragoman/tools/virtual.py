"""Virtual tools: groups for more tools than a model takes.

Above a threshold, tools are grouped, and a group is offered as one virtual tool, `activate_<group>`, whose description
names what it contains. Calling it expands the group: from the next request on, its tools stand in its place. When there
is no room for all expanded groups, those used longest ago collapse again.

Groups are made of the tools alone, never of what was called, so the same tools are always grouped in the same way. A
tool belongs to one group: that of its first tag, else that of its name up to the first `_` or `-`. What would be a group
of one goes to `other`. No group is larger than half the limit, so there is always room for at least one to expand;
larger ones are divided and numbered.

This is a calculation, without state: `offer` takes the expanded groups, the latest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set as AbstractSet
from dataclasses import dataclass

from dragoman.lm import JsonObject, LanguageModelError, ToolDefinition
from dragoman.tools.names import legal_name
from dragoman.tools.registry import ToolInfo

__all__ = ["DEFAULT_LIMIT", "PREFIX", "GroupedTools", "ToolGroup", "ToolLimitError", "offer"]

# What editors and the large providers take.
DEFAULT_LIMIT = 128
PREFIX = "activate_"

_OTHER = "other"
_SEPARATOR = re.compile(r"[_-]")
# Providers take names of 64 characters. There must be room for the prefix, and for a number behind it.
_MAX_LABEL = 48
# The description is to choose by. Names that do not fit are counted.
_MAX_DESCRIPTION = 2_000
_NO_INPUT: JsonObject = {"type": "object", "properties": {}}


class ToolLimitError(LanguageModelError):
    """There are more tools than can be offered, even in groups."""

    def __init__(self, tools: int, needed: int, limit: int) -> None:
        super().__init__(
            "bad_request",
            f"{tools} tools are too many: in groups they still need {needed} places, and the limit is {limit}",
            hint="Deselect some of them, or give those that belong together a common tag.",
        )


@dataclass(frozen=True, slots=True)
class ToolGroup:
    """A virtual tool and the tools behind it."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupedTools:
    definitions: tuple[ToolDefinition, ...]
    groups: tuple[ToolGroup, ...] = ()
    # The names of the groups that are expanded in this offer, the latest first.
    expanded: tuple[str, ...] = ()


def offer(
    tools: Sequence[ToolInfo],
    *,
    limit: int = DEFAULT_LIMIT,
    threshold: int = DEFAULT_LIMIT,
    expanded: Sequence[str] = (),
    pinned: AbstractSet[str] = frozenset(),
) -> GroupedTools:
    """What to offer: never more than `limit`. `pinned` tools are offered themselves, whatever becomes of their group."""
    if len(tools) <= min(threshold, limit):
        return GroupedTools(tuple(map(_definition, tools)))
    groups = tuple(_groups(tools, (limit + 1) // 2))
    hidden = {group.name: len(set(group.members) - pinned) for group in groups}
    # What it takes beyond the one place of its virtual tool to show a group.
    extra = {name: max(0, size - 1) for name, size in hidden.items()}
    places = len(tools) - sum(extra.values())
    needed = places + max(extra.values(), default=0)
    if needed > limit:
        raise ToolLimitError(len(tools), needed, limit)
    opened: list[str] = []
    for name in dict.fromkeys(expanded):
        places += extra.get(name, 0)
        if places > limit:
            break
        if name in extra:
            opened.append(name)
    # One tool is not hidden behind one tool.
    closed = [group for group in groups if hidden[group.name] > 1 and group.name not in opened]
    behind = {name for group in closed for name in group.members} - pinned
    return GroupedTools(
        (
            *(_definition(tool) for tool in tools if tool.name not in behind),
            *(_virtual(group.name, [name for name in group.members if name in behind]) for group in closed),
        ),
        groups,
        tuple(opened),
    )


def _groups(tools: Sequence[ToolInfo], largest: int) -> Iterator[ToolGroup]:
    labelled: dict[str, list[str]] = {}
    for tool in tools:
        labelled.setdefault(_label(tool), []).append(tool.name)
    alone = [label for label, names in labelled.items() if len(names) == 1]
    if len(alone) > 1 or (alone and _OTHER in labelled):
        for label in alone:
            if label != _OTHER:
                labelled.setdefault(_OTHER, []).extend(labelled.pop(label))
    taken = {tool.name for tool in tools}
    for label, names in labelled.items():
        pieces = [names[start : start + largest] for start in range(0, len(names), largest)]
        for number, piece in enumerate(pieces, 1):
            if len(piece) > 1:
                name = _free(f"{PREFIX}{label}_{number}" if len(pieces) > 1 else f"{PREFIX}{label}", taken)
                taken.add(name)
                yield ToolGroup(name, tuple(piece))


def _label(tool: ToolInfo) -> str:
    if tool.tags:
        return _legal(tool.tags[0])
    prefix, *rest = _SEPARATOR.split(tool.name, maxsplit=1)
    return _legal(prefix) if rest else _OTHER


def _legal(text: str) -> str:
    return legal_name(text)[:_MAX_LABEL] or _OTHER


def _free(name: str, taken: AbstractSet[str]) -> str:
    """`name`, or `name` with the first free number behind it."""
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _definition(tool: ToolInfo) -> ToolDefinition:
    return ToolDefinition(tool.name, tool.description, tool.input_schema)


def _virtual(name: str, contents: list[str]) -> ToolDefinition:
    listed, fitting = ", ".join(contents), len(contents)
    while len(listed) > _MAX_DESCRIPTION:
        fitting -= 1
        listed = f"{', '.join(contents[:fitting])} and {len(contents) - fitting} more"
    return ToolDefinition(
        name,
        f"Makes more tools available: {listed}. Call it, without arguments, when one of them would help.",
        _NO_INPUT,
    )
