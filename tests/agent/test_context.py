"""What the consumer's program says beside the user: told once, then what has changed of it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from dragoman.backends.agent.context import blocks, news

_DATE = "<context>\nThe current date is 2026-11-16.\n</context>"
_FILE = "<editorContext>\nThe user's current file is {}.\n</editorContext>"
# Of the size and shape of a real one: elements in elements, and paragraphs of one line.
_RULES = "\n".join(
    [
        "You are an expert.",
        "<instructions>",
        *(f"Rule {number}: {'be careful with it, ' * 6}please." for number in range(100)),
        "<example>\n```\nshort\n```\n</example>",
        "</instructions>",
        "The session log is in /logs/1.",
    ]
)


def test_h7_the_first_time_everything_is_told_as_it_is() -> None:
    assert news("", f"{_RULES}\n\n{_DATE}") == f"{_RULES}\n\n{_DATE}"


def test_h7_what_is_known_is_not_told_again() -> None:
    context = f"{_RULES}\n\n{_DATE}"
    assert news(context, context) == ""
    assert news(context, f"{_DATE}\n\n{_RULES}") == ""


def test_h7_what_is_new_is_told_alone() -> None:
    told = f"{_RULES}\n\n{_DATE}"
    new = news(told, f"{told}\n\n{_FILE.format('a.py')}")
    assert new.endswith(f"\n\n{_FILE.format('a.py')}")
    assert "replaces the earlier one of the same name" in new
    assert len(new) < 500


def test_h7_what_comes_back_is_told_again() -> None:
    """The file of the first turn is open again in the third."""
    files = [_FILE.format(name) for name in ("a.py", "b.py", "a.py")]
    new = news("\n\n".join(files[:2]), "\n\n".join(files))
    assert new.endswith(_FILE.format("a.py"))
    assert "b.py" not in new


@pytest.mark.parametrize("text", ["{}\n\n" + _RULES, _RULES + "\n\n{}", _RULES + "\n\n{}\n\nBe kind."])
def test_h7_what_stands_in_the_place_of_something_says_of_what(text: str) -> None:
    new = news(text.replace("{}", "Be brief."), text.replace("{}", "Be long."))
    assert "Be kind." not in new
    assert new.index("Instead of:\n\n> Be brief.") < new.index("\n\nnow:\n\nBe long.")


def test_h7_what_is_gone_is_taken_back() -> None:
    new = news(f"{_RULES}\n\nSpeak French.", _RULES)
    assert new.endswith("No longer:\n\n> Speak French.")
    # A request without any context takes nothing back: some clients say it once.
    assert news("Be brief.", "") == ""


def test_h7_what_is_short_is_told_whole() -> None:
    assert news("Be brief.", "Be long.").endswith(
        "instead of everything that it told you before.\n\nBe long."
    )


def test_h7_a_long_prompt_that_drifts_is_not_told_again() -> None:
    now = _RULES.replace("/logs/1", "/logs/2").replace("Rule 50: be", "Rule 50: do be")
    assert len(now) > 12_000
    new = news(_RULES, now)
    assert "The session log is in /logs/2." in new
    assert "Rule 50: do be" in new
    assert "Rule 49" not in new
    assert len(new) < 2_000


def test_h7_one_that_is_another_altogether_replaces_the_first() -> None:
    other = "\n\n".join(f"Commandment {number}." for number in range(20))
    new = news(_RULES, other)
    assert new.endswith(f"\n\n{other}")
    assert "instead of everything" in new
    assert len(new) < len(other) + 200


def test_a_context_in_blocks_is_whole() -> None:
    assert blocks(f"one\n\n\n{_DATE}\ntwo\nthree\n{_FILE}\n") == ("one", _DATE, "two\nthree", _FILE)
    for text in (_RULES, f"{_DATE}\n{_FILE}", "", "\n\n", "<a>\n<b>\nc\n</b>\nd\n</a>"):
        lines = [line for line in text.split("\n") if line.strip()]
        assert [line for block in blocks(text) for line in block.split("\n")] == lines


_TEXTS = st.lists(st.sampled_from([_DATE, _FILE, "Be brief.", "Be kind.", "Rule: " + "x" * 300]), min_size=1)


@given(_TEXTS, _TEXTS)
def test_h7_nothing_that_is_said_now_is_kept_from_an_agent(told: list[str], now: list[str]) -> None:
    new = news("\n\n".join(told), "\n\n".join(now))
    heard = [*told, *blocks(new)]
    for text in now:
        assert heard.count(text) >= now.count(text)
    for text in {*told} - {*now}:
        assert "instead of everything" in new or f"> {text[:20]}".split("\n")[0] in new


def test_megabytes_of_it_take_no_time() -> None:
    told = "\n".join(f"<a>\n{number}" for number in range(20_000))
    now = "\n".join(f"<a>\n{number}" for number in range(1, 40_001))
    began = time.process_time()
    news(told, now)
    assert time.process_time() - began < 5
