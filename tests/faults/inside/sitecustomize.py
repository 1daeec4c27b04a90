"""What a process under test can do beside its work. Python imports this by its name at every start.

Its wall clock is beside the real time by as many seconds as the file says that `FAULTS_CLOCK` names. At a SIGUSR2 it
writes what its event loop still has to do into the folder that `FAULTS_TASKS` names. The lease of a node of a fleet lasts as
many seconds as `FAULTS_LEASE` says; it is renewed and fenced in proportion.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

_clock = Path(os.environ.get("FAULTS_CLOCK", os.devnull))
_real = time.time


def _shown() -> float:
    try:
        return _real() + float(_clock.read_text() or 0)
    except OSError:
        return _real()


def _tell_tasks(_number: int, _frame: object) -> None:
    tasks = asyncio.all_tasks(asyncio.get_running_loop())
    names = sorted(getattr(task.get_coro(), "__qualname__", repr(task)) for task in tasks)
    partial = Path(os.environ["FAULTS_TASKS"], f"partial.{os.getpid()}")
    partial.write_text("".join(f"{name}\n" for name in names))
    partial.replace(partial.with_name(f"tasks.{os.getpid()}"))


def _change_lease(seconds: int) -> None:
    from dragoman.fleet import lease  # noqa: PLC0415 - for nodes of a fleet only

    usual = lease.LeaseTimes()
    share = seconds / usual.lease
    lease.LeaseTimes.__init__.__defaults__ = (seconds, usual.renew * share, usual.fence * share)


time.time = _shown
if "FAULTS_TASKS" in os.environ:
    signal.signal(signal.SIGUSR2, _tell_tasks)
# The commands of nodes, and not their agents.
if "FAULTS_LEASE" in os.environ and {"worker", "serve"} & set(sys.orig_argv):
    _change_lease(int(os.environ["FAULTS_LEASE"]))
