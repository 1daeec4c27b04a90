"""What a file that came with the folder starts is agreed to once, by whoever can be asked."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.cli import chat, main
from dragoman.config import Agreed
from dragoman.config.source import Source
from dragoman.frontends.terminal import ChatOptions

_FILE = '[models.helper]\nkind = "acp"\ncommand = ["make", "me-an-agent"]\n'
_TOLD = 'dragoman.toml:1: the model "helper" starts: make me-an-agent\n'
_QUESTION = "dragoman.toml came with this folder. Is this yours to start? [y/N] "


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


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


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], io.StringIO]:
    """Somebody at a terminal who types this; what they see."""

    def at_terminal(text: str) -> io.StringIO:
        screen = _Screen()
        monkeypatch.setattr("sys.stdin", _Screen(text))
        monkeypatch.setattr("sys.stderr", screen)
        return screen

    return at_terminal


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
        "dragoman: Nothing was started. To agree to it later: dragoman trust. To use\n"
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


def test_without_a_terminal_it_is_only_said_until_somebody_has_agreed(
    chats: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", "-p", "hello"]) == 0
    assert capsys.readouterr().err == _TOLD
    assert main(["trust"]) == 2
    assert capsys.readouterr().err == (
        f"{_TOLD}dragoman: There is nobody to ask. Say --yes if this is what you want.\n"
    )
    assert main(["trust", "--yes"]) == 0
    assert capsys.readouterr() == ("Agreed, until dragoman.toml changes.\n", _TOLD)
    assert main(["chat", "-p", "hello"]) == 0
    assert main(["trust"]) == 0
    assert capsys.readouterr() == ("dragoman.toml starts nothing that has not been agreed to.\n", "")
    assert main(["trust", "--forget"]) == 0
    assert main(["trust", "--forget"]) == 0
    assert capsys.readouterr().out == "dragoman.toml is asked about again.\nThere is nothing to take back.\n"
    assert main(["chat", "-p", "hello"]) == 0
    assert capsys.readouterr().err == _TOLD
    assert chats == ["helper"] * 3


@pytest.mark.usefixtures("chats")
def test_a_person_looks_and_decides(typed: Callable[[str], io.StringIO]) -> None:
    screen = typed("no\n")
    assert main(["trust"]) == 1
    assert screen.getvalue() == f"{_TOLD}Agree to this? [y/N] Nothing was agreed to.\n"
    screen = typed("")
    assert main(["trust"]) == 1
    assert screen.getvalue() == f"{_TOLD}Agree to this? [y/N] \nNothing was agreed to.\n", "after Ctrl-D"
    typed("yes\n")
    assert main(["trust"]) == 0


@pytest.mark.usefixtures("chats")
def test_where_there_is_nothing_to_trust(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", "--config", "dragoman.toml"]) == 0
    assert capsys.readouterr().out == "dragoman.toml is trusted: it is your own, or you have named it.\n"
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
        assert "it will be asked again: " in screen.getvalue()
        screen = typed("y\n")
        assert main(["trust"]) == 1
        assert "/agreed cannot be written: " in " ".join(screen.getvalue().split())
    assert chats == ["helper"]


def test_an_agreement_is_for_a_place_and_for_what_stands_there(tmp_path: Path) -> None:
    agreements = Agreed(tmp_path / "state")
    source = Source(tmp_path / "an ünusual place/dragoman.toml", "x = 1")
    assert source not in agreements
    agreements.add(source)
    assert source in agreements
    assert Source(tmp_path / "dragoman.toml", "x = 1") not in agreements
    assert Source(source.path, "x = 2") not in agreements
    assert Source(Path(os.path.relpath(str(source.path))), "x = 1") in agreements
    assert agreements.remove(source)
    assert source not in agreements
    assert not agreements.remove(source)
