"""Commands that a rule may allow with any arguments: those that are known to do little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["WideForm", "wide_form"]


@dataclass(frozen=True, slots=True)
class WideForm:
    """A command with any arguments, but for those that write files elsewhere or run programs."""

    command: tuple[str, ...]
    without: tuple[str, ...] = ()
    # Whether all its arguments are files of the workspace.
    files: bool = False


# Programs by their subcommands, without the options that write files or run programs. Only what reads is listed: what
# a command that changes something does with other arguments is not what the person has seen.
_SUBCOMMANDS: Final[Mapping[str, tuple[frozenset[str], tuple[str, ...]]]] = {
    "docker": (frozenset({"images", "logs", "ps"}), ()),
    "git": (
        frozenset(
            {
                "add", "blame", "describe", "diff", "log", "ls-files", "ls-tree", "merge-base", "rev-list", "rev-parse",
                "shortlog", "show", "show-ref", "status",
            }
        ),
        ("--output*", "--ext-diff", "--textconv", "--show-signature", "-O*", "-e", "--edit"),
    ),
    "npm": (frozenset({"ls", "outdated", "view"}), ()),
    "pip": (frozenset({"check", "freeze", "list", "show"}), ("--log*", "--python*")),
}  # fmt: skip
# Programs that read the files among their arguments, without the options that do more or that read hidden files, too.
_READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "cat": (),
    "cmp": (),
    "cut": (),
    "diff": ("-l", "--paginate", "-r", "--recursive"),
    "du": (),
    "grep": ("-r", "-R", "--recursive", "--dereference-recursive", "-d*", "--directories*"),
    "head": (),
    "ls": (),
    "nl": (),
    "rg": (
        "--pre*", "--hostname-bin*", "--search-zip", "-z", "--hidden", "-.", "-u", "--unrestricted", "--no-ignore*",
        "-g*", "--glob*", "--iglob*", "-L", "--follow",
    ),
    "stat": (),
    "tail": (),
    "wc": (),
}  # fmt: skip


def wide_form(words: Sequence[str]) -> WideForm | None:
    """The wide form that covers a command; None if only exactly this command may be allowed."""
    match words:
        case [program, subcommand, *_] if program in _SUBCOMMANDS:
            subcommands, without = _SUBCOMMANDS[program]
            return WideForm((program, subcommand), without) if subcommand in subcommands else None
        case [program, *_] if program in _READERS:
            return WideForm((program,), _READERS[program], files=True)
        case _:
            return None
