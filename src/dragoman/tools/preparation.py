"""From a call to a question: what happens before the user is asked, and before anything runs.

A call that cannot be made ends here as a `ToolProblem`, whose message is for the model: arguments that are no JSON,
arguments that do not fit the schema, a tool that fails to say what it is about to do.
"""

from __future__ import annotations

import asyncio
import json as standard_json
import logging
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from dragoman.lm import CancellationToken, JsonObject, ToolCallPart, gfm, json
from dragoman.permissions.action import Action
from dragoman.permissions.decide import Ask
from dragoman.permissions.describe import describe
from dragoman.permissions.edit_mode import is_plain_edit
from dragoman.permissions.layout import broken
from dragoman.permissions.sensitive import Places
from dragoman.tools import schema
from dragoman.tools.containment import contained
from dragoman.tools.decision import ApprovalLevel, ToolQuestion
from dragoman.tools.mismatch import cut, kind
from dragoman.tools.registry import RegisteredTool
from dragoman.tools.result import failure_text
from dragoman.tools.tool import Confirmation, Invocation, PreparedInvocation, PreparingTool, ToolProgress

__all__ = ["PREPARE_SECONDS", "PreparedCall", "ToolProblem", "invocation_of", "prepare"]

_log = logging.getLogger(__name__)

# Preparing reads a file or two, to show a difference. A person waits for it, with nothing to look at.
PREPARE_SECONDS = 30
# What a person reads before deciding. A tool whose inputs are larger prepares its own message.
_MAX_SHOWN = 20_000

# What an approval covers, where the tool has no words for it: its key is missing, or is its own affair.
_EXACTLY_THIS = "exactly this input"
_THE_SAME_TO_THE_TOOL = "every call that the tool counts as the same"


class ToolProblem(Exception):
    """A call cannot be made. The message is for the model."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A valid call that waits for its approval."""

    # With the defaults in its input: what is shown, what runs and what is recorded are the same.
    call: ToolCallPart
    tool: RegisteredTool
    invocation_message: str
    question: ToolQuestion
    approval_key: str
    # What the call would do: for rules, and for the record.
    action: Action
    # Whether the question says which rule asks.
    shows_rule: bool = False
    urls: tuple[str, ...] = ()
    # Only the user's approval of this very call counts.
    always_ask: bool = False
    # The change that it would make to files, as a unified diff.
    change: str = ""

    def asked_because(self, ask: Ask) -> PreparedCall:
        """The same call, with a question that shows which rule asks and offers no more than that allows."""
        question = self.question
        if ask.because is not None and not self.shows_rule:
            message = f"A rule, so you are asked:\n{gfm.fence(broken(ask.because, at_spaces=True), 'text')}"
            confirmation = question.confirmation
            whole = f"{message}\n\n{confirmation.whole}" if confirmation.whole else ""
            message = f"{message}\n\n{confirmation.message}"
            question = replace(question, confirmation=replace(confirmation, message=message, whole=whole))
        levels = ("once",) if ask.once else question.levels
        is_plain = question.is_plain_edit and not ask.once and not ask.needs_person
        question = replace(question, levels=levels, because=ask.because, is_plain_edit=is_plain)
        return replace(self, question=question)


async def prepare(
    tool: RegisteredTool,
    call: ToolCallPart,
    *,
    agent: str,
    places: Places,
    levels: tuple[ApprovalLevel, ...],
    token: CancellationToken,
) -> PreparedCall:
    """`agent` is the model that makes the call, `places` its workspace."""
    token.raise_if_cancelled()
    if call.unparsed is not None:
        raise ToolProblem(_unreadable(call.name, call.unparsed))
    declared = tool.declaration
    try:
        completed = schema.complete(declared.input_schema, call.input)
    except schema.SchemaProblem as problem:
        raise ToolProblem(
            f"The input of {call.name} does not fit its schema:\n{problem}\n"
            "Nothing was run. Correct the input and call the tool again."
        ) from None
    call = msgspec.structs.replace(call, input=completed)
    prepared = await _prepared_by_tool(tool, invocation_of(call, places), token)
    display_name = declared.display_name
    key = prepared.approval_key
    message = prepared.invocation_message or f"Running {display_name}"
    action = prepared.action or _action(call, agent, places, message, prepared)
    return PreparedCall(
        call=call,
        tool=tool,
        invocation_message=message,
        question=ToolQuestion(
            call_id=call.call_id,
            tool=call.name,
            display_name=display_name,
            input=completed,
            confirmation=prepared.confirmation or Confirmation(display_name, _shown(completed)),
            levels=("once",) if prepared.always_ask or action.sensitive is not None else levels,
            covers=prepared.covers or (_EXACTLY_THIS if key is None else _THE_SAME_TO_THE_TOOL),
            action=action,
            is_plain_edit=not prepared.always_ask and is_plain_edit(action, prepared.change),
        ),
        approval_key=json.canonical(completed) if key is None else key,
        action=action,
        shows_rule=prepared.action is not None,
        urls=prepared.urls,
        always_ask=prepared.always_ask,
        change=prepared.change,
    )


def _action(
    call: ToolCallPart, agent: str, places: Places, title: str, prepared: PreparedInvocation
) -> Action:
    """The call as an action. The tool knows what it does and what in it is sensitive, so its word counts."""
    described = describe(
        agent=agent,
        agent_name=agent,
        places=places,
        title=title,
        kind="tool",
        tool=call.name,
        input=call.input,
    )
    return msgspec.structs.replace(described, risk=prepared.risk or "other", sensitive=prepared.sensitive)


def invocation_of(
    call: ToolCallPart, places: Places, progress: ToolProgress = lambda _line: None
) -> Invocation:
    """The invocation that makes `call`, with an input of its own: what a tool does to it changes no record."""
    copied: JsonObject = json.decode(json.encode(call.input))  # type: ignore[assignment]  # an object stays one
    return Invocation(copied, tuple(map(Path, places.workspace)), call.call_id, progress, places.own)


async def _prepared_by_tool(
    tool: RegisteredTool, invocation: Invocation, token: CancellationToken
) -> PreparedInvocation:
    if not isinstance(tool.tool, PreparingTool):
        return PreparedInvocation()
    name = tool.declaration.name
    deadline = asyncio.timeout(PREPARE_SECONDS)
    try:
        async with deadline:
            prepared: object = await contained(tool.tool.prepare_invocation(invocation, token), token)
    except Exception as error:
        token.raise_if_cancelled()
        if isinstance(error, TimeoutError) and deadline.expired():
            raise ToolProblem(
                f"The tool {name} took longer than {PREPARE_SECONDS} seconds to prepare and was not run."
            ) from None
        _log.warning("tool %s failed to prepare", name, exc_info=error)
        raise ToolProblem(
            f"The tool {name} could not be prepared and was not run. {failure_text(error)}"
        ) from error
    if prepared is None:
        # A tool in the editor's style has nothing to add.
        return PreparedInvocation()
    if not isinstance(prepared, PreparedInvocation):
        raise ToolProblem(
            f"The tool {name} could not be prepared and was not run: it returned {type(prepared).__name__}, "
            "not a PreparedInvocation."
        )
    return prepared


def _unreadable(name: str, text: str) -> str:
    try:
        # Not our own decoder: this one knows the line and the column.
        problem = f"they must be a JSON object, not {kind(standard_json.loads(text))}"
    except standard_json.JSONDecodeError as error:
        near = repr(cut(text[error.pos :], 20)) if error.pos < len(text) else "the end"
        problem = f"line {error.lineno}, column {error.colno}, at {near}: {error.msg}"
    except (ValueError, RecursionError):
        problem = "they are nested too deeply, or have a number of thousands of digits"
    return f"The arguments of {name} could not be read: {problem}. Nothing was run. Send one JSON object."


def _shown(arguments: JsonObject) -> str:
    """An input as a person reads it: every character visible, in a code block that nothing gets out of."""
    text = json.pretty(arguments)
    cut_off = ""
    if len(text) > _MAX_SHOWN:
        cut_off = f"\n\nThese are the first {_MAX_SHOWN:,} of {len(text):,} characters."
        text = text[:_MAX_SHOWN]
    # What is invisible, or turns the text around, is written as JSON writes it.
    visible = "".join(
        each if each.isprintable() or each == "\n" else standard_json.dumps(each)[1:-1] for each in text
    )
    return gfm.fence(visible, "json") + cut_off
