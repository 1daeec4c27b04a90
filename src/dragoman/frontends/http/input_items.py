"""Lists of items: the input of a stored response, or a conversation. Values in, values out.

Items have their full form: with a type, an id and content in parts. An item without an id gets one that is the same in
every list, so that a client can request the next page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dragoman.frontends.http.errors import bad_request
from dragoman.lm import JsonObject

__all__ = ["full_item", "item_id", "listed", "listed_id"]

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "compaction": "cmp",
}
# The default and the maximum of `limit`, as in OpenAI's API.
_ORDINARY = 20
_MOST = 100


def listed(items: Sequence[JsonObject], owner_id: str, query: Mapping[str, str]) -> JsonObject:
    """Return a page of the items, the last first unless `order` is `asc`."""
    limit = _limit(query.get("limit"))
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise bad_request("`order` is asc or desc.", param="order")
    full = [full_item(item, listed_id(index, owner_id)) for index, item in enumerate(items)]
    if order == "desc":
        full.reverse()
    rest = full[_index_after(full, query.get("after")) :]
    page = rest[:limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(rest) > limit,
    }


def _limit(given: str | None) -> int:
    if given is None:
        return _ORDINARY
    if not (
        given.isascii() and given.isdecimal() and len(given) <= len(str(_MOST)) and 1 <= int(given) <= _MOST
    ):
        raise bad_request(f"`limit` is a number from 1 to {_MOST}.", param="limit")
    return int(given)


def _index_after(full: Sequence[JsonObject], after: str | None) -> int:
    if after is None:
        return 0
    for place, item in enumerate(full):
        if item["id"] == after:
            return place + 1
    raise bad_request(f"There is no item {after[:128]!r} to continue after.", param="after")


def full_item(item: JsonObject, new_id: Callable[[str], str]) -> JsonObject:
    """An item with all its fields. `new_id` makes the id of one that has none."""
    kind = str(item.get("type", "message"))
    id_ = item.get("id")
    named = id_ if isinstance(id_, str) and id_ else new_id(_PREFIXES.get(kind, "item"))
    full: JsonObject = {**item, "type": kind, "id": named}
    if kind == "message":
        full["status"] = item.get("status") or "completed"
        full["content"] = _content(item.get("content"), is_ours=item.get("role") == "assistant")
    return full


def listed_id(index: int, owner_id: str) -> Callable[[str], str]:
    """Makes the id of an item without one: it says where the item is stored."""
    return lambda prefix: f"{prefix}_in{index}_{owner_id}"


def item_id(item: JsonObject) -> str:
    """The id of an item that has one."""
    return str(item["id"])


def _content(content: object, *, is_ours: bool) -> object:
    if not isinstance(content, str):
        return content if content is not None else []
    if is_ours:
        return [{"type": "output_text", "text": content, "annotations": [], "logprobs": []}]
    return [{"type": "input_text", "text": content}]
