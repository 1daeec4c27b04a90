"""The demo, which needs no account and no network."""
