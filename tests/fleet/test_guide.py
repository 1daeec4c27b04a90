"""The commands in the operator's guide, against the parser."""

import re
import shlex
from pathlib import Path

import pytest

from dragoman.cli.parser import parse

_GUIDE = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text("utf-8")
_BLOCKS = re.findall(r"^```sh\n(.*?)^```", _GUIDE, re.DOTALL | re.MULTILINE)
_LINES = [line for block in _BLOCKS for line in block.splitlines() if line.startswith("dragoman ")]
_IN_TEXT = [each for each in re.findall(r"`(dragoman [^`]+)`", _GUIDE) if "NAME" not in each]


@pytest.mark.parametrize("line", [*_LINES, *_IN_TEXT])
def test_a_command_of_the_guide_is_one(line: str) -> None:
    command, _ = parse(shlex.split(line)[1:], {})
    assert command is not None


def test_the_guide_starts_three_workers_and_two_gateways() -> None:
    started = [parse(shlex.split(line)[1:], {}) for line in _LINES]
    names = [
        (command.name, arguments.name) for command, arguments in started if command and "name" in arguments
    ]
    assert names == [
        ("worker", "worker-1"),
        ("worker", "worker-2"),
        ("worker", "worker-3"),
        ("serve", "gateway-1"),
        ("serve", "gateway-2"),
    ]
