"""`dragoman vscode`: the front end of the VS Code extension, on standard input and output."""

from __future__ import annotations

from argparse import Namespace

from dragoman.cli.errors import DONE, CommandError
from dragoman.cli.run import Surroundings, announce
from dragoman.frontends.vscode.log import logging_to_editor
from dragoman.frontends.vscode.server import VsCodeServer
from dragoman.interruptible import run_interruptible
from dragoman.jsonrpc import CANCEL_REQUEST, ConnectionClosed, PeerOptions, connect_stdio
from dragoman.models import Models

__all__ = ["run"]

_OPTIONS = PeerOptions(name="editor", answers_malformed=True, cancel_methods=(CANCEL_REQUEST, "lm/cancel"))


def run(_arguments: Namespace, surroundings: Surroundings) -> int:
    config = surroundings.config()
    # The editor will start those that are asked, without a word to a terminal.
    announce(config, *config.announcements)

    async def serve() -> None:
        server = VsCodeServer(Models(config, surroundings.state_dir))
        try:
            peer = await connect_stdio(server, _OPTIONS)
            with logging_to_editor(peer, surroundings.redaction.redacted):
                await server.ended.wait()
            peer.close("the server has ended")
            await peer.wait_closed()
        finally:
            await server.close()

    try:
        run_interruptible(serve)
    except ConnectionClosed as closed:
        raise CommandError(f"there is nobody to talk to: {closed.reason}.") from closed
    return DONE
