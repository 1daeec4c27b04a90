"""Everything here that reads what others wrote, each as a check of bytes.

A check raises when a reader does what it never should: fail in a way that nobody expects, read the same bytes in two ways,
or give out more than was put in. What a reader refuses in its own words is fine. The checks know nothing of who chooses the
bytes: Hypothesis does in the tests, and a fuzzer that watches the coverage in `make fuzz`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TypeAlias
from unicodedata import category

import msgspec

from dragoman.backends.agent.acp.messages import (
    PermissionRequest,
    ToolActivity,
    decode_file_request,
    decode_permission,
    decode_update,
)
from dragoman.backends.agent.narrator import Narrator
from dragoman.backends.agent.permission import choose, classify, describe, permission_call
from dragoman.backends.agent.saving import SavedError, load_conversation, save_conversation
from dragoman.backends.agent.tokens import CallName, MarkerName, Tokens
from dragoman.backends.agent.toolserver.session import Refuse, Respond, Session
from dragoman.backends.agent.toolserver.wire import read_messages
from dragoman.backends.responses.events import Answer
from dragoman.backends.responses.retries import retry_after_seconds
from dragoman.backends.responses.sse import Event, EventTooLarge, SseReader
from dragoman.backends.scripted.load import ScriptError, parse_script
from dragoman.config import ConfigError, load, narrowed
from dragoman.frontends.vscode.protocol import decode_chat_request
from dragoman.jsonrpc.framing import Line, LineSplitter, Oversized
from dragoman.jsonrpc.messages import (
    ErrorResponse,
    Notification,
    Request,
    Response,
    encode_notification,
    encode_request,
    encode_response,
    parse,
)
from dragoman.jsonrpc.text import Decoder
from dragoman.lm import DataPart, LanguageModelError, ToolCallPart
from dragoman.lm.json import decode, encode
from dragoman.lm.links import InertLinks
from dragoman.lm.parts import STATEFUL_MARKER
from dragoman.store import ApprovalStore, ConversationStore, Database, ResponseStore, StoreError
from dragoman.tools.declaration import DeclarationError, declarations_from
from dragoman.tools.urls import Url, UrlError, UrlPattern, UrlPatternError
from dragoman.tools.when import WhenError, evaluate, parse as parse_when
from dragoman.traces.frames import TraceError, encode_frame, parse_trace
from dragoman.visible import VisibleText, hides
from fuzz.servers import serving, tool_serving

__all__ = ["TARGETS", "Check", "Target"]

Check: TypeAlias = Callable[[bytes], None]
# What a check needs is there while it is open.
Target: TypeAlias = Callable[[], AbstractContextManager[Check]]

_SMALL_LIMIT = 200
_KEY = bytes(range(32))


def _pieces(data: bytes) -> Iterator[bytes]:
    """The same bytes, cut in places that depend on nothing but them."""
    start, size = 0, 1
    while start < len(data):
        yield data[start : start + size]
        start, size = start + size, 1 + data[start] % 7


# --- Lines of JSON-RPC: an agent, an editor, a relay. ----------------------------------------------------------------


def jsonrpc_lines(data: bytes) -> None:
    lines = _split([data])
    assert lines == _split(_pieces(data))
    for line in lines:
        if isinstance(line, Oversized):
            continue
        match message := parse(line):
            case Request():
                again = parse(encode_request(message.id, message.method, msgspec.Raw(message.params)))
                assert isinstance(again, Request)
                assert (again.id, again.method) == (message.id, message.method)
            case Notification():
                again = parse(encode_notification(message.method, msgspec.Raw(message.params)))
                assert isinstance(again, Notification)
                assert again.method == message.method
            case Response():
                again = parse(encode_response(message.id, msgspec.Raw(message.result)))
                assert isinstance(again, Response)
                assert again.id == message.id


def _split(pieces: list[bytes] | Iterator[bytes]) -> list[Line]:
    splitter = LineSplitter(limit=_SMALL_LIMIT * 10)
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    return lines + splitter.end()


def mcp_lines(data: bytes) -> None:
    """An agent's talk with the tool server, from its first line on."""
    session = Session("dragoman")
    for line in data.split(b"\n"):
        read = read_messages(line, takes_batches=session.takes_batches)
        for message in read if isinstance(read, list) else [read]:
            if isinstance(message, Notification):
                session.notification(message)
            if not isinstance(message, Request):
                continue
            era = session.era
            action = session.request(message)
            assert era in (None, session.era)
            if isinstance(action, Refuse):
                assert isinstance(parse(session.error(message.id, action)), ErrorResponse)
            elif isinstance(action, Respond):
                answer = parse(session.response(message.id, action.result))
                assert isinstance(answer, Response)
                assert answer.id == message.id


# --- What an agent says. ---------------------------------------------------------------------------------------------


def acp_messages(data: bytes) -> None:
    narrator = Narrator(lambda _activity: False)
    for params in data.split(b"\n"):
        _told(narrator, params)
        _asked(params)
        for method in ("fs/read_text_file", "fs/write_text_file"):
            try:
                decode_file_request(method, params)
            except msgspec.ValidationError:
                continue
    narrator.end_turn()


def _told(narrator: Narrator, params: bytes) -> None:
    try:
        update = decode_update(params).update
    except msgspec.ValidationError:
        return
    for part in narrator.parts(update):
        encode(part)
    if isinstance(update, ToolActivity):
        describe(classify(update, ("/workspace",)))


def _asked(params: bytes) -> None:
    try:
        request = decode_permission(params)
    except msgspec.ValidationError:
        return
    _is_asked_about(request)


def _is_asked_about(request: PermissionRequest) -> None:
    action = classify(request.tool_call, ("/workspace",))
    if action.command is not None:
        assert action.risk == "execute"
    if action.risk == "read":
        assert all(path.startswith("/workspace") for path in action.paths)
    encode(permission_call(action, "dg_x", "nonce"))
    for granted in (True, False):
        chosen = choose(request, granted=granted).option
        kinds = {option.kind for option in request.options if option.option_id == chosen}
        assert chosen is None or kinds & ({"allow_once", "reject_once"} if granted else {"reject_once"})


# --- What a model endpoint says. -------------------------------------------------------------------------------------

_event_decoder = Decoder(dict)


def server_sent_events(data: bytes) -> None:
    events = _events([data])
    assert events == _events(_pieces(data))
    if events is not None:
        assert sum(len(event.data) for event in events) <= len(data)


def _events(pieces: list[bytes] | Iterator[bytes]) -> list[Event] | None:
    reader = SseReader(limit=_SMALL_LIMIT)
    try:
        events = [event for piece in pieces for event in reader.feed(piece)]
    except EventTooLarge:
        return None
    last = reader.end()
    return events if last is None else [*events, last]


def response_events(data: bytes) -> None:
    made: list[str] = []

    def call(call_id: str, name: str, arguments: str) -> ToolCallPart:
        made.append(call_id)
        return ToolCallPart(call_id, name, {"arguments": arguments})

    answer = Answer(call, lambda wire_id: f"dg_{wire_id}")
    reader = SseReader()
    for event in (*reader.feed(data), reader.end()):
        if event is None:
            continue
        try:
            value = _event_decoder.decode(event.data)
            for part in answer.feed(value):
                encode(part)
        except (msgspec.DecodeError, LanguageModelError):
            break
    assert len(made) == len(set(made))


def retry_after(data: bytes) -> None:
    seconds = retry_after_seconds(data.decode("latin-1"))
    assert seconds is None or seconds >= 0


# --- What a consumer says. -------------------------------------------------------------------------------------------


def editor_requests(data: bytes) -> None:
    try:
        request = decode_chat_request(data)
    except (msgspec.DecodeError, LanguageModelError, UnicodeError, RecursionError):
        # Its server has an answer to each. The last two cannot come: a line was read before its parameters are.
        return
    encode(request.messages)


# --- Files. ----------------------------------------------------------------------------------------------------------


@contextmanager
def configuration() -> Iterator[Check]:
    with tempfile.TemporaryDirectory(prefix="dragoman-fuzz-") as folder:
        path = Path(folder) / "dragoman.toml"

        def check(data: bytes) -> None:
            path.write_bytes(data)
            try:
                config = load(path)
            except ConfigError as error:
                _shows_all_of_itself(str(error).split("\n"))
                return
            narrow, told = narrowed(config)
            assert not narrow.tools.auto_approve
            _shows_all_of_itself(told)

        yield check


def _shows_all_of_itself(lines: Iterable[str]) -> None:
    assert not any(hides(character) for line in lines for character in line)


def when_clauses(data: bytes) -> None:
    try:
        expression = parse_when(data.decode("utf-8", "surrogateescape"))
    except WhenError as error:
        str(error)
        return
    assert parse_when(str(expression)) == expression
    for context in ({}, {"a": "text", "b": 5, "c": True, "list": ["a", "b"]}):
        assert isinstance(evaluate(expression, context), bool)


def declarations(data: bytes) -> None:
    try:
        declarations_from(decode(data), where="tools.json")
    except (msgspec.DecodeError, DeclarationError) as error:
        str(error)


def scripts(data: bytes) -> None:
    try:
        parse_script(data.decode("utf-8", "replace"))
    except ScriptError as error:
        str(error)


def traces(data: bytes) -> None:
    try:
        frames = parse_trace(data)
    except TraceError:
        return
    assert parse_trace(b"".join(map(encode_frame, frames))) == frames


# --- What only we should have written. -------------------------------------------------------------------------------

_tokens = Tokens(_KEY)
_MARKER = MarkerName("conversationabcd", 3, 5)
_CALL = CallName("conversationabcd", 7)
_issued = (_tokens.marker("model", _MARKER).data, _tokens.call_id(_CALL))


def markers(data: bytes) -> None:
    """Whatever is made of a marker or a call id of ours: it names what we named with it, or nothing."""
    for given in (data, _spliced(_issued[0], data)):
        assert _tokens.read_marker(DataPart(STATEFUL_MARKER, given)) in (None, _MARKER)
    text = data.decode("utf-8", "surrogateescape")
    assert _tokens.read_call_id(text) in (None, _CALL)
    changed = _spliced(_issued[1].encode(), data).decode("utf-8", "surrogateescape")
    assert _tokens.read_call_id(changed) == (_CALL if changed == _issued[1] else None)


def _spliced(issued: bytes, data: bytes) -> bytes:
    place = data[0] % len(issued) if data else 0
    return issued[:place] + data[1:] + issued[place + len(data[1:]) :]


def stored_conversations(data: bytes) -> None:
    try:
        saved = load_conversation(data)
    except SavedError:
        return
    again = load_conversation(save_conversation(saved.record, saved.session, saved.calls))
    assert (again.session, again.calls, again.record.items) == (
        saved.session,
        saved.calls,
        saved.record.items,
    )


_TABLES = (
    ("approvals", ("tool", "key", "workspace", "granted_at")),
    ("conversations", ("id", "model", "title", "workspace", "owner", "used_at", "content")),
    ("responses", ("id", "connection", "previous", "used_at", "content", "size")),
)


@contextmanager
def stored_rows() -> Iterator[Check]:
    """Rows that another program wrote: text that is none, numbers where there should be text."""
    with (
        tempfile.TemporaryDirectory(prefix="dragoman-fuzz-") as folder,
        Database.open(Path(folder) / "state") as database,
    ):

        def check(data: bytes) -> None:
            table, columns = _TABLES[data[0] % len(_TABLES)] if data else _TABLES[0]
            values = (data[1:].split(b"\n") + [b""] * len(columns))[: len(columns)]
            places = ", ".join("CAST(? AS TEXT)" if value[:1] != b"#" else "?" for value in values)
            try:
                with database.writing():
                    for each, _ in _TABLES:
                        database.execute(f"DELETE FROM {each}")  # noqa: S608 - names of our own
                    database.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", *values)  # noqa: S608
            except StoreError:
                return
            for read in (
                ApprovalStore(database).list,
                ConversationStore(database).all,
                lambda: ResponseStore(database).find("a", "b"),
            ):
                try:
                    read()
                except StoreError as error:
                    str(error)

        yield check


# --- Addresses, and text for a screen. -------------------------------------------------------------------------------


def addresses(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    first, _, second = text.partition("\n")
    try:
        url = Url.parse(first)
    except UrlError:
        return
    assert Url.parse(str(url)) == url
    try:
        UrlPattern.parse(second).matches(url)
    except UrlPatternError:
        return


def agents_words(data: bytes) -> None:
    """Cut anywhere, the same is shown; and nothing that a terminal obeys."""
    text = data.decode("utf-8", "replace")
    cut = [piece.decode("latin-1") for piece in _pieces(data)]
    links = InertLinks()
    whole = InertLinks().feed("".join(cut))
    assert "".join(links.feed(piece) for piece in cut) == whole
    shown = VisibleText()
    obeyed = {"Cc", "Cs"}
    assert not any(category(c) in obeyed and c not in "\n\t" for c in shown.feed(text) + shown.end())


# --- Servers. --------------------------------------------------------------------------------------------------------


@contextmanager
def http_requests() -> Iterator[Check]:
    """A method and a path, headers, an empty line, a body: as the server's own parser hands them over."""
    with asyncio.Runner() as runner, serving() as ask:
        yield lambda data: runner.run(ask(data))


@contextmanager
def tool_server_bodies() -> Iterator[Check]:
    """Bodies from one who has the token: the worst that an agent can send."""
    with asyncio.Runner() as runner:
        serving_ = tool_serving()
        post = runner.run(serving_.__aenter__())
        try:
            yield lambda data: runner.run(post(data))
        finally:
            runner.run(serving_.__aexit__(None, None, None))


def _alone(check: Check) -> Target:
    return lambda: nullcontext(check)


TARGETS: dict[str, Target] = {
    **{
        check.__name__: _alone(check)
        for check in (
            jsonrpc_lines,
            mcp_lines,
            acp_messages,
            server_sent_events,
            response_events,
            retry_after,
            editor_requests,
            when_clauses,
            declarations,
            scripts,
            traces,
            markers,
            stored_conversations,
            addresses,
            agents_words,
        )
    },
    "configuration": configuration,
    "stored_rows": stored_rows,
    "http_requests": http_requests,
    "tool_server_bodies": tool_server_bodies,
}
