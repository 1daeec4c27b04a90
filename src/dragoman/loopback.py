"""Hosts that are this machine itself: what is sent to them stays on it."""

from __future__ import annotations

import ipaddress

__all__ = ["is_loopback"]


def is_loopback(host: str) -> bool:
    """As in a setting or an address: a name, an IPv4 address, or an IPv6 address with or without brackets."""
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if is_bracketed else host)
    except ValueError:
        # The name with a dot behind it is the same name, written in full.
        return host.lower() in ("localhost", "localhost.")
    return address.is_loopback and (address.version == 6 or not is_bracketed)  # noqa: PLR2004 - IPv6
