"""What the last requests told, so that the next one that tells it again need not be gone through again.

A consumer repeats its whole history with every request, and adds a little. Comparing it with what it sent before is
nearly free beside making the normal form of it anew. `Tellings` remembers for that, and for nothing else: whoever is not
found in it, or only in part, is told from there on, with the same result.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from sys import getsizeof
from typing import Any, TypeAlias

import msgspec

from dragoman.backends.agent.history import NOTHING_TOLD, Telling, tell, without_system
from dragoman.lm import (
    DataPart,
    Message,
    Part,
    ProgressPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from dragoman.lm.json import JsonObject, encode
from dragoman.lm.parts import progress_key

__all__ = ["Tellings"]

# Some hundred usual histories. Most of it are the very strings that the records have.
_REMEMBERED_BYTES = 4 * 1024 * 1024
# The last one is remembered also when it is longer than that, up to here: about the longest that there are.
_LONGEST_BYTES = 32 * 1024 * 1024
# Of requests that begin alike: a conversation, what was forked from it, and some that began with the same question.
_ALIKE = 4
# What a message, and each part of one, takes beside what is in it.
_MESSAGE_BYTES = 256
_PART_BYTES = 256


_Arguments: TypeAlias = tuple[int, int, JsonObject]


class _Told(msgspec.Struct, frozen=True, gc=False):
    telling: Telling
    size: int
    # Arguments of calls that Python may take for equal and JSON tells apart, with the places of message and part.
    ambiguous: tuple[_Arguments, ...]

    def common(self, messages: tuple[Message, ...]) -> int:
        """How many of these messages it has told."""
        ours = self.telling.messages
        common = _common(ours, messages)
        if not self.ambiguous:
            return common
        doubtful = [each for each in self.ambiguous if each[0] < common]
        told = [ours for _, _, ours in doubtful]
        # Calls, because they are equal to ours.
        theirs: Sequence[Any] = messages
        retold = [theirs[place].content[index].input for place, index, _ in doubtful]
        if encode(told) == encode(retold):
            return common
        pairs = zip(doubtful, told, retold, strict=True)
        return next(place for (place, _, _), one, other in pairs if encode(one) != encode(other))

    def beginning(self, length: int) -> _Told:
        telling = self.telling.beginning(length)
        if telling is self.telling:
            return self
        length = len(telling.messages)
        size = self.size - sum(map(_size, self.telling.messages[length:]))
        return _Told(telling, size, tuple(each for each in self.ambiguous if each[0] < length))

    def followed_by(self, messages: tuple[Message, ...]) -> _Told:
        telling = self.telling.followed_by(messages)
        size, ambiguous = self.size, self.ambiguous
        for message in messages:
            size += _size(message)
        if len(telling.named) > len(self.telling.named):
            ambiguous += tuple(_ambiguous(messages, len(self.telling.messages)))
        return _Told(telling, size, ambiguous)


_NOTHING = _Told(NOTHING_TOLD, 0, ())


class Tellings:
    """The last requests, the longest unused first, as much as fits: messages as they came, and their tellings.

    They are found by their first answer: it is nearly always one of a kind, and what drifts (a system prompt, the words
    of the last message) stands elsewhere. Without an answer there is little to remember, and nothing is.
    """

    def __init__(self, limit: int = _REMEMBERED_BYTES, longest: int = _LONGEST_BYTES) -> None:
        self._limit = limit
        self._longest = longest
        self._told: dict[Hashable, tuple[_Told, ...]] = {}
        self._size = 0

    def __len__(self) -> int:
        return sum(map(len, self._told.values()))

    @property
    def size(self) -> int:
        """About how many bytes are remembered."""
        return self._size

    def tell(self, shelf: Hashable, messages: tuple[Message, ...]) -> Telling:
        """As `tell` does."""
        messages = without_system(messages)
        for first in messages:
            if first.role == "assistant":
                break
        else:
            return tell(messages)
        name = shelf, _name(first)
        alike = self._told.get(name, ())
        common, before = 0, _NOTHING
        for each in alike:
            length = each.common(messages)
            if length > common:
                common, before = length, each
        beginning = before.beginning(common)
        told = beginning.followed_by(messages[len(beginning.telling.messages) :])
        # What has gone on will not be told as it was; nor will a last message that has changed.
        is_over = common >= len(before.telling.messages) - 1
        others = [each for each in alike if each is not before or not is_over]
        self._remember(name, (told, *others[: _ALIKE - 1]))
        return told.telling

    def forget(self) -> None:
        self._told.clear()
        self._size = 0

    def _remember(self, name: Hashable, alike: tuple[_Told, ...]) -> None:
        """Instead of what was remembered by this name."""
        for each in self._told.pop(name, ()):
            self._size -= each.size
        self._told[name] = alike
        for each in alike:
            self._size += each.size
        while self._size > (self._limit if len(self._told) > 1 else self._longest):
            oldest = next(iter(self._told))
            self._size -= sum(each.size for each in self._told.pop(oldest))


def _name(answer: Message) -> Hashable:
    if not answer.content:
        return None
    part = answer.content[0]
    if isinstance(part, TextPart | ThinkingPart):
        return part.value
    if isinstance(part, ProgressPart):
        return progress_key(part)
    return part.data if isinstance(part, DataPart) else part.call_id


def _ambiguous(messages: Sequence[Message], first: int) -> Iterator[_Arguments]:
    for place, message in enumerate(messages, first):
        for index, part in enumerate(message.content):
            if isinstance(part, ToolCallPart) and _is_ambiguous(part.input):
                yield place, index, part.input


def _is_ambiguous(value: object) -> bool:
    """To Python, true is 1 and false is 0."""
    match value:
        case bool() | 0 | 1:
            return True
        case list() | tuple():
            return any(map(_is_ambiguous, value))
        case dict():
            return any(map(_is_ambiguous, value.values()))
        case _:
            return False


def _common(ours: Sequence[Message], theirs: Sequence[Message]) -> int:
    """How many of the first are equal: a few comparisons of many at once, and none of each."""
    size = min(len(ours), len(theirs))
    if ours[:size] == theirs[:size]:
        return size
    same, different = 0, size
    while different - same > 1:
        middle = (same + different) // 2
        if ours[same:middle] == theirs[same:middle]:
            same = middle
        else:
            different = middle
    return same


def _size(message: Message) -> int:
    size = _MESSAGE_BYTES
    for part in message.content:
        size += _PART_BYTES + (getsizeof(part.value) if type(part) is TextPart else _size_of(part))
    return size


def _size_of(part: Part) -> int:
    match part:
        case TextPart(value=value) | DataPart(data=value):
            return getsizeof(value)
        case ToolResultPart(content=content):
            inside = sum(_PART_BYTES + _size_of(each) for each in content)
            return getsizeof(part.call_id) + inside + (getsizeof(encode(part.input)) if part.input else 0)
        case _:
            return getsizeof(encode(part))
