"""The action that an agent requests, as one value with everything the agent sent.

The question's text, the approval key, the decision and the record are all made from an `Action`. It does no I/O and
refers to nothing outside itself, so two processes that hold equal actions make equal keys.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from dragoman.lm import JsonObject

__all__ = [
    "PERMISSION_TOOLS",
    "Action",
    "ActionContent",
    "ActionLocation",
    "DiffContent",
    "OtherContent",
    "RiskClass",
    "TextContent",
    "ToolClass",
    "is_permission_tool",
]

RiskClass: TypeAlias = Literal["read", "edit", "delete", "execute", "fetch", "other"]
# There is one permission tool per class, because an editor approves by tool.
ToolClass: TypeAlias = RiskClass | Literal["sensitive"]
_PREFIX = "dragoman-agent-action-"
_CLASSES: tuple[ToolClass, ...] = ("read", "edit", "delete", "execute", "fetch", "other", "sensitive")
PERMISSION_TOOLS: dict[ToolClass, str] = {each: f"{_PREFIX}{each}" for each in _CLASSES}


def is_permission_tool(name: str) -> bool:
    return name.startswith(_PREFIX)


class TextContent(msgspec.Struct, frozen=True, tag="text"):
    text: str


class DiffContent(msgspec.Struct, frozen=True, tag="diff"):
    """`old` is None where the file does not exist yet."""

    path: str
    old: str | None
    new: str


class OtherContent(msgspec.Struct, frozen=True, tag="other"):
    """A terminal, a picture, a resource, or a block of an unknown form: as the agent sent it."""

    value: object


ActionContent: TypeAlias = TextContent | DiffContent | OtherContent


class ActionLocation(msgspec.Struct, frozen=True):
    """A location that the agent named: a path as it was sent, and a line."""

    path: str
    line: int | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """A permission request of an agent. `describe` makes it; nothing changes it afterwards."""

    # The model's id in the configuration, and the name that people know it by.
    agent: str
    agent_name: str
    # What it would do, as far as its request shows, and what the agent calls that.
    risk: RiskClass
    kind: str
    title: str
    tool: str | None = None
    # The command as it will run: one line for each that the request holds, words quoted where they were separate.
    command: str | None = None
    # Variables that the command would run with.
    environment: object = None
    # Every path and address in the request, in its order.
    paths: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    content: tuple[ActionContent, ...] = ()
    locations: tuple[ActionLocation, ...] = ()
    input: object = None
    # Fields of the request that ACP does not define, or whose values have another form.
    extra: JsonObject = {}
    # Metadata of the tool call, but for a tool's name.
    meta: JsonObject = {}
    # The absolute path of the folder that it would run in.
    folder: str
    # Whether the folder and every path lie inside the workspace.
    is_inside: bool = False
    # Why it is sensitive, as part of a sentence; None: it is not.
    sensitive: str | None = None

    @property
    def tool_class(self) -> ToolClass:
        return self.risk if self.sensitive is None else "sensitive"

    @property
    def permission_tool(self) -> str:
        """The name of the permission tool that asks about it."""
        return PERMISSION_TOOLS[self.tool_class]

    @property
    def diffs(self) -> tuple[DiffContent, ...]:
        return tuple(block for block in self.content if isinstance(block, DiffContent))

    @property
    def has_substance(self) -> bool:
        """Whether the request says what would be done, and not only what it is called.

        A named file says all there is to say about reading it. About a change or a command it says too little.
        """
        return (
            _says_something(self.input)
            or _says_something(self.extra)
            or any(map(self._is_substance, self.content))
            or (self.risk == "read" and bool(self.paths))
        )

    def _is_substance(self, block: ActionContent) -> bool:
        if isinstance(block, TextContent):
            return block.text.strip() not in (self.title, self.tool, self.kind, "")
        if isinstance(block, DiffContent):
            return block.old != block.new
        # A terminal is where the output will stand. It does not say of what.
        is_terminal = isinstance(block.value, dict) and block.value.get("type") == "terminal"
        return not is_terminal and _says_something(block.value)


def _says_something(value: object) -> bool:
    """Whether anything stands in a JSON value: a text, a number or a truth value, at any depth."""
    level = [value]
    while level:
        match level.pop():
            case dict() as fields:
                level.extend(fields.values())
            case list() as items:
                level.extend(items)
            case str() as text:
                if text.strip():
                    return True
            case None:
                pass
            case _:
                return True
    return False
