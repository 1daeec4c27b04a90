"""`dragoman demo`: a chat with the built-in demo agent."""

from __future__ import annotations

from argparse import Namespace

import msgspec

from dragoman.cli.chat import start
from dragoman.cli.run import CommandContext
from dragoman.config import BUILTIN_MODELS, DEMO
from dragoman.demo.show import run_demo

__all__ = ["run"]


def run(_arguments: Namespace, context: CommandContext) -> int:
    config = context.config()
    # A configuration may have another model of that name; the tour needs its own.
    models = config.models | {DEMO: BUILTIN_MODELS[DEMO]}
    return start(msgspec.structs.replace(config, models=models), DEMO, context, chat=run_demo)
