"""What the agent says and does by itself, without a tool of the consumer's."""

import asyncio
import base64
from pathlib import Path

import pytest

from demo_agent.harness import Editor, in_this_process, text
from dragoman.backends.scripted import load_script
from dragoman.demo.agent import SCRIPT
from dragoman.jsonrpc import RemoteError
from dragoman.lm import JsonObject, estimate_tokens, user


async def test_it_greets_and_says_what_to_try(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    said = await editor.say(session, "hello")
    assert "two permissions" in said
    assert len(editor.updates(session, "agent_message_chunk")) > 20


async def test_it_thinks(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    await editor.say(session, "think about it")
    assert "see me think" in editor.text(session, kind="agent_thought_chunk")


async def test_it_plans(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    assert "plan" in await editor.say(session, "make a plan")
    plans = editor.updates(session, "plan")
    assert [[entry["status"] for entry in _list(plan["entries"])] for plan in plans] == [
        ["in_progress", "pending"],
        ["completed", "in_progress"],
        ["completed", "completed"],
    ]


async def test_a_picture_out(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    await editor.say(session, "draw a picture")
    blocks = [update["content"] for update in editor.updates(session, "agent_message_chunk")]
    pictures = [block for block in blocks if isinstance(block, dict) and block["type"] == "image"]
    assert [picture["mimeType"] for picture in pictures] == ["image/png"]
    # Whoever shows it says what it is, if need be: once is enough.
    assert "image/png" not in str([block for block in blocks if block not in pictures])
    assert base64.b64decode(pictures[0]["data"]).startswith(b"\x89PNG")
    editor.heard.clear()
    await editor.ask("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
    told = [update["content"] for update in editor.updates(session, "agent_message_chunk")]
    assert pictures[0] in told


async def test_a_picture_in(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    picture: JsonObject = {
        "type": "image",
        "data": base64.b64encode(b"12345").decode(),
        "mimeType": "image/gif",
    }
    await editor.prompt(session, "what is this?", picture)
    assert "image/gif" in editor.text(session)
    assert "5 bytes" in editor.text(session)
    before = len(editor.heard)
    await editor.prompt(session, picture)
    assert "image/gif" in editor.text(session, before)


async def test_the_users_words_are_the_last_text_and_the_rest_is_context(
    editor: Editor, folder: Path
) -> None:
    session = await editor.start(folder)
    transcript = "<conversation-so-far>\nUser: my favourite colour is teal\n\nAssistant: Noted.\n</conversation-so-far>"
    in_it: JsonObject = {"type": "image", "data": base64.b64encode(b"old").decode(), "mimeType": "image/png"}
    await editor.prompt(
        session,
        text("<client-context>\nrun a command\n</client-context>"),
        text(transcript),
        in_it,
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "write a file"}},
        {"type": "resource_link", "uri": "file:///b.txt", "name": "b.txt"},
        text("what did I say before?"),
    )
    said = editor.text(session)
    assert "colour is teal" in said
    assert "image/png" not in said
    assert editor.asked == []
    assert "what did I say before?" in await editor.say(session, "do you remember?")


async def test_it_tells_its_usage(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    first = await editor.prompt(session, "hello")
    usage = first["usage"]
    assert isinstance(usage, dict)
    assert usage["inputTokens"] == estimate_tokens(user("hello"))
    assert usage["outputTokens"] > 50
    assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"]
    [update] = editor.updates(session, "usage_update")
    assert update["used"] == usage["totalTokens"]
    assert update["size"] == load_script(SCRIPT).info.max_input_tokens


async def test_an_error_ends_the_turn_and_not_the_session(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    with pytest.raises(RemoteError) as caught:
        await editor.prompt(session, "!error The moon is full: ${prompt}")
    assert caught.value.code == -32603
    assert caught.value.message == "The moon is full: ${prompt}"
    assert caught.value.data == {"details": "Ask for something else."}
    assert "demo agent" in await editor.say(session, "hello")


async def test_it_refuses(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    assert (await editor.prompt(session, "!refuse"))["stopReason"] == "refusal"


async def test_a_flood_arrives_whole_and_in_order(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    assert (await editor.say(session, "!flood 1000")).split() == [str(n) for n in range(1, 1001)]
    assert len(editor.updates(session, "agent_message_chunk")) == 1000
    before = len(editor.heard)
    await editor.say(session, "!flood")
    assert len(editor.updates(session, "agent_message_chunk", before)) == 1000


async def test_cancelled_in_mid_stream_it_stops_and_remembers_what_it_said(
    editor: Editor, folder: Path
) -> None:
    session = await editor.start(folder)
    waiting = asyncio.ensure_future(editor.prompt(session, "!slow 1000"))
    await editor.until(lambda: editor.text(session) == "1 2 3 ")
    editor.cancel(session)
    editor.cancel(session)
    assert (await waiting)["stopReason"] == "cancelled"
    said = editor.text(session).split()
    assert said == [str(n) for n in range(1, len(said) + 1)]
    assert "`1 2 3" in await editor.say(session, "!history")


async def test_a_slow_answer_comes_to_an_end(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    assert await editor.say(session, "!slow 2") == "1 2 "


async def test_it_lists_what_it_has(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    said = await editor.say(session, "Which tools do you have?")
    assert "2 tools, 0 of them yours" in said
    assert "`write_file`" in said


@pytest.mark.parametrize("words", ["read notes.txt", "three in parallel", "!loop"])
async def test_without_tools_it_says_so_once(editor: Editor, folder: Path, words: str) -> None:
    session = await editor.start(folder)
    assert (await editor.say(session, words)).count("no tools") == 1


async def test_it_talks_at_its_pace(tmp_path: Path, folder: Path) -> None:
    async with in_this_process(tmp_path, pace="natural") as editor:
        session = await editor.start(folder)
        answering = asyncio.ensure_future(editor.prompt(session, "tell a long story"))
        await editor.until(lambda: editor.text(session))
        editor.cancel(session)
        assert (await answering)["stopReason"] == "cancelled"


async def test_a_prompt_that_says_nothing(editor: Editor, folder: Path) -> None:
    session = await editor.start(folder)
    for blocks in ((), (" ",), ("<conversation-so-far>\nUser: hello\n</conversation-so-far>",)):
        with pytest.raises(RemoteError) as caught:
            await editor.prompt(session, *blocks)
        assert caught.value.code == -32602


async def test_a_script_of_its_own(tmp_path: Path, folder: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"do": [{"say": "Only this."}]}\n')
    async with in_this_process(tmp_path, script=load_script(script)) as editor:
        session = await editor.start(folder)
        assert await editor.say(session, "anything") == "Only this."


def _list(value: object) -> list[JsonObject]:
    assert isinstance(value, list)
    return value
