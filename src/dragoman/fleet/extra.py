"""The libraries that only a fleet needs: the extra `fleet`."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["missing_extra"]

_MODULES = ("nats", "nacl")


def missing_extra() -> str | None:
    """A sentence that says what to install, if something is missing."""
    missing = [name for name in _MODULES if find_spec(name) is None]
    if not missing:
        return None
    return (
        f"a fleet needs libraries that are not installed ({', '.join(missing)}): "
        "pip install 'dragoman[fleet]'"
    )
