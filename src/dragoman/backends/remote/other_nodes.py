"""The conversations of other nodes, for the console of a gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer, NobodyThere
from dragoman.fleet.console_messages import (
    OPERATION_FORM,
    OPERATION_RESULT_FORM,
    ListLive,
    Operate,
    OperationResult,
)
from dragoman.fleet.subjects import is_node_name, operations_subject
from dragoman.other_nodes import NodeConversation, NodeSilent, Operation, OperationState

__all__ = ["FleetNodes"]

_log = logging.getLogger(__name__)

# A person waits for the list. What a node says too late is left out.
_LIST_SECONDS = 1.0
# To release a journal takes a write, which can take 8 seconds while replicas choose a leader.
_OPERATE_SECONDS = 15.0


class FleetNodes:
    """Asks the nodes that have conversations."""

    def __init__(self, connection: FleetConnection, own_name: str) -> None:
        self._connection = connection
        self.own_name = own_name

    async def conversations(self, nodes: Iterable[str]) -> dict[tuple[str, str], NodeConversation]:
        """The conversations that these nodes have in their processes, by node and id. A node that is silent has none."""
        asked = [node for node in nodes if is_node_name(node)]
        answers = await asyncio.gather(*map(self._listed, asked))
        return {(node, each.id): each for node, answer in zip(asked, answers, strict=True) for each in answer}

    async def operate(self, node: str, conversation: str, operation: Operation) -> OperationState:
        """Let a node do something with a conversation of its process. Raises `NodeSilent`."""
        if not is_node_name(node):
            raise NodeSilent(f"{node} is no node of the fleet", is_gone=True)
        message = OPERATION_FORM.encode(Operate(conversation, operation))
        try:
            return (await self._ask(node, message, _OPERATE_SECONDS)).state
        except NobodyThere as error:
            raise NodeSilent(str(error), is_gone=True) from error
        except (NoAnswer, FleetUnavailable, msgspec.MsgspecError) as error:
            raise NodeSilent(str(error)) from error

    async def _listed(self, node: str) -> tuple[NodeConversation, ...]:
        try:
            return (await self._ask(node, OPERATION_FORM.encode(ListLive()), _LIST_SECONDS)).live
        except (NobodyThere, NoAnswer, FleetUnavailable, msgspec.MsgspecError) as error:
            _log.info("the conversations of %s are not known: %s", node, error)
            return ()

    async def _ask(self, node: str, message: bytes, seconds: float) -> OperationResult:
        return OPERATION_RESULT_FORM.decode(
            await self._connection.request(operations_subject(node), message, seconds)
        )
