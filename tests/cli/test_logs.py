"""One line a record, private, and without secrets."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.logs import Redaction, logging_to, one_line

_log = logging.getLogger("dragoman.test")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.raiseExceptions)
    yield
    assert (root.level, root.handlers, logging.raiseExceptions) == before


def test_quiet_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(None, "warning"):
        _log.info("not this")
        _log.warning("but %s", "this")
    shown = capsys.readouterr()
    assert shown.out == ""
    [line] = shown.err.splitlines()
    date, time, rest = line.split(" ", 2)
    assert (len(date), len(time)) == (10, 12)
    assert rest == "WARNING dragoman.test: but this"


def test_a_file_only_its_owner_can_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.log"
    before = os.umask(0)
    try:
        with logging_to(file, "info"):
            _log.info("one")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    with logging_to(file, "info"):
        _log.info("two")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [line.rpartition(" ")[2] for line in file.read_text().splitlines()] == ["one", "two"]
    assert capsys.readouterr().err == ""


def test_what_is_no_regular_file_keeps_its_mode(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o644)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with logging_to(pipe, "info"):
            _log.info("through the pipe")
        assert b"through the pipe" in os.read(reading, 1000)
    finally:
        os.close(reading)
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o644


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"), logging_to(tmp_path / "none" / "run.log", "info"):
        pass


def test_a_record_is_one_line_and_obeyed_by_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(None, "warning"):
        _log.warning("a\nb\x1b[2J\x9b\u202e é")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("a\\nb\\x1b[2J\\x9b\\u202e é")
    assert one_line("plain é") == "plain é"


def _fail(message: str = "two\nlines") -> None:
    def inner() -> None:
        raise ValueError(message)

    try:
        inner()
    except ValueError:
        _log.exception("it failed")


def test_a_person_sees_the_error_without_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(None, "warning"):
        _fail()
        _log.error("nothing wrong", exc_info=(None, None, None))
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("ERROR dragoman.test: it failed (ValueError: two\\nlines)")
    assert second.endswith("ERROR dragoman.test: nothing wrong")


def test_the_traceback_is_there_for_who_asks_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_to(None, "debug"):
        _fail()
    with logging_to(tmp_path / "run.log", "warning"):
        _fail()
    for text in (capsys.readouterr().err, (tmp_path / "run.log").read_text()):
        first, *rest = text.splitlines()
        assert first.endswith("it failed")
        assert rest[0] == "  Traceback (most recent call last):"
        assert all(line.startswith("  ") for line in rest)


def test_secrets_are_taken_out_of_messages_arguments_and_tracebacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logging_to(None, "debug") as redaction:
        redaction.add(["sekret-1", "sekret-1-long"])
        redaction.add(["other-secret"])
        _log.warning("key %s in %s", "sekret-1", {"key": "other-secret"})
        _log.warning("sekret-1-long")
        _fail("sekret-1")
    shown = capsys.readouterr().err
    assert "sekret" not in shown
    assert "other-secret" not in shown
    lines = shown.splitlines()
    assert lines[0].endswith("key [redacted] in {'key': '[redacted]'}")
    # The longer one whole, not the rest of it.
    assert lines[1].endswith("test: [redacted]")


def test_a_secret_of_several_lines_is_taken_out_however_it_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = "-----BEGIN KEY-----\nMIIE\\'vQ\x1b\n-----END KEY-----\n"
    with logging_to(None, "debug") as redaction:
        redaction.add([key])
        _log.warning("key %s in %s", key, {"key": key})
        _fail(key)
    shown = capsys.readouterr().err
    assert "MIIE" not in shown
    assert shown.count("[redacted]") == 3


def test_a_value_too_short_to_be_a_secret_stays() -> None:
    redaction = Redaction()
    redaction.add(["", "1", "true"])
    assert redaction.redacted("1 is true") == "1 is true"


def test_a_record_that_cannot_be_formatted_is_not_for_a_user_to_see(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logging_to(None, "warning"):
        _log.warning("%d", "no number")
        _log.warning("and on")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("and on")
