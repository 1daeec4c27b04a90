"""The streams of JetStream that a fleet has: made once, by an operator."""

from __future__ import annotations

import asyncio
import secrets
from datetime import timedelta
from typing import Literal

from nats.js.api import DiscardPolicy, RePublish, StorageType, StreamConfig
from nats.js.errors import NotFoundError

from dragoman.conversations.ids import KEY_BYTES
from dragoman.fleet.connection import FleetConnection, FleetUnavailable, NoAnswer
from dragoman.fleet.responses import responses_stream
from dragoman.fleet.stored import StoredStream, WrongSequence, naming_errors
from dragoman.fleet.subjects import (
    AUDIT,
    AUDIT_SUBJECTS,
    INDEX,
    INDEX_SUBJECTS,
    JOURNAL_SUBJECTS,
    JOURNALS,
    LEASE_SUBJECTS,
    LEASES,
    NEWS,
    RESPONSES,
    SECRETS,
    SIGNING_KEY,
    SNAPSHOT_SUBJECTS,
    SNAPSHOTS,
)

__all__ = ["check_streams", "make_streams", "signing_key"]

# What `credentials` lets the roles look at. The key's stream is not among them: who reads the key sees whether it is there.
_SEEN_BY = {
    "worker": (JOURNALS, SNAPSHOTS, INDEX, LEASES),
    "gateway": (JOURNALS, SNAPSHOTS, INDEX, LEASES, RESPONSES, AUDIT),
}
# For what JetStream says of a stream when a node starts.
_ANSWER_SECONDS = 5.0
# What is kept for a shorter time than this would be gone while it is used.
_SHORTEST = timedelta(days=1)


def _configurations(replicas: int, keep: timedelta | None) -> list[StreamConfig]:
    """`keep`: for how long what only saves time, or belongs to unused conversations, stays."""
    age = max(keep, _SHORTEST).total_seconds() if keep is not None else None

    def stream(name: str, *subjects: str, **more: object) -> StreamConfig:
        return StreamConfig(
            name=name,
            subjects=list(subjects),
            storage=StorageType.FILE,
            num_replicas=replicas,
            allow_direct=True,
            **more,  # type: ignore[arg-type]
        )

    return [
        # A journal's messages stay until the journal is deleted. If there is a limit and it is reached, appends fail.
        stream(
            JOURNALS,
            f"{JOURNAL_SUBJECTS}.*",
            f"{JOURNAL_SUBJECTS}.*.part",
            discard=DiscardPolicy.NEW,
            allow_rollup_hdrs=True,
            republish=RePublish(f"{JOURNAL_SUBJECTS}.*", f"{NEWS}.{{{{wildcard(1)}}}}", headers_only=True),
        ),
        stream(SNAPSHOTS, f"{SNAPSHOT_SUBJECTS}.*", max_msgs_per_subject=1, max_age=age),
        # Nobody deletes what was decided, not even a node.
        stream(AUDIT, f"{AUDIT_SUBJECTS}.*", discard=DiscardPolicy.NEW, deny_delete=True, deny_purge=True),
        stream(INDEX, f"{INDEX_SUBJECTS}.*.*", max_msgs_per_subject=1, max_age=age),
        stream(LEASES, f"{LEASE_SUBJECTS}.*", max_msgs_per_subject=1, allow_msg_ttl=True),
        responses_stream(keep, replicas),
        # What is stored first stays: an agent that has its worker's credentials replaces no key.
        stream(
            SECRETS,
            SIGNING_KEY,
            max_msgs_per_subject=1,
            discard=DiscardPolicy.NEW,
            discard_new_per_subject=True,
            deny_delete=True,
            deny_purge=True,
        ),
    ]


async def make_streams(connection: FleetConnection, replicas: int, keep: timedelta | None) -> None:
    """Create the streams, or give those that exist these settings. Raises `FleetUnavailable`."""
    for config in _configurations(replicas, keep):
        with naming_errors(f"{config.name} was not made in time"):
            try:
                await connection.js.stream_info(config.name or "")
            except NotFoundError:
                await connection.js.add_stream(config)
            else:
                await connection.js.update_stream(config)


async def check_streams(connection: FleetConnection, role: Literal["worker", "gateway"]) -> None:
    """Raises `FleetUnavailable` if a stream is missing that a node of this role may look at."""
    await asyncio.gather(*(_check_stream(connection, name) for name in _SEEN_BY[role]))


async def _check_stream(connection: FleetConnection, name: str) -> None:
    try:
        is_there = await StoredStream(connection, name).info("", 0, _ANSWER_SECONDS) is not None
    except NoAnswer as error:
        raise FleetUnavailable(
            f"JetStream does not answer: {name} has no leader now. Try again in some seconds."
        ) from error
    if not is_there:
        raise FleetUnavailable(
            f"NATS has no stream {name}. Run `dragoman fleet init` with an operator's credentials."
        )


async def signing_key(connection: FleetConnection) -> bytes:
    """The key for markers and call ids. All workers have the same: the first makes it. Raises `FleetUnavailable`."""
    stream = StoredStream(connection, SECRETS)
    try:
        while True:
            stored = await stream.last(SIGNING_KEY)
            if stored is not None:
                if len(stored.data) != KEY_BYTES:
                    raise FleetUnavailable(
                        f"The key at {SIGNING_KEY} in {SECRETS} has {len(stored.data)} bytes, not {KEY_BYTES}."
                    )
                return stored.data
            try:
                await stream.put(SIGNING_KEY, secrets.token_bytes(KEY_BYTES), expected=0)
            except WrongSequence:
                # Another worker was faster.
                continue
    except NoAnswer as error:
        raise FleetUnavailable(f"JetStream does not answer: {error}.") from error
