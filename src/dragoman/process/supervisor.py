"""The small program between us and a child: it ends the child, and what the child started, when we end.

It runs as `python -I -S supervisor.py FD`, imports nothing but a few light modules of the standard library, and so starts
in some tens of milliseconds. FD is its end of a socket to its owner, the *control* channel:

- the owner sends the order: its length in eight bytes, then `marshal` of command, environment, folder and grace;
- the supervisor sends lines: `started PID`, or `failed STAGE ERRNO`; later `exited CODE` or `signalled NUMBER`;
- the owner may send a line with a new grace, in seconds; or a line `until TIME`: the child is ended at that time, by a
  clock that goes on while the machine sleeps, unless another such line comes before;
- when the owner's end closes, because it was closed or because the owner is gone, however it went, the child is ended;
- the supervisor's end closes, as it exits, when everything is gone.

The child leads a session and a process group of its own and has the standard streams that the supervisor was given; the
supervisor itself lets go of them. Ending it is SIGTERM to the group and, after the grace, SIGKILL. The same happens to
what is left of the group when the child has exited by itself.

A grandchild can leave the group: shells put commands into groups of their own, Node calls it `detached`. On Linux the
supervisor adopts every orphan among its descendants, so none gets away. Elsewhere it looks for descendants when it
begins to end them, and does not find one whose parent exited before.
"""

from __future__ import annotations

import errno
import marshal
import math
import os
import select
import signal
import sys
import time
from contextlib import suppress

__all__ = ["Order", "Supervisor", "adopt_orphans", "descendants", "encode_order", "processes"]

# Command, environment, folder, and the grace in seconds. In bytes, so that nothing is lost in any locale.
Order = tuple[list[bytes], dict[bytes, bytes], bytes | None, float]
# The parent and the group of a process.
Kin = tuple[int, int]

_LENGTH_BYTES = 8
# Between two looks at what is being ended, where no signal says that it has. Our own children wake us sooner.
_LOOK_SECONDS = 0.02
# A killed process is gone at once, unless the kernel holds it in a call that nothing interrupts: then we go first.
_KILL_SECONDS = 5.0
_CHUNK_BYTES = 65536
# From prctl(2): orphans among our descendants become our children.
_PR_SET_CHILD_SUBREAPER = 36
# What Python ignores, or this program handles, is as usual again in the child.
_RESTORED = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGCHLD,
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
)


def encode_order(order: Order) -> bytes:
    data = marshal.dumps(order)
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


class Supervisor:
    def __init__(self, control: int) -> None:
        self._control = control
        os.set_inheritable(control, False)  # noqa: FBT003 - it takes no name
        self._buffer = b""
        self._grace = 0.0
        # When everything ends although the owner lives: it may be suspended.
        self._deadline = math.inf
        self._child = 0
        self._child_lives = True
        self._must_end = False
        self._adopting = False
        self._has_children = True
        # Descendants that left the group: their pids, with the groups they were in.
        self._strays: dict[int, int] = {}
        # Signals wake the poll, by their number in this pipe.
        self._wake, wake_end = os.pipe()
        os.set_blocking(wake_end, False)
        signal.set_wakeup_fd(wake_end)
        signal.signal(signal.SIGCHLD, _noticed)
        signal.signal(signal.SIGTERM, _noticed)
        # These are meant for the owner, which sends us an order to end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._poll = select.poll()
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)

    def run(self) -> None:
        order = self._read_order()
        if order is None:
            return
        *_, self._grace = order
        self._adopting = adopt_orphans()
        failure = self._start(order)
        if failure:
            self._send(failure)
            return
        self._send(f"started {self._child}")
        _let_go()
        while self._child_lives and not self._must_end and (left := self._deadline - _boot_seconds()) > 0:
            self._wait(None if left == math.inf else left)
        self._end_everything()

    # The channel.

    def _read_order(self) -> Order | None:
        """Read the order; None if the owner is gone before it has sent one."""
        data = b""
        length = _LENGTH_BYTES
        while len(data) < length:
            chunk = os.read(self._control, min(_CHUNK_BYTES, length - len(data)))
            if not chunk:
                return None
            data += chunk
            if len(data) == length == _LENGTH_BYTES:
                length += int.from_bytes(data, "big")
        order: Order = marshal.loads(data[_LENGTH_BYTES:])  # noqa: S302 - from our owner, on the same interpreter
        return order

    def _send(self, line: str) -> None:
        # An owner that is gone is no reason to stop.
        with suppress(OSError):
            os.write(self._control, line.encode() + b"\n")

    def _wait(self, seconds: float | None) -> None:
        """Wait for a signal or a message, or until the time is over."""
        ready = {fd for fd, _ in self._poll.poll(None if seconds is None else max(0.0, seconds) * 1000)}
        if self._wake in ready and signal.SIGTERM in os.read(self._wake, _CHUNK_BYTES):
            self._must_end = True
        if self._control in ready:
            self._receive()
        self._reap()

    def _receive(self) -> None:
        try:
            chunk = os.read(self._control, _CHUNK_BYTES)
        except OSError:
            chunk = b""
        if not chunk:
            self._poll.unregister(self._control)
            self._must_end = True
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.rpartition(b" ")
            if name == b"until":
                self._deadline = float(value)
            else:
                self._grace = float(value)

    # The child.

    def _start(self, order: Order) -> str:
        """Start the child. Returns the line to send if that fails."""
        failed, failed_end = os.pipe()
        self._child = os.fork()
        if not self._child:
            _become(order, failed_end)
        os.close(failed_end)
        # A successful exec closes it without a word.
        failure = os.read(failed, _CHUNK_BYTES).decode()
        os.close(failed)
        return failure

    def _reap(self) -> None:
        """Take note of every child that has ended; adopted orphans are among them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._has_children = False
                return
            if not pid:
                return
            if pid == self._child:
                self._child_lives = False
                code = os.waitstatus_to_exitcode(status)
                self._send(f"exited {code}" if code >= 0 else f"signalled {-code}")

    # The end.

    def _end_everything(self) -> None:
        if self._anything_left():
            self._signal_everything(signal.SIGTERM)
        deadline = time.monotonic() + self._grace
        while self._anything_left() and (left := deadline - time.monotonic()) > 0:
            self._wait(left if self._adopting else min(left, _LOOK_SECONDS))
        deadline = time.monotonic() + _KILL_SECONDS
        while self._anything_left() and time.monotonic() < deadline:
            # Each time anew: what was just killed may have started something before it went.
            self._signal_everything(signal.SIGKILL)
            self._wait(_LOOK_SECONDS)

    def _anything_left(self) -> bool:
        self._reap()
        if self._adopting:
            # Everything below us has become our child by the time its parents are gone.
            return self._has_children
        return self._child_lives or _signalled(-self._child, 0) or any(map(_exists, self._strays))

    def _signal_everything(self, number: int) -> None:
        # Listed first: the children of a process that dies of the signal get another parent.
        table = processes()
        # A pid that has been given to another process since has another group.
        strays = {
            pid: group for pid, group in self._strays.items() if pid in table and table[pid][1] == group
        }
        for pid in descendants(table, os.getpid()):
            if table[pid][1] != self._child:
                strays[pid] = table[pid][1]
        self._strays = strays
        _signalled(-self._child, number)
        for pid in strays:
            _signalled(pid, number)


def _boot_seconds() -> float:
    """As `deadline.boot_seconds`, which this program cannot import."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def adopt_orphans() -> bool:
    """Become the parent of descendants whose parents exit. Only Linux can."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes  # noqa: PLC0415 - not built into every Python

        status: int = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return False
    return status == 0


def processes(proc: str = "/proc") -> dict[int, Kin]:
    """Every process that can be seen, by its pid."""
    try:
        pids = [int(name) for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208 - pathlib takes long to import
    except OSError:
        return _listed_processes()
    table = {}
    for pid in pids:
        # It may be gone by now.
        with suppress(OSError), open(f"{proc}/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib takes long to import
            # After the name, which is in parentheses and may hold anything: state, parent, group.
            _, parent, group, *_ = file.read().rpartition(b")")[2].split()
            table[pid] = int(parent), int(group)
    return table


def _listed_processes() -> dict[int, Kin]:
    """As `processes`, where there is no /proc."""
    with os.popen("ps -A -o pid=,ppid=,pgid=") as listing:  # noqa: S605, S607 - a fixed command, the system's own
        rows = [line.split() for line in listing]
    return {int(pid): (int(parent), int(group)) for pid, parent, group in rows}


def descendants(table: dict[int, Kin], root: int) -> list[int]:
    """The pids below `root`, parents before children."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(root, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def _exists(pid: int) -> bool:
    return _signalled(pid, 0)


def _signalled(pid: int, number: int) -> bool:
    """Whether there was a process to signal, or with a negative number a group."""
    try:
        os.kill(pid, number)
    except OSError:
        # Gone, or not ours to signal: in either case there is nothing we can do about it.
        return False
    return True


def _noticed(number: int, frame: object) -> None:
    """Do nothing: a signal with a handler is written to the wake-up pipe."""


def _become(order: Order, failed_end: int) -> None:
    """In the forked child: turn into the command, or say why not and exit."""
    command, environment, folder, _ = order
    stage = "session"
    try:
        os.setsid()
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        if folder is not None:
            stage = "folder"
            os.chdir(folder)
        stage = "command"
        os.execvpe(command[0], command, environment)  # noqa: S606 - what all of this is for
    except OSError as error:
        os.write(failed_end, f"failed {stage} {error.errno}".encode())
    except BaseException:
        os.write(failed_end, f"failed {stage} {errno.EINVAL}".encode())
    finally:
        os._exit(127)


def _let_go() -> None:
    """Close the child's streams, so that they end with it, and leave the folder we were started in."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.chdir("/")


if __name__ == "__main__":
    Supervisor(int(sys.argv[1])).run()
