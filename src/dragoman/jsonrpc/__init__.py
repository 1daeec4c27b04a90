"""One JSON-RPC 2.0 peer for newline-delimited streams: the editor, an agent.

Bytes become lines in `framing`, lines become messages in `messages`, and `peer` hands them out in order; `stream` knows
the transports, and holds them back. Everything needed from outside is importable from here; the tool server, which answers
over HTTP as well, takes the messages alone.
"""

from dragoman.jsonrpc.connect import connect_files, connect_socket, connect_stdio
from dragoman.jsonrpc.errors import ConnectionClosed, RemoteError
from dragoman.jsonrpc.framing import MAX_MESSAGE_BYTES
from dragoman.jsonrpc.incoming import Incoming
from dragoman.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    ErrorObject,
    ErrorResponse,
    Notification,
    RequestId,
    RpcResponse,
)
from dragoman.jsonrpc.peer import CANCEL_REQUEST, OnReply, Peer, PeerOptions, Receiver, RpcReply, Watch
from dragoman.jsonrpc.text import Decoder

__all__ = [
    "CANCEL_REQUEST",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "MAX_MESSAGE_BYTES",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "REQUEST_CANCELLED",
    "ConnectionClosed",
    "Decoder",
    "ErrorObject",
    "ErrorResponse",
    "Incoming",
    "Notification",
    "OnReply",
    "Peer",
    "PeerOptions",
    "Receiver",
    "RemoteError",
    "RequestId",
    "RpcReply",
    "RpcResponse",
    "Watch",
    "connect_files",
    "connect_socket",
    "connect_stdio",
]
