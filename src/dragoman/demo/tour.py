"""The tour: the demo agent's chat with a scripted person, who types three prompts and decides four times.

Only the agent's text and the user's keys are scripted. The agent's process, the bridge to it, the
tools, the questions and the files are real; what is on the screen is what a chat shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import RenderableType
from rich.rule import Rule
from rich.style import Style
from rich.text import Text

from dragoman.clock import Clock
from dragoman.frontends.terminal.keys import ESCAPE
from dragoman.frontends.terminal.layout import column, stacked
from dragoman.frontends.terminal.prompt import MARK, REASON_MARK
from dragoman.frontends.terminal.screen import Screen

__all__ = ["SCENES", "TourScene", "Tourist"]

_DIM = Style(dim=True)
_MARK = Style(color="cyan", bold=True)
_SECONDS_A_KEY = 0.03
# Before the person presses a key: long enough to read the title of a question.
_SECONDS_TO_DECIDE = 1.0


@dataclass(frozen=True, slots=True)
class TourScene:
    """A prompt, and the person's answers in order: keys, and a reason where one is asked for."""

    prompt: str
    keys: str = ""
    reason: str = ""
    # What stands above it; nothing, without a title.
    title: str = ""
    about: str = ""


SCENES = (
    TourScene(
        "What is in this folder?",
        title="Thinking, and a tool that only reads",
        about="The agent, a separate process, thinks (folded to one line) and calls one of the chat's tools. "
        "Listing files changes nothing, so you are not asked.",
    ),
    TourScene(
        "Which translations are missing?",
        title="Tools side by side",
        about="It reads two files at the same time. Then a tool of your own, written in Python, looks up two phrases.",
    ),
    TourScene(
        "Fill them in, and run the check.",
        keys="nysy",
        reason="Too familiar for a stranger: teşekkür ederim.",
        title="You decide",
        about="The agent asks before it acts, and you see the change first. You deny one with a reason, and the agent "
        "makes a better one. You allow a command for the session, so the second time you are not asked.",
    ),
)


class Tourist:
    """Types the prompts, presses the keys and gives the reasons of the scenes, at a speed."""

    def __init__(
        self, screen: Screen, clock: Clock, *, scenes: tuple[TourScene, ...] = SCENES, speed: float = 1.0
    ) -> None:
        self._screen = screen
        self._clock = clock
        self._speed = speed
        self._scenes = deque(enumerate(scenes, start=1))
        self._scene = scenes[0]
        self._keys: deque[str] = deque()

    async def read(self) -> str | None:
        """The next prompt, typed on the screen."""
        if not self._scenes:
            return None
        number, self._scene = self._scenes.popleft()
        self._keys = deque(self._scene.keys)
        if self._scene.title:
            self._screen.print(_caption(number, self._scene))
        await self._type(MARK, _MARK, self._scene.prompt)
        return self._scene.prompt

    @contextmanager
    def listening(self) -> Iterator[bool]:
        yield False

    async def key(self) -> str:
        await self._pause(_SECONDS_TO_DECIDE)
        return self._keys.popleft() if self._keys else ESCAPE

    async def read_reason(self) -> str | None:
        await self._type(REASON_MARK, Style(color="yellow"), self._scene.reason)
        return self._scene.reason

    async def _type(self, mark: str, style: Style, text: str) -> None:
        if self._screen.is_live:
            for length in range(len(text)):
                self._screen.show(Text.assemble((mark, style), text[:length]))
                await self._pause(_SECONDS_A_KEY)
            self._screen.show(None)
        self._screen.print(Text.assemble((mark, style), text))

    async def _pause(self, seconds: float) -> None:
        await self._clock.sleep(seconds / self._speed)


def _caption(number: int, scene: TourScene) -> RenderableType:
    title = Text(f"{number} · {scene.title}", Style(bold=True))
    return stacked(
        [
            Rule(title, align="left", style=_DIM),
            column(Text(scene.about, _DIM)),
            Text(),
        ],
        loose=False,
    )
