"""The demo agent: a real ACP agent that plays a script, to see the protocol at work and to test clients with.

`dragoman demo-agent` runs it on standard input and output. It is the tool loop (`dragoman.loop`) with an ACP face, and reads
well in this order:

    server        the methods of ACP, and the sessions
    turn, hooks   a prompt and its stop reason; events of the loop as updates
    permissions   session/request_permission
    tools         its own two, and those of the consumer's tool servers (`dragoman.demo.mcp`)
    model         the script (`script.jsonl`), roles (`casting`) and acts (`acts`)
    requested     functions of the consumer that a prompt asks for (`functions`), and answers in a JSON form (`demands`);
                  their values come from the prompt (`facts`) and fit a schema (`filling`, `properties`, `schemas`)

Sessions are stored on disk and can be loaded, resumed and forked by another process. The mode `plan` keeps it from acting; the
option `pace` (natural, fast, instant) says how fast it talks.

It reacts to plain words, which `script.jsonl` has: "two permissions", "use the tool NAME", "which tools do you have?". If the
consumer offers a function for it, "What's the weather in Oslo?" calls that.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from dragoman.backends.scripted import load_script
from dragoman.demo.agent.model import PromptHandlers
from dragoman.demo.agent.server import AgentServer
from dragoman.demo.agent.store import SessionStore
from dragoman.demo.pace import DEFAULT_PACE
from dragoman.jsonrpc import PeerOptions, connect_stdio

__all__ = ["SCRIPT", "serve_stdio"]

SCRIPT = Path(__file__).with_name("script.jsonl")


async def serve_stdio(
    sessions: Path, *, pace: str = DEFAULT_PACE, prompts: PromptHandlers = lambda _request: None
) -> None:
    """Serve the agent on standard input and output, until the input ends. `prompts` are those of tests."""
    script = load_script(SCRIPT, id="demo-agent")
    server = AgentServer(script, SessionStore(sessions), pace=pace, prompts=prompts)
    # A signal ends it in the same way as the end of its input: with everything that it started.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.ended.set)
    peer = await connect_stdio(server, PeerOptions(name="client", answers_malformed=True))
    try:
        await server.ended.wait()
    finally:
        await server.close()
        peer.close("the agent has ended")
        await peer.wait_closed()
