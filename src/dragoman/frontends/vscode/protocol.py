"""The messages of the VS Code protocol. JSON-RPC 2.0, one JSON value a line."""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec

from dragoman.lm import JsonObject, LanguageModelError, Message, ModelInfo, RequestOptions
from dragoman.lm.json import decode
from dragoman.lm.messages import messages_from

__all__ = [
    "ACTIVITY_OPTION",
    "EDITS",
    "NOT_INITIALIZED",
    "PROTOCOL_VERSION",
    "REQUEST_FAILED",
    "AddRule",
    "AllowRecent",
    "AskConversation",
    "AskOffer",
    "ChangeFolders",
    "ChangeSettings",
    "ChatRequest",
    "CountTokens",
    "EditorFeatures",
    "Initialize",
    "ListEdits",
    "LogIn",
    "ModelList",
    "ShowEdit",
    "ShowQuestion",
    "StopTerminal",
    "ToolInput",
    "UndoEdits",
    "decode_chat_request",
    "decoded",
    "error_data",
]

PROTOCOL_VERSION = 1
# A model option. If it is false, the response has no activities, plans and usage, although the editor declares
# `features.activity`. VS Code's own chat cannot draw them, the extension's participant can.
ACTIVITY_OPTION = "_dragomanActivity"
# The type of a data part at the end of a response: the edits of the turn that has ended, `{"turn", "files": [{"path",
# "change"}]}`. Only for responses with activities.
EDITS = "application/vnd.dragoman.edits+json"
# As in the Language Server Protocol.
NOT_INITIALIZED = -32002
# The code of a request that was read and failed. `data` has the kind of the error.
REQUEST_FAILED = -32000


class _Form(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class Client(_Form, frozen=True):
    name: str = "editor"
    version: str = ""


class EditorFeatures(_Form, frozen=True):
    thinking: bool = False
    data: bool = False
    activity: bool = False
    # It serves `fs/readTextFile` and `fs/writeTextFile`.
    fs: bool = False
    # It serves `terminal/create`.
    terminal: bool = False


class Initialize(_Form, frozen=True):
    protocol_version: int
    client: Client = Client()
    workspace_folders: tuple[str, ...] = ()
    features: EditorFeatures = EditorFeatures()


class ChangeFolders(_Form, frozen=True):
    workspace_folders: tuple[str, ...] = ()


class ChangeSettings(_Form, frozen=True):
    """Settings of the editor that hold from the next request on. Those that are left out stay as they are."""

    features: EditorFeatures | None = None
    log_level: Literal["error", "warning", "info", "debug"] | None = None


class ModelList(_Form, frozen=True):
    models: tuple[ModelInfo, ...]


class CountTokens(_Form, frozen=True):
    model_id: str
    text: str | None = None
    message: JsonObject | None = None


class ToolInput(_Form, frozen=True):
    name: str
    input: JsonObject = {}
    # Whether the user has confirmed the action in the extension's modal dialog.
    confirmed: bool = False


class ShowQuestion(_Form, frozen=True):
    nonce: str


class ShowEdit(_Form, frozen=True):
    """A request for one text of a file that an agent has changed."""

    turn: str
    path: str
    side: Literal["before", "after"]


class ListEdits(_Form, frozen=True):
    """A request for the edits of one turn, or of all."""

    turn: str | None = None


class UndoEdits(_Form, frozen=True):
    turn: str


class StopTerminal(_Form, frozen=True):
    """The user closes a terminal of an agent, or presses Ctrl-C in it."""

    id: str


class AllowRecent(_Form, frozen=True):
    """A request to allow the action of a recent question for longer."""

    id: str
    level: Literal["session", "workspace", "always"]


class AddRule(_Form, frozen=True):
    """A request to write a rule that `permissions/recent` offers. Refused if `toml` is not exactly such a rule."""

    id: str
    toml: str


class AskOffer(_Form, frozen=True):
    """A request for what an agent offers. `look`: start it for that, if nothing is known yet."""

    model_id: str
    look: bool = False


class LogIn(_Form, frozen=True):
    model_id: str
    method_id: str


class AskConversation(_Form, frozen=True):
    """A request about one conversation of the editor's folders. The beginning of its id is enough."""

    id: str


class ChatRequest(_Form, frozen=True):
    model_id: str
    messages: tuple[Message, ...]
    options: RequestOptions = RequestOptions()


class _Loose(_Form, frozen=True):
    model_id: str
    messages: object
    options: RequestOptions = RequestOptions()


_F = TypeVar("_F", bound=_Form)
_typed = msgspec.json.Decoder(ChatRequest)


def decoded(params: bytes, form: type[_F]) -> _F:
    """Decode parameters. JavaScript may cut a character in half; only that half is lost."""
    try:
        return msgspec.json.decode(params, type=form)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return msgspec.convert(decode(params), form)


def decode_chat_request(params: bytes) -> ChatRequest:
    """Decode a chat request. Only an unreadable part is lost, never the whole request."""
    try:
        return _typed.decode(params)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # Something is not as expected. The slower way below finds out which part.
        pass
    loose = msgspec.convert(decode(params), _Loose)
    return ChatRequest(loose.model_id, messages_from(loose.messages), loose.options)


def error_data(error: LanguageModelError) -> JsonObject:
    return {"kind": error.kind} if error.hint is None else {"kind": error.kind, "hint": error.hint}
