"""A web page as text: what a person would read, with headings, lists and links still recognisable.

Run as `python -P -m dragoman.tools.builtin.page ADDRESS START COUNT` with the page on standard input, because a page
can be written so that the parser takes hours for it. Prints how long the text is, and from the next line on the COUNT
characters that follow the first START.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from urllib.parse import urljoin

__all__ = ["main", "page_text"]

# The text in these is not shown to readers of the page.
_UNREAD = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object", "head"})
# These begin and end a line.
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "dd", "details", "div", "dl", "dt", "fieldset",
        "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main",
        "nav", "ol", "p", "pre", "section", "summary", "table", "tr", "ul",
    }
)  # fmt: skip
# These stand apart from what is around them.
_SPACED = frozenset({"blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "ol", "p", "pre", "table", "ul"})
_HEADING = re.compile(r"h([1-6])")
_SPACE = re.compile(r"[ \t\r\n\f]+")


def page_text(html: str, address: str) -> str:
    """The text of a page that was found at `address`."""
    reader = _Reader(address)
    reader.feed(html)
    reader.close()
    return reader.text()


class _Reader(HTMLParser):
    def __init__(self, address: str) -> None:
        super().__init__(convert_charrefs=True)
        self._address = address
        self._pieces: list[str] = []
        self._title: list[str] = []
        # How deep we are in elements that are not read, in preformatted text, in the title.
        self._unread = 0
        self._preformatted = 0
        self._in_title = False
        # Where the links that are open lead.
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = True
        elif tag in _UNREAD:
            self._unread += 1
        elif tag == "br":
            self._add("\n")
        elif tag == "body":
            # A head without an end does not hide the rest.
            self._unread = 0
        if tag in _BLOCKS:
            self._break(tag)
        if heading := _HEADING.fullmatch(tag):
            self._add("#" * int(heading[1]) + " ")
        match tag:
            case "li":
                self._add("- ")
            case "td" | "th":
                self._add(" | ")
            case "pre":
                self._preformatted += 1
            case "a":
                self._links.append(self._target(dict(attrs).get("href")))
                self._add("[" if self._links[-1] else "")
            case "img":
                self._add(dict(attrs).get("alt") or "")
            case _:
                pass

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in _UNREAD:
            self._unread = max(0, self._unread - 1)
        if tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
        if tag == "a" and self._links:
            target = self._links.pop()
            self._add(f"]({target})" if target else "")
        if tag in _BLOCKS:
            self._break(tag)

    def parse_marked_section(self, i: int, report: bool = True) -> int:  # noqa: FBT001, FBT002 - the parser's own form
        """`<![`, and then something that is no section: browsers pass over it, and the parser would fail."""
        try:
            return super().parse_marked_section(i, bool(report))
        except AssertionError:
            return self.parse_bogus_comment(i)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._title.append(data)
        elif self._preformatted:
            self._add(data)
        else:
            self._add(_SPACE.sub(" ", data))

    def _add(self, text: str) -> None:
        if text and not self._unread:
            self._pieces.append(text)

    def _break(self, tag: str) -> None:
        self._add("\n\n" if tag in _SPACED else "\n")

    def _target(self, href: str | None) -> str:
        """Where a link leads, if it leads to another page."""
        if not href or href.startswith("#"):
            return ""
        try:
            target = urljoin(self._address, href.strip())
        except ValueError:
            return ""
        return target if target.startswith(("http://", "https://")) else ""

    def text(self) -> str:
        title = _SPACE.sub(" ", "".join(self._title)).strip()
        lines = [line.rstrip() for line in "".join(self._pieces).split("\n")]
        # A space at the beginning of a line is left over from between two tags, unless it is one of several.
        lines = [line[1:] if re.match(r" \S", line) else line for line in lines]
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        return f"{title}\n\n{body}" if title else body


def main(html: str, address: str, start: int, count: int) -> str:
    text = page_text(html, address)
    return f"{len(text)}\n{text[start : start + count]}"


if __name__ == "__main__":
    said = main(sys.stdin.buffer.read().decode(), sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.buffer.write(said.encode(errors="replace"))
