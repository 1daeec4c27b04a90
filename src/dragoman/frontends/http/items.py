"""Convert the items of a request to messages. Values in, values out.

The text, thinking and calls of the model between two user messages become one message, as they were one answer. A result
follows its call. A result without a call is an error, unless its id is one of ours, which identifies the conversation. A
message with an id of ours brings the conversation's marker back.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

import msgspec

from dragoman.frontends.http.activity_items import ITEM_TYPES
from dragoman.frontends.http.approvals import ClientDecision, approved_call
from dragoman.frontends.http.budget import Budget
from dragoman.frontends.http.compaction import expanded
from dragoman.frontends.http.errors import bad_request, too_deep
from dragoman.frontends.http.foreign_inputs import (
    endpoint_part,
    foreign_role,
    is_foreign_message,
)
from dragoman.frontends.http.stream import MESSAGE_ID
from dragoman.lm import (
    ContentPart,
    DataPart,
    JsonObject,
    Message,
    Part,
    Role,
    Stopped,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from dragoman.lm.foreign_items import file_of
from dragoman.lm.json import decode, encode_text
from dragoman.lm.nesting import INPUT_LEVELS, NestedTooDeeply
from dragoman.lm.parts import REFUSAL, STATEFUL_MARKER
from dragoman.lm.rules import CALL_ID_LIMIT, NAMESPACE

__all__ = ["RequestInput", "arguments_of", "content_of", "messages_from_items", "refused"]

_ROLES: dict[object, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
_NAMED = re.compile(rf"{MESSAGE_ID}\d+_([A-Za-z0-9_-]+)")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w.+-]+=[^;,]*)*)(;base64)?,(.*)", re.DOTALL)
_ITEMS_LIMIT = 20_000
# Thinking that a client sends back as a message. Pydantic AI does so.
_THOUGHT_MESSAGE = re.compile(r"<think>\n((?:(?!</think>).)*)\n</think>", re.DOTALL)


@dataclass(slots=True)
class RequestInput:
    """The messages and decisions of a request. `ignored` names the content that cannot be read."""

    messages: tuple[Message, ...] = ()
    decisions: dict[str, ClientDecision] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def messages_from_items(
    items: Sequence[object], model: str, budget: Budget, *, for_endpoint: bool = False
) -> RequestInput:
    """Convert these items. `model` is the model of the markers in them; `budget` limits their packed content.

    `for_endpoint`: items that no part has a form for are passed on as they are.
    """
    return _Converter(model, budget, for_endpoint=for_endpoint).convert(items)


class _Converter:
    def __init__(self, model: str, budget: Budget, *, for_endpoint: bool) -> None:
        self._for_endpoint = for_endpoint
        self._model = model
        self._budget = budget
        # The number of items, with those in compactions.
        self._items = 0
        self._input = RequestInput()
        self._messages: list[Message] = []
        # Role and parts of the message under construction.
        self._role: Role | None = None
        self._parts: list[Part] = []
        self._called: set[str] = set()

    def convert(self, items: Sequence[object]) -> RequestInput:
        self._count(len(items))
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                raise bad_request("An item is an object.", param=f"input[{index}]")
            self._take(item, f"input[{index}]")
        self._flush()
        self._input.messages = tuple(self._messages)
        return self._input

    def _count(self, more: int) -> None:
        self._items += more
        if self._items > _ITEMS_LIMIT:
            raise bad_request(f"There are more than {_ITEMS_LIMIT:,} items.", param="input")

    def _take(self, item: JsonObject, where: str) -> None:
        match item.get("type", "message"):
            case "message" if self._for_endpoint and is_foreign_message(item):
                self._foreign(item)
            case "message":
                self._message(item, where)
            case "reasoning" if self._for_endpoint and item.get("encrypted_content"):
                self._foreign(item)
            case "reasoning":
                if text := "".join(_thoughts(item)):
                    self._add("assistant", ThinkingPart(text))
            case "function_call":
                call_id, name = _text(item, "call_id", where), _text(item, "name", where)
                self._call(call_id, name, item.get("arguments"), where)
            case "function_call_output":
                call_id = _text(item, "call_id", where)
                content = tuple(content_of(item.get("output"), f"{where}.output", self._input.ignored))
                self._result(call_id, content, where)
            case "mcp_approval_request" | "mcp_approval_response" if self._for_endpoint:
                self._foreign(item)
            case "mcp_approval_request":
                call_id = approved_call(_text(item, "id", where))
                self._call(call_id, _text(item, "name", where), item.get("arguments"), where)
            case "mcp_approval_response":
                self._approval(item, where)
            case "compaction":
                self._flush()
                packed = expanded(_text(item, "encrypted_content", where), where, self._budget)
                self._count(len(packed))
                for inner in packed:
                    self._take(inner, where)
            case "item_reference":
                # The references of a request are resolved before. This one is in a compaction, where none can be.
                raise bad_request("Send the item itself.", param=where, code="unsupported_item")
            case str(extension) if extension in ITEM_TYPES:
                # A client sends these items back. They are no part of the conversation.
                pass
            case str() if self._for_endpoint:
                self._foreign(item)
            case _ if (file := file_of(item)) is not None:
                self._add("assistant", file)
            case other:
                self._input.ignored.append(f"{where} ({str(other)[:64]})")

    def _foreign(self, item: JsonObject) -> None:
        """Add an item that an endpoint gets as it is."""
        is_message = item.get("type", "message") == "message"
        role = _ROLES.get(item.get("role")) if is_message else foreign_role(item)
        if role is None:
            role = "user"
        part = endpoint_part(item, self._model, "".join(_thoughts(item)))
        is_answer = role == "assistant"
        if is_message and not is_answer:
            self._flush()
        self._add(role, part)
        if is_message and not is_answer:
            self._flush()

    def _message(self, item: JsonObject, where: str) -> None:
        role = _ROLES.get(item.get("role"))
        if role is None:
            raise bad_request(
                "The role of a message is user, assistant, system or developer.", param=f"{where}.role"
            )
        is_answer = role == "assistant"
        content = tuple(
            content_of(
                item.get("content"),
                f"{where}.content",
                self._input.ignored,
                of_answer=is_answer,
                for_endpoint=self._for_endpoint,
            )
        )
        if not is_answer:
            self._flush()
        named = _NAMED.fullmatch(str(item.get("id"))) if is_answer else None
        if named:
            self._add(role, DataPart(STATEFUL_MARKER, f"{self._model}\\{named[1]}".encode()))
        for part in content:
            thought = _THOUGHT_MESSAGE.fullmatch(part.value) if isinstance(part, TextPart) else None
            self._add(role, ThinkingPart(thought[1]) if is_answer and thought else part)
        if not is_answer:
            self._flush()

    def _call(self, call_id: str, name: str, arguments: object, where: str) -> None:
        if not 1 <= len(call_id) <= CALL_ID_LIMIT:
            raise bad_request(
                f"A call id has 1 to {CALL_ID_LIMIT} characters.",
                param=f"{where}.call_id",
                code="invalid_call_id",
            )
        self._called.add(call_id)
        self._add("assistant", arguments_of(call_id, name, arguments, where, self._budget))

    def _approval(self, item: JsonObject, where: str) -> None:
        call_id = approved_call(_text(item, "approval_request_id", where))
        approve, reason = item.get("approve"), item.get("reason")
        if not isinstance(approve, bool):
            raise bad_request("`approve` is true or false.", param=f"{where}.approve")
        self._input.decisions[call_id] = ClientDecision(approve, reason if isinstance(reason, str) else None)
        self._result(call_id, (), where)

    def _result(self, call_id: str, content: tuple[ContentPart, ...], where: str) -> None:
        if call_id not in self._called and not call_id.startswith(NAMESPACE):
            raise bad_request(
                f"There is no call {call_id[:CALL_ID_LIMIT]!r} that this could be the output of.",
                param=f"{where}.call_id",
                code="no_such_call",
            )
        self._add("user", ToolResultPart(call_id, content))

    def _add(self, role: Role, part: Part) -> None:
        if role != self._role:
            self._flush()
            self._role = role
        self._parts.append(part)

    def _flush(self) -> None:
        if self._role is not None and self._parts:
            self._messages.append(Message(self._role, tuple(self._parts)))
        self._role, self._parts = None, []


def content_of(
    content: object, where: str, ignored: list[str], *, of_answer: bool = False, for_endpoint: bool = False
) -> Iterator[ContentPart]:
    """Yield the content of a message or a result: a text, or parts of the types that the two APIs have."""
    if content is None:
        return
    if isinstance(content, str):
        if content:
            yield TextPart(content)
        return
    if not isinstance(content, list):
        raise bad_request("The content is a string or an array of parts.", param=where)
    for index, part in enumerate(content):
        place = f"{where}[{index}]"
        match part:
            case {"type": "input_text" | "output_text" | "text" | "summary_text", "text": str(text)}:
                yield TextPart(text)
            case {"type": "refusal", "refusal": str(text)}:
                yield _refusal(text, for_endpoint=for_endpoint) if of_answer else TextPart(text)
            case {"type": "input_image" | "image_url", "image_url": str(url)}:
                yield _file(url, None, place, ignored)
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                yield _file(url, None, place, ignored)
            case {"type": "input_file", "file_data": str(data)}:
                name = part.get("filename")
                yield _file(data, name if isinstance(name, str) else None, place, ignored)
            case {"type": "file", "file": {"file_data": str(data), **named}}:
                name = named.get("filename")
                yield _file(data, name if isinstance(name, str) else None, place, ignored)
            case {"type": "input_file", "file_url": str(url)}:
                yield _file(url, None, place, ignored)
            case {"type": str(kind)}:
                raise bad_request(
                    f"Content of the type {kind[:64]!r} cannot be taken in this form.",
                    param=place,
                    code="unsupported_content",
                )
            case _:
                raise bad_request("A part of the content is an object with a type.", param=place)


def _refusal(words: str, *, for_endpoint: bool) -> DataPart:
    """A refusal of the history. An endpoint gets it as one."""
    return DataPart(REFUSAL, words.encode("utf-8", "replace")) if for_endpoint else refused(words)


def refused(words: str) -> DataPart:
    """Convert a refusal: the reason why an answer ended, not a text of the answer. Responses send it in the same form."""
    return Stopped("content_filter", words).part


def _file(url: str, name: str | None, where: str, ignored: list[str]) -> ContentPart:
    """Return the bytes of a file in the request. A URL becomes a text and is not fetched: it may point anywhere."""
    if url.startswith("data:"):
        data = _data_url(url)
        if data is None:
            raise bad_request(
                "This is not a data URL that can be read.", param=where, code="invalid_data_url"
            )
        return msgspec.structs.replace(data, name=name) if name else data
    if url.startswith(("http://", "https://")):
        ignored.append(f"{where} (not fetched)")
        return TextPart(f"[{name or 'An attachment'} at {url}, which was not fetched]")
    try:
        return DataPart("application/octet-stream", base64.b64decode(url, validate=True))
    except (binascii.Error, ValueError):
        raise bad_request("This is neither an address nor base64.", param=where) from None


def _data_url(url: str) -> DataPart | None:
    found = _DATA_URL.fullmatch(url)
    if found is None:
        return None
    try:
        data = base64.b64decode(found[4], validate=True) if found[3] else unquote_to_bytes(found[4])
    except (binascii.Error, ValueError):
        return None
    return DataPart(found[1] or "text/plain", data)


def arguments_of(call_id: str, name: str, arguments: object, where: str, budget: Budget) -> ToolCallPart:
    """Convert a call of the history. Arguments that are not a JSON object stay as text."""
    if arguments is None or arguments == "":
        return ToolCallPart(call_id, name, {})
    if isinstance(arguments, str):
        budget.count(arguments.encode("utf-8", "surrogatepass"), where)
    try:
        value = decode(arguments, INPUT_LEVELS) if isinstance(arguments, str) else arguments
    except NestedTooDeeply as error:
        raise too_deep(error, f"{where}.arguments") from None
    except msgspec.DecodeError:
        value = None
    if isinstance(value, dict):
        return ToolCallPart(call_id, name, value)
    return ToolCallPart(
        call_id, name, {}, arguments if isinstance(arguments, str) else encode_text(arguments)
    )


def _thoughts(item: JsonObject) -> Iterator[str]:
    for name in ("content", "summary"):
        parts = item.get(name)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                yield str(part["text"])


def _text(item: JsonObject, name: str, where: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise bad_request(f"`{name}` is a text.", param=f"{where}.{name}")
    return value
