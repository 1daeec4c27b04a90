"""A consumer that keeps its history the way an editor does, and the bridge it talks to, in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from dragoman.backends.agent.conversation import Conversation
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.profile.observations import Observations
from dragoman.backends.agent.profile.settings import AgentSettings, Timing
from dragoman.backends.agent.profile.traits import Traits, traits_of
from dragoman.backends.agent.reply.backlog import HELD_BYTES
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.writer import Journals
from dragoman.lm import (
    AnswerForm,
    CancellationSource,
    Consumer,
    DataPart,
    Features,
    GuardedModel,
    JsonObject,
    Message,
    ModelInfo,
    Part,
    Request,
    RequestOptions,
    Response,
    TextPart,
    ToolCallPart,
    ToolDefinition,
    ToolMode,
    ToolResultPart,
    user,
)
from dragoman.permissions.action import PERMISSION_TOOLS
from dragoman.permissions.decide import PermissionSetting
from dragoman.permissions.pipeline import PermissionServices
from dragoman.permissions.question import question_about
from dragoman.store import Database, signing_key
from fake_agent.steps import COMMAND, open_gate, prompt
from process.living import all_gone

__all__ = ["DEADLINE_SECONDS", "Bridge", "Chat", "Going", "result", "soon"]

_T = TypeVar("_T")

# Longer than anything here takes on a busy machine. Only a test that fails reaches it.
DEADLINE_SECONDS = 30.0
TOOLS = tuple(
    ToolDefinition(name, f"The tool {name}.", {"type": "object"}) for name in ("look", "count", "touch")
)
PERMISSIONS = tuple(ToolDefinition(name) for name in PERMISSION_TOOLS.values())
_FEATURES = Features(thinking=True, data=True)
_TIMING = Timing()


async def soon(work: Awaitable[_T]) -> _T:
    return await asyncio.wait_for(work, DEADLINE_SECONDS)


def result(call: ToolCallPart, *content: str | DataPart, is_error: bool = False) -> ToolResultPart:
    parts = tuple(TextPart(part) if isinstance(part, str) else part for part in content)
    return ToolResultPart(call.call_id, parts, is_error)


class Heard(Response):
    """What a request gets, and a way to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.news = asyncio.Event()

    def report(self, part: Part) -> None:
        super().report(part)
        self.news.set()


@dataclass
class Going:
    """A request under way."""

    chat: Chat
    heard: Heard
    source: CancellationSource
    task: asyncio.Task[None]

    async def until(self, is_so: Callable[[Heard], object]) -> None:
        async def look() -> None:
            while not is_so(self.heard):
                assert not self.task.done(), self.task
                self.heard.news.clear()
                await self.heard.news.wait()

        self.task.add_done_callback(lambda _: self.heard.news.set())
        await soon(look())

    async def end(self) -> Heard:
        """Its answer, which the history has from now on."""
        await soon(self.task)
        if self.heard.parts:
            self.chat.history.append(self.heard.message())
        return self.heard

    async def cancel(self) -> Heard:
        self.source.cancel()
        return await self.end()


@dataclass
class Chat:
    model: GuardedModel
    folder: Path
    tools: tuple[ToolDefinition, ...] = (*TOOLS, *PERMISSIONS)
    history: list[Message] = field(default_factory=list)
    features: Features = _FEATURES
    # Whose requests they are: over HTTP, a key.
    connection: str = "test"
    # Its front end says that they are side requests.
    is_aside: bool = False
    # How long its client waits while a person decides elsewhere.
    hold_seconds: float | None = None
    program: str = ""
    response_id: str | None = None
    # What its requests demand of the answers.
    form: AnswerForm | None = None
    tool_mode: ToolMode = "auto"
    # What its client says about the request itself.
    model_options: JsonObject = field(default_factory=dict)
    model_configuration: JsonObject = field(default_factory=dict)

    def begin(self, *messages: Message, heard: Heard | None = None) -> Going:
        self.history += messages
        heard, source = heard or Heard(), CancellationSource()
        consumer = Consumer(
            "vscode",
            self.connection,
            (str(self.folder),),
            self.features,
            program=self.program,
            hold_seconds=self.hold_seconds,
            response_id=self.response_id,
        )
        options = RequestOptions(
            self.tools,
            self.tool_mode,
            {**self.model_options, "_aside": True} if self.is_aside else self.model_options,
            answer_form=self.form,
            model_configuration=self.model_configuration,
        )
        request = Request(tuple(self.history), options, consumer)
        task = asyncio.create_task(self.model.respond(request, heard, source.token))
        return Going(self, heard, source, task)

    async def say(self, text: str) -> Heard:
        return await self.begin(user(text)).end()

    async def do(self, *steps: object) -> Heard:
        """Have the agent do that."""
        return await self.say(prompt(*steps))

    async def give(self, *results: ToolResultPart, also: str | None = None) -> Heard:
        """Each in a message of its own, as an editor does it."""
        words = () if also is None else (user(also),)
        return await self.begin(*(user(part) for part in results), *words).end()

    async def echo(self) -> list[str]:
        """What the agent hears of another prompt: the proof that it answers this one and no other."""
        answer = await self.say("still there?")
        assert answer.text.startswith("echo: "), answer.text
        heard: list[str] = json.loads(answer.text.removeprefix("echo: "))
        assert heard[-1] == "still there?"
        return heard


class Bridge:
    """A model, its fake agent's options, and what the agents have noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.permissions = PermissionServices()
        self.grants = self.permissions.grants
        self.model: GuardedModel | None = None
        # Where conversations are stored, if anywhere.
        self.journals: Journals | None = None
        self._key: bytes | None = None
        self.observations = Observations()

    def store_in(self, database: Database, **settings: Any) -> SqliteJournals:
        """Store conversations in a database from now on."""
        store = SqliteJournals(database)
        self.journals, self._key = Journals(store, **settings), signing_key(database)
        return store

    def chat(
        self,
        *,
        timing: Timing = _TIMING,
        permission: PermissionSetting = "deny",
        traits: Traits | None = None,
        command: tuple[str, ...] | None = None,
        tools: tuple[ToolDefinition, ...] | None = None,
        fs: bool = False,
        configured: Mapping[str, Any] | None = None,
        **options: object,
    ) -> Chat:
        if self.model is None:
            arguments = json.dumps({"folder": str(self.folder), **options})
            settings = AgentSettings(
                "fake",
                "Fake",
                command or (*COMMAND, arguments),
                {},
                self.folder,
                traits or traits_of("demo"),
                timing,
                permission=permission,
                fs=fs,
                **(configured or {}),
            )
            info = ModelInfo(
                "fake", "Fake", "fake", "1", 100_000, 10_000, required_calls=True, takes_forms=True
            )
            self.model = GuardedModel(
                AgentModel(
                    info,
                    settings,
                    permissions=self.permissions,
                    journals=self.journals,
                    key=self._key,
                    observations=self.observations,
                )
            )
        chat = Chat(self.model, self.folder)
        if tools is not None:
            chat.tools = tools
        return chat

    def aside(self, connection: str = "test") -> Chat:
        """Side requests, of the same consumer or of another."""
        chat = self.chat(tools=())
        chat.is_aside, chat.connection = True, connection
        return chat

    def open_gate(self, name: str) -> None:
        open_gate(self.folder, name)

    def question(self, call: ToolCallPart) -> str:
        """What a person is asked by this call, with its broken lines joined."""
        pending = self.grants.pending(call.input.get("nonce"))
        assert pending is not None
        question = question_about(pending.action)
        return f"{question.title}\n{question.message}".replace("↩\n", "")

    def approve(self, call: ToolCallPart) -> ToolResultPart:
        """What the extension does when the person has allowed it."""
        token = self.grants.issue(call.input.get("nonce"), call.name)
        return result(call, token or "This request is no longer open.")

    def noted(self, method: str) -> list[JsonObject]:
        """What the agents were sent, or did, by its name."""
        return [params for name, params in self.journal if name == method]

    @property
    def journal(self) -> list[tuple[str, JsonObject]]:
        journal = self.folder / "journal"
        # The last line may be half written.
        lines = journal.read_text().split("\n")[:-1] if journal.exists() else []
        entries = [json.loads(line) for line in lines]
        return [(entry["method"], entry["params"]) for entry in entries]

    async def until_noted(self, method: str, times: int = 1) -> None:
        async def look() -> None:
            while len(self.noted(method)) < times:  # noqa: ASYNC110 - a file of another process tells nobody that it grows
                await asyncio.sleep(0.01)

        await soon(look())

    @property
    def pids(self) -> set[int]:
        return {int(str(entry["pid"])) for entry in self.noted("started")}

    async def _until(self, is_so: Callable[[Conversation], object]) -> None:
        """Until one of the conversations is so."""
        assert self.model is not None
        model = self.model._model
        assert isinstance(model, AgentModel)

        async def look() -> None:
            while not any(map(is_so, model._registry._here.values())):  # noqa: ASYNC110 - a state tells nobody
                await asyncio.sleep(0.01)

        await soon(look())

    async def until_gone(self) -> None:
        """Until every agent so far has ended, and the bridge has seen it."""
        await soon(all_gone(self.pids))
        await self._until(lambda each: each.state.phase == "Dead")

    async def until_idle(self) -> None:
        await self._until(lambda each: each.state.phase == "Idle")

    async def until_streaming(self) -> None:
        await self._until(lambda each: each.state.phase == "Streaming")

    async def until_parked(self) -> None:
        await self._until(lambda each: each.state.phase == "Parked")

    async def until_kept(self, text: str) -> None:
        await self._until(lambda each: TextPart(text) in each._backlog._parts)

    async def until_held(self) -> None:
        await self._until(lambda each: each._backlog._bytes > HELD_BYTES)

    async def until_pending(self, count: int) -> None:
        await self._until(lambda each: len(each.state.pending) == count)

    async def until_settled(self, call: ToolCallPart) -> None:
        await self._until(lambda each: call.call_id not in each.journal.record.pending)

    async def close(self) -> None:
        if self.model is not None:
            await soon(self.model.close())
