"""HTTP for requests that wait: bytes in, in any pieces, and bytes out. The transport is in memory."""

import asyncio
from collections.abc import Callable
from typing import Self

import h11
import pytest
from hypothesis import given, settings, strategies as st

from dragoman.backends.agent.toolserver.exchange import Connection, Exchange
from searching import examples

_LIMIT = 1_000


class _Transport(asyncio.Transport):
    """Records what is written. The test decides whether the client reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False
        self.is_reading_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        assert not self.is_reading_paused
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        assert self.is_reading_paused
        self.is_reading_paused = False


class _Hall:
    """A host that admits all requests but those to `/closed`, and responds at once or when the test says so."""

    def __init__(self, answer: Callable[[Exchange, bytes], None] | None = None) -> None:
        self.transport = _Transport()
        self.served: list[tuple[Exchange, bytes]] = []
        self.is_open = False
        self._answer = answer
        self.connection = Connection(self)
        self.connection.connection_made(self.transport)

    @property
    def max_body_bytes(self) -> int:
        return _LIMIT

    def opened(self, connection: Connection) -> None:
        self.is_open = True

    def closed(self, connection: Connection) -> None:
        self.is_open = False

    def admit(self, exchange: Exchange) -> int | None:
        return 404 if exchange.path == "/closed" else None

    def serve(self, exchange: Exchange, body: bytes) -> None:
        self.served.append((exchange, body))
        if self._answer is not None:
            self._answer(exchange, body)

    def receive(self, data: bytes) -> Self:
        self.connection.data_received(data)
        return self

    def said(self, *methods: str) -> list[tuple[int, bytes]]:
        """The answers so far, as a client reads them that has asked with these methods: each status and body."""
        client = h11.Connection(h11.CLIENT)
        if self.transport.written:
            client.receive_data(bytes(self.transport.written))
        answers: list[tuple[int, bytes]] = []
        for method in methods or ("POST",) * 100:
            asked = h11.Request(method=method, target="/", headers=[("host", "here")])
            client.send(asked)
            client.send(h11.EndOfMessage())
            status, body = 0, b""
            while True:
                event = client.next_event()
                if isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    answers.append((status, body))
                    break
                elif not isinstance(event, h11.InformationalResponse):
                    return answers
            if client.their_state is not h11.DONE:
                break
            client.start_next_cycle()
        return answers


def _echo(exchange: Exchange, body: bytes) -> None:
    exchange.respond(200, [], exchange.path.encode() + b" " + body)


def _request(path: str = "/", body: bytes = b"", method: str = "POST", **headers: str) -> bytes:
    named = {"host": "here", "content-length": str(len(body)), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def test_a_request_is_looked_at_only_when_the_one_before_it_is_answered() -> None:
    hall = _Hall().receive(_request("/a") + _request("/b") + _request("/c"))
    for path in ("/a", "/b", "/c"):
        exchange, _ = hall.served[-1]
        assert exchange.path == path
        exchange.respond(200, [], path.encode())
        # It has had its answer: nothing more of it leaves us.
        exchange.respond(500, [])
        exchange.write(b"late")
        exchange.end()
    assert hall.said() == [(200, b"/a"), (200, b"/b"), (200, b"/c")]
    assert hall.connection.is_idle
    assert not hall.transport.is_closed


def test_who_sends_too_far_ahead_is_held_back_and_served_in_the_end() -> None:
    bodies = [bytes([65 + number]) * 900 for number in range(100)]
    sent = b"".join(_request("/", body) for body in bodies)
    hall = _Hall().receive(_request("/first"))
    while sent and not hall.transport.is_reading_paused:
        hall.receive(sent[:5_000])
        sent = sent[5_000:]
    assert sent
    first, _ = hall.served[0]
    hall._answer = _echo
    first.respond(200, [])
    assert not hall.transport.is_reading_paused
    hall.receive(sent)
    assert [body for _, body in hall.served[1:]] == bodies


def test_a_request_that_proposes_another_protocol_gets_an_answer_in_this_one() -> None:
    upgrade = _request("/", b"body", connection="upgrade", upgrade="h2c")
    hall = _Hall().receive(upgrade)
    hall.receive(b"x" * 70_000)
    assert hall.transport.is_reading_paused
    exchange, body = hall.served[0]
    assert body == b"body"
    exchange.respond(200, [], b"plain")
    assert hall.said()[0] == (200, b"plain")


def test_a_head_that_is_too_long_is_refused_and_ends_the_connection() -> None:
    hall = _Hall().receive(b"POST / HTTP/1.1\r\nhost: here\r\nlong: " + b"x" * 20_000)
    assert hall.said() == [(431, b"")]
    assert hall.transport.is_closed
    assert not hall.served


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"GET / SPDY/1\r\nhost: a\r\n\r\n"]
)
def test_what_is_no_http_is_refused_and_ends_the_connection(garbage: bytes) -> None:
    hall = _Hall().receive(garbage + b"\r\n\r\n")
    assert [status for status, _ in hall.said()] == [400]
    assert hall.transport.is_closed


def test_a_body_that_is_too_long_is_refused_read_and_forgotten() -> None:
    hall = _Hall(_echo).receive(_request("/", b"x" * (_LIMIT + 1)) + _request("/next"))
    assert hall.said() == [(413, b""), (200, b"/next ")]
    hall.receive(_request("/", b"x" * _LIMIT))
    assert hall.said()[2][0] == 200


def test_a_body_in_chunks_is_too_long_when_all_of_them_are() -> None:
    head = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"64\r\n" + b"x" * 100 + b"\r\n"
    assert _Hall(_echo).receive(head + chunk * 10 + b"0\r\n\r\n").said()[0][0] == 200
    hall = _Hall(_echo).receive(head + chunk * 11)
    assert hall.said() == [(413, b"")]
    assert hall.connection.is_idle
    hall.receive(chunk + b"0\r\n\r\n" + _request("/next"))
    assert hall.said()[1] == (200, b"/next ")


def test_who_is_refused_by_the_head_has_its_body_thrown_away() -> None:
    hall = _Hall(_echo)
    hall.connection.since = 0
    hall.receive(_request("/closed", b"x" * 900_000)[:1_000])
    assert hall.said() == [(404, b"")]
    # The rest of the body is awaited, but no request waits for a response from now on.
    assert hall.connection.is_idle
    assert hall.connection.since > 0
    hall.receive(_request("/closed", b"x" * 900_000)[1_000:] + _request("/next"))
    assert hall.said() == [(404, b""), (200, b"/next ")]


def test_who_asks_before_it_sends_a_body_is_told_to() -> None:
    hall = _Hall(_echo).receive(_request("/", b"body", expect="100-continue")[:-4])
    assert hall.transport.written.startswith(b"HTTP/1.1 100 ")
    hall.receive(b"body")
    assert hall.said() == [(200, b"/ body")]


def test_who_asks_before_it_sends_a_body_and_is_refused_asks_nothing_more() -> None:
    hall = _Hall(_echo).receive(_request("/closed", b"body", expect="100-continue")[:-4])
    assert hall.said() == [(404, b"")]
    assert b"100" not in hall.transport.written.partition(b"\r\n")[0]
    assert b"connection: close" in bytes(hall.transport.written).lower()
    assert hall.connection.is_idle
    # If the body comes all the same, it is not taken for a request.
    hall.receive(b"body" + _request("/next"))
    assert hall.transport.is_closed
    assert not hall.served


def test_the_answer_to_a_head_has_the_length_of_a_body_and_none() -> None:
    hall = _Hall(_echo).receive(_request("/a", method="HEAD", content_length="") + _request("/b"))
    assert b"content-length: 3" in hall.transport.written
    assert hall.said("HEAD", "POST") == [(200, b""), (200, b"/b ")]


def test_a_stream_to_a_client_of_1_0_ends_with_the_connection() -> None:
    hall = _Hall().receive(b"POST / HTTP/1.0\r\nhost: here\r\ncontent-length: 0\r\n\r\n")
    exchange, _ = hall.served[0]
    exchange.begin([])
    exchange.write(b"one ")
    exchange.end(b"two")
    assert hall.transport.written.endswith(b"\r\n\r\none two")
    assert hall.transport.is_closed


def test_a_client_that_wants_no_more_is_closed_after_its_answer_whatever_it_still_sends() -> None:
    hall = _Hall().receive(_request("/", connection="close"))
    hall.receive(b"\r\n")
    exchange, _ = hall.served[0]
    exchange.respond(200, [], b"bye")
    assert hall.said() == [(200, b"bye")]
    assert hall.transport.is_closed


def test_garbage_behind_a_request_does_not_cost_it_its_answer() -> None:
    hall = _Hall().receive(_request() + b"\x00garbage\r\n\r\n")
    hall.served[0][0].respond(200, [], b"yes")
    assert hall.said() == [(200, b"yes"), (400, b"")]
    assert hall.transport.is_closed


def test_a_client_that_has_gone_is_told_once_and_hears_nothing() -> None:
    ended: list[str] = []
    hall = _Hall().receive(_request())
    exchange, _ = hall.served[0]
    exchange.on_end = lambda: ended.append("end")
    exchange.begin([])
    assert hall.connection.eof_received() is False
    hall.connection.connection_lost(None)
    written = bytes(hall.transport.written)
    for late in (exchange.end, exchange.abort, lambda: exchange.write(b"late")):
        late()
    assert not exchange.is_open
    assert ended == ["end"]
    assert hall.transport.written == written
    assert not hall.is_open


def test_an_answer_has_left_when_it_was_read() -> None:
    ended: list[str] = []
    hall = _Hall().receive(_request("/a") + _request("/b"))
    exchange, _ = hall.served[0]
    exchange.on_end = lambda: ended.append("end")
    hall.connection.pause_writing()
    assert exchange.is_clogged
    exchange.respond(200, [], b"large")
    assert (len(hall.served), ended) == (1, [])
    # So that the host can close it after a limit.
    assert hall.connection.is_idle
    hall.connection.resume_writing()
    assert (len(hall.served), ended) == (2, ["end"])
    assert not hall.connection.is_idle


def test_who_has_caught_up_is_told_so() -> None:
    drained: list[bool] = []
    hall = _Hall().receive(_request())
    exchange, _ = hall.served[0]
    exchange.on_drained = lambda: drained.append(exchange.is_clogged)
    exchange.begin([])
    hall.connection.pause_writing()
    hall.connection.resume_writing()
    assert drained == [False]
    exchange.end(b"the end")
    assert hall.said() == [(200, b"the end")]


def test_what_is_cut_off_ends_nothing_but_its_own() -> None:
    hall = _Hall().receive(_request())
    exchange, _ = hall.served[0]
    exchange.on_end = lambda: None
    exchange.respond(200, [])
    exchange.abort()
    assert not hall.transport.is_closed
    hall.receive(_request())
    hall.served[1][0].abort()
    assert hall.transport.is_closed


_requests = st.builds(
    _request,
    st.sampled_from(["/a", "/b?query", "/closed"]),
    st.binary(max_size=20) | st.just(b"x" * (_LIMIT + 1)),
    st.sampled_from(["POST", "GET", "DELETE"]),
    expect=st.sampled_from(["", "", "100-continue"]),
)


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(_requests | st.binary(max_size=30), max_size=5),
    st.lists(st.integers(1, 600), max_size=60),
)
def test_in_whatever_pieces_bytes_come_the_answers_are_the_same(
    requests: list[bytes], sizes: list[int]
) -> None:
    sent = b"".join(requests)
    whole, pieces = _Hall(_echo), _Hall(_echo)
    if sent:
        whole.receive(sent)
    for size in sizes:
        if sent and not pieces.transport.is_closed:
            pieces.receive(sent[:size])
        sent = sent[size:]
    if sent and not pieces.transport.is_closed:
        pieces.receive(sent)
    assert pieces.said() == whole.said()
    assert pieces.transport.is_closed == whole.transport.is_closed
    assert [body for _, body in pieces.served] == [body for _, body in whole.served]
