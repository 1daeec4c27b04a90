"""`dragoman policy explain`: what the rules say of one action, and why."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from dragoman.cli.errors import DONE, UsageError
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.lm.json import encode_text
from dragoman.logs import one_line
from dragoman.models import auto_approval, own_places, policy_of
from dragoman.permissions.action import Action
from dragoman.permissions.describe import describe
from dragoman.permissions.sensitive import Places
from dragoman.policy.explanation import explain

__all__ = ["run"]

_WAYS = "Give one of: --command CMD; --kind read|edit|delete|other --path PATH; --url URL; --tool NAME."
# The kind of what each option describes, where it is not given.
_KINDS = {
    "line": ("execute",),
    "path": ("read", "edit", "delete", "other"),
    "url": ("fetch",),
    "tool": ("tool",),
}


def run(arguments: Namespace, context: CommandContext) -> int:
    given = _given(arguments)
    cwd = Path(arguments.cwd or ".").absolute()
    if not cwd.is_dir():
        raise UsageError(f"policy explain: --cwd {one_line(str(cwd))} is no folder.")
    config = context.config()
    places = Places.around((cwd,), own_places(config, context.state_dir))
    action = _action(given, arguments, places, str(cwd))
    explanation = explain(action, places, policy_of(config), auto_approval(config))
    found = explanation.outcome
    if arguments.json:
        rules = [
            {"file": rule.file, "line": rule.line, "decision": rule.decision} for rule in found.verdict.rules
        ]
        print(encode_text({"decision": found.decision, "rules": rules, "reason": found.reason}))
    else:
        for line in explanation.lines():
            say(one_line(line))
    return DONE


def _given(arguments: Namespace) -> str:
    """Which option says what the action is."""
    given = [name for name in _KINDS if getattr(arguments, name) is not None]
    if len(given) != 1:
        raise UsageError(
            f"policy explain: what? {_WAYS}" if not given else f"policy explain: one action. {_WAYS}"
        )
    text: str = getattr(arguments, given[0])
    if not text.strip():
        raise UsageError(f"policy explain: the action is empty. {_WAYS}")
    if given[0] == "url" and "://" not in text:
        raise UsageError(
            f"policy explain: --url needs a whole address, with its scheme: https://{one_line(text)}"
        )
    kinds = _KINDS[given[0]]
    if arguments.kind is None and len(kinds) > 1:
        raise UsageError(f"policy explain: --path needs --kind {'|'.join(kinds)}.")
    if arguments.kind is not None and arguments.kind not in kinds:
        raise UsageError(f'policy explain: --kind "{one_line(arguments.kind)}" does not fit. {_WAYS}')
    return given[0]


def _action(given: str, arguments: Namespace, places: Places, cwd: str) -> Action:
    """The action as an agent's request would describe it."""
    text: str = getattr(arguments, given)
    match given:
        case "line":
            kind, tool, sent = "execute", None, {"command": text}
        case "path":
            kind, tool, sent = arguments.kind, None, {"path": places.absolute(text, cwd)}
        case "url":
            kind, tool, sent = "fetch", None, {"url": text}
        case _:
            # Which input the tool would get is not known here. A request without one would have only a title.
            kind, tool, sent = "tool", text, {"input": "any"}
    agent: str = arguments.agent or ""
    return describe(
        agent=agent, agent_name=agent, places=places, title=text, kind=kind, tool=tool, input=sent
    )
