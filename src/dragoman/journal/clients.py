"""Through what a journal was used: the terminal, an editor, the HTTP server. Pure."""

from __future__ import annotations

from dragoman.journal.store import JournalInfo

__all__ = ["client_of", "front_end_of"]


def client_of(info: JournalInfo) -> str:
    """What used it: the terminal, or another client as the front end names it."""
    if info.kind == "chat" or info.parent is not None:
        return "terminal"
    # Without an API key there is nothing behind the colon.
    return info.connection.removesuffix(":")


def front_end_of(info: JournalInfo) -> str:
    """The front end that it was used through."""
    kind, _, _ = client_of(info).partition(":")
    return "vscode" if kind == "stdio" else kind
