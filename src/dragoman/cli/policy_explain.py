"""`dragoman policy explain`: what the rules say of one action, and why."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from dragoman.cli.errors import DONE, UsageError
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import rules_of
from dragoman.lm.json import encode_text
from dragoman.logs import one_line
from dragoman.models import auto_approval, own_places
from dragoman.permissions.sensitive import Places
from dragoman.policy.action_text import Meaning, action_from_text
from dragoman.policy.explanation import explain
from dragoman.policy.policy import Policy

__all__ = ["run"]

_WAYS = "Give one of: --command CMD; --kind read|edit|delete|other --path PATH; --url URL; --tool NAME."
# The kinds of action that each option can describe.
_KINDS: dict[Meaning, tuple[str, ...]] = {
    "command": ("execute",),
    "path": ("read", "edit", "delete", "other"),
    "url": ("fetch",),
    "tool": ("tool",),
}


def run(arguments: Namespace, context: CommandContext) -> int:
    meaning, text = _given(arguments)
    cwd = Path(arguments.cwd or ".").absolute()
    if not cwd.is_dir():
        raise UsageError(f"policy explain: --cwd {one_line(str(cwd))} is no folder.")
    config = context.config()
    places = Places.around((cwd,), own_places(config, context.state_dir))
    action = action_from_text(meaning, text, places, agent=arguments.agent or "", kind=arguments.kind)
    explanation = explain(action, places, Policy(rules_of(config)), auto_approval(config))
    found = explanation.outcome
    if arguments.json:
        result = {"decision": found.decision, "rules": found.rules_as_json, "reason": found.reason}
        print(encode_text(result))
    else:
        for line in explanation.lines():
            say(one_line(line))
    return DONE


def _given(arguments: Namespace) -> tuple[Meaning, str]:
    """What the options describe: what kind of text, and the text."""
    texts: dict[Meaning, str | None] = {
        "command": arguments.line,
        "path": arguments.path,
        "url": arguments.url,
        "tool": arguments.tool,
    }
    given = [(meaning, text) for meaning, text in texts.items() if text is not None]
    if len(given) != 1:
        raise UsageError(
            f"policy explain: what? {_WAYS}" if not given else f"policy explain: one action. {_WAYS}"
        )
    meaning, text = given[0]
    if not text.strip():
        raise UsageError(f"policy explain: the action is empty. {_WAYS}")
    if meaning == "url" and "://" not in text:
        raise UsageError(
            f"policy explain: --url needs a whole address, with its scheme: https://{one_line(text)}"
        )
    kinds = _KINDS[meaning]
    if arguments.kind is None and len(kinds) > 1:
        raise UsageError(f"policy explain: --path needs --kind {'|'.join(kinds)}.")
    if arguments.kind is not None and arguments.kind not in kinds:
        raise UsageError(f'policy explain: --kind "{one_line(arguments.kind)}" does not fit. {_WAYS}')
    return given[0]
