"""The subjects and streams of a fleet.

The permissions of the roles are made of these names (`credentials`), so they are in one place.
"""

from __future__ import annotations

import re

__all__ = [
    "ALL_QUESTIONS",
    "AUDIT",
    "AUDIT_SUBJECTS",
    "BIDS",
    "EVERY_QUESTION",
    "GATEWAYS",
    "GATEWAY_STATUS",
    "INDEX",
    "INDEX_SUBJECTS",
    "JOURNALS",
    "JOURNAL_SUBJECTS",
    "LEASES",
    "LEASE_SUBJECTS",
    "NEWS",
    "NODES",
    "PRESENCE",
    "QUESTIONS",
    "RESPONSES",
    "RESPONSE_SUBJECTS",
    "SECRETS",
    "SIGNING_KEY",
    "SNAPSHOTS",
    "SNAPSHOT_SUBJECTS",
    "STATUS",
    "STORE_API",
    "bids_subject",
    "cancels_subject",
    "decisions_subject",
    "drain_subject",
    "is_node_name",
    "operations_subject",
    "parts_subject",
    "questions_subject",
    "requests_subject",
    "streams_subject",
    "subject_token",
]

# The streams of JetStream, and the subjects of each: `dg.j.ID`.
JOURNALS, JOURNAL_SUBJECTS = "DRAGOMAN_JOURNALS", "dg.j"
SNAPSHOTS, SNAPSHOT_SUBJECTS = "DRAGOMAN_SNAPSHOTS", "dg.s"
AUDIT, AUDIT_SUBJECTS = "DRAGOMAN_AUDIT", "dg.a"
INDEX, INDEX_SUBJECTS = "DRAGOMAN_INDEX", "dg.i"
LEASES, LEASE_SUBJECTS = "DRAGOMAN_LEASES", "dg.l"
RESPONSES, RESPONSE_SUBJECTS = "DRAGOMAN_RESPONSES", "dg.r"
# Keys that only workers read.
SECRETS, SIGNING_KEY = "DRAGOMAN_SECRETS", "dg.k.signing"

# Where nodes find what they need of JetStream's interface: it is in another account (`credentials`).
STORE_API = "dg.api"

# Core subjects. Workers take requests, receipts, decisions and operations below `dg.node.NAME`, gateways take parts at
# `dg.gate.NAME`, and cancellations of background responses below it.
NODES = "dg.node"
GATEWAYS = "dg.gate"
BIDS = "dg.bid"
# The server publishes here, after it has stored a message of a journal: `dg.news.ID`, the headers only.
NEWS = "dg.news"
# Every worker answers a request here with its status, and every gateway one there. Gateways ask workers, so they do not
# listen at the same subject (`credentials`).
STATUS = "dg.status"
GATEWAY_STATUS = "dg.status.gateway"
# Workers publish questions for the console below `dg.question.NAME`. A message at `dg.question.all` makes them publish all
# that wait.
QUESTIONS = "dg.question"
ALL_QUESTIONS = f"{QUESTIONS}.all"
# What workers publish. A worker's name has no dot, so `ALL_QUESTIONS` is no match.
EVERY_QUESTION = f"{QUESTIONS}.*.news"
# Gateways publish whether a person can be reached.
PRESENCE = "dg.present"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9-]")


def is_node_name(text: str) -> bool:
    """Whether a node can have this name: it is one token of a subject."""
    return _NAME.fullmatch(text) is not None


def subject_token(text: str) -> str:
    """Any text as one token of a subject. Different texts have different tokens."""
    return _NOT_PLAIN.sub(lambda found: f"_{ord(found[0]):x}_", text)


def bids_subject(model: str) -> str:
    """Gateways ask here which workers take a request for a model."""
    return f"{BIDS}.{subject_token(model)}"


def requests_subject(worker: str) -> str:
    return f"{NODES}.{worker}.request"


def streams_subject(worker: str) -> str:
    """Pings, receipts, cancellations: all about streams that exist."""
    return f"{NODES}.{worker}.stream"


def questions_subject(worker: str) -> str:
    return f"{QUESTIONS}.{worker}.news"


def decisions_subject(worker: str) -> str:
    return f"{NODES}.{worker}.decide"


def operations_subject(worker: str) -> str:
    """What a console asks of a worker: stop a turn, park an agent."""
    return f"{NODES}.{worker}.operate"


def drain_subject(worker: str) -> str:
    """An operator asks a worker to end when what is under way is done."""
    return f"{NODES}.{worker}.drain"


def parts_subject(gateway: str) -> str:
    return f"{GATEWAYS}.{gateway}"


def cancels_subject(gateway: str) -> str:
    """Other gateways ask here to cancel a background response that this one runs."""
    return f"{GATEWAYS}.{gateway}.cancel"
