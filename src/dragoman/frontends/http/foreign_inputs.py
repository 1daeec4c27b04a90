"""Items of a request that no part has a form for. Values in, values out.

An endpoint gets them as the client sent them: they are the endpoint's own items, which the client sends back, or content
that the endpoint reads itself. An agent gets the pictures among them. The rest is named as ignored.
"""

from __future__ import annotations

from dragoman.frontends.http.file_links import is_file_address
from dragoman.lm import JsonObject, Part, Role, ThinkingPart
from dragoman.lm.foreign_items import item_part

__all__ = ["endpoint_part", "foreign_role", "is_foreign_message"]

_DATA = "data:"
# Fields of an answer that parts have a form for, or that are made anew.
_ANSWER_FIELDS = frozenset({"type", "role", "content", "id", "status"})
_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "refusal"})


def foreign_role(item: JsonObject) -> Role:
    """Who says an item: the client sends the results and decisions, and the model everything else."""
    kind = str(item.get("type"))
    return "user" if kind.endswith("_output") or kind == "mcp_approval_response" else "assistant"


def endpoint_part(item: JsonObject, model: str, thoughts: str) -> Part:
    """The part for an item that an endpoint gets as it is. `thoughts` is the text of a reasoning item."""
    if item.get("type") == "reasoning":
        return ThinkingPart(thoughts, _id_of(item), {"model": model, "item": item})
    return item_part(item)


def is_foreign_message(item: JsonObject) -> bool:
    """Whether a message has content, or fields, that only an endpoint can read."""
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    if item.get("role") == "assistant":
        if any(key not in _ANSWER_FIELDS and value is not None for key, value in item.items()):
            return True
        return any(_is_foreign_answer(part) for part in parts)
    return any(_is_foreign(part) for part in parts)


def _is_foreign_answer(part: object) -> bool:
    if not isinstance(part, dict):
        return False
    annotations = part.get("annotations")
    cited = annotations if isinstance(annotations, list) else []
    return part.get("type") not in _TEXTS or not all(map(_is_of_our_link, cited))


def _is_of_our_link(annotation: object) -> bool:
    """Whether an annotation is about a link to a file, which we make anew."""
    match annotation:
        case {"type": "url_citation", "url": str(url)}:
            return is_file_address(url)
        case _:
            return False


def _is_foreign(part: object) -> bool:
    match part:
        case {"type": str(kind)} if kind in _TEXTS:
            return False
        case {"type": "input_image", "image_url": str(url), **more}:
            return not url.startswith(_DATA) or more.get("detail") not in (None, "auto")
        case {"type": "input_file", "file_data": str(data)}:
            return not data.startswith(_DATA)
        case {"type": "input_file" | "input_image" | "input_audio" | "input_video"}:
            return True
        case _:
            return False


def _id_of(item: JsonObject) -> str | None:
    id_ = item.get("id")
    return id_ if isinstance(id_, str) else None
