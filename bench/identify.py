"""Finding the conversation a request belongs to, beside reading the request.

    python -m bench.identify [--quick]

A request of VS Code's with its whole history, of ten to ten thousand messages, among one to a thousand conversations.
Beside ours: comparing everything with everything, and canonical JSON with a hash of it.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable

from bench.figures import Column, Figure, Goal, Row
from bench.load import messages_of
from bench.stage import Scale, Stage, alone
from dragoman.backends.agent.history import Answer, tell
from dragoman.backends.agent.identify import Knowledge, identify
from dragoman.backends.agent.records import Record, Records, Scope
from dragoman.backends.agent.tokens import Tokens
from dragoman.frontends.vscode.protocol import ChatRequest, decode_chat_request
from dragoman.lm import Consumer, Message, Request

__all__ = ["measure"]

_SCOPE = Scope("bench", ("/",), "bench")
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
    rows = [_row(size, 1, scale) for size in sizes]
    rows += [_row(100, crowd, scale) for crowd in crowds[1:]]
    rows += [row for size in sizes for row in _others(size, scale)]
    figure = Figure("identify", "Identifying a request, beside decoding it", _COLUMNS, tuple(rows))
    # By their ratios to decoding: the two were not measured in the same moment.
    by_itself = next(row.median("ratio") for row in rows if row.case == _case(100, 1))
    crowded = next(row.median("ratio") for row in rows if row.case == _case(100, crowds[-1]))
    worst = max(row.median("ratio") or 0.0 for row in rows if row.contestant == "dragoman")
    goals = (
        Goal("decoding and identifying, of decoding alone, at the worst size", worst, 1.5),
        Goal(
            f"among {crowds[-1]:,} conversations, of what it takes with one",
            (crowded or 0.0) / (by_itself or 1.0),
            1.2,
        ),
    )
    return Figure(figure.name, figure.title, figure.columns, figure.rows, goals)


def _case(size: int, crowd: int) -> str:
    return f"{size:,} messages, {crowd:,} conversation{'s' if crowd > 1 else ''}"


def _history(size: int, seed: int) -> list[tuple[str, str]]:
    """It ends with the user."""
    words = random.Random(seed)  # noqa: S311 - no secret
    return [
        (
            "user" if place % 2 == (size - 1) % 2 else "assistant",
            " ".join(f"w{words.randrange(10_000)}" for _ in range(_LENGTHS[place % len(_LENGTHS)])),
        )
        for place in range(size)
    ]


def _known(histories: list[list[tuple[str, str]]]) -> Records:
    """Conversations that have had all but the last message of their histories."""
    records = Records()
    for number, history in enumerate(histories):
        told = decode_chat_request(_params(history)).messages
        record = Record(f"c{number}", _SCOPE).told(tell(told[:-2]), {}, b"", turn=1)
        record = record.said(Answer.of(told[-2])).ended("complete", 0.0, [])
        records.put(record)
    return records


def _params(history: list[tuple[str, str]]) -> bytes:
    return json.dumps({"modelId": "bench", "messages": messages_of(history), "options": {}}).encode()


def _row(size: int, crowd: int, scale: Scale) -> Row:
    histories = [_history(size, 1), *(_history(10, seed) for seed in range(2, crowd + 1))]
    known = Knowledge(_known(histories), Tokens(b"k" * 32), _SCOPE)
    params = _params(histories[0])
    consumer = Consumer("vscode", "bench", ("/",))

    def whole() -> None:
        chat = decode_chat_request(params)
        found = identify(Request(chat.messages, chat.options, consumer), known)
        if found.conversation != "c0" or found.kind != "prompt":
            raise AssertionError(found.reason)

    return _timed(_case(size, crowd), "dragoman", params, whole, scale)


def _others(size: int, scale: Scale) -> list[Row]:
    history = _history(size, 1)
    params = _params(history)
    kept = decode_chat_request(params).messages[:-1]
    known = _digest(kept)

    def compared() -> None:
        if decode_chat_request(params).messages[:-1] != kept:
            raise AssertionError("it is the same")

    def hashed() -> None:
        if _digest(decode_chat_request(params).messages[:-1]) != known:
            raise AssertionError("it is the same")

    return [
        _timed(_case(size, 1), "plain comparison", params, compared, scale),
        _timed(_case(size, 1), "canonical JSON + blake2b", params, hashed, scale),
    ]


def _digest(messages: tuple[Message, ...]) -> bytes:
    """Of every prefix, as one must to find the longest."""
    running = hashlib.blake2b()
    for message in messages:
        told = [message.role, [getattr(part, "value", None) for part in message.content]]
        running.update(json.dumps(told, sort_keys=True, separators=(",", ":")).encode())
        running.copy().digest()
    return running.digest()


def _timed(case: str, name: str, params: bytes, whole: Callable[[], None], scale: Scale) -> Row:
    """In turns: what is slow for one repeat is slow for both."""
    repeats = scale(15, 3)
    times = max(1, min(200, 2_000_000 // len(params)))
    decode: list[float] = []
    total: list[float] = []

    def read() -> ChatRequest:
        return decode_chat_request(params)

    for _ in range(repeats):
        decode.append(_milliseconds(read, times))
        total.append(_milliseconds(whole, times))
    ratios = tuple(one / other for one, other in zip(total, decode, strict=True))
    return Row(case, name, {"decode": tuple(decode), "total": tuple(total), "ratio": ratios})


def _milliseconds(work: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times * 1e3


if __name__ == "__main__":
    alone(measure)
