"""What the loop needs of a front end: a watcher for its events, and a confirmer for its questions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol

from dragoman.lm import CancellationToken
from dragoman.loop.events import CallDecided, EndReason, RunEvent, ToolFinished
from dragoman.loop.hooks import Hooks
from dragoman.output import discard_output, unwritable
from dragoman.tools.decision import CannotAsk, Confirmer, Decision, ToolQuestion
from dragoman.visible import visible_line

__all__ = ["DONE", "FAILED", "INTERRUPTED", "NoConfirmer", "TerminalHost", "Watcher"]

DONE = 0
FAILED = 1
INTERRUPTED = 130


class Watcher(Protocol):
    def on_event(self, event: RunEvent) -> None: ...


class TerminalHost(Hooks):
    def __init__(self, watcher: Watcher, confirmer: Confirmer) -> None:
        self._watcher = watcher
        self._confirmer = confirmer
        self._was_refused = False
        # What is printed goes nowhere any more.
        self.is_cut = False
        # Called when that is so.
        self.on_cut: Callable[[], object] = lambda: None

    def on_event(self, event: RunEvent) -> None:
        match event:
            case ToolFinished(result=result) if result.outcome in {"denied", "timed_out"}:
                self._was_refused = True
            case CallDecided(allowed=False):
                # A rule may refuse an action of an agent, of which there is no call here.
                self._was_refused = True
            case _:
                pass
        if self.is_cut:
            return
        try:
            self._watcher.on_event(event)
        except OSError as error:
            self.is_cut = True
            discard_output()
            if (problem := unwritable(error)) is not None:
                print(f"dragoman: {problem}", file=sys.stderr)
            self.on_cut()

    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        return await self._confirmer.confirm(question, token)

    def exit_code(self, reason: EndReason) -> int:
        """The exit code for a run. A completed run in which a call was denied has failed."""
        match reason:
            case _ if self.is_cut:
                return FAILED
            case "completed":
                return FAILED if self._was_refused else DONE
            case "cancelled":
                return INTERRUPTED
            case _:
                return FAILED


def _described(question: ToolQuestion) -> str:
    from dragoman.permissions.action import is_permission_tool  # noqa: PLC0415 - agents only

    # The name of the tool that carries an agent's request means nothing to a person.
    if is_permission_tool(question.tool):
        return question.confirmation.summary
    return f"{question.confirmation.title} ({question.tool})"


def _how_to_allow(question: ToolQuestion) -> str:
    if question.because is not None:
        return f"{visible_line(question.because)} Do it in a chat in a terminal, or change the rule."
    if question.levels == ("once",):
        return "This needs a person each time, whatever the settings say: do it in a chat in a terminal."
    return (
        "To allow it without asking, approve it for the workspace in a chat first, or add a rule to your own "
        "configuration: `dragoman policy suggest`, or r at the question in a chat."
    )


class NoConfirmer:
    """The confirmer without a terminal: refuses, and prints to standard error how to allow the call."""

    async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        del token
        print(
            f"dragoman: not done: {visible_line(_described(question))}. There is no terminal to ask at. {_how_to_allow(question)}",
            # As it is by now: a screen with live lines has put itself in its place.
            file=sys.stderr,
            flush=True,
        )
        raise CannotAsk("There is no terminal to ask at, and this needs an approval.")
