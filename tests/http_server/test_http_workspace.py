"""The folder in which an agent works for a request: the header, what Codex says, and the folders that are open."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.consumer import Bridge
from dragoman.config import KeyConfig, Serve
from dragoman.frontends.http.workspace_choice import FolderRoots, codex_folder, header_text, named_folder
from dragoman.lm import assistant, system, user
from fake_agent.steps import prompt
from http_server.kit import Held, Json, Site, scripted, site_of, soon
from http_server.test_http_websocket import _connected
from process.living import all_gone

_Make = Callable[..., Site]
_CHAT = "/v1/chat/completions"
_HI = prompt(["say", "hi"])


def _context(folder: object, rest: str = "  <shell>bash</shell>\n") -> str:
    return f"<environment_context>\n  <cwd>{folder}</cwd>\n{rest}</environment_context>"


@pytest.fixture
def src(tmp_path: Path) -> Path:
    """Two projects in a folder that is open to clients, and links in it that lead inside and outside."""
    src = tmp_path / "src"
    for name in ("one", "two", "with ü"):
        (src / name).mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (src / "file").touch()
    (src / "link").symlink_to(src / "two")
    (src / "out").symlink_to(tmp_path / "private")
    (src / "loop").symlink_to(src / "loop")
    return src


@pytest.fixture
async def agents(tmp_path: Path) -> AsyncIterator[tuple[_Make, Bridge]]:
    """Sites with an agent, `m`, and a model that is none, `plain`."""
    bridge = Bridge(tmp_path)
    bridge.chat()
    assert bridge.model is not None
    models = Held(bridge.permissions, m=bridge.model, plain=scripted("Yes."))
    models.cwd = tmp_path
    with ExitStack() as stack:

        def made(**options: Any) -> Site:
            return stack.enter_context(contextmanager(site_of)(models, **options))

        yield made, bridge
    await bridge.close()
    await soon(all_gone(bridge.pids))


def _worked_in(bridge: Bridge) -> list[object]:
    return [note["cwd"] for note in bridge.noted("session/new")]


async def test_an_agent_works_in_the_folder_of_the_header_and_the_answer_names_it(
    agents: tuple[_Make, Bridge], src: Path
) -> None:
    made, bridge = agents
    site = made(serve=Serve(workspaces=(src,)), store=src.parent / "state")
    one = {"x_dragoman_workspace": str(src / "one")}
    plain = await site.create(input=_HI, headers=one)
    assert plain.headers["x-dragoman-workspace"] == str(src / "one")
    assert plain.response["metadata"]["dragoman.workspace"] == str(src / "one")
    streamed = await site.create(input=prompt(["say", "2"]), headers=one, stream=True)
    assert streamed.headers["x-dragoman-workspace"] == str(src / "one")
    chat: Json = {"model": "m", "messages": [{"role": "user", "content": prompt(["say", "3"])}]}
    completed = await site.post(_CHAT, chat, x_dragoman_workspace=str(src / "two"))
    assert completed.headers["x-dragoman-workspace"] == str(src / "two")
    background = await site.create(input=prompt(["say", "4"]), headers=one, background=True)
    assert background.headers["x-dragoman-workspace"] == str(src / "one")
    await bridge.until_noted("session/new", 4)
    assert _worked_in(bridge) == [str(src / name) for name in ("one", "one", "two", "one")]


async def test_without_a_name_the_answer_says_where_the_agent_works(
    agents: tuple[_Make, Bridge], tmp_path: Path
) -> None:
    made, _ = agents
    answered = await made().create(input=_HI)
    assert answered.headers["x-dragoman-workspace"] == str(tmp_path)
    assert "dragoman.workspace" not in answered.response["metadata"]


async def test_a_websocket_has_the_folder_of_its_upgrade_request(
    agents: tuple[_Make, Bridge], src: Path
) -> None:
    made, bridge = agents
    site = made(serve=Serve(workspaces=(src,)))
    async with _connected(site, **{"x-dragoman-workspace": str(src / "two")}) as socket:
        response = await socket.create(input=_HI)
    assert response["metadata"]["dragoman.workspace"] == str(src / "two")
    assert _worked_in(bridge) == [str(src / "two")]
    async with _connected(site, **{"x-dragoman-workspace": "/"}) as socket:
        refused = await socket.create(input=_HI)
    assert refused["error"]["code"] == "workspace_not_allowed"


async def test_another_folder_is_another_conversation_with_another_agent(
    agents: tuple[_Make, Bridge], src: Path
) -> None:
    made, bridge = agents
    site = made(serve=Serve(workspaces=(src,)), store=src.parent / "state")
    first = await site.create(input="hello", headers={"x_dragoman_workspace": str(src / "one")})
    history = [{"role": "user", "content": "hello"}, *first.response["output"]]
    history += [{"role": "user", "content": "and now?"}]
    same = await site.create(input=history, headers={"x_dragoman_workspace": str(src / "one")})
    other = await site.create(input=history, headers={"x_dragoman_workspace": str(src / "link")})
    conversations = [
        each.headers["x-dragoman-conversation"].partition(";")[0] for each in (first, same, other)
    ]
    assert conversations[0] == conversations[1] != conversations[2]
    assert _worked_in(bridge) == [str(src / "one"), str(src / "two")]
    # The new agent has what was said before.
    assert "hello" in str(bridge.noted("session/prompt")[-1])


@pytest.mark.parametrize(
    "name",
    [
        "",
        "one",
        "/",
        "{src}/file",
        "{src}/none",
        "{src}/out",
        "{src}/loop",
        "{src}/../private",
        "{src}/one/../..",
    ],
)
async def test_a_folder_outside_those_that_are_open_is_an_error(
    agents: tuple[_Make, Bridge], src: Path, name: str
) -> None:
    made, bridge = agents
    site = made(serve=Serve(workspaces=(src,)))
    refused = await site.create(input=_HI, headers={"x_dragoman_workspace": name.format(src=src)})
    assert (refused.status, refused.error["param"]) == (400, "x-dragoman-workspace")
    assert refused.error["code"] == (
        "invalid_header" if not name.startswith(("/", "{")) else "workspace_not_allowed"
    )
    assert not bridge.pids


async def test_without_open_folders_the_error_names_the_setting_and_the_file(
    agents: tuple[_Make, Bridge], src: Path
) -> None:
    made, _ = agents
    file = src / "dragoman.toml"
    wanted = {"x_dragoman_workspace": str(src / "one")}
    here = await made(config_file=file).create(input=_HI, headers=wanted)
    assert (here.status, here.error["code"]) == (400, "no_workspaces")
    assert f'add for example `workspaces = ["~/src"]` to [serve] in {file},' in here.error["message"]
    # The holder of a key is elsewhere, and does not learn where the operator's files are.
    named = {"user": KeyConfig("user-key"), "admin": KeyConfig("admin-key", "admin")}
    keyed = made(config_file=file, named=named)
    for key, shown in (("user-key", "in dragoman.toml,"), ("admin-key", f"in {file},")):
        headers = {**wanted, "authorization": f"Bearer {key}"}
        assert shown in (await keyed.create(input=_HI, headers=headers)).error["message"]


async def test_the_folders_of_a_key_narrow_those_of_the_server(
    agents: tuple[_Make, Bridge], src: Path
) -> None:
    made, bridge = agents
    named = {"k": KeyConfig("k-key", workspaces=(src / "one", src.parent / "private"))}
    site = made(serve=Serve(workspaces=(src,)), named=named)
    statuses = [
        (await site.create(input=_HI, headers={"x_dragoman_workspace": str(folder)})).status
        for folder in (src / "one", src / "two", src.parent / "private")
    ]
    assert statuses == [200, 400, 400]
    # Without folders of the server's, those of the key count.
    site = made(named=named)
    wanted = {"x_dragoman_workspace": str(src.parent / "private")}
    assert (await site.create(input=_HI, headers=wanted)).status == 200
    assert _worked_in(bridge)[-1] == str(src.parent / "private")


async def test_a_model_that_is_no_agent_has_no_folder_and_the_header_is_named_as_ignored(
    agents: tuple[_Make, Bridge],
) -> None:
    made, _ = agents
    site = made()
    wanted = {"x_dragoman_workspace": "/nowhere"}
    answered = await site.post("/v1/responses", {"model": "plain", "input": "x"}, **wanted)
    assert answered.headers["x-dragoman-ignored"] == "x-dragoman-workspace"
    assert "x-dragoman-workspace" not in answered.headers


@pytest.mark.long
async def test_the_folder_that_codex_names_is_used_where_it_is_open(
    agents: tuple[_Make, Bridge], src: Path
) -> None:
    made, bridge = agents
    site = made(serve=Serve(workspaces=(src,)))

    async def ask(*texts: str) -> Json:
        items = [{"role": "user", "content": text} for text in (*texts, _HI)]
        answered = await site.create(input=items)
        assert answered.headers["x-dragoman-workspace"] == _worked_in(bridge)[-1]
        metadata: Json = answered.response["metadata"]
        return metadata

    assert (await ask(_context(src / "one")))["dragoman.workspace"] == str(src / "one")
    # It changes its folder.
    moved = await ask(_context(src / "one"), _context(src / "link"))
    assert moved["dragoman.workspace"] == str(src / "two")
    # Elsewhere, and said by a person: not used, and no error.
    assert (await ask(_context("/")))["dragoman.workspace"] == str(src.parent)
    assert "dragoman.workspace" not in await ask(f"Explain this: {_context(src / 'one')}")
    # The header is stronger.
    both = [{"role": "user", "content": text} for text in (_context(src / "one"), _HI)]
    answered = await site.create(input=both, headers={"x_dragoman_workspace": str(src / "two")})
    assert answered.headers["x-dragoman-workspace"] == str(src / "two")


async def test_a_path_is_utf_8_in_both_directions(agents: tuple[_Make, Bridge], src: Path) -> None:
    made, bridge = agents
    site = made(serve=Serve(workspaces=(src,)))
    sent = header_text(str(src / "with ü"))
    answered = await site.create(input=_HI, headers={"x_dragoman_workspace": sent})
    assert answered.headers["x-dragoman-workspace"] == str(src / "with ü")
    assert _worked_in(bridge) == [str(src / "with ü")]
    assert named_folder({"x-dragoman-workspace": f" {sent}"}) == str(src / "with ü")
    assert header_text("/a\nb\x7f") == "/a?b?"


_ENVIRONMENTS = """<environment_context>
  <environments>
    <environment id="local" primary="{first}">
      <cwd>/one</cwd>
      <shell>bash</shell>
    </environment>
    <environment id="remote" primary="{second}">
      <cwd>/t&amp;wo</cwd>
    </environment>
  </environments>
  <current_date>2026-01-01</current_date>
</environment_context>"""


def test_the_context_of_codex_is_known_by_its_exact_form() -> None:
    assert codex_folder([user(_context("/a b"))]) == "/a b"
    assert codex_folder([user(_context("/one")), user(_context("/two")), assistant("yes")]) == "/two"
    # A later one that only has another date changes no folder.
    date = "<environment_context>\n  <current_date>2026-01-01</current_date>\n</environment_context>"
    assert codex_folder([user(_context("/one")), user(date)]) == "/one"
    assert codex_folder([user(_ENVIRONMENTS.format(first="true", second="false"))]) == "/one"
    assert codex_folder([user(_ENVIRONMENTS.format(first="false", second="true"))]) == "/t&wo"
    alone = _context("x").replace("  <cwd>x</cwd>\n", "").replace("  <shell>bash</shell>\n", "")
    alone = alone.replace(
        "\n</",
        '\n  <environments>\n    <environment id="local">\n      <cwd>/a</cwd>\n    </environment>\n  </environments>\n</',
    )
    assert codex_folder([user(alone)]) == "/a"


@pytest.mark.parametrize(
    "text",
    [
        "<cwd>/one</cwd>",
        "<environment_context><cwd>/one</cwd></environment_context>",
        f"Look at this:\n{_context('/one')}",
        f"{_context('/one')}\nWhat is it?",
        f"{_context('/one')}\n{_context('/two')}",
        _context("/one", "  <cwd>/two</cwd>\n"),
        _context("/one</cwd><cwd>/two"),
        _context(""),
        _ENVIRONMENTS.format(first="false", second="false"),
        _ENVIRONMENTS.format(first="true", second="true"),
    ],
)
def test_no_other_text_names_a_folder(text: str) -> None:
    assert codex_folder([user(text)]) is None


def test_only_a_user_message_names_a_folder() -> None:
    assert codex_folder([system(_context("/one")), assistant(_context("/one"))]) is None


def test_a_link_is_resolved_once(src: Path) -> None:
    roots = FolderRoots((src,))
    chosen = roots.find(str(src / "link"))
    (src / "link").unlink()
    (src / "link").symlink_to(src.parent / "private")
    assert chosen == src / "two"
    assert roots.find(str(src / "link")) is None
    assert roots.find("/a\0b") is None
    assert FolderRoots().find(str(src)) is None
