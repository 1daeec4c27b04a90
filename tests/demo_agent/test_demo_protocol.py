"""Methods, sessions, errors: the protocol around the turns."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from demo_agent.harness import Editor, in_this_process, soon, text
from dragoman.demo.agent.server import AgentServer
from dragoman.demo.agent.store import SessionStore, StoredSession, new_id
from dragoman.jsonrpc import RemoteError
from dragoman.lm import user


async def _refused(editor: Editor, method: str, **params: object) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        await editor.ask(method, **params)
    return caught.value


async def test_it_says_what_it_can(editor: Editor) -> None:
    said = await editor.ask("initialize", protocolVersion=99, clientCapabilities={})
    assert said["protocolVersion"] == 1
    assert said["agentCapabilities"] == {
        "loadSession": True,
        "promptCapabilities": {"image": True, "embeddedContext": True},
        "sessionCapabilities": {"resume": {}, "fork": {}, "close": {}, "additionalDirectories": {}},
    }


async def test_nothing_goes_before_the_handshake(editor: Editor, folder: Path) -> None:
    refused = await _refused(editor, "session/new", cwd=str(folder), mcpServers=[])
    assert refused.code == -32600


async def test_methods_and_notifications_that_it_does_not_know(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    with pytest.raises(RemoteError) as caught:
        await soon(editor.peer.request("session/dance", {}))
    assert caught.value.code == -32601
    editor.peer.notify("session/dance", {})
    editor.peer.notify("session/cancel", {"sessionId": "demo-nobody"})
    editor.peer.notify("session/cancel", {"session": 1})
    assert "demo agent" in await editor.say(session, "hello")


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"cwd": "relative/path", "mcpServers": []},
        {"cwd": "/tmp", "additionalDirectories": ["x"]},
        {
            "cwd": "/tmp",
            "mcpServers": [{"type": "sse", "name": "x", "url": "http://localhost", "headers": []}],
        },
        {"cwd": "/tmp", "mcpServers": [{"name": "x"}]},
        {
            "cwd": "/tmp",
            "mcpServers": [{"type": "http", "name": "x", "url": "http://localhost", "headers": []}],
        },
    ],
)
async def test_parameters_that_make_no_sense(editor: Editor, params: dict[str, object]) -> None:
    await editor.ask("initialize", protocolVersion=1)
    assert (await _refused(editor, "session/new", **params)).code == -32602


async def test_a_session_that_is_not_there(editor: Editor, folder: Path) -> None:
    await editor.start(folder)
    for method in ("session/load", "session/resume", "session/fork"):
        for name in ("demo-0123456789abcdef", "../../etc/passwd"):
            refused = await _refused(editor, method, sessionId=name, cwd=str(folder), mcpServers=[])
            assert refused.code == -32002
    for method, params in (
        ("session/prompt", {"prompt": [text("hello")]}),
        ("session/close", {}),
        ("session/set_mode", {"modeId": "plan"}),
    ):
        assert (await _refused(editor, method, sessionId="demo-nobody", **params)).code == -32002
    assert (await _refused(editor, "session/prompt", prompt="hello")).code == -32602


async def test_a_fault_of_its_own_is_answered_too(
    editor: Editor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await editor.start(folder)

    def broken(self: AgentServer, name: str) -> None:
        raise ZeroDivisionError(name)

    monkeypatch.setattr(AgentServer, "_session", broken)
    refused = await _refused(editor, "session/set_mode", sessionId=session, modeId="plan")
    assert refused.code == -32603
    assert "ZeroDivisionError" in refused.message


async def test_modes(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    await editor.ask("session/set_mode", sessionId=session, modeId="plan")
    assert editor.updates(session, "current_mode_update") == [
        {"sessionUpdate": "current_mode_update", "currentModeId": "plan"}
    ]
    assert "planning" in await editor.say(session, "run a command")
    assert "planning" in await editor.say(session, "write a file")
    assert "by myself" in await editor.say(session, "!run echo hello")
    assert editor.asked == []
    assert editor.updates(session, "plan")
    assert "by myself" in await editor.say(session, "!write a b")
    await editor.ask("session/set_mode", sessionId=session, modeId="default")
    assert "hello" in await editor.say(session, "run a command")
    assert (await _refused(editor, "session/set_mode", sessionId=session, modeId="yolo")).code == -32602


async def test_options(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    said = await editor.ask("session/set_config_option", sessionId=session, configId="pace", value="fast")
    assert isinstance(said["configOptions"], list)
    assert said["configOptions"][0]["currentValue"] == "fast"
    for option, value in (("pace", "supersonic"), ("colour", "blue"), ("pace", ["fast"])):
        refused = await _refused(
            editor, "session/set_config_option", sessionId=session, configId=option, value=value
        )
        assert refused.code == -32602


async def test_several_sessions_answer_at_once_and_each_has_its_own_words(
    editor: Editor, folder: Path
) -> None:
    first = await editor.start(folder)
    second = await editor.new(folder)
    waiting = asyncio.ensure_future(editor.prompt(first, "!hang"))
    await editor.until(lambda: editor.updates(first, "agent_message_chunk"))
    assert "nothing before" in await editor.say(second, "what did I say before?")
    editor.cancel(first)
    assert (await waiting)["stopReason"] == "cancelled"
    assert "hang" not in editor.text(second)


async def test_one_turn_at_a_time(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    waiting = asyncio.ensure_future(editor.prompt(session, "!hang"))
    await editor.until(lambda: editor.updates(session))
    busy = await _refused(editor, "session/prompt", sessionId=session, prompt=[text("hello")])
    assert busy.code == -32600
    busy = await _refused(editor, "session/load", sessionId=session, cwd=str(folder), mcpServers=[])
    assert busy.code == -32600
    await editor.ask("session/close", sessionId=session)
    assert (await waiting)["stopReason"] == "cancelled"
    assert (await _refused(editor, "session/close", sessionId=session)).code == -32002


async def test_a_cancel_right_behind_its_prompt_finds_it(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    answers: asyncio.Queue[object] = asyncio.Queue()
    editor.peer.call("session/prompt", {"sessionId": session, "prompt": [text("!hang")]}, answers.put_nowait)
    editor.cancel(session)
    answer = await soon(answers.get())
    assert json.loads(getattr(answer, "result", b""))["stopReason"] == "cancelled"
    assert "demo agent" in await editor.say(session, "hello")


async def test_a_prompt_that_is_withdrawn_is_cancelled(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    answers: asyncio.Queue[object] = asyncio.Queue()
    identity = editor.peer.call(
        "session/prompt", {"sessionId": session, "prompt": [text("!slow")]}, answers.put_nowait
    )
    await editor.until(lambda: len(editor.updates(session)) > 1)
    editor.peer.withdraw(identity)
    answer = await soon(answers.get())
    assert json.loads(getattr(answer, "result", b""))["stopReason"] == "cancelled"


async def test_any_other_request_that_is_withdrawn(editor: Editor, folder: Path) -> None:
    await editor.start(folder)
    answers: asyncio.Queue[object] = asyncio.Queue()
    silent = {"name": "silent", "command": "sleep", "args": ["60"], "env": []}
    identity = editor.peer.call(
        "session/new", {"cwd": str(folder), "mcpServers": [silent]}, answers.put_nowait
    )
    editor.peer.withdraw(identity)
    answer = await soon(answers.get())
    assert getattr(answer, "error", None).code == -32800  # type: ignore[union-attr]  # it has one, or the test fails


async def test_a_history_is_told_again_before_a_load_is_answered(
    editor: Editor, folder: Path, tmp_path: Path
) -> None:
    session = await editor.start(folder)
    await editor.say(session, "think about it")
    await editor.say(session, "write a file")
    await editor.prompt(
        session, {"type": "text", "text": "<client-context>\nsecret\n</client-context>"}, "hi"
    )
    live = editor.heard[:]
    editor.heard.clear()
    await editor.ask("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
    told = editor.heard[:]
    said = _words(live)
    assert _words(told) == [
        ("user", "think about it"),
        *said[:2],
        ("user", "write a file"),
        *said[2:-1],
        ("user", "hi"),
        said[-1],
    ]
    assert "secret" not in json.dumps(told)
    calls = editor.updates(session, "tool_call")
    assert [call["kind"] for call in calls] == ["edit"]
    assert editor.updates(session, "tool_call_update")[-1]["status"] == "completed"
    assert "think about it" in await editor.say(session, "what did I say before?")


def _words(heard: list[dict[str, object]]) -> list[tuple[str, str]]:
    """Who said what, chunks of one speaker joined."""
    said: list[tuple[str, str]] = []
    for each in heard:
        update = each["update"]
        assert isinstance(update, dict)
        kind = str(update["sessionUpdate"])
        if not kind.endswith("_chunk"):
            said.append(("", ""))
            continue
        who = kind.partition("_")[0] if "thought" not in kind else "thought"
        words = update["content"].get("text", "")
        if said and said[-1][0] == who:
            said[-1] = who, said[-1][1] + words
        else:
            said.append((who, words))
    return [each for each in said if each[0]]


async def test_a_session_is_taken_up_by_another_process(folder: Path, tmp_path: Path) -> None:
    async with in_this_process(tmp_path / "sessions") as before:
        session = await before.start(folder)
        await before.say(session, "my name is Pierre")
        await before.ask("session/set_mode", sessionId=session, modeId="plan")
    async with in_this_process(tmp_path / "sessions") as after:
        await after.ask("initialize", protocolVersion=1)
        resumed = await after.ask("session/resume", sessionId=session, cwd=str(folder))
        assert after.heard == []
        assert isinstance(resumed["modes"], dict)
        assert resumed["modes"]["currentModeId"] == "plan"
        assert "Pierre" in await after.say(session, "what did I say before?")


async def test_a_fork_goes_its_own_way(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    await editor.say(session, "my name is Pierre")
    forked = str(
        (await editor.ask("session/fork", sessionId=session, cwd=str(folder), mcpServers=[]))["sessionId"]
    )
    assert forked != session
    await editor.say(session, "my name is Paul")
    said = await editor.say(forked, "what did I say before?")
    assert "Pierre" in said
    assert "Paul" not in said


def test_sessions_that_cannot_be_kept_or_read_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = StoredSession(id=new_id(), mode="default", pace="instant")
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    SessionStore(in_the_way).save(kept)
    assert "cannot be stored" in caplog.text
    (tmp_path / f"{kept.id}.json").write_text("no session")
    assert SessionStore(tmp_path).load(kept.id) is None
    assert "cannot be read" in caplog.text


def test_old_sessions_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.demo.agent.store.MAX_SESSIONS", 3)
    store = SessionStore(tmp_path)
    sessions = [StoredSession(id=new_id(), mode="default", pace="instant") for _ in range(5)]
    for age, kept in enumerate(sessions):
        store.save(kept)
        os.utime(tmp_path / f"{kept.id}.json", (age, age))
    assert [store.load(kept.id) for kept in sessions] == [None, None, *sessions[2:]]


async def test_whatever_is_under_way_ends_when_the_client_is_gone(tmp_path: Path, folder: Path) -> None:
    async with in_this_process(tmp_path / "sessions") as editor:
        session = await editor.start(folder)
        other = await editor.new(folder)
        editor.decide = lambda _permission: None
        for name, words in ((session, "!hang"), (other, "!run sleep 60")):
            params = {"sessionId": name, "prompt": [text(words)]}
            editor.peer.call("session/prompt", params, lambda _reply: None)
        await editor.until(lambda: editor.asked)
    kept = SessionStore(tmp_path / "sessions").load(other)
    assert kept is not None
    assert [result.outcome for result in kept.messages[-1].results] == ["interrupted"]


def test_half_a_character_costs_a_session_that_half_and_not_its_future(tmp_path: Path) -> None:
    """A client may cut what it sends in the middle of an emoji."""
    kept = StoredSession(id=new_id(), mode="default", pace="instant", messages=(user("half \ud83d"),))
    store = SessionStore(tmp_path)
    store.save(kept)
    loaded = store.load(kept.id)
    assert loaded is not None
    assert loaded.messages == (user("half \ufffd"),)
