"""TLS between nodes and NATS, with certificates of this test."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.cli.fleet_doctor import fleet_findings
from dragoman.config import FleetConfig
from dragoman.fleet.connection import FleetUnavailable
from dragoman.fleet.joining import joined
from fleet.certificates import make_certificates
from fleet.machines import soon, until
from nats_servers import free_port, nats_server

_NO_TLS = r"offers no TLS.*Nothing was sent to it\. Add `tls` .* nats:// in `\[fleet\] url`"


@pytest.fixture
def certificates(tmp_path: Path) -> str:
    """Make them. Returns what a server needs in its `tls` block."""
    make_certificates(tmp_path)
    return f'cert_file: "{tmp_path}/server.pem", key_file: "{tmp_path}/server.key"'


def _with_tls(url: str) -> str:
    return url.replace("nats://", "tls://")


@pytest.fixture
async def url(tmp_path: Path, certificates: str) -> AsyncIterator[str]:
    async with nats_server(tmp_path, f"tls {{ {certificates} }}\n") as plain:
        yield _with_tls(plain)


@asynccontextmanager
async def _server_without_tls(port: int) -> AsyncIterator[list[bytes]]:
    """Greets as NATS does. Yields what its clients sent, up to the end of each connection."""
    heard: list[bytes] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b'INFO {"server_id": "X", "version": "2.11.0", "max_payload": 1048576, "headers": true}\r\n'
        )
        heard.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", port)
    try:
        yield heard
    finally:
        server.close()


async def test_a_node_checks_the_servers_certificate(url: str, tmp_path: Path) -> None:
    async with joined(FleetConfig(url=url, tls_ca=tmp_path / "ca.pem"), "one") as connection:
        assert connection.is_connected
    with pytest.raises(FleetUnavailable, match=r"cannot be reached: .*certificate verify failed"):
        async with joined(FleetConfig(url=url, tls_ca=tmp_path / "other.pem"), "one"):
            pass
    with pytest.raises(FleetUnavailable, match=r"cannot be reached: .*certificate verify failed"):
        async with joined(FleetConfig(url=url), "one"):
            pass


async def test_the_end_of_a_connection_is_no_line_of_the_log(
    tmp_path: Path, certificates: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with nats_server(tmp_path, f"tls {{ {certificates} }}\n") as plain:
        joining = joined(FleetConfig(url=_with_tls(plain), tls_ca=tmp_path / "ca.pem"), "one")
        connection = await joining.__aenter__()
    await soon(until(lambda: not connection.is_connected))
    await joining.__aexit__(None, None, None)
    assert "unexpected EOF" in caplog.text
    assert "eof_received" not in caplog.text
    logging.getLogger("asyncio").warning("another line")
    assert "another line" in caplog.text


async def test_a_file_without_certificates_is_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(FleetUnavailable, match=r"`tls_ca` in \[fleet\]: .*names cannot be used"):
        async with joined(FleetConfig(url=url, tls_ca=tmp_path / "names"), "one"):
            pass


async def test_a_server_without_tls_is_refused(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as plain:
        fleet = FleetConfig(url=_with_tls(plain))
        with pytest.raises(FleetUnavailable, match=_NO_TLS):
            async with joined(fleet, "one"):
                pass
        [finding] = await asyncio.to_thread(lambda: list(fleet_findings(fleet)))
        assert finding.level == "fail"
        assert re.search(_NO_TLS, f"{finding.what} {finding.next_step}")


async def test_a_server_that_leaves_tls_to_the_client_gets_tls(tmp_path: Path, certificates: str) -> None:
    async with nats_server(tmp_path, f"tls {{ {certificates} }}\nallow_non_tls: true\n") as plain:
        async with joined(FleetConfig(url=_with_tls(plain), tls_ca=tmp_path / "ca.pem"), "one") as connection:
            assert connection.is_connected
        with pytest.raises(FleetUnavailable, match="certificate verify failed"):
            async with joined(FleetConfig(url=_with_tls(plain), tls_ca=tmp_path / "other.pem"), "one"):
                pass


@pytest.mark.parametrize("is_learnt", [False, True])
async def test_a_node_that_connects_again_sends_nothing_in_the_clear(
    tmp_path: Path, certificates: str, caplog: pytest.LogCaptureFixture, *, is_learnt: bool
) -> None:
    caplog.set_level(logging.WARNING)
    async with nats_server(tmp_path, f"tls {{ {certificates} }}\n") as plain:
        fleet = FleetConfig(url=_with_tls(plain), tls_ca=tmp_path / "ca.pem")
        joining = joined(fleet, "one")
        connection = await joining.__aenter__()
        port = int(plain.rpartition(":")[2])
        if is_learnt:
            # As a server of a cluster names the others.
            port = free_port()
            await connection._client._process_info({"connect_urls": [f"127.0.0.1:{port}"]})
    try:
        async with _server_without_tls(port) as heard:
            await soon(until(lambda: len(heard) >= 2))
            assert not connection.is_connected
            assert set(heard) == {b""}
    finally:
        await joining.__aexit__(None, None, None)
    assert f"tls://127.0.0.1:{port} offers no TLS" in caplog.text
