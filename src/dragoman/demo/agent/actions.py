"""A tool call as the client sees it: its title, its kind, and what the user needs in order to decide.

Three things can be called. A command and a file are the agent's own doing, in the session's folder; everything else is a
tool of the consumer's, and is named by its server, so that the client recognises it as one of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman.acp.messages import Location, ToolActivity
from dragoman.demo.agent.tools import ConsumerTool, Toolbox
from dragoman.demo.agent.updates import DiffUpdate
from dragoman.lm import ToolCallPart
from dragoman.tools.builtin.approval_words import command_key
from dragoman.tools.builtin.files import MAX_FILE_BYTES, text_or_none
from dragoman.tools.builtin.workspace import Workspace, WorkspaceError, WorkspacePath
from dragoman.tools.schema import SchemaProblem, complete

__all__ = ["DemoAction", "describe"]

# A title stands on one line beside others.
_MAX_TITLE = 120


@dataclass(frozen=True, slots=True)
class DemoAction:
    activity: ToolActivity
    # What "allow always" would be for, as the tool itself has it; None: no permission is needed, because nothing can happen.
    key: str | None = None


def describe(call: ToolCallPart, toolbox: Toolbox) -> DemoAction:
    """Describe what `call` would do now."""
    consumer_tool = toolbox.consumer_tool(call.name)
    if consumer_tool is not None:
        return _consumers(call, consumer_tool)
    workspace = toolbox.workspace
    match call:
        case ToolCallPart(name="run_command", input={"command": str(command)}):
            activity = ToolActivity(
                call.call_id,
                title=_one_line(command),
                kind="execute",
                status="pending",
                raw_input={"command": command, "cwd": str(workspace[0])},
            )
            return DemoAction(activity, command_key(workspace[0], command))
        case ToolCallPart(name="write_file", input={"path": str(path), "content": str(content)}):
            return _writing(call, path, content, workspace)
        case _:
            return DemoAction(_plain(call))


def _consumers(call: ToolCallPart, tool: ConsumerTool) -> DemoAction:
    activity = ToolActivity(
        call.call_id,
        title=f"{tool.remote.name} ({tool.server.name})",
        kind="read" if tool.remote.is_read_only else "other",
        status="pending",
        raw_input={"server": tool.server.name, "tool": tool.remote.name, "arguments": call.input},
    )
    try:
        complete(tool.declaration.input_schema, call.input)
    except SchemaProblem:
        # The loop will say what is wrong.
        return DemoAction(activity)
    return DemoAction(activity, tool.approval_key)


def _writing(call: ToolCallPart, path: str, content: str, workspace: tuple[Path, ...]) -> DemoAction:
    try:
        place = Workspace.of(workspace).place(path)
        old = _text(place)
    except (OSError, WorkspaceError):
        # The tool will say what is wrong.
        return DemoAction(_plain(call))
    file = str(place.path)
    activity = ToolActivity(
        call.call_id,
        title=_one_line(f"Write {place.label}"),
        kind="edit",
        status="pending",
        content=(DiffUpdate(file, old, content),),
        locations=(Location(file),),
        raw_input={"path": file, "content": content},
    )
    return DemoAction(activity, file)


def _text(place: WorkspacePath) -> str | None:
    """The text of a file; None if there is none."""
    try:
        data = place.read(MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    text = text_or_none(data)
    return f"[{len(data):,} bytes that are no text]" if text is None else text


def _plain(call: ToolCallPart) -> ToolActivity:
    return ToolActivity(
        call.call_id, title=_one_line(call.name), kind="other", status="pending", raw_input=call.input
    )


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TITLE else f"{line[:_MAX_TITLE]}…"
