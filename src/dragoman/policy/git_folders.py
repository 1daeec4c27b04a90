"""Whether git would take files of the workspace for a repository, and run programs that their settings name.

Git looks for its repository in the current folder and above. A folder with `HEAD`, `objects` and `refs` in it is a
repository too, and its `config` may name programs that even `git status` runs (`core.fsmonitor`). Such a folder can
come with a clone, or be written by an agent. `.git` cannot: git refuses to track it, and a change in it is sensitive.
"""

from __future__ import annotations

import os.path

from dragoman.permissions.sensitive import Places
from dragoman.policy.simple_command import SimpleCommand
from dragoman.policy.words import Word

__all__ = ["takes_files_for_repository"]

_DIFF = Word("diff")


def takes_files_for_repository(command: SimpleCommand, folder: str, places: Places) -> bool:
    """Whether git in this folder, which lies in the workspace, would use files of it as if they were a repository."""
    if os.path.basename(command.words[0].text) != "git":  # noqa: PTH119 - of any text
        return False
    level = places.resolve(folder)
    while True:
        if os.path.lexists(f"{level}/.git"):
            return False
        # `objects` and `refs` may be elsewhere (`commondir`). No other folder has a HEAD.
        if os.path.lexists(f"{level}/HEAD"):
            return True
        above = os.path.dirname(level)  # noqa: PTH120 - of any text
        if above == level:
            break
        level = above
    # Outside a repository, git diff compares any two files.
    return _DIFF in command.words and os.path.isdir(folder)  # noqa: PTH112 - of any text
