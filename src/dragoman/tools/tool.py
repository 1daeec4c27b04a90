"""The interface of a tool: it can be invoked, and may describe an invocation beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from dragoman.lm import CancellationToken, JsonObject
from dragoman.lm.parts import ToolResult
from dragoman.permissions.action import Action, RiskClass

__all__ = [
    "Confirmation",
    "Invocation",
    "PreparedInvocation",
    "PreparingTool",
    "Tool",
    "ToolProgress",
]

# Called with a short line of plain text while a tool runs.
ToolProgress: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Invocation:
    """One invocation of a tool, as the tool sees it."""

    input: JsonObject
    # The folders the consumer has open, absolute; the first is the current one.
    workspace: tuple[Path, ...] = ()
    # Set when a model asked for it, in a request; empty when a program calls the tool on its own.
    call_id: str = ""
    progress: ToolProgress = field(default=lambda _line: None)
    # Files and folders of Dragoman itself, which no tool changes without a person's yes.
    own: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A question to the user: a title of plain text, and a message in Markdown that is safe to render."""

    title: str
    message: str = ""
    # All of it, where the message leaves something out.
    whole: str = ""
    # The same on one line, for where the question stood; empty: the title.
    summary: str = ""
    # What an agent calls the action, to the letter; empty: it is not an agent's.
    subject: str = ""


@dataclass(frozen=True, slots=True)
class PreparedInvocation:
    # Shown while the tool runs: "Searching for *.py …".
    invocation_message: str | None = None
    confirmation: Confirmation | None = None
    # What an approval that lasts is for. Without it: this tool with exactly this input.
    approval_key: str | None = None
    # The same for a person, in a few plain words: "any change to notes.txt". Without it: exactly this input.
    covers: str | None = None
    # No approval that lasts covers it and none is offered, no setting does: a person decides about this very call.
    always_ask: bool = False
    # Addresses the invocation will contact: covered by URL patterns that are approved beforehand.
    urls: tuple[str, ...] = ()
    # What the invocation would do, for rules. None: nothing is known but the tool's name and its input.
    risk: RiskClass | None = None
    # Why it is sensitive, as part of a sentence. Only a rule that is for sensitive actions allows it without a question.
    sensitive: str | None = None
    # The change that the invocation would make to files, as a unified diff that shows all of it. Without it, no mode accepts
    # the call as an edit.
    change: str = ""
    # What rules are applied to, where that is not this call: an agent's action. Its confirmation shows why it is asked.
    action: Action | None = None


@runtime_checkable
class Tool(Protocol):
    async def invoke(self, invocation: Invocation, token: CancellationToken) -> ToolResult: ...


@runtime_checkable
class PreparingTool(Tool, Protocol):
    async def prepare_invocation(
        self, invocation: Invocation, token: CancellationToken
    ) -> PreparedInvocation: ...
