"""Recording: everything that goes over the wire, at once, for its owner alone, and without secrets."""

from __future__ import annotations

import errno
import logging
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from devtools.traces.reading import connections, method_of, parse_trace, read_trace
from hypothesis import given, strategies as st

from dragoman.cleaning import Cleaning
from dragoman.cli import main
from dragoman.cli.parser import parse
from dragoman.jsonrpc import Incoming, Notification, Peer, PeerOptions
from dragoman.lm import JsonObject
from dragoman.lm.json import encode, encode_text
from dragoman.logs import Redaction
from dragoman.traces.recording import Recording, recording_to, watch
from memory_peers import memory_pair

_TICKET = "uG3n9wP0sV_x7-QeTzL1"


class _Answering:
    """Answers every request with its method."""

    def connected(self, peer: Peer) -> None:
        self.peer = peer

    def request(self, incoming: Incoming) -> None:
        incoming.reply({"said": incoming.method})

    def notification(self, notification: Notification) -> None:
        pass

    def closed(self, reason: str) -> None:
        pass


def _message(**params: object) -> JsonObject:
    return {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}


def _cleaned(message: JsonObject, *secrets: str) -> str:
    redaction = Redaction()
    redaction.add(secrets)
    return encode_text(Cleaning(redaction).message(message))


# What is recorded.


async def test_every_frame_of_both_directions_in_the_order_of_the_wire(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    with recording_to(file, Redaction()):
        for name in ("one", "two"):
            options = PeerOptions(name=name, watch=watch(name, {}))
            ours, theirs = memory_pair(_Answering(), _Answering(), options)
            await ours.request("ask", {"a": 1})
            ours.notify("tell")
            await theirs.request("back")
            theirs.stream.write(b"not json\n")
            theirs.notify("last")
            await theirs.request("end")
            # What went out is in the file before anything is closed.
            assert read_trace(file)[-1].message == {"jsonrpc": "2.0", "id": 2, "result": {"said": "end"}}
            ours.close()
            await ours.wait_closed()
    one, two = connections(read_trace(file)).values()
    assert [frame.message for frame in one] == [frame.message for frame in two]
    assert [(frame.direction, method_of(frame) or frame.text or "reply") for frame in one] == [
        ("c2a", "ask"),
        ("a2c", "reply"),
        ("c2a", "tell"),
        ("a2c", "back"),
        ("c2a", "reply"),
        ("a2c", "not json"),
        ("a2c", "last"),
        ("a2c", "end"),
        ("c2a", "reply"),
    ]
    assert [frame.at for frame in (*one, *two)] == sorted(frame.at for frame in (*one, *two))


def test_nothing_is_watched_when_nothing_is_recorded(tmp_path: Path) -> None:
    assert watch("x", {}) is None
    with recording_to(tmp_path / "a", Redaction()):
        assert watch("x", {}) is not None
    assert watch("x", {}) is None


def test_a_file_for_its_owner_alone_and_what_it_had_stays(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text("")
    file.chmod(0o644)
    for _ in range(2):
        with recording_to(file, Redaction()):
            seen = watch("x", {})
            assert seen is not None
            seen("out", b'{"method":"m"}\n')
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(read_trace(file)) == 2


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"), recording_to(tmp_path, Redaction()):
        pass
    assert watch("x", {}) is None


_KILLED = """
import os, sys, signal
from pathlib import Path
from dragoman.logs import Redaction
from dragoman.traces.recording import recording_to, watch
with recording_to(Path(sys.argv[1]), Redaction()):
    watch("x", {})("out", b'{"method":"m"}')
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_process_that_is_killed_has_said_is_there(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    ended = subprocess.run([sys.executable, "-c", _KILLED, str(file)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert [method_of(frame) for frame in read_trace(file)] == ["m"]


def test_a_recording_ends_at_its_limit_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    written: list[bytes] = []
    seen = Recording(written.append, Redaction(), max_bytes=250).watch("x", {})
    for _ in range(9):
        seen("in", b'{"method":"m"}')
    assert 0 < len(b"".join(written)) <= 250
    assert parse_trace(b"".join(written))
    assert [record.getMessage() for record in caplog.records] == [
        "nothing more is recorded: it has grown too large"
    ]


def test_a_disk_that_is_full_ends_the_recording_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    def write(_line: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    seen = Recording(write, Redaction()).watch("x", {})
    seen("in", b"{}")
    seen("in", b"{}")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "nothing more is recorded: No space left on device")
    ]


@pytest.mark.parametrize(
    "line", [b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"", b"[1]", b'{"a": "\\ud83d"}']
)
def test_whatever_comes_is_recorded(line: bytes) -> None:
    written: list[bytes] = []
    Recording(written.append, Redaction()).watch("x", {})("in", line)
    assert len(parse_trace(b"".join(written))) == 1


# What is not.


@given(st.text(min_size=6, max_size=30), st.text(max_size=10), st.text(max_size=10))
def test_a_secret_of_the_configuration_is_nowhere(secret: str, before: str, after: str) -> None:
    text = f"{before}{secret}{after}"
    written: list[bytes] = []
    redaction = Redaction()
    redaction.add([secret])
    seen = Recording(written.append, redaction).watch("x", {})
    seen("in", encode({"method": text, "params": {text: [text, {"x": text}]}}))
    seen("in", text.replace("\n", " ").encode("utf-8", "replace"))
    (frame, *_) = parse_trace(b"".join(written))
    assert secret not in str(method_of(frame))
    assert frame.message is not None
    assert all(secret not in each for each in _strings(frame.message["params"]))


def _strings(value: object) -> list[str]:
    match value:
        case dict():
            return [text for each in (*value, *value.values()) for text in _strings(each)]
        case list():
            return [text for each in value for text in _strings(each)]
        case str():
            return [value]
        case _:
            return []


def test_the_ticket_of_a_tool_server_is_taken_out_there_and_wherever_it_comes_again() -> None:
    token = "t0ken-that-nobody-guesses-x"
    redaction = Redaction()
    cleaning = Cleaning(redaction)
    http = {
        "type": "http",
        "name": "dg-1",
        "url": f"http://127.0.0.1:4711/{_TICKET}/mcp",
        "headers": [{"name": "Authorization", "value": f"Bearer {token}"}],
    }
    stdio = {"name": "dg-2", "command": "python", "args": [], "env": [{"name": "X", "value": "other-ticket"}]}
    first = encode_text(cleaning.message(_message(cwd="/w", mcpServers=[http, stdio])))
    assert "http://127.0.0.1:4711/[redacted]/mcp" in first
    assert "dg-1" in first
    for secret in (_TICKET, token, "other-ticket"):
        assert secret not in first
        # An agent that tells of it.
        again: JsonObject = {"method": "log", "params": {"text": f"connecting with {secret}!"}}
        assert cleaning.message(again) == {
            "method": "log",
            "params": {"text": "connecting with [redacted]!"},
        }


@pytest.mark.parametrize(
    "message",
    [
        _message(apiKey="abc123"),
        _message(nested={"ACCESS_TOKEN": "abc123"}),
        _message(env=[{"name": "ANY", "value": "abc123"}]),
        _message(list=[{"name": "X-Api-Key", "value": "abc123"}]),
        _message(text="curl -H 'Authorization: Bearer abc123.xyz'"),
        _message(text="found sk-abc123abc123abc123abc123 in .env"),
        _message(text="ghp_abc123abc123abc123abc123"),
    ],
)
def test_what_is_called_a_secret_or_looks_like_one(message: JsonObject) -> None:
    cleaned = _cleaned(message)
    assert "abc123" not in cleaned
    assert "[redacted]" in cleaned


@pytest.mark.parametrize(
    "message",
    [
        _message(usage={"totalTokens": 220, "inputTokens": 200}),
        _message(options=[{"optionId": "allow_once", "name": "Allow", "value": "x"}]),
        _message(text="The bearer of this token may skip the risk-free task-list."),
        {"id": 1, "result": {"sessionId": "01a1e096-51dc-7dd0-aed9-40fe5d94cec4"}},
    ],
)
def test_what_only_sounds_like_one_stays(message: JsonObject) -> None:
    assert _cleaned(message) == encode_text(message)


def test_secrets_of_the_agents_environment_are_known() -> None:
    written: list[bytes] = []
    environment = {"SOME_API_KEY": "value-of-it", "MODE": "read-only", "GH_TOKEN": "another-one"}
    seen = Recording(written.append, Redaction()).watch("x", environment)
    seen("in", encode({"params": "value-of-it another-one read-only"}))
    (frame,) = parse_trace(b"".join(written))
    assert frame.message == {"params": "[redacted] [redacted] read-only"}


# The command line.


def test_a_recording_that_cannot_be_written_is_said_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--record", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert shown.err == f"dragoman: the recording {tmp_path} cannot be written: Is a directory.\n"
    assert shown.out == ""


def test_the_option_stands_before_and_after_the_command() -> None:
    for line in (["--record", "f", "chat"], ["chat", "--record", "f"]):
        assert parse(line, {})[1].record == Path("f")
    assert parse(["chat"], {})[1].record is None
