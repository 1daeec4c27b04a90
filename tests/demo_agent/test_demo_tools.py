"""The consumer's tools: announced, asked about, and called over MCP, as the bridge's own tool server sees it."""

import asyncio
import base64
from pathlib import Path
from typing import cast

import pytest

from demo_agent.harness import Editor, Permission, soon
from dragoman.backends.agent.toolserver import PendingCall, ToolServer
from dragoman.cli.agent_probe.stripes import Stripes
from dragoman.lm import DataPart, JsonObject, TextPart, ToolDefinition
from dragoman.lm.parts import ToolResult
from toolserver.harness import Bridge, PatientClock, text, tool

_PATH: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_WORD: JsonObject = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
_TOOLS = (
    tool("run_anything", "Runs whatever it is given"),
    tool("read_file", "Reads a file", _PATH),
    tool("look_up", "Looks a word up", _WORD),
)
_NAME = "dg-1234"


def _address(bridge: Bridge) -> JsonObject:
    command, arguments, env = bridge.endpoint.stdio()
    return {"name": _NAME, "command": command, "args": list(arguments), "env": _pairs(env)}


def _pairs(values: dict[str, str]) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _bridge(server: ToolServer, *tools: ToolDefinition) -> Bridge:
    return Bridge.of(server, *(tools or _TOOLS), name=_NAME)


async def _called(bridge: Bridge, answer: str) -> PendingCall:
    call = await bridge.call()
    bridge.answer(call, text(answer))
    return call


async def test_one_call(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    assert bridge.listed == 1
    answering = asyncio.ensure_future(editor.say(session, "read notes/today.txt, please"))
    call = await _called(bridge, "Buy bread.")
    assert (call.name, call.arguments) == ("read_file", {"path": "notes/today.txt"})
    assert (await answering).endswith("It says:\n\n~~~~\nBuy bread.\n~~~~\n")
    [permission] = editor.asked
    given = {"server": _NAME, "tool": "read_file", "arguments": {"path": "notes/today.txt"}}
    assert permission.call["rawInput"] == given
    announced = editor.updates(session, "tool_call")
    assert [update["rawInput"] for update in announced] == [given]
    assert announced[0]["status"] == "pending"
    assert editor.states(session, permission.call_id) == ["pending", "in_progress", "completed"]
    assert "Buy bread." in str(editor.updates(session, "tool_call_update")[-1]["content"])


async def test_a_word_is_looked_up(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.say(session, "Please look up thank you!"))
    call = await _called(bridge, "teşekkür ederim")
    assert (call.name, call.arguments) == ("look_up", {"word": "thank you"})
    assert "teşekkür ederim" in await answering


async def test_two_in_a_row(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.say(session, "two in a row"))
    first = await _called(bridge, "ONE")
    second = await _called(bridge, "TWO")
    assert [first.name, second.name] == ["read_file", "look_up"]
    said = await answering
    assert said.index("ONE") < said.index("Now the second") < said.index("TWO")


async def test_three_at_once(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.say(session, "three in parallel"))
    # All are there before any is answered.
    calls = {call.name: call for call in [await bridge.call() for _ in range(3)]}
    assert sorted(calls) == ["look_up", "read_file", "run_anything"]
    for name in ("run_anything", "look_up", "read_file"):
        bridge.answer(calls[name], text(f"<{name}>"))
    said = await answering
    assert [
        said.index(f"{n}. <{name}>") for n, name in enumerate(("read_file", "look_up", "run_anything"), 1)
    ]
    kinds = [update["sessionUpdate"] for update in editor.updates(session)]
    assert kinds.index("tool_call_update") > kinds.index("tool_call") + 2


async def test_text_call_text(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.say(session, "text in between"))
    call = await bridge.call()
    assert editor.text(session) == "This is before the call.\n\n"
    bridge.answer(call, text("RESULT"))
    assert "after the call, which said: RESULT" in await answering


async def test_calls_by_name_over_several_rounds(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    words = '!call look_up {"word": "${prompt}", "n": [null, "${x}", {"a": 1}]}\n!call read_file\n!then\n!call run_anything {}'
    answering = asyncio.ensure_future(editor.say(session, words))
    calls = {call.name: call for call in [await bridge.call() for _ in range(2)]}
    assert calls["look_up"].arguments == {"word": "${prompt}", "n": [None, "${x}", {"a": 1}]}
    assert calls["read_file"].arguments == {"path": "README.md"}
    for call in calls.values():
        bridge.answer(call, text("first round"))
    await _called(bridge, "${result}")
    assert await answering == "ok: ${result}\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("!call dance", "There is no tool `dance`"),
        ("!call look_up {", "are no JSON"),
        ("!call look_up 3", "are no object"),
        ("!call look_up {}", "does not fit its schema"),
    ],
)
async def test_calls_that_cannot_be_made(
    editor: Editor, folder: Path, server: ToolServer, words: str, expected: str
) -> None:
    session = await editor.start(folder, _address(_bridge(server)))
    assert expected in await editor.say(session, words)
    # A client that allowed such a call would wait for it in vain.
    assert editor.asked == []


async def test_a_tool_and_a_permission_at_once(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))

    def own_only(permission: Permission) -> None:
        if permission.call["kind"] != "execute":
            permission.choose("allow_once")

    editor.decide = own_only
    answering = asyncio.ensure_future(editor.say(session, "both kinds"))
    call = await bridge.call()
    await editor.until(lambda: len(editor.asked) == 2)
    editor.asked[1].choose("allow_once")
    bridge.answer(call, text("YOURS"))
    said = await answering
    assert said.index("YOURS") < said.index("hello from the demo agent")


async def test_a_call_that_is_refused_is_not_made(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    editor.decide = lambda permission: permission.choose("reject_once")
    assert "You refused" in await editor.say(session, "read notes.txt")
    assert bridge.calls.empty()


async def test_a_tool_that_is_allowed_always_is_not_permission_requested_again(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    editor.decide = lambda permission: permission.choose("allow_always")
    for words in ("read one.txt", "read two.txt"):
        answering = asyncio.ensure_future(editor.say(session, words))
        await _called(bridge, "text")
        await answering
    assert len(editor.asked) == 1


async def test_cancelled_while_a_result_is_awaited_the_call_is_withdrawn(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.prompt(session, "three in parallel"))
    calls = [await bridge.call() for _ in range(3)]
    bridge.answer(calls[0], text("DONE"))
    await editor.until(lambda: "DONE" in str(editor.updates(session, "tool_call_update")))
    editor.cancel(session)
    assert (await answering)["stopReason"] == "cancelled"
    withdrawn = {await soon(bridge.withdrawn.get()) for _ in calls[1:]}
    assert withdrawn == {call.key for call in calls[1:]}
    ends = [update["status"] for update in editor.updates(session, "tool_call_update") if "status" in update]
    assert sorted(map(str, ends[3:])) == ["completed", "failed", "failed"]
    assert "demo agent" in await editor.say(session, "hello")


async def test_progress_is_passed_on(
    editor: Editor, folder: Path, server: ToolServer, clock: PatientClock
) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.say(session, "read notes.txt"))
    call = await bridge.call()
    before = len(editor.heard)
    await clock.pass_seconds(15)
    await editor.until(
        lambda: any("content" in each for each in editor.updates(session, "tool_call_update", before))
    )
    bridge.answer(call, text("at last"))
    assert "at last" in await answering


async def test_results_of_every_kind(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answers = {
        "ok: hello": ToolResult((TextPart("hello"),)),
        "error: broken": ToolResult((TextPart("broken"),), is_error=True),
        "ok: picture": ToolResult((TextPart("picture"), DataPart.image(b"png", "image/png"))),
        'ok: {"a":1}': ToolResult((DataPart.json({"a": 1}),)),
        "ok: \n": ToolResult((DataPart("application/zip", b"zip"),)),
    }
    for expected, answer in answers.items():
        answering = asyncio.ensure_future(editor.say(session, "!call read_file"))
        bridge.answer(await bridge.call(), answer)
        assert expected in await answering
    shown = [
        update["content"] for update in editor.updates(session, "tool_call_update") if "content" in update
    ]
    assert cast("list[JsonObject]", shown[2])[1]["content"] == {
        "type": "image",
        "data": "cG5n",
        "mimeType": "image/png",
    }
    assert "[application/zip, 3 bytes]" in str(shown[4])


async def test_tools_that_change_between_prompts(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    assert "5 tools, 3 of them yours" in await editor.say(session, "Which tools do you have?")
    bridge.endpoint.set_tools((tool("look_up", "Looks up two words", _PATH), tool("fresh", "New here")))
    said = await editor.say(session, "Which tools do you have?")
    assert "4 tools, 2 of them yours" in said
    assert "Looks up two words" in said
    bridge.endpoint.set_tools(_TOOLS)
    assert "`dg-1234__look_up`: Looks a word up" in await editor.say(session, "Which tools do you have?")


async def test_tools_that_change_in_mid_turn_are_there_for_the_next_call(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.say(session, "!call read_file\n!then\n!call fresh {}"))
    call = await bridge.call()
    bridge.endpoint.set_tools((*_TOOLS, tool("fresh", "New here")))
    await soon(bridge.endpoint._has_listed.wait())
    bridge.answer(call, text("old"))
    assert (await _called(bridge, "new")).name == "fresh"
    assert "ok: new" in await answering


async def test_calls_without_end(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.prompt(session, "!loop"))
    for _ in range(25):
        await _called(bridge, "again")
    assert (await answering)["stopReason"] == "max_turn_requests"
    assert "demo agent" in await editor.say(session, "hello")


async def test_the_tools_of_a_session_that_is_taken_up_are_those_offered_then(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.say(session, "read notes.txt"))
    await _called(bridge, "Buy bread.")
    await answering
    editor.heard.clear()
    await editor.ask("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
    [told] = editor.updates(session, "tool_call")
    assert told["rawInput"] == {"path": "notes.txt"}
    assert "0 of them yours" in await editor.say(session, "Which tools do you have?")


async def test_a_server_that_is_not_there_is_told_of_and_done_without(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    dead: JsonObject = {"name": "dead", "command": "false", "args": [], "env": []}
    missing: JsonObject = {"name": "missing", "command": "/no/such/program", "args": [], "env": []}
    session = await editor.start(folder, dead, _address(_bridge(server)), missing)
    said = await editor.say(session, "Which tools do you have?")
    assert "3 of them yours" in said
    assert "dead is gone" in said
    assert "missing: There is no program" in said


async def test_a_server_that_goes_away(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.say(session, "read notes.txt"))
    await bridge.call()
    await bridge.endpoint.close()
    assert "It did not work" in await answering
    assert "0 of them yours" in await editor.say(session, "Which tools do you have?")


async def test_a_tool_is_called_when_it_is_asked_for_by_name(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.say(session, "What is in Izmir? Use the tool look_up."))
    call = await _called(bridge, "A clock tower.")
    assert (call.name, call.arguments) == ("look_up", {"word": "Izmir"})
    assert "A clock tower." in await answering
    assert "There is no tool `juggle`" in await editor.say(session, "Please call the tool juggle.")


async def test_a_tool_and_a_command_are_asked_for_at_once_and_come_one_after_the_other(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    """As `dragoman doctor` asks every agent."""
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    words = "Call the tool look_up with the word ping. Then run the shell command `echo done > out.txt`."
    answering = asyncio.ensure_future(editor.say(session, words))
    call = await _called(bridge, "pong")
    assert (call.name, call.arguments) == ("look_up", {"word": "ping"})
    said = await answering
    assert said.index("pong") < said.index("With your permission") < said.index("Exit code 0")
    assert (folder / "out.txt").read_text() == "done\n"


async def test_a_file_is_deleted_and_a_page_fetched_by_commands_that_a_person_sees_first(
    editor: Editor, folder: Path
) -> None:
    session = await editor.start(folder)
    (folder / "it's old.txt").write_text("")
    await editor.say(session, "Delete the file `it's old.txt`.")
    assert not (folder / "it's old.txt").exists()
    asked: list[object] = []

    def refuse(permission: Permission) -> None:
        asked.append(permission.call["title"])
        permission.choose("reject_once")

    editor.decide = refuse
    await editor.say(session, "Fetch `http://127.0.0.1:9/$(id)` and say what it says.")
    assert asked == ["curl -sS -m 10 'http://127.0.0.1:9/$(id)'"]


async def test_the_colours_of_a_picture_are_seen(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    stripes = Stripes.random()
    picture = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(stripes.png).decode()}
    await editor.ask(
        "session/prompt", sessionId=session, prompt=[picture, {"type": "text", "text": "Which colours?"}]
    )
    assert editor.text(session).strip() == ", ".join(stripes.colours)


async def test_after_a_refusal_nothing_else_is_begun(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    editor.decide = lambda permission: permission.choose("reject_once")
    said = await editor.say(session, "Run `touch out.txt`, then use the tool look_up.")
    assert "You refused. I did not run `touch out.txt`." in said
    assert not (folder / "out.txt").exists()


async def test_a_long_file_is_not_given_back_whole(editor: Editor, folder: Path, server: ToolServer) -> None:
    bridge = _bridge(server)
    session = await editor.start(folder, _address(bridge))
    answering = asyncio.ensure_future(editor.say(session, "read notes.txt"))
    await _called(bridge, "\n".join(f"line {number}" for number in range(1, 31)))
    said = await answering
    assert "line 6\n… and 24 more lines\n" in said
    assert "line 7" not in said
