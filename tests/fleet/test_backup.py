"""Backup and restore of a stream with the operator's credentials, as `nats stream backup` and `restore` do it.

They use the default inbox of every NATS client, and JetStream's snapshot API.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from dragoman.fleet import subjects
from dragoman.fleet.connection import FleetConnection
from dragoman.fleet.credentials import FleetKeys
from dragoman.fleet.streams import make_streams
from fleet.machines import soon
from nats_servers import nats_server

# Several chunks: each is acknowledged, or sent after an answer.
_CHUNK_BYTES = 4096
# Random, so that it cannot be compressed.
_CONTENTS = [os.urandom(2048) for _ in range(200)]


async def _operator(url: str, keys: FleetKeys) -> Client:
    jwt, sign = keys.credentials("admin", "admin").callbacks
    client = Client()
    await client.connect(url, user_jwt_cb=jwt, signature_cb=sign)
    return client


async def _asked(client: Client, subject: str, content: object) -> dict[str, Any]:
    answer = json.loads((await client.request(subject, json.dumps(content).encode(), timeout=10)).data)
    assert "error" not in answer, answer
    return dict(answer)


async def _backed_up(client: Client, stream: str) -> tuple[dict[str, Any], list[bytes]]:
    """What describes the stream, and its content."""
    inbox = client.new_inbox()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    acknowledged: list[str] = []
    heard = await client.subscribe(inbox)
    described = await _asked(
        client,
        f"$JS.API.STREAM.SNAPSHOT.{stream}",
        {"deliver_subject": inbox, "chunk_size": _CHUNK_BYTES, "window_size": 2 * _CHUNK_BYTES},
    )

    async def take() -> None:
        async for message in heard.messages:
            if not message.data:
                return
            chunks.put_nowait(message.data)
            if message.reply:
                await message.respond(b"")
                acknowledged.append(message.reply)

    await soon(take())
    assert acknowledged
    await heard.unsubscribe()
    return described, [chunks.get_nowait() for _ in range(chunks.qsize())]


async def _restore(client: Client, stream: str, described: dict[str, Any], chunks: list[bytes]) -> None:
    content = {"config": described["config"], "state": described["state"]}
    opened = await _asked(client, f"$JS.API.STREAM.RESTORE.{stream}", content)
    for chunk in chunks:
        await client.request(opened["deliver_subject"], chunk, timeout=10)
    done = json.loads((await client.request(opened["deliver_subject"], b"", timeout=10)).data)
    assert "error" not in done, done


async def test_an_operator_backs_a_stream_up_and_restores_it(tmp_path: Path) -> None:
    keys = FleetKeys.new()
    async with nats_server(tmp_path, keys.server_config()) as url:
        client = await _operator(url, keys)
        await make_streams(FleetConnection(client, "admin"), 1, None)
        jwt, sign = keys.credentials("gateway", "gate").callbacks
        gateway = Client()
        await gateway.connect(url, user_jwt_cb=jwt, signature_cb=sign, inbox_prefix=b"_INBOX.gate")
        for number, content in enumerate(_CONTENTS):
            await gateway.jetstream().publish(f"dg.j.conversation-{number}", content)
        await gateway.close()

        stream = subjects.JOURNALS
        described, chunks = await _backed_up(client, stream)
        assert len(chunks) > 2
        await _asked(client, f"$JS.API.STREAM.DELETE.{stream}", {})
        await _restore(client, stream, described, chunks)
        restored = await _asked(client, f"$JS.API.STREAM.INFO.{stream}", {})
        assert restored["state"]["messages"] == len(_CONTENTS)
        found = await client.jetstream().get_last_msg(stream, "dg.j.conversation-7")
        assert found.data == _CONTENTS[7]
        await client.close()
