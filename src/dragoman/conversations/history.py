"""The normal form of a history, in which two copies of the same history are equal.

Consumers send the whole history with every request, and no two of them send it alike: text streamed in forty parts
comes back as one, empty parts come and go, a final newline is lost, text is moved before the calls, arguments are
encoded again, results are shortened or moved to a file, thinking is dropped, system prompts drift. The normal form keeps
what all copies share and nothing else:

- a user's message: its text without white space at the ends, and digests of its pictures and files;
- an answer: its text joined, and its calls by id, name and canonical arguments; if it has neither, that it is a file;
- a result, by the id of its call, without its content.

It omits system messages, thinking, internal data, the data of answers that have text, and empty messages.

Two items are the same if their *keys* are: a key is the kind of an item and a digest of it, equal in every process and on
every machine. Records have the keys and not the items, so they are small; only of a reply that was cut they have the text.

A normal history's *chain* is a running hash of its keys: the n-th link stands for the first n items. `PrefixIndex` finds by
it, in time that does not grow with the number of conversations, which of them begins the way a request does. A link is
an index and no proof: `PrefixIndex` is followed by a comparison of keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from typing import TypeAlias

import msgspec

from dragoman.lm import DataPart, Message, Part, TextPart, ToolCallPart, ToolResultPart
from dragoman.lm.json import canonical, encode

__all__ = [
    "NormalAnswer",
    "NormalHistory",
    "NormalItem",
    "NormalPrompt",
    "NormalResult",
    "PrefixIndex",
    "chain",
    "common_prefix",
    "is_answer",
    "is_prompt",
    "is_result",
    "item_key",
    "normalise",
]

# The text of an answer that consists of pictures and files: the character for an object in a text.
_FILE = "\ufffc"
# Enough to distinguish two pictures.
_DIGEST_BYTES = 8


class _Item(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Made for every message of every request, so of the kind that is made, hashed and compared fastest."""


class NormalPrompt(_Item, frozen=True, gc=False, tag="prompt"):
    """A user's message."""

    text: str
    # Digests of its pictures and files: a message may have no text.
    data: tuple[str, ...] = ()


class NormalAnswer(_Item, frozen=True, gc=False, tag="answer"):
    """A model's answer: its text and its calls."""

    text: str
    calls: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def of(cls, message: Message) -> NormalAnswer:
        text, calls, has_file = [], [], False
        for part in message.content:
            if isinstance(part, TextPart):
                text.append(part.value)
            elif isinstance(part, ToolCallPart):
                calls.append((part.call_id, part.name, canonical(_as_doubles(part.input))))
            elif isinstance(part, DataPart):
                has_file = has_file or not part.is_internal
        words = "".join(text).strip()
        return cls(_FILE if has_file and not words and not calls else words, tuple(calls))

    @property
    def call_ids(self) -> tuple[str, ...]:
        return tuple(call_id for call_id, _, _ in self.calls)


class NormalResult(_Item, frozen=True, gc=False, tag="result"):
    call_id: str


NormalItem: TypeAlias = NormalPrompt | NormalAnswer | NormalResult


class NormalHistory(msgspec.Struct, frozen=True, gc=False):
    """A consumer's history in normal form, with indexes into it."""

    # All but the system messages.
    messages: tuple[Message, ...] = ()
    items: tuple[NormalItem, ...] = ()
    # The keys of the items, and their chain.
    keys: tuple[bytes, ...] = ()
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
    keys, links = _keys_and_links(items)
    return NormalHistory(history, tuple(items), tuple(keys), tuple(links), tuple(counts), tuple(named))


def _add(items: list[NormalItem], item: NormalItem) -> None:
    if items and isinstance(item, NormalAnswer) and isinstance(last := items[-1], NormalAnswer):
        # Two answers in a row are one: some consumers split an answer at its calls, others do not.
        texts = [text for text in (last.text, item.text) if text != _FILE]
        calls = last.calls + item.calls
        items[-1] = NormalAnswer("".join(texts) or ("" if calls else _FILE), calls)
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


# The first byte of a key says what the item is.
_KINDS: dict[type[NormalItem], bytes] = {NormalPrompt: b"p", NormalAnswer: b"a", NormalResult: b"r"}
# Enough that two different items never have the same key.
_KEY_BYTES = 15
# Consumers send the same items again and again, and looking a key up is ten times faster than a digest. This many
# characters of items are remembered; then all are forgotten at once.
_MOST_REMEMBERED = 8 * 1024 * 1024
_MOST_IN_ONE = 64 * 1024


class _Keys:
    def __init__(self) -> None:
        # The key of each item, and the number that stands for it in a chain.
        self.known: dict[NormalItem, tuple[bytes, int]] = {}
        self._size = 0

    def make(self, item: NormalItem) -> tuple[bytes, int]:
        written = encode(item)
        key = _KINDS[type(item)] + hashlib.blake2b(written, digest_size=_KEY_BYTES).digest()
        if len(written) <= _MOST_IN_ONE:
            self._size += len(written)
            if self._size > _MOST_REMEMBERED:
                self.known.clear()
                self._size = len(written)
            self.known[item] = key, _number(key)
        return key, _number(key)


_keys = _Keys()


def item_key(item: NormalItem) -> bytes:
    """What is compared in the place of an item: its kind and a digest of it."""
    return (_keys.known.get(item) or _keys.make(item))[0]


def is_prompt(key: bytes) -> bool:
    return key.startswith(b"p")


def is_answer(key: bytes) -> bool:
    return key.startswith(b"a")


def is_result(key: bytes) -> bool:
    return key.startswith(b"r")


# An odd number, so that no bit of an earlier key is lost.
_FACTOR = 0x9E3779B97F4A7C15
_LINK_BITS = (1 << 64) - 1


def chain(keys: Iterable[bytes], link: int = 0) -> list[int]:
    """The running hash after each key, going on from `link`."""
    links: list[int] = []
    for key in keys:
        link = (link * _FACTOR + _number(key)) & _LINK_BITS
        links.append(link)
    return links


def _number(key: bytes) -> int:
    return int.from_bytes(key[-8:], "little") + key[0]


def _keys_and_links(items: Iterable[NormalItem]) -> tuple[list[bytes], list[int]]:
    """The keys of items and their chain, in one pass: it is done for every item of every request."""
    keys: list[bytes] = []
    links: list[int] = []
    known, link = _keys.known.get, 0
    for item in items:
        key, number = known(item) or _keys.make(item)
        link = (link * _FACTOR + number) & _LINK_BITS
        keys.append(key)
        links.append(link)
    return keys, links


def common_prefix(ours: Sequence[bytes], theirs: Sequence[bytes]) -> int:
    """How many keys two histories share from the beginning on."""
    if ours == theirs[: len(ours)]:
        return len(ours)
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(ours), len(theirs)))


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
