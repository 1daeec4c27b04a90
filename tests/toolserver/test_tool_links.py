"""What an agent can do with the tools, over every transport and with every revision of MCP."""

import asyncio

import mcp_types
import pytest
from mcp import MCPError
from mcp.client.session import IncomingMessage

from dragoman.backends.agent.toolserver import ToolServer, content
from dragoman.lm import DataPart, TextPart
from dragoman.lm.parts import ToolResult
from toolserver.harness import Bridge, Link, PatientClock, connected, soon, text, texts, tool

_PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


async def test_t18_fifty_tools_several_called_at_once_over_several_rounds(
    server: ToolServer, link: Link
) -> None:
    bridge = Bridge.of(server, *(tool(f"tool_{number}", f"Number {number}") for number in range(50)))
    async with connected(bridge, link) as agent:
        listed = (await agent.list_tools()).tools
        assert [each.name for each in listed] == [f"tool_{number}" for number in range(50)]
        for turn in range(3):
            names = [f"tool_{turn * 3 + number}" for number in range(3)]
            asked = [asyncio.ensure_future(agent.call_tool(name, {"turn": turn})) for name in names]
            calls = {call.name: call for call in [await bridge.call() for _ in names]}
            assert [calls[name].arguments for name in names] == [{"turn": turn}] * 3
            for name in reversed(names):
                bridge.answer(calls[name], text(f"{name} in turn {turn}"))
            results = await soon(asyncio.gather(*asked))
            assert [texts(result) for result in results] == [[f"{name} in turn {turn}"] for name in names]
    assert bridge.withdrawn.empty()
    # The library looks up schemas before calls; that is no listing of the agent's.
    assert bridge.listed == 1


async def test_t4_results_in_reverse_order_reach_their_own_calls(server: ToolServer, link: Link) -> None:
    bridge = Bridge.of(server, tool("echo"))
    async with connected(bridge, link) as agent:
        asked = []
        for number in range(3):
            asked.append(asyncio.ensure_future(agent.call_tool("echo", {"number": number})))
            call = await bridge.call()
            assert call.arguments == {"number": number}
            asked[-1].set_name(call.key)
        for request in reversed(asked):
            bridge.endpoint.answer(request.get_name(), text(request.get_name()))
            assert texts(await soon(request)) == [request.get_name()]


async def test_arguments_pass_through_unchanged(server: ToolServer, link: Link) -> None:
    bridge = Bridge.of(server, tool("echo"))
    arguments = {
        "text": "ä \u2028 😀 </script>",
        "null": None,
        "nested": {"list": [1, 1.5, -0.0, 10**30, True, None, {"": ""}]},
    }
    async with connected(bridge, link) as agent:
        asked = asyncio.ensure_future(agent.call_tool("echo", arguments))
        call = await bridge.call()
        assert call.arguments == arguments
        bridge.answer(call, text("ok"))
        await soon(asked)


async def test_t13_results_keep_their_content(server: ToolServer, link: Link) -> None:
    bridge = Bridge.of(server, tool("look"))
    answers = [
        ToolResult((TextPart("it broke"),), is_error=True),
        ToolResult((TextPart("before"), DataPart.image(_PNG, "image/png"), TextPart("after"))),
        ToolResult((DataPart.json({"rows": [1, None]}),)),
        ToolResult((TextPart("both"), DataPart.json([1]), DataPart("application/pdf", b"%PDF"))),
    ]
    results: list[mcp_types.CallToolResult] = []
    async with connected(bridge, link) as agent:
        for answer in answers:
            asked = asyncio.ensure_future(agent.call_tool("look", {}))
            bridge.answer(await bridge.call(), answer)
            results.append(await soon(asked))
    failed, image, structured, several = results
    assert failed.is_error
    assert texts(failed) == ["it broke"]
    assert not image.is_error
    assert [block.type for block in image.content] == ["text", "image", "text"]
    assert structured.structured_content == {"rows": [1, None]}
    assert [block.type for block in several.content] == ["text", "resource", "resource"]
    assert several.structured_content is None


async def test_t22_a_large_result_is_cut_with_a_notice_and_the_next_call_works(
    server: ToolServer, link: Link
) -> None:
    bridge = Bridge.of(server, tool("read"))
    async with connected(bridge, link) as agent:
        whole = "line \n" * 1_000_000
        asked = asyncio.ensure_future(agent.call_tool("read", {}))
        bridge.answer(await bridge.call(), text(whole))
        kept, notice = texts(await soon(asked))
        assert kept == whole[: content.MAX_TEXT_BYTES]
        assert "This result was cut: it has 6,000,000 bytes" in notice
        asked = asyncio.ensure_future(agent.call_tool("read", {}))
        bridge.answer(await bridge.call(), text("short"))
        assert texts(await soon(asked)) == ["short"]


async def test_t13_an_image_of_three_megabytes_arrives(server: ToolServer, link: Link) -> None:
    bridge = Bridge.of(server, tool("look"))
    async with connected(bridge, link, largest_event=None) as agent:
        asked = asyncio.ensure_future(agent.call_tool("look", {}))
        bridge.answer(await bridge.call(), ToolResult((DataPart.image(bytes(3_000_000), "image/png"),)))
        (image,) = (await soon(asked)).content
        assert isinstance(image, mcp_types.ImageContent)
        assert len(image.data) == 4_000_000


async def test_t12_a_changed_tool_is_announced_and_listed_anew(server: ToolServer, link: Link) -> None:
    bridge = Bridge.of(server, tool("one", "as it was"))
    announced = asyncio.Event()

    def on_message(message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            announced.set()

    async with connected(bridge, link, on_message) as agent:
        await agent.list_tools()
        assert bridge.listed == 1
        if link.mode == "legacy":
            assert agent.server_capabilities.tools is not None
            assert agent.server_capabilities.tools.list_changed
            assert bridge.endpoint.set_tools((tool("one", "as it is now"),))
            await soon(announced.wait())
        else:
            async with agent.listen(tools_list_changed=True) as changes:
                assert bridge.endpoint.set_tools((tool("one", "as it is now"),))
                await soon(anext(changes))
        assert bridge.endpoint.has_news
        assert [each.description for each in (await agent.list_tools()).tools] == ["as it is now"]
        assert await soon(bridge.endpoint.wait_listed(60))
    assert bridge.listed == 2


async def test_t26_a_removed_tool_answers_with_an_error_and_is_not_called(
    server: ToolServer, link: Link
) -> None:
    bridge = Bridge.of(server, tool("gone"), tool("here"))
    async with connected(bridge, link) as agent:
        await agent.list_tools()
        bridge.endpoint.set_tools((tool("here"),))
        refused = await soon(agent.call_tool("gone", {}))
        assert refused.is_error
        assert texts(refused) == ["The tool gone is no longer available."]
    assert bridge.calls.empty()


async def test_t16_a_withdrawn_call_is_closed_and_a_late_result_goes_nowhere(
    server: ToolServer, link: Link
) -> None:
    bridge = Bridge.of(server, tool("think"))
    async with connected(bridge, link) as agent:
        asked = asyncio.ensure_future(agent.call_tool("think", {}))
        call = await bridge.call()
        asked.cancel()
        assert await soon(bridge.withdrawn.get()) == call.key
        bridge.answer(call, text("too late"))
        again = asyncio.ensure_future(agent.call_tool("think", {}))
        bridge.answer(await bridge.call(), text("in time"))
        assert texts(await soon(again)) == ["in time"]
    assert bridge.withdrawn.empty()
    assert len(bridge.endpoint.calls) == 0


async def test_t16_an_agent_that_goes_away_withdraws_its_calls(server: ToolServer, link: Link) -> None:
    bridge = Bridge.of(server, tool("think"))
    async with connected(bridge, link) as agent:
        asked = asyncio.ensure_future(agent.call_tool("think", {}))
        call = await bridge.call()
    assert await soon(bridge.withdrawn.get()) == call.key
    with pytest.raises(MCPError):
        await soon(asked)


async def test_t17_a_person_takes_fifteen_minutes(
    server: ToolServer, clock: PatientClock, link: Link
) -> None:
    bridge = Bridge.of(server, tool("ask"))
    heard: asyncio.Queue[float] = asyncio.Queue()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.put_nowait(progress)

    async with connected(bridge, link) as agent:
        asked = asyncio.ensure_future(agent.call_tool("ask", {}, progress_callback=on_progress))
        call = await bridge.call()
        for minute_quarter in range(1, 61):
            await clock.pass_seconds(15)
            assert await soon(heard.get()) == minute_quarter * 15
        bridge.answer(call, text("yes"))
        assert texts(await soon(asked)) == ["yes"]
    assert clock.now() == 900
    assert bridge.calls.empty()


async def test_t25_a_ticket_before_the_limit_and_the_result_once(
    server: ToolServer, clock: PatientClock, link: Link
) -> None:
    bridge = Bridge.of(server, tool("ask"), limit=300)
    async with connected(bridge, link) as agent:
        assert [each.name for each in (await agent.list_tools()).tools] == ["ask", "wait_for_result"]
        asked = asyncio.ensure_future(agent.call_tool("ask", {}))
        call = await bridge.call()
        for _ in range(2):
            began = clock.now()
            while not asked.done() and clock.now() - began < 280:
                await clock.pass_seconds(min(15, 280 - (clock.now() - began)))
            put_off = await soon(asked)
            assert not put_off.is_error
            assert "Call wait_for_result with ticket 1" in texts(put_off)[0]
            asked = asyncio.ensure_future(agent.call_tool("wait_for_result", {"ticket": 1}))
        await soon(clock._fell_asleep.wait())
        bridge.answer(call, text("yes, after ten minutes"))
        assert texts(await soon(asked)) == ["yes, after ten minutes"]
        used = await soon(agent.call_tool("wait_for_result", {"ticket": 1}))
        assert used.is_error
    assert bridge.calls.empty()
    assert bridge.withdrawn.empty()
