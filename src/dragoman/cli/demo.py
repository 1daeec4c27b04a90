"""`dragoman demo`: a chat with the built-in demo agent."""

from __future__ import annotations

from argparse import Namespace

import msgspec

from dragoman.cli.chat import start
from dragoman.cli.run import Surroundings
from dragoman.config import BUILTIN_MODELS, DEMO

__all__ = ["run"]


def run(_arguments: Namespace, surroundings: Surroundings) -> int:
    config = surroundings.config()
    # A configuration may have another model of that name; the tour needs its own.
    models = config.models | {DEMO: BUILTIN_MODELS[DEMO]}
    return start(msgspec.structs.replace(config, models=models), DEMO, surroundings, demo=True)
