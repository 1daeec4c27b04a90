"""Context keys: facts about the place where tools are offered.

A front end sets them (`workspaceFolderCount`, `debugState`), and `when` clauses ask for them. Code that
has evaluated a clause subscribes with `on_change`, and evaluates it again.

Values are copied: a list that its owner changes later does not change a key without a notification. Everything here belongs to one event loop.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

__all__ = ["MAX_ROUNDS", "ContextKeys", "ContextValue"]

_log = logging.getLogger(__name__)

_Scalar: TypeAlias = bool | int | float | str
ContextValue: TypeAlias = _Scalar | tuple[str, ...] | Mapping[str, _Scalar]
_Subscriber: TypeAlias = Callable[[frozenset[str]], object]

# A subscriber may set keys, which causes another round of notifications. Keys that depend on keys settle in two or
# three rounds; more rounds mean two subscribers that undo each other's work.
MAX_ROUNDS = 20


class ContextKeys(Mapping[str, ContextValue]):
    """The keys and their values: booleans, finite numbers, text, lists of text, and objects of scalars."""

    def __init__(self) -> None:
        self._values: dict[str, ContextValue] = {}
        self._subscribers: dict[object, _Subscriber] = {}
        self._pending: frozenset[str] = frozenset()
        self._is_notifying = False

    def __getitem__(self, key: str) -> ContextValue:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def set(self, key: str, value: object) -> None:
        self.update({key: value})

    def update(self, values: Mapping[str, object]) -> None:
        """Set all of these, as one change; none of them if one is no value for a context key."""
        taken = {_checked_key(key): _taken_over(key, value) for key, value in values.items()}
        changed = frozenset(key for key, value in taken.items() if not self._has(key, value))
        self._values.update(taken)
        self._notify(changed)

    def remove(self, key: str) -> None:
        """Remove a key, if it is set."""
        if key in self._values:
            del self._values[key]
            self._notify(frozenset({key}))

    def on_change(self, callback: _Subscriber) -> Callable[[], None]:
        """Call `callback` with the keys that have changed, after each change, until the returned function is called."""
        subscription = object()
        self._subscribers[subscription] = callback

        def unsubscribe() -> None:
            self._subscribers.pop(subscription, None)

        return unsubscribe

    def _has(self, key: str, value: ContextValue) -> bool:
        return key in self._values and _same(self._values[key], value)

    def _notify(self, changed: frozenset[str]) -> None:
        self._pending |= changed
        if self._is_notifying:
            # A subscriber did this. The others are notified when all have seen the change before it.
            return
        self._is_notifying = True
        try:
            for _ in range(MAX_ROUNDS):
                if not self._pending:
                    return
                batch, self._pending = self._pending, frozenset()
                self._notify_subscribers(batch)
            if self._pending:
                _log.error("subscribers keep changing context keys: %s", ", ".join(sorted(self._pending)))
        finally:
            self._is_notifying = False
            self._pending = frozenset()

    def _notify_subscribers(self, changed: frozenset[str]) -> None:
        for subscription, callback in tuple(self._subscribers.items()):
            # It may have been taken back by one that was called before it.
            if subscription in self._subscribers:
                try:
                    callback(changed)
                except Exception:
                    # One that fails must not stop the notification of the others.
                    _log.exception("a subscriber to context keys failed")


def _checked_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a context key is a string, not {key!r}")
    if not key:
        raise ValueError("a context key needs a name")
    return key


def _taken_over(key: str, value: object) -> ContextValue:
    match value:
        case bool() | int() | float() | str():
            return _checked_scalar(key, value)
        case list() | tuple():
            return tuple(_checked_item(key, item) for item in value)
        case Mapping():
            return MappingProxyType(
                {_checked_item(key, name): _checked_scalar(key, held) for name, held in value.items()}
            )
        case _:
            raise TypeError(
                f"the context key {key!r} takes a boolean, a number, text, a list of text or an object, not {value!r}"
            )


def _checked_scalar(key: str, value: object) -> _Scalar:
    if not isinstance(value, bool | int | float | str):
        raise TypeError(
            f"an object under the context key {key!r} holds booleans, numbers and text, not {value!r}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        # NaN differs from itself, so that setting it again would be a change.
        raise ValueError(f"the context key {key!r} takes finite numbers, not {value!r}")
    return value


def _checked_item(key: str, item: object) -> str:
    if not isinstance(item, str):
        raise TypeError(f"a list or an object under the context key {key!r} names strings, not {item!r}")
    return item


def _same(one: ContextValue, other: ContextValue) -> bool:
    match one, other:
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
        case _:
            # To Python True is 1; to a clause they differ.
            return isinstance(one, bool) is isinstance(other, bool) and one == other
