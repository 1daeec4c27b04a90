"""Services of a connected client that a back end may use: its files, its terminals, its view of edits.

A `Consumer` is a frozen value and comes with every request; a service is alive as long as its connection. So a front end
registers services under `Consumer.connection`, and a back end looks them up there when it needs one. Neither imports the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

__all__ = [
    "ClientFiles",
    "ClientRegistry",
    "ClientServiceError",
    "ClientServices",
    "ClientTerminals",
    "EditObserver",
    "TerminalView",
]


class ClientServiceError(Exception):
    """The client is gone, refuses, or does not answer in time. The message is a sentence."""


class ClientFiles(Protocol):
    """The client's documents. Paths are absolute, with links resolved. Methods raise `ClientServiceError`."""

    async def buffer(self, path: str) -> str | None:
        """The text of a document with unsaved changes; None if the disk has the text."""
        ...

    async def is_open(self, path: str) -> bool:
        """Whether the client has a document for the file, saved or not."""
        ...

    async def write(self, path: str, text: str, expected: str | None) -> str | None:
        """Change a document and save it, if its text is `expected` (None: there is no file).

        Returns the text after saving, which the client may have formatted; None if the document had another text.
        """
        ...


class TerminalView(Protocol):
    """A terminal of the client that shows one command. Calls never fail: a terminal that is gone shows nothing."""

    def show(self, output: str) -> None: ...

    async def drain(self) -> None:
        """Wait while the client is behind."""
        ...

    def ended(self, code: int | None, signal: str | None) -> None:
        """The command has ended. What it has printed stays until the user closes the terminal."""
        ...


class ClientTerminals(Protocol):
    def open(self, command: str, folder: str, on_stop: Callable[[], None]) -> TerminalView:
        """Open a terminal that shows the whole command first. `on_stop` is called when the user closes it or presses Ctrl-C in it, or the client is gone."""
        ...


class EditObserver(Protocol):
    """Learns what an agent changes, so that a person can review it and take it back. Paths are absolute."""

    def will_change(
        self,
        conversation: str,
        agent: str,
        paths: Iterable[str],
        diffs: Iterable[tuple[str, str | None, str]],
    ) -> None:
        """The agent may change these files now, by these diffs: path, old text, new text."""
        ...

    def changed(self, conversation: str, agent: str, path: str, before: str | None, after: str) -> None:
        """A file was written for the agent."""
        ...

    def turn_ended(self, conversation: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ClientServices:
    files: ClientFiles | None = None
    terminals: ClientTerminals | None = None
    edits: EditObserver | None = None


_NONE = ClientServices()


@dataclass(slots=True)
class ClientRegistry:
    """The services of connected clients, by `Consumer.connection`."""

    _by_connection: dict[str, ClientServices] = field(default_factory=dict)

    def register(self, connection: str, services: ClientServices) -> None:
        self._by_connection[connection] = services

    def of(self, connection: str) -> ClientServices:
        """The services of a client; none of them for a client that offers none, or is gone."""
        return self._by_connection.get(connection, _NONE)
