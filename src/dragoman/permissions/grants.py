"""Proof of an approval.

The call that asks for a permission carries a *nonce*: it selects the request that is pending, and proves nothing.
When the editor invokes the permission tool, a person has approved it; the invocation returns a *grant*, a token that is
made then, for that request, and used once. Only that token, found in the result of that very call, allows anything. An
ordinary result, an error, an edited input, a token of another call or of an hour ago: each is a refusal.

In a fleet, a gateway has copies of its workers' requests (`mirror`), so that its front ends ask as they always do. What is
proved there is proved to the gateway; the worker that has the request issues and redeems a grant of its own.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from dragoman.permissions.action import Action
from dragoman.permissions.decide import Ask

__all__ = ["GRANT_PREFIX", "Grants", "PendingPermission"]

_TOKEN_BYTES = 24
# So that a reader of a transcript sees what it is.
GRANT_PREFIX = "dragoman-grant-"


@dataclass(frozen=True, slots=True)
class PendingPermission:
    """A permission request that waits. Its owner may add what it needs to answer the agent (a subclass)."""

    call_id: str
    action: Action
    conversation: str
    # Why a person is asked, and what their answer can be.
    ask: Ask = field(default=Ask(), kw_only=True)


@dataclass(slots=True)
class _Held:
    pending: PendingPermission
    nonce: str
    token: str | None = None
    # A client has it as an item, whose id alone selects it.
    is_item: bool = False
    # It was redeemed, with success or not: nothing can be approved any more.
    is_decided: bool = False


@dataclass(slots=True)
class Grants:
    """The registry of all permission requests that wait for an answer. Each conversation bounds its own."""

    _by_nonce: dict[str, _Held] = field(default_factory=dict)
    _by_call: dict[str, _Held] = field(default_factory=dict)
    # Called with the call id of each request that a client gets as an item.
    on_item: Callable[[str], None] | None = None

    def __len__(self) -> int:
        return len(self._by_nonce)

    def open(self, pending: PendingPermission) -> str:
        """A permission waits from now on. Returns its nonce."""
        nonce = secrets.token_urlsafe(_TOKEN_BYTES)
        self._add(_Held(pending, nonce))
        return nonce

    def mirror(self, pending: PendingPermission, nonce: str, *, is_item: bool = False) -> None:
        """A request that waits at another node can be approved here from now on. One that can be already stays as it is."""
        if nonce not in self._by_nonce and pending.call_id not in self._by_call:
            self._add(_Held(pending, nonce, is_item=is_item))

    def _add(self, held: _Held) -> None:
        self._by_nonce[held.nonce] = held
        self._by_call[held.pending.call_id] = held

    def pending(self, nonce: object) -> PendingPermission | None:
        held = self._by_nonce.get(nonce) if isinstance(nonce, str) else None
        return held.pending if held else None

    def of_call(self, call_id: str) -> tuple[str, PendingPermission] | None:
        """What waits under this call id, with its nonce: for a client that answers by the call."""
        held = self._by_call.get(call_id)
        return (held.nonce, held.pending) if held is not None and not held.is_decided else None

    def show_as_item(self, nonce: object) -> None:
        """A client gets this request as an item from now on."""
        held = self._by_nonce.get(nonce) if isinstance(nonce, str) else None
        if held is not None and not held.is_item:
            held.is_item = True
            if self.on_item is not None:
                self.on_item(held.pending.call_id)

    def is_item(self, call_id: str) -> bool:
        """Whether a client has got the request under this call id as an item. Only then is an answer to one meant for it."""
        held = self._by_call.get(call_id)
        return held is not None and held.is_item

    def waiting(self, call_id: str) -> PendingPermission | None:
        """What waits under this call id, decided or not."""
        held = self._by_call.get(call_id)
        return held.pending if held is not None else None

    def of_conversation(self, conversation: str) -> tuple[PendingPermission, ...]:
        """Everything that waits in a conversation."""
        return tuple(
            held.pending for held in self._by_call.values() if held.pending.conversation == conversation
        )

    def issue(self, nonce: object, tool: str) -> str | None:
        """The person approved the dialog of this request. None when it is no longer, or never was, pending."""
        held = self._by_nonce.get(nonce) if isinstance(nonce, str) else None
        if held is None or tool != held.pending.action.permission_tool:
            return None
        held.token = GRANT_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        return held.token

    def redeem(self, call_id: str, text: str) -> bool:
        """Whether this result grants that call. The first attempt decides it, either way."""
        held = self._by_call.get(call_id)
        if held is None or held.is_decided:
            return False
        is_granted = self.proves(call_id, text)
        held.is_decided = True
        del self._by_nonce[held.nonce]
        return is_granted

    def proves(self, call_id: str, text: str) -> bool:
        """Whether this result would grant that call. It decides nothing."""
        held = self._by_call.get(call_id)
        if held is None or held.is_decided or held.token is None:
            return False
        # Hooks may put text around a result; the token is a separate word in it.
        token = held.token.encode()
        return any(hmac.compare_digest(word.encode(), token) for word in _words(text))

    def close(self, call_id: str) -> PendingPermission | None:
        """Remove a request that is answered, withdrawn, cancelled or timed out. What is approved later grants nothing."""
        held = self._by_call.pop(call_id, None)
        if held is None:
            return None
        self._by_nonce.pop(held.nonce, None)
        return held.pending


def _words(text: str) -> list[str]:
    return "".join(
        character if character.isalnum() or character in "-_" else " " for character in text
    ).split()
