"""Reads and lists files, without a question: nothing changes, and nothing leaves the workspace."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

from msgspec import Meta

from dragoman.globs import MAX_GLOB_LENGTH, Glob, GlobError
from dragoman.lm import CancellationToken, DataPart, TextPart, gfm, until_cancelled
from dragoman.lm.parts import ToolResult
from dragoman.permissions.layout import broken, shown_exactly
from dragoman.permissions.sensitive import Places
from dragoman.tools.builtin.tree import Walk
from dragoman.tools.builtin.workspace import (
    MAX_PATH_LENGTH,
    Workspace,
    WorkspaceError,
    WorkspacePath,
    explained,
    is_binary,
)
from dragoman.tools.definition import DefinedTool, tool
from dragoman.tools.tool import Confirmation, Invocation, PreparedInvocation
from dragoman.visible import visible_exactly

__all__ = [
    "FILES_WHEN",
    "MAX_FILE_BYTES",
    "MAX_IMAGE_BYTES",
    "MAX_LISTED",
    "MAX_READ_CHARACTERS",
    "MAX_READ_LINES",
    "image_type",
    "lines_of",
    "list_files",
    "permission_requested_secrets",
    "read_file",
    "text_of",
    "text_or_none",
]

FILES_WHEN = "workspaceFolderCount > 0"

# Source files are far smaller; what is larger is data, and searched rather than read.
MAX_FILE_BYTES = 10 * 1024 * 1024
# What model providers take of one picture.
MAX_IMAGE_BYTES = 5 * 1024 * 1024
# At one time: some thirty thousand tokens, which every model has room for.
MAX_READ_LINES = 2_000
MAX_READ_CHARACTERS = 100_000
MAX_LISTED = 2_000

_LINES = re.compile(r"[^\n]*\n|[^\n]+")

_IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)

_Path = Annotated[
    str,
    Meta(
        description="Path of the file, relative to the workspace folder or absolute inside it",
        max_length=MAX_PATH_LENGTH,
    ),
]
_LineNumber = Annotated[int, Meta(ge=1)]


def read_file() -> DefinedTool:
    @tool(
        name="read_file",
        description=(
            "Reads a text file of the workspace, or the lines from start_line to end_line of it (counted from 1, both"
            f" included). At most {MAX_READ_LINES:,} lines at once. Images are returned as images."
        ),
        display_name="Read file",
        user_description="Read a file of the workspace",
        reference_name="readFile",
        icon="$(file)",
        when=FILES_WHEN,
        read_only=True,
    )
    async def read(
        path: _Path,
        start_line: _LineNumber = 1,
        end_line: _LineNumber | None = None,
        *,
        invocation: Invocation,
        token: CancellationToken,
    ) -> ToolResult:
        def work() -> ToolResult:
            try:
                place = Workspace.of(invocation.workspace).place(path)
                return _content(place, place.read(MAX_FILE_BYTES), start_line, end_line)
            except OSError as error:
                return ToolResult.error(explained(error, path))
            except WorkspaceError as error:
                return ToolResult.error(str(error))

        return await until_cancelled(asyncio.to_thread(work), token)

    @read.prepare
    def ask(path: str, *, invocation: Invocation) -> PreparedInvocation:
        return permission_requested_secrets(f"Reading {visible_exactly(path)}", path, invocation)

    return read


def permission_requested_secrets(message: str, path: str, invocation: Invocation) -> PreparedInvocation:
    """Prepare a call that reads `path`. Only files that may hold secrets need an approval, every time."""
    places = Places.around(invocation.workspace, invocation.own)
    folder = str(invocation.workspace[0]) if invocation.workspace else "/"
    why = places.why_reading(places.absolute(path, folder))
    if why is None:
        return PreparedInvocation(invocation_message=message, risk="read")
    shown = broken(shown_exactly(why))
    return PreparedInvocation(
        invocation_message=message,
        confirmation=Confirmation(
            f"{message}?", f"{gfm.fence(shown, 'text')}\n\nSuch files are asked about every time."
        ),
        risk="read",
        sensitive=why,
    )


def list_files() -> DefinedTool:
    @tool(
        name="list_files",
        description=(
            "Lists files and folders of the workspace; folders end in '/'. The glob is relative to the path: '*' lists"
            " one folder, '**' everything below it, '**/*.py' the Python files at any depth."
        ),
        display_name="List files",
        user_description="List files of the workspace",
        reference_name="listFiles",
        icon="$(list-tree)",
        when=FILES_WHEN,
        read_only=True,
    )
    async def list_(
        path: Annotated[str, Meta(description="Folder to begin in", max_length=MAX_PATH_LENGTH)] = ".",
        glob: Annotated[str, Meta(description="Which entries to list", max_length=MAX_GLOB_LENGTH)] = "*",
        max_results: Annotated[int, Meta(ge=1, le=MAX_LISTED)] = 500,
        *,
        invocation: Invocation,
        token: CancellationToken,
    ) -> ToolResult:
        def work() -> ToolResult:
            try:
                place = Workspace.of(invocation.workspace).place(path)
                return _listing(Walk(place, Glob(glob)), max_results, token)
            except OSError as error:
                return ToolResult.error(explained(error, path))
            except (GlobError, WorkspaceError) as error:
                return ToolResult.error(str(error))

        return await until_cancelled(asyncio.to_thread(work), token)

    @list_.prepare
    def ask(path: str, glob: str) -> PreparedInvocation:
        return PreparedInvocation(
            invocation_message=f"Listing {visible_exactly(glob)} in {visible_exactly(path)}", risk="read"
        )

    return list_


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends: a line ends at a line feed, and nowhere else."""
    return _LINES.findall(text)


def text_or_none(data: bytes) -> str | None:
    """The text of a file; None if it is not text in UTF-8."""
    if is_binary(data):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def text_of(place: WorkspacePath, data: bytes) -> str:
    text = text_or_none(data)
    if text is None:
        raise WorkspaceError(
            f"{place.label} is not text in UTF-8, but {len(data):,} bytes of something else."
        )
    # A byte order mark is no part of the text.
    return text.removeprefix("\ufeff")


def image_type(data: bytes) -> str | None:
    """The type of a picture that models can look at, known by its first bytes."""
    return next((mime_type for signature, mime_type in _IMAGES if signature.match(data)), None)


def _content(place: WorkspacePath, data: bytes, start_line: int, end_line: int | None) -> ToolResult:
    mime_type = image_type(data)
    if mime_type is None:
        return _text_content(place, text_of(place, data), start_line, end_line)
    if len(data) > MAX_IMAGE_BYTES:
        raise WorkspaceError(
            f"{place.label} is a picture of {len(data):,} bytes; at most {MAX_IMAGE_BYTES:,} are taken."
        )
    line = TextPart(f"{place.label}: {mime_type}, {len(data):,} bytes.")
    return ToolResult((line, DataPart.image(data, mime_type)))


def _text_content(place: WorkspacePath, text: str, start_line: int, end_line: int | None) -> ToolResult:
    lines = lines_of(text)
    if not lines:
        return ToolResult.text(f"[{place.label} is empty.]")
    if start_line > len(lines):
        return ToolResult.error(
            f"{place.label} has {len(lines):,} lines, so there is no line {start_line:,}."
        )
    if end_line is not None and end_line < start_line:
        return ToolResult.error(f"The last line, {end_line:,}, is before the first, {start_line:,}.")
    wanted = lines[start_line - 1 : end_line]
    taken: list[str] = []
    room = MAX_READ_CHARACTERS
    for line in wanted[:MAX_READ_LINES]:
        if len(line) > room:
            break
        taken.append(line)
        room -= len(line)
    if len(taken) == len(wanted):
        return ToolResult.text("".join(taken))
    if not taken:
        return ToolResult.text(
            f"{wanted[0][:MAX_READ_CHARACTERS]}\n\n[Line {start_line:,} is cut: it has {len(wanted[0]):,} characters, and"
            f" {MAX_READ_CHARACTERS:,} are read at once. Use search_files to find something in it.]"
        )
    last = start_line + len(taken) - 1
    return ToolResult.text(
        f"{''.join(taken)}\n[Lines {start_line:,} to {last:,} of {len(lines):,}. Go on with start_line {last + 1}.]"
    )


def _listing(walk: Walk, limit: int, token: CancellationToken) -> ToolResult:
    lines: list[str] = []
    notices: list[str] = []
    for entry in walk:
        token.raise_if_cancelled()
        if len(lines) == limit:
            notices.append(
                f"There are more than {limit:,}: narrow the glob, or ask for up to {MAX_LISTED:,}."
            )
            break
        lines.append(entry.label)
    notices.extend(walk.notices())
    if not lines:
        lines.append("Nothing matches.")
    return ToolResult.text("\n".join([*lines, *(f"[{notice}]" for notice in notices)]))
