"""What can be seen of the NATS servers themselves: their versions, and whether they sync what they acknowledge."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from dragoman.fleet.connection import FleetConnection, FleetUnavailable
from dragoman.fleet.credentials import FleetKeys
from dragoman.fleet.joining import tls_context
from dragoman.fleet.settings import FleetSettings

__all__ = ["OLDEST_NATS", "ServerReport", "check_version", "servers"]

# The first with a time to live for single messages, which leases need.
OLDEST_NATS = (2, 11)
_REQUEST = "$SYS.REQ.SERVER.PING.JSZ"
_ANSWER_SECONDS = 2.0


class ServerReport(msgspec.Struct, frozen=True):
    name: str
    version: str
    # Whether a write is on the disk before it is acknowledged.
    syncs_always: bool


def check_version(connection: FleetConnection) -> None:
    """Raises `FleetUnavailable` if the server is too old."""
    if connection.server_version < OLDEST_NATS:
        found, oldest = (".".join(map(str, each)) for each in (connection.server_version, OLDEST_NATS))
        raise FleetUnavailable(
            f"NATS has the version {found}, and a fleet needs {oldest} or newer: older ones know no time to live of a "
            "message, and leases would never end. Upgrade it."
        )


async def servers(fleet: FleetSettings, keys: FleetKeys) -> list[ServerReport]:
    """All servers of the cluster that have JetStream, by the system account. Raises `FleetUnavailable`."""
    credentials = keys.system_credentials("system")
    async with FleetConnection.open(fleet.urls, "system", credentials, tls_context(fleet)) as connection:
        answers = await connection.collect(_REQUEST, b'{"config": true}', _ANSWER_SECONDS)
    found = []
    for each in answers:
        with suppress(msgspec.MsgspecError):
            match msgspec.json.decode(each):
                case {"server": {"name": str(name), "ver": str(version)}, "data": {"config": {**config}}}:
                    found.append(ServerReport(name, version, config.get("sync_always") is True))
    return sorted(found, key=lambda report: report.name)
