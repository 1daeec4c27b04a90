"""What the service does whatever carries it: the official library's client, on the socket."""

import asyncio
import logging

import mcp_types
import pytest

from dragoman.backends.agent.toolserver import Endpoint, PendingCall, ToolServer
from dragoman.backends.agent.toolserver.calls import MAX_OPEN_CALLS
from dragoman.lm import DataPart, JsonObject, TextPart
from dragoman.lm.parts import ToolResult
from toolserver.harness import Bridge, PatientClock, attached, soon, text, texts, tool


async def _put_off(
    asked: asyncio.Future[mcp_types.CallToolResult], clock: PatientClock, seconds: float
) -> str:
    """Let the limit come near, and return what the agent gets then."""
    began = clock.now()
    while (left := seconds - (clock.now() - began)) > 0:
        await clock.pass_seconds(min(15, left))
    return texts(await soon(asked))[0]


async def test_t17_a_person_takes_eight_hours(server: ToolServer, clock: PatientClock) -> None:
    bridge = Bridge.of(server, tool("ask"))
    async with attached(bridge.endpoint) as agent:
        asked = asyncio.ensure_future(agent.call_tool("ask", {}))
        call = await bridge.call()
        for _ in range(8 * 240):
            await clock.pass_seconds(15)
        bridge.answer(call, text("yes"))
        assert texts(await soon(asked)) == ["yes"]
    assert clock.now() == 8 * 3600


async def test_t11_a_tool_is_listed_under_a_legal_name_and_called_under_its_own(server: ToolServer) -> None:
    bridge = Bridge.of(
        server,
        tool("files.read", "Reads", {"anyOf": [{"required": ["path"]}, {"required": ["uri"]}]}),
        tool("n" * 90),
        tool("plain", "Others are unaffected", {"type": "object", "properties": {"input": {}}}),
    )
    async with attached(bridge.endpoint) as agent:
        dotted, long, plain = (await agent.list_tools()).tools
        assert dotted.title == "files.read"
        assert (plain.name, plain.title) == ("plain", None)
        assert bridge.endpoint.offered_names == {
            dotted.name: "files.read",
            long.name: "n" * 90,
            "plain": "plain",
        }
        asking: list[tuple[mcp_types.Tool, JsonObject]] = [
            (dotted, {"path": "a"}),
            (long, {}),
            (plain, {"input": {"path": "a"}}),
        ]
        for each, given in asking:
            arguments: JsonObject = {"input": given} if each is dotted else given
            asked = asyncio.ensure_future(agent.call_tool(each.name, arguments))
            call = await bridge.call()
            assert (call.name, call.arguments) == (bridge.endpoint.offered_names[each.name], given)
            bridge.answer(call, text("ok"))
            await soon(asked)


async def test_t10_a_tool_without_a_schema_is_listed_beside_others(server: ToolServer) -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}
    bridge = Bridge.of(server, tool("bare"), tool("full", "", schema))
    async with attached(bridge.endpoint) as agent:
        bare, full = (await agent.list_tools()).tools
    assert bare.input_schema == {"type": "object", "properties": {}}
    assert full.input_schema == schema


async def test_t25_only_an_agent_with_a_limit_sees_the_tool_that_waits(server: ToolServer) -> None:
    bridge = Bridge.of(server, tool("ask"))
    async with attached(bridge.endpoint) as agent:
        assert [each.name for each in (await agent.list_tools()).tools] == ["ask"]
        assert (await agent.call_tool("wait_for_result", {"ticket": 1})).is_error
    assert bridge.calls.empty()


async def test_t25_a_consumers_tool_with_that_name_is_offered_under_another(server: ToolServer) -> None:
    bridge = Bridge.of(server, tool("wait_for_result"), limit=300)
    async with attached(bridge.endpoint) as agent:
        theirs, ours = (await agent.list_tools()).tools
        assert ours.name == "wait_for_result"
        asked = asyncio.ensure_future(agent.call_tool(theirs.name, {}))
        call = await bridge.call()
        assert call.name == "wait_for_result"
        bridge.answer(call, text("theirs"))
        assert texts(await soon(asked)) == ["theirs"]


async def test_t25_an_answer_that_comes_between_two_requests_waits_for_the_ticket(
    server: ToolServer, clock: PatientClock
) -> None:
    bridge = Bridge.of(server, tool("ask"), limit=120)
    async with attached(bridge.endpoint) as agent:
        asked = asyncio.ensure_future(agent.call_tool("ask", {}))
        call = await bridge.call()
        assert "ticket 1" in await _put_off(asked, clock, 100)
        bridge.answer(call, ToolResult((TextPart("no"),), is_error=True))
        bridge.answer(call, text("a second answer"))
        # Models write numbers as text now and then.
        result = await soon(agent.call_tool("wait_for_result", {"ticket": "1"}))
        assert result.is_error
        assert texts(result) == ["no"]
        assert (await agent.call_tool("wait_for_result", {"ticket": 1})).is_error
    assert bridge.withdrawn.empty()


@pytest.mark.parametrize("ticket", [2, "one", None, -1, "9" * 5000])
async def test_t25_an_unknown_ticket_is_an_error_result(
    server: ToolServer, clock: PatientClock, ticket: object
) -> None:
    bridge = Bridge.of(server, tool("ask"), limit=120)
    async with attached(bridge.endpoint) as agent:
        asked = asyncio.ensure_future(agent.call_tool("ask", {}))
        call = await bridge.call()
        await _put_off(asked, clock, 100)
        refused = await soon(agent.call_tool("wait_for_result", {"ticket": ticket}))
        assert refused.is_error
        assert "no such ticket" in texts(refused)[0]
        bridge.answer(call, text("still there"))
        assert texts(await soon(agent.call_tool("wait_for_result", {"ticket": 1}))) == ["still there"]


async def test_t25_a_ticket_is_worth_nothing_in_another_conversation(
    server: ToolServer, clock: PatientClock
) -> None:
    bridge, other = Bridge.of(server, tool("ask"), limit=120), Bridge.of(server, tool("ask"), limit=120)
    async with attached(bridge.endpoint) as agent, attached(other.endpoint) as stranger:
        asked = asyncio.ensure_future(agent.call_tool("ask", {}))
        call = await bridge.call()
        await _put_off(asked, clock, 100)
        bridge.answer(call, text("secret"))
        assert (await soon(stranger.call_tool("wait_for_result", {"ticket": 1}))).is_error
        assert texts(await soon(agent.call_tool("wait_for_result", {"ticket": 1}))) == ["secret"]


async def test_t16_giving_up_on_a_ticket_withdraws_the_call(server: ToolServer, clock: PatientClock) -> None:
    bridge = Bridge.of(server, tool("ask"), limit=120)
    async with attached(bridge.endpoint) as agent:
        asked = asyncio.ensure_future(agent.call_tool("ask", {}))
        call = await bridge.call()
        await _put_off(asked, clock, 100)
        again = asyncio.ensure_future(agent.call_tool("wait_for_result", {"ticket": 1}))
        await clock.pass_seconds(1)
        again.cancel()
        assert await soon(bridge.withdrawn.get()) == call.key
        assert (await soon(agent.call_tool("wait_for_result", {"ticket": 1}))).is_error


async def test_t25_an_agent_that_asks_again_while_it_waits_is_answered_once(
    server: ToolServer, clock: PatientClock
) -> None:
    bridge = Bridge.of(server, tool("ask"), limit=120)
    async with attached(bridge.endpoint) as agent:
        asked = asyncio.ensure_future(agent.call_tool("ask", {}))
        call = await bridge.call()
        await _put_off(asked, clock, 100)
        first = asyncio.ensure_future(agent.call_tool("wait_for_result", {"ticket": 1}))
        await clock.pass_seconds(1)
        second = asyncio.ensure_future(agent.call_tool("wait_for_result", {"ticket": 1}))
        assert texts(await soon(first)) == ["Another call waits for this result now."]
        bridge.answer(call, text("yes"))
        assert texts(await soon(second)) == ["yes"]
    assert bridge.withdrawn.empty()


@pytest.mark.parametrize("rounds", range(8))
async def test_t25_an_answer_that_comes_with_the_limit_is_not_lost(
    server: ToolServer, clock: PatientClock, rounds: int
) -> None:
    bridge = Bridge.of(server, tool("ask"), limit=20)
    async with attached(bridge.endpoint) as agent:
        asked = asyncio.ensure_future(agent.call_tool("ask", {}))
        call = await bridge.call()
        await clock.pass_seconds(15)
        # So many rounds of the event loop after the moment the ticket is due.
        for _ in range(rounds):
            await asyncio.sleep(0)
        bridge.answer(call, text("just then"))
        result = await soon(asked)
        if "ticket 1" in texts(result)[0]:
            result = await soon(agent.call_tool("wait_for_result", {"ticket": 1}))
        assert texts(result) == ["just then"]


async def test_a_short_limit_keeps_a_quarter_of_it_as_a_margin(server: ToolServer) -> None:
    assert Bridge.of(server, limit=40).endpoint.patience_seconds == 30
    assert Bridge.of(server, limit=300).endpoint.patience_seconds == 280
    assert Bridge.of(server).endpoint.patience_seconds is None


async def test_a_bridge_that_fails_becomes_an_error_result(
    server: ToolServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: PendingCall) -> None:
        raise RuntimeError("no bridge")

    endpoint = server.endpoint(name="dragoman", on_call=fail, on_withdrawn=print)
    endpoint.set_tools((tool("ask"),))
    async with attached(endpoint) as agent:
        failed = await soon(agent.call_tool("ask", {}))
    assert failed.is_error
    assert texts(failed) == ["The call failed inside the tool server: RuntimeError: no bridge"]
    assert "RuntimeError: no bridge" in caplog.text


async def test_an_answer_that_cannot_be_written_becomes_an_error_result(server: ToolServer) -> None:
    bridge = Bridge.of(server, tool("ask"))
    async with attached(bridge.endpoint) as agent:
        asked = asyncio.ensure_future(agent.call_tool("ask", {}))
        nothing = DataPart("image/png", None)  # type: ignore[arg-type] # what a fault of ours would be
        bridge.answer(await bridge.call(), ToolResult((nothing,)))
        assert (await soon(asked)).is_error


async def test_an_answer_too_deep_for_an_agents_parser_arrives_as_text(server: ToolServer) -> None:
    bridge = Bridge.of(server, tool("ask"))
    deep: JsonObject = {}
    for _ in range(500):
        deep = {"": deep}
    async with attached(bridge.endpoint) as agent:
        asked = asyncio.ensure_future(agent.call_tool("ask", {}))
        bridge.answer(await bridge.call(), ToolResult((DataPart.json(deep),)))
        result = await soon(asked)
    assert not result.is_error
    assert result.structured_content is None
    assert [block.type for block in result.content] == ["resource"]


async def test_more_calls_than_may_be_open_are_refused_with_a_result(server: ToolServer) -> None:
    bridge = Bridge.of(server, tool("ask"))
    async with attached(bridge.endpoint) as agent:
        asked = [asyncio.ensure_future(agent.call_tool("ask", {})) for _ in range(MAX_OPEN_CALLS)]
        calls = [await bridge.call() for _ in asked]
        refused = await soon(agent.call_tool("ask", {}))
        assert refused.is_error
        assert "calls are open already" in texts(refused)[0]
        for call in calls:
            bridge.answer(call, text(call.key))
        results = await soon(asyncio.gather(*asked))
    assert [texts(result) for result in results] == [[call.key] for call in calls]


async def test_t12_only_names_descriptions_and_schemas_count_as_a_change(server: ToolServer) -> None:
    endpoint = Bridge.of(server, tool("a"), tool("b")).endpoint
    assert not endpoint.set_tools((tool("b"), tool("a")))
    assert endpoint.set_tools((tool("a"), tool("b", "now described")))
    assert endpoint.set_tools((tool("a"), tool("b", "now described", {"type": "object"})))
    assert endpoint.set_tools((tool("a"),))
    assert not endpoint.set_tools((tool("a"),))
    assert endpoint.set_tools(())


async def test_t27_waiting_for_an_agent_that_lists_and_for_one_that_does_not(
    server: ToolServer, clock: PatientClock
) -> None:
    bridge = Bridge.of(server, tool("ask"))
    waiting = asyncio.ensure_future(bridge.endpoint.wait_listed(30))
    await clock.pass_seconds(31)
    assert not await soon(waiting)
    waiting = asyncio.ensure_future(bridge.endpoint.wait_listed(30))
    async with attached(bridge.endpoint) as agent:
        await agent.list_tools()
    assert await soon(waiting)
    news = [bridge.endpoint.has_news]
    # What is merely gone is no news.
    for tools in ((tool("ask", "another"),), ()):
        bridge.endpoint.set_tools(tools)
        news.append(bridge.endpoint.has_news)
    assert news == [False, True, False]


async def test_t6_an_answer_to_no_call_is_logged_and_ignored(
    server: ToolServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    Bridge.of(server).endpoint.answer("77", text("to nobody"))
    assert "an answer to call 77 is discarded" in caplog.text


@pytest.mark.parametrize(("name", "limit"), [("two__parts", None), ("dragoman", 0.0), ("x" * 17, None)])
async def test_an_endpoint_that_could_not_work_is_refused(
    server: ToolServer, name: str, limit: float | None
) -> None:
    with pytest.raises(ValueError, match=r"no name|the limit"):
        Bridge.of(server, name=name, limit=limit)


async def test_an_endpoint_does_not_show_its_secrets_in_a_log(server: ToolServer) -> None:
    endpoint: Endpoint = Bridge.of(server).endpoint
    assert endpoint.token not in repr(endpoint)
    assert endpoint.path not in repr(endpoint)
