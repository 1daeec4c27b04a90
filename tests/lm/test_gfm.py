"""What we compose is shown as it stands, whatever stands in it."""

import re

import pytest
from hypothesis import example, given, strategies as st

from dragoman.lm import gfm
from dragoman.lm.errors import LanguageModelError
from lm.rendering import hostile_text, inline_tokens, literal, tokens

# Addresses that GitHub's flavour makes into links without any brackets.
_BARE_ADDRESS = re.compile(r"(?:https?|ftp)://|www\.|(?:mailto|xmpp):\w|[\w.+-]@[\w-]", re.IGNORECASE)


def _shown(text: str) -> str:
    """The text as a reader expects to see it: white space counted once, and the replacement for NUL."""
    return " ".join(text.replace("\0", "�").split())


@given(hostile_text)
@example("a\r# b")
@example("a\r\r    b")
@example("a\n===")
@example("- a\n- b")
@example("1. a")
@example("12345678) a")
@example("<script>alert(1)</script>")
@example("![x](http://e.test/y.png)")
@example("a\n\tb")
@example("~~gone~~ **bold** `code` $(zap) $x$")
@example("x | y\n--|--\n1 | 2")
@example("&lt;b&gt; \\< \\")
@example("[a]: /url\n\n[a]")
@example("x ~/a~ ~/b y~ ~/c")
@example("a_b_c _d_ e__f")
def test_s13_escaped_text_is_only_the_literal_text(text: str) -> None:
    markdown = gfm.escape(text)
    kinds = {token.type for token in tokens(markdown)}
    assert kinds <= {"paragraph_open", "inline", "paragraph_close"}
    assert {child.type for child in inline_tokens(markdown)} <= {
        "text",
        "text_special",
        "softbreak",
        "hardbreak",
    }
    assert literal(markdown) == _shown(text)


@given(hostile_text)
@example("see http://e.test and HTTPS://e.test, ftp://e.test")
@example("www.e.test WWW.e.test")
@example("me@e.test mailto:me@e.test xmpp:me@e.test/x")
def test_s13_escaped_text_has_no_address_that_becomes_a_link_by_itself(text: str) -> None:
    assert not _BARE_ADDRESS.search(gfm.escape(text))


@pytest.mark.parametrize("text", ["$(zap)", "$x$", "$$x$$"])
def test_s13_escaped_text_has_no_icon_and_no_formula(text: str) -> None:
    assert gfm.escape(text) == text.replace("$", "\\$")


@given(hostile_text)
@example("a\r\r# b")
@example("``")
@example("`")
@example("`a")
@example("a`")
@example(" ` ")
@example("a\n\nb")
def test_s13_inline_code_is_one_code_span(text: str) -> None:
    markdown = f"before {gfm.code(text)} after"
    assert [token.type for token in tokens(markdown)] == ["paragraph_open", "inline", "paragraph_close"]
    assert [child.type for child in inline_tokens(markdown)] == ["text", "code_inline", "text"]
    content = next(child.content for child in inline_tokens(markdown) if child.type == "code_inline")
    assert _shown(content) == _shown(text)


@given(hostile_text)
def test_s13_inline_code_at_the_start_of_a_line_is_still_a_code_span(text: str) -> None:
    assert [child.type for child in inline_tokens(gfm.code(text))] == ["code_inline"]


def test_inline_code_keeps_ticks_and_spaces_at_its_edges() -> None:
    for text in ("`a`", "`a", "a`", " a ", " a", "a ", "``"):
        (child,) = inline_tokens(gfm.code(text))
        assert child.content == text


def test_inline_code_that_would_drown_the_chat_is_cut_and_says_so() -> None:
    assert gfm.code("x" * 10_000) == f"`{'x' * 2_000}…`"
    assert gfm.code("x" * 2_000) == f"`{'x' * 2_000}`"


@given(hostile_text, st.sampled_from(["", "python", "c++", "a b\n```", "x`y", "objective-c"]))
@example("```\nescape\n```", "")
@example("`" * 40, "")
@example("~~~\n", "")
@example("a\r```\rb", "")
def test_s13_nothing_leaves_a_code_block(text: str, language: str) -> None:
    (token,) = tokens(f"{gfm.fence(text, language)}\n")
    assert token.type == "fence"
    assert re.fullmatch(r"[A-Za-z0-9_+#.-]*", token.info)
    content = re.sub(r"\r\n|\r", "\n", text).replace("\0", "�")
    assert token.content in {content, f"{content}\n"}


def test_a_code_block_keeps_the_language_it_is_given() -> None:
    assert gfm.fence("x = 1", "python") == "```python\nx = 1\n```"
    assert gfm.fence("x = 1\n", "c++") == "```c++\nx = 1\n```"


@given(hostile_text)
def test_s13_an_error_told_as_text_is_a_bold_word_and_the_literal_error(text: str) -> None:
    error = LanguageModelError("internal", f"It failed: {text}", hint=f"Try again: {text}.")
    markdown = gfm.error_text(error)
    kinds = [child.type for child in inline_tokens(markdown)]
    assert kinds[:4] == ["text", "strong_open", "text", "strong_close"] or kinds[:3] == [
        "strong_open",
        "text",
        "strong_close",
    ]
    assert kinds.count("strong_open") == 1
    assert set(kinds) <= {"text", "text_special", "softbreak", "hardbreak", "strong_open", "strong_close"}
    assert literal(markdown) == _shown(f"Error: {error.sentence}")


def test_s8_an_error_told_as_text_has_the_form_of_the_interface() -> None:
    error = LanguageModelError("unavailable", "The agent ended", hint="Ask again.")
    assert gfm.error_text(error) == "\n\n**Error:** The agent ended. Ask again.\n\n"


def test_a_notice_stands_apart_in_italics() -> None:
    markdown = f"text{gfm.notice(gfm.escape('1 * 2 * 3'))}more"
    assert [token.type for token in tokens(markdown)].count("paragraph_open") == 3
    assert [child.type for child in inline_tokens(markdown)].count("em_open") == 1
    assert "1 * 2 * 3" in literal(markdown)


@pytest.mark.parametrize("text", ["The rule at ~/dragoman.toml:11 denies it.", "read_file", "Stop! Now."])
def test_text_that_needs_no_escape_has_none(text: str) -> None:
    """Clients that do not render Markdown would show the backslash."""
    assert gfm.escape(text) == text


@pytest.mark.parametrize(
    "text", [":100: :1:x", "mailto:5", "_a_ __b__ a_ _b", " ~/a~ ~/b ~", "a ~~/b~~", "![a]"]
)
def test_text_that_is_nearly_so_has(text: str) -> None:
    assert gfm.escape(text) != text
    assert literal(gfm.escape(text)) == _shown(text)


@given(hostile_text)
def test_what_is_composed_is_plain_text_without_its_marks(text: str) -> None:
    """Renderers end a line at each line break, so they are one kind of it here; and a line begins with one space."""
    lines = re.sub(r"\r\n|\r", "\n", text)
    assert gfm.plain(gfm.escape(text)) == re.sub(r"^[ \t]+", " ", lines, flags=re.MULTILINE)
    on_one_line = re.sub(r"[\r\n]+", " ", text)[:500]
    if on_one_line.strip():
        assert gfm.plain(f"at {gfm.code(on_one_line)}.") == f"at {on_one_line}."


def test_notices_and_errors_are_parts_that_can_be_plain() -> None:
    assert gfm.plain(gfm.notice_part(f"See {gfm.code('a*b')} and {gfm.escape('c*d')}").value) == (
        "\n\nSee a*b and c*d\n\n"
    )
    error = LanguageModelError("internal", "It <ended>")
    assert gfm.error_part(error).value == gfm.error_text(error)
    assert gfm.plain(gfm.error_part(error).value) == "\n\nError: It <ended>.\n\n"
    assert gfm.plain(gfm.code(" ")) == " "
    assert gfm.plain(gfm.code("`a")) == "`a"
