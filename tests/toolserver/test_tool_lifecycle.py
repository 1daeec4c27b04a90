"""Starting and closing: nothing is loaded early, nothing is left behind."""

import asyncio
import signal
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest
import uvloop
from mcp import MCPError

from dragoman.backends.agent.toolserver import ToolServer, over_socket
from toolserver.harness import LINKS, Bridge, connected, http_client, soon, text, texts, tool


def _count(folder: Path | str) -> int:
    return len(list(Path(folder).iterdir()))


async def test_nothing_of_a_web_framework_is_loaded() -> None:
    code = (
        "import asyncio, sys\n"
        "from dragoman.backends.agent.toolserver import ToolServer\n"
        "asyncio.run(ToolServer().start())\n"
        "print(sorted({'mcp', 'mcp_types', 'uvicorn', 'starlette', 'anyio', 'pydantic'} & set(sys.modules)))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    said, _ = await soon(process.communicate())
    assert said.strip() == b"[]"


async def test_closing_leaves_no_task_socket_file_or_process() -> None:
    tasks, descriptors = asyncio.all_tasks(), _count("/dev/fd")
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    server = ToolServer()
    await server.start()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    asked, urls, folder = [], [], Path()
    async with AsyncExitStack() as agents:
        for link in LINKS:
            bridge = Bridge.of(server, tool("ask"))
            folder = bridge.endpoint.addresses.socket.parent
            urls.append(bridge.endpoint.http()[0])
            agent = await agents.enter_async_context(connected(bridge, link))
            await agent.list_tools()
            asked.append(asyncio.ensure_future(agent.call_tool("ask", {})))
            await bridge.call()
        assert folder.is_dir()
        await soon(server.close())
        for link, request in zip(LINKS, asked, strict=True):
            try:
                assert texts(await soon(request)) == ["The conversation that this tool belongs to has ended."]
            except MCPError:
                # A socket is closed without waiting for its last words to be read.
                assert link.transport == "stdio"
    assert not folder.exists()
    async with http_client() as http:
        for url in urls:
            with pytest.raises(httpx2.ConnectError):
                await http.post(url)
    assert asyncio.all_tasks() == tasks
    assert _count("/dev/fd") == descriptors


async def test_a_server_that_does_not_run_has_no_endpoints() -> None:
    server = ToolServer()
    with pytest.raises(RuntimeError, match="does not run"):
        Bridge.of(server)
    await server.start()
    with pytest.raises(RuntimeError, match="runs already"):
        await server.start()
    await server.close()
    await server.close()
    with pytest.raises(RuntimeError, match="does not run"):
        Bridge.of(server)


async def test_an_endpoint_closes_to_the_end_when_nobody_waits_for_it() -> None:
    tasks = asyncio.all_tasks()
    server = ToolServer()
    await server.start()
    bridge = Bridge.of(server, tool("ask"))
    async with connected(bridge, LINKS[0]) as agent:
        await agent.list_tools()
        closing = asyncio.ensure_future(bridge.endpoint.close())
        # Not the event that is waited for, but any moment in the middle.
        await asyncio.sleep(0)
        closing.cancel()
        await soon(server.close())
    assert asyncio.all_tasks() - tasks <= {closing}


def _too_deep(folder: Path) -> Path:
    deep = folder / ("x" * 200)
    deep.mkdir()
    return deep


async def test_a_server_that_cannot_start_leaves_nothing_and_may_be_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    descriptors = _count("/dev/fd")
    server = ToolServer()
    with monkeypatch.context() as broken:
        broken.setattr(over_socket, "socket_folder", lambda _name: _too_deep(tmp_path))
        with pytest.raises(OSError, match="path too long"):
            await server.start()
    assert _count(tmp_path) == 0
    assert _count("/dev/fd") == descriptors
    await server.start()
    await server.close()


def test_it_runs_on_the_fast_event_loop_too() -> None:
    async def talk() -> None:
        server = ToolServer()
        await server.start()
        for link in LINKS:
            bridge = Bridge.of(server, tool("ask"))
            async with connected(bridge, link) as agent:
                asked = asyncio.ensure_future(agent.call_tool("ask", {}))
                bridge.answer(await bridge.call(), text("yes"))
                assert texts(await soon(asked)) == ["yes"]
        await soon(server.close())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(talk())
