"""Persistent state, in one SQLite file."""

from dragoman.store.agents import AgentStore
from dragoman.store.approvals import ApprovalStore, StoredApproval
from dragoman.store.database import Database, StoreError, private_folder
from dragoman.store.keys import signing_key
from dragoman.store.responses import ResponseStore, StoredResponse

__all__ = [
    "AgentStore",
    "ApprovalStore",
    "Database",
    "ResponseStore",
    "StoreError",
    "StoredApproval",
    "StoredResponse",
    "private_folder",
    "signing_key",
]
