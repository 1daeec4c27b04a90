"""Finding the conversation a request belongs to, beside reading the request.

    python -m bench.identify [--quick]

A request of VS Code's with its whole history, of ten to ten thousand messages, among one to a thousand conversations. It
repeats the history of the request before it and adds two messages: our answer, and what the user says to it. Beside it
are a history of tool calls, in which every answer and every result carries a name of ours, and what one would do
instead: comparing everything with everything, and canonical JSON with a hash of it.
"""

from __future__ import annotations

import gc
import hashlib
import json
import random
import time
from collections.abc import Callable, Sequence
from functools import partial

from bench.contestants import OURS
from bench.figures import Column, Figure, Goal, Row
from bench.stage import Scale, Stage, alone
from dragoman.conversations.history import NormalAnswer, NormalHistory, item_key, normalise
from dragoman.conversations.identify import Knowledge, identify
from dragoman.conversations.ids import CallName, IdSigner, MarkerName
from dragoman.conversations.records import ConversationRecord, Records, ReplyRecord, Scope
from dragoman.frontends.vscode.protocol import decode_chat_request
from dragoman.journal.agent_events import ConversationImported, ReplyEnded, RequestReceived
from dragoman.journal.event import JournalStarted
from dragoman.journal.fold import ConversationFold
from dragoman.lm import Consumer, Message, Request, TextPart, ToolCallPart, ToolResultPart, assistant, user
from dragoman.lm.json import encode

__all__ = ["measure"]

_SCOPE = Scope("bench", ("/",), "bench")
_TOKENS = IdSigner(b"k" * 32)
_CONVERSATION = "c" * 16
_COLUMNS = (
    Column("decode", "decoding ms", 3),
    Column("total", "with identifying ms", 3),
    Column("ratio", "ratio", 2),
)
# What people and models say in a turn, in words: some lines, now and then a file.
_LENGTHS = (20, 60, 150, 40, 900)


async def measure(stage: Stage, scale: Scale) -> Figure:
    del stage
    sizes = (10, 100) if scale.quick else (10, 100, 1_000, 10_000)
    crowds = (1, 10) if scale.quick else (1, 10, 100, 1_000)
    plain = [_row(_case(size, 1), _history(size, 1), 1, scale) for size in sizes]
    plain += [_row(_case(100, crowd), _history(100, 1), crowd, scale) for crowd in crowds[1:]]
    calls = [_row(f"{size:,} messages of tool calls", _calls(size, 1), 1, scale) for size in sizes]
    others = [row for size in sizes for row in _others(size, scale)]
    # By their ratios to decoding: the two were not measured in the same moment.
    by_itself = next(row.median("ratio") for row in plain if row.case == _case(100, 1))
    crowded = next(row.median("ratio") for row in plain if row.case == _case(100, crowds[-1]))
    goals = (
        Goal("decoding and identifying, of decoding alone, at the worst size", _worst(plain), 1.5),
        Goal("the same for a history of tool calls", _worst(calls), 1.5),
        Goal(
            f"among {crowds[-1]:,} conversations, of what it takes with one",
            (crowded or 0.0) / (by_itself or 1.0),
            1.2,
        ),
    )
    rows = (*plain, *calls, *others)
    return Figure("identify", "Identifying a request, beside decoding it", _COLUMNS, rows, goals)


def _worst(rows: list[Row]) -> float:
    return max(row.median("ratio") or 0.0 for row in rows)


def _case(size: int, crowd: int) -> str:
    return f"{size:,} messages, {crowd:,} conversation{'s' if crowd > 1 else ''}"


def _texts(size: int, seed: int) -> list[str]:
    words = random.Random(seed)  # noqa: S311 - no secret
    return [
        " ".join(f"w{words.randrange(10_000)}" for _ in range(_LENGTHS[place % len(_LENGTHS)]))
        for place in range(size)
    ]


def _history(size: int, seed: int) -> list[Message]:
    """It ends with the user."""
    says = (user, assistant) if size % 2 else (assistant, user)
    return [says[place % 2](text) for place, text in enumerate(_texts(size, seed))]


def _calls(size: int, seed: int) -> list[Message]:
    """Answers with a marker and a call each, and the results."""
    history = _history(size, seed)
    number = 0
    for place, message in enumerate(history):
        call_id = _TOKENS.call_id(CallName(_CONVERSATION, number))
        if message.role == "assistant":
            number += 1
            marker = _TOKENS.marker("bench", MarkerName(_CONVERSATION, number, number))
            call_id = _TOKENS.call_id(CallName(_CONVERSATION, number))
            call = ToolCallPart(call_id, "read", {"path": f"src/{number}.py", "whole": True, "from": number})
            history[place] = assistant(marker, *message.content, call)
        elif number:
            history[place] = user(ToolResultPart(call_id, (TextPart(message.text),)))
    return history


def _params(history: Sequence[Message]) -> bytes:
    return encode({"modelId": "bench", "messages": history, "options": {}})


def _record(id_: str, history: NormalHistory, answer: Message) -> ConversationRecord:
    """A conversation that was told this, has given all the answers in it, and then another."""
    replies = tuple(
        ReplyRecord(number, number, place, place + 1, "complete", call_ids=item.call_ids)
        for number, (place, item) in enumerate(
            ((place, item) for place, item in enumerate(history.items) if isinstance(item, NormalAnswer)), 1
        )
    )
    said, number = NormalAnswer.of(answer), len(replies) + 1
    fold = ConversationFold(id_).apply_all(
        (
            JournalStarted("agent", _SCOPE.model, _SCOPE.workspace, _SCOPE.connection),
            ConversationImported(history.keys, replies),
            RequestReceived(number, number, "prompt", "prefix", "", "", len(history.keys)),
            ReplyEnded(number, "complete", item_key(said), said.calls, said.call_ids),
        )
    )
    fold.note_end(0.0)
    return fold.record


def _crowd(size: int) -> Records:
    records = Records()
    for number in range(size):
        *before, answer, _ = _history(10, 2 + number)
        records.put(_record(f"c{number}", normalise(before), answer))
    return records


def _row(case: str, history: list[Message], crowd: int, scale: Scale) -> Row:
    params = _params(history)
    *before, answer, _ = decode_chat_request(params).messages
    consumer = Consumer("vscode", "bench", ("/",))
    others = [_crowd(crowd - 1) for _ in range(_times(params))]

    def whole(known: Knowledge) -> None:
        chat = decode_chat_request(params)
        history = normalise(chat.messages)
        request = Request(chat.messages, chat.options, consumer)
        found = identify(request, history, known)
        if found.conversation != _CONVERSATION or found.kind not in ("prompt", "results"):
            raise AssertionError(found.reason)

    def prepared() -> list[Callable[[], None]]:
        """Each time a conversation that has had the request before."""
        works: list[Callable[[], None]] = []
        for records in others:
            records.put(_record(_CONVERSATION, normalise(before), answer))
            works.append(partial(whole, Knowledge(records, _TOKENS, _SCOPE)))
        return works

    return _timed(case, OURS, params, prepared, scale)


def _others(size: int, scale: Scale) -> list[Row]:
    params = _params(_history(size, 1))
    kept = decode_chat_request(params).messages[:-1]
    known = _digest(kept)

    def compared() -> None:
        if decode_chat_request(params).messages[:-1] != kept:
            raise AssertionError("it is the same")

    def hashed() -> None:
        if _digest(decode_chat_request(params).messages[:-1]) != known:
            raise AssertionError("it is the same")

    times = _times(params)
    return [
        _timed(_case(size, 1), "plain comparison", params, lambda: [compared] * times, scale),
        _timed(_case(size, 1), "canonical JSON + blake2b", params, lambda: [hashed] * times, scale),
    ]


def _digest(messages: tuple[Message, ...]) -> bytes:
    """Of every prefix, as one must to find the longest."""
    running = hashlib.blake2b()
    for message in messages:
        told = [message.role, [getattr(part, "value", None) for part in message.content]]
        running.update(json.dumps(told, sort_keys=True, separators=(",", ":")).encode())
        running.copy().digest()
    return running.digest()


def _times(params: bytes) -> int:
    return max(3, min(200, 2_000_000 // len(params)))


def _timed(
    case: str, name: str, params: bytes, prepared: Callable[[], list[Callable[[], None]]], scale: Scale
) -> Row:
    """In turns: what is slow for one repeat is slow for both."""
    decode: list[float] = []
    total: list[float] = []
    for _ in range(scale(15, 3)):
        works = prepared()
        decode.append(_milliseconds([partial(decode_chat_request, params)] * len(works)))
        total.append(_milliseconds(works))
    ratios = tuple(one / other for one, other in zip(total, decode, strict=True))
    return Row(case, name, {"decode": tuple(decode), "total": tuple(total), "ratio": ratios})


def _milliseconds(works: Sequence[Callable[[], object]]) -> float:
    # As in `timeit`: to collect garbage takes longer than to decode the largest request, and one side would pay for both.
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        for work in works:
            work()
        return (time.process_time() - began) / len(works) * 1e3
    finally:
        gc.enable()


if __name__ == "__main__":
    alone(measure)
