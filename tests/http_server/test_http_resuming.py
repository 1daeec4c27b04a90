"""J4: after `kill -9`, `dragoman serve` says what became of its responses. With the `openai` client."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from fake_agent.demo import COMMAND
from http_server.kit import DEADLINE, soon
from http_server.stream_check import check_events

pytestmark = pytest.mark.long

_CONFIG = """
[serve]
drain_seconds = 20
[models.tape]
kind = "script"
path = "tape.jsonl"
[models.demo]
kind = "acp"
agent = "demo"
command = COMMAND
"""
_TAPE = """
{"when": {"prompt": "slow"}, "do": [{"say": "First. "}, {"wait": 1.5}, {"say": "Last."}]}
{"when": {"prompt": "wait"}, "do": [{"say": "Waiting. "}, {"wait": "forever"}]}
{"do": [{"think": "Hm."}, {"say": "You said ${prompt}."}]}
"""


class Served:
    """`dragoman serve` in a process, which can be killed and started again."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        command = json.dumps([*COMMAND, "--sessions", str(folder / "sessions")])
        (folder / "dragoman.toml").write_text(_CONFIG.replace("COMMAND", command) + settings)
        (folder / "tape.jsonl").write_text(_TAPE)
        self._folder = folder
        self.start()

    def start(self) -> None:
        named = ("--config", str(self._folder / "dragoman.toml"), "--state-dir", str(self._folder / "state"))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dragoman", "serve", "--port", "0", *named],
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            env=dict(os.environ),
        )
        assert self.process.stderr is not None
        self.url = self.process.stderr.readline().split()[-1]

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        status = self.process.wait(DEADLINE)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return status

    def again(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.end(number)
        self.start()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[openai.AsyncOpenAI]:
        async with openai.AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0) as made:
            yield made


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    assert made.end(signal.SIGTERM) == 0


async def _events(stream: Any) -> list[dict[str, Any]]:
    return [event.model_dump(mode="json", by_alias=True, exclude_unset=True) async for event in stream]


async def _raw(served: Served, id_: str, query: str = "") -> bytes:
    """What the server writes, byte for byte. The environment's proxy is not for this machine."""
    open_ = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def get() -> bytes:
        with open_(f"{served.url}/responses/{id_}?stream=true{query}", timeout=DEADLINE) as answer:
            content: bytes = answer.read()
            return content

    return await asyncio.to_thread(get)


@pytest.mark.parametrize("model", ["tape", "demo"])
async def test_j4_what_was_finished_is_the_same_after_kill_9(served: Served, model: str) -> None:
    async with served.client() as client:
        begun = await soon(client.responses.create(model=model, input="hello there", background=True))
        assert (begun.status, begun.background) == ("in_progress", True)
        stream = await soon(client.responses.retrieve(begun.id, stream=True))
        events = await soon(_events(stream))
        check_events(events)
        whole = await soon(client.responses.retrieve(begun.id))
        raw = await _raw(served, begun.id)
    served.again()
    assert await _raw(served, begun.id) == raw
    async with served.client() as client:
        assert await soon(client.responses.retrieve(begun.id)) == whole
        for number in (0, 3, len(events) - 2):
            resumed = await soon(client.responses.retrieve(begun.id, stream=True, starting_after=number))
            assert await soon(_events(resumed)) == events[number + 1 :]
        # The conversation goes on from it.
        after = await soon(client.responses.create(model=model, input="x", previous_response_id=begun.id))
        assert after.status == "completed"


async def test_j4_what_was_running_has_failed_after_kill_9(served: Served) -> None:
    async with served.client() as client:
        stream = await soon(client.responses.create(model="tape", input="wait", background=True, stream=True))
        seen: list[dict[str, Any]] = []
        async for event in stream:
            seen.append(event.model_dump(mode="json", by_alias=True, exclude_unset=True))
            if seen[-1].get("delta") == "Waiting. ":
                break
        id_ = seen[0]["response"]["id"]
    served.again()
    async with served.client() as client:
        failed = await soon(client.responses.retrieve(id_))
        assert failed.status == "failed"
        assert failed.error is not None
        assert "The server ended before the response did" in failed.error.message
        number = seen[-1]["sequence_number"]
        rest = await soon(client.responses.retrieve(id_, stream=True, starting_after=number))
        # The official client raises the error that a stream has.
        with pytest.raises(openai.APIError, match="The server ended before the response did"):
            await soon(_events(rest))
        frames = (await _raw(served, id_, f"&starting_after={number}")).split(b"\n\n")
        found = [json.loads(frame.partition(b"data: ")[2]) for frame in frames[:-2]]
        assert [event["sequence_number"] for event in found] == list(
            range(number + 1, number + 1 + len(found))
        )
        assert found[-1]["type"] == "response.failed"
        # It stays so.
        assert await soon(client.responses.retrieve(id_)) == failed
        assert await soon(client.responses.cancel(id_)) == failed


@pytest.mark.parametrize("prompt", ["slow", "wait"])
async def test_j4_a_server_that_ends_waits_for_background_responses(tmp_path: Path, prompt: str) -> None:
    served = Served(tmp_path)
    config = tmp_path / "dragoman.toml"
    async with served.client() as client:
        begun = await soon(client.responses.create(model="tape", input=prompt, background=True))
    if prompt == "wait":
        # A server that has less patience.
        served.again()
        config.write_text(config.read_text().replace("drain_seconds = 20", "drain_seconds = 1"))
        served.again()
        async with served.client() as client:
            begun = await soon(client.responses.create(model="tape", input=prompt, background=True))
    served.again(signal.SIGTERM)
    async with served.client() as client:
        found = await soon(client.responses.retrieve(begun.id))
    assert (found.status, found.output_text) == (
        ("completed", "First. Last.") if prompt == "slow" else ("failed", "Waiting. ")
    )
    assert served.end(signal.SIGTERM) == 0


async def test_j4_cancel_with_the_official_client(served: Served) -> None:
    async with served.client() as client:
        begun = await soon(client.responses.create(model="tape", input="wait", background=True))
        cancelled = await soon(client.responses.cancel(begun.id))
        assert cancelled.status == "cancelled"
        assert await soon(client.responses.cancel(begun.id)) == cancelled
        whole = await soon(client.responses.create(model="tape", input="x"))
        with pytest.raises(openai.BadRequestError):
            await soon(client.responses.cancel(whole.id))


@pytest.mark.parametrize("model", ["tape", "demo"])
async def test_j4_conversations_with_the_official_client(served: Served, model: str) -> None:
    async with served.client() as client:
        made = await soon(
            client.conversations.create(
                metadata={"a": "b"}, items=[{"type": "message", "role": "user", "content": "Hello."}]
            )
        )
        assert made.metadata == {"a": "b"}
        first = await soon(client.responses.create(model=model, input="one", conversation=made.id))
        assert first.conversation is not None
        assert first.conversation.id == made.id
    served.again()
    async with served.client() as client:
        second = await soon(client.responses.create(model=model, input="two", conversation=made.id))
        assert second.status == "completed"
        listed = [item async for item in client.conversations.items.list(made.id, order="asc", limit=2)]
        roles = [item.role for item in listed if item.type == "message"]
        assert roles.count("user") == 3
        assert "assistant" in roles
        item = listed[0]
        assert item.id is not None
        assert await soon(client.conversations.items.retrieve(item.id, conversation_id=made.id)) == item
        assert (await soon(client.conversations.items.delete(item.id, conversation_id=made.id))).id == made.id
        added = await soon(
            client.conversations.items.create(
                made.id, items=[{"type": "message", "role": "user", "content": "More."}]
            )
        )
        assert len(added.data) == 1
        changed = await soon(client.conversations.update(made.id, metadata={"c": "d"}))
        assert changed.metadata == {"c": "d"}
        assert await soon(client.conversations.retrieve(made.id)) == changed
        assert (await soon(client.conversations.delete(made.id))).deleted
        with pytest.raises(openai.NotFoundError):
            await soon(client.responses.create(model=model, input="three", conversation=made.id))


@pytest.mark.parametrize("content", ["metadata", "off"])
async def test_j4_without_stored_content_nothing_said_over_http_is_in_a_file(
    tmp_path: Path, content: str
) -> None:
    """Within the process responses are found and continued. After a restart they are unknown."""
    served = Served(tmp_path, f'[journal]\ncontent = "{content}"\n')
    async with served.client() as client:
        plain = await soon(client.responses.create(model="tape", input="Word-4711"))
        assert plain.output_text == "You said Word-4711."
        after = await soon(
            client.responses.create(model="demo", input="Word-4712", previous_response_id=plain.id)
        )
        begun = await soon(client.responses.create(model="tape", input="Word-4713", background=True))
        stream = await soon(client.responses.retrieve(begun.id, stream=True))
        check_events(await soon(_events(stream)))
        ids = (plain.id, after.id, begun.id)
        for id_ in ids:
            assert (await soon(client.responses.retrieve(id_))).status == "completed"
            assert "Word-471" in str((await soon(client.responses.input_items.list(id_))).data)
        with pytest.raises(openai.BadRequestError, match=r"\[journal\]"):
            await soon(client.conversations.create(items=[_message("Word-4714")]))
    # Killed, so that the write-ahead log is still there.
    served.end(signal.SIGKILL)
    files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert "dragoman.db-wal" in {path.name for path in files}
    assert [path.name for path in files if b"Word-471" in path.read_bytes()] == []
    served.start()
    async with served.client() as client:
        for id_ in ids:
            with pytest.raises(openai.NotFoundError):
                await soon(client.responses.retrieve(id_))
    assert served.end(signal.SIGTERM) == 0


def _message(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}
