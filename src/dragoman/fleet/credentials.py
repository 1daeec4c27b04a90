"""The roles of a fleet: what each may say and hear, and credentials that hold them to it.

NATS checks every message against these permissions. A node has credentials of its own, with its name in them, so that it
hears only what is meant for it, and answers only what it was asked.

A role that could publish where it also listens could write to any subject: it would send itself a request whose answer
belongs there, and a node may answer what it hears. So no role has a subject on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from dragoman.fleet.nkeys import Credentials, CredentialsError, KeyPair, KeyRole, signed_claims
from dragoman.fleet.subjects import (
    ALL_QUESTIONS,
    AUDIT,
    AUDIT_SUBJECTS,
    BIDS,
    GATEWAY_STATUS,
    INDEX,
    INDEX_SUBJECTS,
    JOURNAL_SUBJECTS,
    JOURNALS,
    LEASE_SUBJECTS,
    LEASES,
    NEWS,
    NODES,
    PRESENCE,
    QUESTIONS,
    RESPONSE_SUBJECTS,
    RESPONSES,
    SECRET_SUBJECTS,
    SECRETS,
    SNAPSHOT_SUBJECTS,
    SNAPSHOTS,
    STATUS,
    decisions_subject,
    drain_subject,
    operations_subject,
    parts_subject,
    requests_subject,
    streams_subject,
)

__all__ = ["ROLES", "FleetKeys", "FleetRole", "Permissions", "permissions"]

FleetRole: TypeAlias = Literal["admin", "worker", "gateway"]
ROLES: tuple[FleetRole, ...] = get_args(FleetRole)

_ACCOUNT, _SYSTEM = "DRAGOMAN", "SYSTEM"
_API = "$JS.API"
# How many messages an answer may have (one is 1 MB at most), and how long after the question.
_MOST_ANSWERS = 256
_ANSWER_NANOSECONDS = 120 * 1_000_000_000
_NO_LIMIT = -1
_ACCOUNT_LIMITS = ("subs", "data", "payload", "imports", "exports", "conn", "leaf")
_STORAGE_LIMITS = ("mem_storage", "disk_storage", "streams", "consumer")
_SEEDS: tuple[KeyRole, KeyRole, KeyRole] = ("operator", "account", "account")


@dataclass(frozen=True, slots=True)
class Permissions:
    """Subjects, with NATS's wildcards. All others are forbidden."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    # Of `publish`: what is forbidden all the same.
    publish_not: tuple[str, ...] = ()

    def claims(self) -> dict[str, object]:
        """As the claims of a user say it, with the right to answer what it hears."""
        return {
            "type": "user",
            "pub": {"allow": self.publish, "deny": self.publish_not},
            "sub": {"allow": self.subscribe},
            "resp": {"max": _MOST_ANSWERS, "ttl": _ANSWER_NANOSECONDS},
            "subs": _NO_LIMIT,
            "data": _NO_LIMIT,
            "payload": _NO_LIMIT,
        }


def permissions(role: FleetRole, name: str) -> Permissions:
    """What the node with this name may do."""
    inbox = f"_INBOX.{name}.>"
    match role:
        case "admin":
            return Permissions(
                (f"{_API}.>", STATUS, GATEWAY_STATUS, drain_subject("*")),
                (inbox,),
            )
        case "worker":
            return Permissions(
                (
                    parts_subject("*"),
                    f"{QUESTIONS}.{name}.>",
                    *_written(JOURNAL_SUBJECTS, SNAPSHOT_SUBJECTS, INDEX_SUBJECTS, AUDIT_SUBJECTS),
                    *_written(SECRET_SUBJECTS),
                    f"{LEASE_SUBJECTS}.{name}",
                    *_read(JOURNALS, SNAPSHOTS, INDEX, LEASES, SECRETS),
                    *_erased(JOURNALS, SNAPSHOTS, INDEX),
                ),
                (f"{NODES}.{name}.>", f"{BIDS}.>", STATUS, ALL_QUESTIONS, PRESENCE, f"{NEWS}.>", inbox),
            )
        case "gateway":
            own = parts_subject(name)
            return Permissions(
                (
                    requests_subject("*"),
                    streams_subject("*"),
                    decisions_subject("*"),
                    operations_subject("*"),
                    f"{BIDS}.>",
                    STATUS,
                    ALL_QUESTIONS,
                    PRESENCE,
                    # Cancellations of background responses, at other gateways.
                    f"{parts_subject('*')}.>",
                    *_written(JOURNAL_SUBJECTS, SNAPSHOT_SUBJECTS, INDEX_SUBJECTS, AUDIT_SUBJECTS),
                    *_written(RESPONSE_SUBJECTS),
                    f"{LEASE_SUBJECTS}.{name}",
                    *_read(JOURNALS, SNAPSHOTS, INDEX, LEASES, RESPONSES, AUDIT),
                    *_erased(JOURNALS, SNAPSHOTS, INDEX, RESPONSES),
                ),
                (own, f"{own}.>", f"{QUESTIONS}.*.>", GATEWAY_STATUS, f"{NEWS}.>", inbox),
                publish_not=(f"{own}.>",),
            )


def _written(*subjects: str) -> tuple[str, ...]:
    return tuple(f"{each}.>" for each in subjects)


def _read(*streams: str) -> tuple[str, ...]:
    """Reads of messages, by number or by subject, and the numbers of a stream. No consumers: they send anywhere."""
    return tuple(
        subject
        for stream in streams
        for subject in (
            f"{_API}.DIRECT.GET.{stream}",
            f"{_API}.DIRECT.GET.{stream}.>",
            f"{_API}.STREAM.MSG.GET.{stream}",
            f"{_API}.STREAM.INFO.{stream}",
        )
    )


def _erased(*streams: str) -> tuple[str, ...]:
    return tuple(f"{_API}.STREAM.MSG.DELETE.{stream}" for stream in streams)


@dataclass(frozen=True, slots=True)
class FleetKeys:
    """The keys that sign: the operator's signs accounts, and the account's signs the credentials of nodes."""

    operator: KeyPair
    system: KeyPair
    account: KeyPair

    @classmethod
    def new(cls) -> FleetKeys:
        return cls(KeyPair.new("operator"), KeyPair.new("account"), KeyPair.new("account"))

    @classmethod
    def read(cls, text: str) -> FleetKeys:
        """Read what `text` wrote. Raises `CredentialsError`."""
        seeds = text.split()
        if len(seeds) != len(_SEEDS):
            raise CredentialsError("It has not three seeds.")
        return cls(*(KeyPair.of_seed(role, seed) for role, seed in zip(_SEEDS, seeds, strict=True)))

    def text(self) -> str:
        """The seeds, one a line. Who has them can make credentials of every role."""
        return "".join(f"{key.seed}\n" for key in (self.operator, self.system, self.account))

    def server_config(self) -> str:
        """For the configuration of every server: the operator, and the accounts that it has signed."""
        operator = signed_claims(
            self.operator,
            self.operator,
            _ACCOUNT,
            {"type": "operator", "system_account": self.system.public},
        )
        accounts = "".join(
            f"  {key.public}: {self._account(name, key)}\n"
            for name, key in ((_SYSTEM, self.system), (_ACCOUNT, self.account))
        )
        return (
            f"operator: {operator}\nsystem_account: {self.system.public}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{accounts}}}\n"
        )

    def credentials(self, role: FleetRole, name: str) -> Credentials:
        """New ones for the node with this name."""
        user = KeyPair.new("user")
        claims = {**permissions(role, name).claims(), "tags": [role]}
        return Credentials(signed_claims(self.account, user, name, claims), user)

    def system_credentials(self, name: str) -> Credentials:
        """New ones that can ask the servers about themselves, and nothing else."""
        user = KeyPair.new("user")
        claims = Permissions(("$SYS.REQ.SERVER.PING.>",), (f"_INBOX.{name}.>",)).claims()
        return Credentials(signed_claims(self.system, user, name, claims), user)

    def _account(self, name: str, key: KeyPair) -> str:
        storage = _NO_LIMIT if key is self.account else 0
        limits = dict.fromkeys(_ACCOUNT_LIMITS, _NO_LIMIT) | dict.fromkeys(_STORAGE_LIMITS, storage)
        return signed_claims(
            self.operator, key, name, {"type": "account", "limits": {**limits, "wildcards": True}}
        )
