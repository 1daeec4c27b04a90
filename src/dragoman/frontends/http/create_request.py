"""A request to create a response, read and checked. Values in, values out.

Fields that only some models can honour are *options*. A model that takes options gets them. For any other model, the
response names them as ignored. The response names unknown fields, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

from dragoman.frontends.http.approvals import ClientDecision
from dragoman.frontends.http.budget import check_values
from dragoman.frontends.http.errors import ApiError, bad_request, too_deep
from dragoman.frontends.http.request_headers import conversation_hint
from dragoman.frontends.http.tools import OfferedTools, chosen, functions_of, other_tools
from dragoman.lm import JsonObject, Message
from dragoman.lm.json import decode
from dragoman.lm.nesting import NestedTooDeeply, place_of

__all__ = [
    "OUR_CONVERSATION",
    "CompactBody",
    "CreateBody",
    "CreateRequest",
    "Labels",
    "items_of",
    "object_of",
    "read_compact",
    "read_create",
    "read_form",
]

# The ids that `POST /v1/conversations` makes. Others are only evidence of which conversation a request belongs to.
OUR_CONVERSATION = re.compile(r"conv_[0-9a-f]{32}")

_Form = TypeVar("_Form", bound=msgspec.Struct)

_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
_Label = Annotated[str, msgspec.Meta(max_length=512)]
Labels: TypeAlias = Annotated[dict[str, _Label], msgspec.Meta(max_length=16)]


class CreateBody(msgspec.Struct, frozen=True):
    model: str
    input: str | list[JsonObject] | None = None
    previous_response_id: str | None = None
    conversation: str | JsonObject | None = None
    include: list[str] | None = None
    tools: list[JsonObject] | None = None
    tool_choice: str | JsonObject | None = None
    metadata: Labels | None = None
    text: JsonObject | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    stream_options: JsonObject | None = None
    background: bool | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_tool_calls: Annotated[int, msgspec.Meta(ge=1)] | None = None
    reasoning: JsonObject | None = None
    safety_identifier: _Label | None = None
    prompt_cache_key: _Label | None = None
    truncation: Literal["auto", "disabled"] | None = None
    instructions: str | None = None
    store: bool | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    user: str | None = None
    # Over a WebSocket: false only stores the input, for a later turn.
    generate: bool | None = None


class CompactBody(msgspec.Struct, frozen=True):
    model: str
    input: str | list[JsonObject] | None = None
    previous_response_id: str | None = None
    instructions: str | None = None
    prompt_cache_key: str | None = None


# Fields that change an answer, each with the values that mean the default.
_OPTIONS: dict[str, tuple[object, ...]] = {
    "text": ({"format": {"type": "text"}}, {}),
    "temperature": (),
    "top_p": (),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "parallel_tool_calls": (True,),
    "max_output_tokens": (),
    "max_tool_calls": (),
    "reasoning": ({}, {"effort": None, "summary": None}),
    "truncation": ("disabled",),
    "service_tier": ("auto", "default"),
    "top_logprobs": (0,),
    "include": ([],),
}
_ECHOED = (
    *(name for name in _OPTIONS if name != "include"),
    "instructions",
    "safety_identifier",
    "prompt_cache_key",
)
_FIELDS = frozenset(each.encode_name for each in msgspec.structs.fields(CreateBody)) | {"type"}
_VALIDATION_ERROR = re.compile(r"(?P<problem>.*?)(?: - at `(?:key in )?\$\.?(?P<path>.*)`)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """A request of either API, as the service reads it."""

    model: str
    items: list[JsonObject]
    offer: OfferedTools
    previous: str | None = None
    consumer_id: str | None = None
    # An id that its program gives the conversation, and that was not meant for us. Where others name it, they count.
    consumer_hint: str | None = None
    instructions: str | None = None
    is_streamed: bool = False
    is_stored: bool = True
    generates: bool = True
    # Whether it runs on without its client.
    is_background: bool = False
    # Whether it is one for a chat completion.
    is_chat: bool = False
    # The id of a conversation, if it has the form of those that this server makes.
    conversation: str | None = None
    # `store: false`: nothing of it may be stored, anywhere.
    refuses_storing: bool = False
    # The history of a chat completion, which has no items.
    messages: tuple[Message, ...] = ()
    # The decisions in it about permission requests, by the id of their call.
    decisions: dict[str, ClientDecision] = field(default_factory=dict)
    # The calls of a completion's history that were such requests.
    approvals_asked: frozenset[str] = frozenset()
    metadata: JsonObject = field(default_factory=dict)
    # The fields of the request that the response repeats.
    echoed: JsonObject = field(default_factory=dict)
    # Fields with another value than the default, for a model that takes options.
    options: JsonObject = field(default_factory=dict)
    # Fields and tools that no model gets.
    ignored: tuple[str, ...] = ()


def object_of(body: bytes | str) -> JsonObject:
    body = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
    check_values(body)
    try:
        value = decode(body)
    except NestedTooDeeply as error:
        raise too_deep(error, place_of(body)) from None
    except msgspec.DecodeError as error:
        raise bad_request(f"The body is not valid JSON: {error}.", code="invalid_json") from None
    if not isinstance(value, dict):
        raise bad_request("The body is a JSON object.", code="invalid_json")
    return value


def read_form(value: JsonObject, form: type[_Form]) -> _Form:
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None


def read_create(
    value: JsonObject, headers: Mapping[str, str], *, over_websocket: bool = False
) -> CreateRequest:
    """Read and check a request. `headers` may have the client's own id of the conversation.

    Every response over a WebSocket is a stream, so `stream` and `stream_options` mean nothing there. Codex sends them.
    """
    body = read_form(value, CreateBody)
    if body.background and body.store is False:
        raise bad_request(
            "A background response is stored while it runs. Leave `store` out, or `background`.",
            param="background",
            code="conflicting_fields",
        )
    if body.stream_options and not body.stream and not over_websocket:
        raise bad_request("`stream_options` are for streams.", param="stream_options")
    ignored = sorted(str(name)[:64] for name in value if name not in _FIELDS)
    tools = functions_of(body.tools or ())
    named = _conversation(body)
    return CreateRequest(
        model=body.model,
        items=items_of(body.input),
        offer=chosen(body.tool_choice, tools, other_tools(body.tools or ())),
        previous=body.previous_response_id,
        consumer_id=_consumer_id(body, named, headers),
        consumer_hint=conversation_hint(headers),
        instructions=body.instructions,
        is_streamed=bool(body.stream) or over_websocket,
        is_stored=body.store is not False,
        generates=body.generate is not False,
        is_background=bool(body.background),
        conversation=named if named is not None and OUR_CONVERSATION.fullmatch(named) else None,
        refuses_storing=body.store is False,
        metadata=dict(body.metadata or {}),
        echoed=_echoed(body, value),
        options=_options(value),
        ignored=tuple(ignored),
    )


def read_compact(value: JsonObject) -> CompactBody:
    return read_form(value, CompactBody)


def items_of(given: str | list[JsonObject] | None) -> list[JsonObject]:
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return given or []


def _options(value: JsonObject) -> JsonObject:
    return {
        name: value[name]
        for name, ordinary in _OPTIONS.items()
        if value.get(name) is not None and value[name] not in ordinary
    }


def _echoed(body: CreateBody, value: JsonObject) -> JsonObject:
    echoed = {name: value[name] for name in _ECHOED if value.get(name) is not None}
    if "text" in echoed:
        echoed["text"] = {"format": {"type": "text"}, **(body.text or {})}
        match echoed["text"]:
            case {"format": {"type": "json_schema"} as given}:
                # With all the fields that the response resource requires.
                echoed["text"] = {
                    **(body.text or {}),
                    "format": {"description": None, "strict": False, **given},
                }
    if "reasoning" in echoed:
        echoed["reasoning"] = {"effort": None, "summary": None, **(body.reasoning or {})}
    if body.service_tier == "auto":
        echoed["service_tier"] = "default"
    echoed["tool_choice"] = body.tool_choice if body.tool_choice is not None else "auto"
    echoed["tools"] = [_shown(tool) for tool in body.tools or () if tool.get("type") == "function"]
    return echoed


def _shown(tool: JsonObject) -> JsonObject:
    """Return a function with all the fields that the response resource requires."""
    defaults: JsonObject = {"description": None, "parameters": None, "strict": None}
    return {**defaults, **tool}


def _conversation(body: CreateBody) -> str | None:
    match body.conversation:
        case str(given) | {"id": str(given)}:
            return given
        case None:
            return None
        case _:
            raise bad_request("`conversation` is an id, or an object with one.", param="conversation")


def _consumer_id(body: CreateBody, given: str | None, headers: Mapping[str, str]) -> str | None:
    header = headers.get("x-conversation-id") or None
    if given is not None and body.previous_response_id is not None:
        raise bad_request(
            "`previous_response_id` and `conversation` both name the history: give one of them.",
            param="conversation",
            code="conflicting_ids",
        )
    if given is not None and header is not None and given != header:
        raise bad_request(
            "`conversation` and the header x-conversation-id are not the same.",
            param="conversation",
            code="conflicting_ids",
        )
    return given if given is not None else header


def _invalid(error: msgspec.ValidationError) -> ApiError:
    found = _VALIDATION_ERROR.fullmatch(str(error))
    path = found["path"] if found else None
    missing = re.search(r"missing required field `(\w+)`", str(error))
    if missing:
        path = f"{path}.{missing[1]}" if path else missing[1]
        return bad_request(f"`{path}` is missing.", param=path, code="missing_required_parameter")
    problem = found["problem"] if found else str(error)
    return bad_request(f"{problem}." if not path else f"`{path}`: {problem}.", param=path or None)
