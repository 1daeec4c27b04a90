"""`dragoman serve`: the HTTP front end."""

from __future__ import annotations

import asyncio
import logging
import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

import msgspec

from dragoman.cli.config_watch import follow
from dragoman.cli.console_codes import TerminalCodes, local_address, open_browser
from dragoman.cli.errors import DONE, INTERRUPTED, CommandError, UsageError
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import AcpModel, Config, FleetConfig, Serve, client_keys, webhook_secret
from dragoman.fleet.extra import missing_extra
from dragoman.frontends.console.console import Console
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.histories import response_store
from dragoman.frontends.http.running import PortTaken, bound, serve
from dragoman.frontends.http.service import HttpService
from dragoman.interruptible import fast_loop, run_interruptible
from dragoman.loopback import is_loopback
from dragoman.models import Models
from dragoman.process.memory import half_of_memory
from dragoman.store import Database, StoreError

if TYPE_CHECKING:
    from dragoman.cli.gateway import Gateway

__all__ = ["run"]

_log = logging.getLogger(__name__)

_SWITCHED_OFF = "No person can be asked here: [console] of the server's configuration has `enabled = false`."


def run(arguments: Namespace, context: CommandContext) -> int:
    config = context.config()
    settings = _settings(config.serve, arguments)
    keys = client_keys(config)
    if not keys and not is_loopback(settings.host):
        raise UsageError(
            f"on {settings.host} other machines can connect: add `api_keys` to [serve] in the configuration, or a [keys.NAME]."
        )
    if arguments.name is not None and not config.fleet.urls:
        raise UsageError("--name is for a gateway of a fleet: [fleet] in the configuration has no `url`.")
    config = context.offered(config)
    gate = AccessCheck(keys, settings.cors_origins)
    if not config.console.enabled and (arguments.open or arguments.pairing_code):
        raise UsageError("there is no console: [console] of the configuration has `enabled = false`.")

    async def work() -> bool:
        async with _gateway(config.fleet, arguments.name) as gateway:
            return await _serve(gateway)

    async def _serve(gateway: Gateway | None) -> bool:
        database = _database(context.state_dir)
        models = Models(
            _offered(config),
            context.state_dir,
            max_memory=settings.max_memory_bytes or half_of_memory(),
            database=database,
            redaction=context.redaction,
            store=gateway.journals if gateway is not None else None,
            fleet=gateway.fleet if gateway is not None else None,
            other_nodes=gateway.other_nodes if gateway is not None else None,
        )
        try:
            journals = models.journals
            await journals.forget_unused()
            async with AsyncExitStack() as stack:
                shared = gateway.responses if gateway is not None else None
                store = stack.enter_context(response_store(database, journals.content, shared))
                file = models.rules_file.absolute()
                others = gateway.cancels if gateway is not None else None
                service = HttpService(models, settings, store, journals, config.console, file, others)
                listening = _bound(settings)
                host = f"[{settings.host}]" if ":" in settings.host else settings.host
                port = listening.getsockname()[1]
                # On standard error: a program that starts it with port 0 reads the port here.
                say(f"dragoman: serving at http://{host}:{port}/v1", sys.stderr)
                console = None
                if not config.console.enabled:
                    models.permissions.inbox.advice = _SWITCHED_OFF
                else:
                    address = local_address(settings.host, port)
                    console = Console(config.console, keys, models, address, webhook_secret(config))
                if gateway is not None:
                    await stack.enter_async_context(gateway.serving(models, service))
                following = asyncio.create_task(follow(context, lambda new: models.adopt(_offered(new))))
                try:
                    if console is not None and arguments.open:
                        open_browser(console.address)
                    codes = TerminalCodes(console, always=arguments.pairing_code)

                    def drain() -> None:
                        codes.stop()
                        _announce_drain(settings)

                    return await serve(service, gate, listening, drain, console=console, terminal_codes=codes)
                finally:
                    following.cancel()
                    if console is not None:
                        await console.close()
        finally:
            await models.close()
            if database is not None:
                database.close()

    return INTERRUPTED if run_interruptible(work, fast_loop) else DONE


@asynccontextmanager
async def _gateway(fleet: FleetConfig, name: str | None) -> AsyncIterator[Gateway | None]:
    """The fleet that this server is a gateway of. None: it is on its own."""
    if not fleet.urls:
        yield None
        return
    if (missing := missing_extra()) is not None:
        raise CommandError(missing)
    # With them comes the client of NATS.
    from dragoman.cli.gateway import Gateway  # noqa: PLC0415
    from dragoman.fleet.connection import FleetUnavailable  # noqa: PLC0415
    from dragoman.fleet.lease import NameTaken  # noqa: PLC0415

    try:
        async with Gateway.joined(fleet, name) as gateway:
            say(f"dragoman: gateway {gateway.lease.node} of the fleet at {', '.join(fleet.urls)}", sys.stderr)
            yield gateway
    except (FleetUnavailable, NameTaken) as error:
        raise CommandError(str(error)) from error


def _offered(config: Config) -> Config:
    """What this server offers itself. A gateway runs no agents: their work must end with a lease, and clients need the gateway."""
    if not config.fleet.urls:
        return config
    models = {name: model for name, model in config.models.items() if not isinstance(model, AcpModel)}
    return msgspec.structs.replace(config, models=models)


def _settings(serve: Serve, arguments: Namespace) -> Serve:
    """The settings of the file, with those of the command line over them."""
    given = {
        name: value
        for name in ("host", "port", "reasoning_events")
        if (value := getattr(arguments, name)) is not None
    }
    return msgspec.structs.replace(serve, **given)


def _announce_drain(settings: Serve) -> None:
    say(
        "dragoman: ending as soon as what is under way is done, after "
        f"{settings.drain_seconds:g} seconds at most. Ctrl-C again ends at once.",
        sys.stderr,
    )


def _bound(settings: Serve) -> socket:
    try:
        return bound(settings.host, settings.port)
    except PortTaken as error:
        raise CommandError(
            f"cannot listen at {settings.host}, port {settings.port}: {error}. Is it served already? "
            "Choose another with --port; 0 takes one that is free."
        ) from error


def _database(state_dir: Path) -> Database | None:
    try:
        return Database.open(state_dir)
    except StoreError as error:
        _log.warning("responses will not be stored: %s", error)
        return None
