"""Asking before acting: the agent's own commands and files."""

import asyncio
from pathlib import Path
from typing import cast

from demo_agent.harness import Editor, Permission
from dragoman.lm import JsonObject


def _hold(_permission: Permission) -> None:
    """Nobody has decided yet."""


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def _refuse(permission: Permission) -> None:
    permission.choose("reject_once")


async def test_a_command_is_shown_allowed_and_run(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    said = await editor.say(session, "!run echo ${HOME:+home} > out.txt; cat out.txt")
    [permission] = editor.asked
    assert permission.call["kind"] == "execute"
    assert permission.call["rawInput"] == {
        "command": "echo ${HOME:+home} > out.txt; cat out.txt",
        "cwd": str(folder),
    }
    options = cast("list[JsonObject]", permission.params["options"])
    assert [option["kind"] for option in options] == ["allow_once", "allow_always", "reject_once"]
    assert "home" in said
    assert (folder / "out.txt").read_text() == "home\n"
    assert editor.states(session, permission.call_id) == ["pending", "in_progress", "completed"]


async def test_a_refused_command_is_not_run_and_the_turn_goes_on(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    editor.decide = _refuse
    said = await editor.say(session, "write a file")
    assert "You refused" in said
    assert _files(folder) == []
    assert editor.states(session, editor.asked[0].call_id) == ["pending", "failed"]
    assert "denied by user" in await editor.say(session, "!run echo hello")


async def test_a_file_is_shown_as_a_difference(editor: Editor, folder: Path) -> None:
    (folder / "a.txt").write_text("old\n")
    session = await editor.start(folder)
    await editor.say(session, "!write a.txt new words")
    [permission] = editor.asked
    path = str((folder / "a.txt").resolve())
    diff = {"type": "diff", "path": path, "oldText": "old\n", "newText": "new words\n"}
    assert permission.call["kind"] == "edit"
    assert permission.call["content"] == [diff]
    assert permission.call["locations"] == [{"path": path}]
    assert (folder / "a.txt").read_text() == "new words\n"
    last = editor.updates(session, "tool_call_update")[-1]
    assert cast("list[JsonObject]", last["content"])[0] == diff


async def test_what_it_may_do_can_be_asked_for_in_words(editor: Editor, folder: Path) -> None:
    (folder / "hours.txt").write_text("six\n")
    session = await editor.start(folder)
    said = await editor.say(session, "Please write `seven` to `hours.txt`.")
    assert said.startswith("With your permission.")
    assert (folder / "hours.txt").read_text() == "seven\n"
    assert "seven" in await editor.say(session, "And now run `cat hours.txt`, please.")
    assert [permission.call["kind"] for permission in editor.asked] == ["edit", "execute"]


async def test_a_new_file_and_one_that_is_no_text(editor: Editor, folder: Path) -> None:
    (folder / "b.bin").write_bytes(b"\0\xff")
    session = await editor.start(folder)
    await editor.say(session, "!write new.txt hello")
    await editor.say(session, "!write b.bin hello")
    old = [cast("list[JsonObject]", permission.call["content"])[0]["oldText"] for permission in editor.asked]
    assert old == [None, "[2 bytes that are no text]"]


async def test_a_file_outside_the_folder_is_neither_permission_requested_nor_written(
    editor: Editor, folder: Path
) -> None:
    session = await editor.start(folder)
    said = await editor.say(session, "!write ../outside.txt hello")
    assert "outside the workspace" in said
    assert editor.asked == []
    assert not (folder.parent / "outside.txt").exists()


async def test_a_folder_more_is_a_folder_to_write_in(editor: Editor, folder: Path, tmp_path: Path) -> None:
    await editor.ask("initialize", protocolVersion=1)
    more = tmp_path / "more"
    more.mkdir()
    created = await editor.ask(
        "session/new", cwd=str(folder), mcpServers=[], additionalDirectories=[str(more)]
    )
    await editor.say(str(created["sessionId"]), f"!write {more}/a.txt hello")
    assert (more / "a.txt").read_text() == "hello\n"


async def test_two_requests_are_open_at_once_and_answered_in_any_order(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    editor.decide = _hold
    answering = asyncio.ensure_future(editor.say(session, "two permissions"))
    await editor.until(lambda: len(editor.asked) == 2)
    edit, execute = editor.asked
    assert [edit.call["kind"], execute.call["kind"]] == ["edit", "execute"]
    execute.choose("allow_once")
    edit.choose("allow_once")
    assert "Both are done" in await answering
    assert (folder / "demo-agent.txt").exists()


async def test_each_has_its_own_answer(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    editor.decide = lambda permission: permission.choose(
        "reject_once" if permission.call["kind"] == "edit" else "allow_once"
    )
    said = await editor.say(session, "two permissions")
    assert "You refused" in said
    assert "- I did not write `demo-agent.txt`.\n- I ran `echo hello from the demo agent`.\n" in said
    assert not (folder / "demo-agent.txt").exists()


async def test_a_refusal_with_a_reason_is_heard(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    selected = {"outcome": "selected", "optionId": "demo-never"}
    remark = {"dragoman": {"reason": "Not *today*."}}
    editor.decide = lambda permission: permission.incoming.reply({"outcome": selected, "_meta": remark})
    said = await editor.say(session, "write a file")
    assert said.endswith(
        "You refused. I did not write `demo-agent.txt`. I will not try it another way. "
        "You said: *Not \\*today\\*.*\n\n"
    )
    assert _files(folder) == []


async def test_always_is_for_this_session_and_this_command(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    editor.decide = lambda permission: permission.choose("allow_always")
    await editor.say(session, "!run echo hello")
    await editor.say(session, "!run echo hello")
    assert len(editor.asked) == 1
    await editor.say(session, "!run echo goodbye")
    assert len(editor.asked) == 2
    other = await editor.new(folder)
    await editor.say(other, "!run echo hello")
    assert len(editor.asked) == 3


async def test_a_file_that_changes_while_a_person_thinks_is_shown_again(editor: Editor, folder: Path) -> None:
    file = folder / "demo-agent.txt"
    file.write_text("first\n")
    session = await editor.start(folder)
    editor.decide = _hold
    # The command comes first, so that the loop comes to the file after it has changed.
    calls = '!call run_command {"command": "true"}\n!call write_file {"path": "demo-agent.txt", "content": "mine"}'
    answering = asyncio.ensure_future(editor.say(session, calls))
    await editor.until(lambda: len(editor.asked) == 2)
    command, stale = editor.asked
    file.write_text("second\n")
    stale.choose("allow_once")
    command.choose("allow_once")
    await editor.until(lambda: len(editor.asked) == 3)
    assert cast("list[JsonObject]", editor.asked[2].call["content"])[0]["oldText"] == "second\n"
    editor.asked[2].choose("allow_once")
    assert "ok: Wrote demo-agent.txt" in await answering
    assert file.read_text() == "mine"


async def test_a_request_that_became_pointless_is_withdrawn(editor: Editor, folder: Path) -> None:
    file = folder / "demo-agent.txt"
    session = await editor.start(folder)
    editor.decide = _hold
    calls = '!call run_command {"command": "true"}\n!call write_file {"path": "demo-agent.txt", "content": "mine"}'
    answering = asyncio.ensure_future(editor.say(session, calls))
    await editor.until(lambda: len(editor.asked) == 2)
    # Now it is a folder, and cannot be written any more.
    file.mkdir()
    editor.asked[0].choose("allow_once")
    assert "error:" in await answering
    withdrawn = editor.asked[1].incoming.token
    await editor.until(withdrawn.cancelled)
    assert len(editor.asked) == 2


async def test_cancelled_while_a_permission_is_awaited(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    editor.decide = _hold
    answering = asyncio.ensure_future(editor.prompt(session, "two permissions"))
    await editor.until(lambda: len(editor.asked) == 2)
    editor.cancel(session)
    assert (await answering)["stopReason"] == "cancelled"
    for permission in editor.asked:
        # Whoever approves now approves nothing.
        permission.choose("allow_once")
        assert editor.states(session, permission.call_id) == ["pending", "failed"]
    editor.decide = Permission.cancel
    assert "demo agent" in await editor.say(session, "hello")
    assert _files(folder) == []


async def test_a_permission_that_is_answered_with_cancelled_ends_the_turn(
    editor: Editor, folder: Path
) -> None:
    session = await editor.start(folder)
    editor.decide = Permission.cancel
    assert (await editor.prompt(session, "!run touch x"))["stopReason"] == "cancelled"
    assert _files(folder) == []


async def test_answers_that_are_no_approval(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    answers: tuple[object, ...] = (
        {"outcome": {"outcome": "selected", "optionId": "something else"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": "yes"},
        True,
    )
    for answer in answers:
        editor.decide = lambda permission, answer=answer: permission.incoming.reply(answer)  # type: ignore[misc]  # bound now
        assert "denied by user" in await editor.say(session, "!run touch x")
    editor.decide = lambda permission: permission.incoming.fail(-32603, "The dialog is broken.")
    assert "denied by user" in await editor.say(session, "!run touch x")
    assert _files(folder) == []


async def test_a_command_that_runs_is_ended_by_a_cancel(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    answering = asyncio.ensure_future(editor.prompt(session, "!run echo begun; sleep 60"))
    await editor.until(
        lambda: any("begun" in str(update) for update in editor.updates(session, "tool_call_update"))
    )
    editor.cancel(session)
    assert (await answering)["stopReason"] == "cancelled"
    last = editor.updates(session, "tool_call_update")[-1]
    assert last["status"] == "failed"
    assert "interrupted while it ran" in str(last["content"])
