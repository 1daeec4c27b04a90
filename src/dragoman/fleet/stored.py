"""Messages that JetStream stores: compare-and-set, reads, deletion; and errors with names that say what to do.

A message without an acknowledgement may have been stored. So whoever writes reads back before deciding.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import nats.errors
import nats.js.errors
from nats.js.api import RawStreamMsg, StreamInfo

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer, NobodyThere, Received

__all__ = [
    "ANSWER_SECONDS",
    "ELECTION_SECONDS",
    "TIME",
    "RefusedByServer",
    "StoredMessage",
    "StoredStream",
    "WrongSequence",
    "naming_errors",
    "through_election",
]

_T = TypeVar("_T")

# The server's own sign that a message stands for one that is gone.
_TOMBSTONE = "Nats-Marker-Reason"
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
# The second: another message for the subject is on its way to the replicas of a cluster.
_WRONG_SEQUENCES = (10071, 10164)
# The election of a stream's leader takes up to eight seconds, and nothing is answered meanwhile. A caller that gets no
# answer reads back and tries again, so it does not wait for all of that.
ANSWER_SECONDS = 3.0
# So long a request of a person waits for a stream that has no leader.
ELECTION_SECONDS = 12.0
_AGAIN_SECONDS = 0.25
# What one request reads at most. More is read by further requests.
_BATCH = 1_000
_BATCH_BYTES = 16 * 1024 * 1024
# When the message was stored, in an answer to a direct read.
TIME = "Nats-Time-Stamp"
_PENDING = "Nats-Num-Pending"
# "no message found", "sequence not found", "message delete failed" of one that is gone.
_NO_MESSAGE = (10037, 10043, 10057)
_NO_STREAM = 10059


class WrongSequence(Exception):
    """Nothing was stored: the subject's last message is another one than the sender expects."""


class RefusedByServer(FleetUnavailable):
    """JetStream says no, and will say so again."""


async def through_election(
    work: Callable[[], Awaitable[_T]], goes_on: Callable[[], bool] = lambda: True
) -> _T:
    """Do what may be repeated, until the streams that it uses have leaders, for as long as an election takes.

    `goes_on`: whether it is worth trying once more. Raises `FleetUnavailable` or `NoAnswer`: that of the last try.
    """
    limit = time.monotonic() + ELECTION_SECONDS
    while True:
        try:
            return await work()
        except RefusedByServer:
            raise
        except (FleetUnavailable, NoAnswer):
            if time.monotonic() >= limit or not goes_on():
                raise
        await asyncio.sleep(_AGAIN_SECONDS)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is stored."""

    sequence: int
    subject: str
    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_tombstone(self) -> bool:
        """Whether it only says that another message is gone."""
        return _TOMBSTONE in self.headers


@dataclass(frozen=True, slots=True)
class StoredStream:
    """The messages of one stream of JetStream. All calls raise `NoAnswer` or `FleetUnavailable`."""

    connection: FleetConnection
    name: str

    # Writes.

    async def put(
        self,
        subject: str,
        data: bytes,
        *,
        expected: int | None = None,
        headers: Mapping[str, str] | None = None,
        ttl: int | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> int:
        """Store a message, if the subject's last one has the sequence number `expected` (0: there is none).

        Returns its sequence number. `ttl`: it is deleted after so many seconds. Raises `WrongSequence`, `FleetUnavailable`,
        or `NoAnswer`: then it may be stored or not.
        """
        all_headers = dict(headers or {})
        if expected is not None:
            all_headers[_EXPECTED] = str(expected)
        if not self.connection.is_connected:
            # It would wait in the client and be sent late, when the sender may be fenced.
            raise FleetUnavailable("There is no connection to NATS now.")
        with naming_errors(f"{subject} was not acknowledged within {seconds:g} seconds"):
            acknowledged = await self.connection.js.publish(
                subject, data, timeout=seconds, headers=all_headers or None, msg_ttl=ttl
            )
        return acknowledged.seq

    async def erase(self, sequence: int) -> None:
        """Delete a message, and overwrite it in the server's files. Does nothing if it is gone."""
        with naming_errors("a deletion was not answered in time"):
            try:
                await self.connection.js.delete_msg(self.name, sequence)
            except nats.js.errors.APIError as error:
                if error.err_code not in _NO_MESSAGE:
                    raise

    # Reads, as the stream's leader has it.

    async def last(self, subject: str, seconds: float = ANSWER_SECONDS) -> StoredMessage | None:
        """The last message of a subject."""
        with naming_errors(f"{subject} could not be read within {seconds:g} seconds"):
            try:
                async with asyncio.timeout(seconds):
                    return _as_stored(await self.connection.js.get_last_msg(self.name, subject))
            except nats.js.errors.NotFoundError as error:
                if error.err_code == _NO_STREAM:
                    raise RefusedByServer(
                        f"NATS has no stream {self.name}. Run `dragoman fleet init`."
                    ) from error
                return None

    async def next(self, subjects: str, after: int = 0) -> StoredMessage | None:
        """The first message after this one whose subject fits."""
        return await self._of_leader(after + 1, subjects)

    async def _of_leader(self, sequence: int, subjects: str | None = None) -> StoredMessage | None:
        is_next = subjects is not None
        with naming_errors(f"{subjects or sequence} could not be read in time"):
            try:
                return _as_stored(
                    await self.connection.js.get_msg(self.name, sequence, subject=subjects, next=is_next)
                )
            except nats.js.errors.NotFoundError:
                return None

    async def info(
        self, subjects: str, offset: int, seconds: float = ANSWER_SECONDS
    ) -> tuple[StreamInfo, int] | None:
        """The state of the stream with the subjects that fit, from this one on; and how many fit. None: there is no stream."""
        request = json.dumps({"subjects_filter": subjects, "offset": offset}).encode()
        place = f"{self.connection.api}.STREAM.INFO.{self.name}"
        with naming_errors(f"{self.name} could not be looked at within {seconds:g} seconds"):
            try:
                data = await self.connection.request(place, request, seconds)
                answer = msgspec.json.decode(data, type=dict[str, Any])
                if "error" in answer:
                    nats.js.errors.APIError.from_error(answer["error"])
                return StreamInfo.from_response(answer), answer.get("total", 0)
            except NobodyThere as error:
                raise FleetUnavailable("NATS has no JetStream, or this account may not use it.") from error
            except nats.js.errors.NotFoundError:
                return None
            except (msgspec.MsgspecError, TypeError) as error:
                raise FleetUnavailable(
                    f"JetStream describes {self.name} in a form that is not known: {error}."
                ) from error

    # Reads that a replica may answer, which lags behind the leader.

    async def at(self, sequence: int) -> StoredMessage | None:
        """The message with this sequence number."""
        found = await self._direct({"seq": sequence})
        return found[0] if found else None

    async def after(self, subject: str, sequence: int = 0) -> list[StoredMessage]:
        """All messages of a subject after this one, in order."""
        return await self._all_pages({"next_by_subj": subject, "seq": sequence + 1})

    async def first(self, subjects: str, count: int) -> list[StoredMessage]:
        """The first messages of these subjects, in order, and no more than so many."""
        return await self._direct({"next_by_subj": subjects, "seq": 1, "batch": count})

    async def since(self, subjects: str, start: datetime) -> list[StoredMessage]:
        """All messages of these subjects that were stored since then, in order."""
        return await self._all_pages({"next_by_subj": subjects, "start_time": start.isoformat()})

    async def last_of_each(self, subjects: Sequence[str]) -> list[StoredMessage]:
        """The last messages of these subjects, which may have wildcards; at most 1,024 in all."""
        if not subjects:
            return []
        found = await self._all_pages({"multi_last": list(subjects), "seq": 1})
        # What is replaced while this reads comes again, on a later page.
        return list({message.subject: message for message in found}.values())

    async def last_of_all(self, subjects: str) -> list[StoredMessage]:
        """The last message of each subject that fits.

        Without a consumer: no node may create one, because a consumer delivers wherever its creator says.
        """
        found: list[StoredMessage] = []
        names = await self._subjects(subjects)
        for start in range(0, len(names), _BATCH):
            found += await self.last_of_each(names[start : start + _BATCH])
        return found

    async def _subjects(self, subjects: str) -> list[str]:
        """All subjects with messages that fit."""
        found: dict[str, int] = {}
        while True:
            described = await self.info(subjects, len(found))
            if described is None:
                raise self._missing()
            info, total = described
            page = info.state.subjects or {}
            found |= page
            if not page or len(found) >= total:
                return list(found)

    async def _all_pages(self, request: dict[str, object]) -> list[StoredMessage]:
        """What a request finds, in the order of the stream. A page after the first begins behind the last message."""
        found: list[StoredMessage] = []
        while True:
            page = await self._direct({**request, "batch": _BATCH, "max_bytes": _BATCH_BYTES})
            found += page
            if not page or page[-1].headers.get(_PENDING) == "0":
                return found
            request = {**request, "seq": page[-1].sequence + 1}
            request.pop("start_time", None)

    async def _direct(self, request: dict[str, object]) -> list[StoredMessage]:
        is_batch = "batch" in request
        try:
            answers = await self.connection.request_many(
                f"$JS.API.DIRECT.GET.{self.name}",
                json.dumps(request).encode(),
                ANSWER_SECONDS,
                lambda received: not is_batch or "Status" in received.headers,
            )
        except NobodyThere as error:
            raise self._missing() from error
        status = answers[-1].headers.get("Status")
        if status not in (None, "204", "404"):
            raise FleetUnavailable(f"JetStream refuses: {answers[-1].headers.get('Description', status)}.")
        return [_direct_message(each) for each in answers if "Status" not in each.headers]

    def _missing(self) -> FleetUnavailable:
        return FleetUnavailable(
            f"NATS has no stream {self.name}, or it has no leader now. Run `dragoman fleet init` if it was never made."
        )

    # Reads from the server that answers first, which may be a moment behind, and from the leader if that one has nothing.

    async def nearest_last(self, subject: str) -> StoredMessage | None:
        """The last message of a subject."""
        found = await self.last_of_each([subject])
        return found[0] if found else await self.last(subject)

    async def nearest_first(self, subjects: str) -> StoredMessage | None:
        """The first message whose subject fits."""
        found = await self.first(subjects, 1)
        return found[0] if found else await self.next(subjects)

    async def nearest_at(self, sequence: int) -> StoredMessage | None:
        """The message with this sequence number. None: it is gone."""
        return await self.at(sequence) or await self._of_leader(sequence)


def _direct_message(received: Received) -> StoredMessage:
    headers = received.headers
    return StoredMessage(int(headers["Nats-Sequence"]), headers["Nats-Subject"], received.data, headers)


def _as_stored(message: RawStreamMsg) -> StoredMessage:
    return StoredMessage(
        message.seq or 0, message.subject or "", message.data or b"", dict(message.headers or {})
    )


@contextmanager
def naming_errors(late: str) -> Iterator[None]:
    """Raise our errors for those of the client."""
    try:
        yield
    except nats.js.errors.APIError as error:
        if error.err_code in _WRONG_SEQUENCES:
            raise WrongSequence(error.description) from error
        if isinstance(error, nats.js.errors.ServiceUnavailableError):
            raise FleetUnavailable("JetStream has no leader now, or is not enabled.") from error
        raise RefusedByServer(f"JetStream refuses: {error.description}.") from error
    except nats.js.errors.NoStreamResponseError as error:
        raise FleetUnavailable(
            "No stream of NATS takes this now: it has no leader, or there is none (`dragoman fleet init`)."
        ) from error
    except (nats.errors.TimeoutError, TimeoutError) as error:
        raise NoAnswer(late) from error
    except (nats.errors.Error, OSError) as error:
        raise FleetUnavailable(f"NATS cannot be used now: {error}.") from error
