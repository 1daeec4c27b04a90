"""A program as a client, whatever the test run itself has made of its signals."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.programs.process import Program

_TELLS = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"


@pytest.fixture
def ignored() -> Iterator[None]:
    """As in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignored")
async def test_a_program_takes_ctrl_c_also_if_the_test_run_ignores_it(tmp_path: Path) -> None:
    assert (await Program(tmp_path).execute(sys.executable, "-c", _TELLS)).out == "True\n"
