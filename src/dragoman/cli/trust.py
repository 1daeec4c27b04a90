"""`dragoman trust`: trust the configuration in this folder with what it starts, reads and sends, or take that back."""

from __future__ import annotations

import sys
from argparse import Namespace

from dragoman.cli.asking import agreed_to
from dragoman.cli.errors import DONE, FAILED, CommandError, UsageError
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import TrustedFiles, effects

__all__ = ["run"]


def run(arguments: Namespace, context: CommandContext) -> int:
    if context.found_file is None:
        if context.config_file is None:
            raise UsageError("There is no dragoman.toml in this folder.")
        say(f"{context.config_file} is trusted: it is your own, or you have named it.")
        return DONE
    found = context.config().found
    if found is None:
        # It was there a moment ago.
        raise UsageError("There is no dragoman.toml in this folder.")
    agreements = TrustedFiles(context.state_dir)
    path = found.source.path
    try:
        if arguments.forget:
            was_there = agreements.remove(found)
            say(f"{path} is no longer trusted." if was_there else "There is nothing to take back.")
            return DONE
        if found.is_trusted or not found.models:
            say(f"{path} is trusted already." if found.is_trusted else f"{path} starts nothing.")
            return DONE
        for line in effects(found).values():
            say(context.redaction.redacted(line), sys.stderr)
        if not agreed_to("Trust the file with this?", is_sure=arguments.yes):
            say("The file is not trusted.", sys.stderr)
            return FAILED
        agreements.add(found)
    except OSError as error:
        raise CommandError(f"{error.filename} cannot be written: {error.strerror}.") from error
    say(f"{path} is trusted until it changes.")
    return DONE
