"""`dragoman completion`: scripts that complete our command line, and the names that they ask for."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.errors import DONE, CommandError, UsageError
from dragoman.cli.run import CommandContext
from dragoman.nearest import nearest

if TYPE_CHECKING:
    from dragoman.store import Database

__all__ = ["run"]

_SHELLS = ("bash", "zsh", "fish")


def run(arguments: Namespace, context: CommandContext) -> int:
    wanted: str = arguments.shell
    if wanted in _NAMES:
        for name in _NAMES[wanted](context):
            print(name)
        return DONE
    if wanted not in _SHELLS:
        meant = nearest(wanted, _SHELLS)
        hint = f'Did you mean "{meant}"?' if meant else f"There is for {', '.join(_SHELLS)}."
        raise UsageError(f'completion: there is none for "{wanted}". {hint}')
    from dragoman.cli.shells.words import typed  # noqa: PLC0415 - not for the names

    print(import_module(f"dragoman.cli.shells.{wanted}").script(tuple(typed())), end="")
    return DONE


def _models(context: CommandContext) -> Iterable[str]:
    config = context.config()
    return (*config.models, *config.untrusted)


def _agents(context: CommandContext) -> Iterable[str]:
    from dragoman.agents.catalogue import catalogue  # noqa: PLC0415 - each for those who ask for it
    from dragoman.agents.installed import InstalledAgents  # noqa: PLC0415

    return catalogue(InstalledAgents(context.state_dir).folder)


def _approvals(context: CommandContext) -> Iterable[str]:
    from dragoman.store import ApprovalStore  # noqa: PLC0415

    return _stored_ids(context, lambda database: [str(each.id) for each in ApprovalStore(database).list()])


def _conversations(context: CommandContext) -> Iterable[str]:
    from dragoman.cli.conversations import listed  # noqa: PLC0415
    from dragoman.journal.sqlite.journals import SqliteJournals  # noqa: PLC0415

    def ids(database: Database) -> list[str]:
        return [each.id for each in asyncio.run(listed(SqliteJournals(database)))]

    return _stored_ids(context, ids)


def _chats(context: CommandContext) -> Iterable[str]:
    """The chats that `dragoman chat --resume` can continue here."""
    from dragoman.frontends.terminal.stored_chats import chats_in  # noqa: PLC0415
    from dragoman.journal.sqlite.journals import SqliteJournals  # noqa: PLC0415

    def ids(database: Database) -> list[str]:
        chats = asyncio.run(SqliteJournals(database).journals("chat"))
        return [each.id for each in chats_in((Path.cwd(),), chats)]

    return _stored_ids(context, ids)


def _stored_ids(context: CommandContext, ids: Callable[[Database], Iterable[str]]) -> Iterable[str]:
    from dragoman.store.database import FILE_NAME, Database, StoreError  # noqa: PLC0415

    # A shell that completes a word leaves no files behind.
    if not (context.state_dir / FILE_NAME).exists():
        return ()
    try:
        with Database.open(context.state_dir) as database:
            return ids(database)
    except StoreError as error:
        raise CommandError(str(error)) from error


_NAMES: dict[str, Callable[[CommandContext], Iterable[str]]] = {
    "models": _models,
    "agents": _agents,
    "approvals": _approvals,
    "conversations": _conversations,
    "chats": _chats,
}
