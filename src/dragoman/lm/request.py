"""Requests to a model, and the properties of the consumer that sends them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from dragoman.lm.json import JsonObject
from dragoman.lm.messages import Message

__all__ = [
    "IDEMPOTENCY_OPTION",
    "ONE_SHOT_OPTION",
    "RETRY_OPTION",
    "SIDE_REQUEST_OPTION",
    "STORE_OPTION",
    "WORKSPACE_OPTION",
    "AnswerForm",
    "Consumer",
    "Features",
    "FolderChoice",
    "Request",
    "RequestOptions",
    "ToolDefinition",
    "ToolMode",
]

ToolMode: TypeAlias = Literal["auto", "required"]

# The model option by which a front end marks a side request. Its value is then true.
SIDE_REQUEST_OPTION = "_aside"
# The model option by which a front end says that nothing of what is said may be stored. Its value is then false.
STORE_OPTION = "_store"
# The model option with the client's own name of a request: its retries have the same one.
IDEMPOTENCY_OPTION = "_idempotencyKey"
# The model option by which a client says that it repeats a request. Its value is then true.
RETRY_OPTION = "_isRetry"
# The model option by which a front end says that no further request of the conversation follows. Its value is then true.
ONE_SHOT_OPTION = "_oneShot"
# The model option with the folder that a client names, for an endpoint whose agent is to work there.
WORKSPACE_OPTION = "_workspace"


class ToolDefinition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A tool as it is offered to a model."""

    name: str
    description: str = ""
    input_schema: JsonObject | None = None


class AnswerForm(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The form that an answer must have: one JSON value."""

    # A JSON Schema. None: any JSON object.
    schema: JsonObject | None = None
    name: str = ""
    description: str = ""


class RequestOptions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    tools: tuple[ToolDefinition, ...] = ()
    tool_mode: ToolMode = "auto"
    model_options: JsonObject = {}
    model_configuration: JsonObject = {}
    request_initiator: str | None = None
    # Only for a model that follows it (`ModelInfo.takes_forms`).
    answer_form: AnswerForm | None = None
    # Tools of other types than functions, and a choice among them, as the consumer wrote them. Only for a model that takes
    # options.
    other_tools: tuple[JsonObject, ...] = ()
    other_choice: JsonObject | None = None

    @property
    def demands(self) -> tuple[AnswerForm | None, ToolMode]:
        """What an answer must be, for two requests to want the same one."""
        return self.answer_form, self.tool_mode

    @property
    def has_form(self) -> bool:
        """Whether the answer must be JSON: by `answer_form`, or by the option of a model that takes options."""
        match self.model_options:
            case {"text": {"format": {"type": "json_object" | "json_schema"}}}:
                return True
            case _:
                return self.answer_form is not None

    @property
    def has_demands(self) -> bool:
        """Whether any answer that the model can give is not enough: it must have a form, or call a tool."""
        return self.has_form or self.tool_mode == "required"

    @property
    def forwarded_options(self) -> JsonObject:
        """The model options that may leave this program: keys that begin with `_` are between us and the consumer."""
        return {key: value for key, value in self.model_options.items() if not key.startswith("_")}


class Features(msgspec.Struct, frozen=True):
    """What the consumer supports. The defaults are the careful ones, for a consumer that declares nothing."""

    thinking: bool = False
    data: bool = False
    # A consumer that throws away what it has when a response fails (VS Code does) gets the error as text instead.
    keeps_parts_of_failures: bool = False
    # A consumer that answers a call with unreadable arguments by an error result, and never makes it.
    unparsed_calls: bool = False
    # The same for a call of a tool that was not offered: models make names up, and remember some from earlier.
    unknown_calls: bool = False
    # A program that reads usage, stop reason and conversation as separate data parts.
    reports: bool = False
    # A consumer that draws activities, plans and usage itself. Any other gets them as text (`activity_text`).
    activity: bool = False
    # A consumer that renders Markdown. For any other, text that we write is not escaped.
    markdown: bool = True
    # A consumer that takes the items of Open Responses for which there are no parts (`parts.ITEM_MIME_TYPES`), and that shows
    # pictures and files itself.
    items: bool = False
    # A front end that says what has reached its consumer (`Delivery`). It gets the conversation as a data part.
    confirms_delivery: bool = False
    # A consumer that takes permission requests as such items.
    approvals: bool = False


class FolderChoice(msgspec.Struct, frozen=True):
    """A folder for an agent on another machine, as far as it lies within certain folders there."""

    # "": that of the model's configuration.
    folder: str = ""
    # It must lie within one folder of each. Empty: it may lie anywhere.
    roots: tuple[tuple[str, ...], ...] = ()


class Consumer(msgspec.Struct, frozen=True):
    """The sender of a request. Two requests of different connections never share a conversation."""

    name: str = "consumer"
    connection: str = ""
    workspace_folders: tuple[str, ...] = ()
    features: Features = Features()
    # What "for this session" means to the consumer, where it outlasts a conversation: approvals are bound to it.
    session: str | None = None
    # The program behind the front end, by its own name, for people to read.
    program: str = ""
    # How long the consumer waits while a person elsewhere decides. Then its response ends, and the turn goes on. None: it
    # waits as long as that takes.
    hold_seconds: float | None = None
    # Whether the consumer may learn where the operator's files are.
    sees_paths: bool = True
    # The id under which the consumer can fetch the rest of this response later, for people to read.
    response_id: str | None = None
    # Whether the consumer sees parts when they are reported. One that gets the response as a whole does not.
    is_live: bool = True
    # Which of its clients the request is from, if the consumer is another server: it has a name for each. Two clients never
    # share a conversation either.
    client: str = ""
    # If the agent runs on another machine: the first that may be used there takes the place of `workspace_folders`. If none
    # may, the request is refused. Empty: `workspace_folders` count as they are.
    folder_choices: tuple[FolderChoice, ...] = ()


class Request(msgspec.Struct, frozen=True):
    messages: tuple[Message, ...]
    options: RequestOptions = RequestOptions()
    consumer: Consumer = Consumer()
