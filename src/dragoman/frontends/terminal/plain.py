"""A run for scripts: the answer on standard output, everything else on standard error.

The text is not laid out and has no colours, but what could act on a terminal is made visible all the same: output that
goes to a file is looked at later. For the exact text there is `--json`.
"""

from __future__ import annotations

from typing import TextIO

from dragoman.frontends.terminal.transcript import Transcript
from dragoman.loop.events import Ended, RunEvent, TextReported, ToolUsed
from dragoman.visible import VisibleText

__all__ = ["PlainTranscript"]


class PlainTranscript:
    def __init__(self, output: TextIO, others: Transcript) -> None:
        self._output = output
        self._others = others
        self._text = VisibleText()
        # How the output ends: text after a tool's work begins a paragraph of its own.
        self._is_open = False
        self._is_apart = True

    def on_event(self, event: RunEvent) -> None:
        match event:
            case TextReported(text=text):
                self._write(self._text.feed(text))
            case ToolUsed() | Ended():
                self._write(self._text.end())
                self._end_line()
                self._others.on_event(event)
            case _:
                self._others.on_event(event)

    def _write(self, text: str) -> None:
        if text:
            self._output.write(text if self._is_apart else f"\n{text}")
            self._output.flush()
            self._is_apart = True
            self._is_open = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_open:
            self._output.write("\n")
            self._output.flush()
            self._is_open = False
            self._is_apart = False
