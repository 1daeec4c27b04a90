"""Child processes that end with us: supervised, each in its own process group, recorded in a ledger.

Everything needed from outside is importable from here.
"""

from dragoman.process.exit import Exit
from dragoman.process.identity import ProcessIdentity
from dragoman.process.ledger import Ledger, LedgerEntry
from dragoman.process.spawn import SpawnError, SpawnFailure
from dragoman.process.supervised import SupervisedProcess

__all__ = [
    "Exit",
    "Ledger",
    "LedgerEntry",
    "ProcessIdentity",
    "SpawnError",
    "SpawnFailure",
    "SupervisedProcess",
]
