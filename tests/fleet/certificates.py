"""Certificates for tests: an authority, a server that it has signed, and another authority."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["make_certificates"]

_CURVE = ("-pkeyopt", "ec_paramgen_curve:P-256")


def make_certificates(folder: Path) -> None:
    """Write `ca.pem`, `other.pem`, `server.pem` and their keys. The server is 127.0.0.1, and is a client of others, too."""
    for name in ("ca", "other"):
        _openssl(
            folder, "req", "-x509", "-newkey", "ec", *_CURVE, "-nodes", "-days", "2",
            "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}",
        )  # fmt: skip
    _openssl(
        folder, "req", "-newkey", "ec", *_CURVE, "-nodes",
        "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1",
    )  # fmt: skip
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    _openssl(
        folder, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
        "-days", "2", "-extfile", "names", "-out", "server.pem",
    )  # fmt: skip


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
