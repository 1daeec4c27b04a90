"""Items that an endpoint made, and pictures, as items of a response. Values in, values out.

An endpoint's item is in the response as the endpoint wrote it. Events about it are passed on with the item's place in this
response. Such an item may stay open while others begin and end. A picture of an agent has the form that OpenAI gives to
pictures.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TypeAlias

from dragoman.lm import DataPart, JsonObject
from dragoman.lm.foreign_items import item_of

__all__ = ["EventFields", "ForeignOutputs", "picture_item"]

# The type of an event, and its fields without the number.
EventFields: TypeAlias = tuple[str, JsonObject]

_ADDED, _DONE = "response.output_item.added", "response.output_item.done"


def picture_item(picture: DataPart, id_: str) -> JsonObject:
    return {
        "type": "image_generation_call",
        "id": id_,
        "status": "completed",
        "result": base64.b64encode(picture.data).decode(),
    }


class ForeignOutputs:
    """The items of one response that are passed on. `output` is the list of all its items."""

    def __init__(self, output: list[JsonObject]) -> None:
        self._output = output
        # The places of the items that are open, by their ids.
        self._open: dict[str, int] = {}

    def begins_item(self, part: DataPart) -> bool:
        return item_of(part).get("type") == _ADDED

    def event(self, part: DataPart) -> Iterator[EventFields]:
        """Yield an event about an item. One about an item that is not open is dropped."""
        event = item_of(part)
        kind, item = str(event.get("type")), event.get("item")
        if kind == _ADDED and isinstance(item, dict):
            self._open[str(item.get("id"))] = len(self._output)
            self._output.append(item)
            yield kind, {"output_index": len(self._output) - 1, "item": item}
        elif (place := self._open.get(str(event.get("item_id")))) is not None:
            fields = {key: value for key, value in event.items() if key not in ("type", "sequence_number")}
            yield kind, {**fields, "output_index": place}

    def whole(self, item: JsonObject) -> Iterator[EventFields]:
        """Yield the events of a complete item."""
        place = self._open.pop(str(item.get("id")), None)
        if place is None:
            place = len(self._output)
            self._output.append(item)
            yield _ADDED, {"output_index": place, "item": item}
        self._output[place] = item
        yield _DONE, {"output_index": place, "item": item}

    def end(self) -> Iterator[EventFields]:
        """End the items that the endpoint left open, because the response has failed or was cut off."""
        for place in self._open.values():
            yield _DONE, {"output_index": place, "item": self._output[place]}
        self._open.clear()
