"""Texts laid out so that nothing in them is out of sight (scenario Q3)."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dragoman.permissions.layout import (
    LINE_WIDTH,
    broken,
    from_both_ends,
    in_short,
    on_one_line,
    shown_exactly,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git status", "git status"),
        ("a  b", "a··b"),
        ("a" + " " * 200 + "b", "a⟨200 spaces⟩b"),
        ("a" + "\t" * 9 + "b", "a⟨9 tabs⟩b"),
        ("a" + " \t" * 9 + "b", "a⟨18 blanks⟩b"),
        ("a ", "a·"),
        ("a \nb", "a·\nb"),
        ("if x:\n    y", "if x:\n    y"),
        (" " * 41 + "x", "⟨41 spaces⟩x"),
        ("a\n\n\n\nb", "a\n⟨3 empty lines⟩\nb"),
        ("a\n  \n\t\nb", "a\n⟨2 empty lines⟩\nb"),
        ("a\n\nb", "a\n\nb"),
        ("a\u00a0b", "a<U+00A0>b"),
        ("⟨5 spaces⟩", "<U+27E8>5 spaces<U+27E9>"),
        ("a·b↩", "a<U+00B7>b<U+21A9>"),
    ],
)
def test_q3_white_space_leaves_a_mark_that_no_text_can_imitate(text: str, shown: str) -> None:
    assert shown_exactly(text) == shown


def test_code_keeps_its_short_runs_of_blanks() -> None:
    assert shown_exactly("x   = 1", dots=False) == "x   = 1"
    assert shown_exactly("x" + " " * 9 + "= 1", dots=False) == "x⟨9 spaces⟩= 1"


@given(st.text("ab界 \n", max_size=300))
def test_q3_lines_are_broken_and_nothing_is_lost(text: str) -> None:
    lines = broken(text).split("\n")
    assert all(len(line) <= LINE_WIDTH + 1 for line in lines)
    assert broken(text).replace("↩\n", "") == text


def test_wide_characters_take_two_columns() -> None:
    assert broken("界" * 40, 20).split("\n") == ["界" * 10 + "↩", "界" * 10 + "↩", "界" * 10 + "↩", "界" * 10]


@given(st.text(max_size=50), st.integers(2, 60))
def test_q3_both_ends_and_the_number_between(text: str, limit: int) -> None:
    head, tail, left_out = from_both_ends(text, limit)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + left_out + len(tail) == len(text)
    assert len(head) + len(tail) <= limit


def test_on_one_line() -> None:
    assert on_one_line("a\nb") == "a␊b"
    assert in_short("a" * 30, 10) == "aaaaa ⟨20 characters left out⟩ aaaaa"


def test_sentences_break_between_words_and_every_break_shows() -> None:
    text = f"{'word ' * 30}{'x' * 100} end"
    lines = broken(text, at_spaces=True).split("\n")
    assert all(line.endswith("↩") for line in lines[:-1])
    assert "".join(line.removesuffix("↩") for line in lines) == text
    assert lines[0] == f"{'word ' * 14}↩"
    assert max(map(len, lines)) == LINE_WIDTH + 1
