"""`docs/reference/protocol.md`: the JSON-RPC of `dragoman vscode`, its forms from their types.

Which methods there are is in the server as a table, and a test holds this page's against it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import msgspec
from msgspec.inspect import (
    AnyType,
    BoolType,
    BytesType,
    DictType,
    Field,
    FloatType,
    IntType,
    LiteralType,
    Metadata,
    NoneType,
    RawType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from dragoman.cli.vscode import _OPTIONS
from dragoman.frontends.vscode import protocol as forms
from dragoman.frontends.vscode.server import _Reported
from dragoman.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
)
from dragoman.lm import (
    ActivityLocation,
    ActivityPart,
    AnswerForm,
    DataPart,
    Message,
    ModelInfo,
    PlanEntry,
    PlanPart,
    RequestOptions,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDefinition,
    ToolResultPart,
    UsagePart,
)
from dragoman.lm.errors import ErrorKind
from dragoman.lm.model import Capabilities
from dragoman.lm.offering import (
    LoginMethod,
    ModelCommand,
    ModelOffer,
    ModelOption,
    SelectableValue,
    TerminalLogin,
)
from dragoman.lm.parts import INTERNAL_MIME_TYPES
from reference.markdown import WRITTEN, code, page, table

__all__ = ["NOTIFICATIONS", "REQUESTS", "protocol"]


@dataclass(frozen=True)
class Method:
    name: str
    params: type[msgspec.Struct] | None
    result: str
    about: str


# From the editor to Dragoman.
REQUESTS = (
    Method(
        "initialize",
        forms.Initialize,
        '`{"protocolVersion", "server": {"name", "version"}, "permissionTools": [name, …], "configuration": path or null}`',
        "The first request. The same `client.name` again is the same editor: its conversations go on.",
    ),
    Method(
        "lm/provideLanguageModelChatInformation",
        None,
        "[`ModelList`](#modellist)",
        "The models that can be used.",
    ),
    Method(
        "lm/provideLanguageModelChatResponse",
        forms.ChatRequest,
        "`{}`, after the last part",
        "An answer to a whole history. Its parts arrive before its result, as `lm/responsePart`.",
    ),
    Method(
        "lm/provideTokenCount",
        forms.CountTokens,
        "a number",
        "About how many tokens a text or a message has.",
    ),
    Method(
        "tools/prepareInvocation",
        forms.ToolInput,
        '`{"invocationMessage", "confirmationMessages": {"title", "message"}, "modal": {"message", "detail"}, '
        '"isSensitive", "isCut", "hasChanges"}`',
        "What to ask a person before a permission tool is invoked. Made from the agent's request, whatever the input says.",
    ),
    Method(
        "tools/invoke",
        forms.ToolInput,
        '`{"content": [TextPart]}`',
        "A person has approved that dialog. The text is the proof: send it back as the call's result.",
    ),
    Method(
        "permissions/show",
        forms.ShowQuestion,
        '`{"title", "text"}`',
        "The whole of a question that is open, as Markdown: for one that `isCut`.",
    ),
    Method(
        "permissions/recent",
        None,
        '`{"questions": [{"id", "title", "agent", "detail", "decision", "by", "at", "covers", "levels", '
        '"rules": [{"words", "toml", "file"}]}]}`',
        "What was asked lately, newest first, what a lasting yes to each would cover, and the rules that would allow it.",
    ),
    Method(
        "permissions/allow",
        forms.AllowRecent,
        '`{"covers"}`',
        "Allow exactly the action of a recent question from now on.",
    ),
    Method(
        "permissions/addRule",
        forms.AddRule,
        '`{"file", "line"}`',
        "Add a rule of a recent question to the user's own configuration. It holds at once.",
    ),
    Method(
        "agent/options",
        forms.AskOffer,
        "[`ModelOffer`](#modeloffer)",
        "What the agent offers to choose, as its sessions have reported it. Chosen values go into `options.modelConfiguration` "
        "of a request, by the ids of their options.",
    ),
    Method(
        "agent/logins",
        forms.AskOffer,
        '`{"logins": [LoginMethod]}`',
        "How to log in. The agent is started for that, if it has not said it yet.",
    ),
    Method(
        "agent/login",
        forms.LogIn,
        "`{}`, when the agent is logged in",
        "Let the agent log in by a method of the kind `agent`. Later prompts need no restart.",
    ),
    Method(
        "conversations/list",
        None,
        '`{"conversations": [{"id", "title", "modelId", "agent", "client", "folder", "startedAt", "usedAt", "state", '
        '"keepsMemory"}]}`',
        "The stored conversations of the editor's folders, the latest used first. Those of other folders are the error "
        "`not_found` for every method. When the list has changed, the editor gets `conversations/changed`, once. `state`: `answering`, `asking`, `waiting`, `idle`, `stored`, or "
        "`elsewhere` for one that another process holds.",
    ),
    Method(
        "conversations/show",
        forms.AskConversation,
        '`{"title", "text"}`',
        "The whole conversation as Markdown, as far as it is stored.",
    ),
    Method(
        "conversations/messages",
        forms.AskConversation,
        '`{"modelId", "title", "messages": [Message], "keepsMemory"}`',
        "The messages with which a request continues the conversation: the history before its new prompt. With "
        "`keepsMemory` the last one has a marker, and the agent goes on in its own session.",
    ),
    Method(
        "conversations/delete",
        forms.AskConversation,
        "`{}`",
        "Delete what was said. Decisions about permissions stay, without content.",
    ),
    Method(
        "permissions/changes",
        forms.ShowQuestion,
        '`{"files": [{"path", "before", "after", "isWhole", "why"}]}`',
        "The files of a question that `hasChanges`, as they are (`before` null: there is none) and as they would be. Without "
        "`isWhole` the texts are only a passage, and `why` says why.",
    ),
    Method(
        "edits/list",
        forms.ListEdits,
        '`{"turns": [{"turn", "agent", "at", "files": [{"path", "change"}]}]}`',
        'The turns in which agents changed files, newest first, or the given one. `change` is `"created"`, '
        '`"changed"` or `"deleted"`. A turn that was undone, or is not known any more, is the error `not_found`.',
    ),
    Method("edits/text", forms.ShowEdit, '`{"text"}`', "A file before or after a turn."),
    Method(
        "edits/undo",
        forms.UndoEdits,
        '`{"undone": [path, …], "left": [{"path", "why"}]}`',
        "Take the changes of a turn back, but for files that have changed since.",
    ),
    Method("shutdown", None, "`{}`", "Settles everything, ends every agent, then the process."),
)
NOTIFICATIONS = (
    Method("workspace/didChangeFolders", forms.ChangeFolders, "", "Other folders are open from now on."),
    Method("settings/didChange", forms.ChangeSettings, "", "The editor's settings have changed."),
    Method(
        "terminal/kill",
        forms.StopTerminal,
        "",
        "The user closes a terminal of an agent, or presses Ctrl-C in it: its command ends.",
    ),
    *(
        Method(
            name, None, "", '`{"requestId"}`: that request is not wanted any more. It settles all the same.'
        )
        for name in _OPTIONS.cancel_methods
    ),
)
# From Dragoman to the editor.
_TOLD = (
    Method("lm/responsePart", _Reported, "", "One part of the response with that id, in order."),
    Method(
        "lm/modelsChanged", None, "", "There are other models, or they are described otherwise: ask again."
    ),
    Method(
        "agent/offerChanged", None, "", '`{"modelId"}`: that agent has reported other options or commands.'
    ),
    Method(
        "conversations/changed",
        None,
        "",
        "The list of conversations has changed since it was read. Sent once, until it is read again.",
    ),
    Method("terminal/output", None, "", '`{"id", "data"}`: new output of a command in a terminal.'),
    Method(
        "terminal/exit",
        None,
        "",
        '`{"id", "exitCode", "signal"}`: the command has ended; one of them is null.',
    ),
    Method(
        "log",
        None,
        "",
        '`{"level", "message"}`: a line for the log; `"debug"`, `"info"`, `"warning"` or `"error"`.',
    ),
)
_ASKED = (
    Method(
        "fs/readTextFile",
        None,
        '`{"text", "isOpen"}`',
        '`{"path"}`: the text of an open document with unsaved changes. null: the disk has the text. `isOpen`: the editor has '
        "a document for the file, saved or not.",
    ),
    Method(
        "fs/writeTextFile",
        None,
        '`{"text"}`',
        '`{"path", "text", "expected"}`: change the document and save it, if its text is `expected` (null: there is no file). '
        "The result is the text after saving; null: the text was another one, and nothing was done.",
    ),
    Method(
        "terminal/create",
        None,
        "`{}`",
        '`{"id", "command", "cwd"}`: show a terminal with this command, whole. Dragoman runs the command; so there is no '
        "`terminal/wait` and no `terminal/release`.",
    ),
)
_FORMS: tuple[tuple[type[msgspec.Struct], str], ...] = (
    (forms.Initialize, ""),
    (forms.Client, ""),
    (
        forms.EditorFeatures,
        (
            "What the editor can show. Without `thinking`, thinking becomes text or is left out, as the model's "
            "`reasoning_fallback` says. With `activity`, responses have the parts `activity`, `plan` and `usage`; without, "
            "activities and plans are thinking, and a usage is a data part `usage`. With `fs`, the editor serves "
            "`fs/readTextFile` and `fs/writeTextFile`; with `terminal`, `terminal/create`."
        ),
    ),
    (forms.ChangeFolders, ""),
    (
        forms.ChangeSettings,
        "Settings that hold from the next request on. Those that are left out stay as they are.",
    ),
    (forms.ModelList, ""),
    (
        ModelInfo,
        (
            "Absent: as by default. `tags` has some of `agent`, `permissions`, `thinking`, `tools`, `images` "
            "([what they mean](../vscode-details.md#models)), and those of the model's own."
        ),
    ),
    (Capabilities, ""),
    (forms.ChatRequest, "The history ends with a user message, which may hold tool results."),
    (
        RequestOptions,
        (
            "Keys of `modelOptions` that begin with `_` are read and never forwarded. "
            f"`{forms.ACTIVITY_OPTION}: false`: this response has no activities, plans and usage as parts, although the "
            "editor declares `features.activity`. The VS Code extension sends it with every request that is not from its "
            "own participant."
        ),
    ),
    (AnswerForm, "The answer is one JSON value of this form. Only for a model with `takesForms`."),
    (ToolDefinition, ""),
    (forms.CountTokens, "One of `text` and `message`."),
    (
        forms.ToolInput,
        "`name` is one of `permissionTools`; `input` is that of the call, of which only `nonce` matters.",
    ),
    (forms.ShowQuestion, ""),
    (forms.ShowEdit, ""),
    (forms.ListEdits, ""),
    (forms.UndoEdits, ""),
    (forms.StopTerminal, ""),
    (forms.AllowRecent, ""),
    (forms.AddRule, ""),
    (forms.AskOffer, ""),
    (ModelOffer, "Absent: not known."),
    (ModelOption, "`name`, `description` and `category` are the agent's words."),
    (SelectableValue, ""),
    (ModelCommand, "A prompt that begins with `/name` runs it."),
    (LoginMethod, ""),
    (TerminalLogin, ""),
    (forms.LogIn, ""),
    (forms.AskConversation, ""),
    (_Reported, "`requestId` is the id of the JSON-RPC request."),
)
_PARTS = (
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    DataPart,
    ActivityPart,
    PlanPart,
    UsagePart,
)
# What stands in them.
_PIECES = (ActivityLocation, PlanEntry)
_NAMES: dict[type[msgspec.Struct], str] = {_Reported: "ResponsePart"}


def protocol() -> str:
    return page(
        "# The protocol of `dragoman vscode`",
        WRITTEN,
        f"""JSON-RPC 2.0 on standard input and output, one JSON value a line, UTF-8. Version {forms.PROTOCOL_VERSION}. The VS Code extension speaks it;
[`examples/editor.py`](../../examples/editor.py) does in a page of Python. Requests are served side by side, and each settles exactly
once. Standard output has nothing else in it.""",
        "## Requests to Dragoman",
        table(("method", "parameters", "result", ""), map(_method, REQUESTS)),
        "## Notifications to Dragoman",
        table(("method", "parameters", "", ""), map(_method, NOTIFICATIONS)),
        "## Notifications from Dragoman",
        table(("method", "parameters", "", ""), map(_method, _TOLD)),
        "## Requests from Dragoman",
        f"""Only to an editor that declares the feature. `$/cancel_request` withdraws one. Paths are absolute, with links resolved. A response
with `activity` ends, if its turn changed files, with a data part `{forms.EDITS}`: `{{"turn", "files"}}` as in `edits/list`.""",
        table(("method", "", "result", ""), map(_method, _ASKED)),
        "## Errors",
        table(("code", "when"), _errors()),
        f"`data.kind` is one of {', '.join(map(code, get_args(ErrorKind)))}.",
        "## Permissions",
        """An agent's wish is a `tool_call` of a permission tool, if the request offered that one (`permissionTools` has their names). Ask
`tools/prepareInvocation` what to show, and a person whether they agree. If they do, `tools/invoke` gives a text that starts with
`dragoman-grant-`: return it as the content of the `tool_result`. Any other result is a refusal; one that begins with
`Tool use rejected with user message: ` hands its reason on. For a question with `isSensitive`, ask in a dialog of your own that nothing
skips, and then send `"confirmed": true` with `tools/invoke`: without it there is no grant. [More](../approvals.md#proof).""",
        "## Forms",
        *(piece for struct, about in _FORMS for piece in _form(struct, about)),
        "### Message",
        '`role` is `"user"`, `"assistant"` or `"system"`. A string as `content` is one text.',
        _fields(Message),
        "## Parts",
        "Told apart by `type`. Fields that have their default are left out.",
        *(piece for struct in (*_PARTS, *_PIECES) for piece in _form(struct, _docstring(struct))),
        f"""Data is base64. Data parts of these types are between programs, and no person is shown them; keep them in the history and send them back:
{", ".join(map(code, sorted(INTERNAL_MIME_TYPES)))}.""",
    )


def _method(method: Method) -> tuple[str, ...]:
    params = f"[`{_name(method.params)}`](#{_name(method.params).lower()})" if method.params else ""
    return code(method.name), params, method.result, method.about


def _errors() -> Iterator[tuple[str, str]]:
    yield str(forms.REQUEST_FAILED), 'understood, and failed: `data` is `{"kind", "hint"}`'
    yield str(forms.NOT_INITIALIZED), "`initialize` has not been sent"
    yield str(REQUEST_CANCELLED), "cancelled before there was an answer, or the server is shutting down"
    yield str(INVALID_REQUEST), "no request, or one after `shutdown`"
    yield str(METHOD_NOT_FOUND), "no such method"
    yield str(INVALID_PARAMS), "parameters that cannot be read, or another version: `data.supported`"
    yield str(INTERNAL_ERROR), "a fault of ours"


def _form(struct: type[msgspec.Struct], about: str) -> Iterator[str]:
    yield f"### {_name(struct)}"
    yield about
    yield _fields(struct)


def _fields(struct: type[msgspec.Struct]) -> str:
    kind = type_info(struct)
    if not isinstance(kind, StructType):
        raise TypeError(struct)
    rows = [(code("type"), code(f'"{kind.tag}"'), "required")] if kind.tag else []
    rows += [(code(field.encode_name), _type(field.type), _default(field)) for field in kind.fields]
    return table(("field", "type", "default"), rows)


def _name(struct: type[msgspec.Struct]) -> str:
    return _NAMES.get(struct, struct.__name__)


def _docstring(struct: type[msgspec.Struct]) -> str:
    return (struct.__doc__ or "").partition("\n")[0]


def _type(kind: Type) -> str:
    match kind:
        case Metadata(type=inner):
            return _type(inner)
        case UnionType(types=types):
            found = [each for each in types if not isinstance(each, NoneType)]
            if {each.cls for each in found if isinstance(each, StructType)} == set(_PARTS):
                return "[a part](#parts)"
            return " or ".join(_type(each) for each in found)
        case StructType(cls=cls):
            return f"[`{_name(cls)}`](#{_name(cls).lower()})"
        case VarTupleType(item_type=item):
            return f"list of {_type(item)}"
        case LiteralType(values=values):
            return " or ".join(code(f'"{value}"') for value in values)
        case StrType():
            return "string"
        case BoolType():
            return "boolean"
        case IntType() | FloatType():
            return "number"
        case BytesType():
            return "string, base64"
        case DictType():
            return "object"
        case RawType() | AnyType():
            return "[`Message`](#message)"
        case _:
            raise TypeError(kind)


def _default(field: Field) -> str:
    if field.required:
        return "required"
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    match default:
        case None | msgspec.Raw():
            return "none"
        case () | {}:
            return "empty"
        case bool() | int() | str():
            return code(msgspec.json.encode(default).decode())
        case _:
            return "its defaults"
