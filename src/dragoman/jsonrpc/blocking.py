"""Transports for what no selector can watch: regular files, terminals, /dev/null.

Such a file is read by a thread of its own, one chunk at a time and only when the last one was taken, and written to at
once. A terminal could be watched, but only after making it non-blocking for all that share it: the shell, and our own
log.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import BinaryIO

__all__ = ["BlockingReader", "BlockingWriter"]

_CHUNK_BYTES = 64 * 1024


class BlockingReader(asyncio.ReadTransport):
    def __init__(self, file: BinaryIO, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._protocol = protocol
        self._closing = False
        self._paused = False
        # Up while the thread may read the next chunk.
        self._wanted = threading.Event()
        protocol.connection_made(self)
        # A daemon: nothing can interrupt it while it waits for a person at the keyboard.
        self._thread = threading.Thread(target=self._run, name="dragoman-reader", daemon=True)
        self._thread.start()
        self._request_read()

    def pause_reading(self) -> None:
        self._paused = True
        self._wanted.clear()

    def resume_reading(self) -> None:
        self._paused = False
        self._request_read()

    def close(self) -> None:
        self._lose(None)

    def _request_read(self) -> None:
        if not self._paused:
            self._wanted.set()

    def _run(self) -> None:
        """The thread. The file is closed in here, so that its number is never given away while it is being read."""
        try:
            with self._file:
                while True:
                    self._wanted.wait()
                    self._wanted.clear()
                    if self._closing:
                        return
                    try:
                        data = os.read(self._file.fileno(), _CHUNK_BYTES)
                    except OSError as error:
                        self._loop.call_soon_threadsafe(self._lose, error)
                        return
                    self._loop.call_soon_threadsafe(self._take, data)
                    if not data:
                        return
        except RuntimeError:
            # The loop is closed, and with it the connection.
            return

    def _take(self, data: bytes) -> None:
        if self._closing:
            return
        if data:
            self._protocol.data_received(data)
            self._request_read()
        else:
            self._protocol.eof_received()
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._wanted.set()
            self._loop.call_soon(self._protocol.connection_lost, error)


class BlockingWriter(asyncio.WriteTransport):
    def __init__(self, file: BinaryIO, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._protocol = protocol
        self._closing = False
        protocol.connection_made(self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever buffered."""

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        try:
            while view and not self._closing:
                view = view[os.write(self._file.fileno(), view) :]
        except OSError as error:
            self._lose(error)

    def close(self) -> None:
        self._lose(None)

    abort = close

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._file.close()
            self._loop.call_soon(self._protocol.connection_lost, error)
