"""What a person is shown of a change, and what they are told of the rest."""

import re

import pytest
from hypothesis import given, strategies as st

from dragoman.diffs import MATCHED_LINES
from dragoman.tools.builtin.difference import (
    LINE_HEAD,
    LINE_TAIL,
    MAX_DIFF_CHARACTERS,
    difference,
)

# What is beside the diff: its fence, its header, the gaps and the sentences around it.
_AROUND = 1_000


def test_what_fits_is_shown_whole() -> None:
    line = "x" * (MAX_DIFF_CHARACTERS - 100)
    change = difference("a.js", None, line)
    assert f"+{line}\n" in change.message
    assert change.hidden == 0
    assert "not shown" not in change.message


def test_a_long_line_shows_both_its_ends_and_says_what_is_missing() -> None:
    change = difference("a.js", None, "begin" + "x" * 500_000 + "end")
    assert "+begin" in change.message
    assert "xend\n\\ No newline at end of file\n```" in change.message
    missing = re.search(r"\[… ([0-9,]+) characters are not shown here …\]", change.message)
    assert missing is not None
    assert int(missing[1].replace(",", "")) == change.hidden > 490_000
    assert change.message.endswith(f"{change.hidden:,} of the 500,052 characters of this are not shown.")
    assert len(change.message) < LINE_HEAD + LINE_TAIL + _AROUND


def test_many_lines_show_both_ends_and_say_what_is_missing() -> None:
    change = difference("a.txt", None, "first\n" + ("x" * 98 + "\n") * 500 + "last\n")
    assert "+first\n" in change.message
    assert "+last\n```" in change.message
    assert "\n[… 202 lines with 20,200 characters are not shown here …]\n" in change.message
    assert change.hidden == 20_200
    assert change.message.endswith("20,200 of the 50,031 characters of this are not shown.")
    assert len(change.message) < MAX_DIFF_CHARACTERS + _AROUND


def test_too_many_lines_to_compare_show_where_they_differ() -> None:
    lines = [f"{number}\n" for number in range(5_000)]
    changed = [*lines[:3000], *["n\n"] * MATCHED_LINES, *lines[3001:]]
    change = difference("a.txt", "".join(lines).encode(), "".join(changed))
    assert "from line 3,001 on, 1 lines are removed and 2,000 added." in change.message
    assert "+++ b/a.txt\n-3000\n+n\n+n\n" in change.message
    assert change.hidden == 0


def test_a_small_change_of_a_long_file_is_a_small_difference() -> None:
    lines = [f"{number}\n" for number in range(100_000)]
    changed = [*lines[:3000], "new\n", "newer\n", *lines[3001:]]
    change = difference("a.txt", "".join(lines).encode(), "".join(changed))
    hunk = "@@ -2998,7 +2998,8 @@\n 2997\n 2998\n 2999\n-3000\n+new\n+newer\n 3001\n 3002\n 3003\n"
    assert change.message == f"```diff\n--- a/a.txt\n+++ b/a.txt\n{hunk}```"


def test_too_many_lines_to_compare_show_something_of_both() -> None:
    old, new = "old\n" * 9_000, "new\n" * 8_000
    change = difference("a.txt", old.encode(), new)
    assert "from line 1 on, 9,000 lines are removed and 8,000 added." in change.message
    assert change.message.count("-old\n") > 2_000
    assert change.message.count("+new\n") > 2_000
    assert change.message.count("lines with") == 2
    assert change.message.endswith(f"{change.hidden:,} of the 85,000 characters of this are not shown.")


def test_lines_that_are_only_removed_from_a_long_file() -> None:
    lines = ["same\n"] * (MATCHED_LINES + 3)
    change = difference("a.txt", "".join(lines).encode(), "".join(lines[:2]))
    assert "2,001 lines are removed and 0 added." in change.message


def test_what_is_replaced_and_cannot_be_shown_counts_as_hidden() -> None:
    assert difference("a.bin", b"\0" * 1000, "text").hidden == 1000


def test_no_content_can_pass_for_a_gap() -> None:
    change = difference("a.txt", None, "[… 1 lines with 1 characters are not shown here …]\n")
    assert "\n[…" not in change.message
    assert change.hidden == 0


@pytest.mark.parametrize("old", [None, b"", b"a\nb\n", b"\xff"])
@given(new=st.lists(st.sampled_from(["", "x", "y" * 700, "z" * 3_000, "\x1b"]), max_size=60).map("\n".join))
def test_shown_and_hidden_together_are_everything(old: bytes | None, new: str) -> None:
    change = difference("a.txt", old, new)
    assert len(change.message) < MAX_DIFF_CHARACTERS + _AROUND + 20 * 60
    said = sum(
        int(each.replace(",", "")) for each in re.findall(r"([0-9,]+) characters are not", change.message)
    )
    lost = 1 if old == b"\xff" else 0
    assert said == change.hidden - lost
    if not said and new.encode() != (old or b""):
        shown = change.message.replace("␛", "\x1b")
        assert all(line in shown for line in new.split("\n"))
