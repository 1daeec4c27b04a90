"""What one session's model is offered, and what a call of it reaches.

The registry says which tools there are; `virtual` which of them fit. What is kept here is what happened: which tools the
prompt names, and which groups were opened, the latest first. A group is opened by calling its virtual tool, or one of its
tools: a model may know a name from earlier in the conversation.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.lm import CancellationToken, ToolDefinition
from dragoman.lm.parts import ToolResult
from dragoman.tools import virtual
from dragoman.tools.declaration import Declaration
from dragoman.tools.registry import RegisteredTool, RegistryError, ToolRegistry
from dragoman.tools.tool import Invocation

__all__ = ["Offering"]

# A model that called a tool that is not there is told some that are.
_MAX_NAMED = 20


class Offering:
    def __init__(self, registry: ToolRegistry, *, limit: int, threshold: int) -> None:
        self._registry = registry
        self._limit = limit
        self._most = limit
        self._threshold = threshold
        self._referenced: frozenset[str] = frozenset()
        self._expanded: tuple[str, ...] = ()
        self._last: virtual.GroupedTools | None = None

    def definitions(self, prompt: str, limit: int | None = None) -> tuple[ToolDefinition, ...]:
        """What to offer with a prompt: what is selected, and what the prompt names by `#reference`.

        `limit` is how many the model takes, where that is fewer than we would offer anybody.
        """
        self._referenced = frozenset(self._registry.referenced(prompt))
        self._most = self._limit if limit is None else min(limit, self._limit)
        return self._make().definitions

    def reach(self, name: str) -> RegisteredTool:
        """The tool that a model's call of `name` reaches; `RegistryError` if none, with what to call instead."""
        group = self._group(name)
        if group is not None:
            return _activation(group, self._activate)
        try:
            tool = self._registry.find(name)
            self._check_offered(tool)
        except RegistryError as error:
            raise RegistryError(f"{error} {self._instead()}") from None
        self._open_group_of(name)
        return tool

    def _check_offered(self, tool: RegisteredTool) -> None:
        name = tool.declaration.name
        if tool.is_private:
            raise RegistryError(f"The tool {name!r} is private.")
        if name not in self._registry.selection and name not in self._referenced:
            raise RegistryError(f"The tool {name!r} was deselected by the user.")

    def _instead(self) -> str:
        names = [definition.name for definition in self._offer().definitions]
        if not names:
            return "No tool is available."
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        return f"Available tools: {', '.join(names[:_MAX_NAMED])}{more}."

    def _make(self) -> virtual.GroupedTools:
        wanted = self._registry.selection | self._referenced
        tools = [info for info in self._registry.available() if info.name in wanted]
        made = virtual.offer(
            tools,
            limit=self._most,
            threshold=min(self._threshold, self._most),
            expanded=self._expanded,
            pinned=self._referenced,
        )
        # A group that had to make room stays closed until it is called for again.
        self._expanded = made.expanded
        self._last = made
        return made

    def _offer(self) -> virtual.GroupedTools:
        return self._last or self._make()

    def _group(self, name: str) -> virtual.ToolGroup | None:
        if not name.startswith(virtual.PREFIX):
            return None
        return next((group for group in self._offer().groups if group.name == name), None)

    def _open_group_of(self, name: str) -> None:
        for group in self._last.groups if self._last else ():
            if name in group.members:
                self._open(group.name)

    def _open(self, group: str) -> None:
        self._expanded = (group, *(name for name in self._expanded if name != group))

    def _activate(self, group: virtual.ToolGroup) -> ToolResult:
        before = self._expanded
        self._open(group.name)
        offered = {definition.name for definition in self._make().definitions}
        available = [name for name in group.members if name in offered]
        if not available:
            return ToolResult.error(f"The tools of {group.name} are no longer available. {self._instead()}")
        closed = [name for name in before if name not in self._expanded]
        making_room = f" To make room, these are closed again: {', '.join(closed)}." if closed else ""
        return ToolResult.text(f"Available now: {', '.join(available)}.{making_room}")


class _Activation:
    """The tool that a virtual tool is."""

    def __init__(self, activate: Callable[[], ToolResult]) -> None:
        self._activate = activate

    async def invoke(self, invocation: Invocation, token: CancellationToken) -> ToolResult:  # noqa: ARG002 - a Tool
        return self._activate()


def _activation(
    group: virtual.ToolGroup, activate: Callable[[virtual.ToolGroup], ToolResult]
) -> RegisteredTool:
    label = group.name.removeprefix(virtual.PREFIX)
    declaration = Declaration(
        name=group.name,
        display_name=f"Activate {label} tools",
        model_description=f"Makes {len(group.members)} tools available.",
        # It changes what is offered, nothing else: there is nothing to ask a person.
        read_only=True,
    )
    return RegisteredTool(declaration, _Activation(lambda: activate(group)))
