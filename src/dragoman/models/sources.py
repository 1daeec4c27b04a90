"""What front ends see of the models: each of these protocols is what one kind of them needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from dragoman.lm import DataPart, LanguageModel, ModelInfo
from dragoman.lm.client_services import ClientRegistry
from dragoman.lm.offering import OfferingModel

if TYPE_CHECKING:
    from dragoman.journal.writer import Journals
    from dragoman.permissions.pipeline import PermissionServices

__all__ = ["AgentSource", "Conversing", "Learning", "LiveConversation", "ModelSource", "Recalling", "Remote"]


@runtime_checkable
class Learning(Protocol):
    """A model that can ask its server for its limits and features. What it learns is in its `info`."""

    async def learn(self) -> None:
        """Ask the server once. Never fails, and never takes long."""
        ...


@runtime_checkable
class Remote(Protocol):
    """A model that runs on another machine."""

    @property
    def folder(self) -> Path | None:
        """The folder in which its agents work there. None: it is no agent, or not known yet."""
        ...


class LiveConversation(Protocol):
    """A conversation with an agent in this process, as the console sees it."""

    @property
    def id(self) -> str: ...

    @property
    def model(self) -> str:
        """The model's id."""
        ...

    @property
    def folder(self) -> str:
        """The first folder of its workspace."""
        ...

    @property
    def connection(self) -> str: ...

    @property
    def program(self) -> str:
        """The program that sent its latest request, by its own name."""
        ...

    @property
    def stage(self) -> Literal["answering", "asking", "waiting", "idle", "stored"]:
        """asking: a person must decide. waiting: the consumer has calls. idle: the agent runs. stored: no agent runs."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether something is under way in it. Output that waits for the next request does not count."""
        ...

    def stop_turn(self) -> None:
        """Cancel the turn under way, if there is one."""
        ...

    def park(self) -> None:
        """Stop an idle agent."""
        ...

    def forget(self) -> None:
        """Stop the agent and drop what is in memory, because the conversation was deleted."""
        ...


@runtime_checkable
class Conversing(Protocol):
    """A model that has conversations."""

    def conversations(self) -> Iterable[LiveConversation]: ...

    def marker(self, conversation: str, turn: int, response: int) -> DataPart:
        """The marker by which a request goes on after this response."""
        ...


@runtime_checkable
class Recalling(Protocol):
    """A model whose permission requests wait at other nodes."""

    async def recall(self, call_ids: Iterable[str]) -> None:
        """Make those of these permission calls known that wait at another node. Raises `LanguageModelError`."""
        ...


class ModelSource(Protocol):
    """What a front end needs of the configured models. `Models` is the one that the commands use."""

    @property
    def permissions(self) -> PermissionServices: ...

    @property
    def clients(self) -> ClientRegistry:
        """Where a front end registers what its clients offer to agents."""
        ...

    async def learn(self) -> None: ...

    def infos(self) -> tuple[ModelInfo, ...]: ...

    def get(self, model_id: str) -> LanguageModel: ...

    def folder(self, model_id: str) -> Path | None:
        """The folder in which a model's agents work, unless a consumer has its own. None: the model is no agent."""
        ...

    async def recall_permissions(self, model_id: str, call_ids: Iterable[str]) -> None:
        """Make those permission calls of a model known here that wait at another node. Raises `LanguageModelError`."""
        ...

    async def close(self) -> None: ...


class AgentSource(ModelSource, Protocol):
    """With what belongs to agents: their conversations, and what they offer."""

    @property
    def journals(self) -> Journals: ...

    def conversing(self, model_id: str) -> Conversing | None:
        """The model of that name, if it is an agent. Raises `LanguageModelError` if there is none."""
        ...

    def offering(self, model_id: str) -> OfferingModel | None:
        """The model of that name, if it offers something to choose. Raises `LanguageModelError` if there is none."""
        ...

    def watch_offers(self, on_change: Callable[[str], None]) -> None:
        """Call a function with the id of each model whose offer has changed."""
        ...

    def conversations(self) -> tuple[LiveConversation, ...]: ...
