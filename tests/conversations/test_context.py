"""The consumer's context: sent once, then its changes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from agent.reader import REPLACED, read
from dragoman.conversations.context import news, units

_DATE = "<context>\nThe current date is 2026-11-16.\n</context>"
_NEVER = "NEVER do any of these:\n\n- delete files\n\n- force-push"
_ASK = "- answer without having asked the user"
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


def test_h7_what_an_agent_may_know_is_said_to_be_replaced() -> None:
    assert news(None, _DATE).endswith(f"{REPLACED}{_DATE}")
    assert news(None, "") == ""


def test_h7_what_is_known_is_not_told_again() -> None:
    context = f"{_RULES}\n\n{_DATE}"
    assert news(context, context) == ""
    assert news(context, f"{_RULES}\n{_DATE}\n\n") == ""


def test_h7_what_is_new_is_told_alone_with_its_place() -> None:
    sent = f"{_RULES}\n\n{_DATE}"
    new = news(sent, f"{sent}\n\n{_FILE.format('a.py')}")
    assert new.endswith(f"\n\nNew, behind the section <context>:\n\n{_FILE.format('a.py')}")
    assert len(new) < 500
    new = news(sent, f"{_FILE.format('a.py')}\n{sent}")
    assert new.endswith(f"\n\nNew, before everything else:\n\n{_FILE.format('a.py')}")


def test_h7_what_has_changed_is_told_whole_and_what_is_gone_by_its_name() -> None:
    sent = f"{_RULES}\n\n{_DATE}\n{_FILE.format('a.py')}"
    new = news(sent, sent.replace("a.py", "b.py"))
    assert new.endswith(f"\n\nThis replaces the earlier section <editorContext>:\n\n{_FILE.format('b.py')}")
    new = news(sent, f"{_RULES}\n\n{_DATE}")
    assert new.endswith(
        "changes. A section is an element that is in no other one.\n\nNo longer valid: the section <editorContext>."
    )
    # A request without any context takes nothing back: some clients say it once.
    assert news("Be brief.", "") == ""


def test_h7_one_of_several_sections_of_a_name_is_known_by_its_number() -> None:
    """Two with the same long beginning among them."""
    long = "x" * 300
    skills = [f"<skill>\n{long}{name}\n</skill>" for name in ("one", "two", "three", "four")]
    sent = "\n".join([_RULES, _DATE, *skills[:2]])
    new = news(sent, "\n".join([_RULES, _DATE, skills[0], skills[3]]))
    assert new.endswith(f"\n\nThis replaces the earlier section <skill> number 2:\n\n{skills[3]}")
    new = news(sent, "\n".join([_RULES, _DATE, skills[0]]))
    assert new.endswith("\n\nNo longer valid: the section <skill> number 2.")
    new = news(sent, "\n".join([_RULES, _DATE, *skills[:3]]))
    assert new.endswith(f"\n\nNew, behind the section <skill> number 2:\n\n{skills[2]}")


def test_h7_no_item_of_a_list_is_told_without_its_heading() -> None:
    paragraphs = "\n\n".join(f"Paragraph {number}." for number in range(30))
    sent = f"{paragraphs}\n\n{_NEVER}"
    assert news(sent, f"{sent}\n\n{_ASK}").endswith(f"{REPLACED}{sent}\n\n{_ASK}")
    rules = f"<rules>\n{paragraphs}\n\n{_NEVER}\n{{}}</rules>"
    sent = f"{_RULES}\n{rules}"
    new = news(sent.replace("{}", ""), sent.replace("{}", f"{_ASK}\n"))
    assert new.endswith("section <rules>:\n\n" + rules.replace("{}", f"{_ASK}\n"))
    assert "Rule 1:" not in new


def test_h7_a_section_that_may_belong_to_the_text_before_it_is_told_with_that() -> None:
    sent = f"{_RULES}\n\n{_NEVER}"
    now = f"{sent}\n<example>\nAnswer at once.\n</example>"
    assert news(sent, now).endswith(f"{REPLACED}{now}")


@pytest.mark.parametrize(
    "rules",
    [
        "<rules>\nNever write </rules>\nRule 1.\n</rules>",
        "<rules>\nRule 1.\n<rules> begins the rules.\nNever delete it.\n</rules>",
    ],
    ids=["closed", "opened"],
)
def test_h7_an_element_that_is_spoken_of_inside_of_itself_is_told_with_all_the_rest(rules: str) -> None:
    """As a section, half of it would pass for all of it."""
    sent = f"{_RULES}\n{rules}"
    now = sent.replace("Never", "Do not")
    assert news(sent, now).endswith(f"{REPLACED}{now}")


def test_h7_what_has_moved_is_told() -> None:
    sent = "Current file:\n\n/src/a.py\n\nPrevious file:\n\n/src/b.py"
    for now in (
        "Current file:\n\n/src/b.py\n\nPrevious file:\n\n/src/a.py",
        "Current file:\n\n/src/b.py\n\nPrevious file:\n\n/src/c.py",
    ):
        for rest in ("", f"{_RULES}\n\n"):
            assert news(rest + sent, rest + now).endswith(f"{REPLACED}{rest}{now}")
    sent, now = f"{_RULES}\n{_DATE}\n{_FILE}", f"{_RULES}\n{_FILE}\n{_DATE}"
    assert news(sent, now).endswith(f"{REPLACED}{now}")


def test_h7_a_change_of_most_of_it_is_told_as_everything() -> None:
    assert news("Be brief.", "Be long.").endswith(f"{REPLACED}Be long.")
    now = f"{_DATE}\n{_FILE.format('b.py')}"
    assert news(f"{_DATE}\n{_FILE.format('a.py')}", now).endswith(f"{REPLACED}{now}")


def test_a_context_in_units_is_whole() -> None:
    spaced = "<reminder>\nNever touch these:\n\n- a.py\n</reminder>"
    assert [*units(f"one\n\n\n{_DATE}\ntwo\n\nthree\n{spaced}\n<done/>\n")] == [
        ("", "one"),
        ("context", _DATE),
        ("", "two\n\nthree"),
        ("reminder", spaced),
        ("done", "<done/>"),
    ]
    nested = "<a>\n<b>\nc\n</b>\n  <a>\n  </a>\nd\n</a>"
    assert [*units(f"{nested}\n<a>e</a>")] == [("a", nested), ("a", "<a>e</a>")]
    # What is never closed, or closed in the middle of a line, is text like any other.
    for text in (
        "<a>\nb\n\nc",
        "<a>b</a> is an example",
        "</a>\nb",
        "a <b>\n</b>",
        "1 <\n2",
        "<https://a.b/>",
    ):
        assert [*units(text)] == [("", text)]
    assert [*units("\n \n")] == []


_PIECES = [
    _DATE,
    _FILE,
    _FILE.format("b.py"),
    "<skill>\n\n1\n</skill>",
    "<skill>\n2\n</skill>",
    "<skill>\r\n3\r\n</skill>\r",
    "<skill>\n<skill>4</skill>\n</skill>",
    "<spoken>\nNever write </spoken>\nit.\n</spoken>",
    "<spoken>\n5\n</spoken>",
    "Be brief.",
    "Be kind.",
]
_TEXTS = st.lists(st.sampled_from(_PIECES))
_LONG = f"<long>\n{'x' * 2_000}\n</long>"


@given(_TEXTS, _TEXTS)
def test_h7_whoever_does_what_it_is_told_knows_what_is_said_now(sent: list[str], now: list[str]) -> None:
    before, after = "\n".join([_LONG, *sent]), "\n".join([_LONG, *now])
    assert read([*units(before)], news(before, after)) == [*units(after)]


def test_megabytes_of_it_take_no_time() -> None:
    sent = "\n".join(f"<a>\n{number}" for number in range(20_000))
    now = "\n".join(f"<a>\n{number}" for number in range(1, 40_001))
    began = time.process_time()
    news(sent, now)
    news(sent + "\n</a>" * 20_000, now + "\n</a>" * 40_000)
    news("<a>\n</a>\n" * 20_000, "<a>\n1\n</a>\n" * 20_000)
    assert time.process_time() - began < 5
