"""`dragoman trust`: agree to what the configuration in this folder starts, or take that back."""

from __future__ import annotations

import sys
from argparse import Namespace

from dragoman.cli.asking import agreed_to
from dragoman.cli.errors import DONE, FAILED, CommandError, UsageError
from dragoman.cli.layout import say
from dragoman.cli.run import Surroundings
from dragoman.config import Agreed

__all__ = ["run"]


def run(arguments: Namespace, surroundings: Surroundings) -> int:
    if surroundings.config_file is None:
        raise UsageError("There is no dragoman.toml in this folder.")
    if surroundings.is_trusted:
        say(f"{surroundings.config_file} is trusted: it is your own, or you have named it.")
        return DONE
    agreements = Agreed(surroundings.state_dir)
    config = surroundings.config()
    try:
        if arguments.forget:
            was_there = agreements.remove(config.source)
            say(
                f"{config.source.path} is asked about again."
                if was_there
                else "There is nothing to take back."
            )
            return DONE
        if not config.announcements:
            say(f"{config.source.path} starts nothing that has not been agreed to.")
            return DONE
        for line in config.announcements.values():
            say(line, sys.stderr)
        if not agreed_to("Agree to this?", is_sure=arguments.yes):
            say("Nothing was agreed to.", sys.stderr)
            return FAILED
        agreements.add(config.source)
    except OSError as error:
        raise CommandError(f"{error.filename} cannot be written: {error.strerror}.") from error
    say(f"Agreed, until {config.source.path} changes.")
    return DONE
