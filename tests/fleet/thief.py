"""A program that an agent runs on its worker: it finds the worker's credentials, and tries what they are good for.

Prints one JSON object: for each attempt whether it was refused. Its arguments are the names of another worker and of a
gateway, and the id of a conversation of that worker.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tomllib
from pathlib import Path

from nats.aio.client import Client
from nats.errors import Error

from dragoman.fleet.nkeys import Credentials

_STREAMS = ("JOURNALS", "SNAPSHOTS", "AUDIT", "INDEX", "LEASES", "RESPONSES", "SECRETS")


def found_credentials() -> tuple[str, Credentials]:
    """Where NATS is, and the credentials of this process's worker. Its configuration's path is in its command line."""
    pid = os.getpid()
    while True:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        if "worker" in words and "--config" in words:
            config = Path(words[words.index("--config") + 1])
            settings: dict[str, str] = tomllib.loads(config.read_text())["fleet"]
            return settings["url"], Credentials.read(Path(settings["credentials"]).read_text())
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Thief:
    def __init__(self) -> None:
        self._client = Client()
        self._complaints: list[str] = []
        self._tried: dict[str, str] = {}
        self._refused: dict[str, bool] = {}

    async def connect(self, url: str, credentials: Credentials) -> None:
        jwt, sign = credentials.callbacks

        async def complain(error: Exception) -> None:
            self._complaints.append(str(error))

        await self._client.connect(
            url,
            user_jwt_cb=jwt,
            signature_cb=sign,
            error_cb=complain,
            inbox_prefix=f"_INBOX.{credentials.name}".encode(),
        )

    async def publish(self, subject: str, data: bytes = b"{}") -> None:
        await self._client.publish(subject, data)
        self._tried[f"publish {subject}"] = f'publish to "{subject.lower()}"'

    async def send_damaged(self, subject: str) -> None:
        """Messages whose headers no client library can read."""
        for headers in (b"NATS/1.0", b"NATS/1.0 \xff\xfe\xfd x\r\n\r\n"):
            size = len(headers)
            await self._client._send_command(f"HPUB {subject} {size} {size}\r\n".encode() + headers + b"\r\n")
        await self._client.flush()

    async def listen(self, subject: str) -> None:
        await self._client.subscribe(subject)
        self._tried[f"listen {subject}"] = f'subscription to "{subject.lower()}"'

    async def result(self) -> dict[str, bool]:
        """Whether each attempt was refused."""
        # The server complains about a message before it answers a later one.
        await self.read("DRAGOMAN_JOURNALS", "dg.j.none")
        del self._refused["read dg.j.none"]
        said = "\n".join(self._complaints).lower()
        return {what: complaint in said for what, complaint in self._tried.items()} | self._refused

    async def store(self, subject: str, data: bytes) -> None:
        """With an acknowledgement: the server may also refuse what the credentials allow."""
        try:
            await self._client.jetstream().publish(subject, data, timeout=5)
            self._refused[f"store {subject}"] = False
        except Error:
            self._refused[f"store {subject}"] = True

    async def read(self, stream: str, subject: str) -> None:
        name = f"read {subject}"
        try:
            answer = await self._client.request(f"$JS.API.DIRECT.GET.{stream}.{subject}", timeout=5)
            self._refused[name] = "Status" in (answer.headers or {})
        except Error:
            self._refused[name] = True

    async def close(self) -> None:
        await self._client.close()


async def main(other: str, gateway: str, conversation: str) -> None:
    url, credentials = found_credentials()
    own = credentials.name
    thief = Thief()
    await thief.connect(url, credentials)
    for node in (other, own):
        for what in ("request", "stream", "decide", "operate", "drain"):
            await thief.publish(f"dg.node.{node}.{what}")
    for subject in (
        "dg.present",
        "dg.bid.fake",
        "dg.status",
        "dg.status.gateway",
        "dg.question.all",
        f"dg.question.{other}.news",
        f"dg.gate.{gateway}.cancel",
        f"dg.l.{other}",
        f"dg.l.{gateway}",
        "dg.r.local.response",
        "dg.k.other",
    ):
        await thief.publish(subject)
    for stream in _STREAMS:
        for api in ("$JS.API", "dg.api"):
            await thief.publish(f"{api}.STREAM.DELETE.DRAGOMAN_{stream}")
            await thief.publish(f"{api}.STREAM.UPDATE.DRAGOMAN_{stream}")
            await thief.publish(f"{api}.CONSUMER.CREATE.DRAGOMAN_{stream}.thief")
    await thief.publish("dg.api.STREAM.PURGE.DRAGOMAN_JOURNALS")
    await thief.publish("dg.api.STREAM.PURGE.DRAGOMAN_AUDIT")
    await thief.publish("dg.api.STREAM.MSG.DELETE.DRAGOMAN_AUDIT")
    for subject in (">", "dg.>", f"dg.node.{other}.>", f"dg.gate.{gateway}", "dg.question.*.>", "_INBOX.>"):
        await thief.listen(subject)
    await thief.read("DRAGOMAN_AUDIT", f"dg.a.{conversation}")
    await thief.read("DRAGOMAN_RESPONSES", "dg.r.local.response")
    await thief.store("dg.k.signing", b"x" * 32)
    # What no permission can forbid: conversations move, so every worker reads and writes all of them.
    await thief.read("DRAGOMAN_JOURNALS", f"dg.j.{conversation}")
    await thief.store("dg.j.forged", b"a line of the thief's")
    # It may write to gateways. They must not stop hearing for that.
    await thief.send_damaged(f"dg.gate.{gateway}")
    print(json.dumps(await thief.result()))
    await thief.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
