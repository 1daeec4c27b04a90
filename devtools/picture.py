"""The picture in the README: the tour up to an open question, as an SVG.

    python -m devtools.picture docs/images/demo.svg

It is drawn from a real run. Fonts are those of whoever looks at it: nothing is loaded from anywhere.
"""

from __future__ import annotations

import asyncio
import html
import io
import re
import sys
from dataclasses import replace
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from dragoman.clock import SystemClock
from dragoman.demo.pace import DEFAULT_PACE
from dragoman.demo.show import play_tour
from dragoman.demo.tour import SCENES
from dragoman.frontends.terminal.screen import Screen

__all__ = ["draw"]

_COLUMNS = 84
# Where the picture ends: when the agent has reacted to the first denial.
_NEXT_QUESTION = "? Demo agent wants"
# The folder that the demo works in has another name every time, and means nothing to whoever looks at the picture.
_FOLDER = re.compile(r"/\S*dragoman-demo-\w+/")
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_NOT_OURS = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)
_FONT_FAMILY = re.compile(r"font-family: [^;]*;")
_TEXT = re.compile(
    r'<text(?P<head>[^>]*) x="(?P<x>[^"]*)"(?P<y> y="[^"]*") textLength="(?P<length>[^"]*)"(?P<tail>[^>]*)>'
    r"(?P<content>[^<]*)</text>"
)
_THEME = TerminalTheme(
    (27, 29, 35),
    (214, 217, 224),
    [(60, 64, 74), (232, 106, 98), (134, 194, 108), (222, 184, 92), (108, 162, 232), (190, 140, 220), (86, 190, 196), (214, 217, 224)],
    [(110, 116, 130), (240, 128, 120), (152, 212, 126), (236, 204, 118), (132, 180, 244), (206, 160, 232), (110, 208, 214), (240, 242, 246)],
)  # fmt: skip


async def draw(*, pace: str = DEFAULT_PACE) -> str:
    """The picture, as the text of an SVG file."""
    output = io.StringIO()
    console = Console(file=output, width=_COLUMNS, height=50, force_terminal=True, color_system="standard")
    scenes = tuple(replace(scene, title="") for scene in SCENES[1:])
    await play_tour(Screen(console, live=False), SystemClock(), pace=pace, scenes=scenes)
    paper = Console(
        file=io.StringIO(), record=True, width=_COLUMNS, force_terminal=True, color_system="truecolor"
    )
    for line in _shown(_FOLDER.sub("~/", output.getvalue()).splitlines()):
        paper.print(Text.from_ansi(line), no_wrap=True, crop=True)
    svg = paper.export_svg(title="dragoman", theme=_THEME, unique_id="dragoman")
    svg = _FONT_FAMILY.sub(f"font-family: {_FONTS};", _NOT_OURS.sub("", svg))
    return _TEXT.sub(_placed, svg)


def _shown(lines: list[str]) -> list[str]:
    questions = [
        index for index, line in enumerate(lines) if Text.from_ansi(line).plain.startswith(_NEXT_QUESTION)
    ]
    return lines[: questions[1] - 1]


def _placed(text: re.Match[str]) -> str:
    """A piece of text without blanks at its edges: not every viewer keeps them, though they are no-break spaces."""
    written = html.unescape(text["content"]).strip("\n")
    shown = written.strip("\xa0")
    if not shown:
        return ""
    width = float(text["length"]) / cell_len(written)
    x = float(text["x"]) + width * (len(written) - len(written.lstrip("\xa0")))
    content = html.escape(shown).replace("\xa0", "&#160;")
    return f'<text{text["head"]} x="{x:g}"{text["y"]} textLength="{width * cell_len(shown):g}"{text["tail"]}>{content}</text>'


def main() -> None:
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and the file
        raise SystemExit("usage: python -m devtools.picture FILE.svg")
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(asyncio.run(draw()), "utf-8")


if __name__ == "__main__":
    main()
