"""Peers over pipes, sockets, files, terminals and our own standard streams."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import socket
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from dragoman.jsonrpc import (
    ConnectionClosed,
    Peer,
    connect,
    connect_files,
    connect_socket,
    connect_stdio,
    stream,
)
from jsonrpc.recording import DEADLINE_SECONDS, Recorder


def pipe() -> tuple[BinaryIO, BinaryIO]:
    reader, writer = os.pipe()
    return cast("BinaryIO", io.FileIO(reader, "rb")), cast("BinaryIO", io.FileIO(writer, "wb"))


async def pipe_pair() -> tuple[Recorder, Peer, Recorder, Peer]:
    left, right = Recorder(answer=True), Recorder(answer=True)
    (from_right, to_left), (from_left, to_right) = pipe(), pipe()
    peers = await connect_files(left, from_right, to_right), await connect_files(right, from_left, to_left)
    return left, peers[0], right, peers[1]


async def closed(*peers: Peer) -> None:
    for peer in peers:
        peer.close()
        await asyncio.wait_for(peer.wait_closed(), DEADLINE_SECONDS)


async def test_two_peers_over_pipes() -> None:
    left, peer, right, other = await pipe_pair()
    assert await asyncio.gather(peer.request("a"), other.request("b")) == [b'{"echo":"a"}', b'{"echo":"b"}']  # type: ignore[comparison-overlap] # gather gives a list, whatever typeshed says
    peer.notify("n", ["x" * 1_000_000])
    await peer.drain()
    await right.until_count("notification", 1)
    peer.close()
    await right.until_count("closed", 1)
    await closed(peer, other)
    assert right.of("closed") == ["the other side closed the connection"]
    assert left.of("closed") == ["we closed the connection"]


async def test_last_words_are_read_although_the_pipe_to_the_speaker_is_broken() -> None:
    """A process that says something and exits closes both of its pipes at once."""
    receiver = Recorder()
    (reader, speaker), (listener, writer) = pipe(), pipe()
    peer = await connect_files(receiver, reader, writer)
    peer.pause_reading("test")
    listener.close()
    async with asyncio.timeout(DEADLINE_SECONDS):
        while peer.stream._writing_ended is None:  # noqa: ASYNC110 - the transport has no event for it
            await asyncio.sleep(0)
    with pytest.raises(ConnectionClosed, match="the other side stopped reading"):
        peer.notify("more")
    assert peer.closed is None
    speaker.write(b'{"method":"last","params":["words"]}\n{"method":"unterminated"}')
    speaker.close()
    peer.resume_reading("test")
    await receiver.until_count("closed", 1)
    assert receiver.of("notification") == [("last", b'["words"]'), ("unterminated", b"{}")]
    await closed(peer)


async def test_a_speaker_that_stopped_listening_is_given_up_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "LAST_WORDS_SECONDS", 0.01)
    receiver = Recorder()
    (reader, speaker), (listener, writer) = pipe(), pipe()
    peer = await connect_files(receiver, reader, writer)
    peer.pause_reading("test")
    listener.close()
    async with asyncio.timeout(DEADLINE_SECONDS):
        while peer.stream._timer is None:  # noqa: ASYNC110 - the transport has no event for it
            await asyncio.sleep(0)
    first = peer.stream._timer
    async with asyncio.timeout(DEADLINE_SECONDS):
        # As long as we do not read, the time does not count.
        while peer.stream._timer is first:  # noqa: ASYNC110 - the transport has no event for it
            await asyncio.sleep(0)
    assert receiver.of("closed") == []
    peer.resume_reading("test")
    await receiver.until_count("closed", 1)
    assert receiver.of("closed") == ["the other side stopped reading"]
    speaker.close()
    await closed(peer)


async def test_a_pipe_that_is_broken_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LAST_WORDS_SECONDS", 0.01)
    receiver = Recorder()
    (reader, speaker), (listener, writer) = pipe(), pipe()
    listener.close()
    loop = asyncio.get_running_loop()
    connect_read_pipe = loop.connect_read_pipe

    async def connect_late(*arguments: object) -> object:
        # By now the loop has seen that nobody reads what we write.
        for _ in range(10):
            await asyncio.sleep(0)
        return await connect_read_pipe(*arguments)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(loop, "connect_read_pipe", connect_late)
    peer = await connect_files(receiver, reader, writer)
    await receiver.until_count("closed", 1)
    assert receiver.events == [("connected", None), ("closed", "the other side stopped reading")]
    speaker.close()
    await closed(peer)


async def test_a_broken_pipe_while_sending_fails_what_is_pending() -> None:
    receiver = Recorder()
    (reader, speaker), (listener, writer) = pipe(), pipe()
    peer = await connect_files(receiver, reader, writer)
    asking = asyncio.ensure_future(peer.request("ask", ["x" * 1_000_000]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert peer.stream.unsent > 0
    listener.close()
    speaker.close()
    with pytest.raises(ConnectionClosed):
        await asyncio.wait_for(asking, DEADLINE_SECONDS)
    assert len(receiver.of("closed")) == 1
    await closed(peer)


async def test_closing_does_not_wait_for_ever_for_one_who_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "CLOSE_SECONDS", 0.01)
    (reader, speaker), (listener, writer) = pipe(), pipe()
    peer = await connect_files(Recorder(), reader, writer)
    peer.notify("n", ["x" * 1_000_000])
    await closed(peer)
    speaker.close()
    listener.close()


async def test_the_end_of_our_input_can_be_sent_alone() -> None:
    receiver = Recorder()
    (reader, speaker), (listener, writer) = pipe(), pipe()
    peer = await connect_files(receiver, reader, writer)
    peer.notify("bye")
    peer.close_writing()
    assert await asyncio.to_thread(listener.read) == b'{"jsonrpc":"2.0","method":"bye"}\n'
    assert await asyncio.to_thread(listener.read) == b""
    speaker.write(b'{"method":"still here"}\n')
    await receiver.until_count("notification", 1)
    assert peer.closed is None
    speaker.close()
    await receiver.until_count("closed", 1)
    listener.close()
    await closed(peer)


async def test_files_are_read_to_their_end_and_written(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    lines = [b'{"id":%d,"method":"m","params":["%s"]}\n' % (number, b"x" * 1000) for number in range(500)]
    source.write_bytes(b"".join(lines)[:-1])
    receiver = Recorder(answer=True)
    peer = await connect_files(
        receiver, cast("BinaryIO", io.FileIO(source)), cast("BinaryIO", io.FileIO(target, "w"))
    )
    peer.pause_reading("test")
    peer.resume_reading("test")
    await receiver.until_count("closed", 1)
    await closed(peer)
    answered = [json.loads(line)["id"] for line in target.read_bytes().splitlines()]
    assert answered == list(range(500))


async def test_a_file_that_is_closed_while_it_is_being_read(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(b'{"method":"m","params":["%s"]}\n' % (b"x" * 1000) * 1000)

    class Enough(Recorder):
        def notification(self, notification: object) -> None:
            assert self.peer is not None
            self.peer.pause_reading("test")
            self.peer.close("enough")

    receiver = Enough()
    peer = await connect_files(
        receiver, cast("BinaryIO", io.FileIO(source)), cast("BinaryIO", io.FileIO(os.devnull, "w"))
    )
    await receiver.until_count("closed", 1)
    await closed(peer)
    assert receiver.of("closed") == ["enough"]


async def test_a_folder_cannot_be_read() -> None:
    fd = os.open("/", os.O_RDONLY)
    receiver = Recorder()
    (listener, writer) = pipe()
    # io.FileIO refuses a folder, so the number is put in its place afterwards.
    reader, other = pipe()
    other.close()
    os.dup2(fd, reader.fileno())
    os.close(fd)
    peer = await connect_files(receiver, reader, writer)
    await receiver.until_count("closed", 1)
    assert "directory" in str(peer.closed)
    listener.close()
    await closed(peer)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
async def test_a_full_disk_ends_the_connection() -> None:
    receiver = Recorder()
    reader, speaker = pipe()
    peer = await connect_files(receiver, reader, cast("BinaryIO", io.FileIO("/dev/full", "w")))
    peer.notify("n")
    async with asyncio.timeout(DEADLINE_SECONDS):
        while peer.stream._writing_ended is None:  # noqa: ASYNC110 - the transport has no event for it
            await asyncio.sleep(0)
    with pytest.raises(ConnectionClosed, match="No space left"):
        peer.notify("n")
    speaker.close()
    await receiver.until_count("closed", 1)
    await closed(peer)


async def test_a_terminal_stays_blocking_for_those_who_share_it() -> None:
    master, terminal = pty.openpty()
    tty.setraw(terminal)
    receiver = Recorder(answer=True)
    peer = await connect_files(
        receiver,
        cast("BinaryIO", io.FileIO(os.dup(terminal), "r")),
        cast("BinaryIO", io.FileIO(os.dup(terminal), "w")),
    )
    os.write(master, b'{"id":1,"method":"m"}\n')
    await receiver.until_count("request", 1)
    answer = await asyncio.to_thread(os.read, master, 1000)
    assert json.loads(answer)["id"] == 1
    assert os.get_blocking(terminal)
    os.close(terminal)
    peer.close()
    # Its thread waits in a read; when the terminal goes away, so does the thread.
    os.close(master)
    await asyncio.wait_for(peer.wait_closed(), DEADLINE_SECONDS)


def test_a_reader_whose_event_loop_is_gone_ends_quietly() -> None:
    master, terminal = pty.openpty()
    tty.setraw(terminal)

    writer = io.FileIO(os.devnull, "w")

    async def connect_only() -> None:
        await connect_files(Recorder(), cast("BinaryIO", io.FileIO(terminal, "r")), cast("BinaryIO", writer))

    loop = asyncio.new_event_loop()
    loop.run_until_complete(connect_only())
    loop.close()
    writer.close()
    [thread] = [thread for thread in threading.enumerate() if thread.name == "dragoman-reader"]
    os.write(master, b"too late\n")
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    os.close(master)


async def test_one_socket_for_both_directions() -> None:
    ours, theirs = socket.socketpair()
    left, right = Recorder(answer=True), Recorder(answer=True)
    peer = await connect_files(
        left,
        cast("BinaryIO", io.FileIO(os.dup(ours.fileno()), "rb")),
        cast("BinaryIO", io.FileIO(os.dup(ours.fileno()), "wb")),
    )
    ours.close()
    other = await connect_socket(right, theirs)
    assert await other.request("a") == b'{"echo":"a"}'
    assert await peer.request("b") == b'{"echo":"b"}'
    peer.close_writing()
    await right.until_count("closed", 1)
    await left.until_count("closed", 1)
    await closed(peer, other)


async def test_a_socket_that_is_no_connection_is_closed_again() -> None:
    datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver = Recorder()
    with pytest.raises(ValueError, match="Stream Socket"):
        await connect_socket(receiver, datagram)
    assert datagram.fileno() == -1
    assert receiver.events == []


async def test_files_are_closed_when_connecting_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pipe()
    receiver = Recorder()

    async def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(asyncio.get_running_loop(), "connect_read_pipe", fail)
    with pytest.raises(OSError, match="no"):
        await connect_files(receiver, reader, writer)
    assert reader.closed
    assert writer.closed
    assert receiver.events == []
    await asyncio.sleep(0)


async def test_without_a_standard_output_there_is_nobody_to_talk_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stdout__", None)
    with pytest.raises(ConnectionClosed, match="standard output is closed"):
        await connect_stdio(Recorder())


# A program that speaks on its standard streams: it answers everything, prints something stray, and says on standard
# error how it ended.
PROGRAM = """
import asyncio, os, sys
from dragoman.jsonrpc import PeerOptions, connect_stdio

class Program:
    def __init__(self):
        self.ended = asyncio.Event()
    def connected(self, peer):
        print("stray", flush=True)
        os.system("echo from a child")
    def request(self, incoming):
        incoming.reply(incoming.method)
    def notification(self, notification):
        pass
    def closed(self, reason):
        print(reason, file=sys.stderr)
        self.ended.set()

async def main():
    program = Program()
    peer = await connect_stdio(program, PeerOptions(name="editor", answers_malformed=True))
    await program.ended.wait()
    await peer.wait_closed()

asyncio.run(main())
"""
REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"hello"}\n'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":"hello"}\n'


def run_program(
    stdin: int, stdout: int, stderr: int = subprocess.PIPE, before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        timeout=60,
        check=False,
        preexec_fn=before,
    )


def test_stdio_with_pipes_is_for_the_protocol_alone() -> None:
    reader, writer = os.pipe()
    os.write(writer, REQUEST)
    os.close(writer)
    result = run_program(reader, subprocess.PIPE)
    os.close(reader)
    assert result.stdout == ANSWER
    assert result.stderr == b"stray\nfrom a child\nthe other side closed the connection\n"
    assert result.returncode == 0


def test_stdio_with_files(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(REQUEST)
    with source.open("rb") as stdin, target.open("wb") as stdout:
        result = run_program(stdin.fileno(), stdout.fileno())
    assert target.read_bytes() == ANSWER
    assert result.returncode == 0


def test_stdio_with_nothing() -> None:
    result = run_program(subprocess.DEVNULL, subprocess.DEVNULL)
    assert result.stderr.endswith(b"the other side closed the connection\n")
    assert result.returncode == 0


def test_stdio_with_sockets_as_an_editor_gives_them() -> None:
    ours, theirs = socket.socketpair()
    ours_out, theirs_out = socket.socketpair()
    ours.sendall(REQUEST)
    ours.shutdown(socket.SHUT_WR)
    result = run_program(theirs.fileno(), theirs_out.fileno())
    theirs_out.close()
    assert ours_out.recv(1000) == ANSWER
    assert result.returncode == 0
    for end in (ours, theirs, ours_out):
        end.close()


def test_stdio_with_a_closed_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    source, request = os.pipe()
    os.write(request, REQUEST)
    began = time.monotonic()
    # Its input stays open: only its output is broken, and it ends all the same.
    result = run_program(source, writer)
    assert result.returncode == 0
    assert b"the other side" in result.stderr
    assert time.monotonic() - began < 30
    for fd in (writer, source, request):
        os.close(fd)


@pytest.mark.parametrize("closed", [(0,), (2,), (0, 2)])
def test_stdio_with_closed_streams(closed: tuple[int, ...]) -> None:
    def close() -> None:
        for fd in closed:
            os.close(fd)

    reader, writer = os.pipe()
    os.write(writer, REQUEST)
    os.close(writer)
    result = run_program(reader, subprocess.PIPE, subprocess.PIPE, close)
    os.close(reader)
    assert result.returncode == 0
    assert result.stdout == (b"" if 0 in closed else ANSWER)


@pytest.mark.parametrize("stdin_is_open", [True, False])
def test_standard_streams_are_taken_over(monkeypatch: pytest.MonkeyPatch, *, stdin_is_open: bool) -> None:
    replaced: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "dup2", lambda source, target: replaced.append((source, target)))
    monkeypatch.setattr(sys, "__stderr__", sys.stderr)
    monkeypatch.setattr(sys, "__stdin__", sys.stdin if stdin_is_open else None)
    reader, writer = connect._taken_stdio()
    with reader, writer:
        assert os.path.samestat(os.fstat(writer.fileno()), os.fstat(1))
        assert min(reader.fileno(), writer.fileno()) > 2
        assert [target for _, target in replaced] == ([1, 0] if stdin_is_open else [1])
        assert stdin_is_open or os.path.samestat(os.fstat(reader.fileno()), Path(os.devnull).stat())


def test_the_numbers_of_standard_streams_are_never_used_for_the_connection() -> None:
    with connect._nothing() as nothing:
        assert nothing.fileno() > 2
