"""An approval in the words of the question that it answered, made from its tool and its key."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from dragoman.permissions.approvals import Approval
from dragoman.permissions.keys import agent_in, covered

__all__ = ["COMMAND", "ApprovalWords", "any_change_to", "approval_in_words", "command_key", "this_address"]

# What a lasting yes to a command covers.
COMMAND = "this command in this folder"
_COMMAND_KEY = re.compile(r"in ('.*?'|\".*?\"): (.*)", re.DOTALL)
# At the end of a key that is too long to be stored whole.
_DIGEST = re.compile(r" \(sha256 [0-9a-f]{64}\)\Z")
# Who may make a call of the terminal's own tools.
_ANY_MODEL = "any model"


@dataclass(frozen=True, slots=True)
class ApprovalWords:
    """What an approval covers, for which agent, and in which folder; None: in any."""

    what: str
    agent: str = _ANY_MODEL
    folder: str | None = None


def command_key(folder: Path, command: str) -> str:
    """The command with its folder: in another folder, the same command may run another program."""
    return f"in {str(folder)!r}: {command}"


def any_change_to(path: str) -> str:
    return f"any change to {path}"


def this_address(led_to: str | None = None) -> str:
    return "this address" if led_to is None else f"this address, as long as it leads to {led_to}"


def approval_in_words(approval: Approval) -> ApprovalWords:
    key = _DIGEST.sub("", approval.key)
    if (named := agent_in(approval.key)) is not None:
        return ApprovalWords(covered(approval.key), *named)
    match approval.tool:
        case "write_file":
            return ApprovalWords(any_change_to(key), folder=approval.workspace)
        case "run_command":
            folder, command = _folder_and_command(key)
            return ApprovalWords(f"{COMMAND}: {command}", folder=folder or approval.workspace)
        case "fetch_url":
            address, _, led_to = key.partition(" at ")
            return ApprovalWords(f"{this_address(led_to or None)}: {address}", folder=approval.workspace)
        case tool:
            # A tool that names no key of its own is approved for the whole input.
            covers = "exactly this input of" if key.startswith("{") else "calls that count as the same to"
            return ApprovalWords(f"{covers} {tool}: {key}", folder=approval.workspace)


def _folder_and_command(key: str) -> tuple[str | None, str]:
    found = _COMMAND_KEY.fullmatch(key)
    if found is None:
        return None, key
    try:
        return str(ast.literal_eval(found[1])), found[2]
    except (ValueError, SyntaxError):
        return None, key
