"""`dragoman check` for an endpoint: the model keeps every rule, without the guard."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.lm.probes import PROBE_TOOL
from responses.endpoint import Asked, Endpoint, Reply, endpoint, said, sse, whole


def _model(asked: Asked) -> Reply:
    """Thinks, calls a tool when there is one and no result yet, and counts slowly when asked to count."""
    body = asked.json
    last = body["input"][-1]
    thought = {"type": "response.reasoning_text.delta", "item_id": "rs", "output_index": 9, "delta": "Hm."}
    if body.get("tools") and last["type"] == "message":
        item = {
            "type": "function_call",
            "id": "fc_0",
            # Counted anew in every response, as some servers do.
            "call_id": "call_0",
            "name": PROBE_TOOL,
            "arguments": json.dumps({"town": "Izmir"}),
        }
        done = {"type": "response.output_item.done", "output_index": 0, "item": item}
        return Reply(
            (sse(thought, done, {"type": "response.completed", "response": whole("completed", item)}),)
        )
    content = last.get("content", "")
    text = content if isinstance(content, str) else content[0]["text"]
    if "Count" in text:
        return Reply((sse(*said("one, ", "two, ", "three")[:-1]),), then="hold")
    return Reply((sse(thought, *said("You said: ", text or "nothing."), done=True),))


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
    for rule in ("S4.unique", "S5", "S6", "S7", "S8", "S10", "T14"):
        (row,) = [line for line in shown.out.splitlines() if line.startswith(f"{rule} ")]
        assert "pass" in row
    assert "Without an answer" not in shown.out
    assert {asked.headers["authorization"] for asked in served.posts} == {"Bearer sk-secret-of-the-test"}
    assert "sk-secret" not in shown.out + shown.err
