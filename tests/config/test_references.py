"""Values that stand in the environment: found when a model is used, told when they are missing, never logged."""

import sys
from pathlib import Path

import pytest

from dragoman.config import (
    AcpModel,
    Config,
    ConfigError,
    ResponsesModel,
    ScriptModel,
    Serve,
    client_keys,
    key_problems,
    load,
    resolved,
    secrets,
)

_TEXT = """\
[models.agent]
kind = "acp"
command = ["dragoman", "demo-agent"]
env = { API_KEY = "$AGENT_KEY", LEVEL = "debug", "PASSWORD" = "plain-password", HALF = "$5 and more" }

[models.gateway]
kind = "responses"
base_url = "http://127.0.0.1:8000/v1"
model = "m"
api_key = "$GATEWAY_KEY"

[models.open]
kind = "responses"
base_url = "http://127.0.0.1:8000/v1"
model = "m"

[models.tool]
kind = "acp"
command = ["./bin/agent", "./argument"]
[models.tool.env]
A = "$ONE"
B = "$TWO"

[models.named]
kind = "acp"
agent = "claude"

[serve]
api_keys = ["$SERVE_KEY", "literal-key"]
"""
_ENVIRON = {
    "AGENT_KEY": "agent-value",
    "GATEWAY_KEY": "gateway-value",
    "ONE": "1",
    "TWO": "",
    "SERVE_KEY": "serve-value",
}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    file = tmp_path / "dragoman.toml"
    file.write_text(_TEXT)
    return load(file)


def test_values_are_taken_from_the_environment(config: Config) -> None:
    agent = resolved(config, "agent", _ENVIRON)
    assert isinstance(agent, AcpModel)
    assert agent.env == {
        "API_KEY": "agent-value",
        "LEVEL": "debug",
        "PASSWORD": "plain-password",
        # Only a whole value is a reference.
        "HALF": "$5 and more",
    }
    gateway = resolved(config, "gateway", _ENVIRON)
    assert isinstance(gateway, ResponsesModel)
    assert gateway.api_key == "gateway-value"


def test_a_variable_that_is_empty_is_set(config: Config) -> None:
    tool = resolved(config, "tool", _ENVIRON)
    assert isinstance(tool, AcpModel)
    assert tool.env == {"A": "1", "B": ""}


def test_a_variable_that_is_not_set_is_told_with_its_place(config: Config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        resolved(config, "tool", {})
    assert str(caught.value).splitlines() == [
        f"{tmp_path}/dragoman.toml:{line}: the environment variable {name} is not set. "
        "Set it first, or write the value here."
        for line, name in ((21, "ONE"), (22, "TWO"))
    ]


def test_headers_of_an_endpoint_are_looked_up_and_secret() -> None:
    model = ResponsesModel(
        base_url="http://a", model="m", headers={"X-Team": "$TEAM", "X-Plain": "plain-value"}
    )
    config = Config(models={"gateway": model})
    with pytest.raises(ConfigError, match="TEAM is not set"):
        resolved(config, "gateway", {})
    ready = resolved(config, "gateway", {"TEAM": "team-secret"})
    assert isinstance(ready, ResponsesModel)
    assert ready.headers == {"X-Team": "team-secret", "X-Plain": "plain-value"}
    assert secrets(config, {"TEAM": "team-secret"}) == {"team-secret", "plain-value"}
    assert "plain-value" not in repr(ready)
    assert "team-secret" not in repr(ready)


def test_a_variable_that_is_not_set_for_one_model_does_not_break_another(config: Config) -> None:
    assert isinstance(resolved(config, "gateway", {"GATEWAY_KEY": "k"}), ResponsesModel)
    assert resolved(config, "open", {}) == config.models["open"]
    demo = resolved(config, "demo", {})
    assert isinstance(demo, AcpModel)
    assert demo.command == (sys.executable, "-m", "dragoman", "demo-agent")


def test_a_key_of_the_server_whose_variable_is_not_set_is_told(config: Config) -> None:
    [problem] = key_problems(config, {})
    assert "SERVE_KEY is not set" in problem.text
    with pytest.raises(ConfigError, match="SERVE_KEY is not set"):
        client_keys(config, {})
    assert [key.secret for key in client_keys(config, _ENVIRON)] == ["serve-value", "literal-key"]


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("", "is empty or blank."),
        (" \t\u2003", "is empty or blank."),
        (" padded", "begins or ends with white space."),
        ("padded\n", "begins or ends with white space."),
        ("kéy", "has a character that cannot be sent"),
        ("k\x00ey", "has a character that cannot be sent"),
        ("k\tey", "has a character that cannot be sent"),
    ],
)
def test_a_key_that_no_client_can_send_is_refused_and_not_shown(
    config: Config, tmp_path: Path, key: str, problem: str
) -> None:
    [told] = key_problems(config, _ENVIRON | {"SERVE_KEY": key})
    assert str(told).startswith(f"{tmp_path}/dragoman.toml:29: the environment variable SERVE_KEY {problem}")
    assert not key.strip() or key not in told.text
    written = Config(serve=Serve(api_keys=("good", key)))
    [told] = key_problems(written, {})
    assert told.text.startswith(f"this API key {problem}")


@pytest.mark.parametrize("key", ["a", "two words", "=/+~._-", "$5"])
def test_a_key_that_a_client_can_send_is_taken_as_it_is(key: str) -> None:
    assert [each.secret for each in client_keys(Config(serve=Serve(api_keys=(key,))), {})] == [key]


def test_our_own_name_means_our_own_interpreter(config: Config) -> None:
    agent = resolved(config, "agent", _ENVIRON)
    assert isinstance(agent, AcpModel)
    assert agent.command == (sys.executable, "-m", "dragoman", "demo-agent")


def test_a_command_that_is_a_path_is_relative_to_the_file(config: Config, tmp_path: Path) -> None:
    tool = resolved(config, "tool", _ENVIRON)
    assert isinstance(tool, AcpModel)
    assert tool.command == (str(tmp_path / "bin/agent"), "./argument")


def test_a_command_in_the_path_and_none_at_all_stay(config: Config) -> None:
    named = resolved(config, "named", {})
    assert isinstance(named, AcpModel)
    assert named.command is None
    other = Config(models={"a": AcpModel(command=("npx", "-y"))})
    assert resolved(other, "a", {}) == other.models["a"]


def test_secrets_are_values_of_variables_and_of_what_is_called_a_key(config: Config) -> None:
    assert secrets(config, _ENVIRON) == {
        *("agent-value", "gateway-value", "1", "serve-value"),
        *("plain-password", "literal-key"),
    }
    assert secrets(config, {}) == {"plain-password", "literal-key"}


def test_a_configuration_without_a_file_can_lack_variables_too() -> None:
    config = Config(
        models={"a": AcpModel(agent="x", env={"A": "$NOT_SET"}), "s": ScriptModel(path=Path("x"))}
    )
    with pytest.raises(ConfigError, match=r"^the configuration: the environment variable NOT_SET is not set"):
        resolved(config, "a", {})
    assert config.source.folder == Path.cwd()


def test_what_is_not_written_down_stands_where_the_table_around_it_does(
    config: Config, tmp_path: Path
) -> None:
    assert config.source.at(("models", "gateway", "name")) == f"{tmp_path}/dragoman.toml:6"
    assert config.source.at(("loop", "turns")) == f"{tmp_path}/dragoman.toml:1"
