"""`dragoman models`: the models of the configuration, and whether each can be used. Starts nothing."""

from __future__ import annotations

from argparse import Namespace

from dragoman.cli.errors import DONE
from dragoman.cli.model_status import ModelStatus, model_statuses
from dragoman.cli.run import CommandContext
from dragoman.cli.table import LONGEST_PATH, table
from dragoman.lm.json import JsonObject, encode_text

__all__ = ["run"]

_HEADINGS = ("ID", "NAME", "KIND", "STATE", "PERMISSION", "DEFINED IN")


def run(arguments: Namespace, context: CommandContext) -> int:
    config = context.config()
    found = tuple(model_statuses(config))
    if arguments.json:
        for each in found:
            print(encode_text(_as_json(each, is_default=each.id == config.default_model)))
        return DONE
    rows = ((each.id, each.name, each.kind, each.state, each.permission or "", each.origin) for each in found)
    print(table(_HEADINGS, rows, longest=LONGEST_PATH))
    return DONE


def _as_json(status: ModelStatus, *, is_default: bool) -> JsonObject:
    return {
        "id": status.id,
        "name": status.name,
        "kind": status.kind,
        "agent": status.agent,
        "state": status.state,
        "usable": status.is_usable,
        "default": is_default,
        "permission": status.permission,
        "file": status.file,
        "line": status.line,
        "steps": list(status.steps),
    }
