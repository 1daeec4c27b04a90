"""The tools of one session: two of the agent's own, and those of the consumer's tool servers.

The agent's own write a file and run a command. The consumer's are offered to the model under a name made of server and tool;
no client may depend on such names, and ours does not. The lists are read anew before each prompt, and whenever a server says
that its list has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.acp.messages import StdioServer
from dragoman.demo.mcp import RemoteTool, ToolClient, connect
from dragoman.demo.mcp.client import MAX_TOOLS
from dragoman.lm import CancellationToken
from dragoman.lm.parts import ToolResult
from dragoman.permissions.approvals import Approvals
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.tools.builtin.command import run_command
from dragoman.tools.builtin.edit import write_file
from dragoman.tools.declaration import Declaration
from dragoman.tools.names import legal_name
from dragoman.tools.registry import ToolRegistry
from dragoman.tools.runtime import ToolRuntime
from dragoman.tools.tool import Invocation, PreparedInvocation

__all__ = ["OWN_TOOLS", "ConsumerTool", "Toolbox"]

_log = logging.getLogger(__name__)

# A server whose list changes with every look at it is broken. The next prompt looks again.
_MAX_REREADINGS = 10

OWN_TOOLS = frozenset({"run_command", "write_file"})


@dataclass(frozen=True, slots=True)
class ConsumerTool:
    """A tool of a tool server's."""

    server: ToolClient
    remote: RemoteTool
    declaration: Declaration

    @property
    def approval_key(self) -> str:
        """What is allowed always is the tool, whatever its arguments: its owner asks again if that matters."""
        return self.remote.name

    async def prepare_invocation(
        self,
        invocation: Invocation,  # noqa: ARG002 - a PreparingTool
        token: CancellationToken,  # noqa: ARG002 - a PreparingTool
    ) -> PreparedInvocation:
        return PreparedInvocation(
            invocation_message=f"Calling {self.remote.name}", approval_key=self.approval_key
        )

    async def invoke(self, invocation: Invocation, token: CancellationToken) -> ToolResult:  # noqa: ARG002 - a Tool
        return await self.server.call(self.remote.name, invocation.input, invocation.progress)


class Toolbox:
    def __init__(self, session: str, workspace: tuple[Path, ...]) -> None:
        self.workspace = workspace
        self.approvals = Approvals()
        # What could not be reached, in a sentence each, for whoever asks for the list of tools.
        self.problems: tuple[str, ...] = ()
        self._unreachable: tuple[str, ...] = ()
        self._session = session
        self._servers: tuple[ToolClient, ...] = ()
        # One reading at a time: an older list must not replace a newer one.
        self._reading = asyncio.Lock()
        self._rereading: asyncio.Task[None] | None = None
        self._registry = ToolRegistry()
        self._registry.context.set("workspaceFolderCount", len(workspace))
        self._own: tuple[Callable[[], None], ...] = ()
        self._consumers: dict[str, tuple[ConsumerTool, Callable[[], None]]] = {}
        # A script reads no lists, however long they are: nothing is left out or grouped.
        self.runtime = ToolRuntime(
            self._registry,
            self.approvals,
            AutoApproval(),
            session=session,
            workspace=workspace,
            limit=MAX_TOOLS,
            virtual_threshold=MAX_TOOLS,
        )

    async def connect(self, addresses: Iterable[StdioServer]) -> None:
        """Connect to all servers, and list their tools. One that cannot be reached is told of, and done without."""
        connecting = [
            asyncio.create_task(connect(address, self.workspace[0], self._changed)) for address in addresses
        ]
        try:
            opened = await asyncio.gather(*connecting, return_exceptions=True)
        finally:
            # Also those that stand when we are interrupted: `close` is for them.
            self._servers = tuple(
                task.result()
                for task in connecting
                if task.done() and not task.cancelled() and not task.exception()
            )
        self._unreachable = _told(failure for failure in opened if isinstance(failure, Exception))
        await self.refresh()

    def offer_own(self, *, offered: bool) -> None:
        """Whether the agent may act by itself."""
        if offered and not self._own:
            self._own = tuple(self._registry.add(tool) for tool in (write_file(), run_command()))
        elif not offered:
            for remove in self._own:
                remove()
            self._own = ()

    def consumer_tool(self, name: str) -> ConsumerTool | None:
        """The tool of the consumer's that a model's call of `name` reaches."""
        tool, _ = self._consumers.get(name, (None, None))
        return tool

    def is_approved(self, tool: str, key: str) -> bool:
        return self.approvals.covers(self._session, tool, key) is not None

    async def refresh(self) -> None:
        """Read all lists anew."""
        async with self._reading:
            lists = await asyncio.gather(
                *(server.tools() for server in self._servers), return_exceptions=True
            )
            self._offer(lists)

    async def settled(self) -> None:
        """Until lists that are known to have changed have been read."""
        if self._rereading is not None:
            await asyncio.wait({self._rereading})

    async def close(self) -> None:
        if self._rereading is not None:
            self._rereading.cancel()
        await asyncio.gather(*(server.close() for server in self._servers), return_exceptions=True)

    def _changed(self) -> None:
        """A server says that its list is another one now."""
        if self._rereading is None or self._rereading.done():
            self._rereading = asyncio.create_task(self._reread())

    async def _reread(self) -> None:
        # It may change again while it is read, but not for ever.
        for _ in range(_MAX_REREADINGS):
            if not any(server.is_stale for server in self._servers):
                return
            await self.refresh()

    def _offer(self, lists: Sequence[tuple[RemoteTool, ...] | BaseException]) -> None:
        self.problems = (*self._unreachable, *_told(each for each in lists if isinstance(each, Exception)))
        found: dict[str, ConsumerTool] = {}
        for server, tools in zip(self._servers, lists, strict=True):
            for remote in tools if isinstance(tools, tuple) else ():
                name = legal_name(f"{server.name}__{remote.name}")
                while name in found:
                    name += "_"
                found[name] = ConsumerTool(server, remote, _declaration(name, remote))
        for name, (tool, remove) in tuple(self._consumers.items()):
            if found.get(name) != tool:
                remove()
                del self._consumers[name]
        for name, tool in found.items():
            if name not in self._consumers:
                self._consumers[name] = tool, self._registry.add(tool)


def _told(failures: Iterable[Exception]) -> tuple[str, ...]:
    told = tuple(map(str, failures))
    for sentence in told:
        _log.warning("tool server: %s", sentence)
    return told


def _declaration(name: str, remote: RemoteTool) -> Declaration:
    return Declaration(
        name=name,
        display_name=remote.name.strip() or name,
        model_description=(remote.description or "").strip() or name,
        input_schema={**remote.input_schema, "type": "object"},
        parallel=True,
    )
