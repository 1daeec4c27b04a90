"""Two peers in memory: requests, notifications, responses, cancellations, and every way to end."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest

from dragoman.jsonrpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    ConnectionClosed,
    Incoming,
    Notification,
    Peer,
    PeerOptions,
    RemoteError,
    RpcReply,
    peer as peer_module,
)
from dragoman.jsonrpc.framing import Line
from jsonrpc.recording import DEADLINE_SECONDS, Recorder
from memory_peers import memory_pair


class Raw:
    """Something at the other end that writes whatever bytes it likes, and shows the lines it gets."""

    def __init__(self, options: PeerOptions | None = None) -> None:
        self.receiver = Recorder(answer=True)
        self._other = Recorder()
        options = options or PeerOptions(name="raw", answers_malformed=True)
        self.peer, self._sender = memory_pair(self.receiver, self._other, options)
        self.lines: list[object] = []
        # Replies to requests that were never made come to no callback, so they are taken from the stream.
        self._sender.stream._on_line = self._show
        self._shown = asyncio.Event()

    def send(self, *lines: bytes) -> None:
        self._sender.stream.write(b"".join(line + b"\n" for line in lines))

    async def get(self, number: int) -> list[object]:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(self.lines) < number:
                self._shown.clear()
                await self._shown.wait()
        return self.lines

    def _show(self, line: Line) -> None:
        assert isinstance(line, bytes)
        self.lines.append(msgspec.json.decode(line))
        self._shown.set()


def pair() -> tuple[Recorder, Peer, Recorder, Peer]:
    left, right = Recorder(), Recorder()
    left_peer, right_peer = memory_pair(left, right)
    return left, left_peer, right, right_peer


async def test_a_request_and_its_result() -> None:
    left, right = Recorder(), Recorder(answer=True)
    peer, _ = memory_pair(left, right)
    assert await peer.request("hello", {"a": 1}) == b'{"echo":"hello"}'
    assert right.incoming[0].params == b'{"a":1}'
    assert right.incoming[0].answered
    assert left.peer is peer
    assert peer.closed is None


async def test_an_error_names_code_message_and_data() -> None:
    _, peer, right, _ = pair()
    asking = asyncio.ensure_future(peer.request("hello"))
    await right.until_count("request", 1)
    right.incoming[0].fail(METHOD_NOT_FOUND, "no such method", {"hint": "none"})
    with pytest.raises(RemoteError, match=r"no such method \(-32601\)") as raised:
        await asking
    assert (raised.value.code, raised.value.message) == (METHOD_NOT_FOUND, "no such method")
    assert raised.value.data == {"hint": "none"}


async def test_everything_is_handed_out_in_the_order_of_the_wire() -> None:
    left, peer, right, other = pair()
    peer.call("prompt", {}, left.replied)
    await right.until_count("request", 1)
    other.notify("update", [1])
    other.call("permission", {}, right.replied)
    other.notify("update", [2])
    right.incoming[0].reply("done")
    other.notify("update", [3])
    await left.until_count("notification", 3)
    assert left.events[1:] == [
        ("notification", ("update", b"[1]")),
        ("request", "permission"),
        ("notification", ("update", b"[2]")),
        ("reply", b'"done"'),
        ("notification", ("update", b"[3]")),
    ]


async def test_replies_come_in_any_order() -> None:
    left, peer, right, _ = pair()
    asked = [asyncio.ensure_future(peer.request("ask", {"n": n})) for n in range(3)]
    await right.until_count("request", 3)
    for incoming in reversed(right.incoming):
        incoming.reply(msgspec.Raw(incoming.params))
    assert await asyncio.gather(*asked) == [b'{"n":0}', b'{"n":1}', b'{"n":2}']
    assert left.kinds == ["connected"]


async def test_a_second_answer_is_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    _, peer, right, _ = pair()
    asking = asyncio.ensure_future(peer.request("ask"))
    await right.until_count("request", 1)
    incoming = right.incoming[0]
    incoming.reply(1)
    incoming.fail(-1, "late")
    incoming.reply(2)
    assert await asking == b"1"
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert repr(incoming) == "<Incoming 1 ask>"


async def test_a_result_that_cannot_be_encoded_leaves_the_request_open() -> None:
    _, peer, right, _ = pair()
    asking = asyncio.ensure_future(peer.request("ask"))
    await right.until_count("request", 1)
    with pytest.raises(TypeError):
        right.incoming[0].reply(object())
    right.incoming[0].fail(-1, "broken")
    with pytest.raises(RemoteError, match="broken"):
        await asking


async def test_a_request_is_withdrawn_and_still_answered() -> None:
    left, peer, right, _ = pair()
    identity = peer.call("ask", {}, left.replied)
    await right.until_count("request", 1)
    incoming = right.incoming[0]
    peer.withdraw(identity)
    peer.notify("after")
    await right.until_count("notification", 1)
    assert incoming.token.cancelled()
    # The withdrawal itself is not a notification to anybody.
    assert right.of("notification") == [("after", b"{}")]
    incoming.fail(-32800, "cancelled")
    await left.until_count("reply", 1)
    assert left.of("reply") == ["ErrorResponse"]
    # Answered: there is nothing to withdraw any more, and nothing is sent.
    peer.withdraw(identity)
    peer.notify("last")
    await right.until_count("notification", 2)


async def test_other_names_for_withdrawing() -> None:
    raw = Raw(PeerOptions(cancel_methods=("$/cancel_request", "lm/cancel")))
    slow = Recorder()
    raw.peer._receiver = slow
    raw.send(b'{"id":"a","method":"x"}', b'{"id":7,"method":"y"}', b'{"id":8,"method":"z"}')
    raw.send(
        b'{"method":"lm/cancel","params":{"requestId":7}}',
        b'{"method":"$/cancel_request","params":{"requestId":"a"}}',
        # Unknown, unreadable, not there: nobody is harmed.
        b'{"method":"lm/cancel","params":{"requestId":"7"}}',
        b'{"method":"lm/cancel","params":{"id":8}}',
        b'{"method":"lm/cancel"}',
        b'{"method":"end"}',
    )
    await slow.until_count("notification", 1)
    assert [incoming.token.cancelled() for incoming in slow.incoming] == [True, True, False]


async def test_who_is_cancelled_while_waiting_leaves_nothing_behind() -> None:
    _, peer, right, _ = pair()
    asking = asyncio.ensure_future(peer.request("ask"))
    await right.until_count("request", 1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    right.incoming[0].reply(1)
    assert await asyncio.wait_for(_answered(peer, right), DEADLINE_SECONDS) == b"2"
    assert peer._pending == {}


async def _answered(peer: Peer, right: Recorder) -> bytes:
    asking = asyncio.ensure_future(peer.request("again"))
    await right.until_count("request", 2)
    right.incoming[1].reply(2)
    return await asking


async def test_a_reply_in_the_same_tick_as_the_cancellation_is_dropped() -> None:
    _, peer, right, _ = pair()
    asking = asyncio.ensure_future(peer.request("ask"))
    await right.until_count("request", 1)
    on_reply = peer._pending[1]
    asking.cancel()
    on_reply(ConnectionClosed("late"))
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_bad_lines_are_answered_and_the_next_line_is_served() -> None:
    raw = Raw()
    raw.send(
        b"[1,2]",
        b"17",
        b"nonsense",
        b"",
        b'{"id":3,"method":5}',
        b"\xff",
        b'{"id":9}',
        b'{"id":4,"method":"ok"}',
    )
    answers = await raw.get(7)
    errors = [(answer["id"], answer["error"]["code"]) for answer in answers[:6]]  # type: ignore[index]
    assert errors == [
        (None, INVALID_REQUEST),
        (None, INVALID_REQUEST),
        (None, PARSE_ERROR),
        (3, INVALID_REQUEST),
        (None, PARSE_ERROR),
        (None, INVALID_REQUEST),
    ]
    assert answers[6] == {"jsonrpc": "2.0", "id": 4, "result": {"echo": "ok"}}


async def test_a_line_that_is_too_long_is_answered_with_the_limit() -> None:
    raw = Raw(PeerOptions(answers_malformed=True, max_message=100))
    raw.send(b"x" * 5000, b'{"id":4,"method":"ok"}')
    answers = await raw.get(2)
    assert answers[0]["error"]["message"] == "it has 5,000 bytes; at most 100 are taken"  # type: ignore[index]
    assert answers[1]["id"] == 4  # type: ignore[index]


async def test_an_agent_is_not_told_about_its_bad_lines(caplog: pytest.LogCaptureFixture) -> None:
    raw = Raw(PeerOptions(name="agent"))
    raw.send(*[b"progress"] * 50, b'{"id":4,"method":"ok"}')
    assert await raw.get(1) == [{"jsonrpc": "2.0", "id": 4, "result": {"echo": "ok"}}]
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == peer_module._LOGGED_BAD_LINES
    assert "agent: a line was not understood" in warnings[0].message


async def test_a_batch_is_answered_once_also_to_an_agent_and_the_next_line_is_served() -> None:
    raw = Raw(PeerOptions(name="agent"))
    raw.send(b'[{"id":2,"method":"a"},{"id":3,"method":"b"}]', b'{"id":4,"method":"ok"}')
    refused, served = await raw.get(2)
    assert refused["id"] is None  # type: ignore[index]
    assert refused["error"]["code"] == INVALID_REQUEST  # type: ignore[index]
    message = refused["error"]["message"]  # type: ignore[index]
    assert message.startswith("batches are not supported: send each message")
    assert served == {"jsonrpc": "2.0", "id": 4, "result": {"echo": "ok"}}


async def test_a_malformed_reply_settles_its_request() -> None:
    raw = Raw(PeerOptions())
    asking = asyncio.ensure_future(raw.peer.request("ask"))
    await raw.get(1)
    raw.send(b'{"jsonrpc":"2.0","id":1}')
    with pytest.raises(RemoteError, match="no result and no error"):
        await asking


async def test_replies_nobody_waits_for_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    raw = Raw()
    raw.send(
        b'{"id":99,"result":1}',
        b'{"id":null,"error":{"code":-32700,"message":"what?"}}',
        b'{"id":1,"method":"ok"}',
    )
    await raw.get(1)
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "raw could not make sense of a message of ours: what?"
    ]


async def test_an_id_in_use_is_refused_and_may_be_used_again_later() -> None:
    raw = Raw()
    slow = Recorder()
    raw.peer._receiver = slow
    raw.send(b'{"id":1,"method":"a"}', b'{"id":1,"method":"b"}', b'{"id":"1","method":"c"}')
    answers = await raw.get(1)
    assert answers[0]["id"] is None  # type: ignore[index]
    assert "in use" in answers[0]["error"]["message"]  # type: ignore[index]
    assert slow.of("request") == ["a", "c"]
    slow.incoming[0].reply()
    raw.send(b'{"id":1,"method":"d"}')
    await slow.until_count("request", 3)


async def test_too_many_requests_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "MAX_OPEN_REQUESTS", 2)
    raw = Raw()
    raw.peer._receiver = Recorder()
    raw.send(*(b'{"id":%d,"method":"a"}' % number for number in range(3)))
    answers = await raw.get(1)
    assert answers[0]["id"] == 2  # type: ignore[index]


async def test_what_a_receiver_raises_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(Recorder):
        def request(self, incoming: Incoming) -> None:
            if incoming.method == "answered":
                incoming.reply(1)
            raise RuntimeError("request")

        def notification(self, notification: Notification) -> None:
            raise RuntimeError("notification")

        def closed(self, reason: str) -> None:
            super().closed(reason)
            raise RuntimeError("closed")

    faulty = Faulty()
    right = Recorder()
    left_peer, peer = memory_pair(faulty, right)
    peer.notify("note", {"secret": "hush"})
    with pytest.raises(RemoteError, match="open failed"):
        await peer.request("open")
    assert await peer.request("answered") == b"1"

    def on_reply(reply: RpcReply) -> None:
        raise RuntimeError("reply")

    left_peer.call("x", {}, on_reply)
    left_peer.close()
    await faulty.until_count("closed", 1)
    assert [record.message for record in caplog.records] == [
        "peer: note could not be handled",
        "peer: open could not be handled",
        "peer: answered could not be handled",
        "peer: ConnectionClosed could not be handled",
        "peer: str could not be handled",
    ]
    assert "hush" not in caplog.text


async def test_a_receiver_may_take_whole_lines_and_the_rest_goes_the_usual_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Taker(Recorder):
        def take_line(self, line: bytes) -> bool:
            if b"broken" in line:
                raise RuntimeError("take_line")
            if b"taken" in line:
                self.taken.append(line)
            return b"taken" in line

        def __init__(self) -> None:
            super().__init__(answer=True)
            self.taken: list[bytes] = []

    taker = Taker()
    _, peer = memory_pair(taker, Recorder())
    for method in ("taken", "broken", "told"):
        peer.notify(method)
    assert await peer.request("asked") == b'{"echo":"asked"}'
    assert [msgspec.json.decode(line)["method"] for line in taker.taken] == ["taken"]
    assert taker.of("notification") == [("told", b"{}")]
    assert [record.message for record in caplog.records] == ["peer: a line could not be handled"]


async def test_the_end_fails_what_is_pending_and_tells_once() -> None:
    left, peer, right, other = pair()
    asking = [asyncio.ensure_future(peer.request("ask")) for _ in range(2)]
    peer.call("ask", {}, left.replied)
    other.call("theirs", {}, right.replied)
    await right.until_count("request", 3)
    await left.until_count("request", 1)
    other.close()
    other.close("again")
    await left.until_count("closed", 1)
    for task in asking:
        with pytest.raises(ConnectionClosed, match="the other side closed the connection"):
            await task
    assert left.events[-2:] == [
        ("reply", "ConnectionClosed"),
        ("closed", "the other side closed the connection"),
    ]
    assert left.incoming[0].token.cancelled()
    assert all(incoming.token.cancelled() for incoming in right.incoming)
    assert right.events[-2:] == [("reply", "ConnectionClosed"), ("closed", "we closed the connection")]
    # An answer that comes too late harms nobody; a question is refused.
    right.incoming[0].reply(1)
    with pytest.raises(ConnectionClosed):
        peer.call("more", {}, left.replied)
    with pytest.raises(ConnectionClosed):
        peer.notify("more")
    with pytest.raises(ConnectionClosed):
        await peer.drain()
    await asyncio.wait_for(asyncio.gather(peer.wait_closed(), other.wait_closed()), DEADLINE_SECONDS)
    assert (len(left.of("closed")), len(right.of("closed"))) == (1, 1)
    assert peer.closed == "the other side closed the connection"


async def test_what_was_sent_before_closing_arrives() -> None:
    _, peer, right, _ = pair()
    for number in range(1000):
        peer.notify("n", [number])
    peer.close()
    await right.until_count("closed", 1)
    assert right.of("notification") == [("n", b"[%d]" % number) for number in range(1000)]


async def test_nothing_is_handed_out_after_closing() -> None:
    class Closing(Recorder):
        def notification(self, notification: Notification) -> None:
            super().notification(notification)
            assert self.peer is not None
            self.peer.close("enough")

    left = Closing()
    _, other = memory_pair(left, Recorder())
    other.notify("one")
    other.notify("two")
    other.stream.write(b"unfinished")
    await left.until_count("closed", 1)
    await asyncio.sleep(0)
    assert left.kinds == ["connected", "notification", "closed"]


async def test_a_broken_connection_names_the_cause() -> None:
    left, peer, _, other = pair()
    assert other.stream._writer is not None
    other.stream._writer.abort()
    await left.until_count("closed", 1)
    assert peer.closed == "the other side closed the connection while we were sending"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(5, "Input/output error"), "the connection broke: Input/output error"),
        (RuntimeError("odd"), "the connection broke: odd"),
        (RuntimeError(), "the connection broke: RuntimeError"),
    ],
)
async def test_other_errors_are_named_too(error: Exception, reason: str) -> None:
    left, peer, _, _ = pair()
    peer.stream.connection_lost(error)
    assert left.of("closed") == [reason]


async def test_half_closed_goes_on_reading() -> None:
    left, peer, right, other = pair()
    peer.notify("last")
    peer.close_writing()
    peer.close_writing()
    with pytest.raises(ConnectionClosed, match="we closed our side"):
        peer.notify("more")
    await right.until_count("notification", 1)
    # Its end of input has come with it, and it closes in its turn.
    await left.until_count("closed", 1)
    assert other.closed == "the other side closed the connection"


async def test_drain_waits_for_a_slow_reader() -> None:
    _, peer, right, other = pair()
    other.pause_reading("test")
    other.pause_reading("second")
    other.resume_reading("nobody")
    await peer.drain()
    for _ in range(10):
        peer.notify("n", ["x" * 50_000])
    draining = asyncio.ensure_future(peer.drain())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not draining.done()
    assert peer.stream.unsent >= 500_000
    assert right.of("notification") == []
    reading = [other.stream.reading]
    for holder in ("test", "second"):
        other.resume_reading(holder)
        reading.append(other.stream.reading)
    assert reading == [False, False, True]
    await asyncio.wait_for(draining, DEADLINE_SECONDS)
    await right.until_count("notification", 10)
    assert peer.stream.unsent == 0


async def test_a_reader_that_never_reads_is_given_up() -> None:
    left = Recorder()
    right = Recorder()
    peer, other = memory_pair(left, right, PeerOptions(max_unsent=1_000_000))
    other.pause_reading("test")
    while peer.stream.unsent < 950_000:
        peer.notify("n", ["x" * 50_000])
    draining = asyncio.ensure_future(peer.drain())
    await asyncio.sleep(0)
    with pytest.raises(ConnectionClosed, match="does not read: more than 1,000,000 bytes"):
        peer.notify("n", ["x" * 50_000])
    assert len(left.of("closed")) == 1
    with pytest.raises(ConnectionClosed):
        await draining
    await asyncio.wait_for(peer.wait_closed(), DEADLINE_SECONDS)
    await right.until_count("closed", 1)


async def test_an_answer_too_many_ends_the_connection_quietly() -> None:
    left = Recorder()
    peer, other = memory_pair(left, Recorder(), PeerOptions(max_unsent=300_000))
    asking = asyncio.ensure_future(other.request("ask"))
    await left.until_count("request", 1)
    other.pause_reading("test")
    peer.notify("n", ["x" * 290_000])
    left.incoming[0].reply("x" * 50_000)
    assert "does not read" in str(peer.closed)
    with pytest.raises(ConnectionClosed):
        await asking


async def test_small_messages_of_one_tick_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    _, peer, right, _ = pair()
    writer = peer.stream._writer
    assert writer is not None
    writes: list[bytes] = []
    write = writer.write

    def spy(data: bytes | bytearray | memoryview) -> None:
        writes.append(bytes(data))
        write(data)

    monkeypatch.setattr(writer, "write", spy)
    for number in range(100):
        peer.notify("n", [number])
    await right.until_count("notification", 100)
    assert len(writes) == 1
    peer.notify("n", ["x" * 100_000])
    assert len(writes) == 2


@pytest.mark.long
@pytest.mark.parametrize("number", [100_000])
async def test_a_flood_to_a_slow_reader_is_bounded_ordered_and_whole(number: int) -> None:
    many = 10_000

    class Slow(Recorder):
        """Has the stream held while much of it waits."""

        peer: Peer
        pauses = 0

        def connected(self, peer: Peer) -> None:
            self.peer, self.waiting = peer, asyncio.Queue[Notification]()

        def notification(self, notification: Notification) -> None:
            self.waiting.put_nowait(notification)
            if self.waiting.qsize() == many:
                self.pauses += 1
                self.peer.pause_reading(self)

        async def take(self) -> Notification:
            if self.waiting.empty():
                self.peer.resume_reading(self)
            return await self.waiting.get()

    slow = Slow()
    _, sender = memory_pair(slow, Recorder())
    most = unsent = 0

    async def flood() -> None:
        nonlocal unsent
        for count in range(number):
            sender.notify("update", {"n": count})
            unsent = max(unsent, sender.stream.unsent)
            await sender.drain()

    flooding = asyncio.ensure_future(flood())
    async with asyncio.timeout(120):
        for count in range(number):
            item = await slow.take()
            assert item.params == b'{"n":%d}' % count
            most = max(most, slow.waiting.qsize())
            if count % 1000 == 0:
                # Others get their turn many times before it goes on.
                for _ in range(20):
                    await asyncio.sleep(0)
        await flooding
    assert slow.waiting.empty()
    assert slow.pauses > 2
    # With what one read of the transport brought in before it could be paused.
    assert most < 2 * many
    assert unsent < 1024 * 1024


async def test_a_peer_that_was_never_connected_tells_nobody() -> None:
    receiver = Recorder()
    peer = Peer(receiver, PeerOptions())
    peer.notify("early")
    peer.pause_reading("test")
    peer.resume_reading("test")
    peer.close()
    await asyncio.wait_for(peer.wait_closed(), DEADLINE_SECONDS)
    assert receiver.events == []
