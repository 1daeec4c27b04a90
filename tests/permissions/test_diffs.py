"""Diffs as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dragoman.diffs import changed_lines, file_diff, files_of, shortened


def unified(old: str | None, new: str, limit: int) -> str:
    return shortened(changed_lines(old, new), limit)


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30)


def _range(text: str) -> tuple[int, int]:
    first, _, count = text[1:].partition(",")
    return int(first), int(count or 1)


def applied(before: list[str], diff: str) -> list[str]:
    """What the diff makes of the old lines."""
    after: list[str] = []
    place = 0
    for line in diff.splitlines():
        if line.startswith("@@"):
            first, count = _range(line.split()[1])
            start = first - (count > 0)
            after += before[place:start]
            place = start
        elif line.startswith("-"):
            assert before[place] == line[1:]
            place += 1
        else:
            if line.startswith(" "):
                assert before[place] == line[1:]
                place += 1
            after.append(line[1:])
    return after + before[place:]


@given(LINES, LINES)
def test_it_says_what_changes(before: list[str], after: list[str]) -> None:
    diff = unified("\n".join(before) + "\n", "\n".join(after) + "\n", 10_000)
    old, new = ("\n".join(before) + "\n").splitlines(), ("\n".join(after) + "\n").splitlines()
    assert applied(old, diff) == new
    headers = [line for line in diff.splitlines() if line.startswith("@@")]
    lines = [line for line in diff.splitlines() if not line.startswith("@@")]
    removed, added = (sum(_range(header.split()[side])[1] for header in headers) for side in (1, 2))
    assert removed == sum(line[0] in "- " for line in lines)
    assert added == sum(line[0] in "+ " for line in lines)


def test_a_change_in_a_long_file_is_short() -> None:
    before = [f"line {number}" for number in range(100_000)]
    after = [*before]
    after[70_000] = "changed"
    diff = unified("\n".join(before), "\n".join(after), 60)
    assert diff.splitlines() == [
        "@@ -69998,7 +69998,7 @@",
        " line 69997",
        " line 69998",
        " line 69999",
        "-line 70000",
        "+changed",
        " line 70001",
        " line 70002",
        " line 70003",
    ]


def test_what_is_changed_all_over_is_not_matched() -> None:
    before, after = (["x" * 10, f"{side} {n}"] * 1 for side, n in (("old", 1), ("new", 1)))
    old = "\n".join(["same", *(f"old {n}" for n in range(1_500))])
    new = "\n".join(["same", *(f"new {n}" for n in range(1_500))])
    diff = changed_lines(old, new)
    assert (diff[0], diff[1], diff[1_501], len(diff)) == ("@@ -2,1500 +2,1500 @@", "-old 0", "+new 0", 3_001)
    assert before != after


def test_a_new_file_is_all_new() -> None:
    assert unified(None, "one\ntwo\n", 60) == "@@ -0,0 +1,2 @@\n+one\n+two"
    assert unified("same", "same", 60) == ""


def test_long_lines_and_many_lines_are_cut() -> None:
    diff = unified(None, "x" * 500, 60).splitlines()
    assert diff[1] == f"+{'x' * 399}… 101 more characters"
    many = unified(None, "x\n" * 100, 60).splitlines()
    assert (len(many), many[-1]) == (61, "… 41 more lines")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # To a shell, the first of each is one line, and a comment.
        ("# clean up\x0crm -rf ~\n", "# clean up\nrm -rf ~\n"),
        ("# clean up\u2028rm -rf ~\n", "# clean up\nrm -rf ~\n"),
        ("# clean up\rrm -rf ~\n", "# clean up\nrm -rf ~\n"),
        ("one\ntwo\n", "one\r\ntwo\r\n"),
        ("one", "one\n"),
        ("", "\n"),
    ],
)
def test_p9_no_change_is_out_of_sight(before: str, after: str) -> None:
    assert unified(before, after, 60)
    assert unified(after, before, 60)


@given(st.text("ab\r\n\x0c\u2028", max_size=12), st.text("ab\r\n\x0c\u2028", max_size=12))
def test_p9_there_is_something_to_see_wherever_something_changes(before: str, after: str) -> None:
    assert bool(unified(before, after, 1_000)) == (before != after)


def test_p9_what_leaves_no_mark_is_shown() -> None:
    diff = unified("if admin:\n", "if \u202eadmin\u200b:\r\n", 60)
    assert diff == "@@ -1 +1 @@\n-if admin:\n+if <U+202E>admin<U+200B>:␍"
    assert "␍" not in unified("one\r\n", "two\r\n", 60)


# Diffs of several files.

_FILES = st.lists(
    st.tuples(
        st.text("ab/ .-+@", min_size=1, max_size=8),
        st.none()
        | st.lists(st.sampled_from(["-- a", "++ b", "@@ -1 +1 @@", "", " "]), max_size=9).map("\n".join),
        st.lists(st.sampled_from(["-- a", "++ b", "@@ -1 +1 @@", "", " c"]), max_size=9).map("\n".join),
    ),
    min_size=1,
    max_size=4,
)


@given(_FILES)
def test_a_diff_of_several_files_is_read_file_by_file(files: list[tuple[str, str | None, str]]) -> None:
    """Also where a changed line looks like a header."""
    diff = "\n".join(file_diff(*each) for each in files)
    assert list(files_of(diff)) == [(path, tuple(changed_lines(old, new))) for path, old, new in files]


def test_a_diff_has_the_header_that_programs_read() -> None:
    assert file_diff("/a b", None, "x\n") == "--- /dev/null\n+++ /a b\n@@ -0,0 +1 @@\n+x"
    assert file_diff("two\r\nlines", "x", "") == "--- two lines\n+++ two lines\n@@ -1 +0,0 @@\n-x"


def test_a_diff_of_another_program_is_read_as_well() -> None:
    removed = "diff --git a/x b/x\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n"
    assert list(files_of(removed)) == [
        ("", ("diff --git a/x b/x",)),
        ("a/x", ("@@ -1 +0,0 @@", "-x", "\\ No newline at end of file")),
    ]
    assert list(files_of("only words")) == [("", ("only words",))]
    endless = f"@@ -1,{'9' * 5_000} +1 @@"
    assert list(files_of(endless)) == [("", (endless,))]
