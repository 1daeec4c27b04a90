"""`dragoman serve`: the HTTP front end."""

from __future__ import annotations

import asyncio
import logging
import sys
from argparse import Namespace
from pathlib import Path
from socket import socket

import msgspec

from dragoman.cli.config_watch import follow
from dragoman.cli.console_codes import TerminalCodes, local_address, open_browser
from dragoman.cli.errors import DONE, INTERRUPTED, CommandError, UsageError
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import Serve, client_keys, webhook_secret
from dragoman.frontends.console.console import Console
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.histories import response_store
from dragoman.frontends.http.running import PortTaken, bound, serve
from dragoman.frontends.http.service import HttpService
from dragoman.interruptible import fast_loop, run_interruptible
from dragoman.loopback import is_loopback
from dragoman.models import Models
from dragoman.process.memory import machine_memory
from dragoman.store import Database, StoreError

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
        database = _database(context.state_dir)
        models = Models(
            config,
            context.state_dir,
            max_memory=settings.max_memory_bytes or _half_of_memory(),
            database=database,
            redaction=context.redaction,
        )
        try:
            journals = models.journals
            await journals.forget_unused()
            with response_store(database, journals.content) as store:
                file = models.rules_file.absolute()
                service = HttpService(models, settings, store, journals, config.console, file)
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
                following = asyncio.create_task(follow(context, models.adopt))
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


def _settings(serve: Serve, arguments: Namespace) -> Serve:
    """The settings of the file, with those of the command line over them."""
    given = {
        name: value
        for name in ("host", "port", "reasoning_events")
        if (value := getattr(arguments, name)) is not None
    }
    return msgspec.structs.replace(serve, **given)


def _half_of_memory() -> int | None:
    memory = machine_memory()
    return None if memory is None else memory // 2


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
