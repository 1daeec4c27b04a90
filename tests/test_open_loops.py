"""The check that every test closes its event loops, in a run of pytest with the project's settings and `conftest.py`."""

import shutil
import subprocess
import sys
from pathlib import Path

_TESTS = Path(__file__).parent
_SETTINGS = _TESTS.parent / "pyproject.toml"
# The run takes less than a second; a busy machine needs more.
_LIMIT_SECONDS = 60

_SUITE = """
import asyncio
import gc

import pytest

kept = []


def test_leaves_one_open():
    kept.append(asyncio.new_event_loop())


def test_leaves_one_open_and_fails():
    kept.append(asyncio.new_event_loop())
    raise AssertionError("its own error")


@pytest.fixture
def loop():
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(scope="module")
def lasting():
    made = asyncio.new_event_loop()
    yield made
    made.close()


def test_uses_a_loop_that_lasts(lasting):
    lasting.run_until_complete(asyncio.sleep(0))


def test_uses_it_again(lasting):
    lasting.run_until_complete(asyncio.sleep(0))


def test_closes_its_loops(loop):
    asyncio.run(asyncio.sleep(0))


async def test_runs_in_a_loop():
    kept.clear()
    gc.collect()
"""


def test_the_test_that_leaves_a_loop_open_fails_and_no_other(tmp_path: Path) -> None:
    shutil.copy(_TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_suite.py").write_text(_SUITE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", _SETTINGS, f"--rootdir={tmp_path}", "-rA", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_SECONDS,
    )
    summary = done.stdout.partition("short test summary info")[2].splitlines()[1:-1]
    assert {line.partition(" - ")[0] for line in summary} == {
        # The check adds an error in the teardown and does not change the result of the test.
        "PASSED test_suite.py::test_leaves_one_open",
        "ERROR test_suite.py::test_leaves_one_open",
        "FAILED test_suite.py::test_leaves_one_open_and_fails",
        "ERROR test_suite.py::test_leaves_one_open_and_fails",
        "PASSED test_suite.py::test_uses_a_loop_that_lasts",
        "PASSED test_suite.py::test_uses_it_again",
        "PASSED test_suite.py::test_closes_its_loops",
        "PASSED test_suite.py::test_runs_in_a_loop",
    }
    for name in ("test_leaves_one_open", "test_leaves_one_open_and_fails"):
        assert f"test_suite.py::{name} left event loops open (1)" in done.stdout
