"""Checks of what is made of the words of others before somebody sees them: in a terminal, in an editor, in a log."""

from __future__ import annotations

import re
from io import StringIO

from rich.console import Console

from dragoman.frontends.terminal.blocks import Blocks, MarkdownBlock
from dragoman.frontends.terminal.markdown import render
from dragoman.lm import gfm
from dragoman.lm.links import InertLinks
from dragoman.logs import Redaction, one_line
from dragoman.permissions.urls import Url, UrlError, UrlPattern, UrlPatternError
from dragoman.tools.builtin.difference import MAX_DIFF_CHARACTERS, difference
from dragoman.tools.builtin.page import page_text
from dragoman.visible import VisibleText, hides, visible, visible_exactly
from fuzz.check import obeyed, pieces
from lm.rendering import hrefs, tokens

__all__ = ["addresses", "agents_words", "composed_text", "log_lines", "streamed_markdown", "web_pages"]

# The editor acts on these, however many slashes they have.
_ACTS = re.compile(r"[\x00-\x20]*(?:command:|(?:https?:)?[/\\]{2,}(?:[^/\\?#]*@)?_)", re.IGNORECASE)
# What plain words are made of, once they are read as Markdown.
_PLAIN = {"paragraph_open", "inline", "paragraph_close"}
_PLAIN_INLINE = {"text", "softbreak", "hardbreak", "text_special"}


def agents_words(data: bytes) -> None:
    """Cut anywhere, the same is shown; nothing that a terminal obeys, and no link that the editor acts on."""
    cut = [piece.decode("latin-1") for piece in pieces(data)]
    links = InertLinks()
    whole = InertLinks().feed("".join(cut))
    assert "".join(links.feed(piece) for piece in cut) == whole
    assert not [href for href in hrefs(whole) if _ACTS.match(href)]
    shown = VisibleText()
    pieced = "".join(shown.feed(piece) for piece in cut) + shown.end()
    assert pieced == visible("".join(cut))
    assert not obeyed(pieced)
    text = data.decode("utf-8", "replace")
    exactly = visible_exactly(text)
    assert visible_exactly(exactly) == exactly
    assert not obeyed(exactly)
    assert len(exactly) <= 10 * len(text)


def streamed_markdown(data: bytes) -> None:
    """Cut anywhere, the same blocks; and whatever they say, what is drawn obeys nobody."""
    text = visible(data.decode("utf-8", "replace"))
    blocks = _blocks([text])
    assert blocks == _blocks([text[at : at + 3] for at in range(0, len(text), 3)])
    screen = Console(file=StringIO(), width=40, color_system=None, legacy_windows=False)
    for block in blocks:
        screen.print(render(block))
    assert isinstance(screen.file, StringIO)
    assert not obeyed(screen.file.getvalue())


def _blocks(cut: list[str]) -> list[MarkdownBlock]:
    reading = Blocks()
    return [*(block for piece in cut for block in reading.feed(piece)), *reading.close()]


def composed_text(data: bytes) -> None:
    """Words of others in a text of ours: they are words there, or code, and nothing else."""
    text = data.decode("utf-8", "replace")
    escaped = tokens(gfm.escape(text))
    assert {token.type for token in escaped} <= _PLAIN, gfm.escape(text)
    assert {child.type for token in escaped for child in token.children or ()} <= _PLAIN_INLINE
    [paragraph] = [token for token in tokens(gfm.code(text)) if token.type == "inline"]
    assert [child.type for child in paragraph.children or ()] == ["code_inline"]
    [block] = tokens(gfm.fence(text, text[:20]))
    assert block.type == "fence"
    old, _, new = text.partition("\n\n")
    shown = difference("f", old.encode(), new)
    assert len(shown.message) < 10 * MAX_DIFF_CHARACTERS
    assert {token.type for token in tokens(shown.message)} <= {*_PLAIN, "fence"}


def log_lines(data: bytes) -> None:
    """A secret on the first line, and what is logged: on one line, with nothing that acts or hides, and no secret."""
    secret, _, message = data.decode("utf-8", "replace").partition("\n")
    secret = secret.replace("␤", "\n")
    redaction = Redaction()
    redaction.add([secret])
    for logged in (message, message[::-1] + secret + message):
        line = redaction.redacted(one_line(logged))
        assert not any(map(hides, line))
        if len(secret) >= 6 and not set(secret) & set("[redacted]"):
            assert one_line(secret) not in line


def web_pages(data: bytes) -> None:
    """A page as text is about as long as the page, however it is written."""
    html = data.decode("utf-8", "replace")
    text = page_text(html, "https://example.com/a/b")
    # A tag of two letters becomes two line ends and a mark; a link of one letter the whole address.
    assert len(text) <= 4 * len(html) + 25 * html.count("<") + 10


def addresses(data: bytes) -> None:
    """An address is the same when it is read again; and a pattern covers no host but those that it names."""
    text = data.decode("utf-8", "surrogateescape")
    first, _, second = text.partition("\n")
    try:
        url = Url.parse(first)
    except UrlError:
        return
    assert Url.parse(str(url)) == url
    assert not any(map(hides, str(url)))
    try:
        pattern = UrlPattern.parse(second)
    except UrlPatternError:
        return
    if pattern.matches(url):
        assert url.host == pattern.host or pattern.wildcard
        assert pattern.wildcard != "*." or url.host.endswith(f".{pattern.host}")
        assert not (pattern.wildcard and url.is_local)
        assert pattern.scheme in (None, url.scheme)
        # Whatever it is fetched as, it is still covered.
        assert pattern.matches(Url.parse(str(url)))
