"""A reverse proxy with TLS, as people put one before the console: `dragoman.test`, on a port of this machine.

    python tls_proxy.py keep|rewrite

`keep` leaves the Host header as it is; `rewrite` puts the upstream there, as nginx does unless it is told otherwise.
Standard output has one line, `{"port": 1}`. Lines of standard input are commands: `upstream PORT`; `cut` drops every
connection; `refuse` drops new ones, too, until `accept`. The end of standard input ends the proxy.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import ssl
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["HOST"]

HOST = "dragoman.test"
_READ = 65_536


def _context() -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "both.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context.load_cert_chain(file)
    return context


class Proxy:
    def __init__(self, *, rewrites_host: bool) -> None:
        self._rewrites_host = rewrites_host
        self._upstream = 0
        self._refuses = False
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def command(self, line: str) -> None:
        match line.split():
            case ["upstream", port]:
                self._upstream = int(port)
            case ["cut"]:
                self._cut()
            case ["refuse"]:
                self._refuses = True
                self._cut()
            case ["accept"]:
                self._refuses = False
            case _:
                sys.exit(f"no such command: {line}")

    def _cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The loop has only weak references to tasks.
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            # A browser drops connections at any time.
            with suppress(OSError, EOFError, ssl.SSLError, asyncio.LimitOverrunError):
                if not self._refuses:
                    await self._pass_on(reader, writer)
        finally:
            self._open.discard(writer)
            writer.transport.abort() if self._refuses else writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._upstream)
        try:
            upstream.write(self._altered(head))
            sending = asyncio.create_task(_copy(reader, upstream))
            try:
                await _copy(upstream_reader, writer)
            finally:
                sending.cancel()
        finally:
            # The server sees at once that the browser has gone.
            upstream.transport.abort()

    def _altered(self, head: bytes) -> bytes:
        """One request for each connection: then only the first head has to be read."""
        first, *lines = head[:-4].split(b"\r\n")
        altered = [line for line in lines if not line.lower().startswith(b"connection:")]
        if self._rewrites_host:
            altered = [line for line in altered if not line.lower().startswith(b"host:")]
            altered.append(f"Host: 127.0.0.1:{self._upstream}".encode())
        return b"\r\n".join([first, *altered, b"Connection: close", b"", b""])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, ssl.SSLError):
        while data := await reader.read(_READ):
            writer.write(data)
            await writer.drain()


async def main() -> None:
    proxy = Proxy(rewrites_host=sys.argv[1] == "rewrite")
    server = await asyncio.start_server(proxy.connected, "127.0.0.1", 0, ssl=_context())
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        proxy.command(line.decode())
    # The system closes what is open; tasks that wait for it would only complain.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
