"""The examination of an agent: starts it in a scratch folder, sends a few short prompts, and watches what it does.

It talks to the agent directly, without the bridge in between, so that it sees the agent's own doing. Whatever it asks
for is refused, but for the one tool that it is offered here. `_Examination.run` lists the sections in order; each reports
its findings.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from dragoman.acp.content import ContentBlock, ImageBlock, TextBlock
from dragoman.acp.launch import RunningAgent, launch
from dragoman.acp.link import TurnEnd
from dragoman.acp.messages import (
    PERMISSION_REFUSED,
    ChunkUpdate,
    FileRequest,
    Initialized,
    OtherUpdate,
    PermissionRequest,
    PromptResponse,
    SessionCreated,
    SessionUpdate,
    ToolActivity,
    WriteTextFile,
)
from dragoman.backends.agent.machine.types import Granted, Refused
from dragoman.backends.agent.profile.observations import Observations, name_of
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.profile.traits import recognise, recognise_request
from dragoman.backends.agent.session.opening import address_of, configure, logged_in, started, wait_listed
from dragoman.backends.agent.session.permission_requests import answer_agent
from dragoman.backends.agent.toolserver import Endpoint, PendingCall, ToolServer
from dragoman.cli.agent_probe.page import ProbePage
from dragoman.cli.agent_probe.remedies import about_pictures, remedies
from dragoman.cli.agent_probe.stripes import QUESTION, Stripes
from dragoman.cli.agent_probe.trials import EDITING, OPENING, Trials
from dragoman.cli.finding import Finding
from dragoman.clock import SystemClock
from dragoman.jsonrpc import Incoming
from dragoman.lm import LanguageModelError, TextPart, ToolDefinition
from dragoman.lm.json import canonical
from dragoman.lm.parts import ToolResult
from dragoman.process.memory import measure_tree

__all__ = ["FIRST", "NOTICE", "TALK", "examine"]

# A model may think about it for a while; one that has not ended its turn by then is not going to.
_TURN_SECONDS = 180.0
# For so long an agent may be silent before it is stopped all the same.
_SILENT_SECONDS = 20.0
# Of what an agent says, or says of itself: enough to know it by.
_SHOWN = 60
# An agent whose turn ends with a refusal needs one prompt for each of the four actions, and one more if the tool is refused.
_MOST_PROMPTS = 5

# What the user should know before it begins.
NOTICE = (
    "{name} is started in a scratch folder and sent two to seven short prompts; if its model costs money, this does too."
    " It is asked to call a tool, to run a command, to edit and delete a file, to fetch a page of this machine and,"
    " if it takes pictures, what one shows. All that it asks about is refused, but for the tool."
)
_TOOL = ToolDefinition(
    "dragoman_check",
    "Checks the connection. Takes a word and answers with another.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
# Before the actions, which are in `Trials`.
FIRST = ("Say hello in one short sentence.", "Call the tool dragoman_check with the word ping.")
TALK = "Write the numbers from one to five hundred in words, one on each line. Use no tools."
# For an agent of which the catalogue says nothing about pictures.
_PICTURES_ADVICE = (
    "Use a model that sees pictures, and look in the agent's own settings for one that turns them on."
)


async def examine(
    settings: AgentSettings,
    observations: Observations,
    report: Callable[[Finding], object],
    on_step: Callable[[str], object],
) -> None:
    """Report one finding after the other. Stops at the first one that makes the rest impossible."""
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
            said = await started(agent, agent.link.initialize(files=bool(settings.fs)), settings, clock)
            report(_introduction(settings, said, time.monotonic() - begun))
            report(_capabilities(said))
            async with ProbePage() as page:
                trials = Trials(Path(folder), page)
                await _Examination(
                    settings, observations, agent, server, trials, folder, report, on_step
                ).run()
        except LanguageModelError as error:
            report(Finding("fail", error.message, error.hint or ""))
        finally:
            if agent is not None:
                await agent.stop()
            await server.close()


def _introduction(settings: AgentSettings, said: Initialized, seconds: float) -> Finding:
    info = said.agent_info
    version = (
        f" {_shown(info.version)}" if info is not None and info.version else ", which reports no version,"
    )
    name = _shown(info.title or info.name) if info is not None else ""
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
        observations: Observations,
        agent: RunningAgent,
        server: ToolServer,
        trials: Trials,
        folder: str,
        report: Callable[[Finding], object],
        on_step: Callable[[str], object],
    ) -> None:
        self._settings = settings
        self._observations = observations
        self._name = name_of(agent.link.info.agent_info, settings.command)
        self._agent = agent
        self._trials = trials
        self._folder = folder
        self._report = report
        self._on_step = on_step
        self._clock = SystemClock()
        self._endpoint: Endpoint = server.endpoint(
            name=f"dg-{secrets.token_hex(4)}",
            on_call=self._on_call,
            on_withdrawn=lambda _key: None,
        )
        self._endpoint.set_tools((_TOOL,))
        self._session = ""
        self._created = SessionCreated()
        # The mode that it is in, if it reports one.
        self._mode: object = None
        self._text = ""
        self._has_called = False
        self._spoke = asyncio.Event()
        # The last state of each tool call.
        self._activities: dict[str, ToolActivity] = {}
        # It has sent a permission request about the offered tool, in an unknown form.
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
            case OtherUpdate(kind="current_mode_update", content={"currentModeId": mode}):
                self._mode = mode

    def on_permission(self, request: PermissionRequest, incoming: Incoming) -> None:
        call = request.tool_call
        endpoint, traits = self._endpoint, self._settings.traits
        known = self._known(call)
        if recognise_request(traits, known, call, endpoint.name, endpoint.offered_names) is not None:
            answer_agent(request, incoming, Granted())
            return
        known = known.updated(call)
        said = canonical(known)
        # One that quotes the whole prompt names the tool as well.
        if _TOOL.name in said and OPENING not in said:
            self._has_asked_for_tool = True
        else:
            self._trials.note_request(request, known)
        answer_agent(request, incoming, Refused("This is only a check; nothing is to be done."))

    def on_file(self, request: FileRequest, incoming: Incoming) -> None:
        if isinstance(request, WriteTextFile):
            self._trials.wrote(request.path)
            incoming.fail(PERMISSION_REFUSED, f"This is only a check; {request.path} is not written.")
        elif (text := self._trials.read(request.path)) is not None:
            incoming.reply({"content": text})
        else:
            incoming.fail(PERMISSION_REFUSED, f"{request.path} is not for a check.")

    def _on_call(self, call: PendingCall) -> None:
        self._has_called = True
        self._endpoint.answer(call.key, ToolResult((TextPart("pong"),)))

    def _known(self, activity: ToolActivity) -> ToolActivity:
        """The last state of that call."""
        return self._activities.get(activity.tool_call_id, ToolActivity(activity.tool_call_id))

    def _is_ours(self, activity: ToolActivity) -> bool:
        endpoint = self._endpoint
        return (
            recognise(self._settings.traits, (activity,), endpoint.name, endpoint.offered_names) is not None
        )

    # The examination.

    async def run(self) -> None:
        await self._open()
        await self._act()
        try:
            await self._see()
            await self._stop()
        finally:
            self._judge()
        # It may have looked later.
        self._observations.note(self._name, lists=self._endpoint.listings > 0)
        self._report(_memory(self._agent.pid))

    async def _open(self) -> None:
        self._on_step("opening a session")
        link, settings = self._agent.link, self._settings
        address = address_of(self._endpoint, link)

        async def opened() -> SessionCreated:
            created = await logged_in(
                link, settings, lambda: link.new_session((self._folder,), (address,), self)
            )
            await configure(link, created.session_id, created, settings)
            return created

        self._created = await started(self._agent, opened(), settings, self._clock)
        self._session = self._created.session_id
        # An update may have reported the mode meanwhile.
        self._mode = self._mode or settings.mode or self._created.mode
        seen, timing = self._observations.of(self._name), settings.timing
        for sentence in seen.sentences:
            self._report(Finding("ok", f"seen before: {sentence}"))
        seconds = timing.list_tools_unsure if seen.lists is False else timing.list_tools
        if await wait_listed(self._endpoint, seconds, settings, self._clock):
            self._report(Finding("ok", "it has looked at the tools that it was offered"))
        else:
            self._report(
                Finding(
                    "warn",
                    f"it has not looked at the tools that it was offered, in {seconds:g} s",
                    settings.traits.when_no_tools
                    or "It may do so later. Ask for a newer version if your tools are never used.",
                )
            )

    async def _act(self) -> None:
        self._on_step("asking it to call a tool, run a command, edit and delete a file, and fetch a page")
        trials = self._trials
        try:
            begun = time.monotonic()
            end = await self._acting_turn(trials.prompt(*FIRST))
            self._report(self._answer(end, time.monotonic() - begun))
            self._report(self._calling())
            await self._ask_again()
        except LanguageModelError:
            for trial in trials.all:
                if trial.outcome != "untried":
                    self._report(trial.finding)
            raise

    async def _ask_again(self) -> None:
        """Ask again for the actions that it has not tried: a refusal may have ended its turn."""
        left = self._trials.untried
        if len(left) == len(self._trials.all) and not self._has_asked_for_tool:
            return
        for _ in range(_MOST_PROMPTS - 1):
            if not left:
                return
            self._on_step("asking it for what it has not tried")
            await self._acting_turn(self._trials.prompt(trials=left))
            # What led nowhere is not asked for a third time: the others may come after it.
            still = tuple(trial for trial in left if trial.outcome == "untried")
            left = still[1:] if still == left else still

    async def _acting_turn(self, words: str) -> PromptResponse:
        """Run a turn, and look for what the agent did in it, however it ends."""
        try:
            return await self._turn(TextBlock(words))
        finally:
            self._trials.look()
            self._trials.claimed(said for said in self._activities.values() if not self._is_ours(said))

    def _judge(self) -> None:
        """Report the trials, after one more look: an agent may go on acting after its turn."""
        self._trials.look()
        for trial in self._trials.all:
            self._report(trial.finding)
        self._report(self._trials.verdict(self._remedies))

    def _answer(self, end: PromptResponse, seconds: float) -> Finding:
        if text := _shown(self._text):
            return Finding("ok", f"it answered in {seconds:.1f} s: {text}")
        return Finding("warn", f"it ended its turn after {seconds:.1f} s without a word ({end.stop_reason})")

    def _remedies(self) -> Iterable[str]:
        edits = any(
            trial.what == EDITING and trial.outcome in ("unasked", "defied", "claimed")
            for trial in self._trials.all
        )
        return remedies(self._settings, self._created, self._mode, edits=edits)

    def _calling(self) -> Finding:
        if self._has_called:
            return Finding("ok", "it calls the tools that it is offered")
        if self._has_asked_for_tool:
            return Finding(
                "warn",
                "it asks before it calls a tool that it is offered, in a form that is not known here, and was refused",
                "The agent will ask you about such calls, and the program that runs the tool will ask again.",
            )
        return Finding(
            "warn",
            "it was asked to call a tool that it was offered, and did not",
            self._settings.traits.when_no_tools or "The model decides that; with another model it may.",
        )

    async def _see(self) -> None:
        if not self._agent.link.info.agent_capabilities.prompt_capabilities.image:
            return
        self._on_step("showing it a picture")
        stripes = Stripes.random()
        picture = ImageBlock(base64.b64encode(stripes.png).decode(), "image/png")
        known = "\n".join(about_pictures(self._settings))
        try:
            await self._turn(picture, TextBlock(QUESTION))
        except LanguageModelError as error:
            if error.kind == "timeout" or self._agent.gone.cancelled():
                raise
            text = f"it says that it takes pictures, and failed when it was sent one: {error.message}"
            self._report(Finding("warn", text, known or _PICTURES_ADVICE))
            return
        said = _shown(self._text) or "nothing"
        match stripes.seen(self._text):
            case "yes":
                self._report(Finding("ok", "it takes pictures, and the model sees them"))
            case "no":
                text = "it says that it takes pictures, but the picture did not reach the model; it answered"
                self._report(Finding("warn", f"{text}: {said}", known or _PICTURES_ADVICE))
            case "unknown":
                text = "whether a picture reaches the model could not be seen from its answer"
                self._report(Finding("warn", f"{text}: {said}", known))

    async def _stop(self) -> None:
        self._on_step("stopping it while it talks")
        link, grace = self._agent.link, self._settings.timing.grace
        self._spoke.clear()
        ended = self._prompt(TextBlock(TALK))
        ended.add_done_callback(lambda _ended: self._spoke.set())
        with suppress(TimeoutError):
            async with asyncio.timeout(_SILENT_SECONDS):
                await self._spoke.wait()
        if ended.done():
            await self._checked(ended.result())
            self._report(Finding("ok", "it was done before it could be stopped"))
            return
        begun = time.monotonic()
        link.cancel(self._session)
        await asyncio.wait({ended}, timeout=grace)
        if not ended.done():
            self._report(
                Finding(
                    "fail",
                    f"it has not stopped within {grace:g} s of being asked to",
                    "It will be ended and started anew when you stop it. `cancel_grace_seconds` says how soon.",
                )
            )
            return
        response = await self._checked(ended.result())
        seconds = time.monotonic() - begun
        text = f"it stops {seconds:.2f} s after it is asked to ({response.stop_reason})"
        self._report(Finding("ok" if response.stop_reason == "cancelled" else "warn", text))

    async def _turn(self, *blocks: ContentBlock) -> PromptResponse:
        """Send a prompt, and wait for the end of its turn."""
        ended = self._prompt(*blocks)
        await asyncio.wait({ended}, timeout=_TURN_SECONDS)
        if ended.done():
            return await self._checked(ended.result())
        raise LanguageModelError(
            "timeout",
            f"It has not ended its turn in {_TURN_SECONDS:g} seconds.",
            hint="To see what was sent and what it answered, run this again with --record trace.jsonl.",
        )

    def _prompt(self, *blocks: ContentBlock) -> asyncio.Future[TurnEnd | None]:
        """Send a prompt. The future gives the end of the turn; None if the agent exits first."""
        self._text = ""
        ended: asyncio.Future[TurnEnd | None] = asyncio.get_running_loop().create_future()

        def settle(end: TurnEnd | None) -> None:
            if not ended.done():
                ended.set_result(end)

        self._agent.gone.on_cancel(lambda: settle(None))
        self._agent.link.prompt(self._session, blocks, settle)
        return ended

    async def _checked(self, end: TurnEnd | None) -> PromptResponse:
        match end:
            case PromptResponse():
                return end
            case None:
                raise await self._agent.explain_exit()
            case error:
                raise error


def _shown(text: str) -> str:
    """The beginning of what an agent says, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def _memory(pid: int) -> Finding:
    """How much memory the agent takes, with everything that it has started."""
    sizes = measure_tree(pid)
    if not sizes:
        return Finding("warn", "its memory could not be measured")
    several = f" in {len(sizes)} processes" if len(sizes) > 1 else ""
    return Finding("ok", f"it takes {sum(sizes) / 2**20:.0f} MB of memory{several}")
