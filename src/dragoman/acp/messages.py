"""The messages of ACP that we send and receive, as types. https://agentclientprotocol.com/protocol/schema

What we send is exact. What we receive is read leniently: unknown fields are ignored, `_meta` is stored where agents put
needed data into it, and a value of the wrong form is dropped without failing the message.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.acp.content import ContentBlock
from dragoman.jsonrpc import Decoder
from dragoman.lm import JsonObject
from dragoman.lm.json import decode

__all__ = [
    "PERMISSION_REFUSED",
    "PROTOCOL_VERSION",
    "AcpPlanEntry",
    "AgentCapabilities",
    "AuthMethod",
    "ChunkUpdate",
    "Diff",
    "FileRequest",
    "Header",
    "HttpServer",
    "Initialized",
    "Option",
    "OptionKind",
    "OtherUpdate",
    "PermissionRequest",
    "PlanUpdate",
    "PromptResponse",
    "ReadTextFile",
    "SessionCreated",
    "SessionUpdate",
    "StdioServer",
    "ToolActivity",
    "Update",
    "UsageUpdate",
    "WriteTextFile",
    "count",
    "decode_file_request",
    "decode_permission",
    "decode_update",
    "decode_words",
]

# The error code for an action that was refused: ours, of those that JSON-RPC leaves to servers. ACP uses -32000 and -32002.
PERMISSION_REFUSED = -32001

PROTOCOL_VERSION = 1

_T = TypeVar("_T")
OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class _Message(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


# What an agent says of itself.


class PromptCapabilities(_Message, frozen=True):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(_Message, frozen=True):
    http: bool = False
    sse: bool = False


class SessionCapabilities(_Message, frozen=True):
    """Present means supported, whatever is in it."""

    resume: JsonObject | None = None
    fork: JsonObject | None = None
    close: JsonObject | None = None
    additional_directories: JsonObject | None = None


class AgentCapabilities(_Message, frozen=True):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()


class AgentInfo(_Message, frozen=True):
    name: str = ""
    title: str | None = None
    version: str = ""


class AuthMethod(_Message, frozen=True):
    id: str
    name: str = ""
    description: str | None = None
    # "agent" (it does all of it), "env_var" or "terminal". Absent: the first.
    type: str | None = None
    # For a terminal: what is added to the agent's own command and environment. Read leniently, as `_meta` is.
    args: object = None
    env: object = None
    meta: object = msgspec.field(default=None, name="_meta")

    def terminal_login(self, own: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]] | None:
        """The command of a login in a terminal, and variables for it. `own` is the command of the agent.

        Most agents share an extension that names the whole command.
        """
        match self.meta:
            case {"terminal-auth": {"command": str(command), **more}}:
                return (command, *_texts(more.get("args"))), _variables(more.get("env"))
        if self.type != "terminal":
            return None
        return (*own, *_texts(self.args)), _variables(self.env)

    @property
    def needs_terminal(self) -> bool:
        return self.terminal_login(()) is not None


class Initialized(_Message, frozen=True):
    protocol_version: int
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    agent_info: AgentInfo | None = None
    auth_methods: tuple[AuthMethod, ...] = ()
    meta: JsonObject | None = msgspec.field(default=None, name="_meta")

    @property
    def steers(self) -> bool:
        """Whether it accepts messages in mid-turn: an extension that the Claude and Codex adapters share."""
        steering = (self.meta or {}).get("steering")
        return isinstance(steering, dict) and steering.get("supported") is True


class SessionCreated(_Message, frozen=True):
    session_id: str = ""
    modes: JsonObject | None = None
    config_options: tuple[JsonObject, ...] | None = None

    @property
    def mode(self) -> object:
        """The current mode of the session, if the agent reports it."""
        return (self.modes or {}).get("currentModeId")

    @property
    def options(self) -> dict[object, object]:
        """The current values of its options by their ids, as far as the agent reports them."""
        return {option.get("id"): option.get("currentValue") for option in self.config_options or ()}


class PromptResponse(_Message, frozen=True):
    stop_reason: str
    usage: JsonObject | None = None


# Tool servers we offer.


class Header(_Message, frozen=True):
    name: str
    value: str


class HttpServer(_Message, frozen=True, tag_field="type", tag="http"):
    name: str
    url: str
    headers: tuple[Header, ...]


class StdioServer(_Message, frozen=True, omit_defaults=False):
    name: str
    command: str
    args: tuple[str, ...]
    env: tuple[Header, ...]


# Updates of a session.


class Location(_Message, frozen=True):
    path: str
    line: int | None = None


class Diff(_Message, frozen=True):
    path: str
    old_text: str | None
    new_text: str


class ToolActivity(_Message, frozen=True):
    """A `tool_call` or `tool_call_update`, or the tool call of a permission request: what is absent has not changed."""

    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    content: tuple[object, ...] | None = None
    locations: tuple[Location, ...] | None = None
    raw_input: object = None
    raw_output: object = None
    meta: JsonObject | None = msgspec.field(default=None, name="_meta")

    def updated(self, update: ToolActivity) -> ToolActivity:
        changes = {
            name: value
            for name in ToolActivity.__struct_fields__
            if (value := getattr(update, name)) is not None
        }
        return msgspec.structs.replace(self, **changes)

    @property
    def diffs(self) -> tuple[Diff, ...]:
        found = [item for item in self.content or () if isinstance(item, dict) and item.get("type") == "diff"]
        return tuple(_each([{"oldText": None, **item} for item in found], Diff))

    @property
    def terminal_output(self) -> str:
        """New output of the agent's own terminal since the last update: an extension, which Codex sends."""
        for name in ("terminal_output_delta", "terminal_output"):
            match (self.meta or {}).get(name):
                case {"data": str(data)}:
                    return data
        return ""

    @property
    def exit_status(self) -> int | None:
        """Of the command that it ran: `_meta` has it (Codex), or the raw output (Codex's old line, opencode)."""
        match (self.meta or {}).get("terminal_exit"), self.raw_output:
            case {"exit_code": int(status)}, _:
                pass
            case _, {"exit_code": int(status)} | {"exitCode": int(status)} | {
                "metadata": {"exit": int(status)}
            }:
                pass
            case _:
                return None
        return None if isinstance(status, bool) else status

    @property
    def text(self) -> str:
        """The text among its content."""
        return "".join(
            str(item["content"].get("text", ""))
            for item in self.content or ()
            if isinstance(item, dict)
            and isinstance(item.get("content"), dict)
            and item["content"].get("type") == "text"
        )


class ChunkUpdate(_Message, frozen=True):
    """A chunk of the agent's message (`agent`), of its thinking (`thought`), or of a repeated user message (`user`)."""

    role: Literal["agent", "thought", "user"]
    content: ContentBlock


class AcpPlanEntry(_Message, frozen=True):
    content: str
    priority: str = "medium"
    status: str = "pending"


class PlanUpdate(_Message, frozen=True):
    entries: tuple[AcpPlanEntry, ...] = ()


class UsageUpdate(_Message, frozen=True):
    """The size of the context, and the cost of the session so far. What the agent does not report is None."""

    used: int | None = None
    size: int | None = None
    amount: float | None = None
    currency: str | None = None


class OtherUpdate(_Message, frozen=True):
    """An update that is not shown to the user: commands, modes, titles, and unknown kinds."""

    kind: str
    content: JsonObject


Update: TypeAlias = ChunkUpdate | ToolActivity | PlanUpdate | UsageUpdate | OtherUpdate


class SessionUpdate(_Message, frozen=True):
    session_id: str
    update: Update


class _Chunk(_Message, frozen=True):
    content: ContentBlock
    session_update: str


class _ChunkParameters(_Message, frozen=True):
    session_id: str
    update: _Chunk


_chunk = Decoder(_ChunkParameters)
_ROLES: dict[str, Literal["agent", "thought", "user"]] = {
    "agent_message_chunk": "agent",
    "agent_thought_chunk": "thought",
    "user_message_chunk": "user",
}


class _ChunkLine(msgspec.Struct, frozen=True):
    method: Literal["session/update"]
    params: _ChunkParameters
    jsonrpc: Literal["2.0"] = "2.0"
    id: UnsetType | None = UNSET


_chunk_line = msgspec.json.Decoder(_ChunkLine)


def decode_words(line: bytes) -> SessionUpdate | None:
    """Decode a whole line with a chunk update in one pass, with the result of `decode_update`. None for other lines.

    Also None for a line that is not ASCII: the fields that this decoder skips would have to be checked, too.
    """
    if not line.isascii():
        return None
    try:
        found = _chunk_line.decode(line)
        role = _ROLES[found.params.update.session_update]
    except (msgspec.DecodeError, RecursionError, KeyError):
        return None
    if found.id is not UNSET:
        # It is a request.
        return None
    return SessionUpdate(found.params.session_id, ChunkUpdate(role, found.params.update.content))


def decode_update(params: bytes) -> SessionUpdate:
    """Decode the parameters of `session/update`. Raises `msgspec.ValidationError` only if it is no update at all.

    The text of a chunk may end or begin with half a character; the consumer of the chunks joins the halves.
    """
    try:
        # Nearly all updates are chunks: one pass for them.
        found = _chunk.decode(params)
        role = _ROLES[found.update.session_update]
    except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError):
        value = _object(_readable(decode, params))
    else:
        return SessionUpdate(found.session_id, ChunkUpdate(role, found.update.content))
    session, update = value.get("sessionId"), _object(value.get("update"))
    kind = update.get("sessionUpdate")
    if not isinstance(session, str) or not isinstance(kind, str):
        raise msgspec.ValidationError("an update without a session or a kind")
    return SessionUpdate(session, _update(kind, update))


def _readable(read: Callable[[bytes], _T], params: bytes) -> _T:
    try:
        return read(params)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise msgspec.ValidationError(str(error)) from error


def _update(kind: str, value: JsonObject) -> Update:
    try:
        match kind:
            case "tool_call" | "tool_call_update":
                return activity_from(value)
            case "plan":
                return PlanUpdate(tuple(_each(value.get("entries"), AcpPlanEntry)))
            case "usage_update" if (usage := _usage_from(value)) != UsageUpdate():
                return usage
    except msgspec.ValidationError:
        pass
    return OtherUpdate(kind, value)


def _usage_from(value: JsonObject) -> UsageUpdate:
    usage = UsageUpdate(count(value.get("used")), count(value.get("size")))
    match value.get("cost"):
        case {"amount": int() | float() as amount, "currency": str(currency)} if _is_amount(amount):
            return msgspec.structs.replace(usage, amount=float(amount), currency=currency)
        case _:
            return usage


def count(value: object) -> int | None:
    """A whole number from 0 up, if it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _is_amount(value: float) -> bool:
    # A number that no float holds is no amount either.
    return not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def activity_from(value: JsonObject) -> ToolActivity:
    """Decode a tool call, without the fields that cannot be read; only its id is required."""
    try:
        return msgspec.convert(value, ToolActivity)
    except msgspec.ValidationError:
        valid = {name: field for name, field in value.items() if _has_its_form(name, field)}
        return msgspec.convert(valid, ToolActivity)


def _has_its_form(name: str, field: object) -> bool:
    try:
        msgspec.convert({"toolCallId": "", name: field}, ToolActivity)
    except msgspec.ValidationError:
        return False
    return True


def _is_of_activity(name: str, field: object) -> bool:
    if name == "locations" and any(
        isinstance(each, dict) and each.keys() - {"path", "line"} for each in _items(field)
    ):
        return False
    return name in _ACTIVITY_FIELDS and name != "rawOutput" and _has_its_form(name, field)


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


_ACTIVITY_FIELDS = frozenset(ToolActivity.__struct_encode_fields__)


class Option(_Message, frozen=True):
    option_id: str
    kind: str
    name: str = ""


class PermissionRequest(_Message, frozen=True):
    session_id: str
    tool_call: ToolActivity
    options: tuple[Option, ...]
    # Fields of the tool call that ACP does not define, or whose values have another form: a person sees them too.
    extra: JsonObject = {}
    meta: JsonObject | None = msgspec.field(default=None, name="_meta")

    def option(self, kind: OptionKind) -> str | None:
        """The id of the first option of a kind: ids and names differ from agent to agent, kinds do not.

        An id that stands for another kind as well says nothing: the agent might take it for that one.
        """
        ambiguous = {option.option_id for option in self.options if option.kind != kind}
        return next(
            (
                each.option_id
                for each in self.options
                if each.kind == kind and each.option_id not in ambiguous
            ),
            None,
        )


def decode_permission(params: bytes) -> PermissionRequest:
    """Decode the parameters of `session/request_permission`. Raises `msgspec.ValidationError` without usable options."""
    value = _object(_readable(decode, params))
    meta = value.get("_meta")
    call = _object(value.get("toolCall"))
    return PermissionRequest(
        str(value.get("sessionId", "")),
        activity_from(call),
        tuple(_each(value.get("options"), Option)),
        {
            name: field
            for name, field in call.items()
            if field is not None and not _is_of_activity(name, field)
        },
        meta if isinstance(meta, dict) else None,
    )


class ReadTextFile(_Message, frozen=True):
    session_id: str
    path: str
    line: Annotated[int, msgspec.Meta(ge=0)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=0)] | None = None


class WriteTextFile(_Message, frozen=True):
    session_id: str
    path: str
    content: str


FileRequest: TypeAlias = ReadTextFile | WriteTextFile
_read_text_file = Decoder(ReadTextFile)
_write_text_file = Decoder(WriteTextFile)


def decode_file_request(method: str, params: bytes) -> FileRequest | None:
    """The parameters of a request for a file; None if the method is none. Raises `msgspec.ValidationError`."""
    match method:
        case "fs/read_text_file":
            return _readable(_read_text_file.decode, params)
        case "fs/write_text_file":
            return _readable(_write_text_file.decode, params)
        case _:
            return None


def _each(values: object, kind: type[_T]) -> Iterator[_T]:
    """Those of an array that are what they should be."""
    for value in values if isinstance(values, list) else ():
        try:
            yield msgspec.convert(value, kind)
        except msgspec.ValidationError:
            continue


def _texts(values: object) -> tuple[str, ...]:
    return tuple(each for each in values if isinstance(each, str)) if isinstance(values, list) else ()


def _variables(values: object) -> dict[str, str]:
    if not isinstance(values, dict):
        return {}
    return {name: value for name, value in values.items() if isinstance(name, str) and isinstance(value, str)}


def _object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise msgspec.ValidationError("expected an object")
    return value
