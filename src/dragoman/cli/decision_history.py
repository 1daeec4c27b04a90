"""`dragoman approvals history`: who allowed what, when, where and why."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from dragoman.cli.conversation_text import front_end_of
from dragoman.cli.errors import DONE, UsageError
from dragoman.cli.journal_text import permission_in_words
from dragoman.cli.layout import say
from dragoman.cli.proofs import without_proofs
from dragoman.cli.table import table
from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.journal.events import JournalEntry
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.store import JournalInfo, JournalStore
from dragoman.lm.json import JsonObject, encode_text
from dragoman.logs import one_line
from dragoman.permissions.approvals import LEVELS
from dragoman.store import Database

__all__ = ["history", "since"]

_HEADINGS = ("WHEN", "CLIENT", "AGENT", "WHAT", "DECISION", "BY", "TOOK")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"([0-9]{1,6})([mhdw])")
_EXAMPLES = "Write 30m, 12h, 7d or 2w, or a date such as 2026-03-01 or 2026-03-01T09:30."
# A decision may come so long after its request, which is then looked for.
_LONGEST_QUESTION = timedelta(days=7)


_Decided: TypeAlias = tuple[float, PermissionDecided]


@dataclass(frozen=True, slots=True)
class _Decision:
    """A request for a permission and what came of it. One of them may be missing."""

    journal: str
    at: float
    asked: PermissionRequested | None
    decided: PermissionDecided | None
    # Its journal, unless the content of that was deleted.
    info: JournalInfo | None

    @property
    def client(self) -> str:
        """The front end that the person was asked in, or would have been."""
        if self.decided is not None:
            return self.decided.where
        return "" if self.info is None else front_end_of(self.info)

    @property
    def level(self) -> str | None:
        """How far a person's approval reaches, as far as it is known."""
        decided = self.decided
        is_known = decided is not None and decided.by == "person" and decided.is_allowed
        return decided.why if decided is not None and is_known and decided.why in LEVELS else None


def since(text: str, now: datetime) -> datetime:
    """The moment that `--since` means."""
    ago = _AGO.fullmatch(text.strip().lower())
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError):
        raise UsageError(f'--since: "{one_line(text)}" is no time. {_EXAMPLES}') from None


def history(database: Database, start: datetime | None, *, as_json: bool) -> int:
    decisions = asyncio.run(_read(SqliteJournals(database), start))
    if as_json:
        for each in decisions:
            print(encode_text(_as_json(each)))
    elif decisions:
        print(table(_HEADINGS, map(_row, decisions)))
    else:
        say("No decision is recorded." if start is None else "No decision is recorded since then.")
    return DONE


async def _read(store: JournalStore, start: datetime | None) -> list[_Decision]:
    first = 0.0 if start is None else start.timestamp()
    found = await store.permissions(0.0 if start is None else first - _LONGEST_QUESTION.total_seconds())
    infos = {journal: await store.find(journal) for journal in {journal for journal, _ in found}}
    decisions = (each for each in _paired(found, infos) if each.at >= first)
    return sorted(decisions, key=lambda each: each.at)


def _paired(
    found: list[tuple[str, JournalEntry]], infos: Mapping[str, JournalInfo | None]
) -> Iterator[_Decision]:
    """Each request with what came of it, and decisions whose request is not recorded."""
    requests: dict[tuple[str, str], tuple[float, PermissionRequested]] = {}
    decisions: dict[tuple[str, str], list[_Decided]] = {}
    for journal, entry in found:
        match without_proofs(entry.event):
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
        yield _Decision(journal, decided_at or at, asked, decision, info)
    for (journal, _), alone in decisions.items():
        for at, decided in alone:
            yield _Decision(journal, at, None, decided, infos[journal])


def _counts(own: Sequence[_Decided], of_chat: Sequence[_Decided]) -> tuple[float, PermissionDecided | None]:
    """The decision that counts, and when it was made.

    A chat records what a person decided about its agent's request. The agent's journal has it when the agent got it; where
    the agent ended before, it has only that.
    """
    never_came = len(own) == 1 and own[0][1].by == "end"
    if of_chat and (not own or never_came or of_chat[-1][1].is_allowed == own[-1][1].is_allowed):
        return of_chat[-1]
    return own[-1] if own else (0.0, None)


def _what(decision: _Decision) -> str:
    asked = decision.asked
    if asked is None:
        return "(the request is not recorded)"
    if asked.action is None:
        why = "content deleted" if decision.info is None else "content not kept"
        return f"{permission_in_words(asked, names_agent=False)} ({why}) {asked.digest}"
    return permission_in_words(asked, names_agent=False)


def _row(decision: _Decision) -> tuple[str, ...]:
    asked, decided = decision.asked, decision.decided
    when = datetime.fromtimestamp(decision.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    agent = "" if asked is None else asked.agent
    if decided is None:
        return when, decision.client, agent, _what(decision), "undecided", "", ""
    return (
        when,
        decision.client,
        agent,
        _what(decision),
        "allowed" if decided.is_allowed else "refused",
        f"{decided.by}{f': {decided.why}' if decided.why else ''}",
        f"{decided.seconds:.1f} s",
    )


def _as_json(decision: _Decision) -> JsonObject:
    asked, decided = decision.asked, decision.decided
    return {
        "at": datetime.fromtimestamp(decision.at, UTC),
        "conversation": decision.journal,
        "client": decision.client or None,
        "agent": None if asked is None else asked.agent,
        "tool": None if asked is None else asked.tool,
        "risk": None if asked is None else asked.risk,
        "sensitive": None if asked is None else asked.is_sensitive,
        "what": _what(decision),
        "digest": None if asked is None else asked.digest,
        "action": None if asked is None else asked.action,
        "allowed": None if decided is None else decided.is_allowed,
        "by": None if decided is None else decided.by,
        "level": decision.level,
        "why": None if decided is None else decided.why,
        "seconds": None if decided is None else decided.seconds,
    }
