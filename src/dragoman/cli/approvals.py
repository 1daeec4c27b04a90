"""`dragoman approvals`: what has been approved, taking it back, and the history of decisions."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable
from datetime import UTC, datetime

from dragoman.cli.actions import check_action
from dragoman.cli.asking import agreed_to
from dragoman.cli.decision_history import history, since
from dragoman.cli.errors import DONE, FAILED, CommandError, UsageError, complain
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.cli.table import table
from dragoman.journal.events import UnreadableJournal
from dragoman.lm.json import JsonObject, encode_text
from dragoman.logs import one_line
from dragoman.permissions.approvals import Approval, Approvals
from dragoman.store import ApprovalStore, Database, StoreError
from dragoman.tools.builtin.approval_words import approval_in_words

__all__ = ["run"]

_HEADINGS = ("ID", "WHAT", "AGENT", "FOLDER", "LEVEL", "WHEN")
_MORE_HEADINGS = ("TOOL", "KEY")


def run(arguments: Namespace, context: CommandContext) -> int:
    action: str = arguments.action
    ids: list[str] = arguments.ids
    check_action("approvals", action, ids, alone=("list", "history", "reset"), with_ids=("revoke",))
    if arguments.since is not None and action != "history":
        raise UsageError("--since is for the history: dragoman approvals history --since 7d")
    if arguments.yes and action != "reset":
        raise UsageError("--yes is for reset: dragoman approvals reset --yes")
    start = None if arguments.since is None else since(arguments.since, datetime.now(UTC))
    try:
        with Database.open(context.state_dir) as database:
            if action == "history":
                return history(context, database, start, as_json=arguments.json)
            approvals = Approvals(ApprovalStore(database))
            if (notice := approvals.drop_incomplete()) is not None:
                say(notice, sys.stderr)
            match action:
                case "revoke":
                    return _revoke(approvals, ids)
                case "reset":
                    return _reset(approvals, is_sure=arguments.yes)
                case _:
                    return _list(approvals, as_json=arguments.json, is_verbose=arguments.verbose)
    except (StoreError, UnreadableJournal) as error:
        raise CommandError(str(error)) from error


def _list(approvals: Approvals, *, as_json: bool, is_verbose: bool) -> int:
    granted = approvals.list()
    if as_json:
        for approval in granted:
            print(encode_text(_as_json(approval)))
    elif granted:
        headings = (*_HEADINGS, *_MORE_HEADINGS) if is_verbose else _HEADINGS
        print(table(headings, (_row(each)[: len(headings)] for each in granted)))
    else:
        say("Nothing is approved beyond the session it was approved in.")
    return DONE


def _as_json(approval: Approval) -> JsonObject:
    words = approval_in_words(approval)
    return {
        "id": approval.id,
        "level": approval.level,
        "tool": approval.tool,
        "key": approval.key,
        "covers": words.what,
        "agent": words.agent,
        "folder": words.folder,
        "workspace": approval.workspace,
        "grantedAt": approval.granted_at,
    }


def _revoke(approvals: Approvals, ids: Iterable[str]) -> int:
    status = DONE
    for id_ in ids:
        if approvals.revoke(id_):
            say(f"Approval {id_} is taken back.")
        else:
            complain(f'There is no approval "{one_line(id_)}". `dragoman approvals` lists them.')
            status = FAILED
    return status


def _reset(approvals: Approvals, *, is_sure: bool) -> int:
    count = len(approvals.list())
    stored = "1 stored approval" if count == 1 else f"{count} stored approvals"
    if not agreed_to(f"Take back {stored} and those of all running sessions?", is_sure=is_sure):
        say("Nothing is taken back.", sys.stderr)
        return FAILED
    approvals.reset()
    say(f"All approvals are taken back: {count} that were stored, and those of running sessions.")
    return DONE


def _row(approval: Approval) -> tuple[str, ...]:
    words = approval_in_words(approval)
    return (
        approval.id,
        words.what,
        words.agent,
        words.folder or "any",
        approval.level,
        approval.granted_at.astimezone().strftime("%Y-%m-%d %H:%M"),
        approval.tool,
        approval.key,
    )
