"""How a node joins its fleet: its name, its credentials, and TLS, from `[fleet]` of the configuration."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dragoman.fleet.connection import (
    FleetConnection,
    FleetUnavailable,
    credentials_command,
)
from dragoman.fleet.nkeys import Credentials, CredentialsError
from dragoman.fleet.settings import FleetSettings
from dragoman.fleet.subjects import is_node_name

__all__ = ["CREDENTIALS_SUFFIX", "joined", "node_name", "reader_name", "tls_context"]

CREDENTIALS_SUFFIX = ".creds"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_HOST = 40
_WITH_ARTICLE = {"worker": "a worker", "gateway": "a gateway", "admin": "an admin"}


def node_name(fleet: FleetSettings, role: str, given: str | None = None) -> str:
    """The name on the command line, else in the configuration, else in the credentials, else the machine's and the role.

    Raises `FleetUnavailable` if the credentials cannot be read.
    """
    if named := given or fleet.name:
        return named
    if fleet.credentials is not None and not fleet.credentials.is_dir():
        return _read(fleet.credentials).name
    host = _NOT_IN_NAMES.sub("-", socket.gethostname())[:_LONGEST_HOST].strip("-_")
    return f"{host}-{role}" if host else role


def reader_name(fleet: FleetSettings) -> str:
    """The name of a process that has no lease, such as a chat: several may share one, also with a gateway.

    So one without a name uses any gateway's credentials that are in the folder. Raises `FleetUnavailable`.
    """
    name, folder = node_name(fleet, "gateway"), fleet.credentials
    if (
        fleet.name
        or folder is None
        or not folder.is_dir()
        or (folder / f"{name}{CREDENTIALS_SUFFIX}").exists()
    ):
        return name
    for file in sorted(folder.glob(f"*{CREDENTIALS_SUFFIX}")):
        with contextlib.suppress(FleetUnavailable):
            if (found := _read(file)).role == "gateway":
                return found.name
    return name


@asynccontextmanager
async def joined(fleet: FleetSettings, name: str, role: str | None = None) -> AsyncIterator[FleetConnection]:
    """A connection for the node with this name, with credentials of this role. Raises `FleetUnavailable`."""
    file = fleet.credentials
    if file is not None and file.is_dir():
        file /= f"{name}{CREDENTIALS_SUFFIX}"
        if not file.exists():
            raise FleetUnavailable(
                f"There are no credentials for {name} in {file.parent}. Make them where the keys of the fleet are: "
                f"{credentials_command(name, role)}, and copy {file.name}."
            )
    credentials = None if file is None else _read(file)
    if file is not None and credentials is not None:
        _check(file, credentials, name, role)
    async with FleetConnection.open(fleet.urls, name, credentials, tls_context(fleet), role) as connection:
        yield connection


def _check(file: Path, credentials: Credentials, name: str, role: str | None) -> None:
    """Raise `FleetUnavailable` if credentials are of another role or another node. NATS would refuse single messages."""
    has = credentials.role
    if role is not None and has in _WITH_ARTICLE and has != role:
        raise FleetUnavailable(
            f"The credentials {file} are {_WITH_ARTICLE[has]}'s; {_WITH_ARTICLE[role]} needs {_WITH_ARTICLE[role]}'s. Make "
            f"them where the keys of the fleet are, under a name of its own: dragoman fleet credentials {role} NAME. "
            "Then name the file in `[fleet] credentials`."
        )
    if credentials.name != name:
        raise FleetUnavailable(
            f"The credentials {file} are for the node {credentials.name}, and this one is {name}. NATS lets a node use only its own: "
            f"leave the name out, or make other credentials: {credentials_command(name, role)}."
        )


def tls_context(fleet: FleetSettings) -> ssl.SSLContext | None:
    """For `tls://` addresses, and where `tls_ca` is given. Raises `FleetUnavailable`."""
    if fleet.tls_ca is None and not any(url.startswith("tls:") for url in fleet.urls):
        return None
    try:
        return ssl.create_default_context(cafile=fleet.tls_ca)
    except OSError as error:
        # That a file is missing, or has no certificate in it.
        raise FleetUnavailable(f"`tls_ca` in [fleet]: {fleet.tls_ca} cannot be used: {error}.") from error


def _read(file: Path) -> Credentials:
    """The credentials of a node. Raises `FleetUnavailable`."""
    try:
        credentials = Credentials.read(file.read_text("utf-8"))
        name = credentials.name
    except (OSError, UnicodeError) as error:
        raise FleetUnavailable(f"The credentials {file} cannot be read: {error}.") from error
    except CredentialsError as error:
        raise FleetUnavailable(f"The credentials {file} cannot be used. {error}") from error
    if not is_node_name(name):
        raise FleetUnavailable(f"The credentials {file} are for {name!r}, which is no name of a node.")
    return credentials
