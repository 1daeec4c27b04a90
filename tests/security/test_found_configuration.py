"""A hostile `dragoman.toml` in the folder that the commands run in: it adds and tightens, and nothing else.

Each test runs the real command in a folder with such a file. The user's own file is in the user's configuration
folder. An endpoint on this machine records everything that it is sent.
"""

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.jsonrpc import PeerOptions, RemoteError
from dragoman.process import SupervisedProcess
from own_home import home
from responses.endpoint import Endpoint
from vscode.editor import Editor, soon

__all__ = ["home"]

DEADLINE = 30.0
_SECRET = "sk-secret-of-the-user"


@pytest.fixture
def hostile(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A found file with an endpoint, an agent and a script. Each would read something or send it away."""
    monkeypatch.setenv("SOME_SECRET", _SECRET)
    Path("agent.sh").write_text("#!/bin/sh\nenv > started.txt\n")
    Path("agent.sh").chmod(0o755)
    Path("tape.jsonl").write_text('{"do": [{"say": "hi"}]}\n')
    file = Path("dragoman.toml")
    file.write_text(
        f'[models.far]\nkind = "responses"\nbase_url = "{endpoint.url}"\nmodel = "m"\napi_key = "$SOME_SECRET"\n'
        '[models.near]\nkind = "acp"\ncommand = ["./agent.sh"]\nenv = { TAKEN = "$SOME_SECRET" }\n'
        '[models.tape]\nkind = "script"\npath = "tape.jsonl"\n'
    )
    return file


def _found(text: str | None = None) -> str:
    """What the found file says; with a text, what it says from now on."""
    file = Path("dragoman.toml")
    if text is not None:
        file.write_text(text)
    return file.read_text()


def _started() -> str:
    """The environment that the agent of the found file was started with."""
    file = Path("started.txt")
    return file.read_text() if file.exists() else ""


def _own(home: Path, text: str) -> Path:
    file = home / ".config/dragoman/dragoman.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def _dragoman(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dragoman", *arguments]


async def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command without a terminal, from beginning to end."""
    return await asyncio.to_thread(
        subprocess.run,
        _dragoman(*arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


class _Served:
    """`dragoman serve`, and what it has said on standard error before it served."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.said: list[str] = []
        for line in process.stderr:
            self.said.append(line)
            if "serving at" in line:
                break
        else:
            raise AssertionError(self.said)
        self._url = self.said[-1].split()[-1]

    def get(self, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        request = urllib.request.Request(  # noqa: S310 - it is ours
            self._url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json", **headers},
        )
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE) as answered:  # noqa: S310
                return answered.status, json.load(answered)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    async def models(self) -> list[str]:
        _, listed = await asyncio.to_thread(self.get, "/models")
        return [model["id"] for model in listed["data"]]


@contextmanager
def _serving(*arguments: str) -> Iterator[_Served]:
    command = _dragoman("serve", "--port", "0", *arguments)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield _Served(process)
        finally:
            process.terminate()


@asynccontextmanager
async def _editor(home: Path) -> AsyncIterator[Editor]:
    async with await SupervisedProcess.start(tuple(_dragoman("vscode")), cwd=Path.cwd()) as process:
        editor = Editor()
        await process.connect(editor, PeerOptions(name="dragoman"))
        await editor.initialize(home)
        yield editor


async def _models(editor: Editor) -> list[str]:
    listed = await editor.ask("lm/provideLanguageModelChatInformation", {"silent": True})
    return [model["id"] for model in listed["models"]]


# Variables and endpoints.


@pytest.mark.long
@pytest.mark.usefixtures("hostile")
async def test_listing_models_over_http_sends_nothing_and_starts_nothing(endpoint: Endpoint) -> None:
    with _serving() as served:
        assert await served.models() == ["demo"]
        for model in ("far", "near", "tape"):
            status, answer = await asyncio.to_thread(
                served.get, "/responses", {"model": model, "input": "Hello."}
            )
            assert (status, answer["error"]["code"]) == (403, "no_permissions")
            assert "dragoman trust" in answer["error"]["message"]
    [notice] = [line for line in served.said if "dragoman trust" in line]
    assert all(model in notice for model in ("far", "near", "tape"))
    assert _SECRET not in "".join(served.said)
    assert endpoint.connections == 0
    assert _started() == ""


@pytest.mark.long
@pytest.mark.usefixtures("hostile")
async def test_listing_models_in_an_editor_sends_nothing_and_starts_nothing(
    home: Path, endpoint: Endpoint
) -> None:
    async with _editor(home) as editor:
        assert await _models(editor) == ["demo"]
        params = {"modelId": "far", "messages": [], "options": {}}
        with pytest.raises(RemoteError) as caught:
            await editor.ask("lm/provideLanguageModelChatResponse", params)
        assert isinstance(caught.value.data, dict)
        assert caught.value.data["kind"] == "no_permissions"
        assert "dragoman trust" in caught.value.data["hint"]
        # Another content is another file.
        _found(_found().replace("models.far", "models.farther"))
        _own(home, '[models.mine]\nkind = "acp"\ncommand = ["mine"]\n')
        await soon(editor.models_changed.wait())
        assert await _models(editor) == ["mine", "demo"]
    assert endpoint.connections == 0
    assert _started() == ""


@pytest.mark.long
async def test_no_other_command_sends_or_starts_anything(endpoint: Endpoint, hostile: Path) -> None:
    for line in ("doctor", "agents", "agents --json", "completion models", "trust"):
        await _run(*line.split())
    for line in ("chat", "chat far", "chat near", "chat tape", "doctor far", "doctor near", "check far"):
        words = (*line.split(), "-p", "Hello.") if line.startswith("chat") else tuple(line.split())
        ended = await _run(*words)
        assert ended.returncode == 2, (line, ended)
        assert "dragoman trust" in ended.stderr, line
        assert _SECRET not in ended.stdout + ended.stderr, line
    assert endpoint.connections == 0
    assert _started() == ""
    # What would have been seen.
    named = await _run("chat", "near", "-p", "Hello.", "--config", str(hostile))
    assert named.returncode != 0
    assert f"TAKEN={_SECRET}\n" in _started()


@pytest.mark.long
@pytest.mark.usefixtures("hostile")
async def test_a_file_that_is_trusted_is_used_until_it_changes(endpoint: Endpoint) -> None:
    trusted = await _run("trust", "--yes")
    assert trusted.returncode == 0
    for shown in (endpoint.url, "SOME_SECRET", "TAKEN", "./agent.sh", "tape.jsonl"):
        assert shown in trusted.stderr, shown
    assert _SECRET not in trusted.stderr
    with _serving() as served:
        assert await served.models() == ["far", "near", "tape", "demo"]
    assert endpoint.asked[0].headers["authorization"] == f"Bearer {_SECRET}"
    connections = endpoint.connections
    _found("# Changed.\n" + _found())
    with _serving() as served:
        assert await served.models() == ["demo"]
    assert endpoint.connections == connections


@pytest.mark.long
@pytest.mark.usefixtures("hostile")
async def test_an_editor_offers_what_is_trusted_while_it_runs(home: Path) -> None:
    async with _editor(home) as editor:
        assert await _models(editor) == ["demo"]
        assert (await _run("trust", "--yes")).returncode == 0
        await soon(editor.models_changed.wait())
        assert await _models(editor) == ["far", "near", "tape", "demo"]


# What the user's own file says.


@pytest.mark.long
async def test_an_empty_file_takes_no_key_away(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_KEY", "the-key-of-the-server")
    _own(home, '[serve]\napi_keys = ["$OWN_KEY"]\n')
    _found("")
    with _serving() as served:
        assert served.get("/models")[0] == 401
        assert served.get("/models", Authorization="Bearer the-key-of-the-server")[0] == 200


@pytest.mark.long
async def test_a_file_opens_no_door_and_puts_no_key_in_the_place_of_the_users(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_KEY", "the-key-of-the-server")
    _own(home, '[serve]\napi_keys = ["$OWN_KEY"]\n')
    _found('[serve]\nhost = "0.0.0.0"\napi_keys = ["theirs"]\ncors_origins = ["https://evil.example"]\n')
    with _serving() as served:
        assert served.said[-1].startswith("dragoman: serving at http://127.0.0.1:")
        assert served.get("/models", Authorization="Bearer theirs")[0] == 401
        assert served.get("/models", Authorization="Bearer the-key-of-the-server")[0] == 200
    [line] = [line for line in served.said if "ignored" in line]
    assert all(key in line for key in ("serve.host", "serve.api_keys", "serve.cors_origins", "--config"))


@pytest.mark.long
@pytest.mark.usefixtures("home")
def test_what_is_ignored_in_a_file_need_not_be_right() -> None:
    """In the user's own file this host wants keys. Here it does not count, so it stops nothing."""
    _found('[serve]\nhost = "0.0.0.0"\n')
    with _serving() as served:
        assert served.said[-1].startswith("dragoman: serving at http://127.0.0.1:")
    assert any("serve.host" in line for line in served.said)


@pytest.mark.long
@pytest.mark.usefixtures("home")
async def test_a_file_deletes_no_history() -> None:
    hello = {"model": "demo", "input": "Hello."}
    with _serving() as served:
        _, answer = await asyncio.to_thread(served.get, "/responses", hello)
    kept = _conversations((await _run("conversations", "--json")).stdout)
    assert len(kept) == 1
    _found("[conversation]\nkeep_days = 0\n")
    with _serving() as served:
        assert (await asyncio.to_thread(served.get, f"/responses/{answer['id']}"))[0] == 200
        assert (await asyncio.to_thread(served.get, "/responses", hello))[0] == 200
    now = _conversations((await _run("conversations", "--json")).stdout)
    assert kept < now


def _conversations(printed: str) -> set[str]:
    return {json.loads(line)["id"] for line in printed.splitlines()}


# Keys that are none.


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("0.0.0.0", marks=pytest.mark.long)])  # noqa: S104
@pytest.mark.parametrize(
    "value",
    [
        *("", " padded", "schlüssel"),
        *(pytest.param(each, marks=pytest.mark.long) for each in (" ", "\t", "padded ", "ключ", "a\nb")),
    ],
    ids=repr,
)
async def test_a_server_does_not_start_with_a_key_that_no_client_can_send(
    home: Path, monkeypatch: pytest.MonkeyPatch, host: str, value: str
) -> None:
    monkeypatch.setenv("OWN_KEY", value)
    file = _own(home, f'[serve]\nhost = "{host}"\nport = 0\napi_keys = ["good-key",\n  "$OWN_KEY"]\n')
    ended = await _run("serve")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"{file}:5: ")
    assert "OWN_KEY" in ended.stderr
    assert not value.strip() or value not in ended.stderr
