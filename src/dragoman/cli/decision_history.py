"""`dragoman approvals history`: who allowed what, when, where and why."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dragoman.cli.errors import DONE, CommandError, UsageError
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.cli.table import table
from dragoman.fleet.extra import missing_extra
from dragoman.journal.agent_events import PermissionDecided
from dragoman.journal.clients import front_end_of
from dragoman.journal.decision_text import permission_in_words
from dragoman.journal.decisions import RecordedDecision, decisions_since
from dragoman.journal.events import UnreadableJournal
from dragoman.journal.proofs import without_proofs
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.lm.json import JsonObject, encode_text
from dragoman.logs import one_line
from dragoman.permissions.approvals import LEVELS
from dragoman.store import Database, StoreError

__all__ = ["history", "recorded_decisions", "since", "what"]

_HEADINGS = ("WHEN", "CLIENT", "AGENT", "WHAT", "DECISION", "BY", "TOOK")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"([0-9]{1,6})([mhdw])")
_EXAMPLES = "Write 30m, 12h, 7d or 2w, or a date such as 2026-03-01 or 2026-03-01T09:30."


def since(text: str, now: datetime) -> datetime:
    """The moment that `--since` means."""
    ago = _AGO.fullmatch(text.strip().lower())
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError):
        raise UsageError(f'--since: "{one_line(text)}" is no time. {_EXAMPLES}') from None


def history(context: CommandContext, database: Database, start: datetime | None, *, as_json: bool) -> int:
    decisions = _recorded(context, database, start)
    if as_json:
        for each in decisions:
            print(encode_text(_as_json(each)))
    elif decisions:
        print(table(_HEADINGS, map(_row, decisions)))
    else:
        say("No decision is recorded." if start is None else "No decision is recorded since then.")
    return DONE


def recorded_decisions(context: CommandContext, when: str | None) -> list[RecordedDecision]:
    """All decisions since `--since`, as they may be printed. `CommandError` if the state cannot be read."""
    start = None if when is None else since(when, datetime.now(UTC))
    try:
        with Database.open(context.state_dir) as database:
            return _recorded(context, database, start)
    except (StoreError, UnreadableJournal) as error:
        raise CommandError(str(error)) from error


def _recorded(context: CommandContext, database: Database, start: datetime | None) -> list[RecordedDecision]:
    """Those of this machine, and of the fleet if it is a node of one. Without what proves that a person has approved."""
    found = asyncio.run(decisions_since(SqliteJournals(database), start))
    if (fleet := context.fleet()) is not None:
        if (sentence := missing_extra()) is not None:
            raise CommandError(sentence)
        from dragoman.cli.fleet_decisions import fleet_decisions  # noqa: PLC0415 - it needs the extra `fleet`

        found = sorted([*found, *asyncio.run(fleet_decisions(fleet, start))], key=lambda each: each.at)
    return [
        replace(
            each,
            asked=each.asked and without_proofs(each.asked),
            decided=each.decided and without_proofs(each.decided),
        )
        for each in found
    ]


def _client(decision: RecordedDecision) -> str:
    """The front end that the person was asked in, or would have been."""
    if decision.decided is not None:
        return decision.decided.where
    return "" if decision.info is None else front_end_of(decision.info)


def _level(decision: RecordedDecision) -> str | None:
    """How far a person's approval reaches, as far as it is known."""
    decided = decision.decided
    is_known = decided is not None and decided.by == "person" and decided.is_allowed
    return decided.why if decided is not None and is_known and decided.why in LEVELS else None


def what(decision: RecordedDecision) -> str:
    """What was asked for, in a few words."""
    asked = decision.asked
    if asked is None:
        return "(the request is not recorded)"
    if asked.action is None:
        why = "content deleted" if decision.info is None else "content not kept"
        return f"{permission_in_words(asked, names_agent=False)} ({why}) {asked.digest}"
    return permission_in_words(asked, names_agent=False)


def _by(decided: PermissionDecided) -> str:
    why = f": {decided.why}" if decided.why and decided.why != decided.by else ""
    return f"{decided.by}{why}{', and a rule' if decided.new_rule else ''}"


def _row(decision: RecordedDecision) -> tuple[str, ...]:
    asked, decided = decision.asked, decision.decided
    when = datetime.fromtimestamp(decision.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    agent = "" if asked is None else asked.agent
    if decided is None:
        return when, _client(decision), agent, what(decision), "undecided", "", ""
    return (
        when,
        _client(decision),
        agent,
        what(decision),
        "allowed" if decided.is_allowed else "refused",
        _by(decided),
        f"{decided.seconds:.1f} s",
    )


def _as_json(decision: RecordedDecision) -> JsonObject:
    asked, decided = decision.asked, decision.decided
    return {
        "at": datetime.fromtimestamp(decision.at, UTC),
        "conversation": decision.journal,
        "client": _client(decision) or None,
        "agent": None if asked is None else asked.agent,
        "tool": None if asked is None else asked.tool,
        "risk": None if asked is None else asked.risk,
        "sensitive": None if asked is None else asked.is_sensitive,
        "what": what(decision),
        "digest": None if asked is None else asked.digest,
        "action": None if asked is None else asked.action,
        "allowed": None if decided is None else decided.is_allowed,
        "by": None if decided is None else decided.by,
        "level": _level(decision),
        "why": None if decided is None else decided.why,
        "newRule": None if decided is None else decided.new_rule,
        "seconds": None if decided is None else decided.seconds,
    }
