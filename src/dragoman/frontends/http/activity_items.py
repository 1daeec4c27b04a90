"""An agent's activities and plans as items of a response. Values in, values out.

Both types are extensions of the specification. A client gets them only if it sends the header `x-dragoman-activity`. A
later part with the same id changes its item, so such an item stays open while others begin and end. It ends with its
activity, or with the response. Each change in between sends the whole item in an event that is an extension as well.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.lm import ActivityPart, JsonObject, PlanPart

__all__ = ["ITEM_TYPES", "ActivityItem"]

_ACTIVITY, _PLAN = "dragoman:activity", "dragoman:plan"
ITEM_TYPES = frozenset({_ACTIVITY, _PLAN})
_ENDED = frozenset({"completed", "failed"})

_Shown: TypeAlias = ActivityPart | PlanPart


class ActivityItem:
    """The item of one activity or plan, in its current state."""

    def __init__(self, part: _Shown, id_: str, index: int) -> None:
        """`id_` is the id of a plan's item. The item of an activity has the id of the activity."""
        self.part = part
        self.id = part.id if isinstance(part, ActivityPart) else id_
        self.index = index
        self.is_done = False

    @property
    def has_ended(self) -> bool:
        """Whether the activity has ended. A plan may change until the response ends."""
        return isinstance(self.part, ActivityPart) and self.part.status in _ENDED

    @property
    def updated(self) -> str:
        """The type of the event that reports a change of the item."""
        return f"{_PLAN if isinstance(self.part, PlanPart) else _ACTIVITY}.updated"

    def as_json(self) -> JsonObject:
        part = self.part
        if isinstance(part, PlanPart):
            entries = msgspec.to_builtins(part.entries)
            return {"type": _PLAN, "id": self.id, "status": self._status, "entries": entries}
        return {
            "type": _ACTIVITY,
            "id": self.id,
            "status": self._status,
            "title": part.title,
            "kind": part.kind,
            "activity_status": part.status,
            "locations": msgspec.to_builtins(part.locations),
            "diff": part.diff,
            "output": part.output,
            "exit_status": part.exit_status,
        }

    @property
    def _status(self) -> str:
        """The status of the item. An activity that goes on after the response is `completed`: only a last item is `incomplete`."""
        if not self.is_done:
            return "in_progress"
        return (
            "failed" if isinstance(self.part, ActivityPart) and self.part.status == "failed" else "completed"
        )
