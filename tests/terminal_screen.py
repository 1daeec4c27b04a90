"""A terminal for tests: a program runs in a pseudo-terminal, and what it draws is read off a screen.

There is nothing to sleep for: `wait_for` reads until the screen shows a pattern, under a deadline. Questions of the
program to its terminal (where is the cursor?) are answered as a terminal would.
"""

import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from fcntl import ioctl
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

from preloaded import PreloadedProgram, can_preload

__all__ = ["DEADLINE", "READY", "Folder", "Terminal"]

# Two loaded cores start a Python with all its imports in some seconds.
DEADLINE = 30.0
_READ = 65536

# A prompt at which nothing is typed yet.
READY = r"^❯ *$"

# Makes the pseudo-terminal on the given descriptor its own, then becomes the program.
# A test run in the background of a shell ignores Ctrl-C and Ctrl-\, and its children would inherit that.
_LAUNCH = (
    "import os, signal, sys; os.login_tty(int(sys.argv[1])); "
    "[signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, signal.SIGQUIT)]; "
    "os.execv(sys.argv[2], sys.argv[2:])"
)


class _Screen(pyte.HistoryScreen):
    """Remembers what scrolled away, and answers."""

    def __init__(self, columns: int, lines: int, master: int) -> None:
        self._master = master
        super().__init__(columns, lines, history=10_000, ratio=0.5)

    def write_process_input(self, data: str) -> None:
        os.write(self._master, data.encode())

    @property
    def scrolled(self) -> list[str]:
        return ["".join(line[x].data for x in range(self.columns)) for line in self.history.top]


class Terminal:
    """A running program and its screen."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        columns: int = 80,
        rows: int = 30,
        from_scratch: bool = False,
    ) -> None:
        """Python with these arguments. Unless `from_scratch`, `-m dragoman` has its imports already: see `preloaded.py`."""
        self._master, slave = os.openpty()
        self._resize(columns, rows)
        self._screen = _Screen(columns, rows, self._master)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self.modes_before = self.modes
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(cwd),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/sh",
            **(environment or {}),
        }
        self._process: PreloadedProgram | subprocess.Popen[bytes]
        if can_preload(arguments, environment or {}) and not from_scratch:
            self._process = PreloadedProgram(arguments, slave, cwd, env)
        else:
            command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(slave), sys.executable, *arguments]
            self._process = subprocess.Popen(command, pass_fds=[slave], cwd=cwd, env=env)
        os.close(slave)
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(DEADLINE)
        os.close(self._master)

    @property
    def text(self) -> str:
        """Everything there is to see, what has scrolled away included."""
        lines = [*self._screen.scrolled, *self._screen.display]
        return "\n".join(line.rstrip() for line in lines).rstrip()

    @property
    def rows(self) -> Sequence[str]:
        """What is on the screen now."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def title(self) -> str:
        return str(self._screen.title)

    @property
    def modes(self) -> list[object]:
        """How the terminal is set: echo, signals, lines."""
        return list(termios.tcgetattr(self._master))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def enter(self, text: str) -> None:
        """Type a line and press Enter."""
        self.type(f"{text}\r")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self._resize(columns, rows)

    def wait_for(self, pattern: str, *, times: int = 1) -> None:
        """Until everything there is to see has `pattern` at least so many times."""
        deadline = time.monotonic() + DEADLINE
        while len(re.findall(pattern, self.text, re.MULTILINE)) < times:
            self._read(deadline, f"{pattern!r} to appear")

    def wait_gone(self, pattern: str) -> None:
        """Until the screen does not show `pattern`."""
        deadline = time.monotonic() + DEADLINE
        while re.search(pattern, "\n".join(self.rows), re.MULTILINE):
            self._read(deadline, f"{pattern!r} to disappear")

    def wait_end(self) -> int:
        """Until the program ends. Returns its exit code."""
        deadline = time.monotonic() + DEADLINE
        while self._is_open:
            self._read(deadline, "the program to end")
        return self._process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, deadline: float, what: str) -> None:
        left = deadline - time.monotonic()
        ready = select.select([self._master], [], [], max(0.0, left))[0] if self._is_open else []
        if not ready:
            state = "after waiting" if self._is_open else "after the program ended"
            raise AssertionError(f"expected {what}; {state}, this is to be seen:\n{self.text}")
        try:
            data = os.read(self._master, _READ)
        except OSError:
            # Linux says EIO when the other side is gone.
            data = b""
        self._is_open = bool(data)
        self.raw += data
        self._stream.feed(data)

    def _resize(self, columns: int, rows: int) -> None:
        ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Folder:
    """Where a chat takes place: files, a script for the model, and any number of runs of the program."""

    def __init__(self, path: Path, opened: ExitStack) -> None:
        self.path = path
        self._opened = opened

    def script(self, *replies: object, pace: float = 1_000, settings: str = "") -> None:
        """What the model says: replies as in a script file."""
        lines = [{"model": {"name": "Tape"}, "pace": pace}, *replies]
        (self.path / "tape.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
        (self.path / "dragoman.toml").write_text(
            f'{settings}\n[models.tape]\nkind = "script"\npath = "tape.jsonl"\n'
        )

    def command(self, *arguments: str) -> list[str]:
        named = ["--config", "dragoman.toml"] if (self.path / "dragoman.toml").exists() else []
        return ["-m", "dragoman", "chat", "--state-dir", str(self.path / "state"), *named, *arguments]

    def terminal(self, *arguments: str, columns: int = 80, rows: int = 30, **environment: str) -> Terminal:
        """Python with these arguments in a terminal."""
        terminal = Terminal(*arguments, cwd=self.path, columns=columns, rows=rows, environment=environment)
        return self._opened.enter_context(terminal)

    def chat(self, *arguments: str, columns: int = 80, rows: int = 30, **environment: str) -> Terminal:
        """The program in a terminal, at its prompt unless one is given."""
        terminal = self.terminal(*self.command(*arguments), columns=columns, rows=rows, **environment)
        if "-p" not in arguments:
            terminal.wait_for(READY)
        return terminal

    def run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """The program without a terminal, from beginning to end."""
        return subprocess.run(
            [sys.executable, *self.command(*arguments)],
            input=given,
            cwd=self.path,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
