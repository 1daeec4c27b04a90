"""The normal form of a history, in which two copies of the same history are equal.

Consumers send the whole history with every request, and no two of them send it alike: text streamed in forty parts
comes back as one, empty parts come and go, a final newline is lost, text is moved before the calls, arguments are
encoded again, results are shortened or moved to a file, thinking is dropped, system prompts drift. The normal form keeps
what all copies share and nothing else:

- a user's message: its text without white space at the ends, and digests of its pictures and files;
- an answer: its text joined, and its calls by id, name and canonical arguments;
- a result, by the id of its call, without its content.

It omits system messages, thinking, internal data, the data of answers and empty messages.

A normal history's *chain* is a running hash: the n-th link stands for the first n items. `PrefixIndex` finds by it, in time
that does not grow with the number of conversations, which of them begins the way a request does. A hash is an index
and no proof: `PrefixIndex` is followed by a comparison.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Set as AbstractSet
from typing import TypeAlias

import msgspec

from dragoman.lm import DataPart, Message, Part, TextPart, ToolCallPart, ToolResultPart
from dragoman.lm.json import canonical

__all__ = [
    "NormalAnswer",
    "NormalHistory",
    "NormalItem",
    "NormalPrompt",
    "NormalResult",
    "PrefixIndex",
    "chain",
    "normalise",
]

# Enough to distinguish two pictures.
_DIGEST_BYTES = 8


class _Item(msgspec.Struct, frozen=True, gc=False):
    """Made for every message of every request, so of the kind that is made, hashed and compared fastest."""


class NormalPrompt(_Item, frozen=True, gc=False):
    """A user's message."""

    text: str
    # Digests of its pictures and files: a message may have no text.
    data: tuple[str, ...] = ()


class NormalAnswer(_Item, frozen=True, gc=False):
    """A model's answer: its text and its calls."""

    text: str
    calls: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def of(cls, message: Message) -> NormalAnswer:
        text, calls = [], []
        for part in message.content:
            if isinstance(part, TextPart):
                text.append(part.value)
            elif isinstance(part, ToolCallPart):
                calls.append((part.call_id, part.name, canonical(_as_doubles(part.input))))
        return cls("".join(text).strip(), tuple(calls))

    @property
    def call_ids(self) -> tuple[str, ...]:
        return tuple(call_id for call_id, _, _ in self.calls)


class NormalResult(_Item, frozen=True, gc=False):
    call_id: str


NormalItem: TypeAlias = NormalPrompt | NormalAnswer | NormalResult


class NormalHistory(msgspec.Struct, frozen=True, gc=False):
    """A consumer's history in normal form, with indexes into it."""

    # All but the system messages.
    messages: tuple[Message, ...] = ()
    items: tuple[NormalItem, ...] = ()
    # The chain of the items.
    links: tuple[int, ...] = ()
    # How many items there are up to and with each message.
    counts: tuple[int, ...] = ()
    # What may carry a name of ours, in order, each with the place of its message.
    named: tuple[tuple[int, Part], ...] = ()


def normalise(messages: Iterable[Message]) -> NormalHistory:
    """The normal form of a history."""
    history = tuple(message for message in messages if message.role != "system")
    items: list[NormalItem] = []
    counts: list[int] = []
    named: list[tuple[int, Part]] = []
    for place, message in enumerate(history):
        content = message.content
        if len(content) == 1 and type(part := content[0]) is TextPart:
            # As nearly all messages are.
            if text := part.value.strip():
                _add(items, NormalAnswer(text) if message.role == "assistant" else NormalPrompt(text))
        else:
            for item in _items_of_several(message):
                _add(items, item)
            named += [(place, part) for part in content if type(part) is not TextPart]
        counts.append(len(items))
    return NormalHistory(history, tuple(items), tuple(chain(items)), tuple(counts), tuple(named))


def _add(items: list[NormalItem], item: NormalItem) -> None:
    if items and isinstance(item, NormalAnswer) and isinstance(last := items[-1], NormalAnswer):
        # Two answers in a row are one: some consumers split an answer at its calls, others do not.
        items[-1] = NormalAnswer(last.text + item.text, last.calls + item.calls)
    else:
        items.append(item)


def _items_of_several(message: Message) -> Iterator[NormalItem]:
    if message.role == "assistant":
        answer = NormalAnswer.of(message)
        if answer.text or answer.calls:
            yield answer
        return
    text, data = [], []
    for part in message.content:
        if isinstance(part, ToolResultPart):
            yield NormalResult(part.call_id)
        elif isinstance(part, TextPart):
            text.append(part.value)
        elif isinstance(part, DataPart) and not part.is_internal:
            data.append(_digest(part))
    words = "".join(text).strip()
    if words or data:
        yield NormalPrompt(words, tuple(data))


def _digest(part: DataPart) -> str:
    return hashlib.blake2b(part.mime_type.encode() + b"\0" + part.data, digest_size=_DIGEST_BYTES).hexdigest()


def _as_doubles(value: object) -> object:
    """A JSON value as a consumer in JavaScript gives it back: 1.0 comes as 1, and whole numbers lose their last digits."""
    # By type and not by pattern: it is called for every argument of every call, with each request.
    if isinstance(value, dict):
        return {key: inner if type(inner) is str else _as_doubles(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_doubles(inner) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            # The sum has no negative zero.
            return float(value) + 0.0
        except OverflowError:
            return None
    return value


def chain(items: Iterable[NormalItem], link: int = 0) -> list[int]:
    """The running hash after each item, going on from `link`."""
    links: list[int] = []
    for item in items:
        link = hash((link, type(item), item))
        links.append(link)
    return links


class PrefixIndex:
    """An index from prefixes to the conversations that have them.

    A prefix is given by the last link of its chain. Shelves are separate partitions of the index.
    """

    def __init__(self) -> None:
        self._shelves: dict[Hashable, dict[int, set[str]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._shelves.values()))

    def add(self, shelf: Hashable, link: int, conversation: str) -> None:
        self._shelves.setdefault(shelf, {}).setdefault(link, set()).add(conversation)

    def remove(self, shelf: Hashable, link: int, conversation: str) -> None:
        places = self._shelves[shelf]
        found = places[link]
        found.remove(conversation)
        if not found:
            del places[link]
        if not places:
            del self._shelves[shelf]

    def on(self, shelf: Hashable) -> Mapping[int, AbstractSet[str]]:
        """All entries of a shelf, for callers that look up many."""
        return self._shelves.get(shelf, {})
