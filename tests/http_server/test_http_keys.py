"""Keys with names: what their clients may use, and where agents work for them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge.consumer import Bridge
from dragoman.config import KeyConfig, Serve
from dragoman.lm import ModelInfo
from fake_agent.steps import prompt
from http_server.kit import DEADLINE, Held, Json, Site, scripted, site_of, soon
from http_server.test_http_websocket import _connected
from process.living import all_gone

_ALICE = {"authorization": "Bearer alice-key"}
_BUILD = {"authorization": "Bearer build-key"}
_CHAT = "/v1/chat/completions"


def _info(name: str) -> ModelInfo:
    return ModelInfo(name, name, "script", "1", 1_000, 1_000)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Two models. The holder of one key may use only one of them."""
    named = {"alice": KeyConfig("alice-key", "admin"), "build": KeyConfig("build-key", models=("m",))}
    models = Held(m=scripted("Yes.", info=_info("m")), other=scripted("No.", info=_info("other")))
    with contextmanager(site_of)(models, store=tmp_path, named=named) as made:
        made.headers = {}
        yield made


async def test_without_one_of_the_keys_there_is_no_access(site: Site) -> None:
    for headers in ({}, {"authorization": "Bearer m"}, {"authorization": "Bearer alice"}):
        refused = await site.get("/v1/models", **headers)
        assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
    # With keys, the server has other names than those of this machine.
    assert (await site.get("/v1/models", host="server.example", **_ALICE)).status == 200


@pytest.mark.parametrize(("headers", "models"), [(_ALICE, ["m", "other"]), (_BUILD, ["m"])])
async def test_a_list_has_the_models_of_the_key(
    site: Site, headers: dict[str, str], models: list[str]
) -> None:
    listed = (await site.get("/v1/models", **headers)).json["data"]
    assert [each["id"] for each in listed] == models


async def _tried(site: Site, model: str, headers: dict[str, str]) -> list[Json]:
    """The errors for a model, of every way to name one."""
    body = {"model": model, "input": "x"}
    answers = [
        await site.post("/v1/responses", body, **headers),
        await site.post("/v1/responses", {**body, "stream": True}, **headers),
        await site.post("/v1/responses", {**body, "background": True}, **headers),
        await site.post("/v1/responses/compact", body, **headers),
        await site.post(_CHAT, {"model": model, "messages": [{"role": "user", "content": "x"}]}, **headers),
        await site.get(f"/v1/models/{model}", **headers),
    ]
    errors = [{"status": each.status, **each.error} for each in answers]
    async with _connected(site, **headers) as socket:
        refused = await socket.create(**body)
        errors.append({"status": refused["status"], **refused["error"]})
    return errors


async def test_a_model_that_the_key_does_not_allow_is_as_unknown_as_any(site: Site) -> None:
    refused = await _tried(site, "other", _BUILD)
    assert {(error["status"], error["code"]) for error in refused} == {(404, "model_not_found")}
    unknown = await _tried(site, "nowhere", _BUILD)
    assert str(refused).replace("other", "nowhere") == str(unknown)


async def test_a_response_of_one_model_is_not_continued_with_another_that_is_not_allowed(
    site: Site,
) -> None:
    first = (await site.create(input="x", headers=_BUILD)).response
    body = {"model": "other", "input": "y", "previous_response_id": first["id"]}
    assert (await site.post("/v1/responses", body, **_BUILD)).error["code"] == "model_not_found"
    # It belongs to the key that made it, whatever the role of another.
    assert (await site.get(f"/v1/responses/{first['id']}", **_BUILD)).status == 200
    assert (await site.get(f"/v1/responses/{first['id']}", **_ALICE)).status == 404


@pytest.mark.long
@pytest.mark.parametrize(
    ("cwd", "workspaces", "expected"),
    [
        ("", None, ""),
        ("", ("work", "more"), "work"),
        ("more/deep", ("work", "more"), "more/deep"),
        ("work/../", ("work",), "work"),
    ],
)
async def test_an_agent_works_in_a_folder_of_the_key(
    tmp_path: Path, cwd: str, workspaces: tuple[str, ...] | None, expected: str
) -> None:
    for name in ("work", "more/deep"):
        (tmp_path / name).mkdir(parents=True)
    folders = None if workspaces is None else tuple(tmp_path / name for name in workspaces)
    bridge = Bridge(tmp_path)
    bridge.chat()
    assert bridge.model is not None
    models = Held(bridge.permissions, m=bridge.model)
    models.cwd = tmp_path / cwd
    named = {"build": KeyConfig("build-key", workspaces=folders)}
    for made in site_of(models, named=named, serve=Serve()):
        assert (await made.create(input=prompt(["say", "hello"]))).status == 200
    (session,) = bridge.noted("session/new")
    assert session["cwd"] == str(tmp_path / expected)
    await bridge.close()
    await soon(all_gone(bridge.pids))


@pytest.mark.long
@pytest.mark.parametrize(
    ("keys", "line", "words"),
    [
        (
            '[keys.build]\nkey = "$NOT_SET_ANYWHERE"',
            3,
            "the environment variable NOT_SET_ANYWHERE is not set",
        ),
        ('[keys.build]\nkey = "k-1"\nworkspaces = ["none"]', 4, "is not a folder. Make it first."),
        ('[keys.a]\nkey = "same-key"\n[keys.b]\nkey = "same-key"', 5, "has the same value as the key at"),
    ],
)
def test_a_server_does_not_start_with_a_key_that_cannot_be_used(
    tmp_path: Path, keys: str, line: int, words: str
) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(f"[serve]\n{keys}\n")
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(file), "--port", "0"]
    ended = subprocess.run(
        [*command, "--state-dir", str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        cwd=tmp_path,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"{file}:{line}: ")
    assert words in ended.stderr
    assert "same-key" not in ended.stderr


def test_named_keys_are_enough_for_other_machines(tmp_path: Path) -> None:
    """The rule is the same as for the short form, also where only the command line names the host."""
    file = tmp_path / "dragoman.toml"
    (tmp_path / "work").mkdir()
    file.write_text('[keys.build]\nkey = "build-key"\nworkspaces = ["work"]\n')
    # An address that no machine has, so that nothing is served.
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(file), "--host", "192.0.2.1"]
    ended = subprocess.run(
        [*command, "--port", "0", "--state-dir", str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        cwd=tmp_path,
    )
    assert (ended.returncode, "cannot listen at 192.0.2.1" in ended.stderr) == (1, True)
