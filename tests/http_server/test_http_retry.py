"""R9, R10: the same request again over real sockets, with a real agent: a retry, or a wish for another answer."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import openai
import pytest
import websockets
from websockets.asyncio.client import connect

from bridge.consumer import Bridge
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.running import bound, serve
from fake_agent.steps import prompt
from http_server.kit import DEADLINE, Held, Json, Site, site_of, soon

pytestmark = pytest.mark.long

# More than the buffers of both ends of a connection take.
_MUCH = 64


@dataclass
class Server:
    port: int
    bridge: Bridge
    site: Site

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def prompted(self) -> int:
        return len(self.bridge.noted("session/prompt"))

    async def until(self, *, delivered: bool | None) -> None:
        """Until the last reply of some conversation is known to be delivered, or not."""

        def is_so() -> bool:
            model = self.bridge.model
            assert model is not None
            here = model._model.conversations()  # type: ignore[attr-defined]  # it is an agent's
            last = [each.journal.record.last for each in here]
            return any(reply and reply.is_delivered is delivered for reply in last)

        async def look() -> None:
            while not is_so():  # noqa: ASYNC110 - a record tells nobody
                await asyncio.sleep(0.01)

        await soon(look())


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    bridge = Bridge(tmp_path)
    bridge.chat()
    assert bridge.model is not None
    for site in site_of(Held(bridge.permissions, m=bridge.model), store=tmp_path / "state"):
        listening = bound("127.0.0.1", 0)
        port: int = listening.getsockname()[1]
        serving = asyncio.create_task(serve(site.service, AccessCheck(), listening))
        try:
            yield Server(port, bridge, site)
        finally:
            signal.raise_signal(signal.SIGTERM)
            await soon(serving)
            await bridge.close()


def _history(*words: str) -> list[Json]:
    """The user's words, each answered by the first one's step but the last."""
    return [
        {"role": role, "content": text} for role, text in zip(("user", "assistant") * 9, words, strict=False)
    ]


def _asking(path: str, words: list[Json], *, stream: bool) -> tuple[str, Json]:
    named = "input" if path == "/responses" else "messages"
    return path, {"model": "m", named: words, "stream": stream}


class Wire:
    """A connection of our own: what it reads, and when it closes, is up to the test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def asks(
        cls,
        server: Server,
        path: str,
        body: Json,
        *,
        buffer: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> Wire:
        plain = socket.socket()
        if buffer is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        plain.setblocking(False)  # noqa: FBT003 - as the library has it
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", server.port))
        wire = cls(*await asyncio.open_connection(sock=plain, limit=2**12))
        await wire.ask(server, path, body, headers)
        return wire

    async def ask(self, server: Server, path: str, body: Json, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        head = (
            f"POST /v1{path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
        )
        head += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self.writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        await soon(self.writer.drain())

    async def until(self, text: bytes) -> None:
        read = b""
        while text not in read:
            more = await soon(self.reader.read(2**12))
            assert more, read
            read += more

    def close(self) -> None:
        self.writer.transport.abort()


async def _post(server: Server, path: str, body: Json, **headers: str) -> tuple[str, str]:
    """The kind of a request, and all of its answer."""
    answered = await _answered(server, path, body, **headers)
    assert answered.status_code == 200, answered.text
    return answered.headers["x-dragoman-conversation"].rpartition("kind=")[2], answered.text


async def _answered(server: Server, path: str, body: Json, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=DEADLINE, trust_env=False) as client:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await soon(client.post(f"{server.url}{path}", json=body, headers=named))


async def _begun(server: Server) -> list[Json]:
    """A chat with one answer, which has arrived, and the words for another."""
    first = prompt(["say", "first"])
    await _post(server, "/chat/completions", {"model": "m", "messages": _history(first)})
    return _history(first, "first", prompt(["say", "second"]))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/responses", "/chat/completions"])
async def test_h15_regenerate_right_after_the_answer_asks_the_agent_again(
    server: Server, path: str, *, stream: bool
) -> None:
    words = await _begun(server)
    for number, kind in enumerate(("prompt", "fork", "fork")):
        answered = await _post(server, *_asking(path, words, stream=stream))
        assert answered[0] == kind
        assert "second" in answered[1]
        assert server.prompted == 2 + number


async def test_h15_a_client_that_closes_with_the_last_event_has_read_everything(server: Server) -> None:
    words = await _begun(server)
    wire = await Wire.asks(server, *_asking("/responses", words, stream=True))
    await wire.until(b"response.completed")
    # What follows, the end of the stream, is never read: the system resets the connection.
    wire.close()
    await server.until(delivered=True)
    assert (await _post(server, *_asking("/responses", words, stream=True)))[0] == "fork"


# What a client's library says of a request that it repeats.
_PROOFS: list[dict[str, str]] = [
    {"x_stainless_retry_count": "1"},
    {"idempotency_key": "mine"},
    {"idempotency_key": "mine", "x_stainless_retry_count": "1"},
]
_STEP: list[object] = [
    "update",
    {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Deploy", "kind": "execute"},
]


async def _cut(server: Server, path: str, *steps: list[object], stream: bool, key: str = "") -> list[Json]:
    """A request whose client leaves in the middle of the answer. The same again would be answered whole."""
    await _begun(server)
    words = _history(prompt(["say", "first"]), "first", prompt(*steps, ["gate", "on"], ["say", "whole"]))
    headers = {"idempotency-key": key} if key else {}
    wire = await Wire.asks(server, *_asking(path, words, stream=stream), headers=headers)
    await server.bridge.until_noted("begun")
    wire.close()
    await server.until(delivered=False)
    server.bridge.open_gate("on")
    return words


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/responses", "/chat/completions"])
@pytest.mark.parametrize("steps", [[], [_STEP]], ids=["it talked", "it acted"])
async def test_h15_after_stop_the_same_request_is_answered_whole_and_at_once(
    server: Server, path: str, steps: list[list[object]], *, stream: bool
) -> None:
    words = await _cut(server, path, *steps, ["say", "half, "], ["note", "begun"], stream=stream)
    kind, text = await _post(server, *_asking(path, words, stream=stream))
    assert (kind, "whole" in text, server.prompted) == ("fork", True, 3)
    # Regenerate once more, after an answer that has arrived.
    assert (await _post(server, *_asking(path, words, stream=stream)))[0] == "fork"


@pytest.mark.parametrize("proof", _PROOFS, ids="-".join)
async def test_h15_a_library_that_repeats_a_request_gets_a_whole_answer_of_an_agent_that_only_talked(
    server: Server, proof: dict[str, str]
) -> None:
    steps: list[list[object]] = [["think", "hm"], ["say", "half, "], ["note", "begun"]]
    words = await _cut(server, "/responses", *steps, stream=False, key=proof.get("idempotency_key", ""))
    path, body = _asking("/responses", words, stream=False)
    kind, text = await _post(server, path, body, **proof)
    assert (kind, "whole" in text, server.prompted) == ("fork", True, 3)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/responses", "/chat/completions"])
@pytest.mark.parametrize("proof", _PROOFS, ids="-".join)
async def test_h14_a_library_that_repeats_a_request_makes_no_agent_act_twice(
    server: Server, path: str, proof: dict[str, str], *, stream: bool
) -> None:
    key = proof.get("idempotency_key", "")
    words = await _cut(server, path, _STEP, ["say", "half"], ["note", "begun"], stream=stream, key=key)
    _, body = _asking(path, words, stream=stream)
    for _ in range(2):
        answered = await _answered(server, path, body, **proof)
        assert answered.headers["x-dragoman-conversation"].endswith("kind=retry")
        assert "was cut off" in answered.text
        assert "half" in answered.text
        for complete in ('"finish_reason":"stop"', '"status":"completed","background', "response.completed"):
            assert complete not in answered.text
        assert _is_failure(answered, is_stream=stream)
    assert server.prompted == 2
    # The user's own wish is another request.
    kind, text = await _post(server, path, body)
    assert (kind, "whole" in text, server.prompted) == ("fork", True, 3)


def _is_failure(answered: httpx2.Response, *, is_stream: bool) -> bool:
    if is_stream:
        return "response.failed" in answered.text or '"error":{' in answered.text
    if answered.status_code == 500:
        return answered.headers["x-should-retry"] == "false"
    return bool(answered.json()["status"] == "failed")


async def test_h14_an_approved_action_is_neither_lost_nor_said_to_be_done(server: Server) -> None:
    """The client approves it, and loses its connection before the agent acts."""
    call = {"toolCallId": "p", "title": "Run it", "kind": "execute"}
    steps = (["ask", call, ["allow_once", "reject_once"]], ["note", "begun"], ["gate", "on"], ["note", "ran"])
    path, items = "/chat/completions", {"x_dragoman_approvals": "items"}
    words = _history(prompt(*steps, ["say", "done"]))
    _, text = await _post(server, path, {"model": "m", "messages": words}, **items)
    message = json.loads(text)["choices"][0]["message"]
    yes = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": '{"approve": true}'}
    words += [message, yes]
    asked = {"model": "m", "messages": words}
    wire = await Wire.asks(server, path, asked, headers={"x-dragoman-approvals": "items"})
    await server.bridge.until_noted("begun")
    wire.close()
    await server.until(delivered=False)
    server.bridge.open_gate("on")
    answered = await _answered(server, path, asked, **items, x_stainless_retry_count="1")
    assert (answered.status_code, answered.headers["x-should-retry"]) == (500, "false")
    assert "was cut off" in answered.text
    assert (server.prompted, server.bridge.noted("ran")) == (1, [])
    # The user asks again: another agent goes on from the decision, and does not know of any result.
    kind, text = await _post(server, path, asked, **items)
    assert (kind, server.prompted) == ("fork", 2)
    transcript, words_of_user = json.loads(
        json.loads(text)["choices"][0]["message"]["content"].removeprefix("echo: ")
    )
    assert transcript.rstrip().endswith("User: [allowed: Run it]\n</conversation-so-far>")
    assert words_of_user == "Go on from where the conversation stopped."
    assert server.bridge.noted("ran") == []


async def test_h14_an_answer_that_failed_is_repeated_as_a_failure(server: Server) -> None:
    await _begun(server)
    words = _history(prompt(["say", "first"]), "first", prompt(["say", "half"], ["error", -32603, "on fire"]))
    asked = _asking("/chat/completions", words, stream=False)
    answers = [await _answered(server, *asked, idempotency_key="one") for _ in range(2)]
    kinds = [each.headers["x-dragoman-conversation"].rpartition("kind=")[2] for each in answers]
    assert (kinds, [each.status_code for each in answers], server.prompted) == (
        ["prompt", "retry"],
        [500, 500],
        2,
    )
    assert all("on fire" in each.text for each in answers)


async def test_h14_an_answer_that_never_left_for_want_of_reading_is_lost_and_is_repeated(
    server: Server,
) -> None:
    """The whole answer is there, and its client closes with most of it unread."""
    await _begun(server)
    steps = [["say", "x" * 2**16] for _ in range(_MUCH)]
    words = _history(prompt(["say", "first"]), "first", prompt(*steps))
    wire = await Wire.asks(server, *_asking("/chat/completions", words, stream=False), buffer=2**12)
    await wire.until(b"200 OK")
    await server.bridge.until_idle()
    wire.close()
    await server.until(delivered=False)
    kind, text = await _post(server, *_asking("/chat/completions", words, stream=False))
    assert (kind, server.prompted) == ("retry", 2)
    assert text.count("x") >= 2**16 * _MUCH


async def test_h15_a_slow_reader_has_the_answer_when_the_last_byte_has_left(server: Server) -> None:
    await _begun(server)
    steps = [["say", "x" * 2**16] for _ in range(_MUCH)]
    words = _history(prompt(["say", "first"]), "first", prompt(*steps))
    wire = await Wire.asks(server, *_asking("/chat/completions", words, stream=False), buffer=2**12)
    await wire.until(b"200 OK")
    await wire.until(b'"finish_reason"')
    await server.until(delivered=True)
    wire.close()
    assert (await _post(server, *_asking("/chat/completions", words, stream=False)))[0] == "fork"


async def test_h15_on_the_same_connection_the_next_request_is_the_proof(server: Server) -> None:
    words = await _begun(server)
    path, body = _asking("/chat/completions", words, stream=True)
    wire = await Wire.asks(server, path, body)
    for kind in (b"kind=prompt", b"kind=fork", b"kind=fork"):
        await wire.until(kind)
        await wire.until(b"[DONE]\n\n\r\n0\r\n\r\n")
        await wire.ask(server, path, body)
    await wire.until(b"[DONE]")
    wire.close()
    assert server.prompted == 5


async def test_h14_the_same_key_is_the_same_request_and_another_is_another(server: Server) -> None:
    first = prompt(["say", "first"])
    path, body = _asking("/responses", _history(first), stream=False)
    kinds = [
        (await _post(server, path, body, idempotency_key=key))[0]
        for key in ("one", "one", "two", "one", "two")
    ]
    assert kinds == ["fresh", "retry", "fresh", "retry", "retry"]
    assert server.prompted == 2


async def test_h14_the_clients_library_repeats_a_request_and_gets_the_same_answer(server: Server) -> None:
    """Its transport loses the first answer to the second request, whole as it was."""
    transport = _Losing()
    client = openai.AsyncOpenAI(
        base_url=server.url,
        api_key="none",
        max_retries=2,
        http_client=httpx2.AsyncClient(transport=transport, timeout=DEADLINE),
    )
    words = await _begun(server)
    transport.loses = 2
    answered = await soon(client.responses.create(model="m", input=words))  # type: ignore[arg-type]
    assert (answered.output_text, server.prompted, transport.lost) == ("second", 2, ["0", "1"])
    # A new call of the client's is a new request.
    await soon(client.responses.create(model="m", input=words))  # type: ignore[arg-type]
    assert server.prompted == 3
    await client.close()


class _Losing(httpx2.AsyncHTTPTransport):
    loses = 0

    def __init__(self) -> None:
        super().__init__(trust_env=False)
        self.lost: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if len(self.lost) < self.loses:
            await response.aread()
            self.lost.append(request.headers["x-stainless-retry-count"])
            raise httpx2.ReadError("lost", request=request)
        return response


async def test_h15_over_a_websocket_regenerate_asks_again(server: Server) -> None:
    words = await _begun(server)
    body = {"type": "response.create", "model": "m", "input": words}
    async with connect(f"ws://127.0.0.1:{server.port}/v1/responses", proxy=None) as ws:
        for prompted in (2, 3):
            await ws.send(json.dumps(body))
            async for event in ws:
                if json.loads(event)["type"] == "response.completed":
                    break
            assert server.prompted == prompted


async def test_h15_after_a_socket_that_is_lost_in_the_middle_the_same_request_is_answered_whole(
    server: Server,
) -> None:
    await _begun(server)
    steps = (["say", "half"], ["gate", "on"], ["say", "whole"])
    half = _history(prompt(["say", "first"]), "first", prompt(*steps))
    async with connect(f"ws://127.0.0.1:{server.port}/v1/responses", proxy=None) as ws:
        await ws.send(json.dumps({"type": "response.create", "model": "m", "input": half}))
        async for event in ws:
            if "half" in str(event):
                break
        ws.transport.abort()
        with pytest.raises(websockets.ConnectionClosed):
            await ws.recv()
    await server.until(delivered=False)
    server.bridge.open_gate("on")
    kind, text = await _post(server, *_asking("/responses", half, stream=True))
    assert (kind, "whole" in text) == ("fork", True)


async def test_h15_a_background_response_is_delivered_when_it_was_accepted(server: Server) -> None:
    words = await _begun(server)
    path, body = _asking("/responses", words, stream=False)
    async with httpx2.AsyncClient(timeout=DEADLINE, trust_env=False, base_url=server.url) as client:
        for prompted in (2, 3):
            accepted = (await soon(client.post(path, json={**body, "background": True}))).json()
            # Its events end with it.
            await soon(client.get(f"/responses/{accepted['id']}", params={"stream": "true"}))
            assert server.prompted == prompted


@pytest.mark.parametrize(
    "header", ["x-openwebui-chat-id", "thread-id", "conversation_id", "session_id", "x-session-affinity"]
)
async def test_h12_the_id_that_a_known_client_sends_tells_its_chats_apart(
    server: Server, header: str
) -> None:
    """The agent thinks, so that equal chats could not go on without an id."""
    first = prompt(["think", "hm"], ["say", "first"])
    second = _history(first, "first", prompt(["say", "second"]))
    ids = ("a", "b")
    async with httpx2.AsyncClient(timeout=DEADLINE, trust_env=False, base_url=server.url) as client:

        async def ask(words: list[Json], **headers: str) -> tuple[str, str]:
            body = {"model": "m", "messages": words}
            answered = await soon(client.post("/chat/completions", json=body, headers=headers))
            conversation, evidence, _ = answered.headers["x-dragoman-conversation"].split("; ")
            return conversation, evidence

        begun = [await ask(_history(first), **{header: id_}) for id_ in ids]
        went = [await ask(second, **{header: id_}) for id_ in ids]
        assert [each for each, _ in went] == [each for each, _ in begun]
        assert {evidence for _, evidence in went} == {"evidence=consumer_id"}
        # An id of the user's own counts more, and what is no id counts nothing.
        other = await ask(second, **{header: "a", "x-conversation-id": "mine"})
        assert other[1] == "evidence=none"
        assert (await ask(_history(first), **{header: "x" * 600}))[1] == "evidence=none"


async def test_r9_a_known_clients_id_never_conflicts_with_another(server: Server) -> None:
    async with httpx2.AsyncClient(timeout=DEADLINE, trust_env=False, base_url=server.url) as client:
        body = {"model": "m", "input": prompt(["say", "first"])}
        headers = {"thread-id": "one"}
        first = (await soon(client.post("/responses", json=body, headers=headers))).json()
        for headers in ({"thread-id": "two"}, {"x-conversation-id": "three"}):
            more = {"model": "m", "input": prompt(["say", "more"]), "previous_response_id": first["id"]}
            answered = await soon(client.post("/responses", json=more, headers=headers))
            assert answered.status_code == 200, answered.text


async def test_h12_equal_chats_go_on_with_the_agents_they_have(server: Server) -> None:
    """Without any id: chats that begin alike, and go on at the same moment."""
    first, second = prompt(["say", "first"]), prompt(["say", "second"])
    chats = 6
    begun = [_asking("/chat/completions", _history(first), stream=True) for _ in range(chats)]
    await asyncio.gather(*(_post(server, *each) for each in begun))
    agents = len(server.bridge.noted("session/new"))
    more = [_asking("/chat/completions", _history(first, "first", second), stream=True) for _ in range(chats)]
    kinds = [kind for kind, _ in await asyncio.gather(*(_post(server, *each) for each in more))]
    assert kinds == ["prompt"] * chats
    assert len(server.bridge.noted("session/new")) == agents == chats


@pytest.mark.parametrize("proof", _PROOFS, ids="-".join)
async def test_h14_a_retry_of_another_answer_gets_that_answer_and_asks_no_agent(
    server: Server, proof: dict[str, str]
) -> None:
    words = await _begun(server)
    path, body = _asking("/chat/completions", words, stream=False)
    await _post(server, path, body)
    key = {name: value for name, value in proof.items() if name == "idempotency_key"}
    wanted = await _answered(server, path, body, **key)
    again = await _answered(server, path, body, **proof)
    fork = wanted.headers["x-dragoman-conversation"].partition(";")[0]
    assert again.headers["x-dragoman-conversation"] == f"{fork}; evidence=prefix; kind=retry"
    assert server.prompted == 3


@pytest.mark.parametrize("proof", _PROOFS, ids="-".join)
async def test_h14_a_library_that_repeats_an_edited_request_makes_no_agent_act_twice(
    server: Server, proof: dict[str, str]
) -> None:
    _, text = await _post(server, "/responses", {"model": "m", "input": prompt(["say", "first"])})
    before: Json = {"model": "m", "previous_response_id": json.loads(text)["id"]}
    await _post(server, "/responses", {**before, "input": prompt(["say", "second"])})
    body: Json = {**before, "input": prompt(_STEP, ["say", "half"], ["note", "begun"], ["gate", "on"])}
    key = {"idempotency-key": "mine"} if "idempotency_key" in proof else {}
    wire = await Wire.asks(server, "/responses", body, headers=key)
    await server.bridge.until_noted("begun")
    wire.close()
    await server.until(delivered=False)
    server.bridge.open_gate("on")
    answered = await _answered(server, "/responses", body, **proof)
    assert "was cut off" in answered.text
    assert answered.headers["x-dragoman-conversation"].endswith("evidence=marker; kind=retry")
    assert server.prompted == 3
