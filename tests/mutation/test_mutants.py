"""`make mutants` can be run at all: it takes an hour, and so is run by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = Path(__file__).with_name("mutants.py")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, str(_PROGRAM), *arguments), capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("named", "modules"), [((), {"identify", "machine"}), (("machine",), {"machine"})], ids=["none", "one"]
)
def test_the_mutants_of_the_modules_that_are_named_or_of_all(
    named: tuple[str, ...], modules: set[str]
) -> None:
    listed = _run(*named, "--list", "--quick")
    assert listed.returncode == 0, listed.stderr
    lines = listed.stdout.splitlines()
    assert len(lines) == 3 * len(modules)
    assert {line.split()[1].partition(":")[0] for line in lines} == modules


def test_a_module_without_tests_is_refused() -> None:
    refused = _run("nothing", "--list")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "there are no tests for nothing" in refused.stderr
