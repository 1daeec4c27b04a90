"""What the loop needs of a front end: somebody who watches, and somebody who decides."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Protocol, TextIO

from dragoman.frontends.terminal.visible import visible_line
from dragoman.lm import CancellationToken
from dragoman.loop.events import EndReason, Event, ToolFinished
from dragoman.loop.hooks import Hooks
from dragoman.tools.decision import Confirmer, Decision, Deny, Question

__all__ = ["DONE", "FAILED", "INTERRUPTED", "Host", "Nobody", "Watcher"]

DONE = 0
FAILED = 1
INTERRUPTED = 130


class Watcher(Protocol):
    def on_event(self, event: Event) -> None: ...


class Host(Hooks):
    def __init__(self, watcher: Watcher, confirmer: Confirmer) -> None:
        self._watcher = watcher
        self._confirmer = confirmer
        self._was_refused = False
        # Called when what we print to is gone: whoever read it has had enough.
        self.on_cut: Callable[[], object] = lambda: None

    def on_event(self, event: Event) -> None:
        if isinstance(event, ToolFinished) and event.result.outcome in {"denied", "timed_out"}:
            self._was_refused = True
        try:
            self._watcher.on_event(event)
        except BrokenPipeError:
            # Nothing more can be written there, also not what the interpreter writes on its way out.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.on_cut()

    async def approve(self, question: Question, token: CancellationToken) -> Decision:
        return await self._confirmer.confirm(question, token)

    def exit_code(self, reason: EndReason) -> int:
        """What a script is told: done is done, unless something that was to be done was refused."""
        match reason:
            case "completed":
                return FAILED if self._was_refused else DONE
            case "cancelled":
                return INTERRUPTED
            case _:
                return FAILED


class Nobody:
    """Decides where no person can be asked: against it. The model hears why, and the person how to change that."""

    def __init__(self, problems: TextIO | None = None) -> None:
        self._problems = problems or sys.stderr

    async def confirm(self, question: Question, token: CancellationToken) -> Decision:
        del token
        print(
            f"dragoman: denied: {visible_line(question.confirmation.title)} ({question.tool}). There is no terminal to "
            "ask at. To allow it without asking, set auto_approve = true under [tools] in dragoman.toml, or approve it "
            "for the workspace in a chat first.",
            file=self._problems,
            flush=True,
        )
        return Deny(
            "Nobody can be asked here, and this needs an approval. Go on without it, or say what is needed."
        )
