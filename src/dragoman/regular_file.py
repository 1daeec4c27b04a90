"""Reading a file that a person or a configuration names, without waiting and up to a limit.

A path may lead to a pipe that no program writes to, or to a device without an end. Opening the one and reading the other would
never return, and no signal handler of ours would run meanwhile. So the file is opened without waiting, and what was opened
must be a regular file.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["read_regular"]


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file. `OSError`, which says why, for anything else and for a larger file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError as error:
        # A path with a null character in it.
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # One byte more than may be shows that there is more, also in a file that grows.
            data = file.read(most_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes", str(path))
    return data
