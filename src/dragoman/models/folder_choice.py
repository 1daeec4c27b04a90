"""The folder in which an agent works, chosen on the machine on which it runs: only that has the links of its paths.

A path is resolved once, and everything after that uses the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from dragoman.lm import LanguageModelError, Request
from dragoman.lm.request import FolderChoice

__all__ = ["folder_within", "with_chosen_folder"]


def folder_within(named: str, roots: Iterable[Iterable[Path]]) -> Path | None:
    """The folder at that path, resolved. None if it is no folder, or not within one of each of these roots, which are resolved."""
    try:
        folder = Path(named).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    is_within = all(any(folder.is_relative_to(root) for root in each) for each in roots)
    return folder if is_within and folder.is_dir() else None


def with_chosen_folder(request: Request, configured: Path | None) -> Request:
    """The request with the folder that its consumer may use here. Raises `LanguageModelError` if there is none.

    `configured` is the folder of the model's configuration. None: the model is no agent, and has no folder.
    """
    choices = request.consumer.folder_choices
    if configured is None or not choices:
        return request
    for choice in choices:
        own = _own(choice, configured)
        if own is not None:
            consumer = replace(request.consumer, workspace_folders=own, folder_choices=())
            return replace(request, consumer=consumer)
    # It does not say whether there is such a folder elsewhere.
    raise LanguageModelError(
        "bad_request",
        "The agent's folder must be one that exists on the agent's machine, within those that are open to this client.",
        hint="Name another folder, or open this one: `workspaces` in [serve], and that of the client's key.",
    )


def _own(choice: FolderChoice, configured: Path) -> tuple[str, ...] | None:
    """As `Consumer.workspace_folders` has it. None: it may not be used."""
    if not choice.folder and not choice.roots:
        return ()
    roots = ([Path(root).resolve() for root in each] for each in choice.roots)
    folder = folder_within(choice.folder or str(configured), roots)
    if folder is None:
        return None
    return (str(folder),) if choice.folder else ()
