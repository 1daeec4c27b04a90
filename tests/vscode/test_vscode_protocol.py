"""The protocol of `dragoman vscode`: its forms, its errors, its end."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import cast

import pytest

from dragoman.frontends.vscode.server import VsCodeServer
from dragoman.jsonrpc import RemoteError, RpcReply, RpcResponse
from dragoman.models import AgentSource
from memory_peers import memory_pair
from process.living import all_gone
from vscode.editor import Chat, Editor, editor_in, soon


def _agents(folder: Path) -> set[int]:
    entries = map(json.loads, (folder / "journal").read_text().splitlines())
    return {entry["params"]["pid"] for entry in entries if entry["method"] == "started"}


def _nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return value


async def test_the_handshake_and_everything_that_is_wrong_before_and_after_it(tmp_path: Path) -> None:
    async with editor_in(tmp_path, initialized=False) as (editor, process):
        with pytest.raises(RemoteError) as early:
            await editor.ask("lm/provideLanguageModelChatInformation", {"silent": True})
        assert early.value.code == -32002
        with pytest.raises(RemoteError) as newer:
            await editor.ask("initialize", {"protocolVersion": 2})
        assert newer.value.code == -32602
        assert newer.value.data == {"supported": [1]}
        assert "1" in newer.value.message

        hello = await editor.initialize(tmp_path)
        assert hello["protocolVersion"] == 1
        assert hello["server"]["name"] == "dragoman"
        assert "dragoman-agent-action-execute" in hello["permissionTools"]
        assert len(hello["permissionTools"]) == 7
        assert hello["configuration"] == str(tmp_path / "dragoman.toml")

        with pytest.raises(RemoteError) as unknown:
            await editor.ask("lm/somethingNew", {})
        assert unknown.value.code == -32601
        with pytest.raises(RemoteError) as unreadable:
            await editor.ask("lm/provideLanguageModelChatResponse", {"messages": "none"})
        assert unreadable.value.code == -32602
        for misunderstood in (unknown, unreadable):
            assert isinstance(misunderstood.value.data, dict)
            assert misunderstood.value.data["kind"] == "bad_request"
            assert "update both" in misunderstood.value.message

        deep = {
            "role": "user",
            "content": [{"type": "tool_call", "callId": "c", "name": "n", "input": _nested(500)}],
        }
        with pytest.raises(RemoteError, match="nested more than") as nested:
            await editor.ask(
                "lm/provideLanguageModelChatResponse", {"modelId": "fake", "messages": [deep], "options": {}}
            )
        assert nested.value.code == -32602

        # A malformed line is answered or logged, and the next one served.
        editor.peer.stream.write(b"{not json}\n[]\n\xff\xff\n")
        models = (await editor.ask("lm/provideLanguageModelChatInformation", {"silent": True}))["models"]
        described = {model["id"]: model for model in models}
        assert set(described) >= {"demo", "fake"}
        demo = described["demo"]
        assert demo["capabilities"] == {"toolCalling": True, "imageInput": True}
        assert demo["maxInputTokens"] > 0
        assert demo["isBYOK"] is True
        assert "\\" not in demo["id"]

        await _counts_tokens(editor)
        await _fails_by_kind(editor)

        assert await editor.ask("shutdown", {}) == {}
        assert (await soon(process.wait())).code == 0


async def test_a_fault_of_ours_is_told_with_what_to_do() -> None:
    """A server without models can only fail."""
    ours, theirs = memory_pair(VsCodeServer(cast(AgentSource, object())), Editor())
    ask = theirs.request
    await soon(ask("initialize", {"protocolVersion": 1}))
    with pytest.raises(RemoteError) as failed:
        await soon(ask("lm/provideLanguageModelChatInformation", {}))
    assert failed.value.code == -32603
    assert "AttributeError" in failed.value.message
    assert "Show Log" in failed.value.message
    assert isinstance(failed.value.data, dict)
    assert failed.value.data["kind"] == "internal"
    ours.close("over")


async def _counts_tokens(editor: Editor) -> None:
    words = {"modelId": "demo", "text": "some words to count"}
    count = await editor.ask("lm/provideTokenCount", words)
    assert isinstance(count, int)
    assert count > 0
    message = {"role": "user", "content": [{"type": "text", "value": "some words to count"}]}
    assert await editor.ask("lm/provideTokenCount", {"modelId": "demo", "message": message}) >= count


async def _fails_by_kind(editor: Editor) -> None:
    nobody = await editor.respond("nobody", [{"role": "user", "content": []}], []).settled()
    assert nobody.error.error.code == -32000
    assert nobody.kind == "not_found"
    # H18: a history that ends with an assistant message.
    said = {"role": "assistant", "content": [{"type": "text", "value": "I am done."}]}
    over = await editor.respond("demo", [said], []).settled()
    assert over.kind == "bad_request"
    # A permission tool without a request behind it.
    asked = {"name": "dragoman-agent-action-execute", "input": {"nonce": "made up", "title": "rm -rf /"}}
    prepared = await editor.ask("tools/prepareInvocation", asked)
    assert "no longer open" in prepared["confirmationMessages"]["message"]
    assert "rm -rf" not in json.dumps(prepared)
    invoked = await editor.ask("tools/invoke", asked)
    assert "nothing was allowed" in invoked["content"][0]["value"]


async def test_i7_shutdown_with_work_under_way_settles_it_and_leaves_no_process(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, process):
        chat = Chat(editor, "fake")
        answer = chat.begin(json.dumps([["say", "working"], ["hang"]]))
        await answer.until(lambda answer: answer.text)
        agents = _agents(tmp_path)
        ended: asyncio.Future[RpcReply] = asyncio.get_running_loop().create_future()
        editor.peer.call("shutdown", {}, ended.set_result)
        late = chat.begin("too late")
        assert isinstance(await soon(ended), RpcResponse)
        await chat.end(answer)
        assert (await late.settled()).error.error.code == -32600
        assert late.kind == "unavailable"
        assert "started again with your next prompt" in late.error.error.message
        assert (await soon(process.wait())).code == 0
        assert len(agents) == 1
        await soon(all_gone(agents))


async def _agent_at_work(editor: Editor, folder: Path) -> set[int]:
    chat = Chat(editor, "fake")
    answer = chat.begin(json.dumps([["say", "working"], ["deaf"]]))
    await answer.until(lambda answer: answer.text)
    agents = _agents(folder)
    assert len(agents) == 1
    return agents


async def test_f13_two_seconds_after_we_are_killed_no_agent_lives(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, process):
        agents = await _agent_at_work(editor, tmp_path)
        os.kill(process.pid, signal.SIGKILL)
        assert await soon(all_gone(agents)) < 2


async def test_f15_when_the_editor_is_gone_agents_are_ended_and_so_are_we(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, process):
        agents = await _agent_at_work(editor, tmp_path)
        editor.peer.close("the window was closed")
        assert (await soon(process.wait())).code == 0
        await soon(all_gone(agents))


async def test_f15_the_end_of_our_input_is_an_end_with_status_0(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, process):
        editor.peer.close_writing()
        assert (await soon(process.wait())).code == 0


async def test_what_is_logged_reaches_the_editor(tmp_path: Path) -> None:
    async with editor_in(tmp_path) as (editor, _):
        chat = Chat(editor)
        await chat.say({"type": "tool_result", "callId": "dg_forged\n", "content": []}, "hello")
        [logged] = [each for each in editor.logged if "not ours" in each["message"]]
        assert logged == {"level": "warning", "message": logged["message"]}
        assert "dg_forged\\n" in logged["message"], "on one line"


async def _models(editor: Editor) -> list[str]:
    listed = await editor.ask("lm/provideLanguageModelChatInformation", {"silent": True})
    return [model["id"] for model in listed["models"]]


@pytest.mark.long
async def test_a_model_that_is_added_or_removed_is_told_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    async with editor_in(tmp_path) as (editor, _):
        assert await _models(editor) == ["demo", "fake"]
        chat = Chat(editor)
        await chat.say("think about it")
        before = file.read_text()
        # Half an edit costs nothing; it is told, and what was there stays.
        file.write_text(f"{before}[models.helper]\nkind = ")
        await editor.logs("as it was before")
        assert await _models(editor) == ["demo", "fake"]
        # It may have been told what the agent offers.
        editor.models_changed.clear()
        file.write_text(f'{before}[models.helper]\nkind = "acp"\ncommand = ["helper"]\n')
        await soon(editor.models_changed.wait())
        assert await _models(editor) == ["demo", "fake", "helper"]
        editor.models_changed.clear()
        file.write_text(before)
        await soon(editor.models_changed.wait())
        assert await _models(editor) == ["demo", "fake"]
        assert "think about it" in (await chat.say("what did I say before?")).text, "its agent has gone on"
