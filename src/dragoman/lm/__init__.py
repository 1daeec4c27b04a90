"""The contract in the middle: parts, messages, requests, models, the stream rules and the guard that enforces them.

Everything a front end or a back end needs of it is importable from here.
"""

from dragoman.lm.cancellation import (
    CancellationError,
    CancellationScope,
    CancellationSource,
    CancellationToken,
    until_cancelled,
)
from dragoman.lm.errors import ErrorKind, ErrorOrigin, LanguageModelError
from dragoman.lm.guard import GuardedModel, RuleBroken
from dragoman.lm.json import JsonObject
from dragoman.lm.messages import Message, Role, assistant, system, user
from dragoman.lm.model import (
    Capabilities,
    Closing,
    Delivery,
    LanguageModel,
    ModelInfo,
    Sink,
    estimate_tokens,
    with_capability_tags,
)
from dragoman.lm.parts import (
    ActivityLocation,
    ActivityNote,
    ActivityPart,
    Audience,
    ContentPart,
    DataPart,
    Outcome,
    Part,
    PlanEntry,
    PlanPart,
    ProgressPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
    ToolResultPart,
    UsagePart,
)
from dragoman.lm.presentation import Presentation, Style
from dragoman.lm.request import (
    AnswerForm,
    Consumer,
    Features,
    Request,
    RequestOptions,
    ToolDefinition,
    ToolMode,
)
from dragoman.lm.response import Response
from dragoman.lm.rules import RULES, Rule, StreamWatch, Violation
from dragoman.lm.stops import Stopped, StopReason

__all__ = [
    "RULES",
    "ActivityLocation",
    "ActivityNote",
    "ActivityPart",
    "AnswerForm",
    "Audience",
    "CancellationError",
    "CancellationScope",
    "CancellationSource",
    "CancellationToken",
    "Capabilities",
    "Closing",
    "Consumer",
    "ContentPart",
    "DataPart",
    "Delivery",
    "ErrorKind",
    "ErrorOrigin",
    "Features",
    "GuardedModel",
    "JsonObject",
    "LanguageModel",
    "LanguageModelError",
    "Message",
    "ModelInfo",
    "Outcome",
    "Part",
    "PlanEntry",
    "PlanPart",
    "Presentation",
    "ProgressPart",
    "Request",
    "RequestOptions",
    "Response",
    "Role",
    "Rule",
    "RuleBroken",
    "Sink",
    "StopReason",
    "Stopped",
    "StreamWatch",
    "Style",
    "TextPart",
    "ThinkingPart",
    "ToolCallPart",
    "ToolDefinition",
    "ToolMode",
    "ToolResult",
    "ToolResultPart",
    "UsagePart",
    "Violation",
    "assistant",
    "estimate_tokens",
    "system",
    "until_cancelled",
    "user",
    "with_capability_tags",
]
