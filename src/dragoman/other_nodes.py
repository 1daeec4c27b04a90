"""What the console needs of the other nodes of a fleet. Without a fleet there are none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

__all__ = ["NodeConversation", "NodeSilent", "Operation", "OperationState", "OtherNodes"]

# forget: drop what is in memory, because the conversation is deleted.
Operation: TypeAlias = Literal["stop", "park", "forget"]
# busy: something is under way in the conversation. absent: the node does not have it.
OperationState: TypeAlias = Literal["done", "busy", "absent"]


class NodeSilent(Exception):
    """A node does not answer. It may have got the message, unless it `is_gone`: then nobody of that name listens."""

    def __init__(self, why: str, *, is_gone: bool = False) -> None:
        super().__init__(why)
        self.is_gone = is_gone


@dataclass(frozen=True, slots=True)
class NodeConversation:
    """A conversation with an agent in the process of another node."""

    id: str
    model: str
    folder: str
    connection: str
    program: str
    stage: Literal["answering", "asking", "waiting", "idle", "stored"]


class OtherNodes(Protocol):
    @property
    def own_name(self) -> str:
        """The name of the node that this process is."""
        ...

    async def conversations(self, nodes: Iterable[str]) -> dict[tuple[str, str], NodeConversation]:
        """The conversations that these nodes have in their processes, by node and id. A node that is silent has none."""
        ...

    async def operate(self, node: str, conversation: str, operation: Operation) -> OperationState:
        """Let a node do something with a conversation of its process. Raises `NodeSilent`."""
        ...
