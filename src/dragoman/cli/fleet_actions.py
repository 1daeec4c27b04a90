"""What an operator does with a fleet: credentials, streams, a drain."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec

from dragoman.cli.errors import DONE, CommandError, UsageError
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import FleetConfig
from dragoman.fleet.connection import FleetConnection, FleetUnavailable
from dragoman.fleet.credentials import ROLES, FleetRole
from dragoman.fleet.draining import DrainState, WorkerSilent, drain as drain_worker
from dragoman.fleet.folder import ADMIN, FleetFolder
from dragoman.fleet.joining import joined, node_name
from dragoman.fleet.servers import check_version, servers
from dragoman.fleet.streams import make_streams
from dragoman.fleet.subjects import is_node_name
from dragoman.fleet.survey import survey
from dragoman.interruptible import run_interruptible

__all__ = ["credentials", "drain", "fleet_table", "init", "operator", "operator_settings"]

# JetStream's words.
_NO_CLUSTER = "non-clustered"


def credentials(arguments: Namespace, context: CommandContext) -> int:
    role, *names = arguments.names or ("",)
    example = "For example: dragoman fleet credentials worker worker-1"
    if role not in ROLES:
        wrong = f'there is no role "{role}". ' if role else ""
        raise UsageError(f"fleet credentials: {wrong}The roles are {', '.join(ROLES)}. {example}")
    if not names:
        raise UsageError(f"fleet credentials: for which {role}? {example}")
    for name in names:
        if not is_node_name(name):
            raise UsageError(f'"{name}" is no name of a node: at most 64 letters, digits, "_" and "-".')
    folder = FleetFolder(context.state_dir)
    is_first = not folder.has_keys
    for name in names:
        print(folder.credentials(cast("FleetRole", role), name))
    if is_first:
        folder.credentials("admin", ADMIN)
        say(
            f"These are the first credentials of a NEW fleet: there were no keys in {folder.path}, and they are made now. "
            "Who reads them owns the fleet. "
            f"Include {folder.accounts_file} in the configuration of every NATS server. "
            "If your fleet has keys already, its servers refuse these credentials: delete that folder, and run this "
            "where the keys are, or with their --state-dir."
        )
    return DONE


def init(arguments: Namespace, context: CommandContext) -> int:
    fleet = operator_settings(arguments, context)

    async def work() -> None:
        async with operator(fleet) as connection:
            check_version(connection)
            replicas: int = arguments.replicas
            try:
                await make_streams(connection, replicas, context.config().keep)
            except FleetUnavailable as error:
                if _NO_CLUSTER not in str(error):
                    raise
                raise CommandError(
                    f"this NATS is one server, and cannot store everything on {replicas}. Make a cluster, or use "
                    "--replicas 1: then all conversations and decisions are lost with its disk."
                ) from error
            say(f"The streams are there, each on {replicas} {'servers' if replicas > 1 else 'server'}.")
        await _say_syncs(fleet, FleetFolder(context.state_dir))

    run_interruptible(work)
    return DONE


async def _say_syncs(fleet: FleetConfig, folder: FleetFolder) -> None:
    advice = "`sync_interval: always` in its `jetstream` block, so that a loss of power loses no decision."
    if not folder.has_keys:
        say(f"Whether the servers sync at once cannot be seen from here. Each needs {advice}")
        return
    try:
        found = await servers(fleet, folder.keys())
    except FleetUnavailable as error:
        say(f"Whether the servers sync at once cannot be seen: {error} Each needs {advice}")
        return
    for each in found:
        if not each.syncs_always:
            say(f"warn  NATS {each.name} ({each.version}) syncs every two minutes. It needs {advice}")


def drain(arguments: Namespace, context: CommandContext) -> int:
    if len(arguments.names) != 1:
        raise UsageError("fleet drain: which worker? `dragoman fleet` lists them.")
    (name,) = arguments.names
    fleet = operator_settings(arguments, context)
    said: list[DrainState] = []

    def report(state: DrainState) -> None:
        if said[-1:] != [state]:
            answers = "1 answer" if state.streams == 1 else f"{state.streams} answers"
            waits = f"waits for {answers}" if state.streams else "has nothing under way, and ends"
            say(f"{name} takes nothing new; it {waits}.")
            said.append(state)

    async def work() -> None:
        async with operator(fleet) as connection:
            try:
                await drain_worker(connection, name, report)
            except WorkerSilent as error:
                raise CommandError(await _why_silent(connection, name)) from error
        say(f"{name} has ended.")

    run_interruptible(work)
    return DONE


async def _why_silent(connection: FleetConnection, name: str) -> str:
    nodes = (await survey(connection)).nodes
    lease = next((each.lease for each in nodes if each.name == name), None)
    if lease is not None and lease.role == "gateway":
        return f"{name} is a gateway: end it with SIGTERM, and it lets answers that are under way finish."
    if lease is not None:
        return (
            f"{name} has a lease, and does not answer: it hangs, or is cut off from NATS. "
            "If it does not come back, its conversations continue elsewhere when the lease ends."
        )
    workers = [each.name for each in nodes if each.status is not None and each.status.role == "worker"]
    return f"there is no worker {name}. There are {', '.join(workers) or 'none'}."


@asynccontextmanager
async def operator(fleet: FleetConfig) -> AsyncIterator[FleetConnection]:
    """A connection with the operator's credentials. Raises `FleetUnavailable`."""
    name = node_name(fleet, ADMIN, None if fleet.credentials else ADMIN)
    async with joined(fleet, name, "admin") as connection:
        yield connection


def operator_settings(arguments: Namespace, context: CommandContext) -> FleetConfig:
    """Where NATS is, and the operator's credentials. Those of `dragoman fleet up` if the configuration has no fleet."""
    folder = FleetFolder(context.state_dir)
    fleet = context.config().fleet
    if not fleet.urls:
        if folder.url is None:
            raise UsageError(
                'there is no fleet: [fleet] in the configuration has no "url", and `dragoman fleet up` '
                f"has not run with the state in {context.state_dir}."
            )
        fleet = FleetConfig(url=folder.url)
    given: Path | None = arguments.credentials
    own = folder.credentials_file(ADMIN)
    if given is None and own.exists():
        given = own
    if given is None and fleet.credentials is not None and fleet.credentials.is_dir():
        given = fleet.credentials / own.name
    return msgspec.structs.replace(fleet, name=None, credentials=given or fleet.credentials)


def fleet_table(url: str, credentials: Path) -> str:
    """`[fleet]` for the configuration of a node."""
    # A string of JSON is one of TOML.
    return f"[fleet]\nurl = {json.dumps(url)}\ncredentials = {json.dumps(str(credentials), ensure_ascii=False)}\n"
