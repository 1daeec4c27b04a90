"""What `dragoman vscode` writes, byte for byte as the extension reads it: each kind of part, and the list of models."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

_TEXTS = ("# Markdown\n\n```py\nx\n```\n", "naïve 日本語 🎈 ", "a\r\nb")
_PNG = b"\x89PNG"
_STEPS = (
    {"think": "hm"},
    *({"say": text} for text in _TEXTS),
    {"image": base64.b64encode(_PNG).decode()},
    {"data": {"a": [1]}},
    {"data": "a,b", "mimeType": "text/csv"},
    {"call": "read_file", "input": {"path": "é.txt"}, "callId": "dg_c1"},
)
_CONFIG = """
[models.tape]
kind = "script"
path = "tape.jsonl"
name = "The tape"
max_input_tokens = 1000
max_output_tokens = 100

[models.agent]
kind = "acp"
command = ["no-such-agent"]
"""


@dataclass(frozen=True)
class _Said:
    models: list[dict[str, Any]]
    parts: list[dict[str, Any]]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> _Said:
    folder = tmp_path_factory.mktemp("wire")
    (folder / "dragoman.toml").write_text(_CONFIG)
    (folder / "tape.jsonl").write_text(json.dumps({"do": _STEPS}) + "\n")
    config = ("--config", str(folder / "dragoman.toml"), "--state-dir", str(folder / "state"))
    command = (sys.executable, "-m", "dragoman", *config, "vscode")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        features = {"thinking": True, "data": True}
        asked = [
            ("initialize", {"protocolVersion": 1, "client": {"name": "test"}, "features": features}),
            ("lm/provideLanguageModelChatInformation", {"silent": True}),
            (
                "lm/provideLanguageModelChatResponse",
                {
                    "modelId": "tape",
                    "messages": [{"role": "user", "content": [{"type": "text", "value": "Go."}]}],
                    "options": {"tools": [{"name": "read_file", "description": "Reads.", "inputSchema": {}}]},
                },
            ),
        ]
        results: dict[int, Any] = {}
        parts = []
        for number, (method, params) in enumerate(asked):
            line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            while number not in results:
                message = json.loads(process.stdout.readline())
                assert "error" not in message, message
                if message.get("method") == "lm/responsePart":
                    assert message["params"]["requestId"] == number
                    parts.append(message["params"]["part"])
                elif "result" in message:
                    results[message["id"]] = message["result"]
        process.stdin.close()
    return _Said(results[1]["models"], parts)


def _of(said: _Said, kind: str) -> list[dict[str, Any]]:
    return [part for part in said.parts if part["type"] == kind]


def test_text_is_any_unicode_and_passes_unchanged(said: _Said) -> None:
    # Behind them, data that cannot be shown has a line of text that says so.
    spoken = [part for part in said.parts[: said.parts.index(_of(said, "data")[0])] if part["type"] == "text"]
    assert "".join(part["value"] for part in spoken) == "".join(_TEXTS)
    assert all(part.keys() == {"type", "value"} for part in spoken)


def test_thinking_is_a_part_of_its_own(said: _Said) -> None:
    [thought] = _of(said, "thinking")
    assert thought["value"] == "hm"


def test_a_call_has_id_name_and_input(said: _Said) -> None:
    [call] = _of(said, "tool_call")
    assert call == {"type": "tool_call", "callId": "dg_c1", "name": "read_file", "input": {"path": "é.txt"}}
    assert said.parts[-1] == call


def test_data_is_an_image_a_json_value_or_a_text_with_its_type(said: _Said) -> None:
    found = [(part["mimeType"], base64.b64decode(part["data"])) for part in _of(said, "data")]
    assert found == [("image/png", _PNG), ("application/json", b'{"a":[1]}'), ("text/csv", b"a,b")]


def test_a_model_says_what_it_is_and_what_it_can_do(said: _Said) -> None:
    models = {model["id"]: model for model in said.models}
    tape, agent = models["tape"], models["agent"]
    assert (tape["id"], tape["name"], tape["maxInputTokens"], tape["maxOutputTokens"]) == (
        *("tape", "The tape"),
        *(1000, 100),
    )
    for model in (tape, agent):
        assert {"id", "name", "family", "version", "maxInputTokens", "maxOutputTokens"} <= model.keys()
    assert agent["capabilities"] == {"toolCalling": True, "imageInput": True}
