"""The load: a chat that goes on for as long as the run lasts, now at one gateway and now at another, and keeps account."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Literal, TypeAlias

from dragoman.jsonrpc import ConnectionClosed, ErrorResponse
from faults.chat import WORD, Chat, script
from fleet_faults.plan import GATEWAY_GONE
from vscode.editor import Answer

if TYPE_CHECKING:
    from faults.http_editor import HttpEditor
    from fleet_faults.world import FleetNode, FleetWorld

__all__ = ["Talk", "Turn"]

Act: TypeAlias = Literal["stream", "speak", "call", "calls", "ask", "refused"]
_ACTS: tuple[Act, ...] = ("stream", "stream", "call", "calls", "ask", "refused", "speak")
_MOST_ACTS = 3
_WORDS, _BETWEEN_SECONDS = 30, 0.04
_STOPS = 0.12
_REPEATS = 0.3
# A request ends by then, whatever fails: the longest suspension, an owner's lease, and an election.
ANSWER_SECONDS = 120.0
# After an error the person does not try again at once.
_AFTER_ERROR_SECONDS = 0.5
_TOLD_ERROR = re.compile(r"\*\*Error:\*\* (.+)", re.DOTALL)


@dataclass
class Turn:
    number: int
    began: float
    ended: float = 0.0
    # Why it has no whole answer; "" if it has.
    failure: str = ""
    # Whether a background response failed that had said something: it must outlive its gateway.
    is_cut: bool = False


@dataclass
class Talk:
    chat: Chat
    world: FleetWorld
    random: Random
    turns: list[Turn] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    # When each word came.
    heard_at: dict[str, float] = field(default_factory=dict)
    is_over: bool = False
    # Whether its responses run in the background: they outlive their gateway.
    is_background: bool = False

    async def go_on(self) -> None:
        """Turn after turn, until it is over."""
        number = 0
        while not self.is_over:
            turn = Turn(number, time.time())
            try:
                await self._turn(turn)
            except AssertionError as error:
                self.broken.append(f"chat {self.chat.name}, turn {number}: {error}")
                return
            turn.ended = time.time()
            self.turns.append(turn)
            number += 1
            if turn.failure:
                await asyncio.sleep(_AFTER_ERROR_SECONDS)

    def has_answer_since(self, moment: float) -> bool:
        """Whether a turn that began after this has a whole answer."""
        return any(turn.began > moment and not turn.failure for turn in self.turns)

    def _gateway(self, other_than: FleetNode | None = None) -> FleetNode:
        return self.random.choice([each for each in self.world.gateways if each is not other_than])

    def _editor(self, gateway: FleetNode) -> HttpEditor:
        return self.world.editor(gateway, is_background=self.is_background)

    async def _turn(self, turn: Turn) -> None:
        chat = self.chat
        acts = self.random.choices(_ACTS, k=self.random.randint(1, _MOST_ACTS))
        # A client that leaves a background response does not stop it.
        is_stopped = "stream" in acts and self.random.random() < _STOPS and not self.is_background
        chat.say(_script(chat.name, turn.number, acts))
        gateway = self._gateway()
        answer = chat.send(self._editor(gateway))
        repeats = 0
        while True:
            await self._settled(answer, turn, gateway, stops=is_stopped)
            if turn.failure and repeats < 1 and self.random.random() < _REPEATS:
                # The person asks for the same answer once more.
                repeats += 1
                chat.repeated.add(turn.number)
                self._hear(answer, kept=False)
                gateway, turn.failure = self._gateway(), ""
                await asyncio.sleep(_AFTER_ERROR_SECONDS)
                answer = chat.again(self._editor(gateway))
                continue
            self._hear(answer)
            if turn.failure or turn.number in chat.stopped or not answer.calls:
                return
            results = [await chat.serve(call, answer.editor) for call in answer.calls]
            chat.history += [{"role": "user", "content": [result]} for result in results]
            # What was asked at one gateway is decided at another.
            gateway = self._gateway(other_than=gateway)
            answer = chat.send(self._editor(gateway))

    def _hear(self, answer: Answer, *, kept: bool = True) -> None:
        text = ""
        for part in answer.parts:
            if part["type"] == "text":
                before = len(WORD.findall(text))
                text += part["value"]
                for word in WORD.findall(text)[before:]:
                    self.heard_at.setdefault(word, part["at"])
        self.chat.hear(answer, kept=kept)

    async def _settled(self, answer: Answer, turn: Turn, gateway: FleetNode, *, stops: bool) -> None:
        """Wait for the end of a request. It has one, and an error says what to do."""
        chat, began, lives = self.chat, time.monotonic(), gateway.lives
        while answer.reply is None:
            if stops and turn.number not in chat.stopped and WORD.search(answer.text):
                chat.stopped.add(turn.number)
                answer.cancel()
            assert time.monotonic() - began < ANSWER_SECONDS, (
                f"I1: a request at {gateway.name} has no end; it has {answer.text[-200:]!r}"
            )
            answer.news.clear()
            try:
                await asyncio.wait_for(answer.news.wait(), 0.2)
            except TimeoutError:
                continue
        told = _TOLD_ERROR.search(answer.text)
        if isinstance(answer.reply, ConnectionClosed):
            assert not gateway.is_up or gateway.lives != lives or gateway.is_spoilt, (
                f"{gateway.name} lives and has closed a connection: {answer.reply}"
            )
            turn.failure = GATEWAY_GONE
        elif isinstance(answer.reply, ErrorResponse):
            chat.complain(answer)
            turn.failure = answer.reply.error.message
        elif told is not None:
            turn.failure = told[1].strip()
            assert len(re.findall(r"[.!?](?:\s|$)", turn.failure)) > 1, (
                f"an error without a next step: {turn.failure}"
            )
            chat.errors.append(turn.failure)
        if turn.failure:
            chat.lost.add(turn.number)
            turn.is_cut = self.is_background and WORD.search(answer.text) is not None


def _script(chat: str, turn: int, acts: list[Act]) -> str:
    steps: list[object] = []
    for number, act in enumerate(acts):
        if act == "stream":
            steps.append(["words", f"{chat}{turn}.{number}s", _WORDS, _BETWEEN_SECONDS])
        else:
            steps += json.loads(script(chat, turn, (act,), None))
    return json.dumps(steps)
