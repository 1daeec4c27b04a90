"""An HTTP client with a key of its own, against the server and its other clients."""

import base64
import json
import logging
import zlib
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge.consumer import Bridge, result
from dragoman.config import load
from dragoman.lm.nesting import INPUT_LEVELS
from dragoman.models import Models
from http_server.kit import Held, scripted, site_of
from security.compaction_bombs import BOMBS, explode

# A server that has just started takes 50 to 60 MB. What a request may hold, unpacked and scanned, comes to this.
_MOST_MEGABYTES = 400


@pytest.mark.long
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_request_with_a_large_compaction_is_refused_and_its_memory_given_back(bomb: str) -> None:
    cost = explode(bomb)
    assert cost.sent < 1_000_000
    assert cost.status == 413
    assert cost.peak < _MOST_MEGABYTES
    assert cost.after < cost.before + 50


_DEEP = '{"a":' * 500 + "1" + "}" * 500
_CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": _DEEP}
_CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": _DEEP}}


def _compaction() -> str:
    return (
        "dg1."
        + base64.urlsafe_b64encode(zlib.compress(f'[{{"type":"message","x":{_DEEP}}}]'.encode())).decode()
    )


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/v1/responses", {"input": [{"role": "user", "content": "x"}, _CALL]}, "input[1].arguments"),
        (
            "/v1/responses",
            {"input": [{"type": "compaction", "encrypted_content": _compaction()}]},
            "input[0]",
        ),
        (
            "/v1/responses",
            {"input": "x", "tools": [{"parameters": json.loads(_DEEP)}]},
            "tools[0].parameters",
        ),
        (
            "/v1/chat/completions",
            {
                "messages": [
                    {"role": "user", "content": "x"},
                    {"role": "assistant", "tool_calls": [_CHAT_CALL]},
                ]
            },
            "messages[1].tool_calls[0].function.arguments",
        ),
    ],
)
async def test_json_that_is_nested_too_deeply_is_refused_with_its_place(
    path: str, body: dict[str, object], place: str
) -> None:
    with contextmanager(site_of)(Held(m=scripted("Yes."))) as made:
        answered = await made.post(path, {"model": "m", **body})
    assert (answered.status, answered.error["code"]) == (400, "nested_too_deeply")
    assert answered.error["param"] == place
    assert "levels deep" in answered.error["message"]


async def test_what_is_as_deep_as_may_be_is_served_by_a_model_and_an_agent(bridge: Bridge) -> None:
    deep = json.loads('{"a":' * INPUT_LEVELS + "1" + "}" * INPUT_LEVELS)
    chat = bridge.chat()
    [call] = (await chat.do(["call", "look", deep])).calls
    assert call.input == deep
    answer = await chat.give(result(call, "seen"))
    assert "<look returned: seen>" in answer.text
    assert await chat.echo(), "its history is taken as well"


async def test_an_unknown_model_says_nothing_of_the_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "dragoman.toml").write_text('[models.tape]\nkind = "script"\npath = "tape.jsonl"\n')
    models = Models(load(tmp_path / "dragoman.toml"))
    with contextmanager(site_of)(models) as made:
        answers = [
            await made.post(path, {"model": "gone", name: said})
            for path, name, said in (
                ("/v1/responses", "input", "x"),
                ("/v1/chat/completions", "messages", [{"role": "user", "content": "x"}]),
            )
        ]
        answers.append(await made.get("/v1/models/gone"))
    for answered in answers:
        assert (answered.status, answered.error["code"]) == (404, "model_not_found")
        assert "dragoman.toml" not in answered.error["message"]
        assert str(tmp_path) not in answered.error["message"]
    assert "dragoman.toml" in caplog.text, "the operator sees where it was looked for"
    await models.close()
