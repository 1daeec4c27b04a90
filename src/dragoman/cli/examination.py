"""Looking an agent over: started in an empty folder, asked to do two small things, and watched.

It is spoken to directly, without the bridge in between, so that what is seen is the agent's own doing. Whatever it asks
for is refused, but for the one tool that it is offered here.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dragoman.backends.agent.acp.content import TextBlock
from dragoman.backends.agent.acp.launch import RunningAgent, launch
from dragoman.backends.agent.acp.link import TurnEnd
from dragoman.backends.agent.acp.messages import (
    ChunkUpdate,
    FileRequest,
    Initialized,
    PermissionRequest,
    PromptResponse,
    SessionUpdate,
    ToolActivity,
)
from dragoman.backends.agent.asking import answer_agent
from dragoman.backends.agent.catalogue import recognise, recognise_asked
from dragoman.backends.agent.filing import PERMISSION_REFUSED
from dragoman.backends.agent.session import address_of, configure, logged_in, started
from dragoman.backends.agent.settings import AgentSettings
from dragoman.backends.agent.toolserver import Endpoint, PendingCall, ToolAnswer, ToolServer
from dragoman.backends.agent.vocabulary import Granted, Refused
from dragoman.cli.finding import Finding
from dragoman.clock import SystemClock
from dragoman.jsonrpc import Incoming
from dragoman.lm import LanguageModelError, TextPart, ToolDefinition
from dragoman.lm.json import canonical
from dragoman.process.supervisor import descendants, processes

__all__ = ["DO", "TALK", "examine"]

# A model may think about it for a while; one that has said nothing by then is not going to.
_TURN_SECONDS = 120.0
# For so long an agent may be silent before it is stopped all the same.
_SILENT_SECONDS = 20.0
_SHOWN = 60

_TOOL = ToolDefinition(
    "dragoman_check",
    "Checks the connection. Takes a word and answers with another.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
# A command that changes something: agents run others without asking, and may.
_FILE = "dragoman-was-here.txt"
DO = (
    "This checks the connection between you and your client. Do exactly this, once each, and nothing else."
    " First say hello in one short sentence."
    " Then call the tool dragoman_check with the word ping."
    f" Then run the shell command `echo dragoman > {_FILE}`, with a tool of your own; if that is refused, leave it."
)
TALK = "Write the numbers from one to five hundred in words, one on each line. Use no tools."


async def examine(
    settings: AgentSettings, tell: Callable[[Finding], object], on_step: Callable[[str], object]
) -> None:
    """Tells one finding after the other. The first that makes the rest impossible is the last."""
    with tempfile.TemporaryDirectory(prefix="dragoman-doctor-") as folder:
        server = ToolServer()
        agent: RunningAgent | None = None
        try:
            on_step(f"starting {settings.name}")
            await server.start()
            begun = time.monotonic()
            agent = await launch(
                settings.name, settings.command, settings.env, folder, lambda: None, settings.ledger
            )
            clock = SystemClock()
            said = await started(agent, agent.link.initialize(files=settings.fs), settings, clock)
            tell(_introduction(settings, said, time.monotonic() - begun))
            tell(_capabilities(said))
            await _Examination(settings, agent, server, folder, tell, on_step).run()
        except LanguageModelError as error:
            tell(Finding("fail", error.message, error.hint or ""))
        finally:
            if agent is not None:
                await agent.stop()
            await server.close()


def _introduction(settings: AgentSettings, said: Initialized, seconds: float) -> Finding:
    info = said.agent_info
    version = f" {info.version}" if info is not None and info.version else ", which tells no version,"
    name = (info.title or info.name) if info is not None else ""
    return Finding("ok", f"{name or settings.name}{version} starts in {seconds:.1f} s")


def _capabilities(said: Initialized) -> Finding:
    can = said.agent_capabilities
    session = can.session_capabilities
    named = {
        "images": can.prompt_capabilities.image,
        "tools over HTTP": can.mcp_capabilities.http,
        "resuming sessions": session.resume is not None,
        "loading sessions": can.load_session,
        "forking sessions": session.fork is not None,
        "closing sessions": session.close is not None,
        "several folders": session.additional_directories is not None,
        "steering": said.steers,
    }
    yes = ", ".join(name for name, has in named.items() if has)
    no = ", ".join(name for name, has in named.items() if not has)
    return Finding("ok", f"it says that it can: {yes or 'nothing special'}{f'; not: {no}' if no else ''}")


class _Examination:
    """The session of an examination, and its listener."""

    def __init__(
        self,
        settings: AgentSettings,
        agent: RunningAgent,
        server: ToolServer,
        folder: str,
        tell: Callable[[Finding], object],
        on_step: Callable[[str], object],
    ) -> None:
        self._settings = settings
        self._agent = agent
        self._folder = folder
        self._tell = tell
        self._on_step = on_step
        self._clock = SystemClock()
        self._endpoint: Endpoint = server.endpoint(
            name=f"dg-{secrets.token_hex(4)}",
            on_call=self._on_call,
            on_withdrawn=lambda _key: None,
        )
        self._endpoint.set_tools((_TOOL,))
        self._session = ""
        self._text = ""
        self._has_called = False
        self._spoke = asyncio.Event()
        # What was said of each tool call, and which it has asked about.
        self._activities: dict[str, ToolActivity] = {}
        self._asked: set[str] = set()
        # It has asked about the tool that it is offered, in a form that is not known.
        self._has_asked_for_tool = False

    # As a listener.

    def on_update(self, update: SessionUpdate) -> None:
        match update.update:
            case ChunkUpdate(role="agent", content=TextBlock(text=text)):
                self._text += text
                self._spoke.set()
            case ChunkUpdate(role="thought"):
                self._spoke.set()
            case ToolActivity() as activity:
                self._activities[activity.tool_call_id] = self._known(activity).updated(activity)

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:
        call = request.tool_call
        endpoint, traits = self._endpoint, self._settings.traits
        if (
            recognise_asked(traits, self._known(call), call, endpoint.name, endpoint.offered_names)
            is not None
        ):
            answer_agent(request, incoming, Granted())
        else:
            if _TOOL.name in canonical(self._known(call).updated(call)):
                self._has_asked_for_tool = True
            else:
                self._asked.add(call.tool_call_id)
            answer_agent(request, incoming, Refused("This is only a check; nothing is to be done."))

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        self._asked.add(request.path)
        incoming.fail(PERMISSION_REFUSED, f"{request.path} is not for a check.")

    def _on_call(self, call: PendingCall) -> None:
        self._has_called = True
        self._endpoint.answer(call.key, ToolAnswer((TextPart("pong"),)))

    def _known(self, activity: ToolActivity) -> ToolActivity:
        """What was said of that call before."""
        return self._activities.get(activity.tool_call_id, ToolActivity(activity.tool_call_id))

    def _is_ours(self, activity: ToolActivity) -> bool:
        endpoint = self._endpoint
        return (
            recognise(self._settings.traits, (activity,), endpoint.name, endpoint.offered_names) is not None
        )

    # The examination.

    async def run(self) -> None:
        await self._open()
        await self._do()
        await self._stop()
        self._tell(_memory(self._agent.pid))

    async def _open(self) -> None:
        self._on_step("opening a session")
        link, settings = self._agent.link, self._settings
        address = address_of(self._endpoint, link)
        opening = logged_in(link, settings, lambda: link.new_session((self._folder,), (address,), self))
        created = await started(self._agent, opening, settings, self._clock)
        self._session = created.session_id
        await configure(link, self._session, created, settings)
        if await self._endpoint.wait_listed(settings.timing.list_tools):
            self._tell(Finding("ok", "it has looked at the tools that it was offered"))
        else:
            self._tell(
                Finding(
                    "warn",
                    f"it has not looked at the tools that it was offered, in {settings.timing.list_tools:g} s",
                    settings.traits.when_no_tools
                    or "It may do so later. Ask for a newer version if your tools are never used.",
                )
            )

    async def _do(self) -> None:
        self._on_step("asking it to call a tool, and to run a command")
        begun = time.monotonic()
        end = await self._turn(DO)
        text = " ".join(self._text.split())
        shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
        took = f"{time.monotonic() - begun:.1f} s"
        if end is None:
            raise LanguageModelError(
                "timeout",
                f"It has not answered in {_TURN_SECONDS:g} seconds.",
                hint="Look at its log with --log-level debug.",
            )
        self._tell(
            Finding("ok", f"it answered in {took}: {shown}")
            if text
            else Finding("warn", f"it ended its turn after {took} without a word ({end.stop_reason})")
        )
        self._tell(self._calling())
        self._tell(self._permission())

    def _calling(self) -> Finding:
        if self._has_called:
            return Finding("ok", "it calls the tools that it is offered")
        if self._has_asked_for_tool:
            return Finding(
                "warn",
                "it asks before it calls a tool that it is offered, in a form that is not known here, and was refused",
                "You will be asked about such calls by the agent, and again by whoever runs the tool.",
            )
        return Finding(
            "warn",
            "it was asked to call a tool that it was offered, and did not",
            self._settings.traits.when_no_tools or "The model decides that; with another model it may.",
        )

    def _permission(self) -> Finding:
        ran = {
            id_
            for id_, said in self._activities.items()
            if said.kind == "execute" and said.status == "completed" and not self._is_ours(said)
        }
        if Path(self._folder, _FILE).exists() and not self._asked:
            ran.add(_FILE)
        if ran - self._asked:
            return Finding(
                "warn",
                "it ran a command without asking",
                "Set `mode` of this model to one in which it asks, or change that in the agent's own settings.",
            )
        if ran or Path(self._folder, _FILE).exists():
            return Finding("warn", "it asked, was refused, and has run the command all the same")
        if self._asked:
            return Finding("ok", "it asks before it acts, and takes no for an answer")
        return Finding("warn", "it was asked to run a command and did not, so whether it asks is not known")

    async def _stop(self) -> None:
        self._on_step("stopping it while it talks")
        link, grace = self._agent.link, self._settings.timing.grace
        self._spoke.clear()
        ended = self._prompt(TALK)
        ended.add_done_callback(lambda _ended: self._spoke.set())
        with suppress(TimeoutError):
            async with asyncio.timeout(_SILENT_SECONDS):
                await self._spoke.wait()
        if ended.done():
            await self._checked(ended.result())
            self._tell(Finding("ok", "it was done before it could be stopped"))
            return
        begun = time.monotonic()
        link.cancel(self._session)
        await asyncio.wait({ended}, timeout=grace)
        if not ended.done():
            self._tell(
                Finding(
                    "fail",
                    f"it has not stopped within {grace:g} s of being asked to",
                    "It will be ended and started anew when you stop it. `cancel_grace_seconds` says how soon.",
                )
            )
            return
        response = await self._checked(ended.result())
        seconds = time.monotonic() - begun
        told = f"it stops {seconds:.2f} s after it is asked to ({response.stop_reason})"
        self._tell(Finding("ok" if response.stop_reason == "cancelled" else "warn", told))

    async def _turn(self, words: str) -> PromptResponse | None:
        ended = self._prompt(words)
        await asyncio.wait({ended}, timeout=_TURN_SECONDS)
        return await self._checked(ended.result()) if ended.done() else None

    def _prompt(self, words: str) -> asyncio.Future[TurnEnd | None]:
        """How the turn ends; None if the agent is gone before."""
        self._text = ""
        ended: asyncio.Future[TurnEnd | None] = asyncio.get_running_loop().create_future()

        def settle(end: TurnEnd | None) -> None:
            if not ended.done():
                ended.set_result(end)

        self._agent.gone.on_cancel(lambda: settle(None))
        self._agent.link.prompt(self._session, (TextBlock(words),), settle)
        return ended

    async def _checked(self, end: TurnEnd | None) -> PromptResponse:
        match end:
            case PromptResponse():
                return end
            case None:
                raise await self._agent.explain_exit()
            case error:
                raise error


def _memory(pid: int) -> Finding:
    pids = [pid, *descendants(processes(), pid)]
    kilobytes = [size for each in pids if (size := _resident(each)) is not None]
    if not kilobytes:
        return Finding("warn", "how much memory it takes could not be seen")
    several = f" in {len(kilobytes)} processes" if len(kilobytes) > 1 else ""
    return Finding("ok", f"it takes {sum(kilobytes) / 1024:.0f} MB of memory{several}")


def _resident(pid: int) -> int | None:
    """In kilobytes."""
    if not sys.platform.startswith("linux"):
        with os.popen(f"ps -o rss= -p {pid}") as listing:  # noqa: S605 - a number, and the system's own command
            return int(listing.read().strip() or 0) or None
    try:
        for line in Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    except OSError:
        # It may be gone by now.
        return None
    return None
