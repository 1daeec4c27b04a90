"""A chain of two real servers on loopback: one in front, and one behind it with the models."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from bridge.consumer import Bridge
from dragoman.config import ConsoleConfig, KeyConfig, Serve
from dragoman.permissions.decide import PermissionSetting
from http_server.kit import DEADLINE, Held, Json, site_of, soon
from http_server.real_server import endpoint_at, listening
from process.living import all_gone

__all__ = ["AgentChain", "Chain", "Told", "agent_chain", "chain_of"]


@dataclass(frozen=True)
class Told:
    """What a client learns from an answer of either API, streamed or not."""

    headers: httpx2.Headers
    text: str
    # What the client sends back with its history.
    history: list[Json]
    # The completion, the response, or the last chunk with a choice.
    last: Json


@dataclass
class Chain:
    """The addresses of the server in front and of the one behind it."""

    outer: str
    inner: str
    client: httpx2.AsyncClient

    async def create(
        self, at: str | None = None, headers: dict[str, str] | None = None, **fields: Any
    ) -> httpx2.Response:
        body = {"model": "m", **fields}
        return await soon(self.client.post(f"{at or self.outer}/v1/responses", json=body, headers=headers))

    async def chat(
        self, at: str | None = None, headers: dict[str, str] | None = None, **fields: Any
    ) -> httpx2.Response:
        body = {"model": "m", **fields}
        url = f"{at or self.outer}/v1/chat/completions"
        return await soon(self.client.post(url, json=body, headers=headers))

    async def told(
        self,
        api: str,
        history: list[Json],
        *,
        at: str | None = None,
        headers: dict[str, str] | None = None,
        stream: bool = False,
        **fields: Any,
    ) -> Told:
        """Send a history over one of the APIs, `chat` or `responses`."""
        if api == "chat":
            answered = await self.chat(at, headers, messages=history, stream=stream, **fields)
            assert answered.status_code == 200, answered.text
            return _completion(answered, stream=stream)
        answered = await self.create(at, headers, input=history, stream=stream, **fields)
        assert answered.status_code == 200, answered.text
        response = _events(answered)[-1]["response"] if stream else answered.json()
        messages = [item for item in response["output"] if item["type"] == "message"]
        texts = [part.get("text", "") for item in messages for part in item["content"]]
        # Without the ids, so that nothing but the words tells which conversation it is.
        plain = [{key: value for key, value in item.items() if key != "id"} for item in response["output"]]
        return Told(answered.headers, "".join(texts), plain, response)


def _events(answered: httpx2.Response) -> list[Json]:
    lines = (line.removeprefix("data: ") for line in answered.text.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]


def _completion(answered: httpx2.Response, *, stream: bool) -> Told:
    if not stream:
        whole = answered.json()
        message = whole["choices"][0]["message"]
        return Told(answered.headers, message["content"] or "", [message], whole)
    chunks = _events(answered)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]
    text = "".join(delta.get("content") or "" for delta in deltas)
    calls = [
        {key: value for key, value in call.items() if key != "index"}
        for delta in deltas
        for call in delta.get("tool_calls", ())
    ]
    called = {"tool_calls": calls} if calls else {}
    return Told(answered.headers, text, [{"role": "assistant", "content": text, **called}], chunks[-1])


@dataclass
class AgentChain(Chain):
    """A chain with a real agent behind it."""

    bridge: Bridge = field(kw_only=True)

    def prompts(self, word: str) -> list[Json]:
        """The prompts with this word that the agent got."""
        return [each for each in self.bridge.noted("session/prompt") if word in json.dumps(each["prompt"])]


@asynccontextmanager
async def chain_of(
    models: Held,
    folder: Path,
    inner: Serve | None = None,
    outer: Serve | None = None,
    *,
    inner_file: Path | None = None,
    keys: Mapping[str, KeyConfig] | None = None,
    console: ConsoleConfig | None = None,
) -> AsyncIterator[Chain]:
    """A chain with these models behind. The server in front has these keys and this console."""
    async with AsyncExitStack() as stack:

        def site(held: Held, name: str, **fields: Any) -> Any:
            return stack.enter_context(contextmanager(site_of)(held, store=folder / name, **fields))

        hidden = site(models, "inner", serve=inner, config_file=inner_file)
        behind = await stack.enter_async_context(listening(hidden.app))
        far = await stack.enter_async_context(endpoint_at(behind))
        shown = site(Held(m=far), "outer", serve=outer, named=keys, console=console)
        before = await stack.enter_async_context(listening(shown.app))
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=DEADLINE, trust_env=False))
        yield Chain(before, behind, client)


@asynccontextmanager
async def agent_chain(
    folder: Path, inner: Serve | None = None, *, permission: PermissionSetting = "deny", **fields: Any
) -> AsyncIterator[AgentChain]:
    """A chain with an agent behind. `fields` are those of `chain_of`."""
    (folder / "agent").mkdir()
    bridge = Bridge(folder / "agent")
    bridge.chat(permission=permission)
    assert bridge.model is not None
    models = Held(bridge.permissions, m=bridge.model)
    models.cwd = folder / "agent"
    async with chain_of(models, folder, inner, **fields) as chain:
        yield AgentChain(chain.outer, chain.inner, chain.client, bridge=bridge)
    await bridge.close()
    await soon(all_gone(bridge.pids))
