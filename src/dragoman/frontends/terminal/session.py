"""One chat: a model, the tools here, what has been approved, and what was said so far."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from dragoman.clock import Clock
from dragoman.config import AcpModel, Config, ConfigError, Problem, quoted
from dragoman.conversations.ids import new_conversation_id
from dragoman.frontends.rule_offers import RuleOffers
from dragoman.frontends.terminal.compacting import CompactedHistory, CompactedModel
from dragoman.frontends.terminal.export_text import ChatDecisions
from dragoman.frontends.terminal.recording import ChatRecorder, RecordingHooks
from dragoman.frontends.terminal.rule_making import ChatRules
from dragoman.frontends.terminal.stored_chats import (
    CannotResume,
    StoredChat,
    all_chats,
    claimed_chat,
    kept_chats,
    release_chat,
)
from dragoman.journal.chat_events import MessagesAdded
from dragoman.journal.decisions import decisions_in_chat
from dragoman.journal.store import JournalInfo
from dragoman.lm import (
    CancellationToken,
    Consumer,
    DataPart,
    LanguageModel,
    LanguageModelError,
    Message,
    ToolCallPart,
    UsagePart,
    user,
)
from dragoman.lm.model import Compacting
from dragoman.lm.offering import ModelCommand
from dragoman.logs import Redaction
from dragoman.loop.events import CallDecided, EndReason
from dragoman.loop.history import close
from dragoman.loop.hooks import Hooks
from dragoman.loop.run import ToolLoop
from dragoman.loop.settings import LoopSettings
from dragoman.loop.state import begin
from dragoman.models import Models, auto_approval, own_places, policy_of
from dragoman.nearest import nearest
from dragoman.permissions.approvals import Approvals
from dragoman.permissions.pipeline import PermissionServices
from dragoman.permissions.record import By, Recorded
from dragoman.permissions.rules_in_force import RulesInForce
from dragoman.policy.rule import LocatedRule
from dragoman.store import ApprovalStore, Database, StoreError
from dragoman.tools.declaration import load_declarations
from dragoman.tools.definition import DefinedTool
from dragoman.tools.registry import ToolRegistry
from dragoman.tools.runtime import ToolRuntime
from dragoman.tools.virtual import PREFIX as GROUP_PREFIX

__all__ = ["ChatSession", "context_keys"]

_log = logging.getLogger(__name__)

# All that serves an agent: some tenths of a second, the first time.
_NEEDED_BY_AGENTS = "dragoman.backends.agent.model"
# Who decides about an agent's action before the terminal gets a question.
_WITHOUT_A_QUESTION: frozenset[By] = frozenset({"rule", "approval", "setting", "mode", "unasked", "limit"})


def context_keys(
    workspace: tuple[Path, ...], environment: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> dict[str, object]:
    """What `when` clauses can ask about a terminal; the names are the editor's where it has one."""
    is_mac = platform == "darwin"
    keys: dict[str, object] = {
        "workspaceFolderCount": len(workspace),
        "isTerminal": True,
        "os": "mac" if is_mac else "linux",
        "isLinux": not is_mac,
        "isMac": is_mac,
        "isWindows": False,
        "shellType": Path(environment.get("SHELL", "")).name,
    }
    return keys | ({"workspaceFolder": str(workspace[0])} if workspace else {})


def _unknown(names: Iterable[str], known: Collection[str], where: str) -> Iterator[str]:
    """A warning for each unknown tool name: a typo would go unnoticed until the intended tool runs without a question."""
    for name in names:
        if name not in known and not _is_sometimes_available(name):
            near = nearest(name, known)
            meant = f" Did you mean {quoted(near)}?" if near else ""
            yield f"{quoted(name)} under {where} is no tool.{meant}"


def _is_sometimes_available(name: str) -> bool:
    """Whether a name is of the tools that open a group, or of those that an agent asks through."""
    from dragoman.permissions.action import is_permission_tool  # noqa: PLC0415 - agents only

    return name.startswith(GROUP_PREFIX) or is_permission_tool(name)


def _report_unasked(hooks: Hooks, decision: Recorded) -> None:
    """Report what was decided about an action of an agent without a question. The loop reports the answers to questions."""
    if decision.by not in _WITHOUT_A_QUESTION or decision.allowed is None:
        return
    from dragoman.permissions.edit_mode import change_of  # noqa: PLC0415 - agents only
    from dragoman.permissions.question import in_one_line  # noqa: PLC0415 - agents only

    action = decision.action
    hooks.on_event(
        CallDecided(
            ToolCallPart(decision.id, action.permission_tool, {"title": action.title}),
            in_one_line(action, "may"),
            decision.allowed,
            decision.by,
            decision.why,
            action=action,
            change=change_of(action) if decision.by == "mode" else "",
        )
    )


class ChatSession:
    """Made for one chat and closed with it. `build_model` makes the model of a name, in place of what is configured."""

    def __init__(
        self,
        config: Config,
        model: str,
        *,
        state_dir: Path,
        workspace: tuple[Path, ...],
        tools: Iterable[DefinedTool],
        clock: Clock,
        build_model: Callable[[Config, str], LanguageModel] | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._build = build_model
        self._closing = ExitStack()
        self._permission_tools: list[Callable[[], None]] = []
        self.workspace = workspace
        self.messages: tuple[Message, ...]
        self.registry = ToolRegistry()
        database = self._opened(state_dir)
        store = ApprovalStore(database) if database is not None else None
        self.approvals = Approvals(store, workspace[0] if workspace else None)
        self._auto = auto_approval(config)
        self._models = Models(
            config,
            permissions=PermissionServices(
                self.approvals,
                self._auto,
                own=own_places(config, state_dir),
                rules=RulesInForce(policy_of(config)),
            ),
            database=database,
            redaction=redaction,
        )
        self._start(new_conversation_id())
        # The chat before this one, which may not be released yet.
        self._left = self._recorder
        self._use(model)
        self.registry.context.update(context_keys(workspace))
        declared = [
            declaration for path in config.tools.declarations for declaration in load_declarations(path)
        ]
        for declaration in declared:
            self.registry.declare(declaration)
        own = tuple(tools)
        for tool in own:
            self.registry.add(tool)
        known = [*(tool.declaration.name for tool in own), *(declaration.name for declaration in declared)]
        # What the person should know before they rely on it.
        incomplete = self.approvals.drop_incomplete()
        self.warnings = (
            *_unknown(config.tools.eligible, known, "eligible in [tools]"),
            *_unknown(config.chat.tools_off, known, "tools_off in [chat]"),
            *([incomplete] if incomplete else []),
        )
        for name in config.chat.tools_off:
            if name in known:
                self.registry.deselect(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.close()

    @property
    def id(self) -> str:
        """The name of this chat: in the list of conversations, and for agents."""
        return self._id

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self._config.models)

    @property
    def permissions(self) -> PermissionServices:
        """What decides about actions: rules, approvals and settings."""
        return self._models.permissions

    @property
    def accepts_edits(self) -> bool:
        """Whether this chat accepts edits in its folder without a question."""
        return self.permissions.edit_mode.is_on(self._id)

    def accept_edits(self, *, on: bool) -> None:
        """Switch the mode that accepts edits, for this chat only."""
        self.permissions.edit_mode.switch(self._id, on=on)

    @property
    def usage(self) -> UsagePart | None:
        """What the model has reported last of its usage; None if it has not since it was chosen."""
        said = (part for message in reversed(self.messages[self._chosen_at :]) for part in message.content)
        return next((part for part in said if isinstance(part, UsagePart)), None)

    def adopt(self, config: Config) -> None:
        """Go on with a changed configuration. Its rules count from the next action on."""
        self._config = config
        self._models.adopt(config)

    def use(self, model: str) -> None:
        """Go on with another model, which gets the whole history. The mode that accepts edits ends."""
        other = model != self.model_name
        self._use(model)
        if other:
            self.accept_edits(on=False)
        self._chosen_at = len(self.messages)
        self._recorder.model(model)

    def save_model(self) -> Path:
        """Begin later chats with this model, too. Returns the file that says so. Raises `ConfigError`."""
        found = self._config.found
        if found is not None and self.model_name in found.models:
            where = f"{quoted(self.model_name)} is a model of {found.source.path}, so only chats in this folder have it."
            raise ConfigError([Problem(str(self._own_file), f"{where} Nothing was saved.")])
        return self._save(model=self.model_name)

    def save_tool(self, name: str, *, is_on: bool) -> Path:
        """Begin later chats with or without a tool, too. Returns the file that says so. Raises `ConfigError`."""
        others = tuple(each for each in self._config.chat.tools_off if each != name)
        return self._save(tools_off=others if is_on else (*others, name))

    @property
    def _own_file(self) -> Path:
        """The user's own configuration, never one that was only found."""
        return self._models.rules_file.absolute()

    def _save(self, **values: str | tuple[str, ...]) -> Path:
        from dragoman.config.editing import set_chat_value  # noqa: PLC0415 - when a person saves something

        for key, value in values.items():
            set_chat_value(self._own_file, key, value)
        self._config = replace(self._config, chat=replace(self._config.chat, **values))
        return self._own_file

    def _use(self, model: str) -> None:
        self.model = self._build(self._config, model) if self._build else self._models.get(model)
        self.model_name = model
        # Only the model that made it can read it.
        self._compacted: CompactedHistory | None = None
        is_agent = isinstance(self._config.models.get(model), AcpModel)
        self._offer_permission_tools(wanted=is_agent and self._build is None)

    @property
    def rules(self) -> tuple[LocatedRule, ...]:
        """The rules in force."""
        return self._models.rules

    @property
    def rule_maker(self) -> ChatRules:
        """Makes rules of answers."""
        return ChatRules(RuleOffers(self._models), self.permissions, self.workspace)

    def get_ready(self) -> None:
        """Load in the background what an agent will need, while the user is typing."""
        if self._build is None and isinstance(self._config.models.get(self.model_name), AcpModel):
            Thread(target=import_module, args=(_NEEDED_BY_AGENTS,), daemon=True).start()

    def _offer_permission_tools(self, *, wanted: bool) -> None:
        """An agent asks through them whether it may act; any other model has no use for them."""
        if not wanted:
            for remove in self._permission_tools:
                remove()
            self._permission_tools.clear()
        elif not self._permission_tools:
            from dragoman.frontends.terminal.permission_tools import permission_tools  # noqa: PLC0415 - agents only

            self._permission_tools = [
                self.registry.add(tool) for tool in permission_tools(self.permissions.grants)
            ]

    async def close(self) -> None:
        """End the agents of this chat, and let other processes continue it."""
        try:
            await self._models.close()
        finally:
            for recorder in (self._left, self._recorder):
                await recorder.close()

    def start_over(self) -> None:
        """A new conversation: nothing said, nothing approved for this session."""
        self._leave()
        self._start(new_conversation_id())

    async def chats(self) -> list[JournalInfo]:
        """The stored chats of all folders, the latest first. Raises `CannotResume`."""
        return await all_chats(self._models.journals)

    async def kept(self, chats: Sequence[JournalInfo]) -> list[JournalInfo]:
        """Those of them whose content was kept. Raises `CannotResume` if there are none."""
        return await kept_chats(self._models.journals, chats)

    @property
    def can_be_continued(self) -> bool:
        """Whether something was said in this chat, and all of it is kept."""
        journals = self._models.journals
        return bool(self.messages) and journals.content == "full" and journals.store is not None

    async def resume(self, id_: str, *, model: str | None = None) -> StoredChat:
        """Continue a stored chat, with its own model unless another is named. Raises `CannotResume`."""
        if id_ == self._id:
            raise CannotResume("This is that chat.")
        stored = await claimed_chat(self._models.journals, id_)
        chat = stored.state
        chosen = model or chat.model
        try:
            if chosen != self.model_name:
                self._use(chosen)
        except BaseException:
            await release_chat(self._models.journals, id_)
            raise
        self._leave()
        self._start(id_, len(chat.messages), stored.entries[-1].sequence)
        # A process that was killed has left calls without results.
        self.messages = close(chat.messages)
        self._recorder.messages(self.messages)
        if chosen != chat.model:
            self._chosen_at = len(self.messages)
            self._recorder.model(chosen)
        await self._recorder.flush()
        return stored

    @property
    def agent_commands(self) -> tuple[ModelCommand, ...]:
        """The commands that the agent has listed. A prompt that begins with one runs it."""
        if self._build is not None or not self.is_agent:
            return ()
        offering = self._models.offering(self.model_name)
        return () if offering is None else offering.offer.commands

    async def compact(self) -> None:
        """Let the model make what was said so far shorter for itself. Raises `LanguageModelError`."""
        if not isinstance(self.model, Compacting):
            raise LanguageModelError("not_found", f"{self.model.info.name} has no compaction.")
        count = len(self.messages)
        older = self._compacted
        sent = self.messages if older is None else (*older.messages, *self.messages[older.count :])
        self._compacted = CompactedHistory(count, await self.model.compacted(sent))

    @property
    def is_agent(self) -> bool:
        """Whether the model is an agent, which reads files itself."""
        return "agent" in self.model.info.tags

    async def decisions(self) -> ChatDecisions | None:
        """What was decided in this chat, also before it was continued; None if that is not kept."""
        store = self._models.journals.store
        if store is None:
            return None
        await self._recorder.flush()
        times = [
            entry.at
            for entry in await store.read(self._id)
            if isinstance(entry.event, MessagesAdded)
            for _ in entry.event.messages
        ]
        return ChatDecisions(await decisions_in_chat(store, self._id), times)

    async def answer(
        self, prompt: str, hooks: Hooks, token: CancellationToken, *attached: DataPart
    ) -> EndReason:
        """Send the prompt to the model with what goes along, handle its calls, and record the messages."""
        await self._recorder.begin(prompt, self.model_name, self.workspace)
        settings = self._config.loop
        compacted = self._compacted
        loop = ToolLoop(
            self.model if compacted is None else CompactedModel(self.model, compacted),
            self._runtime,
            hooks=RecordingHooks(hooks, self._recorder),
            settings=LoopSettings(
                turns=settings.turns,
                on_denial=settings.on_denial,
                deadline_seconds=settings.deadline_minutes * 60,
                cancel_grace_seconds=self._config.conversation.cancel_grace_seconds,
            ),
            consumer=Consumer("terminal", self._id, tuple(map(str, self.workspace)), session=self._id),
            clock=self._clock,
            agent=self.model_name,
        )
        run = begin((*self.messages, user(prompt, *attached)))
        self._recorder.messages(run.messages)
        self.permissions.record.watcher = partial(_report_unasked, hooks)
        try:
            state = await loop.run(run, token)
        finally:
            self.permissions.record.watcher = None
            await self._recorder.flush()
        self.messages = state.messages
        return state.ended or "failed"

    def _leave(self) -> None:
        self.approvals.end_session(self._id)
        self.accept_edits(on=False)
        self._recorder.leave()
        self._left = self._recorder

    def _start(self, id_: str, recorded: int = 0, sequence: int = 0) -> None:
        """Begin a chat, or take up one of which so much is stored."""
        settings = self._config.tools
        self._id = id_
        self.messages = ()
        self._compacted = None
        # How many messages there were when the model was chosen.
        self._chosen_at = 0
        self._recorder = ChatRecorder(self._models.journals, id_, recorded=recorded, sequence=sequence)
        self._runtime = ToolRuntime(
            self.registry,
            self.approvals,
            self._auto,
            session=id_,
            workspace=self.workspace,
            limit=settings.limit,
            virtual_threshold=settings.virtual_threshold,
            rules=self.permissions.rules,
            own=self.permissions.own,
            edit_mode=self.permissions.edit_mode,
        )

    def _opened(self, state_dir: Path) -> Database | None:
        try:
            return self._closing.enter_context(Database.open(state_dir))
        except StoreError as problem:
            _log.warning("approvals last for this session only, and the chat is not kept: %s", problem)
            return None
