"""Peers over real file descriptors: a process's pipes, our own standard input and output, sockets.

Each function calls the receiver's `connected` before it hands it anything, and returns when both directions stand.
Files and sockets given to these functions belong to the connection from then on, also when connecting fails.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import stat
import sys
from pathlib import Path
from typing import BinaryIO, cast

from dragoman.jsonrpc.blocking import BlockingReader, BlockingWriter
from dragoman.jsonrpc.errors import ConnectionClosed
from dragoman.jsonrpc.peer import DEFAULT_OPTIONS, Peer, PeerOptions, Receiver

__all__ = ["connect_files", "connect_socket", "connect_stdio"]

_FIRST_FREE_FD = 3


async def connect_files(
    receiver: Receiver, reader: BinaryIO, writer: BinaryIO, options: PeerOptions = DEFAULT_OPTIONS
) -> Peer:
    """Connect over two unbuffered files, one to read and one to write: pipes, sockets, terminals or regular files."""
    if _same_socket(reader, writer):
        # Watched through two transports, what arrives would wake the one that writes, which takes it for the end.
        with reader, writer:
            connection = socket.socket(fileno=os.dup(reader.fileno()))
        return await connect_socket(receiver, connection, options)
    peer = Peer(receiver, options)
    loop = asyncio.get_running_loop()
    try:
        # The writer first: an incoming request may be answered at once.
        if _can_be_watched(writer):
            await loop.connect_write_pipe(peer.stream.writing_side, writer)
        else:
            BlockingWriter(writer, peer.stream.writing_side())
        if _can_be_watched(reader):
            await loop.connect_read_pipe(lambda: peer.stream, reader)
        else:
            BlockingReader(reader, peer.stream)
    except BaseException:
        peer.close()
        reader.close()
        writer.close()
        raise
    return peer


async def connect_stdio(receiver: Receiver, options: PeerOptions = DEFAULT_OPTIONS) -> Peer:
    """Connect over our own standard input and output, which no other code in this process can reach from then on.

    What is printed by accident goes to standard error instead, and children inherit none of the protocol's streams. A
    standard input that was closed before we began reads as ended. Without a standard output, raises
    `ConnectionClosed`.
    """
    # What Python found at its start counts: since then a closed one's number may have been given to something else, the
    # event loop for one.
    if sys.__stdout__ is None:
        raise ConnectionClosed("standard output is closed")
    return await connect_files(receiver, *_taken_stdio(), options)


async def connect_socket(
    receiver: Receiver, connection: socket.socket, options: PeerOptions = DEFAULT_OPTIONS
) -> Peer:
    """Connect over a connected stream socket."""
    peer = Peer(receiver, options)
    try:
        connection.settimeout(0)
        await asyncio.get_running_loop().create_unix_connection(lambda: peer.stream, sock=connection)
    except BaseException:
        peer.close()
        connection.close()
        raise
    return peer


def _can_be_watched(file: BinaryIO) -> bool:
    mode = os.fstat(file.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _same_socket(reader: BinaryIO, writer: BinaryIO) -> bool:
    one, other = os.fstat(reader.fileno()), os.fstat(writer.fileno())
    return stat.S_ISSOCK(one.st_mode) and os.path.samestat(one, other)


def _taken_stdio() -> tuple[BinaryIO, BinaryIO]:
    with _nothing() as nothing:
        writer = _taken_over(1, "wb")
        os.dup2(2 if sys.__stderr__ is not None else nothing.fileno(), 1)
        if sys.__stdin__ is None:
            return _taken_over(nothing.fileno(), "rb"), writer
        reader = _taken_over(0, "rb")
        os.dup2(nothing.fileno(), 0)
    return reader, writer


def _nothing() -> BinaryIO:
    with Path(os.devnull).open("r+b", buffering=0) as file:
        return _taken_over(file.fileno(), "r+b")


def _taken_over(fd: int, mode: str) -> BinaryIO:
    """Duplicate a file descriptor to a number above those of the standard streams."""
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
    return cast("BinaryIO", os.fdopen(copy, mode, buffering=0))
