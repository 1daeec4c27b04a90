"""Progress of long work on standard error: a bar on a terminal, and a line for each step elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from dragoman.logs import one_line

__all__ = ["StepProgress"]


class StepProgress:
    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            _Bytes(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            # What is printed meanwhile goes above the bar; but never from a file or a pipe to the terminal.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._current: TaskID | None = None

    def step(self, what: str) -> None:
        """End the previous step, and begin this one."""
        what = one_line(what)
        if not self._console.is_terminal:
            self._console.print(f"{what} …", markup=False, soft_wrap=True)
            return
        if self._current is not None:
            self._bar.remove_task(self._current)
        # Without a total it only shows that something goes on.
        self._current = self._bar.add_task(what, total=None)

    def bytes(self, taken: int, total: int | None) -> None:
        if self._current is not None:
            self._bar.update(self._current, completed=taken, total=total)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()


class _Bytes(DownloadColumn):
    """The column of bytes, empty for a step that counts none."""

    def render(self, task: Task) -> Text:
        return super().render(task) if task.completed else Text("")
