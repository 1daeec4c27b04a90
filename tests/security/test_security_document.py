"""docs/security.md claims nothing that no test shows."""

import re

import pytest

from manifest import ROOT, unusable_tests
from written_tests import WrittenTest, find_tests_below

_NAMED = re.compile(r"`(tests/[^`]+::[^`]+)`")


@pytest.fixture(scope="module")
def document() -> str:
    return (ROOT / "docs/security.md").read_text("utf-8")


@pytest.fixture(scope="module")
def written() -> dict[str, WrittenTest]:
    return find_tests_below(ROOT / "tests", ROOT)


def test_every_test_it_names_exists_and_runs(document: str, written: dict[str, WrittenTest]) -> None:
    named = _NAMED.findall(document)
    complaints = unusable_tests((("docs/security.md", test) for test in named), written)
    assert not complaints, "\n".join(["", *complaints])
    assert len(named) == len(set(named))


def test_every_attack_has_a_test(document: str) -> None:
    """An attack is a paragraph that begins with what is done, in bold."""
    attacks = [block for block in document.split("\n\n") if block.startswith("**")]
    assert attacks
    assert [attack for attack in attacks if not _NAMED.search(attack)] == []


def test_every_test_of_an_attack_is_named(document: str, written: dict[str, WrittenTest]) -> None:
    attacks = [test for test in written if test.startswith("tests/security/test_hostile_")]
    attacks += [test for test in written if test.startswith("tests/security/test_other_users")]
    assert set(attacks) - set(_NAMED.findall(document)) == set()
