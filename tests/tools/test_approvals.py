import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from dragoman.permissions import approvals as approvals_module
from dragoman.permissions.approvals import MAX_KEY_LENGTH, Approvals, _storable
from dragoman.permissions.keys import approval_key
from dragoman.store import ApprovalStore, Database, StoreError
from dragoman.tools.decision import LEVELS, ApprovalLevel
from permissions.actions import action

_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
_LASTING: tuple[ApprovalLevel, ...] = ("workspace", "always")


class _WallClock:
    """Each look at it is a minute later."""

    def __init__(self) -> None:
        self._now = _NOON

    def __call__(self) -> datetime:
        self._now += timedelta(minutes=1)
        return self._now


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
def store(database: Database) -> ApprovalStore:
    return ApprovalStore(database)


@pytest.fixture
def approvals(store: ApprovalStore, tmp_path: Path) -> Approvals:
    return Approvals(store, tmp_path, clock=_WallClock())


def _grant(approvals: Approvals, level: ApprovalLevel, *, session: str = "one", key: str = "make") -> str:
    approval = approvals.grant(session, "run", key, level)
    assert approval is not None
    return approval.id


def _is_covered(approvals: Approvals, session: str = "one", tool: str = "run", key: str = "make") -> bool:
    return approvals.covers(session, tool, key) is not None


class TestReach:
    def test_once_covers_nothing_that_follows(self, approvals: Approvals) -> None:
        assert approvals.grant("one", "run", "make", "once") is None
        assert not _is_covered(approvals)
        assert approvals.list() == ()

    def test_p17_allowed_in_one_session_another_still_asks(self, approvals: Approvals) -> None:
        _grant(approvals, "session")
        assert _is_covered(approvals, "one")
        assert not _is_covered(approvals, "two")
        assert not _is_covered(approvals, "")

    def test_p17_a_session_ends_with_the_process(self, approvals: Approvals, store: ApprovalStore) -> None:
        _grant(approvals, "session")
        assert not _is_covered(Approvals(store))
        assert store.list() == ()

    @pytest.mark.parametrize("level", LEVELS[1:])
    def test_p18_bound_to_what_was_approved(self, approvals: Approvals, level: ApprovalLevel) -> None:
        _grant(approvals, level)
        assert _is_covered(approvals)
        assert not _is_covered(approvals, key="make install")
        assert not _is_covered(approvals, key="")
        assert not _is_covered(approvals, tool="walk")

    @pytest.mark.parametrize("level", _LASTING)
    def test_p18_survives_a_restart(self, tmp_path: Path, level: ApprovalLevel) -> None:
        with Database.open(tmp_path / "state") as before:
            _grant(Approvals(ApprovalStore(before), tmp_path), level)
        with Database.open(tmp_path / "state") as after:
            found = Approvals(ApprovalStore(after), tmp_path).covers("another session", "run", "make")
        assert found is not None
        assert found.level == level
        assert found.session is None

    def test_p18_workspace_is_bound_to_its_folder(
        self, approvals: Approvals, store: ApprovalStore, tmp_path: Path
    ) -> None:
        _grant(approvals, "workspace")
        assert not _is_covered(Approvals(store, tmp_path / "below"))
        assert not _is_covered(Approvals(store, tmp_path.parent))
        assert not _is_covered(Approvals(store))
        assert _is_covered(Approvals(store, tmp_path))

    def test_p18_one_folder_has_one_name(
        self, approvals: Approvals, store: ApprovalStore, tmp_path: Path
    ) -> None:
        _grant(approvals, "workspace")
        (tmp_path / "link").symlink_to(tmp_path)
        for path in (tmp_path / "link", f"{tmp_path}/", f"{tmp_path}/state/.."):
            assert _is_covered(Approvals(store, path))

    def test_p18_a_folder_whose_name_is_not_utf8(self, store: ApprovalStore) -> None:
        _grant(Approvals(store, "/tmp/\udcff"), "workspace")
        assert _is_covered(Approvals(store, "/tmp/\udcff"))
        assert not _is_covered(Approvals(store, "/tmp/\udcfe"))
        assert not _is_covered(Approvals(store, "/tmp/\ufffd"))

    def test_p18_always_holds_in_every_workspace(self, approvals: Approvals, store: ApprovalStore) -> None:
        _grant(approvals, "always")
        assert _is_covered(Approvals(store, "/elsewhere"))
        assert _is_covered(Approvals(store))

    def test_an_approval_tells_what_it_is(self, approvals: Approvals, tmp_path: Path) -> None:
        for level in LEVELS[1:]:
            approvals.grant("one", "run", level, level)
        told = [(it.tool, it.key, it.level, it.session, it.workspace) for it in approvals.list()]
        assert told == [
            ("run", "session", "session", "one", None),
            ("run", "workspace", "workspace", None, str(tmp_path)),
            ("run", "always", "always", None, None),
        ]
        assert [it.granted_at for it in approvals.list()] == [_NOON + timedelta(minutes=n) for n in (1, 2, 3)]

    @pytest.mark.parametrize("level", LEVELS[1:])
    def test_granting_again_changes_nothing(self, approvals: Approvals, level: ApprovalLevel) -> None:
        first = approvals.grant("one", "run", "make", level)
        assert approvals.grant("one", "run", "make", level) == first
        assert approvals.list() == (first,)

    def test_the_time_is_taken_from_the_system(self, store: ApprovalStore) -> None:
        before = datetime.now(UTC)
        granted = Approvals(store).grant("one", "run", "make", "always")
        assert granted is not None
        assert before <= granted.granted_at <= datetime.now(UTC)


class TestTakingBack:
    @pytest.mark.parametrize("level", LEVELS[1:])
    def test_p18_revoked_one_by_one(self, approvals: Approvals, level: ApprovalLevel) -> None:
        ids = [_grant(approvals, level, key=key) for key in ("a", "b", "c")]
        assert approvals.revoke(ids[1])
        assert [it.id for it in approvals.list()] == [ids[0], ids[2]]
        assert [_is_covered(approvals, key=key) for key in ("a", "b", "c")] == [True, False, True]
        assert not approvals.revoke(ids[1])

    @pytest.mark.parametrize("nonsense", ["", "s1", "1", "x", "-1", "٣", "9" * 18, "9" * 40])
    def test_revoking_what_is_not_there(self, approvals: Approvals, nonsense: str) -> None:
        assert not approvals.revoke(nonsense)
        assert not Approvals().revoke(nonsense)

    @pytest.mark.parametrize("level", _LASTING)
    def test_p18_revoking_is_seen_by_others_at_once(
        self, approvals: Approvals, tmp_path: Path, level: ApprovalLevel
    ) -> None:
        id_ = _grant(approvals, level)
        with Database.open(tmp_path / "state") as elsewhere:
            other = Approvals(ApprovalStore(elsewhere), tmp_path)
            assert _is_covered(other)
            approvals.revoke(id_)
            assert not _is_covered(other)

    def test_p17_after_a_reset_all_ask_again(self, approvals: Approvals) -> None:
        for level in LEVELS[1:]:
            _grant(approvals, level, key=level)
        _grant(approvals, "session", session="two")
        approvals.reset()
        assert approvals.list() == ()
        assert not any(_is_covered(approvals, key=level) for level in LEVELS)
        assert not _is_covered(approvals, "two")

    def test_p17_a_reset_reaches_the_sessions_of_other_processes(
        self, approvals: Approvals, tmp_path: Path
    ) -> None:
        with Database.open(tmp_path / "state") as elsewhere:
            other = Approvals(ApprovalStore(elsewhere), "/elsewhere")
            for level in LEVELS[1:]:
                _grant(other, level, key=level)
            approvals.reset()
            assert not any(_is_covered(other, key=level) for level in LEVELS)
            assert other.list() == ()

    def test_p17_what_is_granted_after_a_reset_holds(
        self, approvals: Approvals, store: ApprovalStore
    ) -> None:
        other = Approvals(store)
        approvals.reset()
        _grant(approvals, "session")
        _grant(other, "session")
        assert _is_covered(approvals)
        assert _is_covered(other)

    def test_a_session_that_ended_is_forgotten(self, approvals: Approvals) -> None:
        _grant(approvals, "session", session="one")
        _grant(approvals, "session", session="two")
        approvals.end_session("one")
        assert not _is_covered(approvals, "one")
        assert _is_covered(approvals, "two")

    def test_the_oldest_go_first_when_there_are_too_many(
        self, approvals: Approvals, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(approvals_module, "MAX_SESSION_APPROVALS", 2)
        for key in ("a", "b", "c"):
            _grant(approvals, "session", key=key)
        assert [it.key for it in approvals.list()] == ["b", "c"]


class TestWithoutAStore:
    @pytest.mark.parametrize("level", LEVELS[1:])
    def test_everything_lasts_for_the_session(self, level: ApprovalLevel) -> None:
        approvals = Approvals(None, "/work")
        granted = approvals.grant("one", "run", "make", level)
        assert granted is not None
        assert granted.level == "session"
        assert _is_covered(approvals, "one")
        assert not _is_covered(approvals, "two")
        approvals.reset()
        assert not _is_covered(approvals, "one")

    def test_the_levels_that_can_be_promised(self, store: ApprovalStore) -> None:
        assert Approvals(None, "/work").levels == ("once", "session")
        assert Approvals(store).levels == ("once", "session", "always")
        assert Approvals(store, "/work").levels == LEVELS

    def test_no_workspace_level_without_a_workspace(self, store: ApprovalStore) -> None:
        granted = Approvals(store).grant("one", "run", "make", "workspace")
        assert granted is not None
        assert granted.level == "session"
        assert store.list() == ()


class TestAFailingStore:
    @pytest.fixture
    def problems(self) -> list[StoreError]:
        return []

    @pytest.fixture
    def failing(self, database: Database, store: ApprovalStore, problems: list[StoreError]) -> Approvals:
        """Granted one approval for a session, then the store went away."""
        approvals = Approvals(store, "/work", on_problem=problems.append)
        _grant(approvals, "session", key="before")
        database.close()
        return approvals

    @pytest.mark.parametrize("level", _LASTING)
    def test_what_cannot_be_kept_lasts_for_the_session(
        self, failing: Approvals, problems: list[StoreError], level: ApprovalLevel
    ) -> None:
        granted = failing.grant("one", "run", "make", level)
        assert granted is not None
        assert granted.level == "session"
        assert _is_covered(failing, "one")
        assert not _is_covered(failing, "two")
        assert len(problems) == 1

    def test_sessions_keep_what_they_were_granted(
        self, failing: Approvals, problems: list[StoreError]
    ) -> None:
        assert _is_covered(failing, key="before")
        assert not _is_covered(failing, key="make")
        assert len(problems) == 1

    def test_a_reset_that_fails_is_told_but_holds_here(self, failing: Approvals) -> None:
        with pytest.raises(StoreError):
            failing.reset()
        assert not _is_covered(failing, key="before")

    def test_listing_does_not_pass_for_complete(self, failing: Approvals) -> None:
        with pytest.raises(StoreError):
            failing.list()

    def test_revoking_what_is_stored_fails(self, failing: Approvals) -> None:
        with pytest.raises(StoreError):
            failing.revoke("1")

    def test_one_that_failed_from_the_start_may_come_back(
        self, database: Database, store: ApprovalStore, problems: list[StoreError]
    ) -> None:
        with database.writing():
            database.execute("ALTER TABLE approval_resets RENAME TO gone")
        approvals = Approvals(store, on_problem=problems.append)
        _grant(approvals, "session")
        with database.writing():
            database.execute("ALTER TABLE gone RENAME TO approval_resets")
        assert _is_covered(approvals)
        assert len(problems) == 1

    def test_it_is_logged_where_nobody_listens(
        self, database: Database, store: ApprovalStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        database.close()
        with caplog.at_level(logging.WARNING):
            Approvals(store)
        assert "approvals last for this session only" in caplog.text


class TestKeys:
    def test_a_long_key_stands_for_itself_alone(self, approvals: Approvals) -> None:
        long = "x" * (MAX_KEY_LENGTH + 1)
        approval = approvals.grant("one", "run", long, "always")
        assert approval is not None
        assert len(approval.key) < MAX_KEY_LENGTH
        assert approval.key.startswith("xxx")
        assert _is_covered(approvals, key=long)
        assert not _is_covered(approvals, key=f"{long}x")

    def test_the_text_of_a_long_key_does_not_pass_for_it(self, approvals: Approvals) -> None:
        approval = approvals.grant("one", "run", "x" * (MAX_KEY_LENGTH + 1), "always")
        assert approval is not None
        assert not _is_covered(approvals, key=approval.key)

    @given(st.text(st.characters(codec=None), max_size=20), st.text(st.characters(codec=None), max_size=20))
    def test_any_two_keys_are_two(self, one: str, other: str) -> None:
        assert (_storable(one) == _storable(other)) == (one == other)
        _storable(one).encode()


class TestIncompleteKeys:
    """Approvals of agents' actions that version 0.1 kept: their keys left out what else was approved."""

    def test_they_are_removed_and_that_is_said_once(self, store: ApprovalStore) -> None:
        now = datetime.now(UTC)
        store.add("dragoman-agent-action-execute", "git", None, now)
        store.add("dragoman-agent-action-other", '{"input":null,"places":[],"title":"Bash"}', "/w", now)
        store.add("run_command", "in '/w': make", None, now)
        complete = approval_key(action(input={"command": "make"}))
        store.add("dragoman-agent-action-execute", complete, None, now)
        approvals = Approvals(store)
        notice = approvals.drop_incomplete()
        assert notice is not None
        assert notice.startswith("2 approvals of agents' actions are no longer valid")
        assert [approval.key for approval in approvals.list()] == ["in '/w': make", complete]
        assert approvals.drop_incomplete() is None

    def test_one_is_said_in_the_singular(self, store: ApprovalStore) -> None:
        store.add("dragoman-agent-action-execute", "git", None, datetime.now(UTC))
        assert (Approvals(store).drop_incomplete() or "").startswith("1 approval of an agent's action is")

    def test_without_a_store_or_with_one_that_fails_there_is_nothing_to_remove(
        self, store: ApprovalStore, database: Database
    ) -> None:
        assert Approvals().drop_incomplete() is None
        problems: list[StoreError] = []
        approvals = Approvals(store, on_problem=problems.append)
        database.close()
        assert approvals.drop_incomplete() is None
        assert len(problems) == 1
