"""The commands of a fleet: what each is for, and what it takes."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from dragoman.cli.command import CliCommand

__all__ = ["FLEET_COMMANDS", "node_name", "port"]

_LAST_PORT = 65535
_MOST_REPLICAS = 5


def node_name(text: str) -> str:
    from dragoman.fleet.subjects import is_node_name  # noqa: PLC0415 - for those who name a node

    if not is_node_name(text):
        raise ArgumentTypeError(f'"{text}" is no name of a node: at most 64 letters, digits, "_" and "-".')
    return text


def port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise ArgumentTypeError(f'"{text}" is no port: a whole number from 0 to {_LAST_PORT}.')
    return int(text)


def _replicas(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_REPLICAS:
        raise ArgumentTypeError(f'"{text}": a whole number from 1 to {_MOST_REPLICAS}.')
    return int(text)


def _fleet(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="status",
        metavar="up|init|credentials|status|drain",
        help="show the fleet (status, the default), start a NATS of its own, prepare another one, "
        "make credentials, or drain a worker",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="with drain: the worker; with credentials: a role (worker, gateway or admin), then the names of nodes",
    )
    parser.add_argument(
        "--port",
        type=port,
        default=4222,
        metavar="PORT",
        help="with up: 4222 by default; 0: one that is free",
    )
    parser.add_argument(
        "--replicas",
        type=_replicas,
        default=3,
        metavar="N",
        help="with init: on how many servers everything is stored; 3 by default",
    )
    parser.add_argument(
        "--credentials",
        type=Path,
        metavar="FILE",
        help="with init, status and drain: the operator's; without it, those in STATE/fleet",
    )
    parser.add_argument("--json", action="store_true", help="with status: one JSON object")


def _worker(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--name",
        type=node_name,
        metavar="NAME",
        help="what the worker is called; without it, as its configuration or its credentials say",
    )


FLEET_COMMANDS: tuple[CliCommand, ...] = (
    CliCommand(
        "worker",
        "offer the models of this machine to a fleet",
        """\
Offer the configured models to the gateways of a fleet, until SIGTERM or Ctrl-C:
[fleet] in the configuration says where its NATS is. Agents run here, with the
configuration, rules and approvals of this machine.

SIGTERM, Ctrl-C and `dragoman fleet drain` let what is under way finish, and take
nothing new; a second one ends it at once. A conversation continues on another worker.

Needs the extra `fleet`: pip install 'dragoman[fleet]'""",
        """\
  dragoman worker
      offer the models here
  dragoman worker --name big-machine
      under this name""",
        _worker,
    ),
    CliCommand(
        "fleet",
        "show a fleet, start a NATS for one, make credentials, drain a worker",
        """\
A fleet is several machines that act as one Dragoman: gateways (`dragoman serve`)
and workers (`dragoman worker`), on NATS.

up starts a NATS server on this machine, with accounts, credentials and storage
in STATE/fleet, and runs it until Ctrl-C. Keys and data stay for the next time.

init prepares a NATS of your own: it makes the streams, and checks the version
and, as far as it can be seen, that servers sync what they acknowledge.

credentials makes a file for each node: with the name of the node, and the
permissions of its role. The first time it also makes the keys of the fleet, and
accounts.conf for the configuration of your NATS servers.

status shows the nodes, what they do, their leases, and the streams.

drain lets a worker finish what is under way, and returns when it has ended.

Needs the extra `fleet`: pip install 'dragoman[fleet]'""",
        """\
  dragoman fleet up
      NATS on this machine, for trying out
  dragoman fleet
      the nodes and the streams
  dragoman fleet credentials worker worker-1 worker-2
      files for two workers
  dragoman fleet init --replicas 3
      prepare the NATS that [fleet] names
  dragoman fleet drain worker-1
      before its machine is serviced""",
        _fleet,
    ),
)
