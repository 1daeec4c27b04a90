"""What a turn writes to the journal, and how long it takes to load a conversation from it.

    python -m bench.journal [--quick]

A real conversation through the agent's back end and SQLite: every turn is a prompt and an answer, together about a kilobyte of
text. The bytes are those that the process hands to the system in the store's calls (`wchar` in `/proc/self/io`), with
snapshots and checkpoints: the log is empty before the turns that are counted, and written back after them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.agents import PART
from bench.contestants import OURS
from bench.figures import Column, Figure, Goal, Row
from bench.stage import Scale, Stage, alone
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.journal.events import StampedEvent
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.writer import Journals
from dragoman.lm import (
    CancellationToken,
    Consumer,
    Message,
    ModelInfo,
    Request,
    Response,
    user,
)
from dragoman.store import Database, signing_key

__all__ = ["measure"]

# The turn of interest, and how many turns around it are counted: with some snapshots, where there are any.
_POINTS = ((10, 10), (100, 80), (1_000, 300))
_PARTS_OF_AN_ANSWER = 45
_PROMPT = (
    "Tell me about part {number} of it, please, and then what follows from it for the others. !say {parts}"
)
_MOST_BESIDE_TEXT = 10_000
_MOST_TO_LOAD_MS = 50
_COLUMNS = (
    Column("written", "bytes written", 0),
    Column("text", "bytes of text", 0),
    Column("ratio", "of the text", 2),
    Column("load", "to load it, ms", 2),
    Column("share", "of reading all events", 2),
)


class _Counted(SqliteJournals):
    """Counts what its writes hand to the system."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.written = 0

    async def append(
        self, journal: str, expected: int, events: Sequence[StampedEvent], *, holds: bool = True
    ) -> int:
        before = _written()
        try:
            return await super().append(journal, expected, events, holds=holds)
        finally:
            self.written += _written() - before


class _Chat:
    """A consumer that sends the whole history with every request."""

    def __init__(self, model: AgentModel) -> None:
        self._model = model
        self._history: list[Message] = []
        # Of the last turn, in bytes.
        self.said = 0

    async def turn(self, number: int) -> None:
        prompt = _PROMPT.format(number=number, parts=_PARTS_OF_AN_ANSWER)
        self._history.append(user(prompt))
        request = Request(tuple(self._history), consumer=Consumer("bench", "bench", ("/",)))
        response = Response()
        await self._model.respond(request, response, CancellationToken())
        if len(response.text) < len(PART) * _PARTS_OF_AN_ANSWER:
            raise AssertionError(response.text)
        self._history.append(response.message())
        self.said = len(prompt.encode()) + len(response.text.encode())


async def measure(stage: Stage, scale: Scale) -> Figure:
    points = _POINTS[:2] if scale.quick else _POINTS
    samples: dict[int, list[dict[str, float]]] = {turn: [] for turn, _ in points}
    for _ in range(scale(3, 1)):
        with tempfile.TemporaryDirectory(dir=stage.folder) as folder:
            for turn, found in (await _conversation(stage, Path(folder), points, scale)).items():
                samples[turn].append(found)
    rows = tuple(
        Row(
            f"turn {turn:,}",
            OURS,
            {column.name: tuple(each[column.name] for each in found) for column in _COLUMNS},
        )
        for turn, found in samples.items()
    )
    beside = [(row.median("written") or 0) - (row.median("text") or 0) for row in rows]
    goals = (
        *(
            Goal(f"written at {row.case}, beside the text", value, _MOST_BESIDE_TEXT, unit="bytes")
            for row, value in zip(rows, beside, strict=True)
        ),
        Goal(
            "a conversation with so many turns is loaded in",
            rows[-1].median("load"),
            _MOST_TO_LOAD_MS,
            unit="ms",
        ),
    )
    return Figure("journal", "What a turn writes to the journal, and loading it again", _COLUMNS, rows, goals)


async def _conversation(
    stage: Stage, folder: Path, points: Sequence[tuple[int, int]], scale: Scale
) -> dict[int, dict[str, float]]:
    """One conversation; around each point what a turn writes, and then how long it takes to load what there is."""
    settings = AgentSettings("bench", "Bench", stage.agents.command, {}, folder)
    info = ModelInfo("bench", "Bench", "bench", "1", 10_000_000, 100_000)
    found: dict[int, dict[str, float]] = {}
    with Database.open(folder / "state") as database:
        store = _Counted(database)
        model = AgentModel(info, settings, journals=Journals(store), key=signing_key(database))
        chat, turn = _Chat(model), 0
        try:
            for point, width in points:
                while turn < point - width // 2:
                    turn += 1
                    await chat.turn(turn)
                database.purge()
                store.written = text = 0
                while turn < point + width // 2:
                    turn += 1
                    await chat.turn(turn)
                    text += chat.said
                before = _written()
                database.purge()
                written = store.written + _written() - before
                load, everything = await _loading(folder / "state", scale)
                found[point] = {
                    "written": written / width,
                    "text": text / width,
                    "ratio": written / text,
                    "load": load,
                    "share": load / everything,
                }
        finally:
            await model.close()
    return found


async def _loading(folder: Path, scale: Scale) -> tuple[float, float]:
    """Milliseconds, as another process needs them: to load the conversation, and to read all its events."""
    loads: list[float] = []
    reads: list[float] = []
    for _ in range(scale(11, 3)):
        with Database.open(folder) as database:
            store = SqliteJournals(database)
            [info] = await store.journals("agent")
            began = time.perf_counter()
            found = await store.state(info.id)
            loads.append(time.perf_counter() - began)
            began = time.perf_counter()
            entries = await store.read(info.id)
            reads.append(time.perf_counter() - began)
            if found is None or found[1] != len(entries):
                raise AssertionError("it is not all there")
    return sorted(loads)[len(loads) // 2] * 1e3, sorted(reads)[len(reads) // 2] * 1e3


def _written() -> int:
    """The bytes that this process has handed to the system."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


if __name__ == "__main__":
    alone(measure)
