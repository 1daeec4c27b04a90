"""Persistent state, in one SQLite file."""

from dragoman.store.agents import AgentStore
from dragoman.store.approvals import ApprovalStore, StoredApproval
from dragoman.store.database import Database, StoreError, private_folder
from dragoman.store.keys import signing_key
from dragoman.store.responses import ResponseStore, StoredResponse, file_ids
from dragoman.store.sqlite_responses import SqliteResponses

__all__ = [
    "AgentStore",
    "ApprovalStore",
    "Database",
    "ResponseStore",
    "SqliteResponses",
    "StoreError",
    "StoredApproval",
    "StoredResponse",
    "file_ids",
    "private_folder",
    "signing_key",
]
