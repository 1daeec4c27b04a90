"""The demo agent: a real ACP agent with a script for a mind, to see the protocol at work and to test clients with.

`dragoman demo-agent` runs it on standard input and output. It is the tool loop (`dragoman.loop`) with an ACP face, and reads
well in this order:

    server        the methods of ACP, and the sessions
    turn, hooks   a prompt and its stop reason; events of the loop as updates
    permissions   session/request_permission
    tools         its own two, and those of the consumer's tool servers (`dragoman.demo.mcp`)
    model         the script (`script.jsonl`), roles (`casting`) and acts (`acts`)

Sessions are kept on disk and can be loaded, resumed and forked by another process. The mode `plan` keeps it from acting; the
option `pace` (natural, fast, instant) says how fast it talks.

Besides plain words, which `script.jsonl` reacts to ("use the tool NAME" among them), there are prompts for tests:

    !tools                  what is offered
    !history                every message so far; "what did I say before?" asks for the user's only
    !call NAME [JSON]       call this tool; more lines of it: all at once; after a line `!then`: another round
    !one !row !parallel     one of the consumer's tools, two in a row, three at once
    !between                text, a call, text
    !run COMMAND            run a command (permission of the kind execute)
    !write PATH TEXT        write a file (permission of the kind edit)
    !permission             two permissions at once
    !both                   a tool of the consumer's and a permission at once
    !think !plan !image     thoughts, a plan, a picture; a picture in the prompt is described
    !slow [WORDS]           ten words a second, a minute by default
    !hang                   nothing more, until somebody cancels
    !flood [N]              N updates, as fast as they are read
    !loop                   calls without end: max_turn_requests
    !refuse                 the stop reason refusal
    !error [TEXT]           a JSON-RPC error to session/prompt
    !crash [STATUS]         the process ends in mid-turn
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from dragoman.backends.scripted import load_script
from dragoman.demo.agent.server import AgentServer
from dragoman.demo.agent.store import SessionStore
from dragoman.demo.pace import DEFAULT_PACE
from dragoman.jsonrpc import PeerOptions, connect_stdio

__all__ = ["SCRIPT", "serve_stdio"]

SCRIPT = Path(__file__).with_name("script.jsonl")


async def serve_stdio(sessions: Path, *, pace: str = DEFAULT_PACE) -> None:
    """Be an agent on standard input and output, until the input ends."""
    server = AgentServer(load_script(SCRIPT, id="demo-agent"), SessionStore(sessions), pace=pace)
    # Asked to end, it ends as it does with its input: nothing that it started is left behind.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.ended.set)
    peer = await connect_stdio(server, PeerOptions(name="client", answers_malformed=True))
    try:
        await server.ended.wait()
    finally:
        await server.close()
        peer.close("the agent has ended")
        await peer.wait_closed()
