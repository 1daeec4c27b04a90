"""What a renderer makes of Markdown: a real parser, asked for what it found."""

from collections.abc import Iterator

from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

__all__ = ["hostile_text", "hrefs", "inline_tokens", "literal", "tokens"]

_parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
# A renderer that refuses `javascript:` and the like would hide what we let through.
_parser.validateLink = lambda url: True  # type: ignore[method-assign]  # the parser's documented way to allow more

_SNIPPETS = [
    *"\\`*_[]()<>#+-=.!|~$&@:/\"'{}^;\t\r\n 0129axhw",
    "\n\n",
    "\r\r",
    "    ",
    "\n- ",
    "\n1. ",
    "\n1) ",
    "\n# ",
    "\n=== ",
    "\n---\n",
    "\n> ",
    "```",
    "~~~",
    "](",
    "]:",
    "![",
    "<!--",
    "<b>",
    "</",
    "<?",
    "&lt;",
    "&#42;",
    "http://",
    "https://e.test",
    "www.",
    "WWW.e.test",
    "me@e.test",
    "mailto:",
    "$(zap)",
    "$x$",
    "|-|",
    "\na|b\n-|-\nc|d\n",
    "\n:-|",
    "[^1]",
    "[ ] ",
    "\x00",
    "\x0b",
    "\x0c",
    "\x85",
    " ",
    " ",
    "é",
    "🎈",
]

hostile_text = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(_SNIPPETS), max_size=30).map("".join),
)


def tokens(markdown: str) -> list[Token]:
    return _parser.parse(markdown)


def inline_tokens(markdown: str) -> Iterator[Token]:
    for token in tokens(markdown):
        yield from token.children or ()


def literal(markdown: str) -> str:
    """The text a reader would see, white space counted once."""
    pieces = []
    for token in tokens(markdown):
        if token.type in {"fence", "code_block", "html_block"}:
            pieces.append(token.content)
        pieces += ["\n" if child.type.endswith("break") else child.content for child in token.children or ()]
        pieces.append("\n" if token.type.endswith("_close") else "")
    return " ".join("".join(pieces).split())


def hrefs(markdown: str) -> list[str]:
    """Every destination that a link or a picture has once it is rendered."""
    found = [token.attrGet(name) for token in inline_tokens(markdown) for name in ("href", "src")]
    return [str(href) for href in found if href is not None]
