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


# Options with which these subcommands of git write to a file or run a program.
_GIT_WITHOUT = ("--output*", "--ext-diff", "--textconv", "--paginate", "-O*", "--open-files-in-pager*")
# Programs by their subcommands. Left out is what downloads and runs code (`npm install`, `go run`, `docker run`), what
# takes a command as an argument (`git bisect run`), and what sends to an address among its arguments (`git push`).
_SUBCOMMANDS: Final[Mapping[str, tuple[frozenset[str], tuple[str, ...]]]] = {
    "git": (
        frozenset(
            {
                "add", "blame", "branch", "cat-file", "describe", "diff", "log", "ls-files", "ls-tree", "merge-base",
                "reflog", "rev-list", "rev-parse", "shortlog", "show", "show-ref", "stash", "status", "switch", "tag",
            }
        ),
        _GIT_WITHOUT,
    ),
    "cargo": (frozenset({"metadata", "tree"}), ("--config*", "-Z*")),
    "docker": (frozenset({"images", "inspect", "logs", "ps"}), ()),
    "gh": (frozenset(), ()),
    "go": (frozenset({"doc", "version"}), ()),
    "kubectl": (frozenset({"describe", "get", "logs"}), ("--kubeconfig*",)),
    "npm": (frozenset({"ls", "outdated", "view"}), ()),
    "pip": (frozenset({"check", "freeze", "list", "show"}), ("--log*",)),
    "uv": (frozenset({"tree", "version"}), ("--config-file*",)),
}  # fmt: skip
# Programs that only read the files among their arguments, without the options that do more.
_READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "cat": (),
    "cmp": (),
    "cut": (),
    "diff": ("-l", "--paginate"),
    "du": (),
    "grep": (),
    "head": (),
    "ls": (),
    "nl": (),
    "rg": ("--pre*", "--hostname-bin*", "--search-zip", "-z"),
    "stat": (),
    "tail": (),
    "wc": (),
}


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
