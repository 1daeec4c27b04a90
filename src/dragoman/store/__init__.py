"""What outlives the process, in one SQLite file."""

from dragoman.store.approvals import ApprovalStore, StoredApproval
from dragoman.store.database import Database, StoreError, private_folder

__all__ = ["ApprovalStore", "Database", "StoreError", "StoredApproval", "private_folder"]
