"""What a program of the same user can try against the console: each try by its name, with what came of it.

It reads all it finds into one file, the loot; the test knows the secrets, and looks for them there. It does not read
the memory of `serve`: a program that may do so can also press its keys, and no secret helps against that.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

__all__ = ["Attack", "Known", "Report"]

_API = "/console/api"
# Enough to be stopped, and little beside 2**40.
_CODES = 40
_MOST_BYTES = 4_000_000
_SECONDS = 10.0
_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


class Known(msgspec.Struct, frozen=True):
    """What the test gives away: more than an agent could find out."""

    port: int
    # Of the process `serve`.
    pid: int
    # The question that waits, and a conversation.
    question: str
    conversation: str
    # Folders and files to read: the state, the home, the configuration.
    places: tuple[str, ...]
    # One half of a real session each: what a program on another port of this machine could be sent.
    cookie: str
    token: str


class Report(msgspec.Struct):
    # Name of a try -> the statuses it got.
    tried: dict[str, list[int]] = msgspec.field(default_factory=dict)
    # Names of the tries that were answered with success.
    achieved: list[str] = msgspec.field(default_factory=list)
    read: list[str] = msgspec.field(default_factory=list)


class Attack:
    def __init__(self, known: Known, loot: Path) -> None:
        self._known = known
        self._loot = loot
        self.report = Report()

    def run(self) -> None:
        for step in (self._read_page, self._read_files, self._read_process, self._ask_commands):
            step()
        for step in (self._guess_codes, self._decide, self._answer_as_client):
            step()

    # What there is to read.

    def _take(self, name: str, content: bytes) -> None:
        self.report.read.append(name)
        with self._loot.open("ab") as loot:
            loot.write(content[:_MOST_BYTES] + b"\n")

    def _read_page(self) -> None:
        """`/`, and every path that is named in what it leads to."""
        waiting, seen = ["/"], {"/"}
        while waiting:
            path = waiting.pop()
            status, content, headers = self._call("GET", path)
            self.report.tried.setdefault("read the page", []).append(status)
            self._take(f"GET {path}", f"{headers}\n".encode() + content)
            for found in re.findall(
                rb"""["'(]((?:\.{0,2}/)?[\w/.-]+\.(?:js|css|svg|webmanifest))["')]""", content
            ):
                named = _joined(path, found.decode())
                if named not in seen:
                    seen.add(named)
                    waiting.append(named)
        for path in (f"{_API}/events", f"{_API}/questions/{self._known.question}", f"{_API}/conversations"):
            self._try("read the API without a session", "GET", path)
        for path in (f"{_API}/sessions", f"{_API}/conversations/{self._known.conversation}"):
            self._try("read the API without a session", "GET", path)

    def _read_files(self) -> None:
        for place in map(Path, self._known.places):
            for file in [place] if place.is_file() else sorted(place.rglob("*")):
                # Not the loot itself, and nothing that waits for a writer.
                if file.is_file() and file != self._loot:
                    self._take(str(file), file.read_bytes())

    def _read_process(self) -> None:
        self._take("own environment", repr(dict(os.environ)).encode())
        process = Path("/proc") / str(self._known.pid)
        for name in ("environ", "cmdline"):
            with suppress(OSError):
                self._take(f"/proc/PID/{name}", (process / name).read_bytes())
        with suppress(OSError):
            for descriptor in sorted((process / "fd").iterdir()):
                with suppress(OSError):
                    # Not pipes: one of them is its own, and must go on.
                    if descriptor.is_file() or str(descriptor.readlink()).startswith(
                        ("/dev/pts/", "/dev/tty")
                    ):
                        self._take(f"/proc/PID/fd/{descriptor.name}", b"".join(_at_hand(descriptor)))

    def _ask_commands(self) -> None:
        """No command prints a code, whatever it is asked."""
        for words in (
            ("--help",),
            ("serve", "--help"),
            ("conversations",),
            ("approvals", "list"),
            ("doctor",),
            ("pair",),
            ("console",),
            ("serve", "--pair"),
        ):
            done = subprocess.run(
                (sys.executable, "-m", "dragoman", *words),
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=_SECONDS * 3,
            )
            self._take(f"dragoman {' '.join(words)}", done.stdout + done.stderr)

    # What there is to change.

    def _guess_codes(self) -> None:
        for _ in range(_CODES):
            code = "".join(secrets.choice(_ALPHABET) for _ in range(8))
            body = {"code": code, "name": "phone"}
            self._try("guess a code", "POST", f"{_API}/pair", body, {"x-dragoman-console": "1"})
        strange: tuple[object, ...] = ("", "00000000", "AAAAAAAA", None, [], {"$ne": ""}, "A" * 100_000)
        for each in strange:
            self._try("guess a code", "POST", f"{_API}/pair", {"code": each, "name": "phone"})

    def _decide(self) -> None:
        made_up = secrets.token_urlsafe(32)
        name = self._known.cookie.partition("=")[0]
        halves: dict[str, dict[str, str]] = {
            "without a session": {},
            "with a made-up session": {"cookie": f"{name}={made_up}", "x-dragoman-console": made_up},
            "with only the cookie": {"cookie": self._known.cookie},
            "with the cookie and a made-up token": {
                "cookie": self._known.cookie,
                "x-dragoman-console": made_up,
            },
            "with only the token": {"x-dragoman-console": self._known.token},
            "with the token and a made-up cookie": {
                "cookie": f"{name}={made_up}",
                "x-dragoman-console": self._known.token,
            },
            "with the cookie as its token": {
                "cookie": self._known.cookie,
                "x-dragoman-console": self._known.cookie.partition("=")[2],
            },
            "with an API key": {"authorization": f"Bearer {self._known.token}"},
        }
        for how, headers in halves.items():
            for path, body in self._changes():
                self._try(f"{path} {how}", "POST", f"{_API}/{path}", body, headers)
            for path in (f"conversations/{self._known.conversation}", "sessions/self"):
                self._try(f"delete {path} {how}", "DELETE", f"{_API}/{path}", None, headers)

    def _changes(self) -> Iterator[tuple[str, object]]:
        yield f"questions/{self._known.question}/decision", {"decision": "allow", "level": "always"}
        yield "pairing", {"role": "decide"}
        yield f"conversations/{self._known.conversation}/stop", {}
        yield f"conversations/{self._known.conversation}/park", {}
        yield "seen", {"stream": "1"}

    def _answer_as_client(self) -> None:
        """The API of clients has answers to permissions too: those of a client that offered a tool for them."""
        for given in (
            self._known.question,
            f"call_{self._known.question}",
            f"mcpr_{self._known.question}",
            "1",
        ):
            for item in (
                {"type": "function_call_output", "call_id": given, "output": "allow"},
                {"type": "mcp_approval_response", "approval_request_id": given, "approve": True},
            ):
                body = {"model": "agent", "input": [item], "store": False}
                status, content, _ = self._call("POST", "/v1/responses", body, {})
                self.report.tried.setdefault(f"answer with {item['type']}", []).append(status)
                self._take("POST /v1/responses", content)

    def _try(
        self, name: str, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> None:
        status, content, answered = self._call(method, path, body, headers)
        self.report.tried.setdefault(name, []).append(status)
        self._take(name, f"{answered}\n".encode() + content)
        if 200 <= status < 300:
            self.report.achieved.append(name)

    def _call(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self._known.port, timeout=_SECONDS)
        try:
            sent = {
                "origin": f"http://127.0.0.1:{self._known.port}",
                "content-type": "application/json",
                **(headers or {}),
            }
            connection.request(method, path, json.dumps(body) if body is not None else None, sent)
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST_BYTES), str(answer.headers)
        except (OSError, http.client.HTTPException) as error:
            # Dropped: nothing achieved, and nothing said.
            return 0, repr(error).encode(), ""
        finally:
            connection.close()


def _joined(path: str, found: str) -> str:
    return found if found.startswith("/") else os.path.normpath(f"{path.rpartition('/')[0]}/{found}")


def _at_hand(descriptor: Path) -> Iterator[bytes]:
    """What can be read from it now: of a terminal, the keys that are pressed."""
    opened = os.open(descriptor, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        while data := os.read(opened, 65_536):
            yield data
    except BlockingIOError:
        return
    finally:
        os.close(opened)
