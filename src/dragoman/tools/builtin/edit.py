"""Writes a file, only if it is still as the user saw it in the diff."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from dragoman.lm import CancellationToken, gfm, until_cancelled
from dragoman.lm.parts import ToolResult
from dragoman.permissions.layout import on_one_line
from dragoman.permissions.sensitive import Places
from dragoman.tools.builtin.approval_words import any_change_to
from dragoman.tools.builtin.difference import MAX_HIDDEN, difference
from dragoman.tools.builtin.files import FILES_WHEN
from dragoman.tools.builtin.replacing import FileSeen, content_of, put
from dragoman.tools.builtin.shown import Shown
from dragoman.tools.builtin.workspace import (
    MAX_PATH_LENGTH,
    Workspace,
    WorkspaceError,
    WorkspacePath,
    explained,
)
from dragoman.tools.definition import DefinedTool, tool
from dragoman.tools.tool import Confirmation, Invocation, PreparedInvocation
from dragoman.visible import visible_exactly

__all__ = ["MAX_CONTENT", "write_file"]

# More than any model writes at once.
MAX_CONTENT = 1_000_000


def write_file() -> DefinedTool:
    shown: Shown[FileSeen] = Shown()

    @tool(
        name="write_file",
        description=(
            "Writes a text file of the workspace: makes it, with the folders it is in, or replaces all of its content."
        ),
        display_name="Write file",
        user_description="Make or replace a file of the workspace",
        reference_name="writeFile",
        icon="$(edit)",
        when=FILES_WHEN,
    )
    async def write(
        path: Annotated[
            str,
            Meta(
                description="Path of the file, relative to the workspace folder or absolute inside it",
                max_length=MAX_PATH_LENGTH,
            ),
        ],
        content: Annotated[str, Meta(description="The whole content of the file", max_length=MAX_CONTENT)],
        *,
        invocation: Invocation,
        token: CancellationToken,
    ) -> ToolResult:
        seen = shown.take(invocation)
        if seen is None:
            return ToolResult.error(
                f"{path} was not written: the user was not shown what would change. Call again."
            )
        token.raise_if_cancelled()
        writing = asyncio.ensure_future(asyncio.to_thread(_write, path, content, invocation, seen))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            # A write that has begun cannot be undone. The call does not end before the write does.
            await asyncio.wait({writing})
            raise

    @write.prepare
    async def ask(
        path: str, content: str, *, invocation: Invocation, token: CancellationToken
    ) -> PreparedInvocation:
        def work() -> tuple[FileSeen, PreparedInvocation]:
            if "\0" in content:
                # Programs stop reading there, or take the file for no text: the change could not be shown.
                raise WorkspaceError("The content has a NUL character. Only text can be written.")
            place = Workspace.of(invocation.workspace).place(path)
            try:
                old = content_of(place)
            except OSError as error:
                raise WorkspaceError(explained(error, place.label)) from error
            return FileSeen.with_content(place, old), _question(place, old, content, invocation.own)

        seen, question = await until_cancelled(asyncio.to_thread(work), token)
        shown.note(invocation, seen)
        return question

    return write


# --- What a person is shown. -----------------------------------------------------------------------------------------


def _question(
    place: WorkspacePath, old: bytes | None, content: str, own: tuple[str, ...]
) -> PreparedInvocation:
    label = visible_exactly(place.label)
    change = difference(label, old, content)
    why = Places.around([place.folder], own).why_changing(str(place.path))
    sensitive = (
        () if why is None else (f"Sensitive, so asked about every time: {gfm.code(on_one_line(why))}.",)
    )
    return PreparedInvocation(
        invocation_message=f"Writing {label}",
        confirmation=Confirmation(
            f"Make {label}?" if old is None else f"Change {label}?",
            "\n\n".join((gfm.code(label), *sensitive, *_surprises(place), change.message)),
        ),
        approval_key=str(place.path),
        covers=any_change_to(label),
        always_ask=change.hidden > MAX_HIDDEN,
        risk="edit",
        sensitive=why,
        # To empty a file is to delete what is in it.
        change=change.diff if content or not old else "",
    )


def _surprises(place: WorkspacePath) -> Iterator[str]:
    """Side effects of replacing the file that the user should know."""
    try:
        with place.open_file() as file:
            found = os.fstat(file.fileno())
    except FileNotFoundError:
        return
    if not found.st_mode & stat.S_IWUSR:
        yield f"It is write-protected (mode {stat.S_IMODE(found.st_mode):o}), and would be replaced all the same."
    if found.st_nlink > 1:
        yield f"It has {found.st_nlink} names (hard links); the others would keep the old content."


# --- Writing. --------------------------------------------------------------------------------------------------------


def _write(path: str, content: str, invocation: Invocation, seen: FileSeen) -> ToolResult:
    data = content.encode()
    try:
        place = Workspace.of(invocation.workspace).place(path)
        written = put(place, data, seen)
    except OSError as error:
        return ToolResult.error(f"Not written. {explained(error, path)}")
    except WorkspaceError as error:
        return ToolResult.error(f"Not written. {error}")
    if not written:
        return ToolResult.error(
            f"{place.label} was not written: it is not what it was when the change was shown. Read it again first."
        )
    return ToolResult.text(
        f"{'Made' if seen.digest is None else 'Wrote'} {place.label}, {len(data):,} bytes."
    )
