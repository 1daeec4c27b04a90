"""Which file is read, and where state is kept."""

from pathlib import Path

import pytest

from dragoman.config import config_file, state_folder, user_config_file


@pytest.fixture(autouse=True)
def _linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.chdir(tmp_path)


def _write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def test_the_option_comes_first_then_the_variable_then_the_user(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home")}
    assert config_file(None, home) is None
    users = _write(tmp_path / "home/.config/dragoman/dragoman.toml")
    assert config_file(None, home) == users
    # The one in the current folder is another layer.
    _write(tmp_path / "dragoman.toml")
    assert config_file(None, home) == users
    # What is named is used, also when it is not there: reading it then says so.
    assert config_file(None, home | {"DRAGOMAN_CONFIG": "named.toml"}) == Path("named.toml")
    assert config_file(Path("option.toml"), home | {"DRAGOMAN_CONFIG": "named.toml"}) == Path("option.toml")


def test_an_empty_variable_is_none(tmp_path: Path) -> None:
    assert config_file(None, {"HOME": str(tmp_path), "DRAGOMAN_CONFIG": ""}) is None
    assert state_folder(None, {"HOME": "/h", "DRAGOMAN_STATE_DIR": ""}) == Path("/h/.local/state/dragoman")


def test_state_is_where_the_option_or_the_variable_says(tmp_path: Path) -> None:
    assert state_folder(Path("here"), {"DRAGOMAN_STATE_DIR": "/there"}) == tmp_path / "here"
    assert state_folder(None, {"DRAGOMAN_STATE_DIR": "/there"}) == Path("/there")


def test_folders_of_the_desktop_specification() -> None:
    environ = {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}
    assert user_config_file(environ) == Path("/c/dragoman/dragoman.toml")
    assert state_folder(None, environ) == Path("/s/dragoman")
    # A relative path there is to be ignored.
    relative = {"HOME": "/h", "XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": "."}
    assert user_config_file(relative) == Path("/h/.config/dragoman/dragoman.toml")
    assert state_folder(None, relative) == Path("/h/.local/state/dragoman")


def test_folders_of_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    environ = {"HOME": "/h", "XDG_STATE_HOME": "/s"}
    assert user_config_file(environ) == Path("/h/Library/Application Support/dragoman/dragoman.toml")
    assert state_folder(None, environ) == Path("/h/Library/Application Support/dragoman")


def test_without_a_home_variable_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda _path: "/asked")
    assert user_config_file({}) == Path("/asked/.config/dragoman/dragoman.toml")
