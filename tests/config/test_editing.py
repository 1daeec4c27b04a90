"""Changing a file that a person has written: one table more or less, and everything else as it was."""

import stat
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from dragoman.config import ConfigError, load
from dragoman.config.editing import (
    add_rules,
    set_chat_value,
    with_chat_value,
    with_model,
    without_model,
    write,
)

_FILE = Path("dragoman.toml")
_VALUES = {"kind": "acp", "agent": "claude"}
_TABLE = '[models.claude]\nkind = "acp"\nagent = "claude"\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", _TABLE),
        ("# Mine.\n", f"# Mine.\n\n{_TABLE}"),
        ("[loop]\nturns = 3", f"[loop]\nturns = 3\n\n{_TABLE}"),
        ('[models.a]\nkind = "acp" # one\n', f'[models.a]\nkind = "acp" # one\n\n{_TABLE}'),
        ("[loop]\r\nturns = 3\r\n", f"[loop]\r\nturns = 3\r\n\n{_TABLE}"),
    ],
)
def test_a_table_is_added_behind_everything_and_taken_away_again(before: str, after: str) -> None:
    assert with_model(_FILE, before, "claude", _VALUES) == after
    assert without_model(_FILE, after, "claude").rstrip("\n") == before.rstrip("\n")


def test_a_table_is_replaced_in_its_place() -> None:
    before = (
        "# First.\n[models.claude] # old\n"
        'command = ["x"]\n# inside\n[models.claude.env]\nA = "b"\n\n# Of the loop.\n[loop]\nturns = 3\n'
    )
    after = f"# First.\n{_TABLE}\n# Of the loop.\n[loop]\nturns = 3\n"
    assert with_model(_FILE, before, "claude", _VALUES) == after


@pytest.mark.parametrize(
    "text",
    [
        'models = { claude = { kind = "acp", command = ["x"] } }\n',
        'models.claude.kind = "acp"\nmodels.claude.agent = "claude"\n',
        '[models]\nclaude = { kind = "acp", agent = "claude" }\n',
    ],
)
def test_a_form_that_cannot_be_changed_is_left_to_the_person(text: str) -> None:
    with pytest.raises(ConfigError, match="by hand"):
        without_model(_FILE, text, "claude")


def test_a_table_that_cannot_be_added_is_shown() -> None:
    with pytest.raises(ConfigError, match=r"Add it by hand:\n\[models\.claude\]"):
        with_model(_FILE, "models = {}\n", "claude", _VALUES)


def test_a_table_is_not_cut_in_half_by_what_only_looks_like_a_header() -> None:
    text = f'[loop]\nturns = 3\n{_TABLE}name = """\n[loop]\n[models.x]\n"""\n[tools]\nlimit = 5\n'
    with pytest.raises(ConfigError, match=r"Remove \[models\.claude\] by hand"):
        without_model(_FILE, text, "claude")


_LINES = st.lists(
    st.sampled_from(
        [
            "# A comment.",
            "",
            "[loop]\nturns = 3",
            '[models.a]\nkind = "acp"\ncommand = [\n  "x", # y\n]',
            '[models."a.b"]\nkind = "script"\npath = "p"',
            '[models.a.env]\nA = "[models.claude]"',
            "[tools]\nlimit = 5",
            '[[extra]]\nx = """\n[loop]\n"""',
        ]
    ),
    unique=True,
)


@given(_LINES, st.booleans())
def test_whatever_the_file_nothing_else_changes(lines: list[str], ends: bool) -> None:  # noqa: FBT001 - drawn
    before = "\n".join(lines) + ("\n" if ends else "")
    try:
        says = tomllib.loads(before)
    except tomllib.TOMLDecodeError:
        return
    after = with_model(_FILE, before, "claude", _VALUES)
    assert after.startswith(before)
    assert tomllib.loads(after) == says | {"models": {**says.get("models", {}), "claude": _VALUES}}
    back = without_model(_FILE, after, "claude")
    assert back.rstrip("\n") == before.rstrip("\n")


def test_a_file_stays_as_private_as_it_was_and_a_link_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "link.toml"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write(link, "new")
    assert (link.is_symlink(), real.read_text()) == (True, "new")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    write(tmp_path / "deep" / "er.toml", "x")
    assert stat.S_IMODE((tmp_path / "deep" / "er.toml").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "link.toml", "real.toml"]


def test_processes_that_add_rules_at_once_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text("# mine\n")

    def add(number: int) -> None:
        add_rules(path, f'[[policy]]\ndecision = "deny"\ntools = ["tool-{number}"]\n')

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(40)))
    rules = tomllib.loads(path.read_text())["policy"]
    assert sorted(rule["tools"][0] for rule in rules) == sorted(f"tool-{number}" for number in range(40))
    assert path.read_text().startswith("# mine\n")


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        add_rules(tmp_path / "file" / "dragoman.toml", '[[policy]]\ndecision = "ask"\n')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[chat]\nmodel = "a"\n'),
        ("# mine\n[loop]\nturns = 3", '# mine\n[loop]\nturns = 3\n\n[chat]\nmodel = "a"\n'),
        ('[chat] # here\nmodel = "b" # old\n\n[loop]\n', '[chat] # here\nmodel = "a"\n\n[loop]\n'),
        ('[chat]\ntools_off = ["x"]\n', '[chat]\nmodel = "a"\ntools_off = ["x"]\n'),
        ("[chat]", '[chat]\nmodel = "a"\n'),
    ],
)
def test_a_value_of_the_chat_is_written_where_it_belongs(before: str, after: str) -> None:
    assert with_chat_value(_FILE, before, "model", "a") == after


def test_a_value_that_is_none_or_empty_is_removed() -> None:
    text = '[chat]\nmodel = "a"\ntools_off = ["x", "y"]\n# mine\n'
    assert with_chat_value(_FILE, text, "model", None) == '[chat]\ntools_off = ["x", "y"]\n# mine\n'
    assert with_chat_value(_FILE, text, "tools_off", ()) == '[chat]\nmodel = "a"\n# mine\n'
    assert with_chat_value(_FILE, "", "model", None) == ""


@pytest.mark.parametrize(
    "text", ['chat = { model = "b" }\n', 'chat.model = "b"\n', '[chat]\ntools_off = [\n "x",\n]\n']
)
def test_a_form_that_cannot_be_changed_is_left_alone(text: str) -> None:
    key = "tools_off" if "tools_off" in text else "model"
    with pytest.raises(ConfigError, match="Write it by hand"):
        with_chat_value(_FILE, text, key, "a" if key == "model" else ("a",))


def test_a_file_with_a_mistake_is_not_written_to(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("[loop]\nturn = 3\n")
    with pytest.raises(ConfigError, match="turn"):
        set_chat_value(file, "tools_off", ("x",))
    file.write_text("")
    with pytest.raises(ConfigError, match="there is no model"):
        set_chat_value(file, "model", "nobody")
    assert file.read_text() == ""
    set_chat_value(tmp_path / "new" / "dragoman.toml", "model", "demo")
    assert load(tmp_path / "new" / "dragoman.toml").chat_model == "demo"


def test_a_model_that_is_removed_is_not_what_chats_begin_with() -> None:
    text = f'{_TABLE}\n[chat]\nmodel = "claude"\ntools_off = ["x"]\n'
    assert without_model(_FILE, text, "claude").lstrip() == '[chat]\ntools_off = ["x"]\n'
