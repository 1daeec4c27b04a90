"""A run with a model endpoint that breaks: `dragoman vscode` in front of it, and the same kind of conversation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from dragoman.jsonrpc import RpcResponse
from faults.chat import WORD, name_of
from faults.plan import Plan
from faults.world import World, until
from responses.endpoint import Asked, Endpoint, Reply, endpoint, said, sse, whole
from vscode.editor import TOOLS, Answer, returned

__all__ = ["EndpointRun"]

# Long enough for a busy machine, short enough to be waited for.
_SILENCE_SECONDS = 3.0
_HOW: dict[str, Any] = {"endpoint resets": "reset", "endpoint cuts off": "cut", "endpoint hangs": "hold"}
_GARBAGE = b"event: response.output_text.delta\ndata: {not json\n\ndata: 7\n\n: a comment\n\nevent: unheard.of\ndata: {}\n\n"


class EndpointRun:
    """Acts of a turn: words for "speak", one call for every other."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self._folder = folder
        self.broken: list[str] = []
        self.errors: list[str] = []
        self.injected: list[str] = []
        self._numbers = count(1)
        # Words of answers that were sent whole.
        self._complete: set[str] = set()
        self._heard: list[str] = []
        self._ran: Counter[str] = Counter()
        self._called: set[str] = set()
        self._history: list[dict[str, Any]] = []
        self._is_faulty_turn = False
        # An answer was cut short, and said so.
        self._told = False
        self.world: World | None = None

    async def drive(self) -> None:
        async with endpoint() as model:
            model.answer = self._answer
            world = self.world = World(
                self._folder,
                models=f'[models.gateway]\nkind = "responses"\nbase_url = "{model.url}"\nmodel = "m"\n'
                f"silence_seconds = {_SILENCE_SECONDS}\n",
            )
            await world.start()
            for number, acts in enumerate(self.plan.turns):
                self._is_faulty_turn = number == self.plan.turn
                await self._turn(number, acts)
                if self._is_faulty_turn and self.plan.state == "idle":
                    self._between(model)
            self._is_faulty_turn = False
            answer = await self._turn(91, ("speak",))
            if not isinstance(answer.reply, RpcResponse) or "«A91.0@" not in answer.text:
                self.broken.append(
                    f"I6: the next prompt has no answer of its own: {answer.text!r} {answer.reply}"
                )
            await world.end(self.plan.ending)
            await until(lambda: not world.remaining(), "I7: something is left", 6.0)
            await until(lambda: not model.open, "a connection to the endpoint is left", 6.0)
            self._check(world)

    def _between(self, model: Endpoint) -> None:
        """The connection that was kept for the next request breaks while nobody uses it."""
        for writer in model.open.values():
            writer.transport.abort()
            self.injected = [*self.plan.faults]

    async def _turn(self, number: int, acts: Iterable[str]) -> Answer:
        world = self.world
        assert world is not None
        self._history.append(_user({"type": "text", "value": json.dumps([number, *acts])}))
        while True:
            answer = world.editor.respond("gateway", list(self._history), TOOLS)
            await answer.settled()
            self._heard += WORD.findall(answer.text)
            self._told |= "**Error:**" in answer.text
            if answer.text or answer.calls:
                self._history.append(answer.message)
            if not isinstance(answer.reply, RpcResponse):
                self._complain(answer)
                return answer
            if not answer.calls:
                return answer
            for call in answer.calls:
                word = call["input"]["word"]
                self._ran[word] += 1
                self._history.append(_user(returned(call, f"ran {word}")))

    def _complain(self, answer: Answer) -> None:
        error = answer.error.error
        data = error.data if isinstance(error.data, dict) else {}
        self.errors.append(error.message)
        if not data.get("hint") or data.get("kind") == "internal":
            self.broken.append(f"an error without a next step: {error.message} {data}")

    # The endpoint.

    def _answer(self, asked: Asked) -> Reply:
        """What to say to this: the first act, or the one behind as many calls as have come back."""
        items = asked.json["input"]
        turn, *acts = _script(items)
        done = sum(item.get("type") == "function_call_output" for item in items[_last_user(items) :])
        calls = [act for act in acts if act != "speak"]
        words = [self._word(turn, n) for n in range(3)]
        if done < len(calls):
            return self._faulty(("gathering",), self._call(turn, done), [])
        events = said(*(word + " " for word in words))
        return self._faulty(("speaking", "resumed"), events, words)

    def _word(self, turn: int, number: int) -> str:
        return f"«A{turn}.{number}@0.{next(self._numbers)}»"

    def _call(self, turn: int, number: int) -> list[dict[str, Any]]:
        word = self._word(turn, number)
        self._called.add(word)
        arguments = json.dumps({"word": word}, ensure_ascii=False)
        item = {
            "type": "function_call",
            "id": f"fc{word}",
            "call_id": f"c{next(self._numbers)}",
            "name": "look_up",
        }
        half = len(arguments) // 2
        delta = {"type": "response.function_call_arguments.delta", "item_id": item["id"], "output_index": 0}
        item |= {"arguments": arguments, "status": "completed"}
        return [
            {"type": "response.created", "response": whole("in_progress")},
            {"type": "response.output_item.added", "output_index": 0, "item": item | {"arguments": ""}},
            delta | {"delta": arguments[:half]},
            delta | {"delta": arguments[half:]},
            delta | {"type": "response.function_call_arguments.done", "arguments": arguments},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole("completed", item)},
        ]

    def _faulty(self, states: tuple[str, ...], events: list[dict[str, Any]], words: list[str]) -> Reply:
        wanted = self.plan.state
        if not self._is_faulty_turn or self.injected or wanted not in (*states, "silent"):
            self._complete.update(words)
            return Reply((sse(*events),))
        self.injected = [*self.plan.faults]
        match self.plan.faults[0]:
            case "endpoint talks nonsense":
                self._complete.update(words)
                middle = len(events) // 2
                # Numbered as one stream: the second half goes on where the first ended.
                lines = sse(*events).split(b"\n\n")
                first, second = b"\n\n".join(lines[:middle]) + b"\n\n", b"\n\n".join(lines[middle:])
                return Reply((first, _GARBAGE, second))
            case "endpoint refuses":
                body = json.dumps({"error": {"message": "overloaded", "type": "server_error"}}).encode()
                return Reply((body,), 503, {"Content-Type": "application/json", "Retry-After": "0"})
            case fault:
                kept = events[: 0 if wanted == "silent" else len(events) // 2]
                return Reply((sse(*kept),) if kept else (), then=_HOW[fault], is_silent=not kept)

    def _check(self, world: World) -> None:
        doubled = [word for word, times in Counter(self._heard).items() if times > 1]
        if doubled:
            self.broken.append(f"I5: said twice: {doubled}")
        lost = sorted(self._complete - set(self._heard))
        may_end = self.plan.has("endpoint talks nonsense") and (self._told or self.errors)
        if lost and not may_end:
            self.broken.append(f"I5: said and lost: {lost}")
        self.broken += [f"I2: {word} ran {times} times" for word, times in self._ran.items() if times > 1]
        self.broken += [f"I2: {word} was never called" for word in self._ran if word not in self._called]
        self.broken += [f"the bridge complains: {line[:300]}" for line in world.complaints()[:3]]
        ordered = [int(word.rpartition(".")[2][:-1]) for word in self._heard if name_of(word)]
        if ordered != sorted(ordered):
            self.broken.append(f"I5: out of order: {self._heard}")
        if self.plan.ending != "killed" and world.temporary_files():
            self.broken.append(f"files are left: {world.temporary_files()}")

    async def finish(self) -> None:
        """All was checked while the endpoint was there."""

    def close(self) -> None:
        if self.world is not None:
            self.world.close()


def _user(part: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [part]}


def _last_user(items: list[dict[str, Any]]) -> int:
    return max(n for n, item in enumerate(items) if item.get("role") == "user")


def _script(items: list[dict[str, Any]]) -> list[Any]:
    content = items[_last_user(items)]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    steps: list[Any] = json.loads(text)
    return steps
