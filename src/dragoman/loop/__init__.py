"""The tool loop: a model with tools, run until it stops, with exactly one truthful result for every call."""

from dragoman.loop.events import EndReason, RunEvent, to_json
from dragoman.loop.hooks import Hooks, Suspend
from dragoman.loop.run import ToolLoop
from dragoman.loop.settings import LoopSettings
from dragoman.loop.state import Failure, RunState, StateError, begin, dump, load

__all__ = [
    "EndReason",
    "Failure",
    "Hooks",
    "LoopSettings",
    "RunEvent",
    "RunState",
    "StateError",
    "Suspend",
    "ToolLoop",
    "begin",
    "dump",
    "load",
    "to_json",
]
