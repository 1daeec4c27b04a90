"""The roles of a fleet: what each may say and hear, and credentials that hold them to it.

NATS checks every message against these permissions. A node has credentials of its own, with its name in them, so that it
hears only what is meant for it, and answers only what it was asked.

No role may publish to a subject that it subscribes to. Otherwise a node could send itself a request with any reply subject,
and its right to answer would let it publish there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    SECRETS,
    SIGNING_KEY,
    SNAPSHOT_SUBJECTS,
    SNAPSHOTS,
    STATUS,
    STORE_API,
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

_API = "$JS.API"
# How many messages an answer may have (one is 1 MB at most), and how long after the question.
_MOST_ANSWERS = 256
_ANSWER_NANOSECONDS = 120 * 1_000_000_000
_NO_LIMIT = -1
_ACCOUNT_LIMITS = ("subs", "data", "payload", "imports", "exports", "conn", "leaf")
# Where JetStream takes the chunks of a stream that is restored, and the acknowledgements of a backup's.
_BACKUPS = ("$JS.SNAPSHOT.RESTORE.>", "$JS.SNAPSHOT.ACK.>")
_STORAGE_LIMITS = ("mem_storage", "disk_storage", "streams", "consumer")
_SEEDS: tuple[KeyRole, ...] = ("operator", "account", "account", "account")


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
                (f"{_API}.>", *_BACKUPS, STATUS, GATEWAY_STATUS, drain_subject("*")),
                # The `nats` command has no prefix of its own. Nobody but operators has an inbox in their account.
                ("_INBOX.>",),
            )
        case "worker":
            return Permissions(
                (
                    parts_subject("*"),
                    f"{QUESTIONS}.{name}.>",
                    *_written(JOURNAL_SUBJECTS, SNAPSHOT_SUBJECTS, INDEX_SUBJECTS, AUDIT_SUBJECTS),
                    SIGNING_KEY,
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
    """Reads of messages, by number or by subject, and the numbers of a stream."""
    reads = ("DIRECT.GET.{}", "DIRECT.GET.{}.>", "STREAM.MSG.GET.{}", "STREAM.INFO.{}")
    direct = tuple(f"{_API}.{each.format(stream)}" for stream in streams for each in reads[:2])
    return (*direct, *(f"{STORE_API}.{each.format(stream)}" for stream in streams for each in reads))


def _erased(*streams: str) -> tuple[str, ...]:
    """Deletions of single messages. Index entries of a deleted conversation are purged together."""
    single = tuple(f"{STORE_API}.STREAM.MSG.DELETE.{stream}" for stream in streams)
    return (*single, f"{STORE_API}.STREAM.PURGE.{INDEX}") if INDEX in streams else single


@dataclass(frozen=True, slots=True)
class FleetKeys:
    """The keys that sign: the operator's signs accounts, and those of accounts sign credentials.

    JetStream is in an account of its own, to which only operators have credentials. It answers wherever a request says,
    without a look at permissions; in one account for all, a worker could have it answer at the subjects that delete
    streams. The account of the nodes imports exactly what nodes need of it.
    """

    operator: KeyPair
    system: KeyPair
    store: KeyPair
    nodes: KeyPair

    @classmethod
    def new(cls) -> FleetKeys:
        return cls(*map(KeyPair.new, _SEEDS))

    @classmethod
    def read(cls, text: str) -> FleetKeys:
        """Read what `text` wrote. Raises `CredentialsError`."""
        seeds = text.split()
        if len(seeds) != len(_SEEDS):
            raise CredentialsError(f"It has not {len(_SEEDS)} seeds.")
        return cls(*(KeyPair.of_seed(role, seed) for role, seed in zip(_SEEDS, seeds, strict=True)))

    def text(self) -> str:
        """The seeds, one a line. Who has them can make credentials of every role."""
        return "".join(f"{key.seed}\n" for key in (self.operator, self.system, self.store, self.nodes))

    def server_config(self) -> str:
        """For the configuration of every server: the operator, and the accounts that it has signed."""
        operator = signed_claims(
            self.operator,
            self.operator,
            "DRAGOMAN",
            {"type": "operator", "system_account": self.system.public},
        )
        nodes_have = (STATUS, GATEWAY_STATUS, drain_subject("*"))
        accounts = {
            self.system: self._account("SYSTEM", self.system),
            self.store: self._account(
                "DRAGOMAN_STORE",
                self.store,
                storage=_NO_LIMIT,
                services=_STORE_SERVICES,
                news=_STORE_NEWS,
                uses={self.nodes: nodes_have},
            ),
            self.nodes: self._account(
                "DRAGOMAN_NODES",
                self.nodes,
                services=nodes_have,
                uses={self.store: _STORE_SERVICES},
                hears={self.store: _STORE_NEWS},
            ),
        }
        preloaded = "".join(f"  {key.public}: {jwt}\n" for key, jwt in accounts.items())
        return (
            f"operator: {operator}\nsystem_account: {self.system.public}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{preloaded}}}\n"
        )

    def credentials(self, role: FleetRole, name: str) -> Credentials:
        """New ones for the node with this name, or for an operator."""
        user = KeyPair.new("user")
        claims = {**permissions(role, name).claims(), "tags": [role]}
        return Credentials(
            signed_claims(self.store if role == "admin" else self.nodes, user, name, claims), user
        )

    def system_credentials(self, name: str) -> Credentials:
        """New ones that can ask the servers about themselves, and nothing else."""
        user = KeyPair.new("user")
        claims = Permissions(("$SYS.REQ.SERVER.PING.>",), (f"_INBOX.{name}.>",)).claims()
        return Credentials(signed_claims(self.system, user, name, claims), user)

    def _account(
        self,
        name: str,
        key: KeyPair,
        *,
        storage: int = 0,
        services: Iterable[str] = (),
        news: Iterable[str] = (),
        uses: Mapping[KeyPair, Iterable[str]] = {},
        hears: Mapping[KeyPair, Iterable[str]] = {},
    ) -> str:
        """What an account may store, what it offers to others, and what it takes from them."""
        limits = dict.fromkeys(_ACCOUNT_LIMITS, _NO_LIMIT) | dict.fromkeys(_STORAGE_LIMITS, storage)
        exports = [
            # Several messages may answer one request.
            *(
                {"name": each, "subject": each, "type": "service", "response_type": "Stream"}
                for each in dict.fromkeys(map(_in_store, services))
            ),
            *({"name": each, "subject": each, "type": "stream"} for each in news),
        ]
        imports = [
            {
                "name": each,
                "subject": _in_store(each),
                "local_subject": each,
                "account": owner.public,
                "type": kind,
            }
            for kind, taken in (("service", uses), ("stream", hears))
            for owner, subjects in taken.items()
            for each in subjects
        ]
        claims: dict[str, object] = {
            "type": "account",
            "limits": {**limits, "wildcards": True},
            "exports": exports,
            "imports": imports,
        }
        return signed_claims(self.operator, key, name, claims)


def _in_store(subject: str) -> str:
    """Where JetStream's own account has what nodes use."""
    return _API + subject.removeprefix(STORE_API) if subject.startswith(f"{STORE_API}.") else subject


# What nodes use of JetStream: reads and writes of messages. Nothing that makes, changes or deletes a stream, and no
# consumers, which send what is stored to any subject.
_STORE_SERVICES = (
    *_written(JOURNAL_SUBJECTS, SNAPSHOT_SUBJECTS, INDEX_SUBJECTS, AUDIT_SUBJECTS),
    *_written(LEASE_SUBJECTS, RESPONSE_SUBJECTS),
    SIGNING_KEY,
    *_read(JOURNALS, SNAPSHOTS, INDEX, LEASES, RESPONSES, SECRETS, AUDIT),
    *_erased(JOURNALS, SNAPSHOTS, INDEX, RESPONSES),
)
_STORE_NEWS = (f"{NEWS}.>",)
