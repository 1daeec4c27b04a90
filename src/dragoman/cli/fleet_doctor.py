"""What `dragoman doctor` says of the fleet: whether NATS is reachable with the node's credentials."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.cli.finding import Finding
from dragoman.config import FleetConfig
from dragoman.fleet.extra import missing_extra
from dragoman.interruptible import run_interruptible
from dragoman.loopback import is_loopback

__all__ = ["fleet_findings"]

# The election of a stream's leader takes up to eight seconds.
_ANSWER_SECONDS = 10.0


def fleet_findings(fleet: FleetConfig) -> Iterator[Finding]:
    """Connect once, and say how that went. Nothing if there is no fleet."""
    if not fleet.urls:
        return
    where = ", ".join(fleet.urls)
    if (sentence := missing_extra()) is not None:
        yield Finding("fail", f"the fleet at {where} cannot be used", f"{sentence[0].upper()}{sentence[1:]}")
        return
    # With them comes the client of NATS.
    from dragoman.fleet.connection import FleetUnavailable, NoAnswer, NobodyThere  # noqa: PLC0415
    from dragoman.fleet.joining import joined, node_name  # noqa: PLC0415
    from dragoman.fleet.servers import check_version  # noqa: PLC0415
    from dragoman.fleet.subjects import JOURNALS  # noqa: PLC0415

    name = _name(fleet) or node_name(fleet, "node")

    async def look() -> str:
        async with joined(fleet, name) as connection:
            check_version(connection)
            asked = f"{connection.api}.STREAM.INFO.{JOURNALS}"
            answer = await connection.request(asked, b"", _ANSWER_SECONDS)
            if b'"error"' in answer:
                raise FleetUnavailable("NATS has no streams of a fleet. Make them: dragoman fleet init")
            return ".".join(map(str, connection.server_version))

    try:
        version = run_interruptible(look)
    except (NoAnswer, NobodyThere):
        step = "Is it enabled in the configuration of NATS, and are these the credentials of a node?"
        yield Finding("fail", f"JetStream of the fleet at {where} does not answer", step)
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


def _name(fleet: FleetConfig) -> str | None:
    """Of a folder with credentials: the first node that has some, to try with."""
    if fleet.name is not None or fleet.credentials is None or not fleet.credentials.is_dir():
        return None
    names = sorted(file.stem for file in fleet.credentials.glob("*.creds"))
    return next((name for name in names if name != "admin"), None)


def _is_here(url: str) -> bool:
    host, _, port = url.partition("://")[2].rpartition(":")
    return is_loopback((host if port.isdecimal() and host else port).strip("[]"))
