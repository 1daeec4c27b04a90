"""What outlives the process, in one SQLite file."""

from dragoman.store.approvals import ApprovalStore, StoredApproval
from dragoman.store.conversations import ConversationStore, Holding, StoredConversation
from dragoman.store.database import Database, StoreError, private_folder

__all__ = [
    "ApprovalStore",
    "ConversationStore",
    "Database",
    "Holding",
    "StoreError",
    "StoredApproval",
    "StoredConversation",
    "private_folder",
]
