"""Every rule in the documents about rules loads, and its examples hold."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from dragoman.policy.examples import failed
from dragoman.policy.rule import PolicyRule

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
        assert list(failed(rule)) == [], rule


def test_every_rule_of_the_translation_has_an_example() -> None:
    assert all(rule.examples for rule in rules("policy-translation.md"))
