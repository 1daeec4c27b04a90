"""The messages between gateways and workers, as msgpack. A field that is added later has a default.

Those of a stream are arrays, because there are many. A message that is larger than the server takes goes in pieces
(`connection`).
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from dragoman.fleet.subjects import is_node_name
from dragoman.lm import LanguageModelError, ModelInfo, Part, Request
from dragoman.lm.errors import ErrorKind
from dragoman.lm.offering import ModelOffer
from dragoman.lm.surrogates import mended_value
from dragoman.permissions.action import Action
from dragoman.permissions.decide import Ask

__all__ = [
    "ACCEPTED_FORM",
    "BATCHES_FORM",
    "BATCH_FORM",
    "BATCH_START_FORM",
    "BID_FORM",
    "BID_REQUEST_FORM",
    "MOST_ORPHANS",
    "PONG_FORM",
    "REQUEST_FORM",
    "STATUS_FORM",
    "STREAM_FORM",
    "Accepted",
    "ApprovedCall",
    "Batch",
    "BatchStart",
    "Bid",
    "BidRequest",
    "Cancel",
    "Delivered",
    "DropOrphan",
    "ErrorMessage",
    "Form",
    "HandOver",
    "NodeStatus",
    "OfferedModel",
    "PendingMessage",
    "Ping",
    "Pong",
    "Receipt",
    "RequestMessage",
    "Resend",
    "ResumeStream",
    "StreamEnd",
    "StreamMessage",
]

_T = TypeVar("_T")

# Begins a message in JSON. No message in msgpack begins with this byte.
_AS_JSON = b"\xc1"


class Form(Generic[_T]):
    """Encodes and decodes messages of one type."""

    def __init__(self, type_: type[_T]) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(type_)
        self._json_decoder = msgspec.json.Decoder(type_)

    def encode(self, message: _T) -> bytes:
        try:
            return self._encoder.encode(message)
        except UnicodeEncodeError:
            # Single surrogates, which have no UTF-8: U+FFFD in their place, as in JSON.
            return self._encoder.encode(mended_value(msgspec.to_builtins(message, builtin_types=(bytes,))))
        except OverflowError:
            # An integer of more than 64 bits, which JSON allows in the arguments of a call.
            return _AS_JSON + msgspec.json.encode(mended_value(msgspec.to_builtins(message)))

    def decode(self, data: bytes) -> _T:
        """Raises `msgspec.MsgspecError` for what is no such message."""
        if data.startswith(_AS_JSON):
            return self._json_decoder.decode(data[len(_AS_JSON) :])
        return self._decoder.decode(data)


class ErrorMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `LanguageModelError`, as far as it crosses machines."""

    kind: ErrorKind
    message: str
    hint: str | None = None
    retry_after: float | None = None
    public: str | None = None

    @classmethod
    def of(cls, error: LanguageModelError) -> ErrorMessage:
        return cls(error.kind, error.message, error.hint, error.retry_after, error.public)

    def error(self) -> LanguageModelError:
        return LanguageModelError(
            self.kind, self.message, hint=self.hint, retry_after=self.retry_after, public=self.public
        )


# Placement.


class BidRequest(msgspec.Struct, frozen=True):
    model: str
    # Ids of conversations that the request may belong to.
    hints: tuple[str, ...] = ()


class Bid(msgspec.Struct, frozen=True):
    """What a worker says to a request for bids."""

    node: str
    incarnation: str
    # Turns under way, agents that run, and how many may run.
    turns: int
    agents: int
    max_agents: int
    # Of the memory that agents may take, in bytes. None: there is no limit.
    memory_left: int | None = None
    labels: tuple[str, ...] = ()
    is_draining: bool = False
    # It takes no new conversation now. `retry_after`: perhaps in so many seconds.
    is_full: bool = False
    retry_after: float = 1.0
    # Whether a hinted conversation is in this process.
    holds: bool = False

    def __post_init__(self) -> None:
        _check_name(self.node)


# Streams.


class ApprovedCall(msgspec.Struct, frozen=True):
    """A permission call that a person has allowed at a gateway. The nonce selects the pending request."""

    call_id: str
    nonce: str


class RequestMessage(msgspec.Struct, frozen=True):
    """A gateway's request. `stream` is a new id, also when the same request is sent to another worker."""

    stream: str
    gateway: str
    model: str
    request: Request
    # Ids of conversations that it may belong to.
    hints: tuple[str, ...] = ()
    approved: tuple[ApprovedCall, ...] = ()
    # Another worker has found that this one owns the conversation.
    is_moved: bool = False


class Accepted(msgspec.Struct, frozen=True):
    """The answer to a request: the worker has it, or does not take it and says why."""

    incarnation: str
    # Until the worker's fence. The gateway counts from when it sent the request.
    seconds_left: float
    error: ErrorMessage | None = None
    # It takes no request now, because it drains or is full: another worker may. Or the stream still has a gateway.
    is_unwilling: bool = False
    # Of a stream that another gateway had: the number of its last batch, which that gateway may have shown.
    sent: int = 0


class PendingMessage(msgspec.Struct, frozen=True):
    """A permission request that waits under a call: what a gateway needs to ask a person about it."""

    call_id: str
    nonce: str
    action: Action
    ask: Ask
    conversation: str
    # Whether a client has got it as an item.
    is_item: bool = False


class StreamEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a stream ended. Without an error, the response is complete."""

    error: ErrorMessage | None = None
    # The node that owns the conversation: the request goes there. No part was reported then.
    moved_to: str | None = None

    def __post_init__(self) -> None:
        if self.moved_to is not None:
            _check_name(self.moved_to)


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Parts of a response, in order. The first batch has the number 1."""

    stream: str
    number: int
    parts: tuple[Part, ...] = ()
    pending: tuple[PendingMessage, ...] = ()
    end: StreamEnd | None = None
    # Of the worker that sends it. "": it does not say.
    incarnation: str = ""


class BatchStart(msgspec.Struct, frozen=True, array_like=True):
    """What can be read of a `Batch` of any version."""

    stream: str
    number: int


class Receipt(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What a gateway has of a stream: all batches up to this number, and it has consumed so many bytes of them.

    The first one, with the number 0, confirms the request: the worker does nothing before it. So a gateway that got no
    answer to its request can ask another worker.
    """

    stream: str
    number: int
    consumed: int
    # The background response that the stream is for. Its journal has what this receipt names, so the worker keeps the rest
    # until another gateway takes it, if this one ends. "": it is for no such response.
    background_id: str = ""
    # A gateway that has lost the stream to another one says nothing about it.
    gateway: str = ""


class Resend(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Send the batches after this one again."""

    stream: str
    after: int


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The consumer wants no more of it."""

    stream: str
    # A gateway cancels its own streams only. One that has lost a stream to another gateway cancels nothing.
    gateway: str = ""


class DropOrphan(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The response of an orphan has ended. A worker that lies about its orphans can harm no other stream with it."""

    stream: str
    background_id: str


class HandOver(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """This gateway has no use for the stream any more. Another gateway will take it."""

    stream: str
    gateway: str


class ResumeStream(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A gateway takes the stream of a gateway that is gone, and gets what comes after this batch.

    The worker answers with `Accepted`. The gateway owns the journal of the response.
    """

    stream: str
    gateway: str
    background_id: str
    after: int


class Delivered(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The last reply of a conversation has reached the consumer whole, or will not."""

    model: str
    conversation: str
    whole: bool


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A gateway lives, and has got so much of its streams. It has given up any other. The worker answers with a `Pong`."""

    gateway: str
    receipts: tuple[Receipt, ...] = ()


StreamMessage = Receipt | Resend | Cancel | DropOrphan | HandOver | ResumeStream | Delivered | Ping


class Pong(msgspec.Struct, frozen=True, array_like=True):
    """The worker's answer: its incarnation, the seconds until its fence, and the last batch it has sent of each stream."""

    incarnation: str
    seconds_left: float
    sent: dict[str, int] = {}


# Status.


class OfferedModel(msgspec.Struct, frozen=True):
    info: ModelInfo
    # What it offers to choose, if it is an agent.
    offer: ModelOffer | None = None
    is_agent: bool = False
    # Its own folder, on the worker.
    folder: str | None = None


# So many orphans are named in a status, and looked after: others follow when those are taken.
MOST_ORPHANS = 64


class NodeStatus(msgspec.Struct, frozen=True):
    """What a node says of itself, to operators, gateways and consoles."""

    name: str
    incarnation: str
    role: str
    version: str
    models: tuple[OfferedModel, ...] = ()
    labels: tuple[str, ...] = ()
    is_draining: bool = False
    turns: int = 0
    agents: int = 0
    max_agents: int = 0
    # In bytes: of its agents, and how much they may take.
    memory: int = 0
    memory_limit: int | None = None
    # Conversations that are in this process; streams that are open.
    conversations: int = 0
    streams: int = 0
    # Of the lease, and how long the last renewal took.
    seconds_left: float = 0.0
    renewal_seconds: float = 0.0
    # For people: where it runs.
    host: str = ""
    pid: int = 0
    # Background responses whose gateway is gone, with their streams: some of them, and how many there are.
    orphans: dict[str, str] = {}
    orphan_count: int = 0

    def __post_init__(self) -> None:
        _check_name(self.name)


def _check_name(name: str) -> None:
    """Nodes are addressed by the names in messages. A message with any other text cannot be read."""
    if not is_node_name(name):
        raise ValueError(f"{name!r} is no name of a node")


BID_REQUEST_FORM, BID_FORM = Form(BidRequest), Form(Bid)
REQUEST_FORM, ACCEPTED_FORM, BATCH_FORM = Form(RequestMessage), Form(Accepted), Form(Batch)
# A union is a type to msgspec, and none to mypy.
STREAM_FORM: Form[StreamMessage] = Form(StreamMessage)  # type: ignore[arg-type]
BATCH_START_FORM = Form(BatchStart)
# One message with batches of several streams. Each is read on its own.
BATCHES_FORM: Form[tuple[bytes, ...]] = Form(tuple[bytes, ...])
PONG_FORM, STATUS_FORM = Form(Pong), Form(NodeStatus)
