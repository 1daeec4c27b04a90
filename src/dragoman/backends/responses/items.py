"""From a request to the body that an endpoint gets.

Every request has the whole history, as items, so that it also works with an endpoint that stores nothing (Ollama's). Plain texts are sent as strings, the one form that every server takes for every role. System messages become
`developer` messages, because `instructions` reach only some models behind gateways. Every call has its result and every
result its call: servers refuse other histories, or answer them badly.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterator, Sequence

from dragoman.backends.responses.call_ids import wire_ids
from dragoman.backends.responses.other_servers import message_id
from dragoman.backends.responses.tools import FunctionTools
from dragoman.lm import (
    ContentPart,
    DataPart,
    JsonObject,
    Message,
    Part,
    Request,
    Stopped,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from dragoman.lm.foreign_items import FILE_ITEM, file_of, item_of
from dragoman.lm.parts import ITEM, REFUSAL, STATEFUL_MARKER, STOPPED, is_for_model

__all__ = ["ENCRYPTED_REASONING", "body_of", "items_of"]

_log = logging.getLogger(__name__)

# So that a server which keeps nothing gives reasoning out in a form that can be given back.
ENCRYPTED_REASONING = "reasoning.encrypted_content"
# What makes the request what it is: not for options to change.
_OURS = frozenset({"background", "input", "model", "previous_response_id", "store", "stream", "tools"})
_NO_RESULT = "The call was interrupted. There is no result."
_ROLES = {"user": "user", "assistant": "assistant", "system": "developer"}

# The reasoning that led to a call, where the history does not have it itself.
Remembered = Callable[[str], Sequence[JsonObject]]


def body_of(
    request: Request,
    tools: FunctionTools,
    input_items: Sequence[JsonObject],
    model: str,
    options: JsonObject,
    *,
    keeps_reasoning: bool,
) -> JsonObject:
    """The body of a request. The request's own options win over those of the configuration."""
    chosen = request.options
    wanted = {**options, **chosen.forwarded_options}
    if refused := sorted(_OURS & wanted.keys()):
        _log.warning("model options that cannot be passed on: %s", ", ".join(refused))
    body: JsonObject = {"model": model, "input": list(input_items), "stream": True, "store": False}
    if keeps_reasoning:
        body["include"] = [ENCRYPTED_REASONING]
    if tools.functions or chosen.other_tools:
        body["tools"] = [*tools.functions, *chosen.other_tools]
        body["tool_choice"] = chosen.tool_mode if chosen.other_choice is None else chosen.other_choice
    body.update((key, value) for key, value in wanted.items() if key not in _OURS)
    if chosen.tool_mode == "required":
        body["tool_choice"] = "required"
    if keeps_reasoning and isinstance(included := wanted.get("include"), list):
        body["include"] = list(dict.fromkeys([*included, ENCRYPTED_REASONING]))
    return body


def items_of(
    messages: Sequence[Message],
    tools: FunctionTools,
    original_id: Callable[[str], str | None],
    *,
    model_id: str | None = None,
    images: bool = True,
    remembered: Remembered = lambda _call_id: (),
    is_dragoman: bool = False,
) -> tuple[list[JsonObject], tuple[str, ...]]:
    """The history, item by item, and the MIME types of what cannot be sent.

    `is_dragoman`: the endpoint is a server of ours, which knows its messages by their ids, and our own items.
    """
    history = _History(messages, tools, original_id, model_id, images, remembered, is_dragoman)
    return history.items(), tuple(dict.fromkeys(history.left_out))


class _History:
    def __init__(
        self,
        messages: Sequence[Message],
        tools: FunctionTools,
        original_id: Callable[[str], str | None],
        model_id: str | None,
        images: bool,  # noqa: FBT001 - of a private class with one caller
        remembered: Remembered,
        is_dragoman: bool,  # noqa: FBT001 - the same
    ) -> None:
        self._is_dragoman = is_dragoman
        self._marker: DataPart | None = None
        self.left_out: list[str] = []
        self._messages = messages
        self._tools = tools
        self._model_id = model_id
        self._images = images
        self._remembered = remembered
        parts = [part for message in messages for part in message.content]
        self._ids = wire_ids(
            (part.call_id for part in parts if isinstance(part, ToolCallPart | ToolResultPart)), original_id
        )
        self._answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
        self._called: set[str] = set()
        self._results_sent: set[str] = set()
        self._reasoned: set[object] = set()

    def items(self) -> list[JsonObject]:
        return [item for message in self._messages for item in self._of_message(message)]

    def _of_message(self, message: Message) -> Iterator[JsonObject]:
        parts: list[Part] = []
        for part in message.content:
            match part:
                case ToolCallPart():
                    yield from self._message(message, parts)
                    yield from self._call(part)
                case ToolResultPart():
                    yield from self._message(message, parts)
                    yield from self._result(part)
                case ThinkingPart(metadata={"model": self._model_id, "item": dict() as item}):
                    yield from self._message(message, parts)
                    yield from self._reasoning(item)
                case DataPart(mime_type=mime_type) if mime_type == STOPPED:
                    parts.append(TextPart(("\n\n" if parts else "") + Stopped.of(part).words))
                case DataPart(mime_type=mime_type) if mime_type == ITEM:
                    item = item_of(part)
                    if item.get("type") == FILE_ITEM and not self._is_dragoman:
                        # Only servers of ours know such an item.
                        parts += [file] if (file := file_of(item)) is not None else []
                    else:
                        yield from self._message(message, parts)
                        yield item
                case DataPart(mime_type=mime_type) if mime_type == STATEFUL_MARKER:
                    if self._is_dragoman:
                        yield from self._message(message, parts)
                        self._marker = part
                case TextPart() | DataPart():
                    parts.append(part)
                case _:
                    # The server did not ask for this thinking back: it is not sent.
                    pass
        yield from self._message(message, parts)
        yield from self._interrupted(message)

    def _message(self, message: Message, parts: list[Part]) -> Iterator[JsonObject]:
        content = self._content(parts)
        parts.clear()
        if message.role == "assistant":
            # An answer has text and nothing else; what else there is was for the consumer to see.
            content = [part for part in content if part["type"] in ("input_text", "refusal")]
            marker, self._marker = self._marker, None
            if content and (marker is not None or any(part["type"] == "refusal" for part in content)):
                yield _answer(content, marker)
                return
        if content:
            yield {"type": "message", "role": _ROLES[message.role], "content": _shortest(content)}

    def _content(self, parts: Sequence[Part]) -> list[JsonObject]:
        return [
            content
            for part in parts
            if isinstance(part, TextPart | DataPart)
            for content in self._content_of(part)
        ]

    def _content_of(self, part: ContentPart) -> Iterator[JsonObject]:
        match part:
            case TextPart(value=value):
                if value:
                    yield {"type": "input_text", "text": value}
            case DataPart(mime_type=mime_type) if mime_type == REFUSAL:
                yield {"type": "refusal", "refusal": part.data.decode("utf-8", "replace")}
            case DataPart() if part.is_internal:
                return
            case DataPart(mime_type=mime_type) if mime_type.startswith("image/") and self._images:
                yield {"type": "input_image", "image_url": _data_url(part), "detail": "auto"}
            case DataPart(mime_type="application/pdf", name=name):
                yield {"type": "input_file", "filename": name or "file.pdf", "file_data": _data_url(part)}
            case DataPart() if part.is_textual:
                yield {"type": "input_text", "text": part.named_text}
            case DataPart(mime_type=mime_type, data=data):
                self.left_out.append(mime_type)
                text = f"[{mime_type}, {len(data):,} bytes: left out, because it cannot be sent]"
                yield {"type": "input_text", "text": text}

    def _reasoning(self, item: JsonObject) -> Iterator[JsonObject]:
        if item.get("id") not in self._reasoned:
            self._reasoned.add(item.get("id"))
            # By the specification, a reasoning item that is sent back has no `content`.
            yield {key: value for key, value in item.items() if key not in ("content", "status")}

    def _call(self, call: ToolCallPart) -> Iterator[JsonObject]:
        if call.call_id in self._called:
            return
        self._called.add(call.call_id)
        for item in self._remembered(call.call_id):
            yield from self._reasoning(item)
        yield self._function_call(call)

    def _function_call(self, call: ToolCallPart) -> JsonObject:
        return {
            "type": "function_call",
            "call_id": self._ids[call.call_id],
            "name": self._tools.wire_name(call.name),
            "arguments": self._tools.arguments(call),
        }

    def _result(self, result: ToolResultPart) -> Iterator[JsonObject]:
        if result.call_id in self._results_sent:
            return
        self._results_sent.add(result.call_id)
        content = self._content([part for part in result.content if is_for_model(part)])
        if result.is_error:
            content.insert(0, {"type": "input_text", "text": "The call failed. "})
        if result.call_id not in self._called:
            if result.name is None:
                # Whatever it was of, the model must not lose it.
                content.insert(0, {"type": "input_text", "text": "A tool that was called earlier returned: "})
                yield {"type": "message", "role": "user", "content": _shortest(content)}
                return
            self._called.add(result.call_id)
            yield self._function_call(ToolCallPart(result.call_id, result.name, result.input or {}))
        yield {
            "type": "function_call_output",
            "call_id": self._ids[result.call_id],
            "output": _shortest(content) if content else "",
        }

    def _interrupted(self, message: Message) -> Iterator[JsonObject]:
        for call in message.calls:
            if call.call_id not in self._answered:
                self._answered.add(call.call_id)
                call_id = self._ids[call.call_id]
                yield {"type": "function_call_output", "call_id": call_id, "output": _NO_RESULT}


def _answer(content: list[JsonObject], marker: DataPart | None) -> JsonObject:
    """A message of the model in full: with a refusal, or with the id that proves whose it is."""
    parts = [
        {"type": "output_text", "text": part["text"], "annotations": []} if "text" in part else part
        for part in content
    ]
    named = {} if marker is None else {"id": message_id(marker), "status": "completed"}
    return {"type": "message", **named, "role": "assistant", "content": parts}


def _shortest(content: list[JsonObject]) -> str | list[JsonObject]:
    """The content as a string if it is only text."""
    texts = [part["text"] for part in content if part["type"] == "input_text"]
    return "".join(map(str, texts)) if len(texts) == len(content) else content


def _data_url(part: DataPart) -> str:
    return f"data:{part.mime_type};base64,{base64.b64encode(part.data).decode()}"
