"""Blocks of Markdown as the terminal shows them.

Everything in the source is shown, except the language of a code block: the address of a link and its title stand beside
its text, HTML and references are shown as they are written, an image is a line that names it. Hidden characters are made
visible again here, because an entity such as `&#x202e;` becomes a character only when Markdown is parsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it.tree import SyntaxTreeNode
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSI_LIGHT, ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text

from dragoman.frontends.terminal.blocks import Code, MarkdownBlock, Prose
from dragoman.frontends.terminal.layout import Hanging, column, stacked
from dragoman.frontends.terminal.markdown_parser import parser
from dragoman.visible import visible, visible_exactly

__all__ = ["render"]

# The terminal's own colours, so that code is readable on whatever background a person has chosen. Not the bright ones and
# not yellow, which cannot be read on white; not blue, which cannot be read on black.
_READABLE = {
    "blue": "magenta",
    "bright_blue": "magenta",
    "bright_red": "red",
    "yellow": "green",
    "white": "default",
}
_PLAIN = Style()
_INLINE = {
    "em": Style(italic=True),
    "strong": Style(bold=True),
    "s": Style(strike=True),
    "code_inline": Style(color="cyan"),
}
_HEADINGS = {"h1": Style(bold=True, underline=True), "h2": Style(bold=True)}
_LESSER_HEADING = Style(bold=True, italic=True)
_LINK = Style(underline=True)
_ADDRESS = Style(dim=True)
_BULLET = Style(color="cyan")
_QUOTE = Style(dim=True)
_BULLETS = "•◦▪"
# Quotes and lists inside each other use up the line. What they contain keeps so many columns.
_LEAST = 10
# Before the rows of a line of code after its first.
_GOES_ON = "↪ "


def _readable(style: Style) -> Style:
    name = "" if style.color is None else style.color.name
    return style + Style(color=_READABLE[name]) if name in _READABLE else style


_CODE_THEME = ANSISyntaxTheme({token: _readable(style) for token, style in ANSI_LIGHT.items()})


def render(block: MarkdownBlock) -> RenderableType:
    """One block, without the empty line that may go before it."""
    match block:
        case Code(lines, language, before):
            return _code([*before, *lines], language, last=len(lines))
        case Prose(source, number=number):
            try:
                tree = SyntaxTreeNode(parser().parse(source))
                return stacked(_blocks(tree.children, number=number))
            except RecursionError:
                # Hundreds of emphases inside each other: only the words are shown.
                return Text(visible(source), overflow="fold")


def _blocks(
    nodes: Sequence[SyntaxTreeNode], *, depth: int = 0, number: int | None = None
) -> Iterator[RenderableType]:
    for node in nodes:
        match node.type:
            case "paragraph" | "inline":
                yield _inline(node)
            case "heading":
                yield _inline(node, _HEADINGS.get(node.tag, _LESSER_HEADING))
            case "bullet_list":
                yield stacked(_items(node, depth, None), loose=_is_loose(node))
            case "ordered_list":
                start = int(node.attrs.get("start", 1)) if number is None else number
                yield stacked(_items(node, depth, start), loose=_is_loose(node))
            case "blockquote":
                yield Hanging("▌ ", "▌ ", stacked(_blocks(node.children, depth=depth)), _QUOTE, _LEAST)
            case "fence" | "code_block":
                language = (node.info.split() or [""])[0]
                lines = visible(node.content).removesuffix("\n").split("\n")
                yield _code(lines, language, last=len(lines))
            case "table":
                yield _table(node)
            case "hr":
                yield Rule(style=_QUOTE)
            case _:
                # Nothing else is parsed; should a parser learn something new, its source is better than nothing.
                yield Text(visible(node.content))


def _is_loose(node: SyntaxTreeNode) -> bool:
    return any(
        not child.hidden for item in node.children for child in item.children if child.type == "paragraph"
    )


def _items(node: SyntaxTreeNode, depth: int, start: int | None) -> Iterator[RenderableType]:
    for index, item in enumerate(node.children):
        mark = f"{_BULLETS[depth % len(_BULLETS)]} " if start is None else f"{start + index}. "
        body = stacked(_blocks(item.children, depth=depth + 1), loose=_is_loose(node))
        yield Hanging(mark, " " * len(mark), body, _BULLET, _LEAST)


def _table(node: SyntaxTreeNode) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        header_style=Style(bold=True),
        border_style=_QUOTE,
    )
    rows = [row for section in node.children for row in section.children]
    for cell in rows[0].children:
        style = str(cell.attrs.get("style", ""))
        justify = "right" if "right" in style else "center" if "center" in style else "left"
        table.add_column(_inline(cell), justify=justify, overflow="fold")  # type: ignore[arg-type]  # one of the three
    for row in rows[1:]:
        table.add_row(*(_inline(cell) for cell in row.children))
    return table


def _code(lines: Sequence[str], language: str, *, last: int) -> RenderableType:
    """The last few of some lines, highlighted in the light of all."""
    syntax = Syntax("", language or "text", theme=_CODE_THEME, background_color="default")
    text = syntax.highlight("\n".join(lines) + "\n")
    shown = text.split("\n", allow_blank=True)[len(lines) - last : len(lines)]
    return column(Group(*map(_CodeLine, shown)))


@dataclass(frozen=True, slots=True)
class _CodeLine:
    """A line of code, all of it. Where it does not fit it goes on below, behind a mark: it cannot pass for a line."""

    line: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = self.line
        line.overflow, line.no_wrap = "fold", False
        is_narrow = options.max_width < _LEAST
        if is_narrow or cell_len(line.plain.expandtabs(console.tab_size)) <= options.max_width:
            yield line
            return
        width = options.max_width - cell_len(_GOES_ON)
        for index, row in enumerate(console.render_lines(line, options.update(width=width), pad=False)):
            if index:
                yield Segment(_GOES_ON, _QUOTE)
            yield from row
            yield Segment.line()


def _inline(node: SyntaxTreeNode, style: Style = _PLAIN) -> Text:
    text = Text(overflow="fold")
    _append(text, node, style)
    return text


def _append(text: Text, node: SyntaxTreeNode, style: Style) -> None:
    match node.type:
        case "text":
            text.append(visible(node.content), style)
        case "text_special":
            text.append(visible_exactly(node.content), style)
        case "code_inline":
            text.append(visible(node.content), style + _INLINE["code_inline"])
        case "softbreak":
            text.append(" ")
        case "hardbreak":
            text.append("\n")
        case "image":
            text.append("▣ ", style)
            _append_children(text, node, style)
            _append_address(text, str(node.attrs.get("src", "")), node, style)
        case "link":
            address = str(node.attrs.get("href", ""))
            before = len(text)
            _append_children(text, node, style + _LINK)
            if text.plain[before:] != address or "title" in node.attrs:
                _append_address(text, address, node, style)
        case kind:
            _append_children(text, node, style + _INLINE.get(kind, _PLAIN))


def _append_children(text: Text, node: SyntaxTreeNode, style: Style) -> None:
    for child in node.children:
        _append(text, child, style)


def _append_address(text: Text, address: str, node: SyntaxTreeNode, style: Style) -> None:
    title = f' "{node.attrs["title"]}"' if "title" in node.attrs else ""
    text.append(f" ({visible_exactly(address + title)})", style + _ADDRESS)
