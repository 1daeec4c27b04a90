"""What `dragoman doctor` says of the fleet: whether NATS is reachable with the node's credentials."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.cli.finding import Finding
from dragoman.config import FleetConfig
from dragoman.fleet.extra import missing_extra
from dragoman.interruptible import run_interruptible
from dragoman.loopback import is_loopback

__all__ = ["fleet_findings"]


def fleet_findings(fleet: FleetConfig) -> Iterator[Finding]:
    """Connect once, and say how that went. Nothing if there is no fleet."""
    if not fleet.urls:
        return
    where = ", ".join(fleet.urls)
    if (sentence := missing_extra()) is not None:
        yield Finding("fail", f"the fleet at {where} cannot be used", f"{sentence[0].upper()}{sentence[1:]}")
        return
    # With them comes the client of NATS.
    from dragoman.fleet.connection import FleetUnavailable  # noqa: PLC0415
    from dragoman.fleet.joining import joined, node_name  # noqa: PLC0415
    from dragoman.fleet.servers import check_version  # noqa: PLC0415
    from dragoman.fleet.streams import check_streams  # noqa: PLC0415

    name = ""

    async def look() -> str:
        nonlocal name
        name = node_name(fleet, "node")
        async with joined(fleet, name) as connection:
            check_version(connection)
            await check_streams(connection)
            return ".".join(map(str, connection.server_version))

    try:
        version = run_interruptible(look)
    except FleetUnavailable as error:
        yield Finding("fail", f"the fleet at {where} cannot be used", str(error))
    else:
        yield Finding("ok", f"the fleet at {where} is reachable as {name} (NATS {version})")
    if any(url.startswith("nats:") and not _is_here(url) for url in fleet.urls):
        yield Finding(
            "warn",
            "what the fleet says crosses the network in the clear",
            "Give NATS a certificate, and write tls:// in `url` of [fleet].",
        )


def _is_here(url: str) -> bool:
    host, _, port = url.partition("://")[2].rpartition(":")
    return is_loopback((host if port.isdecimal() and host else port).strip("[]"))
