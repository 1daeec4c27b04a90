"""Writing a file, over what the person saw in the diff and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from dragoman.lm import CancellationToken, gfm, until_cancelled
from dragoman.tools.builtin.difference import MAX_HIDDEN, difference
from dragoman.tools.builtin.files import FILES_WHEN, MAX_FILE_BYTES
from dragoman.tools.builtin.shown import Shown
from dragoman.tools.builtin.visible import visible
from dragoman.tools.builtin.workspace import MAX_PATH_LENGTH, Place, Workspace, WorkspaceError, explained
from dragoman.tools.definition import DefinedTool, tool
from dragoman.tools.tool import Confirmation, Invocation, PreparedInvocation, ToolResult

__all__ = ["MAX_CONTENT", "write_file"]

# More than any model writes at once.
MAX_CONTENT = 1_000_000

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file as it was when its diff was made: where it is, whatever links lead there, and what was in it."""

    place: Place
    # None: there was none.
    digest: str | None

    @classmethod
    def now(cls, place: Place) -> _Seen:
        return cls.with_content(place, _content(place))

    @classmethod
    def with_content(cls, place: Place, content: bytes | None) -> _Seen:
        return cls(place, None if content is None else hashlib.sha256(content).hexdigest())


def write_file() -> DefinedTool:
    shown: Shown[_Seen] = Shown()

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
                f"{path} was not written: nobody was shown what would change. Call again."
            )
        token.raise_if_cancelled()
        writing = asyncio.ensure_future(asyncio.to_thread(_write, path, content, invocation, seen))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            # A write that has begun cannot be called back. Nobody is told that it is over before it is.
            await asyncio.wait({writing})
            raise

    @write.prepare
    async def ask(
        path: str, content: str, *, invocation: Invocation, token: CancellationToken
    ) -> PreparedInvocation:
        def work() -> tuple[_Seen, PreparedInvocation]:
            if "\0" in content:
                # Programs stop reading there, or take the file for no text: nobody could be shown what it does.
                raise WorkspaceError("The content has a NUL character. Only text can be written.")
            place = Workspace.of(invocation.workspace).place(path)
            try:
                old = _content(place)
            except OSError as error:
                raise WorkspaceError(explained(error, place.label)) from error
            return _Seen.with_content(place, old), _question(place, old, content)

        seen, question = await until_cancelled(asyncio.to_thread(work), token)
        shown.note(invocation, seen)
        return question

    return write


def _content(place: Place) -> bytes | None:
    """What is there now; None if nothing is."""
    try:
        return place.read(MAX_FILE_BYTES)
    except FileNotFoundError:
        return None


# --- What a person is shown. -----------------------------------------------------------------------------------------


def _question(place: Place, old: bytes | None, content: str) -> PreparedInvocation:
    label = visible(place.label)
    change = difference(label, old, content)
    return PreparedInvocation(
        invocation_message=f"Writing {label}",
        confirmation=Confirmation(
            f"Make {label}?" if old is None else f"Change {label}?",
            "\n\n".join((gfm.code(label), *_surprises(place), change.message)),
        ),
        approval_key=str(place.path),
        covers=f"any change to {label}",
        always_ask=change.hidden > MAX_HIDDEN,
    )


def _surprises(place: Place) -> Iterator[str]:
    """What the person would not expect of a file that is written: a new one takes its place."""
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


def _write(path: str, content: str, invocation: Invocation, seen: _Seen) -> ToolResult:
    data = content.encode()
    try:
        place = Workspace.of(invocation.workspace).place(path)
        # Before anything is made for it, and once more when it is about to be replaced.
        written = _Seen.now(place) == seen and _put(place, data, seen)
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


def _put(place: Place, data: bytes, seen: _Seen) -> bool:
    parent = place.open_parent(missing_made=True)
    try:
        return _replace(parent, place, data, seen)
    finally:
        os.close(parent)


def _replace(parent: int, place: Place, data: bytes, seen: _Seen) -> bool:
    """Puts a complete new file in the place of the old one, if that is still as it was seen."""
    name = place.parts[-1]
    temporary = f".dragoman-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, _NEW_FILE, 0o666, dir_fd=parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            with contextlib.suppress(FileNotFoundError):
                mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
                os.fchmod(file.fileno(), stat.S_IMODE(mode) & 0o777)
            os.fsync(file.fileno())
        # As late as can be: between this look and the next line lie microseconds.
        if _Seen.now(place) != seen:
            return False
        os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)
    return True
