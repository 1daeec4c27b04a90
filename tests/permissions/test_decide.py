"""The order of decision (scenario D4): each step against each other."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.permissions.approvals import Approval, Approvals
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.decide import (
    Allowed,
    Ask,
    RefusedByRule,
    StepDecision,
    decide,
    unasked,
    without_folders,
)
from dragoman.permissions.keys import approval_key
from dragoman.permissions.pipeline import PermissionServices
from dragoman.permissions.record import DecisionRecord
from dragoman.permissions.verdict import MatchedRule, Verdict
from permissions.actions import WORKSPACE, action, diff

STANDING = Approval("1", "t", "k", "always", None, None, datetime.now(UTC))
EVERYTHING = AutoApproval(all=True, urls={"https://e.example": True})
URL = ("https://e.example/a",)


@pytest.mark.parametrize("held_back", ["eligible", "sensitive", "always_ask"])
@pytest.mark.parametrize(
    "allowed_by", ["approval", "read_only", "auto_approve", "urls", "accept_edits", "all of them"]
)
def test_d4_what_holds_back_goes_before_everything_that_allows(held_back: str, allowed_by: str) -> None:
    everything = allowed_by == "all of them"
    settings = AutoApproval(
        all=everything or allowed_by == "auto_approve",
        urls={"https://e.example": True} if everything or allowed_by == "urls" else {},
        eligible={"t": False} if held_back == "eligible" else {},
    )
    approval = STANDING if everything or allowed_by == "approval" else None

    def decided(*, with_it: bool) -> StepDecision:
        return decide(
            "t",
            settings if with_it or held_back != "eligible" else AutoApproval(settings.all, {}, settings.urls),
            lambda: approval,
            sensitive=with_it and held_back == "sensitive",
            always_ask=with_it and held_back == "always_ask",
            read_only=everything or allowed_by == "read_only",
            urls=URL,
            accepts_edit=everything or allowed_by == "accept_edits",
        )

    assert decided(with_it=True) == Ask(needs_person=held_back != "always_ask", once=True)
    assert isinstance(decided(with_it=False), Allowed)


def test_d4_a_standing_approval_is_named_before_a_setting() -> None:
    assert decide("t", EVERYTHING, lambda: STANDING, urls=URL) == Allowed(
        "always approved", "approval", STANDING.id
    )
    assert decide("t", EVERYTHING, lambda: None, urls=URL) == Allowed("auto-approved", "setting")
    assert decide("t", AutoApproval(urls={"https://e.example": True}), lambda: None, urls=URL) == Allowed(
        "auto-approved address", "setting"
    )
    assert decide("t", AutoApproval(), lambda: None, urls=URL) == Ask()


def test_d5_without_a_person_a_sensitive_action_is_refused_whatever_the_setting() -> None:
    for setting in ("allow-reads", "allow", "ask"):
        assert unasked(setting, needs_person=True, read=True) == "console"
    assert unasked("allow-reads", needs_person=True, read=False) == "console"
    assert unasked("deny", needs_person=True, read=True) == "refused"
    assert unasked("allow", needs_person=False, read=False) == "allowed"
    assert unasked("allow-reads", needs_person=False, read=True) == "allowed"
    assert unasked("allow-reads", needs_person=False, read=False) == "refused"
    assert unasked("deny", needs_person=False, read=True) == "refused"
    assert unasked("ask", needs_person=False, read=True) == "console"


def test_d3_an_approval_with_the_very_key_of_a_sensitive_action_does_not_count() -> None:
    permissions = PermissionServices()
    git = action(kind="edit", content=[diff(f"{WORKSPACE}/.git/config", "a", "b")])
    plain = action(kind="edit", content=[diff(f"{WORKSPACE}/a.txt", "a", "b")])
    for each in (git, plain):
        permissions.approvals.grant("s", each.permission_tool, approval_key(each), "session")
    assert permissions.decide(git, "s", (WORKSPACE,)) == Ask(needs_person=True, once=True)
    assert permissions.decide(plain, "s", (WORKSPACE,)) == Allowed(
        "approved for this session", "approval", "s2"
    )
    assert permissions.decide(plain, "another session", (WORKSPACE,)) == Ask()


def test_q5_an_approval_of_an_action_without_substance_does_not_count() -> None:
    permissions = PermissionServices()
    bare = action(title="Bash", kind="execute")
    permissions.approvals.grant("s", bare.permission_tool, approval_key(bare), "session")
    assert permissions.decide(bare, "s", (WORKSPACE,)) == Ask(once=True)


def test_addresses_count_for_fetching_only() -> None:
    permissions = PermissionServices(settings=AutoApproval(urls={"https://e.example": True}))
    fetch = action(kind="fetch", input={"url": "https://e.example/a"})
    assert isinstance(permissions.decide(fetch, "s", (WORKSPACE,)), Allowed)
    other = action(kind="think", input={"url": "https://e.example/a", "then": "rm"})
    assert permissions.decide(other, "s", (WORKSPACE,)) == Ask()


# The record.


def test_a_recent_question_becomes_a_lasting_approval_for_exactly_its_action() -> None:
    record, approvals = DecisionRecord(), Approvals()
    make, test = (action(input={"command": command}) for command in ("make", "make test"))
    first = record.add_request(make, "c1", WORKSPACE)
    record.decided(first, allowed=True, by="person")
    record.add_request(test, "c1", WORKSPACE)
    newest, oldest = record.newest_first()
    assert (newest.action, newest.allowed) == (test, None)
    assert (oldest.action, oldest.allowed, oldest.by) == (make, True, "person")
    allowed = record.allow(first, "session", approvals)
    assert allowed is not None
    assert allowed.covers == "exactly this request of Claude Code: run make, in /srv/project"
    assert approvals.covers("c1", make.permission_tool, approval_key(make))
    assert not approvals.covers("c1", test.permission_tool, approval_key(test))
    assert not approvals.covers("c2", make.permission_tool, approval_key(make))


def test_what_can_only_be_allowed_once_gets_no_lasting_approval_from_the_record() -> None:
    record, approvals = DecisionRecord(), Approvals()
    bare = record.add_request(action(title="Bash"), "c1", WORKSPACE)
    git = record.add_request(action(input={"command": "rm -rf .git"}), "c1", WORKSPACE)
    for each in (bare, git, "q99"):
        assert record.allow(each, "always", approvals) is None
    assert approvals.list() == ()


def test_a_decision_is_recorded_once_and_the_record_is_bounded() -> None:
    record = DecisionRecord()
    first = record.add_request(action(input={"n": 0}), "c", WORKSPACE)
    record.decided(first, allowed=False, by="person")
    record.decided(first, allowed=True, by="end")
    assert record.newest_first()[0].allowed is False
    for number in range(100):
        record.add_request(action(input={"n": number}), "c", WORKSPACE)
    assert len(record.newest_first()) == 50
    for _ in range(5):
        record.add_request(action(content=[diff(f"{WORKSPACE}/a", None, "x" * 1_500_000)]), "c", WORKSPACE)
    assert len(record.newest_first()) == 2


def test_the_places_of_a_process_are_its_disk_and_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/out").symlink_to(tmp_path)
    places = PermissionServices(own=(str(tmp_path / "ws/state.db"),)).places((str(tmp_path / "ws"),))
    assert places.why_changing(str(tmp_path / "ws/out/a"))
    assert places.why_reading(str(tmp_path / "ws/state.db"))
    assert places.why_changing(str(tmp_path / "ws/a")) is None


def test_a_text_about_rules_can_leave_out_where_their_files_are() -> None:
    rules = (
        MatchedRule("deny", "/home/olga/.config/dragoman/dragoman.toml", 3),
        MatchedRule("deny", "/srv/dragoman.toml", 30),
    )
    decided = decide("t", AutoApproval(), lambda: None, Verdict("deny", rules))
    assert isinstance(decided, RefusedByRule)
    assert decided.rules == rules
    assert without_folders(decided.why, decided.rules) == (
        "The rules at dragoman.toml:3, dragoman.toml:30 deny it."
    )
    assert without_folders("Nothing of a rule.", ()) == "Nothing of a rule."
