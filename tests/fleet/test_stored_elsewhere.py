"""Commands that read the state folder, on a node of a fleet: they say where the rest is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli import main

_TABLE = '[fleet]\nurl = "nats://nats.example:4222"\n'


@pytest.mark.parametrize(
    ("words", "what"), [(["conversations"], "conversations"), (["approvals", "history"], "decisions")]
)
@pytest.mark.parametrize("table", [_TABLE, ""])
def test_on_a_node_a_command_says_that_the_fleet_stores_what_it_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], what: str, table: str
) -> None:
    config = tmp_path / "dragoman.toml"
    config.write_text(table)
    assert main(["--config", str(config), "--state-dir", str(tmp_path / "state"), *words]) == 0
    said = capsys.readouterr().err
    assert (f"the {what} of the fleet at nats://nats.example:4222" in said) == bool(table)
    assert ("console of a gateway" in said) == bool(table)
