"""A laboratory that runs a command line with a real shell, and records what it calls and which files it writes.

Programs are stubs on a made-up PATH. A stub appends its name, arguments, folder and some variables to a log. Wrappers
(`env`, `timeout`, `bash` …) are recorded like all others, and then run for real. What stubs print, and what stands on the
standard input, is a command itself: a shell that runs its input is caught by that.

Lines come from a generator, so nothing may harm the machine. `is_safe` refuses lines that could reach a path outside the
laboratory or the real programs. Each run has limits, and as root it runs as a user without rights.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FILE_SCRIPT", "LAB", "VARIABLES", "WRAPPERS", "Call", "Run", "ShellLab", "shells", "stub_names"]

# Stands for the laboratory's folder in generated lines.
LAB = "@LAB@"
# Variables that a stub records.
VARIABLES = ("A", "B", "GIT_PAGER", "PAGER", "LD_PRELOAD", "BASH_ENV", "HOME", "PATH")
_STUBS = (
    "git", "ls", "cat", "rm", "make", "curl", "grep", "find", "python3", "tee", "sed", "sudo", "busybox", "cp", "mv",
    "pytest", "npm", "echo", "true", "false", "printf", "test", "touch", "head", "sort", "setsid",
)  # fmt: skip
_FAILING = frozenset({"grep", "false", "test"})
WRAPPERS = (
    *("env", "timeout", "nice", "nohup", "xargs", "stdbuf", "time"),
    *("bash", "sh", "dash", "zsh"),
)
_SHELLS = {"bash": ("--norc", "-c"), "dash": ("-c",), "zsh": ("-f", "-c")}
# Names that a shell could take for something else than a file.
_FILES = (
    "a.txt", "b.txt", "a b.txt", "-rf", "--output=x", "=ls", ".env", "x[1]", "~", "{a,b}.txt", "$HOME", "sub/c.txt",
    "sub/-f", "sub/deep/d.txt",
)  # fmt: skip
# Ways out of the working folder, and back into it.
_LINKS = {"link": "../../../h/o/me", "sub/up": "..", "file-link": "../../../h/o/me/x"}
# Stubs in the working folder: called by their path, or by a changed PATH.
_PROGRAMS = ("evil", "rm", "ls", "script.sh", "bin/git", "sub/evil", "sub/rm")
# Some lines have loops that never end.
_SECONDS = 3.0
_UNPRIVILEGED = 65_534
# Of processor time in seconds; of file size in blocks of 512 bytes; of processes, for the user without rights only.
_LIMITS = "ulimit -t 3; ulimit -f 2000; ulimit -c 0"
_LIMIT_PROCESSES = "; ulimit -u 400"
_STUB = """\
#!/bin/sh
cd -P . 2>/dev/null
printf '%s\\0' call "$0" "$PWD" "$#" "$@" {variables} >> {log}
{rest}
"""
# What stands in each file.
FILE_SCRIPT = ("rm", "from-file", "-f")
_PRINTED = "rm from-output -f\n"
_INPUT = "rm from-input -f\n"

# A path that begins at the root. What stands before the slash in a relative path is part of a name, or a tilde.
_ABSOLUTE = re.compile(r"(?<![\w.*?~@%+\])-])/")
_OTHERS_HOME = re.compile(r"~[\w+-]")
# Each makes a shell or `env` look for programs in the system's own folders, or reaches a wrapper by an unknown path.
_REAL_PROGRAMS = re.compile(
    r"env\b(?=.*\s['\"\\]*-)(?!\s+-i PATH=@LAB@/bin )|command\b.*-\w*p|exec\b.*-\w*c|unset|default|typeset|hash|HOME=|"
    rf"@LAB@/bin/(?:{'|'.join(WRAPPERS)})\b",
    re.DOTALL,
)
_DEEPEST_PARENT = 2


@dataclass(frozen=True, slots=True)
class Call:
    """One start of a program."""

    # Its name if it was found on the made-up PATH, else its path as it was called.

    program: str
    arguments: tuple[str, ...]
    folder: str
    # Those of `VARIABLES` whose value is not the one that the shell was started with; None: it was removed.
    variables: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Run:
    """What a command line did. `is_complete`: it ended by itself."""

    calls: tuple[Call, ...]
    # Absolute paths of files that were made or changed.
    written: frozenset[str]
    is_complete: bool


def stub_names() -> tuple[str, ...]:
    return _STUBS


def shells() -> dict[str, tuple[str, ...]]:
    """The shells of this machine, each as the beginning of an argument vector that a line completes."""
    found = {name: shutil.which(name) for name in _SHELLS}
    return {name: (path, *_SHELLS[name]) for name, path in found.items() if path is not None}


class ShellLab:
    """A folder with stubs and files. `open` makes one."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.limit_seconds = _SECONDS
        self.folder = f"{self.root}/w/o/rk"
        self.home = f"{self.root}/h/o/me"
        self._bin = f"{self.root}/bin"
        self._log = f"{self.root}/log/calls"
        self._watched = (f"{self.root}/w", f"{self.root}/h")
        self._is_root = os.geteuid() == 0
        self._user = _UNPRIVILEGED if self._is_root else None
        self.environment = {"PATH": self._bin, "HOME": self.home, "LC_ALL": "C.UTF-8", "PWD": self.folder}
        for folder in (self._bin, f"{self.root}/log"):
            os.mkdir(folder)  # noqa: PTH102 - called for each run below, and faster
        Path(self._log).touch()
        Path(self.root, "log/input").write_text(_INPUT)
        self._make_programs()
        self._before: dict[str, tuple[int, int, int]] = {}
        self._reset()
        if self._is_root:
            for path in (self.root, f"{self.root}/log", self._log):
                os.chown(path, _UNPRIVILEGED, _UNPRIVILEGED)

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[ShellLab]:
        with tempfile.TemporaryDirectory(prefix="dragoman-shell-lab-") as root:
            yield cls(Path(root).resolve())

    def fill(self, line: str) -> str:
        """Put the laboratory's own folder into a generated line."""
        return line.replace(LAB, self.root)

    def hide(self, line: str) -> str:
        return line.replace(self.root, LAB)

    def is_safe(self, line: str) -> bool:
        """Whether a line can reach only the laboratory, whatever a shell makes of it."""
        line = self.hide(line)
        rest = line.replace(LAB, "lab").replace("/dev/null", "null")
        return (
            "\0" not in line
            and _is_encodable(line)
            and not _ABSOLUTE.search(rest)
            and not _OTHERS_HOME.search(rest)
            and rest.count("..") <= _DEEPEST_PARENT
            and not _REAL_PROGRAMS.search(line)
        )

    def run(self, argv: Sequence[str]) -> Run:
        """Run a program with the made-up PATH, until it and all it has started ended."""
        os.truncate(self._log, 0)
        limits = _LIMITS + (_LIMIT_PROCESSES if self._is_root else "")
        # Every process that the line starts inherits this end. Nothing is left running when all have closed it.
        reading, writing = os.pipe()
        inherited = os.dup2(writing, 90)
        os.close(writing)
        with open(f"{self.root}/log/input", "rb") as given:  # noqa: PTH123 - as above
            process = subprocess.Popen(
                ("/bin/sh", "-c", f'{limits}; exec "$@"', "lab", *argv),
                cwd=self.folder,
                env=self.environment,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(inherited,),
                start_new_session=True,
                user=self._user,
                group=self._user,
                extra_groups=() if self._is_root else None,
            )
        os.close(inherited)
        try:
            is_complete = _is_closed(reading, self.limit_seconds)
            if not is_complete:
                _end_session(process.pid)
        finally:
            os.close(reading)
            process.wait()
        after = self._files()
        written = frozenset(path for path, state in after.items() if self._before.get(path) != state)
        if after != self._before:
            self._reset()
        return Run(tuple(self._calls()), written, is_complete)

    def _make_programs(self) -> None:
        variables = " ".join(f'"${{{name}+{name}=${name}}}"' for name in VARIABLES)
        stubs = {
            **{name: f"echo '{_PRINTED.strip()}'\nexit {int(name in _FAILING)}" for name in _STUBS},
            **{name: f'exec {real} "$@"' for name in WRAPPERS if (real := shutil.which(name))},
        }
        for name, rest in stubs.items():
            path = Path(self._bin, name)
            path.write_text(_STUB.format(variables=variables, log=self._log, rest=rest))
            path.chmod(0o755)

    def _reset(self) -> None:
        for folder in self._watched:
            shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(self.home)  # noqa: PTH103
        for name in (".profile", ".bash_profile", ".zprofile"):
            # A login shell takes PATH from the system's own file.
            Path(self.home, name).write_text(f"PATH={self._bin}\n")
        for name in _FILES:
            path = Path(self.folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(" ".join(FILE_SCRIPT) + "\n")
        for name in _PROGRAMS:
            path = Path(self.folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(f"{self._bin}/ls", path)
        for name, target in _LINKS.items():
            Path(self.folder, name).symlink_to(target)
        if self._is_root:
            for folder in self._watched:
                for inner, _, files in os.walk(folder):
                    for each in (inner, *(f"{inner}/{name}" for name in files)):
                        os.chown(each, _UNPRIVILEGED, _UNPRIVILEGED, follow_symlinks=False)
        self._before = self._files()

    def _files(self) -> dict[str, tuple[int, int, int]]:
        found = {}
        for folder in self._watched:
            for path, _, names in os.walk(folder):
                for name in names:
                    with suppress(OSError):
                        state = os.lstat(f"{path}/{name}")
                        found[f"{path}/{name}"] = (state.st_ino, state.st_size, state.st_mtime_ns)
        return found

    def _calls(self) -> Iterator[Call]:
        with open(self._log, "rb") as log:  # noqa: PTH123
            fields = [os.fsdecode(field) for field in log.read().split(b"\0")]
        at = 0
        while at + 3 < len(fields):
            marker, program, folder, count = fields[at : at + 4]
            assert marker == "call", fields
            arguments = tuple(fields[at + 4 : at + 4 + int(count)])
            at += 4 + int(count)
            values = dict(field.split("=", 1) for field in fields[at : at + len(VARIABLES)] if field)
            at += len(VARIABLES)
            if values.get("LD_PRELOAD", "").endswith("/libstdbuf.so"):
                # So works the wrapper of that name.
                del values["LD_PRELOAD"]
            changed = {
                name: values.get(name) for name in VARIABLES if values.get(name) != self.environment.get(name)
            }
            if program.startswith(f"{self._bin}/"):
                program = program.removeprefix(f"{self._bin}/")
            elif "/" not in program:
                # A shell runs the file as a script.
                program = f"./{program}"
            yield Call(program, arguments, folder, changed)


def _is_encodable(line: str) -> bool:
    try:
        return len(os.fsencode(line)) < 100_000
    except UnicodeEncodeError:
        return False


def _is_closed(descriptor: int, seconds: float) -> bool:
    """Wait until all writing ends of a pipe are closed."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0] and not os.read(descriptor, 1024):
            return True
    return False


def _end_session(session: int) -> None:
    """End all processes of a session. `timeout` and job control put some into groups of their own."""
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():  # noqa: PTH112, PTH208
        if entry.isdigit():
            with suppress(OSError):
                if os.getsid(int(entry)) == session:
                    os.kill(int(entry), signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)
