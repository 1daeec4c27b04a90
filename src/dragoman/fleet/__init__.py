"""Several machines as one Dragoman, on NATS: `docs/fleet-design.md`. Imported only with `[fleet]` in the configuration."""
