"""The folders of clients and keys, where agents run on workers: the worker resolves them, and holds agents to them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.config import Config, FleetConfig, KeyConfig, Serve
from dragoman.config.keys import key_problems
from dragoman.frontends.http.workspace_choice import FolderRoots
from dragoman.lm import Consumer, LanguageModelError, Request, user
from dragoman.lm.request import FolderChoice
from dragoman.models.folder_choice import with_chosen_folder
from fake_agent.steps import prompt
from fleet.machines import Machines, fake, machines
from http_server.kit import Site, site_of

_HI = prompt(["say", "hi"])


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Machines]:
    async with machines(tmp_path) as each:
        yield each


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The disk of the worker. Links in the folder of alice lead inside and outside."""
    disk = tmp_path / "disk"
    for name in ("alice/one", "alice/two", "bob", "agent"):
        (disk / name).mkdir(parents=True)
    (disk / "alice" / "link").symlink_to(disk / "alice" / "two")
    (disk / "alice" / "out").symlink_to(disk / "bob")
    (disk / "alice" / "file").touch()
    return disk


def _chosen(configured: Path | None, *choices: FolderChoice) -> tuple[str, ...]:
    request = Request(
        (user("hi"),), consumer=Consumer(workspace_folders=("/before",), folder_choices=choices)
    )
    return with_chosen_folder(request, configured).consumer.workspace_folders


def test_the_first_folder_that_lies_within_its_roots_is_chosen(disk: Path) -> None:
    alice, agent = disk / "alice", disk / "agent"
    within = ((str(alice),),)
    assert _chosen(agent, FolderChoice(str(alice / "link"), within)) == (str(alice / "two"),)
    assert _chosen(agent, FolderChoice("", within), FolderChoice(str(alice), within)) == (str(alice),)
    assert _chosen(alice / "one", FolderChoice("", within)) == ()
    assert _chosen(agent, FolderChoice(str(alice / "out"), within), FolderChoice()) == ()
    # A root may be a link here.
    (disk / "home").symlink_to(alice)
    assert _chosen(agent, FolderChoice(str(disk / "home" / "one"), ((str(disk / "home"),),))) == (
        str(alice / "one"),
    )
    # What is no agent has no folder, and without choices those of the consumer count.
    assert _chosen(None, FolderChoice("/", within)) == _chosen(agent) == ("/before",)
    for refused in ("out", "file", "missing", "../bob", "../alice-2", "a\0b"):
        with pytest.raises(LanguageModelError) as error:
            _chosen(agent, FolderChoice(str(alice / refused), within))
        assert error.value.kind == "bad_request"
        assert refused not in error.value.sentence
    both = (*within, (str(alice / "one"), str(disk / "bob")))
    assert _chosen(agent, FolderChoice(str(alice / "one"), both)) == (str(alice / "one"),)
    for outside in (alice / "two", disk / "bob"):
        with pytest.raises(LanguageModelError):
            _chosen(agent, FolderChoice(str(outside), both))


async def test_a_worker_resolves_the_folder_of_a_request_and_holds_it_to_those_of_the_key(
    room: Machines, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_roots: FolderRoots, named: str) -> Path | None:
        raise AssertionError(f"the gateway looks for {named} on its own disk")

    monkeypatch.setattr(FolderRoots, "find", look)
    alice = disk / "alice"
    await room.worker("w1", m=fake(disk / "agent"))
    models = await room.gateway()
    named = {"alice": KeyConfig("alice-key", workspaces=(alice,)), "all": KeyConfig("all-key", "admin")}

    def worked_in() -> str:
        lines = (disk / "agent" / "journal").read_text().splitlines()
        sent = [json.loads(line) for line in lines]
        return str([each["params"]["cwd"] for each in sent if each["method"] == "session/new"][-1])

    async def status(site: Site, key: str, folder: Path | None = None, text: str = _HI) -> int:
        headers = {"authorization": f"Bearer {key}"}
        if folder is not None:
            headers["x_dragoman_workspace"] = str(folder)
        return (await site.create(input=text, headers=headers)).status

    with contextmanager(site_of)(models, serve=Serve(workspaces=(disk,)), named=named) as site:
        for folder, works_in in (
            (alice / "one", "alice/one"),
            (alice / "link", "alice/two"),
            (None, "alice"),
        ):
            assert await status(site, "alice-key", folder) == 200
            assert worked_in() == str(disk / works_in)
        for folder in (alice / "out", disk / "bob", alice / "missing", alice / ".." / "bob", Path("/")):
            assert await status(site, "alice-key", folder) == 400
        assert worked_in() == str(alice)
        # Without folders of its own, a key has those of the server, and the agent's own if it names none.
        assert await status(site, "all-key", disk / "bob") == 200
        assert worked_in() == str(disk / "bob")
        assert await status(site, "all-key", Path("/")) == 400
        assert await status(site, "all-key") == 200
        assert worked_in() == str(disk / "agent")
        # What Codex says is a wish.
        for folder, works_in in ((alice / "two", "alice/two"), (Path("/nowhere"), "agent")):
            context = (
                f"<environment_context>\n  <cwd>{folder}</cwd>\n  <shell>bash</shell>\n</environment_context>"
            )
            answered = await site.create(
                input=[{"role": "user", "content": context}, {"role": "user", "content": _HI}],
                headers={"authorization": "Bearer all-key"},
            )
            assert answered.status == 200
            assert worked_in() == str(disk / works_in)


def test_folders_of_a_fleet_need_not_exist_on_the_gateway(tmp_path: Path) -> None:
    keys = {"k": KeyConfig("secret", workspaces=(tmp_path / "missing",))}
    assert len(key_problems(Config(models={}, keys=keys))) == 1
    fleet = FleetConfig(url="nats://127.0.0.1:1")
    assert key_problems(Config(models={}, keys=keys, fleet=fleet)) == ()
