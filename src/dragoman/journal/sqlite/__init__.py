"""The store of journals in the SQLite file of the state folder."""
