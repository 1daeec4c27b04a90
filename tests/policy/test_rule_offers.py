"""Rules that a person can make of an answer: only those that would be enough the next time."""

from pathlib import Path

import pytest

from dragoman.config import load
from dragoman.frontends.rule_offers import CannotAddRule, RuleOffer, RuleOffers
from dragoman.models import Models
from dragoman.permissions.describe import describe
from dragoman.policy.policy import Policy


def _models(folder: Path, text: str = "") -> Models:
    file = folder / "own.toml"
    file.write_text(text)
    return Models(load(file))


def _offered(models: Models, folder: Path, command: str) -> tuple[RuleOffer, ...]:
    places = models.permissions.places((str(folder),))
    action = describe(
        agent="demo",
        agent_name="Demo",
        places=places,
        title="Run it",
        kind="execute",
        input={"command": command},
    )
    return RuleOffers(models).of(action, places)


def test_an_offer_allows_the_action_once_it_is_added(tmp_path: Path) -> None:
    for number in range(2):
        models = _models(tmp_path)
        offer = _offered(models, tmp_path, "git log --oneline && git status")[number]
        rule = RuleOffers(models).add(offer)
        assert (rule.file, rule.line) == (str(tmp_path / "own.toml"), 1)
        assert (tmp_path / "own.toml").read_text() == offer.toml
        assert len(models.rules) == 2


@pytest.mark.parametrize(
    "rule",
    [
        'decision = "ask"\ncommand = ["git", "log"]\nargs = "any"\n',
        'decision = "deny"\nkind = "execute"\n',
        # Whether this one is about it cannot be known: an argument may name such a file.
        'decision = "ask"\ncommand = ["git", "log"]\nargs = "any"\npaths = ["secret/**"]\n',
    ],
)
def test_nothing_is_offered_that_a_stricter_rule_would_still_ask_about(tmp_path: Path, rule: str) -> None:
    assert _offered(_models(tmp_path), tmp_path, "git log secret/x")
    assert _offered(_models(tmp_path, f"[[policy]]\n{rule}"), tmp_path, "git log secret/x") == ()


@pytest.mark.parametrize("command", ["cat .env", "git log | $PAGER", "eval ls", "ls > out", "rm -rf ~"])
def test_nothing_is_offered_for_what_is_sensitive_or_not_understood(tmp_path: Path, command: str) -> None:
    assert _offered(_models(tmp_path), tmp_path, command) == ()


def test_a_rule_that_cannot_be_added_changes_nothing(tmp_path: Path) -> None:
    models = _models(tmp_path)
    [offer, *_] = _offered(models, tmp_path, "git log")
    (tmp_path / "own.toml").write_text("broken =")
    with pytest.raises(CannotAddRule, match=r"own\.toml:1.*Nothing has changed\."):
        RuleOffers(models).add(offer)
    assert models.rules == ()


def test_a_fault_in_the_analysis_offers_nothing_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RecursionError

    models = _models(tmp_path)
    monkeypatch.setattr(Policy, "judge", fail)
    assert _offered(models, tmp_path, "git log") == ()
    assert "no rule is offered for an action of demo" in caplog.text
