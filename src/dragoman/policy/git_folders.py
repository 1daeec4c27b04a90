"""Whether git would take files of the workspace for a repository, and run programs that their settings name.

Git looks for its repository in the current folder and above. A folder with `HEAD`, `objects` and `refs` in it is a
repository too, and its `config` may name programs that even `git status` runs (`core.fsmonitor`). Such a folder can
come with a clone, or be written by an agent. `.git` cannot: git refuses to track it, and a change in it is sensitive.
"""

from __future__ import annotations

import os.path
from pathlib import PurePosixPath

from dragoman.permissions.sensitive import Places

__all__ = ["is_git", "is_repository_of_files"]


def is_git(program: str) -> bool:
    return os.path.basename(program) == "git"  # noqa: PTH119 - of any text


def is_repository_of_files(folder: str, places: Places) -> bool:
    """Whether git in this folder, which lies in the workspace, would use a repository that is not in a `.git`."""
    roots = {places.resolve(root) for root in places.workspace}
    start = PurePosixPath(places.resolve(folder))
    for level in (start, *start.parents):
        if os.path.lexists(level / ".git"):
            return False
        # `objects` and `refs` may be elsewhere (`commondir`). No other folder has a HEAD.
        if os.path.lexists(level / "HEAD"):
            return True
        if str(level) in roots:
            return False
    return False
