"""Writing a file, over what the person saw in the diff and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from dragoman.lm import CancellationToken, gfm, until_cancelled
from dragoman.tools.builtin.files import FILES_WHEN, MAX_FILE_BYTES, lines_of, text_or_none
from dragoman.tools.builtin.shown import Shown
from dragoman.tools.builtin.visible import visible
from dragoman.tools.builtin.workspace import MAX_PATH_LENGTH, Place, Workspace, WorkspaceError, explained
from dragoman.tools.definition import DefinedTool, tool
from dragoman.tools.tool import Confirmation, Invocation, PreparedInvocation, ToolResult

__all__ = ["MAX_CONTENT", "MAX_DIFFED_LINES", "MAX_DIFF_CHARACTERS", "write_file"]

# More than any model writes at once.
MAX_CONTENT = 1_000_000
# Comparing takes time that grows with the square of this, in the worst case.
MAX_DIFFED_LINES = 5_000
# More than anybody reads; what is not shown is said.
MAX_DIFF_CHARACTERS = 30_000

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
            place = Workspace.of(invocation.workspace).place(path)
            try:
                old = _content(place)
            except OSError as error:
                raise WorkspaceError(explained(error, place.label)) from error
            return _Seen.with_content(place, old), _question(place, old, content.encode())

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


def _question(place: Place, old: bytes | None, new: bytes) -> PreparedInvocation:
    label = visible(place.label)
    return PreparedInvocation(
        invocation_message=f"Writing {label}",
        confirmation=Confirmation(
            f"Make {label}?" if old is None else f"Change {label}?",
            f"{gfm.code(label)}\n\n{_difference(place, old, new)}",
        ),
        approval_key=str(place.path),
    )


def _difference(place: Place, old: bytes | None, new: bytes) -> str:
    if old == new:
        return "Its content stays the same."
    before, after = _lines(old or b""), _lines(new)
    if before is None or after is None:
        return f"{len(old or b''):,} bytes, not all of them text, are replaced by {len(new):,}."
    if max(len(before), len(after)) > MAX_DIFFED_LINES:
        return (
            f"{len(before):,} lines are replaced by {len(after):,}, too many to compare. They begin:\n\n"
            + _fenced("".join(after), "")
        )
    label = visible(place.label)
    lines = difflib.unified_diff(before, after, "/dev/null" if old is None else f"a/{label}", f"b/{label}")
    return _fenced("".join(map(_ended, lines)), "diff")


def _lines(data: bytes) -> list[str] | None:
    text = text_or_none(data)
    return None if text is None else lines_of(text)


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _fenced(text: str, language: str) -> str:
    shown = visible(text[:MAX_DIFF_CHARACTERS])
    hidden = text.count("\n", MAX_DIFF_CHARACTERS)
    cut = f"\n\nThe last {hidden:,} lines of it are not shown." if len(text) > MAX_DIFF_CHARACTERS else ""
    return gfm.fence(shown, language) + cut


# --- Writing. --------------------------------------------------------------------------------------------------------


def _write(path: str, content: str, invocation: Invocation, seen: _Seen) -> ToolResult:
    data = content.encode()
    try:
        place = Workspace.of(invocation.workspace).place(path)
        parent = place.open_parent(missing_made=True)
        try:
            written = _replace(parent, place, data, seen)
        finally:
            os.close(parent)
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
