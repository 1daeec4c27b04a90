"""What a file that came with the folder starts is agreed to once, by whoever can be asked."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.cli import chat, main
from dragoman.frontends.terminal.entry import ChatOptions

_FILE = '[models.helper]\nkind = "acp"\ncommand = ["make", "me-an-agent"]\n'
_TOLD = 'dragoman.toml:1: the model "helper" starts: make me-an-agent. It gets all\nenvironment variables\n'
_QUESTION = "dragoman.toml came with this folder. Do you trust it with this? [y/N] "
_UNTRUSTED = (
    'dragoman: The model "helper" is defined by a dragoman.toml that came with the folder and is not trusted. Run '
    "`dragoman trust` in that folder. Or name the file: --config, in VS Code dragoman.configuration.\n"
)


@pytest.fixture
def chats(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that a chat was begun with."""
    begun: list[str] = []

    def run_chat(options: ChatOptions) -> int:
        begun.append(options.model)
        return 0

    monkeypatch.setattr(chat, "run_chat", run_chat)
    Path("dragoman.toml").write_text(_FILE)
    return begun


def test_whoever_agrees_is_asked_once_and_again_when_the_file_has_changed(
    chats: list[str], typed: Callable[[str], io.StringIO]
) -> None:
    screen = typed("y\n")
    assert main(["chat"]) == 0
    assert screen.getvalue() == _TOLD + _QUESTION
    screen = typed("")
    assert main(["chat"]) == 0
    assert screen.getvalue() == ""
    Path("dragoman.toml").write_text(_FILE.replace("make", "fake"))
    screen = typed("\n")
    assert main(["chat"]) == 2
    assert "starts: fake me-an-agent" in screen.getvalue()
    assert screen.getvalue().endswith(
        "dragoman: Nothing was started. To trust the file later: dragoman trust. To use\n"
        "another file: --config FILE.\n"
    )
    assert chats == ["helper", "helper"]


def test_a_model_that_is_not_of_the_file_needs_no_agreement(
    chats: list[str], typed: Callable[[str], io.StringIO]
) -> None:
    screen = typed("")
    assert main(["chat", "demo"]) == 0
    assert main(["chat", "--config", "dragoman.toml"]) == 0
    assert main(["completion", "models"]) == 0
    assert main(["agents"]) == 0
    assert main(["doctor"]) == 0
    assert chats == ["demo", "helper"]
    assert screen.getvalue() == ""


def test_without_a_terminal_nothing_is_started_until_somebody_has_agreed(
    chats: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    told = _TOLD.replace("all\nenv", "all env")
    assert main(["chat", "-p", "hello"]) == 2
    assert capsys.readouterr().err == _UNTRUSTED
    assert main(["trust"]) == 2
    assert capsys.readouterr().err == (
        f"{told}dragoman: There is no terminal to ask at. Say --yes if this is what you want.\n"
    )
    assert main(["trust", "--yes"]) == 0
    assert capsys.readouterr() == ("dragoman.toml is trusted until it changes.\n", told)
    assert main(["chat", "-p", "hello"]) == 0
    assert main(["trust"]) == 0
    assert capsys.readouterr() == ("dragoman.toml is trusted already.\n", "")
    assert main(["trust", "--forget"]) == 0
    assert main(["trust", "--forget"]) == 0
    assert capsys.readouterr().out == "dragoman.toml is no longer trusted.\nThere is nothing to take back.\n"
    assert main(["chat", "-p", "hello"]) == 2
    assert capsys.readouterr().err == _UNTRUSTED
    assert chats == ["helper"]


def test_a_model_of_the_users_that_is_removed_does_not_make_way_for_one_that_was_not_shown(
    chats: list[str], home: Path
) -> None:
    own = home / ".config/dragoman/dragoman.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[models.mine]\nkind = "acp"\ncommand = ["mine"]\n')
    Path("dragoman.toml").write_text(_FILE + '[models.mine]\nkind = "acp"\ncommand = ["theirs"]\n')
    assert main(["trust", "--yes"]) == 0
    assert main(["chat", "-p", "hello"]) == 0
    assert main(["chat", "helper", "-p", "hello"]) == 0
    own.unlink()
    assert main(["chat", "mine", "-p", "hello"]) == 2
    assert chats == ["mine", "helper"]


@pytest.mark.usefixtures("chats")
def test_a_person_looks_and_decides(typed: Callable[[str], io.StringIO]) -> None:
    screen = typed("no\n")
    assert main(["trust"]) == 1
    assert screen.getvalue() == f"{_TOLD}Trust the file with this? [y/N] The file is not trusted.\n"
    screen = typed("")
    assert main(["trust"]) == 1
    assert screen.getvalue() == f"{_TOLD}Trust the file with this? [y/N] \nThe file is not trusted.\n", (
        "after Ctrl-D"
    )
    typed("yes\n")
    assert main(["trust"]) == 0


@pytest.mark.usefixtures("chats")
def test_where_there_is_nothing_to_trust(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", "--config", "dragoman.toml"]) == 0
    assert capsys.readouterr().out == "dragoman.toml is trusted: it is your own, or you have named it.\n"
    Path("dragoman.toml").write_text("")
    assert main(["trust"]) == 0
    assert capsys.readouterr().out == "dragoman.toml starts nothing.\n"
    Path("dragoman.toml").unlink()
    assert main(["trust"]) == 2
    assert capsys.readouterr().err == "dragoman: There is no dragoman.toml in this folder.\n"


@contextmanager
def _unwritable(folder: Path) -> Iterator[None]:
    # Nobody can make a folder where a file is, not even root.
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("")
    yield
    folder.unlink()


def test_an_agreement_that_cannot_be_kept_holds_this_once(
    chats: list[str], home: Path, typed: Callable[[str], io.StringIO]
) -> None:
    with _unwritable(home / ".local/state/dragoman/agreed"):
        screen = typed("y\n")
        assert main(["chat"]) == 0
        assert "you will be asked again: " in screen.getvalue()
        screen = typed("y\n")
        assert main(["trust"]) == 1
        assert "/agreed cannot be written: " in " ".join(screen.getvalue().split())
    assert chats == ["helper"]
