"""Markdown is cut into blocks the same way whatever pieces it arrives in, and nothing is lost on the way."""

import io
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt
from markdown_it.parser_block import ParserBlock
from markdown_it.token import Token
from rich.console import Console

from dragoman.frontends.terminal.blocks import CODE_LINES, LONGEST_BLOCK, Blocks, Code, MarkdownBlock, Prose
from dragoman.frontends.terminal.markdown import render
from searching import examples

_PIECES = (
    "word ", "**bold**", "`code`", "\n", "\n\n", "# Title\n", "- item\n", "  more\n", "1. one\n", "10) ten\n", "* star\n",
    "```python\n", "x = 1\n", "```\n", "~~~\n", "> quote\n", "| a | b |\n", "|---|---|\n", "| 1 | 2 |\n", "---\n", "===\n",
    "    indented\n", "\t", "<b>", "[x]: /url\n", "![i](u)", "[l](http://x)", "&#x1b;", "\\", "`", "~", "-", "|",
)  # fmt: skip


def blocks_of(*pieces: str) -> list[MarkdownBlock]:
    blocks = Blocks()
    return [*(block for piece in pieces for block in blocks.feed(piece)), *blocks.close()]


def test_a_paragraph_is_finished_by_an_empty_line() -> None:
    blocks = Blocks()
    assert blocks.feed("one\ntwo\n") == []
    assert blocks.feed("\n") == [Prose("one\ntwo")]
    assert blocks.rest() is None


def test_a_heading_is_finished_with_its_line() -> None:
    assert Blocks().feed("# Title\n") == [Prose("# Title")]


def test_a_paragraph_may_still_become_a_heading() -> None:
    blocks = Blocks()
    assert blocks.feed("Title\n") == []
    assert blocks.feed("=====\n") == [Prose("Title\n=====")]


def test_an_item_is_finished_when_the_next_begins() -> None:
    blocks = Blocks()
    assert blocks.feed("- one\n  - inner\n") == []
    assert blocks.feed("- two\n") == [Prose("- one\n  - inner")]
    assert blocks.feed("\n- three\n") == [Prose("- two", gap=False)]
    assert blocks.close() == [Prose("- three", gap=True)]


def test_numbers_go_on_whatever_the_source_says() -> None:
    assert blocks_of("3. a\n3. b\n3. c\n\ntext") == [
        Prose("3. a", number=3),
        Prose("3. b", gap=False, number=4),
        Prose("3. c", gap=False, number=5),
        Prose("text"),
    ]


def test_another_list_begins_anew() -> None:
    assert blocks_of("1. a\n2. b\n\n1) c\n") == [
        Prose("1. a", number=1),
        Prose("2. b", gap=False, number=2),
        Prose("1) c", number=1),
    ]


def test_code_comes_a_few_lines_at_a_time_and_knows_those_before() -> None:
    lines = [f"line {number}" for number in range(CODE_LINES + 2)]
    first, second = blocks_of("```python\n" + "\n".join(lines) + "\n```\n")
    assert first == Code(tuple(lines[:CODE_LINES]), "python")
    assert second == Code(tuple(lines[CODE_LINES:]), "python", tuple(lines[:CODE_LINES]), gap=False)


def test_a_fence_is_closed_only_by_its_own_kind() -> None:
    [code] = blocks_of("````md\n```\n~~~~\n    ````\n````\n")
    assert code == Code(("```", "~~~~", "    ````"), "md")


def test_indented_fences_give_back_their_indent() -> None:
    assert blocks_of("  ```\n  a\n    b\n c\n  ```\n") == [Code(("a", "  b", "c"))]


def test_an_open_fence_is_live() -> None:
    blocks = Blocks()
    blocks.feed("```sh\nls")
    assert blocks.rest() == Code(("ls",), "sh")


def test_a_table_is_kept_together() -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"
    assert blocks_of(f"{table}\n\nafter") == [Prose(table), Prose("after")]


def test_a_table_may_begin_in_the_midst_of_a_paragraph() -> None:
    assert blocks_of("text\n| a | b |\n|---|---|\n| 1 | 2 |\n") == [
        Prose("text"),
        Prose("| a | b |\n|---|---|\n| 1 | 2 |"),
    ]


def test_references_and_html_are_shown_as_they_stand() -> None:
    assert blocks_of("<div>\n\n[x]: http://hidden\n") == [Prose("<div>"), Prose("[x]: http://hidden")]


@pytest.mark.parametrize("text", ["x" * (3 * LONGEST_BLOCK), "words and words\n" * LONGEST_BLOCK])
def test_a_block_without_an_end_is_cut(text: str) -> None:
    blocks = Blocks()
    finished = blocks.feed(text)
    assert len(finished) >= 2
    assert all(isinstance(block, Prose) and len(block.source) <= 2 * LONGEST_BLOCK for block in finished)


@pytest.mark.long
@pytest.mark.parametrize(
    "line",
    [
        "> word word\n",
        "- a\n  - b\n",
        "  - b\n\n",
        "*x\n",
        "word\n",
        "    code\n\n",
        "| a | b |\n",
        "# a\n",
        "1. a\n",
        ">\n",
    ],
)
@pytest.mark.parametrize("before", ["", "- a\n", "1. ```\n", "| a | b |\n|---|---|\n"])
def test_reading_takes_time_in_proportion_to_the_text(
    before: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0
    parse = ParserBlock.parse

    def counting(
        self: ParserBlock, src: str, md: MarkdownIt, env: dict[str, object], tokens: list[Token]
    ) -> list[Token] | None:
        nonlocal read
        read += len(src)
        return parse(self, src, md, env, tokens)

    monkeypatch.setattr(ParserBlock, "parse", counting)
    text = before + line * 1_200
    blocks_of(text)
    # Of a long block, each thirty-second part.
    assert read < 64 * len(text)


def _cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]


def _drawn(blocks: list[MarkdownBlock]) -> str:
    console = Console(file=io.StringIO(), width=40, force_terminal=True, color_system="standard")
    with console.capture() as captured:
        for block in blocks:
            console.print(render(block))
    return captured.get()


@settings(max_examples=examples(200))
@given(
    st.lists(st.sampled_from(_PIECES), max_size=40).map("".join), st.lists(st.integers(0, 500), max_size=20)
)
def test_the_same_blocks_whatever_the_pieces(text: str, places: list[int]) -> None:
    whole = blocks_of(text)
    assert blocks_of(*_cut(text, places)) == whole


@settings(max_examples=examples(150))
@given(
    st.lists(st.sampled_from(_PIECES), max_size=25).map("".join), st.lists(st.integers(0, 500), max_size=10)
)
def test_the_same_on_the_screen_whatever_the_pieces(text: str, places: list[int]) -> None:
    assert _drawn(blocks_of(*_cut(text, places))) == _drawn(blocks_of(text))


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(_PIECES), max_size=40).map("".join))
def test_every_word_is_in_exactly_one_block(text: str) -> None:
    said = "".join(
        block.source if isinstance(block, Prose) else "".join(block.lines) for block in blocks_of(text)
    )
    assert said.count("word") == text.count("word")


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    blocks_of(text)
