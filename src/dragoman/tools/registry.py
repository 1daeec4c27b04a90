"""The registry of tools: declared, registered, and visible in this context.

A tool has two halves. Its *declaration* says what it is called, what it takes and when it is offered; what is
*registered* under that name does the work. Only one that has both is seen:

    declared and registered     listed, while its `when` holds; offered, unless it was deselected
    declared, not registered    private: its owner calls it by other means; it cannot be called through here
    registered as private       never listed or offered; a program may invoke it by name
    registered, not declared    an error

`on_change` subscribers are notified when the visible list has changed, by a registration, the selection or a context key.
Everything here belongs to one event loop.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

from dragoman.lm import JsonObject
from dragoman.nearest import did_you_mean
from dragoman.tools import when
from dragoman.tools.context import ContextKeys
from dragoman.tools.declaration import Declaration, Icon
from dragoman.tools.tool import Tool

__all__ = ["RegisteredTool", "RegistryError", "ToolInfo", "ToolRegistry"]

_log = logging.getLogger(__name__)

# `#name` where a word could begin: not the fragment of an address, not `C#` and not the second half of `##`.
_REFERENCE = re.compile(r"(?<![\w#/&?=.-])#([\w-]+)", re.ASCII)


class RegistryError(Exception):
    """A tool cannot be declared, registered or found. The message says why."""


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """What a consumer sees of a tool."""

    name: str
    display_name: str
    description: str
    input_schema: JsonObject | None = None
    tags: tuple[str, ...] = ()
    reference_name: str | None = None
    icon: Icon | None = None
    read_only: bool = False
    # For people: `description` is for the model.
    user_description: str | None = None


class DeclaredTool(Tool, Protocol):
    """A tool that brings its own declaration."""

    @property
    def declaration(self) -> Declaration: ...


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    declaration: Declaration
    tool: Tool
    is_private: bool = False

    @property
    def read_only(self) -> bool:
        return self.declaration.read_only

    @property
    def parallel(self) -> bool:
        return self.declaration.runs_in_parallel

    @property
    def info(self) -> ToolInfo:
        declared = self.declaration
        return ToolInfo(
            name=declared.name,
            display_name=declared.display_name,
            description=declared.model_description,
            input_schema=declared.input_schema,
            tags=declared.tags,
            reference_name=declared.tool_reference_name,
            icon=declared.icon,
            read_only=declared.read_only,
            user_description=declared.user_description,
        )


class ToolRegistry:
    def __init__(self, context: ContextKeys | None = None) -> None:
        self.context = ContextKeys() if context is None else context
        self._declared: dict[str, tuple[Declaration, when.Expression | None]] = {}
        self._registered: dict[str, RegisteredTool] = {}
        self._deselected: set[str] = set()
        self._subscribers: dict[object, Callable[[], object]] = {}
        self._announced: tuple[ToolInfo, ...] = ()
        self.context.on_change(lambda _keys: self._notify())

    # --- Declaring and registering. ----------------------------------------------------------------------------------

    def declare(self, declaration: Declaration) -> None:
        if declaration.name in self._declared:
            raise RegistryError(f"The tool {declaration.name!r} is declared already; rename one of the two.")
        condition = None if declaration.when is None else when.parse(declaration.when)
        self._declared[declaration.name] = declaration, condition

    def register(self, name: str, tool: Tool, *, private: bool = False) -> Callable[[], None]:
        """Let `tool` do the work of `name`, until the returned function is called."""
        if name in self._registered:
            raise RegistryError(f"The tool {name!r} is registered already; unregister the other first.")
        if name in self._declared:
            declaration, _ = self._declared[name]
        elif private:
            declaration = Declaration(name=name, display_name=name, model_description="A private tool.")
        else:
            raise RegistryError(
                f"The tool {name!r} is not declared.{did_you_mean(name, self._declared)} "
                "Declare it first, or register it as private."
            )
        registered = RegisteredTool(declaration, tool, private)
        self._registered[name] = registered
        self._notify()

        def unregister() -> None:
            # Another owner may have registered the name since.
            if self._registered.get(name) is registered:
                del self._registered[name]
                self._notify()

        return unregister

    def add(self, tool: DeclaredTool, *, private: bool = False) -> Callable[[], None]:
        """Declare and register a tool that brings its declaration; the returned function takes both back."""
        name = tool.declaration.name
        self.declare(tool.declaration)
        try:
            unregister = self.register(name, tool, private=private)
        except RegistryError:
            del self._declared[name]
            raise

        def remove() -> None:
            unregister()
            if self._declared.get(name, (None,))[0] is tool.declaration:
                del self._declared[name]

        return remove

    # --- Looking. ----------------------------------------------------------------------------------------------------

    def available(self) -> tuple[ToolInfo, ...]:
        """The tools that could be offered: registered, not private, and `when` holds. In the order of registration."""
        return tuple(tool.info for tool in self._available())

    def tools(self) -> tuple[ToolInfo, ...]:
        """The tools that are offered: available and not deselected."""
        return tuple(info for info in self.available() if info.name not in self._deselected)

    def filter(
        self, *, tags: Collection[str] | None = None, names: Collection[str] | None = None
    ) -> tuple[ToolInfo, ...]:
        """The tools among `tools` that have one of the tags, and one of the names."""
        return tuple(
            info
            for info in self.tools()
            if (tags is None or not set(tags).isdisjoint(info.tags)) and (names is None or info.name in names)
        )

    def find(self, name: str) -> RegisteredTool:
        """The tool that an invocation of `name` reaches now, private or not; `RegistryError` says why there is none."""
        registered = self._registered.get(name)
        if registered is None:
            if name in self._declared:
                raise RegistryError(f"The tool {name!r} is private: it is declared, but not registered.")
            visible = [tool.declaration.name for tool in self._available()]
            raise RegistryError(f"There is no tool {name!r}.{did_you_mean(name, visible)}")
        if not self._holds(registered):
            raise RegistryError(
                f"The tool {name!r} is not available in this context (when: {registered.declaration.when})."
            )
        return registered

    def referenced(self, prompt: str) -> tuple[str, ...]:
        """The tools that a prompt names by `#reference`, deselected ones too, in the order of the prompt."""
        named = dict.fromkeys(_REFERENCE.findall(prompt))
        if not named:
            return ()
        return tuple(
            tool.declaration.name
            for reference in named
            for tool in self._available()
            if tool.declaration.can_be_referenced_in_prompt
            and tool.declaration.tool_reference_name == reference
        )

    def _available(self) -> Iterator[RegisteredTool]:
        return (tool for tool in self._registered.values() if not tool.is_private and self._holds(tool))

    def _holds(self, tool: RegisteredTool) -> bool:
        _, condition = self._declared.get(tool.declaration.name, (None, None))
        return condition is None or when.evaluate(condition, self.context)

    # --- Choosing. ---------------------------------------------------------------------------------------------------

    @property
    def selection(self) -> frozenset[str]:
        """The tools that are offered whenever their `when` holds."""
        return frozenset(
            name
            for name, tool in self._registered.items()
            if not tool.is_private and name not in self._deselected
        )

    def select(self, name: str) -> None:
        self._check_known(name)
        self._deselected.discard(name)
        self._notify()

    def deselect(self, name: str) -> None:
        """Stop offering a tool, unless a prompt names it."""
        self._check_known(name)
        self._deselected.add(name)
        self._notify()

    def _check_known(self, name: str) -> None:
        if name not in self._declared:
            raise RegistryError(f"There is no tool {name!r}.{did_you_mean(name, self._declared)}")

    # --- Subscribers. ------------------------------------------------------------------------------------------------

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` whenever `tools()` has changed, until the returned function is called."""
        subscription = object()
        self._subscribers[subscription] = callback

        def unsubscribe() -> None:
            self._subscribers.pop(subscription, None)

        return unsubscribe

    def _notify(self) -> None:
        visible = self.tools()
        if visible == self._announced:
            return
        self._announced = visible
        for callback in tuple(self._subscribers.values()):
            try:
                callback()
            except Exception:
                # One that fails must not stop the notification of the others.
                _log.exception("a subscriber to the list of tools failed")
