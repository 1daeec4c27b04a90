"""Chat completions: reads requests of the older API, and writes its responses. Values in, values out.

For a client that takes approvals as items, a permission request is a tool call whose id says so (`approvals`). The client
offers no tool for it, and answers with a tool message. Every client of this API carries both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec

from dragoman.frontends.http.approvals import (
    ClientDecision,
    approval_id,
    approved_call,
    decision_of_message,
    is_approval,
    is_approval_id,
    is_approval_item,
)
from dragoman.frontends.http.budget import Budget
from dragoman.frontends.http.create_request import CreateRequest, read_form
from dragoman.frontends.http.errors import ApiError, bad_request
from dragoman.frontends.http.ignored import names_of
from dragoman.frontends.http.items import arguments_of, content_of, refused
from dragoman.frontends.http.request_headers import conversation_hint
from dragoman.frontends.http.tools import OfferedTools, chosen, functions_of, other_tools
from dragoman.frontends.http.usage import chat_usage
from dragoman.lm import (
    DataPart,
    JsonObject,
    Message,
    Part,
    Stopped,
    StopReason,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
    gfm,
)
from dragoman.lm.foreign_items import is_heading, item_line, item_of
from dragoman.lm.json import encode_text
from dragoman.lm.parts import ANNOTATION, IGNORED, ITEM, REFUSAL, STOPPED
from dragoman.lm.rules import CALL_ID_LIMIT, NAMESPACE

__all__ = ["ChatBody", "ChatStream", "read_chat"]

_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
_Finish: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
_FINISHES: dict[StopReason, _Finish] = {
    "length": "length",
    "content_filter": "content_filter",
    "other": "stop",
}


class ChatBody(msgspec.Struct, frozen=True):
    model: str
    messages: list[JsonObject]
    tools: list[JsonObject] | None = None
    tool_choice: str | JsonObject | None = None
    stream: bool | None = None
    stream_options: JsonObject | None = None
    n: int | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    response_format: JsonObject | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    user: str | None = None


# The fields of an annotation that count characters of its message.
_PLACES = frozenset({"start_index", "end_index"})
# Options with the same name in Open Responses, the form in which endpoints get them.
_OPTIONS = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "parallel_tool_calls")
_KNOWN = frozenset(each.encode_name for each in msgspec.structs.fields(ChatBody))


def read_chat(value: JsonObject, headers: Mapping[str, str]) -> tuple[CreateRequest, bool]:
    """Read a request. The second value is whether the stream ends with the usage."""
    body = read_form(value, ChatBody)
    if body.n not in (None, 1):
        raise bad_request("There is only one choice for each request: leave `n` out.", param="n")
    ignored = sorted(
        str(name)[:64] for name, given in value.items() if name not in _KNOWN and given is not None
    )
    ignored += ["store"] if body.store else []
    tools = functions_of(body.tools or ())
    ignored += OfferedTools(others=other_tools(body.tools or ())).ignored
    decisions: dict[str, ClientDecision] = {}
    asked: set[str] = set()
    messages = tuple(_messages(body.messages, ignored, decisions, asked))
    create = CreateRequest(
        model=body.model,
        items=[],
        messages=messages,
        decisions=decisions,
        approvals_asked=frozenset(asked),
        offer=chosen(body.tool_choice, tools),
        consumer_id=headers.get("x-conversation-id") or None,
        consumer_hint=conversation_hint(headers),
        is_streamed=bool(body.stream),
        is_stored=False,
        is_chat=True,
        refuses_storing=body.store is False,
        options=_options(body, value),
        ignored=tuple(ignored),
    )
    return create, (body.stream_options or {}).get("include_usage") is True


def _options(body: ChatBody, value: JsonObject) -> JsonObject:
    options = {name: value[name] for name in _OPTIONS if value.get(name) is not None}
    if options.get("parallel_tool_calls") is True:
        del options["parallel_tool_calls"]
    most = body.max_completion_tokens or body.max_tokens
    if most is not None:
        options["max_output_tokens"] = most
    if body.reasoning_effort is not None:
        options["reasoning"] = {"effort": body.reasoning_effort}
    match body.response_format:
        case None | {"type": "text"}:
            pass
        case {"type": "json_schema", "json_schema": dict() as schema}:
            options["text"] = {"format": {"type": "json_schema", **schema}}
        case other:
            options["text"] = {"format": other}
    return options


def _messages(
    given: list[JsonObject], ignored: list[str], decisions: dict[str, ClientDecision], asked: set[str]
) -> Iterator[Message]:
    called: set[str] = set()
    # Limits the arguments of all calls. Chat completions have no compactions.
    budget = Budget(0)
    for index, message in enumerate(given):
        where = f"messages[{index}]"
        role = message.get("role")
        content: tuple[Part, ...] = tuple(
            content_of(message.get("content"), f"{where}.content", ignored, of_answer=role == "assistant")
        )
        match role:
            case "system" | "developer":
                yield Message("system", content)
            case "user":
                yield Message("user", content)
            case "assistant":
                calls = tuple(_calls(message.get("tool_calls"), where, budget, asked))
                called.update(call.call_id for call in calls)
                words = message.get("refusal")
                stop = (refused(words),) if isinstance(words, str) and words else ()
                yield Message("assistant", (*content, *calls, *stop))
            case "tool":
                call_id = message.get("tool_call_id")
                results = tuple(_content(content))
                if isinstance(call_id, str) and is_approval_id(call_id):
                    call_id, text = approved_call(call_id), "".join(_texts(results))
                    decisions[call_id], results = decision_of_message(text), ()
                if not isinstance(call_id, str) or (
                    call_id not in called and not call_id.startswith(NAMESPACE)
                ):
                    raise bad_request(
                        "A tool message must name the call that it answers.", param=f"{where}.tool_call_id"
                    )
                yield Message("user", (ToolResultPart(call_id, results),))
            case _:
                raise bad_request(
                    "The role must be system, developer, user, assistant or tool.", param=f"{where}.role"
                )


def _content(parts: tuple[Part, ...]) -> Iterator[TextPart | DataPart]:
    return (part for part in parts if isinstance(part, TextPart | DataPart))


def _texts(parts: tuple[TextPart | DataPart, ...]) -> Iterator[str]:
    return (part.value for part in parts if isinstance(part, TextPart))


def _calls(calls: object, where: str, budget: Budget, asked: set[str]) -> Iterator[ToolCallPart]:
    """Read the calls of a message. Add those that are permission requests to `asked`."""
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        match call:
            case {"id": str(call_id), "function": {"name": str(name), **function}} if (
                0 < len(call_id) <= CALL_ID_LIMIT
            ):
                place = f"{where}.tool_calls[{index}].function"
                if is_approval_id(call_id):
                    call_id = approved_call(call_id)
                    asked.add(call_id)
                yield arguments_of(call_id, name, function.get("arguments"), place, budget)
            case _:
                raise bad_request(
                    "A call must have an id and a function.", param=f"{where}.tool_calls[{index}]"
                )


class ChatStream:
    """Builds one completion from parts: as chunks, or whole."""

    def __init__(
        self,
        id_: str,
        model: str,
        created: int,
        ignored: tuple[str, ...] = (),
        *,
        approves_items: bool = False,
        renders_markdown: bool = False,
    ) -> None:
        self._head: JsonObject = {"id": id_, "created": created, "model": model}
        self._ignored = list(dict.fromkeys(ignored))
        self._annotations: list[JsonObject] = []
        # Whether an agent answers. Its messages are pieces of one text, also behind another server of ours.
        self.is_of_agent = False
        # Whether the next text belongs to another message of the endpoint, and where the last one begins in the text.
        self._is_next_message = False
        self._message_start = 0
        self._approves_items = approves_items
        self._renders_markdown = renders_markdown
        # The ids of the calls that are permission requests.
        self._approvals: list[str] = []
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[JsonObject] = []
        self._refusal: str | None = None
        self._stop: StopReason | None = None

    def begin(self) -> JsonObject:
        return {**self._chunk({"role": "assistant", "content": ""}), **_ours(self._named_as_ignored)}

    @property
    def _named_as_ignored(self) -> JsonObject:
        return {"ignored": list(self._ignored)} if self._ignored else {}

    def take(self, part: Part) -> Iterator[JsonObject]:
        match part:
            case TextPart(value=text) if text:
                yield self._say(text)
            case ThinkingPart() if part.text:
                self._thoughts.append(part.text)
                # The API has no such field, but other servers send thinking here, and clients read it.
                yield self._chunk({"reasoning_content": part.text})
            case ToolCallPart():
                yield self._add_call(self._call(part))
            case DataPart(mime_type=mime_type) if mime_type == STOPPED:
                stopped = Stopped.of(part)
                self._stop = stopped.reason
                if stopped.reason == "content_filter" and stopped.words:
                    yield self._refuse(stopped.words)
            case DataPart(mime_type=mime_type) if mime_type == REFUSAL:
                yield self._refuse(part.data.decode("utf-8", "replace"))
            case DataPart(mime_type=mime_type) if mime_type == ANNOTATION:
                annotation = _annotation(item_of(part), self._message_start)
                self._annotations.append(annotation)
                yield self._chunk({"annotations": [annotation]})
            case DataPart(mime_type=mime_type) if mime_type == IGNORED:
                self._ignored = list(dict.fromkeys([*self._ignored, *names_of(part)]))
            case DataPart(mime_type=mime_type) if mime_type == ITEM:
                yield from self._item(item_of(part))
            case _:
                return

    def _say(self, text: str) -> JsonObject:
        """Add text. A completion has one message, so those of an endpoint are its paragraphs."""
        if self._is_next_message:
            between = "\n\n" if self._text and not self.is_of_agent else ""
            self._message_start = sum(map(len, self._text)) + len(between)
            self._is_next_message = False
            text = between + text
        self._text.append(text)
        return self._chunk({"content": text})

    def _add_call(self, call: JsonObject) -> JsonObject:
        self._calls.append(call)
        return self._chunk({"tool_calls": [{"index": len(self._calls) - 1, **call}]})

    def _refuse(self, words: str) -> JsonObject:
        self._refusal = (self._refusal or "") + words
        return self._chunk({"refusal": words})

    def _item(self, item: JsonObject) -> Iterator[JsonObject]:
        """Add an endpoint's item: a call of a custom tool, a permission request, or a line that names what the API has no form for."""
        if is_heading(item):
            self._is_next_message = True
        elif item.get("type") == "custom_tool_call":
            called = {"name": item.get("name"), "input": item.get("input")}
            yield self._add_call({"id": item.get("call_id"), "type": "custom", "custom": called})
        elif self._approves_items and is_approval_item(item):
            called = {"name": item.get("name"), "arguments": item.get("arguments")}
            self._approvals.append(str(item["id"]))
            yield self._add_call({"id": item["id"], "type": "function", "function": called})
        else:
            line = item_line(item)
            yield from self.take(TextPart(line if self._renders_markdown else gfm.plain(line)))

    def end(self, usage: UsagePart | None, *, with_usage: bool) -> Iterator[JsonObject]:
        yield {**self._chunk({}, self._finish), **_ours({**self._named_as_ignored, **self._asked})}
        if with_usage:
            counted = chat_usage(usage)
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": counted}

    def failed(self, error: ApiError) -> JsonObject:
        """Return the error with the partial message beside it. The API has no form for an incomplete answer."""
        return {**error.openai_body, "dragoman": {"partial": self._message()}}

    def whole(self, usage: UsagePart | None) -> JsonObject:
        choice = {"index": 0, "message": self._message(), "finish_reason": self._finish, "logprobs": None}
        counted = chat_usage(usage)
        named = {"usage": counted} if counted is not None else {}
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            **named,
            **_ours({**self._named_as_ignored, **self._asked}),
        }

    def _message(self) -> JsonObject:
        message: JsonObject = {
            "role": "assistant",
            "content": "".join(self._text) if self._text or not self._calls else None,
            "refusal": self._refusal,
        }
        if self._thoughts:
            message["reasoning_content"] = "".join(self._thoughts)
        if self._annotations:
            message["annotations"] = self._annotations
        if self._calls:
            message["tool_calls"] = self._calls
        return message

    def _call(self, call: ToolCallPart) -> JsonObject:
        arguments = call.unparsed if call.unparsed is not None else encode_text(call.input)
        id_ = call.call_id
        if self._approves_items and is_approval(call):
            id_ = approval_id(call)
            self._approvals.append(id_)
        return {"id": id_, "type": "function", "function": {"name": call.name, "arguments": arguments}}

    @property
    def _asked(self) -> JsonObject:
        return {"approval_requests": self._approvals} if self._approvals else {}

    @property
    def _finish(self) -> _Finish:
        if self._stop is not None:
            return _FINISHES[self._stop]
        return "tool_calls" if self._calls else "stop"

    def _chunk(self, delta: JsonObject, finish: _Finish | None = None) -> JsonObject:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}


def _annotation(annotation: JsonObject, start: int) -> JsonObject:
    """An annotation of a message that begins at `start`. The chat API has its fields one level deeper."""
    kind = str(annotation.get("type"))
    fields = {
        key: value + start if key in _PLACES and isinstance(value, int) else value
        for key, value in annotation.items()
        if key != "type"
    }
    return {"type": kind, kind: fields}


def _ours(fields: JsonObject) -> JsonObject:
    """Our own fields of a completion or a chunk."""
    return {"dragoman": fields} if fields else {}
