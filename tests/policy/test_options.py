"""Options that a rule lists, and arguments that it forbids: abbreviations and clusters."""

from __future__ import annotations

import pytest

from dragoman.policy.match import Match
from dragoman.policy.options import ListedOptions, has_forbidden, is_option

YES, MAYBE, NO = Match.YES, Match.MAYBE, Match.NO

FORBIDDEN = [
    ("--output", "--output", YES),
    ("--output=x", "--output", YES),
    ("--output-dir=x", "--output*", YES),
    # git and getopt take every beginning that is clear.
    ("--outp=x", "--output*", MAYBE),
    ("--o", "--output", MAYBE),
    ("--", "--output", NO),
    ("--oneline", "--output", NO),
    ("-c", "-c", YES),
    ("-ccore.pager=x", "-c", YES),
    ("-pc", "-c", MAYBE),
    ("-p=c", "-c", MAYBE),
    ("-p", "-c", NO),
    ("--config", "-c", NO),
    ("-o", "--output", NO),
    # Single dashes with long names: find, go.
    ("-exec", "-exec", YES),
    ("-execdir", "-exec*", YES),
    ("-execdir", "-exec", NO),
    ("--delete", "-delete", YES),
    ("SHELL=./evil", "SHELL=*", YES),
    ("SHELL", "SHELL=*", NO),
    ("x", "-x", NO),
    ("-x", "x", NO),
]

LISTED = [
    ("--oneline", ["--oneline"], True),
    ("--onel", ["--oneline"], False),
    ("--format=%h", ["--format"], True),
    ("--format", ["--format"], True),
    ("--format=%h", ["--format=%h"], True),
    ("--format=%s", ["--format=%h"], False),
    ("-la", ["-l", "-a"], True),
    ("-la", ["-l"], False),
    ("-5", ["-[0-9]*"], True),
    ("-n5", ["-n"], False),
    ("-n5", ["-n*"], True),
    ("-delete", ["-name", "-type"], False),
    ("-x", [], False),
]


@pytest.mark.parametrize(("argument", "entry", "match"), FORBIDDEN)
def test_a_forbidden_argument_is_found_in_every_spelling(argument: str, entry: str, match: Match) -> None:
    assert has_forbidden(argument, [entry]) is match
    assert has_forbidden(argument, ["never", entry]) is match


def test_nothing_forbids_nothing() -> None:
    assert has_forbidden("--output", []) is NO


@pytest.mark.parametrize(("option", "listed", "is_there"), LISTED)
def test_an_option_is_listed_by_itself_or_letter_by_letter(
    option: str,
    listed: list[str],
    is_there: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    assert (option in ListedOptions(listed)) is is_there


def test_a_dash_is_a_file_and_two_end_the_options() -> None:
    assert not is_option("-")
    assert not is_option("--")
    assert is_option("-x")
    assert not is_option("x")
