"""Terminals of agents: each command is asked about, runs under our supervision, is shown in the editor, and ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fake_agent.steps import open_gate, prompt
from vscode.editor import Answer, Chat, Editor, editor_in, noted

pytestmark = pytest.mark.long

_BOTH = ["allow_once", "reject_once"]
# It prints its pid, and then waits for a signal, with a child that has left its process group.
_LONG = "setsid sleep 600 & echo $$; exec sleep 600"


async def _started(tmp_path: Path, editor: Editor) -> Chat:
    await editor.initialize(tmp_path, terminal=True)
    return Chat(editor, "fake")


async def _yes(chat: Chat, answer: Answer) -> Answer:
    [call] = answer.calls
    return await chat.say(await chat.editor.approve(call))


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def _pid(editor: Editor) -> int:
    await editor.terminals_until(lambda now: any("\n" in shown for shown in now.terminals.values()))
    [shown] = editor.terminals.values()
    return int(shown.split()[0])


@pytest.mark.parametrize("declares", [False, True])
async def test_terminals_are_offered_where_the_editor_has_them(tmp_path: Path, *, declares: bool) -> None:
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        await editor.initialize(tmp_path, terminal=declares)
        answer = await Chat(editor, "fake").say(prompt(["terminal", {"command": "true"}]))
        [sent] = noted(tmp_path, "initialize")
        assert sent["clientCapabilities"]["terminal"] is declares
        assert ("not offered" in answer.text, len(answer.calls)) == (not declares, declares)


async def test_a_command_is_asked_about_completely_then_runs_and_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    command: dict[str, Any] = {
        "command": "sh",
        "args": ["-c", "echo out; echo err >&2; pwd; echo $X; exit 3"],
        "env": [{"name": "X", "value": "y z"}],
        "cwd": str(folder),
    }
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        chat = await _started(tmp_path, editor)
        steps = prompt(
            ["terminal", command],
            ["term", "wait_for_exit"],
            ["term", "output"],
            ["term", "release"],
            ["term", "output"],
        )
        answer = await chat.say(steps)
        [call] = answer.calls
        assert call["name"] == "dragoman-agent-action-execute"
        shown = (await editor.ask("tools/prepareInvocation", call))["modal"]["detail"]
        question = shown.replace("↩\n    ", "")
        for words in ("sh -c 'echo out; echo err >&2; pwd; echo $X; exit 3'", "y z", str(folder)):
            assert words in question
        assert editor.terminals == {}, "nothing before the yes"
        assert "<terminal: created>" in (await _yes(chat, answer)).text
        printed = f"out\nerr\n{folder}\ny z\n"
        status = {"exitCode": 3, "signal": None}
        assert noted(tmp_path, "terminal wait_for_exit") == [status]
        first, released = noted(tmp_path, "terminal output")
        assert first == {"output": printed, "truncated": False, "exitStatus": status}
        assert "There is no terminal" in released["message"]
        assert (list(editor.terminals.values()), list(editor.exits.values())) == ([printed], [status])


async def test_a_refused_command_does_not_run(tmp_path: Path) -> None:
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        chat = await _started(tmp_path, editor)
        [call] = (await chat.say(prompt(["terminal", {"command": "touch made"}]))).calls
        refused = {"type": "tool_result", "callId": call["callId"], "content": []}
        assert "the user refused it" in (await chat.say(refused)).text
        assert (editor.terminals, (tmp_path / "made").exists()) == ({}, False)


async def test_exactly_the_command_that_was_approved_in_this_turn_is_not_asked_about_again(
    tmp_path: Path,
) -> None:
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        chat = await _started(tmp_path, editor)
        ask = ["ask", {"toolCallId": "p", "kind": "execute", "rawInput": {"command": "echo 'a b'"}}, _BOTH]
        same = ["terminal", {"command": "echo", "args": ["a b"]}]
        answer = await chat.say(prompt(ask, same, ["term", "wait_for_exit"], same))
        answer = await _yes(chat, answer)
        assert "<terminal: created>" in answer.text
        assert len(answer.calls) == 1, "the second one is asked about"
        await chat.say({"type": "tool_result", "callId": answer.calls[0]["callId"], "content": []})
        others: list[dict[str, Any]] = [
            {"command": "echo", "args": ["a", "b"]},
            {"command": "echo", "args": ["a b"], "env": [{"name": "A", "value": "b"}]},
            {"command": "echo", "args": ["a b"], "cwd": "/"},
        ]
        for other in others:
            answer = await _yes(chat, await chat.say(prompt(ask, ["terminal", other])))
            assert len(answer.calls) == 1, other
            await chat.say({"type": "tool_result", "callId": answer.calls[0]["callId"], "content": []})
        # Nor in the next turn.
        await _yes(chat, await chat.say(prompt(ask)))
        assert len((await chat.say(prompt(same))).calls) == 1


async def test_the_output_is_cut_at_a_character_from_the_beginning(tmp_path: Path) -> None:
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        chat = await _started(tmp_path, editor)
        create = ["terminal", {"command": "printf 'aaéé'", "outputByteLimit": 3}]
        await _yes(chat, await chat.say(prompt(create, ["term", "wait_for_exit"], ["term", "output"])))
        [said] = noted(tmp_path, "terminal output")
        assert (said["output"], said["truncated"]) == ("é", True)
        assert list(editor.terminals.values()) == ["aaéé"], "the editor has all of it"


@pytest.mark.parametrize("how", ["kill", "release", "turn", "user", "exit", "stop"])
async def test_nothing_is_left_running(tmp_path: Path, how: str) -> None:
    last: dict[str, list[Any]] = {
        "kill": [["gate", "go"], ["term", "kill"], ["term", "output"]],
        "release": [["gate", "go"], ["term", "release"]],
        "turn": [["gate", "go"]],
        "user": [["term", "wait_for_exit"]],
        "exit": [["gate", "go"], ["exit", 1]],
        "stop": [["hang"]],
    }
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        chat = await _started(tmp_path, editor)
        answer = await chat.say(prompt(["terminal", {"command": _LONG}], *last[how]))
        running = chat.begin(await editor.approve(answer.calls[0]))
        pid = await _pid(editor)
        assert _is_running(pid)
        open_gate(tmp_path, "go")
        if how == "user":
            [id_] = editor.terminals
            editor.peer.notify("terminal/kill", {"id": id_})
        elif how == "stop":
            running.cancel()
        await running.settled()
        await editor.terminals_until(lambda now: now.exits)
        assert not _is_running(pid)
        [exit_] = editor.exits.values()
        assert (exit_["exitCode"], exit_["signal"]) in ((None, "SIGTERM"), (None, "SIGKILL"))


async def test_an_editor_that_goes_away_leaves_no_command(tmp_path: Path) -> None:
    async with editor_in(tmp_path, initialized=False) as (editor, process):
        chat = await _started(tmp_path, editor)
        answer = await chat.say(prompt(["terminal", {"command": _LONG}], ["hang"]))
        chat.begin(await editor.approve(answer.calls[0]))
        pid = await _pid(editor)
        editor.peer.close_writing()
        await process.wait()
        assert not _is_running(pid)


async def test_a_command_that_cannot_be_started_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        chat = await _started(tmp_path, editor)
        create = ["terminal", {"command": "true", "cwd": str(tmp_path / "missing")}]
        assert "could not be started" in (await _yes(chat, await chat.say(prompt(create)))).text
        assert (
            "not an absolute path"
            in (await chat.say(prompt(["terminal", {"command": "true", "cwd": "x"}]))).text
        )


async def test_much_output_is_bounded_for_the_agent_and_whole_in_the_editor(tmp_path: Path) -> None:
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        chat = await _started(tmp_path, editor)
        create = ["terminal", {"command": "yes 123456789 | head -c 3000000", "outputByteLimit": 1000}]
        await _yes(chat, await chat.say(prompt(create, ["term", "wait_for_exit"], ["term", "output"])))
        [said] = noted(tmp_path, "terminal output")
        assert (len(said["output"]), said["truncated"]) == (1000, True)
        [shown] = editor.terminals.values()
        assert len(shown) == 3_000_000


async def test_the_terminal_shows_all_of_what_runs(tmp_path: Path) -> None:
    words = "x" * 200
    line = f"echo 'one\ttwo'\\\n  {words}; : \x1b[2J"
    argued = {"command": "echo", "args": ["a b", words], "env": [{"name": "X", "value": "y z"}]}
    async with editor_in(tmp_path, initialized=False) as (editor, _):
        chat = await _started(tmp_path, editor)
        answer = await chat.say(
            prompt(["terminal", {"command": line}], ["terminal", argued], ["term", "wait_for_exit"])
        )
        while answer.calls:
            answer = await _yes(chat, answer)
        shown = [params["command"] for method, params in editor.asked if method == "terminal/create"]
        assert shown == [line.replace("\x1b", "␛"), f"X='y z' echo 'a b' {words}"]
