"""`dragoman check` for an endpoint: the model keeps every rule, without the guard."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.checker.event_rules import EVENT_RULES
from dragoman.checker.probes import PROBE_TOOL
from dragoman.cli import main
from dragoman.frontends.http.resource import Resource
from dragoman.frontends.http.stream import ResponseStream
from dragoman.lm import JsonObject, Part, TextPart, ThinkingPart, ToolCallPart
from responses.endpoint import Asked, Endpoint, Reply, endpoint, json_reply, said, sse


def _events(*parts: Part) -> Iterator[JsonObject]:
    """In order, with all that belongs to each, as a server should."""
    stream = ResponseStream(Resource("resp_1", "m", 1), reasoning="openai")
    yield from stream.begin()
    for part in parts:
        yield from stream.take(part)
    yield from stream.complete(2)


def _model(asked: Asked) -> Reply:
    """Thinks, calls a tool when there is one and no result yet, and counts slowly when asked to count."""
    body = asked.json
    if "model" not in body:
        error = {"message": "Which one?", "type": "invalid_request", "param": "model", "code": "missing"}
        return json_reply({"error": error}, 400)
    last = body["input"][-1]
    thought = ThinkingPart("Hm.")
    if body.get("tools") and last["type"] == "message":
        # Counted anew in every response, as some servers do.
        call = ToolCallPart("call_0", PROBE_TOOL, {"town": "Izmir"})
        return Reply((sse(*_events(thought, call), done=True),))
    content = last.get("content", "")
    text = content if isinstance(content, str) else content[0]["text"]
    if "Count" in text:
        return Reply((sse(*said("one, ", "two, ", "three")[:-1]),), then="hold")
    answer = (TextPart("You said: "), TextPart(text or "nothing."))
    return Reply((sse(*_events(thought, *answer), done=True),))


@pytest.fixture
def served() -> Iterator[Endpoint]:
    """In a thread of its own: the command has a loop of its own."""
    ready, found = threading.Event(), []
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with endpoint() as each:
            each.answer = _model
            found.append(each)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    yield found[0]
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


def test_an_endpoint_keeps_the_rules(
    served: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "sk-secret-of-the-test")
    file = tmp_path / "dragoman.toml"
    file.write_text(
        f'[models.gateway]\nkind = "responses"\nbase_url = "{served.url}"\nmodel = "m"\napi_key = "$GATEWAY_KEY"\n'
    )
    status = main(["--config", str(file), "check", "gateway"])
    shown = capsys.readouterr()
    assert status == 0, shown.out
    assert "0 failed" in shown.out
    for rule in ("S4.unique", "S5", "S6", "S7", "S8", "S10", "T14", *EVENT_RULES):
        (row,) = [line for line in shown.out.splitlines() if line.startswith(f"{rule} ")]
        assert "pass" in row
    assert "Without an answer" not in shown.out
    assert {asked.headers["authorization"] for asked in served.posts} == {"Bearer sk-secret-of-the-test"}
    assert "sk-secret" not in shown.out + shown.err


def test_r7_an_endpoint_whose_events_are_out_of_order_fails_though_its_answers_can_be_read(
    served: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served.answer = lambda _asked: Reply((sse(*said("Hello."), done=True),))
    assert main(["check", served.url, "--model", "m", "--state-dir", str(tmp_path)]) == 1
    parts, events = capsys.readouterr().out.split("and the rules for events")
    assert "0 failed" in parts
    (row,) = [line for line in events.splitlines() if line.startswith("E3 ")]
    assert "FAIL" in row
    assert "comes before the beginning" in row
