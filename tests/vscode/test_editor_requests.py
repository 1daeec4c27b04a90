"""Requests to an editor that is gone or does not answer: an error with a sentence, in a bounded time."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.frontends.vscode import editor_requests
from dragoman.frontends.vscode.editor_requests import EditorFiles
from dragoman.jsonrpc import Incoming, Notification, Peer
from dragoman.lm.client_services import ClientServiceError
from memory_peers import memory_pair


class _Silent:
    """An editor that never answers."""

    def __init__(self) -> None:
        self.asked: list[Incoming] = []
        self.has_asked = asyncio.Event()
        self.is_withdrawn = asyncio.Event()
        self.peer: Peer | None = None

    def connected(self, peer: Peer) -> None:
        self.peer = peer

    def request(self, incoming: Incoming) -> None:
        self.asked.append(incoming)
        self.has_asked.set()
        incoming.token.on_cancel(self.is_withdrawn.set)

    def notification(self, notification: Notification) -> None:
        raise AssertionError(notification)

    def closed(self, reason: str) -> None:
        return


async def test_an_editor_that_does_not_answer_is_given_up_and_the_request_withdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(editor_requests, "_WRITE_SECONDS", 0.01)
    editor = _Silent()
    ours, _ = memory_pair(_Silent(), editor)
    with pytest.raises(ClientServiceError, match="did not answer within"):
        await EditorFiles(ours).write("/a", "text", None)
    async with asyncio.timeout(10):
        await editor.is_withdrawn.wait()


async def test_an_editor_that_goes_away_is_an_error_at_once() -> None:
    editor = _Silent()
    ours, theirs = memory_pair(_Silent(), editor)
    reading = asyncio.ensure_future(EditorFiles(ours).buffer("/a"))
    await editor.has_asked.wait()
    theirs.close()
    async with asyncio.timeout(10):
        with pytest.raises(ClientServiceError, match="The editor is gone"):
            await reading
        with pytest.raises(ClientServiceError, match="The editor is gone"):
            await EditorFiles(ours).buffer("/a")
