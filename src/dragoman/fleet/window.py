"""The two ends of a stream: batches one way, receipts the other. No I/O, no clock.

Core NATS may lose a message. It neither doubles nor reorders messages of one connection. So the sender numbers its batches
from 1 and keeps each until there is a receipt for it, and the receiver takes them in order:

- A batch with a number too high shows a gap. The receiver drops it, and asks once for everything after its last batch.
- If the last batch of all is lost, no gap shows. So both ends compare their numbers with every ping.
- Receipts are cumulative: the next one makes up for one that was lost.

A sender may have `WINDOW_BYTES` out that are not consumed. It adds a batch while there is room, so what it keeps is at most
the window and one batch. Receivers hold no more than that either.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["WINDOW_BYTES", "ReceivingWindow", "SendingWindow"]

# Two hundred streams of slow consumers take 50 MB. A consumer that is not slow needs less: the time until a receipt arrives
# is some milliseconds.
WINDOW_BYTES = 256 * 1024
# A receipt after so much of the window, so that a sender hardly ever waits for one.
_RECEIPT_PART = 4


@dataclass(slots=True)
class SendingWindow:
    """The sender's end: it numbers batches, and keeps those without a receipt."""

    limit: int = WINDOW_BYTES
    # The number of the last batch that was added.
    number: int = 0
    _kept: dict[int, bytes] = field(default_factory=dict)
    _sent: int = 0
    _consumed: int = 0

    @property
    def has_room(self) -> bool:
        return self._sent - self._consumed < self.limit

    @property
    def is_consumed(self) -> bool:
        """Whether everything that was sent has arrived and is consumed: a slow consumer may have it before it."""
        return not self._kept and self._consumed == self._sent

    def add(self, data: bytes) -> None:
        """Keep the next batch, which has the number `number + 1`. Only while there is room."""
        if not self.has_room:
            raise ValueError("the window is full")
        self.number += 1
        self._kept[self.number] = data
        self._sent += len(data)

    def note_receipt(self, number: int, consumed: int) -> None:
        """The receiver has all batches up to `number`, and has consumed so many bytes."""
        for received in [each for each in self._kept if each <= number]:
            del self._kept[received]
        self._consumed = max(self._consumed, min(consumed, self._sent))

    def has_all_after(self, number: int) -> bool:
        """Whether every batch after this one is still kept."""
        return number <= self.number and next(iter(self._kept), self.number + 1) <= number + 1

    def after(self, number: int) -> tuple[bytes, ...]:
        """The batches after this one, to be sent again."""
        return tuple(data for each, data in self._kept.items() if each > number)


@dataclass(slots=True)
class ReceivingWindow:
    """The receiver's end: it takes batches in order, and knows what to ask for again."""

    limit: int = WINDOW_BYTES
    # The number of the last batch that was taken, and the bytes that were consumed.
    number: int = 0
    consumed: int = 0
    _receipted: int = 0
    # After which batch it has asked for more.
    _asked_after: int = -1

    def accept(self, number: int) -> bool:
        """Count this batch as taken, if it is the next one. False: drop it, because it is a double or after a gap."""
        if number != self.number + 1:
            return False
        self.number = number
        return True

    def mark_gap(self, number: int) -> bool:
        """Note the gap that a batch with this number shows. True: ask for what is missing. False: that was done, or there is none."""
        if number <= self.number + 1 or self._asked_after == self.number:
            return False
        self._asked_after = self.number
        return True

    def is_behind(self, sent: int, number_then: int) -> bool:
        """Whether a batch is lost: the sender has sent more, and none came since this end had `number_then` batches."""
        return sent > self.number == number_then

    def note_consumed(self, size: int) -> bool:
        """So many bytes are consumed. Whether it is time for a receipt."""
        self.consumed += size
        if self.consumed - self._receipted < self.limit // _RECEIPT_PART:
            return False
        self._receipted = self.consumed
        return True
