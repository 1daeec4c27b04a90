"""What was said, in a form in which two tellings of it are equal.

Consumers send the whole history with every request, and no two of them tell it alike: text streamed in forty parts
comes back as one, empty parts come and go, a final newline is lost, text is moved before the calls, arguments are
written anew, results are shortened or moved to a file, thinking is dropped, system prompts drift. The normal form keeps
what all tellings share and nothing else:

- a user's words, a message at a time, without white space at the ends, and digests of the pictures and files with them;
- an answer: its text joined, and its calls by id, name and canonical arguments;
- a result, by the id of its call. What it says is nobody's business here.

System messages, thinking, internal data, the data of answers and empty messages have no place in it.

A telling may go on from another, so that what was told before need not be gone through again.

A history's *chain* is a running hash: the n-th link stands for the first n items. `PrefixIndex` finds by it, in time
that does not grow with the number of conversations, which of them begins the way a request does. A hash is an index
and no proof: whoever finds one compares.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Set as AbstractSet
from operator import itemgetter
from typing import TypeAlias

import msgspec

from dragoman.lm import DataPart, Message, Part, TextPart, ToolCallPart, ToolResultPart
from dragoman.lm.json import canonical

__all__ = [
    "NOTHING_TOLD",
    "Answer",
    "Item",
    "PrefixIndex",
    "Result",
    "Said",
    "Telling",
    "chain",
    "tell",
    "without_system",
]

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


class Telling(msgspec.Struct, frozen=True, gc=False):
    """One consumer's telling of a history, in normal form."""

    # All but the system's.
    messages: tuple[Message, ...] = ()
    items: tuple[Item, ...] = ()
    # The chain of the items.
    links: tuple[int, ...] = ()
    # How many items there are up to and with each message.
    counts: tuple[int, ...] = ()
    # What may carry a name of ours, in order, each with the place of its message.
    named: tuple[tuple[int, Part], ...] = ()

    def beginning(self, length: int) -> Telling:
        """Of the first so many messages, or of a little less: an answer at the end may go on, and is left out."""
        if not length:
            return NOTHING_TOLD
        size = self.counts[length - 1]
        if size and isinstance(self.items[size - 1], Answer):
            # It begins with the first message that counts it, and no message adds more than one.
            length, size = bisect_left(self.counts, size), size - 1
        if length == len(self.messages):
            return self
        named = bisect_left(self.named, length, key=itemgetter(0))
        return Telling(
            self.messages[:length],
            self.items[:size],
            self.links[:size],
            self.counts[:length],
            self.named[:named],
        )

    def followed_by(self, messages: tuple[Message, ...]) -> Telling:
        """With these messages behind it, none of them the system's; itself a `beginning`, or nothing."""
        told = len(self.items)
        items: list[Item] = []
        counts: list[int] = []
        named: list[tuple[int, Part]] = []
        for place, message in enumerate(messages, len(self.messages)):
            content = message.content
            if len(content) == 1 and type(part := content[0]) is TextPart:
                # As nearly all messages are.
                if text := part.value.strip():
                    _add(items, Answer(text) if message.role == "assistant" else Said(text))
            else:
                for item in _items_of_several(message):
                    _add(items, item)
                named += [(place, part) for part in content if not isinstance(part, TextPart)]
            counts.append(told + len(items))
        return Telling(
            self.messages + messages,
            self.items + tuple(items),
            self.links + tuple(chain(items, self.links[-1] if told else 0)),
            self.counts + tuple(counts),
            self.named + tuple(named),
        )


NOTHING_TOLD = Telling()


def tell(messages: Iterable[Message]) -> Telling:
    return NOTHING_TOLD.followed_by(without_system(tuple(messages)))


def without_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    said = [message for message in messages if message.role != "system"]
    return messages if len(said) == len(messages) else tuple(said)


def _add(items: list[Item], item: Item) -> None:
    if items and isinstance(item, Answer) and isinstance(last := items[-1], Answer):
        # Two answers in a row are one: some consumers split an answer at its calls, others do not.
        items[-1] = Answer(last.text + item.text, last.calls + item.calls)
    else:
        items.append(item)


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
        """All places of a shelf, for whoever looks at many."""
        return self._shelves.get(shelf, {})
