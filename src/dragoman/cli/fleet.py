"""`dragoman fleet`: what an operator does with a fleet."""

from __future__ import annotations

from argparse import Namespace

from dragoman.cli.errors import CommandError, UsageError
from dragoman.cli.run import CommandContext
from dragoman.fleet.extra import missing_extra
from dragoman.nearest import nearest

__all__ = ["run"]

_ACTIONS = ("up", "init", "credentials", "status", "drain")


def run(arguments: Namespace, context: CommandContext) -> int:
    action: str = arguments.action
    if action not in _ACTIONS:
        meant = nearest(action, _ACTIONS)
        hint = f'Did you mean "{meant}"?' if meant else f"There are {', '.join(_ACTIONS)}."
        raise UsageError(f'fleet: there is no "{action}". {hint}')
    if arguments.names and action not in ("credentials", "drain"):
        raise UsageError(f"fleet {action}: takes no names.")
    if (sentence := missing_extra()) is not None:
        raise CommandError(sentence)
    # With them comes the client of NATS.
    from dragoman.cli.fleet_actions import credentials, drain, init  # noqa: PLC0415
    from dragoman.cli.fleet_status import status  # noqa: PLC0415
    from dragoman.cli.fleet_up import up  # noqa: PLC0415
    from dragoman.fleet.connection import FleetUnavailable, NoAnswer  # noqa: PLC0415

    actions = {"up": up, "init": init, "credentials": credentials, "status": status, "drain": drain}
    try:
        return actions[action](arguments, context)
    except (FleetUnavailable, NoAnswer) as error:
        raise CommandError(str(error)) from error
