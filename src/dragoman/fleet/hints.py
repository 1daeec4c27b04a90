"""Which conversations a request may belong to, as far as a gateway can see. No I/O.

A gateway has no key and no records. It reads ids without their signatures, and looks keys of the history's prefixes up in an
index that owners write. A hint only says where to look: the worker identifies the request (`conversations.identify`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from dragoman.conversations.history import NormalHistory, is_answer, is_prompt, normalise
from dragoman.conversations.ids import conversation_in_call_id, conversation_in_marker
from dragoman.lm import DataPart, Part, Request, ToolCallPart, ToolResultPart
from dragoman.lm.json import canonical

__all__ = ["Hints", "hints_of", "index_keys"]

_KEY_BYTES = 8
# A consumer goes on after one of its last answers. Those who go further back make a fork, which replays.
_MOST_PLACES = 8
# Ids that a request may name. A history has a marker in each answer, all of one conversation as a rule.
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Hints:
    # Ids of conversations that the request names, the latest first.
    named: tuple[str, ...]
    # Keys to look up in the index, the best first.
    keys: tuple[str, ...]


def hints_of(request: Request, model: str) -> Hints:
    """What a request says about its conversation. `model` is the id at the worker."""
    history = normalise(request.messages)
    consumer = request.consumer
    consumer_id = request.options.model_options.get("_conversationId")
    keys = index_keys(
        model,
        consumer.connection,
        consumer.client,
        consumer_id=consumer_id if isinstance(consumer_id, str) else None,
        links=_links(history),
    )
    named = (_named(part) for _, part in reversed(history.named))
    ids = dict.fromkeys(conversation for conversation in named if conversation is not None)
    return Hints(tuple(islice(ids, _MOST_NAMED)), tuple(keys))


def index_keys(
    model: str, connection: str, client: str, *, consumer_id: str | None, links: Iterable[int]
) -> list[str]:
    """The keys under which the index has a conversation: one for each place, and one for the consumer's own id.

    The workspace is not part of a key: a gateway does not know the folder that a worker uses by default.
    """
    scope = [model, connection, client, consumer_id]
    keys = [_key([*scope, link]) for link in links]
    return keys if consumer_id is None else [*keys, _key(scope)]


def _key(value: Sequence[str | int | None]) -> str:
    return hashlib.blake2b(canonical(value).encode(), digest_size=_KEY_BYTES).hexdigest()


def _links(history: NormalHistory) -> Iterator[int]:
    """The places at which a request may join a conversation, the longest prefix first.

    After the last answers, before them (a turn that was not completed), and after the first messages of the user.
    """
    keys, links = history.keys, history.links
    answers = islice((place for place in range(len(keys), 0, -1) if is_answer(keys[place - 1])), _MOST_PLACES)
    first = len(list(takewhile(is_prompt, keys)))
    places = {len(keys), *range(1, min(first, _MOST_PLACES) + 1)}
    for place in answers:
        places |= {place, place - 1}
    return (links[place - 1] for place in sorted(places - {0}, reverse=True))


def _named(part: Part) -> str | None:
    match part:
        case DataPart():
            return conversation_in_marker(part)
        case ToolCallPart(call_id=call_id) | ToolResultPart(call_id=call_id):
            return conversation_in_call_id(call_id)
        case _:
            return None
