"""What small requests with large compactions cost a server: `PYTHONPATH=tests python -m security.compaction_bombs`.

Each bomb goes to a `dragoman serve` of its own. Printed are the time until the answer, and the server's memory before
it, at its peak and after it.
"""

from __future__ import annotations

import base64
import json
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from http_server.test_http_process import Running

__all__ = ["BOMBS", "Cost", "explode"]

_BYTES = 64_000_000 - 1_000


def _compaction(data: bytes) -> dict[str, str]:
    packed = base64.urlsafe_b64encode(zlib.compress(data, 9)).decode()
    return {"type": "compaction", "encrypted_content": f"dg1.{packed}"}


def _repeated(item: bytes, size: int = _BYTES) -> bytes:
    return b"[" + b",".join([item] * (size // (len(item) + 1))) + b"]"


_CALL = b'{"type":"function_call","call_id":"c","name":"n","arguments":"[%s0]"}'
# What is in each compaction, which is made when it is needed, and how many of them a request has.
BOMBS: dict[str, tuple[Callable[[], bytes], int]] = {
    "messages": (lambda: _repeated(b'{"role":"user","content":"x"}'), 3),
    "nothing": (lambda: _repeated(b"{}"), 3),
    "reasoning": (lambda: _repeated(b'{"type":"reasoning"}'), 3),
    "one text": (lambda: b'[{"role":"user","content":"%s"}]' % (b"x" * _BYTES), 3),
    "arguments": (lambda: b"[" + _CALL % (b"{}," * 20_000_000) + b"]", 1),
}


@dataclass(frozen=True)
class Cost:
    sent: int
    status: int
    seconds: float
    # In megabytes.
    before: float
    peak: float
    after: float


@contextmanager
def _served() -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as folder:
        running = Running(Path(folder))
        yield running
        running.stop()


def explode(name: str) -> Cost:
    made, count = BOMBS[name]
    items = [_compaction(made())] * count
    body = json.dumps({"model": "tape", "input": [*items, {"role": "user", "content": "x"}]}).encode()
    with _served() as running:
        before = _memory(running.process.pid, "VmRSS")
        began = time.monotonic()
        status = _post(running.port, body)
        seconds = time.monotonic() - began
        # The server lets go of a request when it has answered: before it answers the next one.
        _post(running.port, json.dumps({"model": "tape", "input": "x"}).encode())
        pid = running.process.pid
        return Cost(len(body), status, seconds, before, _memory(pid, "VmHWM"), _memory(pid, "VmRSS"))


def _post(port: int, body: bytes) -> int:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/responses", body, headers)
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - the address stands above
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _memory(pid: int, field: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) / 1_000


if __name__ == "__main__":
    for each in BOMBS:
        print(each, explode(each))
