"""Messages that JetStream stores: compare-and-set, reads, deletion; and errors with names that say what to do.

A message without an acknowledgement may have been stored. So whoever writes reads back before deciding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import nats.errors
import nats.js.errors
from nats.js.api import RawStreamMsg

from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer

__all__ = ["StoredMessage", "WrongSequence", "erase", "last_stored", "naming_errors", "put"]

# The server's own sign that a message stands for one that is gone.
_MARKER = "Nats-Marker-Reason"
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_WRONG_SEQUENCE = 10071
# The election of a stream's leader takes up to eight seconds, and nothing is answered meanwhile. A caller that gets no
# answer reads back and tries again, so it does not wait for all of that.
ANSWER_SECONDS = 3.0


class WrongSequence(Exception):
    """Nothing was stored: the subject's last message is another one than the sender expects."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is stored."""

    sequence: int
    subject: str
    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_marker(self) -> bool:
        """Whether it only says that another message is gone."""
        return _MARKER in self.headers


async def put(
    connection: FleetConnection,
    subject: str,
    data: bytes,
    *,
    expected: int | None = None,
    headers: Mapping[str, str] | None = None,
    ttl: int | None = None,
    seconds: float = ANSWER_SECONDS,
) -> int:
    """Store a message, if the subject's last one has the sequence number `expected` (0: there is none).

    Returns its sequence number. `ttl`: it is deleted after so many seconds. Raises `WrongSequence`, `FleetUnavailable`, or
    `NoAnswer`: then it may be stored or not.
    """
    all_headers = dict(headers or {})
    if expected is not None:
        all_headers[_EXPECTED] = str(expected)
    if not connection.is_connected:
        # It would wait in the client and be sent late, when the sender may be fenced.
        raise FleetUnavailable("There is no connection to NATS now.")
    with naming_errors(f"{subject} was not acknowledged within {seconds:g} seconds"):
        acknowledged = await connection.js.publish(
            subject, data, timeout=seconds, headers=all_headers or None, msg_ttl=ttl
        )
    return acknowledged.seq


async def last_stored(connection: FleetConnection, stream: str, subject: str) -> StoredMessage | None:
    """The last message of a subject, as the stream's leader has it. Raises `NoAnswer` or `FleetUnavailable`."""
    with naming_errors(f"{subject} could not be read in time"):
        try:
            return _stored(await connection.js.get_last_msg(stream, subject))
        except nats.js.errors.NotFoundError as error:
            _check_found(stream, error)
            return None


async def erase(connection: FleetConnection, stream: str, sequence: int) -> None:
    """Delete a message, and overwrite it in the server's files. Does nothing if it is gone."""
    with naming_errors("a deletion was not answered in time"):
        try:
            await connection.js.delete_msg(stream, sequence)
        except (nats.js.errors.NotFoundError, nats.js.errors.BadRequestError) as error:
            if error.err_code not in _NO_MESSAGE:
                raise


# "no message found", "sequence not found", "message delete failed" of one that is gone.
_NO_MESSAGE = (10037, 10043, 10057)
_NO_STREAM = 10059


def _check_found(stream: str, error: nats.js.errors.APIError) -> None:
    if error.err_code == _NO_STREAM:
        raise FleetUnavailable(f"NATS has no stream {stream}. Run `dragoman fleet init`.") from error


def _stored(message: RawStreamMsg) -> StoredMessage:
    return StoredMessage(
        message.seq or 0, message.subject or "", message.data or b"", dict(message.headers or {})
    )


@contextmanager
def naming_errors(late: str) -> Iterator[None]:
    """Raise our errors for those of the client."""
    try:
        yield
    except nats.js.errors.APIError as error:
        if error.err_code == _WRONG_SEQUENCE:
            raise WrongSequence(error.description) from error
        if isinstance(error, nats.js.errors.ServiceUnavailableError):
            raise FleetUnavailable("JetStream has no leader now, or is not enabled.") from error
        raise FleetUnavailable(f"JetStream refuses: {error.description}.") from error
    except nats.js.errors.NoStreamResponseError as error:
        raise FleetUnavailable(
            "No stream of NATS takes this now: it has no leader, or there is none (`dragoman fleet init`)."
        ) from error
    except (nats.errors.TimeoutError, TimeoutError) as error:
        raise NoAnswer(late) from error
    except (nats.errors.Error, OSError) as error:
        raise FleetUnavailable(f"NATS cannot be used now: {error}.") from error
