"""What was said, in a form in which two tellings of it are equal.

Consumers send the whole history with every request, and no two of them tell it alike: text streamed in forty parts
comes back as one, empty parts come and go, a final newline is lost, text is moved before the calls, arguments are
written anew, results are shortened or moved to a file, thinking is dropped, system prompts drift. The normal form keeps
what all tellings share and nothing else:

- a user's words, a message at a time, without white space at the ends, and digests of the pictures and files with them;
- an answer: its text joined, and its calls by id, name and canonical arguments;
- a result, by the id of its call. What it says is nobody's business here.

System messages, thinking, internal data, the data of answers and empty messages have no place in it.

A history's *chain* is a running hash: the n-th link stands for the first n items. `PrefixIndex` finds by it, in time
that does not grow with the number of conversations, which of them begins the way a request does. A hash is an index
and no proof: whoever finds one compares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from dragoman.lm import DataPart, Message, TextPart, ToolCallPart, ToolResultPart
from dragoman.lm.json import canonical

__all__ = ["Answer", "Item", "PrefixIndex", "Result", "Said", "Telling", "chain", "tell"]

# Enough to tell two pictures apart.
_DIGEST_BYTES = 8


class _Item(msgspec.Struct, frozen=True, gc=False):
    """Made for every message of every request, so of the kind that is made, hashed and compared fastest."""


class Said(_Item, frozen=True, gc=False):
    """A user's message."""

    text: str
    # Of its pictures and files: a message may have no words at all, and is a message still.
    data: tuple[str, ...] = ()


class Answer(_Item, frozen=True, gc=False):
    """What a model said and called."""

    text: str
    calls: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def of(cls, message: Message) -> Answer:
        return cls(
            _text(message), tuple((call.call_id, call.name, _arguments(call)) for call in message.calls)
        )

    @property
    def call_ids(self) -> tuple[str, ...]:
        return tuple(call_id for call_id, _, _ in self.calls)


class Result(_Item, frozen=True, gc=False):
    call_id: str


Item: TypeAlias = Said | Answer | Result


@dataclass(frozen=True, slots=True)
class Telling:
    """One consumer's telling of a history, in normal form."""

    items: tuple[Item, ...]
    # The chain of the items.
    links: tuple[int, ...]
    # How many items there are up to and with each message.
    counts: tuple[int, ...]


def tell(messages: Iterable[Message]) -> Telling:
    items: list[Item] = []
    counts: list[int] = []
    for message in messages:
        for item in _items(message):
            last = items[-1] if items else None
            if isinstance(item, Answer) and isinstance(last, Answer):
                # Two answers in a row are one: some consumers split an answer at its calls, others do not.
                items[-1] = Answer(last.text + item.text, last.calls + item.calls)
            else:
                items.append(item)
        counts.append(len(items))
    return Telling(tuple(items), tuple(chain(items)), tuple(counts))


def _items(message: Message) -> Iterable[Item]:
    if message.role == "system":
        return ()
    match message.content:
        case (TextPart(value=value),):
            # As nearly all messages are.
            text = value.strip()
            return ((Answer if message.role == "assistant" else Said)(text),) if text else ()
    return _items_of_several(message)


def _items_of_several(message: Message) -> Iterator[Item]:
    if message.role == "assistant":
        answer = Answer.of(message)
        if answer.text or answer.calls:
            yield answer
        return
    for part in message.content:
        if isinstance(part, ToolResultPart):
            yield Result(part.call_id)
    text = _text(message)
    data = tuple(
        _digest(part) for part in message.content if isinstance(part, DataPart) and not part.is_internal
    )
    if text or data:
        yield Said(text, data)


def _digest(part: DataPart) -> str:
    return hashlib.blake2b(part.mime_type.encode() + b"\0" + part.data, digest_size=_DIGEST_BYTES).hexdigest()


def _text(message: Message) -> str:
    return "".join(part.value for part in message.content if isinstance(part, TextPart)).strip()


def _arguments(call: ToolCallPart) -> str:
    return canonical(_as_doubles(call.input))


def _as_doubles(value: object) -> object:
    """A JSON value as a consumer in JavaScript gives it back: 1.0 comes as 1, and whole numbers lose their last digits."""
    match value:
        case bool():
            return value
        case int() | float():
            try:
                # The sum has no negative zero.
                return float(value) + 0.0
            except OverflowError:
                return None
        case list() | tuple():
            return [_as_doubles(inner) for inner in value]
        case dict():
            return {key: _as_doubles(inner) for key, inner in value.items()}
        case _:
            return value


def chain(items: Iterable[Item], link: int = 0) -> list[int]:
    """The running hash after each item, going on from `link`."""
    links: list[int] = []
    for item in items:
        link = hash((link, type(item), item))
        links.append(link)
    return links


class PrefixIndex:
    """Who has something at this place?

    A place is the end of a prefix, as a link of its chain. Each stands on a shelf, and what stands on different shelves
    never meets.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[Hashable, int], set[str]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, shelf: Hashable, link: int, conversation: str) -> None:
        self._places.setdefault((shelf, link), set()).add(conversation)

    def remove(self, shelf: Hashable, link: int, conversation: str) -> None:
        found = self._places[shelf, link]
        found.remove(conversation)
        if not found:
            del self._places[shelf, link]

    def at(self, shelf: Hashable, link: int) -> AbstractSet[str]:
        return self._places.get((shelf, link), frozenset())
