"""`dragoman completion`: scripts that complete our command line, and the names that they ask for."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module

from dragoman.cli.errors import DONE, UsageError
from dragoman.cli.run import Surroundings
from dragoman.nearest import nearest

__all__ = ["run"]

_SHELLS = ("bash", "zsh", "fish")
_NAMES = ("models", "agents")


def run(arguments: Namespace, surroundings: Surroundings) -> int:
    wanted: str = arguments.shell
    if wanted in _NAMES:
        print("\n".join(_names(wanted, surroundings)))
        return DONE
    if wanted not in _SHELLS:
        meant = nearest(wanted, _SHELLS)
        hint = f'Did you mean "{meant}"?' if meant else f"There is for {', '.join(_SHELLS)}."
        raise UsageError(f'completion: there is none for "{wanted}". {hint}')
    from dragoman.cli.shells.words import typed  # noqa: PLC0415 - not for the names

    print(import_module(f"dragoman.cli.shells.{wanted}").script(tuple(typed())), end="")
    return DONE


def _names(wanted: str, surroundings: Surroundings) -> tuple[str, ...]:
    if wanted == "models":
        return tuple(surroundings.config().models)
    from dragoman.agents.catalogue import catalogue  # noqa: PLC0415 - not for a script
    from dragoman.agents.installed import InstalledAgents  # noqa: PLC0415

    return tuple(catalogue(InstalledAgents(surroundings.state_dir).folder))
