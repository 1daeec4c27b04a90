"""TLS between nodes and NATS, with certificates of this test."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.config import FleetConfig
from dragoman.fleet.connection import FleetUnavailable
from dragoman.fleet.joining import joined
from nats_servers import nats_server


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def _authority(folder: Path, name: str) -> None:
    _openssl(
        folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
        "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}",
    )  # fmt: skip


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    _authority(tmp_path, "ca")
    _authority(tmp_path, "other")
    _openssl(
        tmp_path, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1",
    )  # fmt: skip
    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    _openssl(
        tmp_path, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
        "-days", "2", "-extfile", "names", "-out", "server.pem",
    )  # fmt: skip
    config = f'tls {{ cert_file: "{tmp_path}/server.pem", key_file: "{tmp_path}/server.key" }}\n'
    async with nats_server(tmp_path, config) as plain:
        yield plain.replace("nats://", "tls://")


async def test_a_node_checks_the_servers_certificate(url: str, tmp_path: Path) -> None:
    async with joined(FleetConfig(url=url, tls_ca=tmp_path / "ca.pem"), "one") as connection:
        assert connection.is_connected
    with pytest.raises(FleetUnavailable, match=r"cannot be reached: .*certificate verify failed"):
        async with joined(FleetConfig(url=url, tls_ca=tmp_path / "other.pem"), "one"):
            pass
    with pytest.raises(FleetUnavailable, match=r"cannot be reached: .*certificate verify failed"):
        async with joined(FleetConfig(url=url), "one"):
            pass


async def test_a_file_without_certificates_is_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(FleetUnavailable, match=r"`tls_ca` in \[fleet\]: .*names cannot be used"):
        async with joined(FleetConfig(url=url, tls_ca=tmp_path / "names"), "one"):
            pass
