"""The store of journals in JetStream, for a fleet: one history for all machines."""
