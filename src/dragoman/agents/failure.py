"""Why an agent could not be installed."""

from __future__ import annotations

import errno

__all__ = ["InstallError", "of_system"]


class InstallError(Exception):
    """What failed and what to do about it: all that a user sees. The previous installation is unchanged."""


def of_system(error: OSError, what: str) -> InstallError:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return InstallError(
                f"{what}: the disk is full. Make room, or choose another place with --state-dir."
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            place = f"{error.filename} " if error.filename else ""
            return InstallError(f"{what}: {place}cannot be written. Choose another place with --state-dir.")
        case _:
            return InstallError(f"{what}: {error.strerror or error}.")
