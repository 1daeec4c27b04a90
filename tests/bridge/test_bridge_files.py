"""P27: files through the client. An agent reads inside the workspace, and writes what a person has approved."""

import os
from pathlib import Path

import pytest

from bridge.consumer import TOOLS, Bridge, Chat, result
from dragoman.acp.messages import PERMISSION_REFUSED, WriteTextFile
from dragoman.backends.agent.session.approved_edits import Change, FileRefused
from dragoman.backends.agent.session.file_requests import AT_ONCE
from dragoman.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_CANCELLED
from dragoman.lm import JsonObject, user
from dragoman.tools.builtin.files import MAX_FILE_BYTES

pytestmark = pytest.mark.long

_NOT_FOUND = -32002
_OLD = "one\ntwo\nthree\n"
_BOTH = ["allow_once", "reject_once"]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text(_OLD)
    path.chmod(0o640)
    return path


def _text(path: Path) -> str:
    return path.read_text()


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def _answers(bridge: Bridge) -> list[JsonObject]:
    return bridge.noted("file")


def _edit(path: Path, *, diff: tuple[str | None, str] | None = None, kind: str = "edit") -> list[object]:
    call: JsonObject = {"toolCallId": "e1", "title": "Edit it", "kind": kind}
    if diff is None:
        call["locations"] = [{"path": str(path)}]
    else:
        old, new = diff
        call["content"] = [{"type": "diff", "path": str(path), "oldText": old, "newText": new}]
    return ["ask", call, _BOTH]


async def test_p27_file_access_is_neither_declared_nor_given_unless_it_is_on(
    bridge: Bridge, notes: Path
) -> None:
    chat = bridge.chat()
    await chat.do(["read", str(notes)], ["write", str(notes), "gone"])
    [declared] = bridge.noted("initialize")
    assert declared["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        "auth": {"terminal": True},
        "_meta": {"terminal-auth": True},
    }
    assert [answer["code"] for answer in _answers(bridge)] == [METHOD_NOT_FOUND] * 2
    assert _text(notes) == _OLD


async def test_p27_reading_inside_the_workspace_is_free_and_told(bridge: Bridge, notes: Path) -> None:
    chat = bridge.chat(fs=True)
    (notes.parent / "folder").mkdir()
    (notes.parent / "link").symlink_to(notes)
    around = str(notes.parent / "folder" / ".." / "link")
    answer = await chat.do(
        ["read", str(notes)],
        ["read", around, {"line": 2}],
        ["read", around, {"line": 2, "limit": 1}],
        ["read", around, {"limit": 2}],
        ["read", around, {"line": 9}],
    )
    assert [each["content"] for each in _answers(bridge)] == [
        _OLD,
        "two\nthree\n",
        "two\n",
        "one\ntwo\n",
        "",
    ]
    assert answer.calls == ()
    assert f"Read `{notes}`" in answer.thinking
    [declared] = bridge.noted("initialize")
    assert isinstance(capabilities := declared["clientCapabilities"], dict)
    assert capabilities["fs"] == {"readTextFile": True, "writeTextFile": True}


async def test_p27_what_is_outside_or_no_text_file_is_neither_read_nor_written(
    bridge: Bridge, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    secret = outside / "secret.txt"
    secret.write_text("secret")
    folder = bridge.folder
    (folder / "way out").symlink_to(outside)
    (folder / "straight").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    (folder / "picture").write_bytes(b"\x89PNG\0\0")
    with (folder / "large").open("wb") as large:
        large.truncate(MAX_FILE_BYTES + 1)
    paths = [
        str(secret),
        str(folder / "way out" / "secret.txt"),
        str(folder / "straight"),
        str(folder / ".." / outside.name / "secret.txt"),
        "notes.txt",
        "",
        f"{folder}/a\0b",
        str(folder),
        str(folder / "pipe"),
        str(folder / "picture"),
        str(folder / "large"),
    ]
    chat = bridge.chat(fs=True)
    steps = [step for path in paths for step in (["read", path], ["write", path, "x"])]
    answer = await chat.do(*steps)
    assert answer.calls == ()
    assert [each["code"] for each in _answers(bridge)] == [INVALID_PARAMS] * 2 * len(paths)
    assert _text(secret) == "secret"


async def test_p27_a_file_that_is_not_there_is_not_found(bridge: Bridge) -> None:
    chat = bridge.chat(fs=True)
    answer = await chat.do(["read", str(bridge.folder / "nothing")])
    assert [each["code"] for each in _answers(bridge)] == [_NOT_FOUND]
    # By these words some agents know that they may create it.
    assert "No such file" in answer.text


async def test_p27_a_write_that_nobody_approved_is_asked_as_an_edit_with_its_diff(
    bridge: Bridge, notes: Path
) -> None:
    chat = bridge.chat(fs=True)
    asked = await chat.do(["write", str(notes), "one\n2\nthree\n"], ["say", "on"])
    [call] = asked.calls
    assert call.name == "dragoman-agent-action-edit"
    details = bridge.question(call)
    assert str(notes) in details
    assert "-two\n+2\n" in details
    assert _text(notes) == _OLD
    answer = await chat.give(bridge.approve(call))
    assert answer.text == "<fs/write_text_file: done>on"
    assert f"Wrote `{notes}`" in answer.thinking
    assert _text(notes) == "one\n2\nthree\n"
    assert _mode(notes) == 0o640
    # Nothing is left of the way there.
    assert not list(bridge.folder.glob(".dragoman*"))


async def test_p27_a_new_file_is_made_with_its_folders_and_the_link_to_it_is_not_replaced(
    bridge: Bridge,
) -> None:
    chat = bridge.chat(fs=True)
    (bridge.folder / "link").symlink_to(bridge.folder / "new" / "folder" / "file")
    asked = await chat.do(["write", str(bridge.folder / "link"), "hello\n"])
    # The person is told where it leads.
    assert str(bridge.folder / "new/folder/file") in bridge.question(asked.calls[0])
    await chat.give(bridge.approve(asked.calls[0]))
    assert (bridge.folder / "new/folder/file").read_text() == "hello\n"
    assert (bridge.folder / "link").is_symlink()


async def test_p27_a_write_that_nobody_was_permission_requested_is_told_as_that(
    bridge: Bridge, notes: Path
) -> None:
    chat = bridge.chat(fs=True)
    asked = await chat.do(["write", str(notes), "gone"])
    answer = await chat.give(result(asked.calls[0], "Tool execution denied: not on a Friday"))
    assert "was not written: the user was not asked." in answer.text
    assert "refused it" not in answer.text
    assert "You were not asked, so it was refused. Tool execution denied: not on a Friday" in answer.text
    assert _text(notes) == _OLD


@pytest.mark.parametrize("said", ["no", "Tool use rejected with user message: not this one"])
async def test_p27_a_refused_write_is_told_to_the_agent_and_nothing_is_written(
    bridge: Bridge, notes: Path, said: str
) -> None:
    chat = bridge.chat(fs=True)
    asked = await chat.do(["write", str(notes), "gone"], ["say", "well"])
    answer = await chat.give(result(asked.calls[0], said))
    assert "the user refused it" in answer.text
    assert answer.text.endswith("well")
    assert [each["code"] for each in _answers(bridge)] == [PERMISSION_REFUSED]
    assert _text(notes) == _OLD


async def test_p27_c5_a_write_that_waits_ends_with_its_turn(bridge: Bridge, notes: Path) -> None:
    chat = bridge.chat(fs=True)
    write = ["write", str(notes), "gone"]
    asked = await chat.do(["slow_stop", "stopped"], ["row", [write]], ["hang"])
    [call] = asked.calls
    token = bridge.approve(call)
    # The history goes on without the call: the turn is not wanted any more.
    going = chat.begin(user("something else"))
    await bridge.until_noted("file")
    bridge.open_gate("stopped")
    answer = await going.end()
    assert answer.text == 'echo: ["something else"]'
    assert [each["code"] for each in _answers(bridge)] == [REQUEST_CANCELLED]
    assert "no longer open" in bridge.approve(call).text
    await chat.give(token)
    assert _text(notes) == _OLD


async def test_p27_p24_a_write_that_the_agent_withdraws_cannot_be_approved(
    bridge: Bridge, notes: Path
) -> None:
    chat = bridge.chat(fs=True)
    asked = await chat.do(["until", "enough", ["write", str(notes), "gone"]], ["say", "never mind"])
    early = bridge.approve(asked.calls[0])
    bridge.open_gate("enough")
    await bridge.until_idle()
    await chat.give(early)
    assert _text(notes) == _OLD
    await chat.echo()


async def test_p27_a_file_that_changed_while_the_person_decided_is_not_written_over(
    bridge: Bridge, notes: Path
) -> None:
    chat = bridge.chat(fs=True)
    asked = await chat.do(["write", str(notes), "theirs"])
    _write(notes, "mine")
    answer = await chat.give(bridge.approve(asked.calls[0]))
    assert "not what it was" in answer.text
    assert [each["code"] for each in _answers(bridge)] == [INTERNAL_ERROR]
    assert _text(notes) == "mine"


async def test_p27_a_link_that_is_put_there_while_the_person_decides_is_not_followed(
    bridge: Bridge, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    folder = bridge.folder / "folder"
    folder.mkdir()
    chat = bridge.chat(fs=True)
    asked = await chat.do(["write", str(folder / "file"), "x"])
    folder.rmdir()
    folder.symlink_to(outside)
    await chat.give(bridge.approve(asked.calls[0]))
    [told] = _answers(bridge)
    assert told["code"] == INTERNAL_ERROR
    assert list(outside.iterdir()) == []


async def _allowed(bridge: Bridge, chat: Chat, ask: list[object], *steps: object) -> tuple[int, str]:
    """The agent asks, is allowed, and goes on: how many more questions there are, and its text."""
    asked = await chat.do(ask, *steps)
    answer = await chat.give(bridge.approve(asked.calls[0]))
    return len(answer.calls), answer.text


@pytest.mark.parametrize("diff", [(None, "one\n2\nthree\n"), ("two\n", "2\n"), (_OLD, "one\n2\nthree\n")])
async def test_p27_an_edit_that_was_approved_in_this_turn_covers_one_write(
    bridge: Bridge, notes: Path, diff: tuple[str | None, str]
) -> None:
    chat = bridge.chat(fs=True)
    write = ["write", str(notes), "one\n2\nthree\n"]
    questions, _ = await _allowed(bridge, chat, _edit(notes, diff=diff), write, ["write", str(notes), "x"])
    # The first went through, and the second is asked about.
    assert questions == 1
    assert _text(notes) == "one\n2\nthree\n"


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        ({"diff": ("two\n", "2\n")}, "another content than the diff showed"),
        ({"diff": ("two\n", "x")}, "the passage of the diff in place of the whole file"),
        ({"kind": "execute"}, "a command"),
        ({"kind": "read"}, "reading"),
    ],
)
async def test_p27_an_approval_of_something_else_covers_no_write(
    bridge: Bridge, notes: Path, ask: dict[str, object], why: str
) -> None:
    chat = bridge.chat(fs=True)
    questions, _ = await _allowed(bridge, chat, _edit(notes, **ask), ["write", str(notes), "x"])  # type: ignore[arg-type]
    assert questions == 1, why
    assert _text(notes) == _OLD


async def test_p27_an_approval_is_for_the_file_that_was_there_and_ends_with_its_turn(
    bridge: Bridge, notes: Path
) -> None:
    chat = bridge.chat(fs=True)
    other = bridge.folder / "other.txt"
    other.write_text("other")
    link = bridge.folder / "link"
    link.symlink_to(notes)
    asked = await chat.do(_edit(link), ["gate", "swapped"], ["write", str(link), "x"])
    going = chat.begin(user(bridge.approve(asked.calls[0])))
    link.unlink()
    link.symlink_to(other)
    bridge.open_gate("swapped")
    again = await going.end()
    # What the person approved was another file.
    assert len(again.calls) == 1
    await chat.give(result(again.calls[0], "no"))
    # And in the next turn nothing is left of it.
    late = await chat.do(["write", str(notes), "x"])
    assert len(late.calls) == 1
    assert (_text(notes), _text(other)) == (_OLD, "other")


async def test_p27_a_refused_edit_covers_nothing(bridge: Bridge, notes: Path) -> None:
    chat = bridge.chat(fs=True)
    asked = await chat.do(_edit(notes), ["write", str(notes), "x"])
    again = await chat.give(result(asked.calls[0], "no"))
    assert len(again.calls) == 1


@pytest.mark.parametrize(("permission", "text"), [("deny", _OLD), ("allow", "x")])
async def test_p27_p6_a_consumer_that_cannot_ask_has_the_policy_and_is_told(
    bridge: Bridge, notes: Path, permission: str, text: str
) -> None:
    chat = bridge.chat(fs=True, permission=permission, tools=TOOLS)  # type: ignore[arg-type]
    answer = await chat.do(["write", str(notes), "x"])
    assert f'permission = "{permission}"' in answer.text
    assert _text(notes) == text


async def test_p27_a_side_request_may_neither_read_nor_write(bridge: Bridge, notes: Path) -> None:
    chat = bridge.chat(fs=True)
    await chat.do(["say", "hello"])
    title = bridge.aside()
    await title.do(["read", str(notes)], ["write", str(notes), "x"])
    assert [each["code"] for each in _answers(bridge)] == [PERMISSION_REFUSED] * 2
    assert len(bridge.pids) == 1
    assert _text(notes) == _OLD


async def test_p27_writing_what_is_there_already_asks_nobody(bridge: Bridge, notes: Path) -> None:
    chat = bridge.chat(fs=True)
    answer = await chat.do(["write", str(notes), _OLD])
    assert answer.text == "<fs/write_text_file: done>"


async def test_p27_content_that_nobody_could_be_shown_is_not_written(bridge: Bridge, notes: Path) -> None:
    chat = bridge.chat(fs=True)
    contents = ["a\0b", "x" * (MAX_FILE_BYTES + 1)]
    answer = await chat.do(*(["write", str(notes), content] for content in contents))
    assert answer.calls == ()
    assert [each["code"] for each in _answers(bridge)] == [INVALID_PARAMS] * 2
    with pytest.raises(FileRefused, match="half a character"):
        Change.of((str(bridge.folder),), WriteTextFile("s", str(notes), "half \ud83d"))
    assert _text(notes) == _OLD


async def test_p27_only_so_many_wait_at_once_and_each_has_its_answer(bridge: Bridge) -> None:
    chat = bridge.chat(fs=True)
    writes = [["write", str(bridge.folder / f"{number}.txt"), "x"] for number in range(AT_ONCE + 1)]
    asked = await chat.do(["all", writes])
    assert [each["code"] for each in _answers(bridge)] == [INTERNAL_ERROR]
    assert len(asked.calls) == AT_ONCE
    await chat.give(*(bridge.approve(call) for call in asked.calls))
    assert len(list(bridge.folder.glob("*.txt"))) == AT_ONCE
    # And there is room again.
    again = await chat.do(["write", str(bridge.folder / "more.txt"), "x"])
    assert len(again.calls) == 1


async def test_d3_a_file_that_may_hold_secrets_is_permission_requested_before_it_is_read(
    bridge: Bridge, tmp_path: Path
) -> None:
    secret = tmp_path / ".env"
    secret.write_text("TOKEN=1")
    chat = bridge.chat(fs=True)
    asked = await chat.do(["read", str(secret), {}])
    [call] = asked.calls
    assert call.name == "dragoman-agent-action-sensitive"
    await chat.give(bridge.approve(call))
    assert _answers(bridge)[-1] == {"content": "TOKEN=1"}
    asked = await chat.do(["read", str(secret), {}])
    await chat.give(result(asked.calls[0], "no"))
    assert "the user refused it" in str(_answers(bridge)[-1])


async def test_q2_an_approval_that_showed_no_content_covers_no_write(bridge: Bridge, notes: Path) -> None:
    """The person saw a file's name. What is written into it is asked about with its diff."""
    chat = bridge.chat(fs=True)
    asked = await chat.do(_edit(notes), ["write", str(notes), "unseen"])
    again = await chat.give(bridge.approve(asked.calls[0]))
    assert len(again.calls) == 1
    assert _text(notes) == _OLD
