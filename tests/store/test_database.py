import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.store import database as database_module
from dragoman.store.database import FILE_NAME, MIGRATIONS, Database, StoreError, private_folder

_DEADLINE = 30


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def database(folder: Path) -> Iterator[Database]:
    with Database.open(folder) as opened:
        yield opened


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.05)


class TestOpening:
    def test_a_new_folder_and_all_files_in_it_are_private(self, database: Database, folder: Path) -> None:
        with database.writing() as writing:
            writing.execute("UPDATE approval_resets SET count = 1")
        assert _mode(folder) == 0o700
        files = sorted(folder.iterdir())
        assert [file.name for file in files] == [FILE_NAME, f"{FILE_NAME}-shm", f"{FILE_NAME}-wal"]
        assert {_mode(file) for file in files} == {0o600}

    def test_missing_parents_are_made(self, tmp_path: Path) -> None:
        Database.open(tmp_path / "a" / "b" / "c").close()
        assert (tmp_path / "a" / "b" / "c" / FILE_NAME).is_file()

    def test_an_empty_folder_is_made_private(self, folder: Path) -> None:
        folder.mkdir(0o755)
        Database.open(folder).close()
        assert _mode(folder) == 0o700

    def test_a_folder_with_other_things_keeps_its_mode(self, folder: Path) -> None:
        folder.mkdir()
        folder.chmod(0o755)
        (folder / "notes.txt").write_text("mine")
        for _ in range(2):
            Database.open(folder).close()
            assert _mode(folder) == 0o755
        assert _mode(folder / FILE_NAME) == 0o600

    def test_a_file_that_others_could_read_is_made_private(self, folder: Path) -> None:
        Database.open(folder).close()
        (folder / FILE_NAME).chmod(0o644)
        Database.open(folder).close()
        assert _mode(folder / FILE_NAME) == 0o600

    def test_a_folder_with_characters_that_addresses_escape(self, tmp_path: Path) -> None:
        Database.open(tmp_path / "a?mode=memory#b %41").close()
        assert (tmp_path / "a?mode=memory#b %41" / FILE_NAME).is_file()

    def test_it_is_in_wal_mode_with_foreign_keys(self, database: Database) -> None:
        assert database.rows(tuple[str], "PRAGMA journal_mode") == [("wal",)]
        assert database.rows(tuple[int], "PRAGMA foreign_keys") == [(1,)]

    def test_the_file_of_another_user_is_refused(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        Database.open(folder).close()
        monkeypatch.setattr(os, "geteuid", lambda: (folder / FILE_NAME).stat().st_uid + 1)
        with pytest.raises(StoreError, match=r"belongs to another user\. Choose a folder of your own"):
            Database.open(folder)

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match=r"state folder cannot be used .* --state-dir"):
            Database.open(tmp_path / "file" / "state")

    def test_private_folder_leaves_a_private_one_alone(self, folder: Path) -> None:
        private_folder(folder)
        (folder / "log").write_text("")
        private_folder(folder)
        assert _mode(folder) == 0o700


class TestMigrations:
    def test_a_new_file_is_up_to_date(self, database: Database) -> None:
        assert database.rows(tuple[int], "PRAGMA user_version") == [(len(MIGRATIONS),)]

    def test_only_the_missing_ones_run(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        Database.open(folder).close()
        later = (*MIGRATIONS, ("CREATE TABLE later (value TEXT)", "INSERT INTO later VALUES ('there')"))
        monkeypatch.setattr(database_module, "MIGRATIONS", later)
        with Database.open(folder) as database:
            assert database.rows(tuple[str], "SELECT value FROM later") == [("there",)]
            assert database.rows(tuple[int], "PRAGMA user_version") == [(len(later),)]

    def test_one_that_fails_leaves_the_file_as_it_was(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Database.open(folder).close()
        with monkeypatch.context() as patch:
            patch.setattr(
                database_module, "MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE later (value TEXT)", "NONSENSE"))
            )
            with pytest.raises(StoreError, match="SQLite failed"):
                Database.open(folder)
        with Database.open(folder) as database:
            assert database.rows(tuple[int], "PRAGMA user_version") == [(len(MIGRATIONS),)]
            assert database.rows(tuple[str], "SELECT name FROM sqlite_master WHERE name = 'later'") == []

    def test_a_newer_file_is_refused_and_not_changed(self, folder: Path) -> None:
        Database.open(folder).close()
        newer = len(MIGRATIONS) + 1
        connection = sqlite3.connect(folder / FILE_NAME)
        connection.execute(f"PRAGMA user_version = {newer}")
        connection.close()
        with pytest.raises(StoreError, match=rf"newer Dragoman \(schema {newer}; .* Update Dragoman"):
            Database.open(folder)
        connection = sqlite3.connect(folder / FILE_NAME)
        assert connection.execute("PRAGMA user_version").fetchall() == [(newer,)]
        connection.close()


class TestFailures:
    def test_a_file_that_is_no_database(self, folder: Path) -> None:
        folder.mkdir()
        (folder / FILE_NAME).write_bytes(b"this is no database at all" * 100)
        with pytest.raises(StoreError, match=r"It is damaged .* Move it away"):
            Database.open(folder)

    def test_a_damaged_page(self, folder: Path) -> None:
        with Database.open(folder) as database, database.writing():
            for number in range(200):
                database.execute(
                    "INSERT INTO approvals (tool, key, granted_at) VALUES ('tool', ?, '2030-01-01T00:00:00Z')",
                    f"{number}" * 100,
                )
        with Database.open(folder) as database:
            [(size,)] = database.rows(tuple[int], "PRAGMA page_size")
            [(page,)] = database.rows(
                tuple[int], "SELECT rootpage FROM sqlite_master WHERE name = 'approvals'"
            )
        path = folder / FILE_NAME
        whole = path.read_bytes()
        path.write_bytes(whole[: (page - 1) * size] + b"\xff" * size + whole[page * size :])
        with Database.open(folder) as database, pytest.raises(StoreError, match="It is damaged"):
            database.rows(tuple[str], "SELECT granted_at FROM approvals")

    def test_a_value_of_another_type_is_damage(self, database: Database) -> None:
        with pytest.raises(StoreError, match=r"It is damaged .*Expected `int`, got `str`"):
            database.rows(tuple[int], "SELECT 'text'")

    def test_a_full_disk(self, database: Database) -> None:
        [(pages,)] = database.rows(tuple[int], "PRAGMA page_count")
        database.rows(tuple[int], f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match=r"The disk is full\. Make room"), database.writing():
            database.execute(
                "INSERT INTO approvals (tool, key, granted_at) VALUES ('tool', ?, '')", "x" * 100_000
            )
        database.rows(tuple[int], "PRAGMA max_page_count = 1000")
        with database.writing():
            assert database.execute("UPDATE approval_resets SET count = 7") == 1

    @pytest.mark.usefixtures("impatient")
    def test_a_writer_that_does_not_end(self, database: Database, folder: Path) -> None:
        with (
            Database.open(folder) as other,
            database.writing(),
            pytest.raises(StoreError, match=r"Another process .* too long"),
            other.writing(),
        ):
            pytest.fail("two at once")

    def test_changing_the_mode_is_tried_again(self) -> None:
        busy = sqlite3.OperationalError("database is locked")
        busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
        answers: list[sqlite3.OperationalError | None] = [busy, busy, None]

        class _Connection(sqlite3.Connection):
            def execute(self, *_: object) -> sqlite3.Cursor:
                answer = answers.pop(0)
                if answer is not None:
                    raise answer
                return self.cursor()

        connection = _Connection(":memory:")
        database_module._use_wal(connection)
        connection.close()
        assert answers == []

    @pytest.mark.usefixtures("impatient")
    def test_somebody_who_does_not_let_the_mode_change(self, folder: Path) -> None:
        Database.open(folder).close()
        holder = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
        try:
            holder.execute("PRAGMA journal_mode = DELETE")
            holder.execute("BEGIN EXCLUSIVE")
            with pytest.raises(StoreError, match="Another process"):
                Database.open(folder)
        finally:
            holder.close()

    def test_a_file_that_cannot_be_written(self, database: Database) -> None:
        database.rows(tuple[int], "PRAGMA query_only = ON")
        with (
            pytest.raises(StoreError, match=r"It cannot be written .* Make it and its folder writable"),
            database.writing(),
        ):
            database.execute("UPDATE approval_resets SET count = 7")

    def test_a_file_that_vanishes_while_it_is_opened(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database_module, "_prepare_file", lambda _path: None)
        with pytest.raises(StoreError, match="It cannot be written"):
            Database.open(folder)
        assert list(folder.iterdir()) == []

    def test_use_after_closing(self, folder: Path) -> None:
        database = Database.open(folder)
        database.close()
        with pytest.raises(StoreError, match="SQLite failed"):
            database.rows(tuple[int], "SELECT 1")


class TestWriting:
    def test_nothing_of_a_transaction_that_fails_is_kept(self, database: Database) -> None:
        def write() -> None:
            with database.writing():
                database.execute("UPDATE approval_resets SET count = 7")
                database.execute("NONSENSE")

        with pytest.raises(StoreError):
            write()
        assert database.rows(tuple[int], "SELECT count FROM approval_resets") == [(0,)]

    def test_others_read_while_one_writes(self, database: Database, folder: Path) -> None:
        with Database.open(folder) as other, database.writing():
            database.execute("UPDATE approval_resets SET count = 7")
            assert other.rows(tuple[int], "SELECT count FROM approval_resets") == [(0,)]

    def test_many_processes_open_a_new_file_and_write_at_once(self, folder: Path) -> None:
        program = (
            "import sys; from pathlib import Path; from dragoman.store import Database\n"
            "sys.stdin.readline()\n"
            "with Database.open(Path(sys.argv[1])) as database:\n"
            "    for _ in range(20):\n"
            "        with database.writing():\n"
            "            database.execute('UPDATE approval_resets SET count = count + 1')\n"
        )
        processes = [
            subprocess.Popen([sys.executable, "-c", program, str(folder)], stdin=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        try:
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            assert [process.wait(_DEADLINE) for process in processes] == [0, 0, 0, 0]
        finally:
            for process in processes:
                process.kill()
                process.communicate(timeout=_DEADLINE)
        with Database.open(folder) as database:
            assert database.rows(tuple[int], "SELECT count FROM approval_resets") == [(80,)]
