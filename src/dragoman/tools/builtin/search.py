"""Searching files, in a process of its own: a regular expression may take for ever, and a process can be ended."""

from __future__ import annotations

import json
from typing import Annotated

from msgspec import Meta

from dragoman.globs import MAX_GLOB_LENGTH
from dragoman.lm import CancellationToken, until_cancelled
from dragoman.lm.parts import ToolResult
from dragoman.tools.builtin import searcher
from dragoman.tools.builtin.child import run_module
from dragoman.tools.builtin.files import FILES_WHEN, permission_requested_secrets
from dragoman.tools.builtin.output import HeadAndTail
from dragoman.tools.builtin.workspace import MAX_PATH_LENGTH, Workspace, WorkspaceError
from dragoman.tools.definition import DefinedTool, tool
from dragoman.tools.tool import Invocation, PreparedInvocation
from dragoman.visible import visible_exactly

__all__ = ["OUTPUT_BYTES", "SEARCH_SECONDS", "search_files"]

# A large repository takes a second or two.
SEARCH_SECONDS = 20.0
# The searcher has its own limit, in characters of up to four bytes, which it reaches before this one.
OUTPUT_BYTES = 4 * searcher.MAX_OUTPUT
# The end of a traceback, where it says what went wrong.
_FAILURE = 1_000


def search_files() -> DefinedTool:
    @tool(
        name="search_files",
        description=(
            "Searches the text files of the workspace line by line, for a text or a regular expression (Python's), and"
            " returns the lines found as path:number: line."
        ),
        display_name="Search files",
        user_description="Search the files of the workspace",
        reference_name="searchFiles",
        icon="$(search)",
        when=FILES_WHEN,
        read_only=True,
    )
    async def search(
        query: Annotated[
            str, Meta(description="What to search for", min_length=1, max_length=searcher.MAX_PATTERN_LENGTH)
        ],
        is_regex: Annotated[bool, Meta(description="Whether the query is a regular expression")] = False,  # noqa: FBT002 - a property of the input
        ignore_case: bool = False,  # noqa: FBT001, FBT002 - a property of the input
        path: Annotated[
            str, Meta(description="File to search, or folder to begin in", max_length=MAX_PATH_LENGTH)
        ] = ".",
        glob: Annotated[
            str, Meta(description="Which files to search, relative to the path", max_length=MAX_GLOB_LENGTH)
        ] = "**",
        max_results: Annotated[int, Meta(ge=1, le=searcher.MAX_MATCHES)] = 100,
        *,
        invocation: Invocation,
        token: CancellationToken,
    ) -> ToolResult:
        try:
            folders = Workspace.of(invocation.workspace).folders
        except WorkspaceError as error:
            return ToolResult.error(str(error))
        order = {
            "folders": [str(folder) for folder in folders],
            "query": query,
            "is_regex": is_regex,
            "ignore_case": ignore_case,
            "path": path,
            "glob": glob,
            "max_results": max_results,
        }
        return await until_cancelled(_search(order), token)

    @search.prepare
    def ask(query: str, path: str, *, invocation: Invocation) -> PreparedInvocation:
        message = f"Searching {visible_exactly(path)} for {visible_exactly(query)}"
        return permission_requested_secrets(message, path, invocation)

    return search


async def _search(order: dict[str, object]) -> ToolResult:
    output = HeadAndTail(OUTPUT_BYTES)
    status = await run_module(
        searcher.__name__, json.dumps(order), seconds=SEARCH_SECONDS, receive=output.receive
    )
    said = output.text()
    match status:
        case None:
            return ToolResult.text(
                f"{said}[Stopped after {SEARCH_SECONDS:g} seconds; there may be more."
                " Name a folder as the path, narrow the glob, or use a simpler expression.]"
            )
        case 0:
            return ToolResult.text(said.rstrip("\n"))
        case searcher.UNUSABLE:
            return ToolResult.error(said.rstrip("\n"))
        case _:
            return ToolResult.error(f"The search failed. {said[-_FAILURE:]}")
