"""Commands that read the state folder, on a node of a fleet: what the fleet stores is read there, or they say where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli import main
from nats_servers import free_port


def _main(folder: Path, table: str, *words: str) -> int:
    config = folder / "dragoman.toml"
    config.write_text(table)
    return main(["--config", str(config), "--state-dir", str(folder / "state"), *words])


@pytest.mark.parametrize("table", ['[fleet]\nurl = "nats://nats.example:4222"\n', ""])
def test_on_a_node_the_list_of_conversations_says_where_those_of_the_fleet_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    assert _main(tmp_path, table, "conversations") == 0
    said = capsys.readouterr().err
    assert ("the conversations of the fleet at nats://nats.example:4222" in said) == bool(table)
    assert ("console of a gateway" in said) == bool(table)


@pytest.mark.parametrize("words", [("approvals", "history"), ("policy", "suggest")])
def test_a_history_without_the_decisions_of_the_fleet_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    assert _main(tmp_path, f'[fleet]\nurl = "{url}"\n', *words) == 1
    assert f"decisions of the fleet at {url} cannot be read" in capsys.readouterr().err
    assert _main(tmp_path, "", *words) == 0
