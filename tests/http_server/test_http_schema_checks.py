"""Schemas that take long to check, over HTTP: they hold up nothing but their own request, and end with it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from websockets.asyncio.client import connect

from bridge.consumer import Bridge
from dragoman.config import KeyConfig, Serve
from dragoman.forms import checking
from dragoman.lm import JsonObject
from fake_agent.steps import COMMAND, prompt
from forms.running import checks_run
from http_server.kit import Answered, Held, Json, Site, site_of, soon
from http_server.real_server import listening
from process.living import all_gone

pytestmark = pytest.mark.long

_ALICE = "alice-0123456789abcdef0123456789"
_BOB = "bob-0123456789abcdef0123456789"


def _format(schema: Json) -> Json:
    return {"format": {"type": "json_schema", "name": "x", "schema": schema}}


# The library compares all pairs of the objects, which takes minutes.
_ENDLESS = _format(
    {"$schema": "http://json-schema.org/draft-04/schema#", "enum": [{"a": [n]} for n in range(3_300)]}
)
_SIMPLE = _format({"type": "object", "properties": {"a": {"type": "integer"}}})
_WITH_PATTERN = _format({"type": "object", "properties": {"a": {"pattern": "^b"}}})
# The check of this answer with this schema never ends.
_SLOW_ANSWER = prompt(["say", json.dumps("a" * 80 + "!")])
_SLOW_PATTERN = _format({"pattern": "^(a+)+$"})


@pytest.fixture(autouse=True)
def without_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "CHECK_SECONDS", 100_000.0)


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    made = Bridge(tmp_path)
    yield made
    await made.close()
    await soon(all_gone(made.pids))


@pytest.fixture
def site(bridge: Bridge, tmp_path: Path) -> Iterator[Site]:
    bridge.chat()
    assert bridge.model is not None
    yield from site_of(
        Held(bridge.permissions, m=bridge.model),
        store=tmp_path / "state",
        named={"alice": KeyConfig(key=_ALICE), "bob": KeyConfig(key=_BOB)},
        serve=Serve(max_responses=4),
    )


class _Client:
    """A client that can leave."""

    def __init__(self, site: Site, key: str) -> None:
        self._site = site
        self._key = key
        self._leave = asyncio.Event()
        self._tasks: list[asyncio.Task[Answered]] = []

    def send(self, path: str = "/v1/responses", **fields: object) -> asyncio.Task[Answered]:
        body = json.dumps({"model": "m", **fields}).encode()
        headers = {"authorization": f"Bearer {self._key}"}
        task = asyncio.create_task(self._site.call("POST", path, body, headers, leave=self._leave))
        self._tasks.append(task)
        return task

    async def leave(self) -> None:
        self._leave.set()
        await asyncio.wait(self._tasks)


def _text(response: Json) -> str:
    return "".join(
        part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]
    )


async def _answers(bob: _Client) -> None:
    """Bob gets his answers, whether their check needs a process or not."""
    for text, good in ((_SIMPLE, '{"a": 1}'), (_WITH_PATTERN, '{"a": "b"}')):
        answered = await bob.send(input=prompt(["say", good]), text=text)
        assert _text(answered.response) == good


async def test_a_key_with_schemas_that_take_minutes_holds_up_no_other_key(site: Site) -> None:
    alice, bob = _Client(site, _ALICE), _Client(site, _BOB)
    sent = [alice.send(input="x", text=_ENDLESS) for _ in range(16)]
    await checks_run(2)
    await _answers(bob)
    assert not any(task.done() for task in sent)
    await alice.leave()
    await checks_run(0)


async def test_only_so_many_schemas_of_a_key_wait(site: Site) -> None:
    alice = _Client(site, _ALICE)
    sent = [alice.send(input="x", text=_ENDLESS) for _ in range(25)]
    done, _ = await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        answered = task.result()
        assert (answered.status, answered.headers["retry-after"]) == (429, "1")
        assert "wait for their check" in answered.error["message"]
    await alice.leave()
    await checks_run(0)


async def test_an_answer_whose_check_never_ends_holds_up_no_other_key_and_ends_with_its_client(
    site: Site,
) -> None:
    alice, bob = _Client(site, _ALICE), _Client(site, _BOB)
    sent = [alice.send(input=_SLOW_ANSWER, text=_SLOW_PATTERN) for _ in range(3)]
    await checks_run(2)
    await _answers(bob)
    assert not any(task.done() for task in sent)
    await alice.leave()
    await checks_run(0)


async def test_a_websocket_client_that_leaves_ends_the_check_of_its_schema(site: Site) -> None:
    async with listening(site.app) as url:
        socket = await connect(
            f"ws{url.removeprefix('http')}/v1/responses",
            additional_headers={"authorization": f"Bearer {_ALICE}"},
        )
        await socket.send(
            json.dumps({"type": "response.create", "model": "m", "input": "x", "text": _ENDLESS})
        )
        await checks_run(1)
        await socket.close()
        await checks_run(0)


async def test_a_server_that_stops_ends_the_checks_of_schemas(site: Site) -> None:
    alice = _Client(site, _ALICE)
    sent = [alice.send(input="x", text=_ENDLESS) for _ in range(4)]
    await checks_run(2)
    site.service.schema_checks.end()
    for task in sent:
        assert (await task).status == 503
    assert (await alice.send(input="x", text=_ENDLESS)).status == 503
    await checks_run(0)


async def test_no_schema_is_checked_beyond_the_limit_of_responses(site: Site) -> None:
    alice, bob = _Client(site, _ALICE), _Client(site, _BOB)
    sent = [alice.send(input=prompt(["say", "x"], ["wait"]), stream=True) for _ in range(4)]
    while site.service.metrics.under_way < len(sent):  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(0.01)
    answered = await bob.send(input="x", text=_ENDLESS)
    assert answered.status == 429
    await alice.leave()


async def test_an_error_about_a_schema_names_the_field_of_its_api(site: Site) -> None:
    client = _Client(site, _ALICE)
    bad = {"name": "x", "schema": {"type": "objet"}}
    in_chat: dict[str, list[JsonObject]] = {
        "response_format.json_schema.schema": [
            {"type": "json_schema", "json_schema": bad},
            {"type": "json_schema"},
        ],
        "response_format": [{"type": "grammar"}],
    }
    for param, formats in in_chat.items():
        for each in formats:
            answered = await client.send(
                "/v1/chat/completions", messages=[{"role": "user", "content": "x"}], response_format=each
            )
            assert (answered.status, answered.json["error"]["param"]) == (400, param)
    answered = await client.send(input="x", text={"format": {"type": "json_schema", **bad}})
    assert (answered.status, answered.error["param"]) == (400, "text.format.schema")


async def test_a_server_that_gets_a_signal_does_not_wait_for_a_schema(tmp_path: Path) -> None:
    command = json.dumps([*COMMAND, json.dumps({"folder": str(tmp_path)})])
    config = tmp_path / "dragoman.toml"
    config.write_text(f'[serve]\ndrain_seconds = 600\n[models.m]\nkind = "acp"\ncommand = {command}\n')
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", "serve", "--port", "0"),
        *("--config", str(config), "--state-dir", str(tmp_path / "state")),
        stderr=asyncio.subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stderr is not None
    url = (await process.stderr.readline()).decode().split()[-1]
    async with httpx2.AsyncClient(timeout=None) as client:
        body = {"model": "m", "input": "x", "text": _ENDLESS}
        sent = asyncio.create_task(client.post(f"{url}/responses", json=body))
        await checks_run(1)
        process.terminate()
        assert (await sent).status_code == 503
    await process.stderr.read()
    assert await process.wait() == 0
    await checks_run(0)
