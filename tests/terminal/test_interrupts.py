"""Ctrl-C: once stops, twice leaves."""

import asyncio
import io
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.backends.scripted import ScriptedModel, forever
from dragoman.clock import SystemClock
from dragoman.config import Config
from dragoman.frontends.terminal.chat import Turns, live
from dragoman.frontends.terminal.host import INTERRUPTED, NoConfirmer, TerminalHost
from dragoman.frontends.terminal.interrupts import Interrupts
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.session import ChatSession
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.lm import CancellationToken
from dragoman.loop.events import EndReason, RunEvent
from dragoman.loop.hooks import Hooks
from virtual_clock import VirtualClock


class _Unseen:
    def on_event(self, event: RunEvent) -> None:
        pass


def test_two_presses_within_two_seconds_are_two() -> None:
    clock = VirtualClock()
    interrupts = Interrupts(clock)
    assert not interrupts.press()
    clock.advance(2)
    assert interrupts.press()
    clock.advance(2.1)
    assert not interrupts.press()


def test_what_was_pressed_before_something_new_began_does_not_count() -> None:
    interrupts = Interrupts(VirtualClock())
    interrupts.press()
    interrupts.forget()
    assert not interrupts.press()


def _session(folder: Path) -> ChatSession:
    return ChatSession(
        Config(),
        "demo",
        state_dir=folder,
        workspace=(folder,),
        tools=(),
        clock=SystemClock(),
        build_model=lambda _config, _name: ScriptedModel.of(forever()),
    )


async def test_the_first_cancels_the_turn(tmp_path: Path) -> None:
    with _session(tmp_path) as session:
        turns = Turns(session, Interrupts(VirtualClock()))
        running = asyncio.ensure_future(turns.run_alone("go", TerminalHost(_Unseen(), NoConfirmer())))
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
        assert await asyncio.wait_for(running, 20) == INTERRUPTED
        assert session.messages[-1].text == "go"


async def test_the_second_leaves_even_when_the_turn_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = asyncio.Event()

    async def stubborn(_prompt: str, _hooks: Hooks, token: CancellationToken) -> EndReason:
        await token.wait()
        stopping.set()
        await asyncio.Event().wait()
        return "completed"

    with _session(tmp_path) as session:
        monkeypatch.setattr(session, "answer", stubborn)
        turns = Turns(session, Interrupts(VirtualClock()))
        running = asyncio.ensure_future(turns.run_alone("go", TerminalHost(_Unseen(), NoConfirmer())))
        await asyncio.sleep(0)
        turns.interrupt()
        await asyncio.wait_for(stopping.wait(), 20)
        turns.interrupt()
        assert await asyncio.wait_for(running, 20) == INTERRUPTED


async def test_leaving_while_the_live_lines_are_taken_away_is_not_forgotten() -> None:
    screen = Screen(Console(file=io.StringIO()), live=True)
    transcript = Transcript(screen, SystemClock(), model=lambda: "Demo")

    async def answer() -> None:
        async with live(transcript, screen, SystemClock()):
            await asyncio.sleep(0)
            task.cancel()

    task = asyncio.create_task(answer())
    with pytest.raises(asyncio.CancelledError):
        await task
