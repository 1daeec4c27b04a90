"""Persistent state, in one SQLite file."""

from dragoman.store.agents import AgentStore
from dragoman.store.approvals import ApprovalStore, StoredApproval
from dragoman.store.conversations import ConversationStore, Holding, StoredConversation
from dragoman.store.database import Database, StoreError, private_folder
from dragoman.store.responses import ResponseStore, StoredResponse

__all__ = [
    "AgentStore",
    "ApprovalStore",
    "ConversationStore",
    "Database",
    "Holding",
    "ResponseStore",
    "StoreError",
    "StoredApproval",
    "StoredConversation",
    "StoredResponse",
    "private_folder",
]
