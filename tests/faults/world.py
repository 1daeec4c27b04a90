"""What a run happens in: real `dragoman vscode` processes, their state folder, and all that they may leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from dragoman.jsonrpc import PeerOptions, connect_files
from faults.http_editor import HttpEditor
from vscode.editor import Editor

__all__ = ["DEADLINE_SECONDS", "MARK", "World", "complaints_in", "fds_of", "is_alive", "marked", "until"]

_TESTS = Path(__file__).parents[1]
MARK = "FAULTS_RUN"
_LOOK_SECONDS = 0.02
# Longer than anything here takes on a busy machine. Only a run that fails reaches it.
DEADLINE_SECONDS = 60.0
# A state folder's file system when the disk is to be full.
_DISK = "size=2m,mode=700"
_LEFT_TASK = re.compile(
    r"Traceback|Task was destroyed|never retrieved|never awaited|ResourceWarning|unclosed|this should not have happened"
)
_ERROR_LINE = re.compile(r"^\S* ?\S* ?(ERROR|CRITICAL)\b|: error: ", re.MULTILINE)


async def until(is_so: Any, what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """Look until it is so. Files and processes of others tell nobody that they have changed."""
    loop = asyncio.get_running_loop()
    limit = loop.time() + seconds
    while not is_so():
        if loop.time() > limit:
            raise TimeoutError(what)
        await asyncio.sleep(_LOOK_SECONDS)


class World:
    """One state folder, one kind of agent, and the processes that have used them."""

    def __init__(
        self,
        folder: Path,
        *,
        front: Literal["vscode", "serve"] = "vscode",
        models: str = "",
        settings: str = "",
        small_disk: bool = False,
        **options: object,
    ) -> None:
        """`models` and `settings` are more of the configuration: other models, more of `[conversation]`."""
        self._front = front
        self.folder = folder
        self.state = folder / "state"
        self.agents = folder / "agents"
        self.temporary = folder / "tmp"
        for each in (self.state, self.agents, self.temporary):
            each.mkdir(parents=True)
        self.state.chmod(0o700)
        self._mark = uuid.uuid4().hex
        self._has_disk = small_disk and _mounted(self.state)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lock: sqlite3.Connection | None = None
        self.clock = folder / "clock"
        arguments = json.dumps({"folder": str(self.agents), **options})
        command = [sys.executable, "-m", "fake_agent.faulty", arguments]
        self._config = folder / "dragoman.toml"
        # A JSON string is a TOML string, too.
        self._config.write_text(
            f'[models.fake]\nkind = "acp"\nagent = "demo"\ncommand = {json.dumps(command)}\n{models}'
            f"[conversation]\ncancel_grace_seconds = 0.5\n{settings}"
        )
        self.editor = Editor(DEADLINE_SECONDS)

    # The bridge.

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self._processes[-1]

    @property
    def pid(self) -> int:
        return self.process.pid

    async def start(self) -> Editor:
        """A bridge, and an editor that has begun to talk with it."""
        more = ["--port", "0"] if self._front == "serve" else []
        command = [sys.executable, "-W", "default", "-m", "dragoman", self._front, *more]
        command += ["--config", str(self._config), "--state-dir", str(self.state)]
        said = len(self.stderr)
        with (self.folder / "stderr").open("ab") as stderr:
            process = subprocess.Popen(  # noqa: ASYNC220 - it takes a millisecond
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=self.folder,
                env=self.environment,
                bufsize=0,
                start_new_session=True,
            )
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stdin is not None
        if self._front == "serve":
            process.stdin.close()
            process.stdout.close()
            await until(lambda: _port_in(self.stderr[said:]), "the server does not say where it is")
            editor: Editor = HttpEditor(_port_in(self.stderr[said:]), DEADLINE_SECONDS)
        else:
            editor = Editor(DEADLINE_SECONDS)
            streams = cast("tuple[BinaryIO, BinaryIO]", (process.stdout, process.stdin))
            await connect_files(editor, *streams, PeerOptions(name="dragoman"))
            await editor.initialize(self.folder)
        self.editor = editor
        return editor

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            MARK: self._mark,
            "PYTHONPATH": f"{_TESTS}{os.pathsep}{_TESTS / 'faults' / 'inside'}",
            "FAULTS_CLOCK": str(self.clock),
            "FAULTS_TASKS": str(self.folder),
            "TMPDIR": str(self.temporary),
            "HOME": str(self.folder),
        }

    async def ended(self) -> int:
        """The exit status, once it has one."""
        await until(lambda: self.process.poll() is not None, "the bridge does not end")
        if isinstance(self.editor, HttpEditor):
            await self.editor.hang_up()
        else:
            self.editor.peer.close()
            await self.editor.peer.wait_closed()
        assert self.process.returncode is not None
        return self.process.returncode

    async def end(self, how: str) -> int:
        match how:
            case "shutdown" | "end of input" if self._front == "serve":
                self.process.terminate()
            case "shutdown":
                await self.editor.ask("shutdown", {})
            case "end of input":
                self.editor.peer.close()
            case "terminated":
                self.process.terminate()
            case "killed":
                self.process.kill()
        return await self.ended()

    # The agents.

    def journal(self, *methods: str) -> list[dict[str, Any]]:
        """What the agents noted, in order."""
        file = self.agents / "journal"
        # The last line may be half written.
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [entry for entry in entries if not methods or entry["method"] in methods]

    async def noted(self, method: str, params: object = None) -> dict[str, Any]:
        """The first such note."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = [e for e in self.journal(method) if params is None or e["params"] == params]
            return bool(found)

        await until(look, f"no agent noted {method} {params}")
        return found[0]

    async def order(self, pid: int, what: str) -> bool:
        """Whether the agent was there to take it."""
        (self.agents / f"order.{pid}").write_text(what)
        if not is_alive(pid):
            return False
        os.kill(pid, signal.SIGUSR1)

        def is_taken() -> bool:
            return any((note["params"], note["pid"]) == (what, pid) for note in self.journal("ordered"))

        await until(lambda: not is_alive(pid) or is_taken(), f"{pid} does not take the order {what}")
        return is_taken()

    def living_agents(self) -> list[int]:
        return [entry["pid"] for entry in self.journal("started") if is_alive(entry["pid"])]

    def open_gate(self, name: str) -> None:
        (self.agents / name).touch()

    # The machine.

    def fill_disk(self) -> bool:
        """What is there can be changed; nothing can grow. Where mounting is not allowed, a limit on files stands for it.

        Whether it is so now: a bridge that has ended cannot be limited.
        """
        if not self._has_disk:
            if self.process.poll() is not None:
                return False
            largest = max((file.stat().st_size for file in self.state.iterdir()), default=0)
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
            return True
        with suppress(OSError), (self.state / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"\0" * 1024)
        return os.statvfs(self.state).f_bavail == 0

    def lock_database(self) -> None:
        self._lock = sqlite3.connect(self.state / "dragoman.db", isolation_level=None)
        self._lock.execute("BEGIN EXCLUSIVE")

    def exhaust_files(self) -> None:
        """It has what it has, and gets no more: a limit is one on the number of the next, which is the lowest free."""
        taken = {int(fd.name) for fd in Path(f"/proc/{self.pid}/fd").iterdir()}
        limit = next(number for number in count() if number not in taken)
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (limit, _files()[1]))

    def mend(self) -> None:
        """The machine is in order again."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        (self.state / "filler").unlink(missing_ok=True)
        with suppress(OSError):
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            resource.prlimit(self.pid, resource.RLIMIT_NOFILE, _files())

    def close(self) -> None:
        """Nothing of this is left, whatever became of the run."""
        self.mend()
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for pid in self.remaining():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self._has_disk:
            subprocess.run(["umount", "-l", str(self.state)], check=False)

    # What is left behind.

    def remaining(self) -> list[int]:
        """Every process that was started by a bridge here, or by anything it started."""
        return marked(self._mark)

    def temporary_files(self) -> list[str]:
        left = [*self.temporary.iterdir(), *(self.state / "run").glob("**/*")]
        return sorted(
            str(each.relative_to(self.folder))
            for each in left
            if not each.is_dir() or each.parent == self.temporary
        )

    async def tasks(self) -> Counter[str]:
        """What the bridge's event loop still has to do, by the names of the coroutines."""
        told = self.folder / f"tasks.{self.pid}"
        told.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR2)
        await until(told.exists, "the bridge does not tell its tasks")
        return Counter(told.read_text().splitlines())

    def complaints(self, *, tolerated: Iterable[str] = ()) -> list[str]:
        """What the bridges said that no program should."""
        return complaints_in(self.stderr, tolerated)

    @property
    def stderr(self) -> str:
        file = self.folder / "stderr"
        return file.read_text(errors="replace") if file.exists() else ""


def marked(mark: str) -> list[int]:
    """Every process with this mark in its environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            # Of others, or gone meanwhile.
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes() and not _is_dead(entry):
                    found.append(int(entry.name))
    return found


def complaints_in(text: str, tolerated: Iterable[str] = ()) -> list[str]:
    """The lines of a log that no program should write."""
    lines = [line for line in text.splitlines() if _LEFT_TASK.search(line) or _ERROR_LINE.search(line)]
    return [line for line in lines if not any(each in line for each in tolerated)]


def is_alive(pid: int) -> bool:
    try:
        return not _is_dead(Path(f"/proc/{pid}"))
    except OSError:
        return False


def fds_of(pid: int) -> dict[str, int]:
    """How many of which kind it has open."""
    kinds: dict[str, int] = {}
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            kind = re.split(r"[:\[]", str(fd.readlink()))[0]
            kind = kind if kind in ("socket", "pipe", "anon_inode") else "file"
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def _port_in(text: str) -> int:
    """Where a server says that it listens; 0 while it has not."""
    found = re.search(r"http://127\.0\.0\.1:(\d+)", text)
    return int(found[1]) if found else 0


def _mounted(folder: Path) -> bool:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", _DISK, "faults", str(folder)], check=False, capture_output=True
    )
    return done.returncode == 0


def _files() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def _is_dead(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
