"""The process that a bridge starts as its agent. It hands its pipes to the fake agent and sleeps until it is ended.

    python -I -S stub.py SOCKET

So a hundred agents cost one process that works and a hundred that do nothing, and what an agent costs is the same for
whoever has started it.
"""

import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as agents:
    agents.connect(sys.argv[1])
    socket.send_fds(agents, [b"%d" % os.getpid()], [0, 1])
    agents.recv(1)
nothing = os.open(os.devnull, os.O_RDWR)
os.dup2(nothing, 0)
os.dup2(nothing, 1)
os.execvp("sleep", ["sleep", "infinity"])  # noqa: S606, S607 - that of the system
