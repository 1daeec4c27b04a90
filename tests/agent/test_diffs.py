"""Diffs as people read them."""

from __future__ import annotations

from hypothesis import given, strategies as st

from dragoman.backends.agent.acp.messages import Diff
from dragoman.backends.agent.diffs import unified

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30)


def applied(before: list[str], diff: str) -> list[str]:
    """What the diff makes of the old lines."""
    after: list[str] = []
    place = 0
    for line in diff.splitlines():
        if line.startswith("@@"):
            start = int(line.split()[1][1:]) - 1
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
    diff = unified(Diff("/a", "\n".join(before) + "\n", "\n".join(after) + "\n"), 10_000)
    old, new = ("\n".join(before) + "\n").splitlines(), ("\n".join(after) + "\n").splitlines()
    assert applied(old, diff) == new


def test_a_change_in_a_long_file_is_short() -> None:
    before = [f"line {number}" for number in range(100_000)]
    after = [*before]
    after[70_000] = "changed"
    diff = unified(Diff("/a", "\n".join(before), "\n".join(after)), 60)
    assert diff.splitlines() == [
        "@@ -69998 +69998 @@",
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
    many = Diff(
        "/a",
        "\n".join(["same", *(f"old {n}" for n in range(1_500))]),
        "\n".join(["same", *(f"new {n}" for n in range(1_500))]),
    )
    diff = unified(many, 3_010).splitlines()
    assert (diff[0], diff[1], diff[1_501], len(diff)) == ("@@ -2 +2 @@", "-old 0", "+new 0", 3_001)
    assert before != after


def test_a_new_file_is_all_new() -> None:
    assert unified(Diff("/a", None, "one\ntwo\n"), 60) == "@@ -1 +1 @@\n+one\n+two"
    assert unified(Diff("/a", "same", "same"), 60) == ""


def test_long_lines_and_many_lines_are_cut() -> None:
    diff = unified(Diff("/a", None, "x" * 500), 60).splitlines()
    assert len(diff[1]) == 401
    assert diff[1].endswith("…")
    many = unified(Diff("/a", None, "x\n" * 100), 60).splitlines()
    assert (len(many), many[-1]) == (61, "… 41 more lines")
