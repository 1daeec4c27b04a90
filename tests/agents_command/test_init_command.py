"""`dragoman init`: the dialogue in a real terminal, with a real agent that is installed from an archive."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agents_command import packages
from dragoman.agents.installed import InstalledAgents
from dragoman.cli import main
from own_home import configure
from terminal_screen import Terminal

_TABLE = '[models.packaged]\nkind = "acp"\nagent = "packaged"\nname = "Packaged agent"\n'
_HELLO = r"^Hello from the package\.$"


@pytest.fixture
def file(home: Path) -> Path:
    return home / ".config/dragoman/dragoman.toml"


@pytest.fixture
def account(home: Path) -> Path:
    """The file that a login leaves behind."""
    return home / "account"


def _offer(home: Path, **options: Any) -> None:
    path = packages.archive(home, "1.0.0")
    distribution = packages.binary(path, {"version": "1.0.0", **options}, packages.sha256(path))
    registry = packages.registry(home / "registry.json", packages.entry("1.0.0", distribution))
    assert main(["agents", "list", "--refresh", str(registry)]) == 0


def _is_installed(home: Path) -> bool:
    return InstalledAgents(home / ".local/state/dragoman").find("packaged") is not None


@contextmanager
def _init(home: Path, *words: str, columns: int = 100) -> Iterator[Terminal]:
    environment = {"HOME": str(home)}
    with Terminal(
        "-m", "dragoman", "init", *words, cwd=home / "work", environment=environment, columns=columns
    ) as terminal:
        yield terminal


@pytest.mark.parametrize("columns", [pytest.param(60, marks=pytest.mark.long), 100])
def test_from_an_empty_home_to_a_model_that_answers(home: Path, file: Path, columns: int) -> None:
    _offer(home)
    with _init(home, columns=columns) as terminal:
        terminal.wait_for(r"^1 +demo +Demo agent")
        terminal.wait_for(r"^Number or id \[1, demo\]: *$")
        terminal.enter("packed")
        terminal.wait_for(r'Did you mean\s"packaged"')
        terminal.enter("packaged")
        terminal.wait_for(r"Install it\? \[y/N\] *$")
        terminal.enter("y")
        terminal.wait_for(r"^Packaged agent 1\.0\.0 is installed\.$")
        terminal.wait_for(r"^Packaged agent starts, and opens a session\.$")
        terminal.wait_for(_HELLO)
        terminal.wait_for(r"^Write it\? \[Y/n\] *$")
        assert _TABLE in terminal.text + "\n"
        assert not file.exists()
        terminal.enter("")
        assert terminal.wait_end() == 0
        assert terminal.text.endswith("Next: dragoman chat packaged")
    assert file.read_text() == _TABLE


def test_what_is_installed_comes_first_and_nothing_is_replaced(home: Path, file: Path) -> None:
    _offer(home)
    assert main(["agents", "add", "packaged", "--name", "mine", "--yes"]) == 0
    before = file.read_text()
    with _init(home, columns=900) as terminal:
        terminal.wait_for(r"^1 +packaged +Packaged agent +installed \(1\.0\.0\)")
        terminal.enter("")
        terminal.wait_for(_HELLO)
        assert terminal.wait_end() == 0
        assert (
            f"{file}:1: the model mine starts Packaged agent already. Nothing was written." in terminal.text
        )
    assert file.read_text() == before


def test_a_name_that_is_taken_is_refused_before_anything_is_installed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _offer(home)
    configure('[models.packaged]\nkind = "acp"\ncommand = ["something-else"]\n')
    assert main(["init", "--agent", "packaged", "--yes"]) == 2
    assert 'there is a model "packaged" already. Choose another name with --name.' in capsys.readouterr().err
    assert not _is_installed(home)


_TERMINAL_LOGIN = {"id": "account", "name": "An account", "type": "terminal", "args": ["login"]}
_OTHER_LOGIN = {
    "id": "other",
    "name": "Another",
    "_meta": {"terminal-auth": {"command": "false", "args": []}},
}


@pytest.mark.parametrize("refused", ["session/new", pytest.param("session/prompt", marks=pytest.mark.long)])
def test_a_missing_login_is_offered_by_the_agents_own_command(
    home: Path, file: Path, account: Path, refused: str
) -> None:
    """Also where the agent opens a session without it, and refuses the first prompt."""
    _offer(home, account=str(account), methods=[_TERMINAL_LOGIN], refused=refused)
    with _init(home, "--agent", "packaged", columns=900) as terminal:
        terminal.wait_for(r"Install it\? \[y/N\] *$")
        terminal.enter("y")
        terminal.wait_for(r"^Packaged agent requires a login: Authentication required\.$")
        terminal.wait_for(r"^    \S+/bin/agent '\{.*\}' login$")
        terminal.wait_for(r"^Run it\? \[y/N\] *$")
        assert not account.exists()
        terminal.enter("y")
        terminal.wait_for(r"^Your name: *$")
        terminal.enter("me")
        terminal.wait_for(r"^You are logged in\.$")
        terminal.wait_for(_HELLO)
        terminal.wait_for(r"^Write it\? \[Y/n\] *$")
        terminal.enter("y")
        assert terminal.wait_end() == 0
    assert file.read_text() == _TABLE


@pytest.mark.long
def test_a_login_that_fails_is_offered_again(home: Path, account: Path) -> None:
    _offer(home, account=str(account), methods=[_OTHER_LOGIN, _TERMINAL_LOGIN])
    with _init(home, "--agent", "packaged", columns=900) as terminal:
        terminal.wait_for(r"Install it\? \[y/N\] *$")
        terminal.enter("y")
        terminal.wait_for(r"^  1  Another\n    false\n  2  An account\n    \S+ '\{.*\}' login$")
        terminal.enter("1")
        terminal.wait_for(r"^The login ended with status 1\.$")
        terminal.wait_for(r"^Which one\?", times=2)
        terminal.enter("")
        terminal.wait_for(r"^Write the configuration all the same\? \[y/N\] *$")
        terminal.enter("")
        assert terminal.wait_end() == 1


def test_a_way_that_the_agent_goes_alone_is_written_as_auth(home: Path, file: Path, account: Path) -> None:
    _offer(
        home, account=str(account), methods=[{"id": "web", "name": "The web", "description": "In a browser"}]
    )
    with _init(home, "--agent", "packaged") as terminal:
        terminal.wait_for(r"Install it\? \[y/N\] *$")
        terminal.enter("y")
        terminal.wait_for(r"^  1  The web: In a browser$")
        terminal.enter("1")
        terminal.wait_for(_HELLO)
        terminal.wait_for(r"^Write it\? \[Y/n\] *$")
        terminal.enter("y")
        assert terminal.wait_end() == 0
    assert account.exists()
    assert file.read_text() == f'{_TABLE}auth = "web"\n'


@pytest.mark.long
def test_an_agent_that_names_no_way_to_log_in_waits_for_one_elsewhere(
    home: Path, file: Path, account: Path
) -> None:
    ways = [{"id": "key", "name": "KEY", "type": "env_var", "vars": [{"name": "KEY"}]}]
    _offer(home, account=str(account), methods=ways)
    with _init(home, "--agent", "packaged", columns=900) as terminal:
        terminal.wait_for(r"Install it\? \[y/N\] *$")
        terminal.enter("y")
        terminal.wait_for("→ Log in with the agent's own program")
        terminal.wait_for(r"Have you done so\? \[y/N\] *$")
        account.touch()
        terminal.enter("y")
        terminal.wait_for(_HELLO)
        terminal.wait_for(r"^Write it\? \[Y/n\] *$")
        terminal.enter("y")
        assert terminal.wait_end() == 0
    assert file.read_text() == _TABLE


def test_an_agent_that_does_not_answer_is_written_only_on_request(home: Path, file: Path) -> None:
    _offer(home, fails=[-32603, "no more today"])
    with _init(home, "--agent", "packaged", columns=900) as terminal:
        terminal.wait_for(r"Install it\? \[y/N\] *$")
        terminal.enter("y")
        terminal.wait_for("^The test failed: .*no more today")
        terminal.wait_for(r"^Write the configuration all the same\? \[y/N\] *$")
        terminal.enter("y")
        terminal.wait_for(r"^Write it\? \[Y/n\] *$")
        terminal.enter("y")
        assert terminal.wait_end() == 0
    assert file.read_text() == _TABLE


@pytest.mark.parametrize("step", ["Number or id", r"Install it\?", r"Write it\?"])
def test_after_ctrl_c_at_any_question_nothing_is_written(home: Path, file: Path, step: str) -> None:
    _offer(home)
    file.parent.mkdir(parents=True)
    file.write_text("[loop]\nturns = 3\n")
    with _init(home) as terminal:
        for question, answer in (("Number or id", "packaged"), (r"Install it\?", "y"), (r"Write it\?", "")):
            terminal.wait_for(f"^{question}")
            if question == step:
                terminal.type("\x03")
                break
            terminal.enter(answer)
        assert terminal.wait_end() == 130
        assert "No configuration was written." in terminal.text
        was_installed = step == r"Write it\?"
        assert ("Packaged agent stays installed." in terminal.text) is was_installed
    assert file.read_text() == "[loop]\nturns = 3\n"
    assert _is_installed(home) is was_installed


def test_ctrl_d_and_a_no_write_nothing(home: Path, file: Path) -> None:
    _offer(home)
    with _init(home) as terminal:
        terminal.wait_for("^Number or id")
        terminal.type("\x04")
        assert terminal.wait_end() == 1
        assert "No agent was chosen." in terminal.text
    with _init(home, "--agent", "packaged") as terminal:
        terminal.wait_for(r"^Install it\?")
        terminal.enter("")
        assert terminal.wait_end() == 1
    assert not file.exists()
    assert not _is_installed(home)
    for typed in ("n\n", "maybe\n", "\x04"):
        with _init(home, "--agent", "demo") as terminal:
            terminal.wait_for(r"^Write it\?")
            terminal.type(typed)
            assert terminal.wait_end() == 1
            assert "No configuration was written." in terminal.text
        assert not file.exists()


def test_without_a_terminal_it_needs_explicit_options(
    home: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _offer(home)
    for words in ([], ["--agent", "packaged"], ["--yes"]):
        capsys.readouterr()
        assert main(["init", *words]) == 2
        assert "--agent ID" in capsys.readouterr().err
    file.parent.mkdir(parents=True)
    file.write_text("# Mine.\n[loop]\nturns = 3\n")
    assert main(["init", "--agent", "packaged", "--name", "work", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert "Hello from the package." in shown
    assert file.read_text() == f"# Mine.\n[loop]\nturns = 3\n\n{_TABLE.replace('.packaged]', '.work]')}"
    assert tomllib.loads(file.read_text())["models"]["work"]["agent"] == "packaged"


def test_without_a_terminal_an_agent_that_does_not_answer_is_not_written(
    home: Path, file: Path, account: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _offer(home, account=str(account), methods=[_TERMINAL_LOGIN])
    assert main(["init", "--agent", "packaged", "--yes"]) == 1
    told = capsys.readouterr().err
    assert "Packaged agent requires a login: Authentication required." in told
    assert "Packaged agent stays installed. To remove it: dragoman agents remove packaged" in told
    assert not file.exists()
    assert main(["init", "--agent", "packaged", "--yes", "--no-test"]) == 0
    assert file.read_text() == _TABLE
