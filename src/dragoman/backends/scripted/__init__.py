"""Scripts as models: what to say, think, call and fail at, with timing.

Used by the demo, by tests and for trying things out: no account, no network, the same every time.
"""

from dragoman.backends.scripted.load import ScriptError, load_script, parse_script
from dragoman.backends.scripted.model import ScriptedModel
from dragoman.backends.scripted.script import (
    Script,
    ScriptedReply,
    ScriptStep,
    When,
    act,
    call,
    data,
    fail,
    forever,
    image,
    reply,
    say,
    think,
    wait,
)

__all__ = [
    "Script",
    "ScriptError",
    "ScriptStep",
    "ScriptedModel",
    "ScriptedReply",
    "When",
    "act",
    "call",
    "data",
    "fail",
    "forever",
    "image",
    "load_script",
    "parse_script",
    "reply",
    "say",
    "think",
    "wait",
]
