"""The folder with a fleet's keys and the credentials of its nodes, on the operator's machine.

All files are for their owner only. `keys` signs credentials of every role: who reads it owns the fleet.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.fleet.connection import FleetUnavailable
from dragoman.fleet.credentials import FleetKeys, FleetRole
from dragoman.fleet.joining import CREDENTIALS_SUFFIX
from dragoman.fleet.nkeys import Credentials, CredentialsError
from dragoman.whole_file import write_whole

__all__ = ["ADMIN", "FleetFolder"]

ADMIN = "admin"


class FleetFolder:
    """`fleet` in the state folder. Made when something is written."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "fleet"
        # What the configuration of a server includes.
        self.accounts_file = self.path / "accounts.conf"
        self._keys_file = self.path / "keys"
        # Where the server of `dragoman fleet up` is, or was the last time.
        self.url_file = self.path / "url"

    @property
    def has_keys(self) -> bool:
        return self._keys_file.exists()

    @property
    def url(self) -> str | None:
        try:
            return self.url_file.read_text("utf-8").strip() or None
        except OSError:
            return None

    def credentials_file(self, name: str) -> Path:
        return self.path / f"{name}{CREDENTIALS_SUFFIX}"

    def keys(self) -> FleetKeys:
        """The keys; made the first time, together with the accounts for servers. Raises `FleetUnavailable` or `OSError`."""
        self._make()
        file = self._keys_file
        with self._locked("keys.lock"):
            try:
                return FleetKeys.read(file.read_text("utf-8"))
            except FileNotFoundError:
                keys = FleetKeys.new()
                write_whole(self.accounts_file, keys.server_config().encode())
                write_whole(file, keys.text().encode())
                return keys
            except (UnicodeError, CredentialsError) as error:
                raise FleetUnavailable(f"The keys in {file} cannot be used. {error}") from error

    def credentials(self, role: FleetRole, name: str) -> Path:
        """The file with a node's credentials; made if there is none.

        Raises `FleetUnavailable`, also if there is one of another role, or `OSError`.
        """
        file, keys = self.credentials_file(name), self.keys()
        try:
            found = Credentials.read(file.read_text("utf-8")).role
        except FileNotFoundError:
            found = None
        except (UnicodeError, CredentialsError):
            found = "damaged"
        if found == role:
            return file
        if found is not None:
            what = (
                "is damaged" if found == "damaged" else f"has the credentials of a node with the role {found}"
            )
            raise FleetUnavailable(
                f"{file} {what}, and is not overwritten. Choose another name for the {role}; or, to replace the file, "
                f"delete it first: rm {file}"
            )
        write_whole(file, keys.credentials(role, name).text().encode())
        return file

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """While a server runs on it. Two would destroy each other's data. Raises `FleetUnavailable` or `OSError`."""
        self._make()
        with self._locked("server.lock", waits=False):
            yield

    def _make(self) -> None:
        self.path.mkdir(0o700, parents=True, exist_ok=True)

    @contextmanager
    def _locked(self, name: str, *, waits: bool = True) -> Iterator[None]:
        descriptor = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            yield
        except BlockingIOError as error:
            raise FleetUnavailable(f"a server runs on {self.path} already") from error
        finally:
            os.close(descriptor)
