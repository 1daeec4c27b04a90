"""Every rule in the documents about rules loads, and its examples hold."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from devtools.dry_run import over_the_tour

from dragoman.policy.examples import failed_examples
from dragoman.policy.rule import PolicyRule
from dragoman.policy.starter import starter_text

_DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)


def rules(page: str) -> list[PolicyRule]:
    blocks = _BLOCK.findall((_DOCS / page).read_text("utf-8"))
    tables = [table for block in blocks for table in tomllib.loads(block).get("policy", ())]
    return msgspec.convert(tables, list[PolicyRule])


@pytest.mark.parametrize(("page", "at_least"), [("policy.md", 2), ("policy-translation.md", 9)])
def test_the_rules_in_a_document_do_what_their_examples_say(page: str, at_least: int) -> None:
    found = rules(page)
    assert len(found) >= at_least
    for rule in found:
        assert list(failed_examples(rule)) == [], rule


def test_every_rule_of_the_translation_has_an_example() -> None:
    assert all(rule.examples for rule in rules("policy-translation.md"))


_TEXT = re.compile(r"^```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def test_the_dry_runs_over_the_tour_are_as_the_page_shows_them() -> None:
    page = (_DOCS / "policy.md").read_text("utf-8")
    shown = [_TIME.sub("WHEN", block) for block in _TEXT.findall(page) if block.startswith("A person")]
    draft = next(block for block in _BLOCK.findall(page) if "check.sh" in block)
    assert shown[:2] == [_TIME.sub("WHEN", over_the_tour(rules)) for rules in (starter_text(), draft)]
