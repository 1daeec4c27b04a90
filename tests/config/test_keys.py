"""The keys of clients: with names or in the short form, what is wrong with them, and that they are not shown."""

from pathlib import Path

import pytest

from dragoman.config import (
    ClientKey,
    Config,
    ConfigError,
    client_keys,
    inherited,
    key_problems,
    load,
    secrets,
    webhook_secret,
)
from dragoman.config.explain import SECRET_KEYS

_TEXT = """\
[serve]
api_keys = ["$SHORT", "short-two"]

[keys.alice]
key = "$ALICE"
role = "admin"

[keys.build]
key = "build-key"
models = ["demo"]
workspaces = ["src", "other"]

[console]
webhook = "http://127.0.0.1:9/hook"
webhook_secret = "$HOOK"
"""
_ENVIRON = {"SHORT": "short-one", "ALICE": "alice-key", "HOOK": "hook-secret", "PATH": "/bin"}


def _config(tmp_path: Path, text: str = _TEXT) -> Config:
    for name in ("src", "other"):
        (tmp_path / name).mkdir(exist_ok=True)
    file = tmp_path / "dragoman.toml"
    file.write_text(text)
    return load(file)


def _told(config: Config, environ: dict[str, str], tmp_path: Path) -> list[str]:
    return [str(each).removeprefix(f"{tmp_path}/dragoman.toml:") for each in key_problems(config, environ)]


def test_keys_have_names_values_and_what_they_allow(tmp_path: Path) -> None:
    keys = client_keys(_config(tmp_path), _ENVIRON)
    assert keys == (
        ClientKey("key 1", "short-one"),
        ClientKey("key 2", "short-two"),
        ClientKey("alice", "alice-key", "admin"),
        ClientKey("build", "build-key", "user", frozenset({"demo"}), (tmp_path / "src", tmp_path / "other")),
    )
    assert len({key.connection for key in keys}) == 4
    *_, alice, build = keys
    assert (alice.allows("demo"), alice.allows("x")) == (True, True)
    assert (build.allows("demo"), build.allows("x")) == (True, False)
    # The connection is of the value alone: a key that gets a name still has its conversations.
    assert ClientKey("other", "short-one", "admin").connection == keys[0].connection


def test_an_agent_works_where_it_is_configured_to_if_the_key_allows_that(tmp_path: Path) -> None:
    *_, alice, build = client_keys(_config(tmp_path), _ENVIRON)
    deep = tmp_path / "other" / "deep"
    deep.mkdir()
    (tmp_path / "src" / "out").symlink_to(tmp_path)
    assert alice.folders(tmp_path) == ()
    assert build.folders(deep) == (str(deep),)
    assert build.folders(tmp_path / "src") == (str(tmp_path / "src"),)
    first = (str(tmp_path / "src"),)
    for outside in (tmp_path, tmp_path / "srcs", tmp_path / "src" / "..", tmp_path / "src" / "out"):
        assert build.folders(outside) == first


def test_every_problem_is_told_with_its_line_and_without_the_key(tmp_path: Path) -> None:
    config = _config(tmp_path)
    assert _told(config, _ENVIRON, tmp_path) == []
    assert _told(config, {}, tmp_path) == [
        f"{line}: the environment variable {name} is not set. Set it first, or write the value here."
        for line, name in ((2, "SHORT"), (5, "ALICE"), (15, "HOOK"))
    ]
    [blank] = _told(config, _ENVIRON | {"ALICE": " "}, tmp_path)
    assert blank.startswith("5: the environment variable ALICE is empty or blank.")
    [padded] = _told(config, _ENVIRON | {"ALICE": "padded-key "}, tmp_path)
    assert padded.startswith("5: the environment variable ALICE begins or ends with white space.")
    [unsigned] = _told(config, _ENVIRON | {"HOOK": ""}, tmp_path)
    assert unsigned.startswith('15: "webhook_secret" in [console] is blank')
    (tmp_path / "other").rmdir()
    [missing] = _told(config, _ENVIRON, tmp_path)
    assert missing == (
        f'11: "workspaces" in [keys.build]: "{tmp_path}/other" is not a folder. Make it first.'
    )
    with pytest.raises(ConfigError, match="is not a folder"):
        client_keys(config, _ENVIRON)


@pytest.mark.parametrize(
    ("environ", "line", "first"),
    [({"ALICE": "short-two"}, 5, 2), ({"ALICE": "build-key"}, 9, 5), ({"SHORT": "short-two"}, 2, 2)],
)
def test_two_keys_are_not_the_same(tmp_path: Path, environ: dict[str, str], line: int, first: int) -> None:
    [told] = _told(_config(tmp_path), _ENVIRON | environ, tmp_path)
    assert told.startswith(f"{line}: ")
    assert told.endswith(
        f"has the same value as the key at {tmp_path}/dragoman.toml:{first}. Give each client its own key."
    )
    assert all(value not in told for value in environ.values())


def test_the_webhooks_secret_is_looked_up(tmp_path: Path) -> None:
    config = _config(tmp_path)
    assert webhook_secret(config, _ENVIRON) == "hook-secret"
    assert webhook_secret(Config(), {}) is None
    for environ in ({}, {"HOOK": " "}):
        with pytest.raises(ConfigError, match=r"dragoman\.toml:15: "):
            webhook_secret(config, environ)


def test_no_key_is_shown_logged_or_inherited(tmp_path: Path) -> None:
    config = _config(tmp_path)
    values = {"short-one", "short-two", "alice-key", "build-key", "hook-secret", "http://127.0.0.1:9/hook"}
    assert secrets(config, _ENVIRON) == values
    shown = f"{config!r} {client_keys(config, _ENVIRON)!r}"
    assert not [value for value in (*values, "/hook") if value in shown]
    assert inherited(config, _ENVIRON) == {"PATH": "/bin"}
    assert {"key", "webhook", "webhook_secret"} <= SECRET_KEYS


def test_an_agent_does_not_inherit_what_an_editor_sets_for_itself() -> None:
    editors = {"ELECTRON_RUN_AS_NODE": "1", "VSCODE_PID": "7", "VSCODE_IPC_HOOK": "/run/hook"}
    assert inherited(Config(), {"PATH": "/bin", "GIT_ASKPASS": "/bin/ask", **editors}) == {
        "PATH": "/bin",
        "GIT_ASKPASS": "/bin/ask",
    }
    # The editor's script to ask for a password works only with the editor's variables.
    asking = {"GIT_ASKPASS": "/code/askpass.sh", "VSCODE_GIT_ASKPASS_MAIN": "/code/main.js"}
    assert inherited(Config(), {"PATH": "/bin", **asking}) == {"PATH": "/bin"}


def test_the_folders_of_the_server_must_exist(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('[serve]\nworkspaces = ["src", "/"]\n')
    config = load(file)
    assert config.serve.workspaces == (tmp_path / "src", Path("/"))
    [missing] = _told(config, {}, tmp_path)
    assert missing == f'2: "workspaces" in [serve]: "{tmp_path}/src" is not a folder. Make it first.'
    (tmp_path / "src").mkdir()
    assert not _told(config, {}, tmp_path)
