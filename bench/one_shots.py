"""What one-shot conversations over HTTP leave behind: processes, and their memory.

python -m bench.one_shots [--count 80] [--one-turn-seconds 60] [--wait SECONDS]

It prints both right after the last answer, and once more after the wait.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.processes import tree_resident_bytes
from dragoman.process.supervisor import descendants, processes

_AT_ONCE = 4
_CONFIG = """\
[conversation]
max_agents = 1000

[serve]
port = 0
max_memory = "1000GB"
one_turn_seconds = {seconds:g}

[models.demo]
kind = "acp"
agent = "demo"
command = {command}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--one-turn-seconds", type=float, default=60.0)
    parser.add_argument("--wait", type=float, help="by default ten seconds longer than that")
    arguments = parser.parse_args()
    seconds: float = arguments.one_turn_seconds
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dragoman.toml"
        command = json.dumps([sys.executable, "-m", "dragoman", "demo-agent"])
        file.write_text(_CONFIG.format(seconds=seconds, command=command))
        server = subprocess.Popen(  # noqa: S603 - ours
            (sys.executable, "-m", "dragoman", "--config", file, "--state-dir", f"{folder}/state", "serve"),
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            address = _address(server)
            print(f"at the start: {_left(server.pid)}", flush=True)
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                list(threads.map(lambda number: _ask(address, number), range(arguments.count)))
            print(f"after {arguments.count} conversations: {_left(server.pid)}", flush=True)
            wait = seconds + 10 if arguments.wait is None else arguments.wait
            time.sleep(wait)
            print(f"{wait:g} seconds later: {_left(server.pid)}", flush=True)
        finally:
            server.terminate()
            server.wait()


def _address(server: subprocess.Popen[str]) -> str:
    if server.stderr is None:
        raise AssertionError("its standard error is a pipe")
    for line in server.stderr:
        _, found, address = line.partition("serving at ")
        if found:
            return address.strip()
    raise SystemExit("the server did not start")


def _ask(address: str, number: int) -> None:
    body = {"model": "demo", "messages": [{"role": "user", "content": f"What can you do? ({number})"}]}
    request = urllib.request.Request(  # noqa: S310 - of this machine
        f"{address}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as response:  # noqa: S310 - of this machine
        response.read()


def _left(pid: int) -> str:
    below = descendants(processes(), pid)
    return f"{len(below)} processes below the server, {tree_resident_bytes(pid) / 1e6:,.0f} MB in all"


if __name__ == "__main__":
    main()
