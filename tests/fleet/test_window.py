"""The two ends of a stream: in order, once, whatever is lost, and never more than the window."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from dragoman.fleet.window import ReceivingWindow, SendingWindow
from searching import examples


def test_a_batch_is_kept_until_there_is_a_receipt_for_it() -> None:
    window = SendingWindow(limit=10)
    window.add(b"one")
    window.add(b"two")
    assert (window.number, len(b"".join(window.after(0)))) == (2, 6)
    window.note_receipt(1, 3)
    assert window.after(0) == (b"two",)
    assert not window.is_consumed
    window.note_receipt(2, 3)
    assert window.after(0) == ()
    # It has arrived; its consumer has not taken it yet.
    assert not window.is_consumed
    window.note_receipt(2, 6)
    assert window.is_consumed


def test_n4_a_full_window_takes_no_batch_until_the_consumer_has_consumed_some() -> None:
    window = SendingWindow(limit=4)
    window.add(b"three")
    assert not window.has_room
    with pytest.raises(ValueError, match="full"):
        window.add(b"x")
    # To have received it is not enough: the consumer is slow.
    window.note_receipt(1, 0)
    assert not window.has_room
    window.note_receipt(1, 5)
    assert window.has_room


def test_receipts_that_arrive_late_or_claim_too_much_change_nothing() -> None:
    window = SendingWindow(limit=4)
    window.add(b"abc")
    window.note_receipt(1, 3)
    window.note_receipt(0, 0)
    window.note_receipt(9, 99)
    window.add(b"defg")
    assert not window.has_room


def test_the_receiver_takes_the_next_batch_and_drops_any_other() -> None:
    window = ReceivingWindow()
    assert not window.accept(2)
    assert window.accept(1)
    assert not window.accept(1)
    assert window.accept(2)


def test_a_gap_is_asked_for_once() -> None:
    window = ReceivingWindow()
    assert window.accept(1)
    assert not window.mark_gap(1)
    assert not window.mark_gap(2)
    assert window.mark_gap(3)
    assert not window.mark_gap(4)
    assert window.accept(2)
    assert window.mark_gap(4)


def test_a_lost_last_batch_shows_when_the_sender_says_how_much_it_has_sent() -> None:
    window = ReceivingWindow()
    assert window.accept(1)
    assert window.is_behind(2, 1)
    assert not window.is_behind(1, 1)
    # One has come since then: the others may be under way.
    assert not window.is_behind(2, 0)


def test_a_receipt_is_due_after_a_part_of_the_window() -> None:
    window = ReceivingWindow(limit=40)
    assert not window.note_consumed(9)
    assert window.note_consumed(1)
    assert not window.note_consumed(9)
    assert window.consumed == 19


@dataclass
class _Channel:
    """Loses what the list says, in both directions."""

    losses: list[bool]
    under_way: list[tuple[int, bytes]] = field(default_factory=list)

    def is_lost(self) -> bool:
        return self.losses.pop() if self.losses else False


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=9), max_size=40),
    st.lists(st.booleans(), max_size=120),
    st.lists(st.sampled_from(["send", "deliver", "consume", "ping"]), max_size=200),
    st.integers(1, 30),
)
def test_every_part_arrives_once_and_in_order_over_a_channel_that_loses_messages(
    parts: list[bytes], losses: list[bool], steps: list[str], limit: int
) -> None:
    sender, receiver, channel = SendingWindow(limit), ReceivingWindow(limit), _Channel(losses)
    unsent, arrived, waiting = list(parts), list[bytes](), list[bytes]()

    def send(number: int, data: bytes) -> None:
        if not channel.is_lost():
            channel.under_way.append((number, data))

    def resend(after: int) -> None:
        if not channel.is_lost():
            for number, data in enumerate(sender.after(after), after + 1):
                send(number, data)

    def step(name: str) -> None:
        if name == "send" and unsent and sender.has_room:
            data = unsent.pop(0)
            sender.add(data)
            send(sender.number, data)
        elif name == "deliver" and channel.under_way:
            number, data = channel.under_way.pop(0)
            if receiver.accept(number):
                waiting.append(data)
            elif receiver.mark_gap(number):
                resend(receiver.number)
        elif name == "consume" and waiting:
            data = waiting.pop(0)
            arrived.append(data)
            if receiver.note_consumed(len(data)) and not channel.is_lost():
                sender.note_receipt(receiver.number, receiver.consumed)
        elif name == "ping" and not channel.is_lost():
            sender.note_receipt(receiver.number, receiver.consumed)
            if (
                not channel.under_way
                and not channel.is_lost()
                and receiver.is_behind(sender.number, receiver.number)
            ):
                resend(receiver.number)
        assert len(b"".join(sender.after(0))) < limit + 9
        assert sum(map(len, waiting)) < limit + 9

    for name in steps:
        step(name)
    # From now on nothing is lost for good: the rest arrives.
    for _ in range(10 * len(parts) + len(losses) + 10):
        for name in ("send", "deliver", "deliver", "consume", "ping"):
            step(name)
    assert arrived == parts
    assert sender.is_consumed


def test_a_sender_knows_whether_it_has_everything_after_a_batch() -> None:
    sender = SendingWindow()
    # Nothing was sent, so nothing is missing. What was not sent is not there.
    assert (sender.has_all_after(0), sender.has_all_after(1)) == (True, False)
    for data in (b"a", b"b", b"c"):
        sender.add(data)
    assert [sender.has_all_after(number) for number in range(5)] == [True, True, True, True, False]
    sender.note_receipt(2, 2)
    assert [sender.has_all_after(number) for number in range(5)] == [False, False, True, True, False]
    sender.note_receipt(3, 3)
    assert [sender.has_all_after(number) for number in range(5)] == [False, False, False, True, False]
