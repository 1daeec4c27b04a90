"""One chat: a model, the tools here, what has been approved, and what was said so far."""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

from dragoman.clock import Clock
from dragoman.config import AcpModel, Config, quoted
from dragoman.lm import CancellationToken, Consumer, LanguageModel, Message, user
from dragoman.loop.events import EndReason
from dragoman.loop.hooks import Hooks
from dragoman.loop.run import ToolLoop
from dragoman.loop.settings import LoopSettings
from dragoman.loop.state import begin
from dragoman.models import Models, auto_approval, own_places
from dragoman.nearest import nearest
from dragoman.permissions.approvals import Approvals
from dragoman.permissions.pipeline import PermissionServices
from dragoman.store import AgentStore, ApprovalStore, Database, StoreError
from dragoman.tools.declaration import load_declarations
from dragoman.tools.definition import DefinedTool
from dragoman.tools.registry import ToolRegistry
from dragoman.tools.runtime import ToolRuntime
from dragoman.tools.virtual import PREFIX as GROUP_PREFIX

__all__ = ["ChatSession", "context_keys"]

_log = logging.getLogger(__name__)

# All that serves an agent: some tenths of a second, the first time.
_NEEDED_BY_AGENTS = "dragoman.backends.agent.model"


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


def _unknown(names: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """A warning for each unknown tool name: a typo would go unnoticed until the intended tool runs without a question."""
    for name in names:
        if name not in known and not _is_sometimes_available(name):
            near = nearest(name, known)
            meant = f" Did you mean {quoted(near)}?" if near else ""
            yield f"{quoted(name)} under eligible in [tools] is no tool.{meant}"


def _is_sometimes_available(name: str) -> bool:
    """Whether a name is of the tools that open a group, or of those that an agent asks through."""
    from dragoman.permissions.action import is_permission_tool  # noqa: PLC0415 - agents only

    return name.startswith(GROUP_PREFIX) or is_permission_tool(name)


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
    ) -> None:
        self._config = config
        self._clock = clock
        self._build = build_model
        self._closing = ExitStack()
        self._permission_tools: list[Callable[[], None]] = []
        self.workspace = workspace
        self.messages: tuple[Message, ...] = ()
        self.registry = ToolRegistry()
        database = self._opened(state_dir)
        store = ApprovalStore(database) if database is not None else None
        self.approvals = Approvals(store, workspace[0] if workspace else None)
        self._auto = auto_approval(config)
        self._models = Models(
            config,
            permissions=PermissionServices(self.approvals, self._auto, own=own_places(config, state_dir)),
            learnt=AgentStore(database) if database is not None else None,
        )
        self.use(model)
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
        self.warnings = (*_unknown(config.tools.eligible, known), *([incomplete] if incomplete else []))
        self._id, self._runtime = self._fresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.close()

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self._config.models)

    def use(self, model: str) -> None:
        """Go on with another model, which gets the whole history."""
        self.model = self._build(self._config, model) if self._build else self._models.get(model)
        self.model_name = model
        is_agent = isinstance(self._config.models.get(model), AcpModel)
        self._offer_permission_tools(wanted=is_agent and self._build is None)

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
                self.registry.add(tool) for tool in permission_tools(self._models.permissions.grants)
            ]

    async def close(self) -> None:
        """End the agents of this chat."""
        await self._models.close()

    def start_over(self) -> None:
        """A new conversation: nothing said, nothing approved for this session."""
        self.approvals.end_session(self._id)
        self.messages = ()
        self._id, self._runtime = self._fresh()

    async def answer(self, prompt: str, hooks: Hooks, token: CancellationToken) -> EndReason:
        """Send the prompt to the model, handle its calls, and record the messages."""
        settings = self._config.loop
        loop = ToolLoop(
            self.model,
            self._runtime,
            hooks=hooks,
            settings=LoopSettings(
                turns=settings.turns,
                on_denial=settings.on_denial,
                deadline_seconds=settings.deadline_minutes * 60,
                cancel_grace_seconds=self._config.conversation.cancel_grace_seconds,
            ),
            consumer=Consumer("terminal", self._id, tuple(map(str, self.workspace)), session=self._id),
            clock=self._clock,
        )
        state = await loop.run(begin((*self.messages, user(prompt))), token)
        self.messages = state.messages
        return state.ended or "failed"

    def _fresh(self) -> tuple[str, ToolRuntime]:
        settings = self._config.tools
        id_ = secrets.token_hex(8)
        runtime = ToolRuntime(
            self.registry,
            self.approvals,
            self._auto,
            session=id_,
            workspace=self.workspace,
            limit=settings.limit,
            virtual_threshold=settings.virtual_threshold,
        )
        return id_, runtime

    def _opened(self, state_dir: Path) -> Database | None:
        try:
            return self._closing.enter_context(Database.open(state_dir))
        except StoreError as problem:
            _log.warning("approvals last for this session only: %s", problem)
            return None
