"""What a client is asked to do in each scenario, and what must come of it, whichever client it is."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias
from uuid import uuid4

from clients.rows import Row
from clients.serving import Json, Servers, Way

__all__ = ["CITY_SCHEMA", "SCENARIOS", "Client", "Found", "Job", "Trial"]

CITY = {"name": "Paris", "people": 2_100_000}
CITY_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "number"}},
    "required": ["name", "people"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Found:
    """What a client told of its job."""

    texts: list[str] = field(default_factory=list)
    thinking: str = ""
    calls: list[tuple[str, Json]] = field(default_factory=list)
    objects: list[Json] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    client: str
    scenario: str
    url: str
    prompts: list[str]


class Client(Protocol):
    # Whether it shows an answer in whole items. Then a thought ends the text before it.
    shows_items: bool

    async def run(self, job: Job, on_piece: Callable[[str], None]) -> Found: ...

    def call(self, name: str, word: str) -> list[Any]:
        """The agent's step that calls this function of the client."""
        ...

    def returned(self, name: str, word: str) -> str:
        """What the function returns."""
        ...


class Trial:
    """One client in one scenario, over one way. Its word is in all its prompts, so that the agent's journal tells whose they are."""

    def __init__(self, row: Row, client: Client, servers: Servers, way: Way, scenario: str) -> None:
        self.row = row
        self.client = client
        self.servers = servers
        self.way = way
        self.scenario = scenario
        self.word = f"w{uuid4().hex[:10]}"

    def prompt(self, *steps: list[Any]) -> str:
        return f"Please do this for {self.word}: {json.dumps(steps)}"

    @property
    def thought(self) -> list[list[Any]]:
        return [["think", "Hm."]] if self.client.shows_items else []

    async def run(self, *prompts: str, on_piece: Callable[[str], None] = lambda _piece: None) -> Found:
        job = Job(self.row.id, self.scenario, self.servers.urls[self.way], list(prompts))
        return await self.client.run(job, on_piece)

    def assert_prompted(self, *prompts: str, sessions: int = 1) -> list[str]:
        """The agent was prompted with each of these once, in so many sessions, and with nothing else."""
        asked = self.servers.prompts(self.word)
        texts = ["\n".join(block.get("text", "") for block in params["prompt"]) for params in asked]
        assert len(texts) == len(prompts), texts
        for text, prompt in zip(texts, prompts, strict=True):
            assert prompt in text
        used = list(dict.fromkeys(params["sessionId"] for params in asked))
        if self.row.retells and len(prompts) > 1:
            sessions = len(prompts)
        else:
            # What was said before is in the session, and not said again.
            assert [text.count(self.word) for text in texts] == [it.count(self.word) for it in prompts]
        assert len(used) == sessions, used
        return used

    def results(self) -> list[str]:
        """What the agent got from the client's functions."""
        notes = (event["params"] for event in self.servers.journal() if event["method"] == "result")
        return [note["text"] for note in notes if self.word in note["text"]]


async def text(trial: Trial) -> None:
    prompt = trial.prompt(["say", f"Hello {trial.word}."])
    found = await trial.run(prompt)
    assert found.texts == [f"Hello {trial.word}."]
    trial.assert_prompted(prompt)


async def stream(trial: Trial) -> None:
    said = (f"One {trial.word}. ", "Two. ", "Three.")
    prompt = trial.prompt(
        ["say", said[0]], ["say", said[1]], *trial.thought, ["gate", trial.word], ["say", said[2]]
    )
    pieces: list[str] = []

    def on_piece(piece: str) -> None:
        pieces.append(piece)
        # The agent goes on when the client has shown what it said so far.
        if "".join(said[:2]).strip() in "".join(pieces):
            trial.servers.open_gate(trial.word)

    found = await trial.run(prompt, on_piece=on_piece)
    assert len(pieces) >= 2
    assert _plain("".join(pieces)) == _plain("".join(found.texts)) == _plain("".join(said))
    trial.assert_prompted(prompt)


async def tool_loop(trial: Trial) -> None:
    await _call(trial, "look_up")


async def parallel_tools(trial: Trial) -> None:
    await _call(trial, "look_up", "count")


async def _call(trial: Trial, *names: str) -> None:
    calls = {name: trial.client.call(name, f"{name}-{trial.word}") for name in names}
    # Words before the calls: a client has to send them back.
    prompt = trial.prompt(
        ["say", "Looking. "], ["all", list(calls.values())], ["say", f" Done {trial.word}."]
    )
    found = await trial.run(prompt)
    expected = [trial.client.returned(name, f"{name}-{trial.word}") for name in names]
    assert sorted(map(str, found.calls)) == sorted(str((call[1], call[2])) for call in calls.values())
    given = trial.results()
    assert len(given) == len(names), given
    for result in expected:
        assert sum(result in each for each in given) == 1, given
    assert f"Done {trial.word}." in found.texts[-1], found
    trial.assert_prompted(prompt)


async def second_turn(trial: Trial) -> None:
    """A thought divides the first answer within a word. The client sends it back as it got it."""
    shows_thoughts = trial.client.shows_items or trial.row.retells
    thought = [] if shows_thoughts else [["think", "Hm."]]
    prompts = [
        trial.prompt(["say", "Half a wo"], *thought, ["say", f"rd {trial.word}."]),
        trial.prompt(["say", f"Second {trial.word}."]),
    ]
    found = await trial.run(*prompts)
    assert found.texts == [f"Half a word {trial.word}.", f"Second {trial.word}."]
    trial.assert_prompted(*prompts)


async def thinking(trial: Trial) -> None:
    prompt = trial.prompt(["think", f"Pondering {trial.word}."], ["say", f"Thought {trial.word}."])
    found = await trial.run(prompt)
    assert found.thinking.strip() == f"Pondering {trial.word}."
    assert found.texts == [f"Thought {trial.word}."]
    trial.assert_prompted(prompt)


async def structured(trial: Trial) -> None:
    """Once for each mode of the client: an answer in words, or a call of the function that stands for the form."""
    prompts = [
        trial.prompt(
            ["say", json.dumps(CITY)] if mode == "say" else ["call", mode, CITY],
        )
        for mode in trial.row.structured
    ]
    found = await trial.run(*prompts)
    assert found.objects == [CITY] * len(prompts)
    trial.assert_prompted(*prompts, sessions=len(prompts))


async def abort(trial: Trial) -> None:
    prompt = trial.prompt(["say", f"Begin {trial.word}. "], *trial.thought, ["hang"])
    found = await trial.run(prompt)
    assert f"Begin {trial.word}." in "".join(found.texts)
    [session] = trial.assert_prompted(prompt)
    # The agent was told, and nothing goes on in either server.
    await trial.servers.until(lambda journal: any(_is_cancel(event, session) for event in journal))
    await trial.servers.until_idle()


def _is_cancel(event: Json, session: str) -> bool:
    return bool(event["method"] == "session/cancel" and event["params"]["sessionId"] == session)


def _plain(text: str) -> str:
    return re.sub(r"\s+", "", text)


Scenario: TypeAlias = Callable[[Trial], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {
    each.__name__: each
    for each in (text, stream, tool_loop, parallel_tools, second_turn, thinking, structured, abort)
}
