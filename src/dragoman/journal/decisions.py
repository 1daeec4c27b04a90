"""Permission requests in journals, each with the decision about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.journal.events import JournalEntry
from dragoman.journal.store import JournalInfo, JournalStore

__all__ = ["RecordedDecision", "decisions_in_chat", "decisions_since", "open_elsewhere"]

# A decision may come so long after its request, which is then looked for.
_LONGEST_QUESTION = timedelta(days=7)

_Decided: TypeAlias = tuple[float, PermissionDecided]


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A permission request and the decision about it. One of them may be missing."""

    journal: str
    at: float
    asked: PermissionRequested | None
    decided: PermissionDecided | None
    # Its journal, unless the content of that was deleted.
    info: JournalInfo | None


async def decisions_since(store: JournalStore, start: datetime | None) -> list[RecordedDecision]:
    """All decisions since then, and requests without one, in the order of time."""
    first = 0.0 if start is None else start.timestamp()
    found = await store.permissions(0.0 if start is None else first - _LONGEST_QUESTION.total_seconds())
    infos = {journal: await store.find(journal) for journal in {journal for journal, _ in found}}
    decisions = (each for each in _paired(found, infos) if each.at >= first)
    return sorted(decisions, key=lambda each: each.at)


async def decisions_in_chat(store: JournalStore, chat: str) -> list[RecordedDecision]:
    """What was decided in a chat, about its tools and its agents, in the order of time."""
    infos = {
        each.id: each for each in await store.journals("chat", "agent") if chat in (each.id, each.parent)
    }
    found = [(journal, entry) for journal in infos for entry in await store.read(journal)]
    return sorted(_paired(found, infos), key=lambda each: each.at)


async def open_elsewhere(store: JournalStore, now: float) -> list[RecordedDecision]:
    """The requests without a decision in journals that another process holds, in the order of time."""
    found = await store.permissions(now - _LONGEST_QUESTION.total_seconds(), is_elsewhere=True)
    infos = {journal: await store.find(journal) for journal in {journal for journal, _ in found}}
    return [
        each
        for each in _paired(found, infos)
        # A dead process is no owner, although its claim is still stored.
        if each.decided is None and each.info is not None and each.info.owner
    ]


def _paired(
    found: list[tuple[str, JournalEntry]], infos: Mapping[str, JournalInfo | None]
) -> Iterator[RecordedDecision]:
    """Each request with its decision, and decisions whose request is not recorded."""
    requests: dict[tuple[str, str], tuple[float, PermissionRequested]] = {}
    decisions: dict[tuple[str, str], list[_Decided]] = {}
    for journal, entry in found:
        match entry.event:
            case PermissionRequested() as asked:
                requests[journal, asked.id] = entry.at, asked
            case PermissionDecided() as decided:
                decisions.setdefault((journal, decided.id), []).append((entry.at, decided))
            case _:
                pass
    for (journal, id_), (at, asked) in requests.items():
        info = infos[journal]
        chat = "" if info is None or info.parent is None else info.parent
        own, of_chat = decisions.pop((journal, id_), []), decisions.pop((chat, id_), [])
        decided_at, decision = _counts(own, of_chat)
        yield RecordedDecision(journal, decided_at or at, asked, decision, info)
    for (journal, _), alone in decisions.items():
        for at, decided in alone:
            yield RecordedDecision(journal, at, None, decided, infos[journal])


def _counts(own: Sequence[_Decided], of_chat: Sequence[_Decided]) -> tuple[float, PermissionDecided | None]:
    """The decision that counts, and when it was made.

    A chat records what a person decided about its agent's request. The agent's journal has it when the agent got it; where
    the agent ended before, it has only that.
    """
    never_came = len(own) == 1 and own[0][1].by == "end"
    if of_chat and (not own or never_came or of_chat[-1][1].is_allowed == own[-1][1].is_allowed):
        return of_chat[-1]
    return own[-1] if own else (0.0, None)
