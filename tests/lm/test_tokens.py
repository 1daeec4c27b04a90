"""Counting tokens: local, cheap, and in proportion."""

import time

import pytest
from hypothesis import given, strategies as st

from dragoman.lm import (
    ActivityPart,
    DataPart,
    Part,
    PlanEntry,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
    assistant,
    estimate_tokens,
    user,
)
from dragoman.lm.parts import UNKNOWN_PART


def test_nothing_costs_nothing_and_something_costs_something() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("a") == 1
    assert estimate_tokens("a" * 400) == 100


def test_other_scripts_cost_more_a_character() -> None:
    assert estimate_tokens("日" * 400) > estimate_tokens("a" * 400)


@given(st.text(alphabet=st.characters(exclude_categories=())), st.text())
def test_more_text_never_costs_less(text: str, more: str) -> None:
    assert estimate_tokens(text + more) >= estimate_tokens(text)
    assert estimate_tokens(user(text + more)) >= estimate_tokens(user(text))


@pytest.mark.parametrize(
    "part",
    [
        TextPart("a" * 400),
        ThinkingPart("a" * 400),
        ThinkingPart(("a" * 200, "a" * 200)),
        ToolCallPart("dg_1", "write_file", {"content": "a" * 400}),
        ToolCallPart("dg_1", "write_file", {}, "{" + "a" * 400),
        ToolResultPart("dg_1", (TextPart("a" * 200), DataPart.text("a" * 200))),
        DataPart.text("a" * 400),
    ],
)
def test_what_is_in_a_message_is_counted(part: Part) -> None:
    assert 100 <= estimate_tokens(assistant(part)) <= 130


def test_an_image_costs_what_an_image_costs_whatever_its_bytes() -> None:
    small, large = (
        estimate_tokens(user(DataPart.image(b"x" * size, "image/png"))) for size in (1, 1_000_000)
    )
    assert small == large
    assert 1_000 < small < 5_000


def test_data_between_programs_costs_nothing() -> None:
    assert estimate_tokens(user(DataPart(UNKNOWN_PART, b"x" * 10_000))) == estimate_tokens(user())


def test_what_an_agent_does_besides_costs_nothing() -> None:
    parts = (
        ActivityPart("a", "Run", "execute", "completed", output="x" * 10_000),
        PlanPart((PlanEntry("x" * 10_000, "low", "pending"),)),
        UsagePart(1),
    )
    assert estimate_tokens(assistant(*parts)) == estimate_tokens(assistant())


def test_counting_is_cheap_enough_for_every_line_of_every_render() -> None:
    """A consumer counts thousands of pieces a render; a hundred microseconds a kilobyte is ten times what it takes."""
    text = "def f(x): return x  # naïve\n" * 40
    began = time.process_time()
    for _ in range(1_000):
        estimate_tokens(text)
    assert time.process_time() - began < 0.1
