"""Checks of what comes in lines and messages: from an agent, from an editor, from an agent's client of our tools."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.acp.messages import (
    PermissionRequest,
    ReadTextFile,
    ToolActivity,
    decode_file_request,
    decode_permission,
    decode_update,
)
from dragoman.backends.agent.reply.narrator import Narrator
from dragoman.backends.agent.session.actions import action_of, choose, permission_call
from dragoman.backends.agent.session.approved_edits import Change, FileRefused, read_text
from dragoman.backends.agent.toolserver.session import McpSession, Refuse, Respond
from dragoman.backends.agent.toolserver.wire import read_message
from dragoman.diffs import changed_lines, shortened
from dragoman.frontends.vscode.protocol import decode_chat_request
from dragoman.frontends.vscode.server import VsCodeServer
from dragoman.jsonrpc import INTERNAL_ERROR, Peer, PeerOptions
from dragoman.jsonrpc.framing import Line, LineSplitter, Oversized
from dragoman.jsonrpc.messages import (
    ErrorResponse,
    Malformed,
    Notification,
    RpcRequest,
    RpcResponse,
    encode_error,
    encode_notification,
    encode_request,
    encode_response,
    parse,
)
from dragoman.jsonrpc.stream import Stream
from dragoman.lm import LanguageModelError, Part, Request as LmRequest, StreamWatch, TextPart
from dragoman.lm.activity_text import Activities
from dragoman.lm.json import encode
from dragoman.permissions.action import Action
from dragoman.permissions.keys import approval_key
from dragoman.permissions.question import question_about
from dragoman.permissions.sensitive import Places
from dragoman.visible import visible_exactly
from fuzz.check import Check, json_of, pieces
from http_server.kit import Held, scripted
from memory_peers import MemoryTransport

__all__ = [
    "acp_messages",
    "editor_lines",
    "editor_requests",
    "file_requests",
    "jsonrpc_lines",
    "mcp_lines",
    "shown_changes",
]

_SMALL_LIMIT = 2_000
_DEADLINE = 10.0
_WORKSPACE = "/workspace"
# As `dragoman vscode` has it.
_EDITOR = PeerOptions(
    name="editor", answers_malformed=True, cancel_methods=("$/cancel_request", "lm/cancel"), max_message=2**20
)


# --- Lines of JSON-RPC. ----------------------------------------------------------------------------------------------


def jsonrpc_lines(data: bytes) -> None:
    """Cut anywhere, the same lines; and what was read can be written, on one line, and read again as the same."""
    lines = _split([data])
    assert lines == _split(pieces(data))
    for line in lines:
        if isinstance(line, Oversized):
            continue
        match message := parse(line):
            case RpcRequest(id=id_, method=method, params=params):
                again = _written(encode_request(id_, method, msgspec.Raw(params)))
                assert isinstance(again, RpcRequest)
                assert (again.id, again.method) == (id_, method)
                assert json_of(again.params) == json_of(params)
            case Notification(method=method, params=params):
                again = _written(encode_notification(method, msgspec.Raw(params)))
                assert isinstance(again, Notification)
                assert again.method == method
                assert json_of(again.params) == json_of(params)
            case RpcResponse(id=id_, result=result):
                again = _written(encode_response(id_, msgspec.Raw(result)))
                assert isinstance(again, RpcResponse)
                assert again.id == id_
                assert json_of(again.result) == json_of(result)
            case ErrorResponse(id=id_, error=error):
                again = _written(encode_error(id_, error))
                assert isinstance(again, ErrorResponse)
                assert (again.id, again.error.code, again.error.message) == (id_, error.code, error.message)
            case Malformed(reason=reason):
                assert len(reason) < _SMALL_LIMIT, message


def _split(cut: Iterable[bytes]) -> list[Line]:
    splitter = LineSplitter(limit=_SMALL_LIMIT)
    lines = [line for piece in cut for line in splitter.feed(piece)]
    return lines + splitter.end()


def _written(line: bytes) -> object:
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    return parse(line[:-1])


def mcp_lines(data: bytes) -> None:
    """An agent's talk with the tool server, from its first line on."""
    session = McpSession("dragoman")
    for line in data.split(b"\n"):
        message = read_message(line)
        if isinstance(message, Notification):
            session.notification(message)
        if not isinstance(message, RpcRequest):
            continue
        era = session.era
        action = session.request(message)
        assert era in (None, session.era)
        if isinstance(action, Refuse):
            assert isinstance(parse(session.error(message.id, action)), ErrorResponse)
        elif isinstance(action, Respond):
            answer = parse(session.response(message.id, action.result))
            assert isinstance(answer, RpcResponse)
            assert answer.id == message.id


# --- What an agent says. ---------------------------------------------------------------------------------------------

# A title, four thousand characters of a command, two hundred lines of each diff, and what is escaped twice over.
_LONGEST_QUESTION = 500_000


def acp_messages(data: bytes) -> None:
    narrator = Narrator(lambda _activity: False)
    for params in data.split(b"\n"):
        _told(narrator, params)
        _asked(params)
    narrator.end_turn()


def _told(narrator: Narrator, params: bytes) -> None:
    try:
        update = decode_update(params).update
    except msgspec.ValidationError:
        return
    told: list[Part] = []
    watch = StreamWatch(LmRequest(()))
    for part in narrator.parts(update):
        assert encode(part)
        assert watch.violation(part) is None
        told += Activities().present(part, structured=False)
    # Every character may become a code point by its number, and every line be a block of its own.
    assert sum(len(part.value) for part in told if isinstance(part, TextPart)) <= 20 * len(params) + 1_000
    if isinstance(update, ToolActivity):
        _is_shown(action_of(update, "a", "Agent", Places((_WORKSPACE,))))


def _asked(params: bytes) -> None:
    try:
        request = decode_permission(params)
    except msgspec.ValidationError:
        return
    _is_permission_requested(request)


def _is_permission_requested(request: PermissionRequest) -> None:
    action = action_of(request.tool_call, "a", "Agent", Places((_WORKSPACE,)), request)
    if action.command is not None:
        assert action.risk == "execute"
    if action.risk == "read":
        assert all(path.startswith(_WORKSPACE) for path in action.paths)
    _is_shown(action)
    encode(permission_call(action, "dg_x", "nonce"))
    for granted in (True, False):
        chosen = choose(request, granted=granted).option
        kinds = {option.kind for option in request.options if option.option_id == chosen}
        assert chosen is None or kinds & ({"allow_once", "reject_once"} if granted else {"reject_once"})


def _is_shown(action: Action) -> None:
    """A person can read all of the question, and nothing in it leaves no mark."""
    question = question_about(action)
    assert len(question.message) < _LONGEST_QUESTION
    for text in (question.title, question.message, question.whole, question.plain):
        assert visible_exactly(text) == text
    assert approval_key(action) == approval_key(msgspec.json.decode(msgspec.json.encode(action), type=Action))


def shown_changes(data: bytes) -> None:
    """A change as it is shown: what is there, an empty line, what is to be. All that differs is in it."""
    old, _, new = data.decode("utf-8", "replace").partition("\n\n")
    limit = data[0] if data else 1
    lines = shortened(changed_lines(old, new), limit).split("\n")
    assert len(lines) <= limit + 1
    assert max(map(len, lines)) < 500
    everything = shortened(changed_lines(old, new), 1_000_000).split("\n")
    assert (everything == [""]) == (old == new), everything
    if max(map(len, (old + new).split("\n"))) < 300:
        added = [line[1:] for line in everything if line.startswith("+")]
        removed = [line[1:] for line in everything if line.startswith("-")]
        ends = all(not text or text.endswith("\n") for text in (old, new))
        before, after = (text.count("\n") + bool(text) * (not ends) for text in (old, new))
        assert len(added) - len(removed) == after - before


@contextmanager
def file_requests() -> Iterator[Check]:
    """Whatever path an agent names, it reads and changes nothing but files of the workspace. `WS` stands for that."""
    with tempfile.TemporaryDirectory(prefix="dragoman-fuzz-") as folder:
        outside = Path(folder).resolve() / "outside"
        workspace = Path(folder).resolve() / "workspace"
        for each in (outside, workspace / "deep"):
            each.mkdir(parents=True)
        (outside / "key").write_text("SECRET")
        (workspace / "a.txt").write_text("one\ntwo\n")
        (workspace / "out").symlink_to(outside)
        (workspace / "deep" / "key").symlink_to("../../outside/key")
        (workspace / "self").symlink_to("self")

        def check(data: bytes) -> None:
            params = data.replace(b"WS", str(workspace).encode())
            for method in ("fs/read_text_file", "fs/write_text_file"):
                try:
                    request = decode_file_request(method, params)
                    assert request is not None
                    if isinstance(request, ReadTextFile):
                        assert "SECRET" not in read_text((str(workspace),), request.path)[1]
                    else:
                        change = Change.of((str(workspace),), request)
                        assert Path(change.path).is_relative_to(workspace)
                        assert change.old != "SECRET"
                        _is_shown(action_of(change.activity, "a", "Agent", Places((str(workspace),))))
                except (msgspec.ValidationError, FileRefused) as refused:
                    str(refused)

        yield check


# --- What an editor says. --------------------------------------------------------------------------------------------


def editor_requests(data: bytes) -> None:
    try:
        request = decode_chat_request(data)
    except (msgspec.DecodeError, LanguageModelError, UnicodeError, RecursionError):
        # Its server has an answer to each. The last two cannot come: a line was read before its parameters are.
        return
    encode(request.messages)


@contextmanager
def editor_lines() -> Iterator[Check]:
    """The whole talk with an editor: each request is answered once, by rule, and the next one is too."""
    with asyncio.Runner() as runner:
        yield lambda data: runner.run(_talked(data))


_PROBE = b'\n{"jsonrpc":"2.0","id":"probe","method":"no/such"}\n'


async def _talked(data: bytes) -> None:
    server = VsCodeServer(Held(m=scripted("Yes.")))
    peer = Peer(server, _EDITOR)
    answers: list[dict[str, Any]] = []
    more = asyncio.Event()

    def heard(line: Line) -> None:
        assert isinstance(line, bytes)
        message = json.loads(line)
        if "method" not in message:
            answers.append(message)
            more.set()

    editor = Stream(
        on_open=lambda: None, on_line=heard, on_end=lambda _reason: None, max_message=2**24, max_unsent=2**24
    )
    for stream, transport in zip(
        (peer.stream, editor), MemoryTransport.pair(peer.stream, editor), strict=True
    ):
        stream.connection_made(transport)
    messages = [parse(line) for line in data.split(b"\n")]
    # What is wrong with a line is told under its id as well.
    used = [message.request_id for message in messages if isinstance(message, Malformed)]
    used += [message.id for message in messages if isinstance(message, RpcRequest)]
    asked = {message.id for message in messages if isinstance(message, RpcRequest)}
    expected = {id_ for id_ in asked if id_ is not None and used.count(id_) == 1} - {"probe"}
    editor.write(data + _PROBE)
    try:
        async with asyncio.timeout(_DEADLINE):
            while not expected | {"probe"} <= {answer["id"] for answer in answers}:
                more.clear()
                await more.wait()
    finally:
        await server.close()
        peer.close()
        editor.close("the editor has gone")
    for id_ in expected:
        [answer] = [answer for answer in answers if answer["id"] == id_ and type(answer["id"]) is type(id_)]
        assert answer.get("error", {}).get("code") != INTERNAL_ERROR, answer
