"""`dragoman chat`: the terminal front end with what the command line says."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from dragoman.cli.errors import UsageError
from dragoman.cli.run import CommandContext
from dragoman.config import Config
from dragoman.frontends.terminal import ChatOptions, NoPrompt, run_chat
from dragoman.models import find
from dragoman.tools.declaration import DeclarationError
from dragoman.tools.registry import RegistryError

__all__ = ["run", "start"]


def run(arguments: Namespace, context: CommandContext) -> int:
    config = context.config()
    prompt: str | None = arguments.prompt
    if arguments.json and prompt is None:
        raise UsageError(
            "--json needs a prompt: -p PROMPT. Standard input is where its questions are answered."
        )
    return start(
        config,
        arguments.model or config.default_model,
        context,
        chat=run_chat,
        prompt=prompt,
        json=arguments.json,
    )


def start(
    config: Config,
    model: str,
    context: CommandContext,
    *,
    chat: Callable[[ChatOptions], int],
    prompt: str | None = None,
    json: bool = False,
) -> int:
    """A chat with a model in the current folder."""
    # Before anything appears on the screen.
    config = context.agreed(config, model)
    find(config, model)
    options = ChatOptions(
        model=model,
        config=config,
        state_dir=context.state_dir,
        prompt=prompt,
        json=json,
        workspace=(Path.cwd(),),
    )
    try:
        return chat(options)
    except (DeclarationError, RegistryError, NoPrompt) as error:
        # The first two: a file of declarations that the configuration names.
        raise UsageError(str(error)) from error
