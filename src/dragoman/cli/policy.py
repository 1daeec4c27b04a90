"""`dragoman policy`: the rules in force, why they decide as they do, and what they would have decided."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module

from dragoman.cli.actions import check_action
from dragoman.cli.errors import UsageError
from dragoman.cli.run import CommandContext

__all__ = ["run"]

# The options of each action, by their names in the parsed arguments.
_OPTIONS = {
    "init": ("yes", "print"),
    "check": (),
    "explain": ("line", "kind", "path", "url", "tool", "agent", "cwd", "json"),
    "test": ("since", "policy", "json"),
    "suggest": ("since",),
}
_SPELLED = {"line": "--command"}


def run(arguments: Namespace, context: CommandContext) -> int:
    action: str = arguments.action
    check_action("policy", action, (), alone=tuple(_OPTIONS), with_ids=())
    for name in sorted({each for names in _OPTIONS.values() for each in names}):
        if getattr(arguments, name) not in (None, False) and name not in _OPTIONS[action]:
            takers = " and ".join(each for each, names in _OPTIONS.items() if name in names)
            raise UsageError(f"policy {action}: {_SPELLED.get(name, f'--{name}')} is for {takers}.")
    chosen = import_module(f"dragoman.cli.policy_{'dry_run' if action == 'test' else action}")
    status: int = chosen.run(arguments, context)
    return status
