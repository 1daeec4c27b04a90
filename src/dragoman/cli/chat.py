"""`dragoman chat`: the terminal front end with what the command line says."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from dragoman.cli.asking import can_ask
from dragoman.cli.config_watch import follow
from dragoman.cli.errors import CommandError, UsageError
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import Config, ConfigError
from dragoman.frontends.terminal.choosing import choose_chat
from dragoman.frontends.terminal.entry import ChatOptions, NoPrompt, run_chat
from dragoman.frontends.terminal.keys import TerminalKeys
from dragoman.frontends.terminal.prompt import PromptInterrupted
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.stored_chats import (
    CannotResume,
    all_chats,
    chats_in,
    chosen_by_id,
    in_words,
    kept_chats,
    last_chat,
    stored_chat,
)
from dragoman.interruptible import run_interruptible
from dragoman.journal.store import JournalInfo, JournalStoreError
from dragoman.journal.writer import Journals
from dragoman.models import find, journals_of
from dragoman.store import Database
from dragoman.tools.declaration import DeclarationError
from dragoman.tools.registry import RegistryError

__all__ = ["run", "start"]

# As many as an error message can list.
_LISTED = 10


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The chat to continue, and the model that it had last."""

    id: str
    model: str


def run(arguments: Namespace, context: CommandContext) -> int:
    config = context.config()
    prompt: str | None = arguments.prompt
    if arguments.json and prompt is None:
        raise UsageError(
            "--json needs a prompt: -p PROMPT. Standard input is where its questions are answered."
        )
    chosen = _chosen(arguments, context, config)
    return start(
        config,
        arguments.model or (config.chat_model if chosen is None else chosen.model),
        context,
        chat=run_chat,
        prompt=prompt,
        json=arguments.json,
        resume=None if chosen is None else chosen.id,
    )


def start(
    config: Config,
    model: str,
    context: CommandContext,
    *,
    chat: Callable[[ChatOptions], int],
    prompt: str | None = None,
    json: bool = False,
    resume: str | None = None,
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
        resume=resume,
        redaction=context.redaction,
        follow=lambda adopt: follow(context, adopt, _say_unchanged),
    )
    try:
        return chat(options)
    except (DeclarationError, RegistryError, NoPrompt) as error:
        # The first two: a file of declarations that the configuration names.
        raise UsageError(str(error)) from error
    except CannotResume as error:
        raise CommandError(str(error)) from error


def _say_unchanged(error: ConfigError) -> None:
    """One line between what is said in the chat. `dragoman policy check` shows every mistake."""
    more = f" ({len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
    say(f"dragoman: the rules stay as they were. {error.problems[0]}{more}", sys.stderr)


def _chosen(arguments: Namespace, context: CommandContext, config: Config) -> _Chosen | None:
    """The chat that the command line names; None for a new one."""
    wanted: str | None = arguments.resume
    if wanted is None and not arguments.continues:
        return None
    if wanted is not None and arguments.continues:
        raise UsageError("--continue and --resume exclude each other: the last chat, or another one.")
    try:
        with Database.open(context.state_dir) as database:
            journals = journals_of(config, database, context.redaction)
            return run_interruptible(lambda: _find(journals, wanted))
    except PromptInterrupted:
        raise KeyboardInterrupt from None
    except (CannotResume, JournalStoreError) as error:
        raise CommandError(str(error)) from error


async def _find(journals: Journals, wanted: str | None) -> _Chosen:
    here = (Path.cwd(),)
    chats = await all_chats(journals)
    if wanted:
        chat = chosen_by_id(here, chats, wanted)
    else:
        offered = chats_in(here, chats)
        if not offered:
            raise CannotResume("There is no chat of this folder to continue. `dragoman chat` begins one.")
        if wanted is None:
            chat, stored = await last_chat(journals, offered)
            return _Chosen(chat.id, stored.state.model)
        chat = await _asked(await kept_chats(journals, offered))
    stored = await stored_chat(journals, chat.id)
    return _Chosen(chat.id, stored.state.model)


async def _asked(chats: list[JournalInfo]) -> JournalInfo:
    if not (can_ask() and sys.stdout.isatty()):
        listed = "\n".join(f"  {each.id}  {in_words(each)}" for each in chats[:_LISTED])
        raise UsageError(f"There is no terminal to choose at. Name one: --resume ID\n{listed}")
    chosen = await choose_chat(chats, Screen(Console(file=sys.stdout)), TerminalKeys())
    if chosen is None:
        raise CommandError("No chat was chosen. `dragoman chat` begins a new one.")
    return chosen
