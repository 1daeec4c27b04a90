"""The pages of `docs/reference` are what the code says today."""

import re

import pytest

from dragoman.checker.event_rules import EVENT_RULES
from dragoman.cli.parser import parsers
from dragoman.config import Config
from dragoman.config.explain import complaints
from dragoman.config.schema import Tables
from dragoman.frontends.vscode.server import VsCodeServer
from dragoman.lm.rules import RULES
from dragoman.models import Models
from reference.markdown import table
from reference.pages import FOLDER, PAGES
from reference.protocol import REQUESTS


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    """If this fails: `make reference`."""
    assert (FOLDER / name).read_text("utf-8") == PAGES[name]()


def test_no_page_is_left_behind() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


def test_every_option_of_every_command_is_told() -> None:
    page = PAGES["commands.md"]()
    sections = dict(re.findall(r"^## dragoman ([\w-]+)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    for command, parser in parsers():
        if command is None:
            continue
        own = {option for action in parser._actions for option in action.option_strings}
        own -= {"-h", "--help", "--config", "--state-dir", "--log-level", "--log-file", "--record"}
        told = set(re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", sections[command.name]))
        assert own <= told, command.name


def test_every_rule_is_told_in_its_own_row() -> None:
    rows = re.findall(r"^\| (\S+) \| ", PAGES["rules.md"](), re.MULTILINE)
    assert [row for row in rows if row != "id"] == [*RULES, *EVENT_RULES]


def test_every_key_that_is_told_is_one() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", PAGES["configuration.md"](), re.MULTILINE))
    unknown = dict.fromkeys(told, "?")
    tables = dict.fromkeys(
        ("conversation", "journal", "tools", "chat", "loop", "serve", "console", "fleet"), unknown
    )
    models = {kind: {"kind": kind, **unknown} for kind in ("acp", "script", "responses", "fleet")}
    several = {"policy": [unknown], "keys": {"name": unknown}}
    everything = {**tables, **several, "models": models}
    known_to_all = [text for _, text in complaints(everything) if "unknown key" in text]
    # Each key belongs to one table at least: in the others it is unknown.
    for key in told:
        places = len(tables) + len(several) + len(models)
        assert sum(f'unknown key "{key}"' in text for text in known_to_all) < places, key
    assert set(Tables.__struct_fields__) == {"models", *several, *tables}


def test_every_method_of_the_server_is_told() -> None:
    server = VsCodeServer(Models(Config()))
    assert {method.name for method in REQUESTS} == {"initialize", *server._handlers}


def test_a_border_in_a_cell_is_escaped() -> None:
    assert table(("a", ""), [("x|y", "")]) == "| a | |\n|---|---|\n| x\\|y | |"
