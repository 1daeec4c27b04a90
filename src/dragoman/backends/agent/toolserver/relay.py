"""A relay between an agent that starts its tool servers and the one tool server that serves every conversation.

Run by path, as a separate program: `python -I -S relay.py SOCKET`, with the conversation's token in the environment and
not among the arguments, where every user of the machine could read it. It imports nothing of this package, and passes
bytes on without looking at them. When either side ends, it ends.
"""

from __future__ import annotations

import os
import socket
import sys
from _thread import start_new_thread

__all__ = ["TOKEN_VARIABLE"]

TOKEN_VARIABLE = "DRAGOMAN_TOOL_TOKEN"  # noqa: S105 - the name of a variable

_CHUNK = 64 * 1024
_STDIN, _STDOUT = 0, 1


def _main() -> int:
    token = os.environ.pop(TOKEN_VARIABLE, "")
    if len(sys.argv) != 2 or not token:  # noqa: PLR2004 - the program and one argument
        sys.stderr.write("dragoman: this program is started by an agent, with the address of its tools\n")
        return 2
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        server.connect(sys.argv[1])
        server.sendall(token.encode() + b"\n")
    except OSError as error:
        sys.stderr.write(f"dragoman: the tool server does not answer: {error}\n")
        return 1
    # One thread for each direction: neither waits for the other, so a side that does not read cannot block both.
    start_new_thread(_send, (server,))
    return _receive(server)


def _send(server: socket.socket) -> None:
    try:
        while data := os.read(_STDIN, _CHUNK):
            server.sendall(data)
        # The agent is done. The other direction ends when the server has closed in turn.
        server.shutdown(socket.SHUT_WR)
    except OSError:
        os._exit(0)


def _receive(server: socket.socket) -> int:
    try:
        while data := server.recv(_CHUNK):
            while data:
                data = data[os.write(_STDOUT, data) :]
    except OSError:
        pass
    return 0


if __name__ == "__main__":
    # Without waiting for the other thread, which may be reading for ever.
    os._exit(_main())
