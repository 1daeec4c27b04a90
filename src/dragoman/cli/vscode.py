"""`dragoman vscode`: the front end of the VS Code extension, on standard input and output."""

from __future__ import annotations

import asyncio
import signal
from argparse import Namespace

from dragoman.cli.asking import greet_person
from dragoman.cli.config_watch import follow, followed_file
from dragoman.cli.errors import DONE, CommandError
from dragoman.cli.run import CommandContext
from dragoman.config import Config
from dragoman.frontends.rule_offers import RuleOffers
from dragoman.frontends.vscode.log import logging_to_editor
from dragoman.frontends.vscode.server import VsCodeServer
from dragoman.interruptible import fast_loop, run_interruptible
from dragoman.jsonrpc import CANCEL_REQUEST, ConnectionClosed, PeerOptions, connect_stdio
from dragoman.models import Models

__all__ = ["run"]

_OPTIONS = PeerOptions(name="editor", answers_malformed=True, cancel_methods=(CANCEL_REQUEST, "lm/cancel"))


def run(_arguments: Namespace, context: CommandContext) -> int:
    config = context.offered(context.config())
    greet_person("an editor")

    async def serve() -> None:
        models = Models(config, context.state_dir)
        server = VsCodeServer(models, followed_file(context), RuleOffers(models))

        def adopt(changed: Config) -> None:
            if models.adopt(changed):
                server.models_changed()

        # As the end of input: nothing that was begun here is left to others.
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, server.ended.set)
        try:
            peer = await connect_stdio(server, _OPTIONS)
            with logging_to_editor(peer, context.redaction.redacted):
                following = asyncio.create_task(follow(context, adopt))
                await server.ended.wait()
                following.cancel()
            peer.close("the server has ended")
            await peer.wait_closed()
        finally:
            await server.close()

    try:
        run_interruptible(serve, fast_loop)
    except ConnectionClosed as closed:
        raise CommandError(f"there is no editor to talk to: {closed.reason}.") from closed
    return DONE
