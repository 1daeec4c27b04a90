"""From a configured model to one that can be asked."""

from pathlib import Path

import pytest

from dragoman.cli.known_agents import KnownAgents
from dragoman.config import AcpModel, Config, ResponsesModel, ScriptModel, load
from dragoman.lm import Request, Response, TextPart, user
from dragoman.lm.cancellation import CancellationToken
from dragoman.models import ModelNotUsable, build, build_unguarded, find


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "tape.jsonl"
    file.write_text(
        '{"model": {"name": "Tape", "maxInputTokens": 5}}\n{"do": [{"think": "hm"}, {"say": "Hello."}]}\n'
    )
    return file


async def test_a_script_answers(script: Path) -> None:
    model = build(Config(models={"tape": ScriptModel(path=script, reasoning_fallback="hide")}), "tape")
    response = Response()
    await model.respond(Request((user("hi"),)), response, CancellationToken())
    # The consumer has no thinking, and the configuration says not to show it as text.
    assert response.message().content == (TextPart("Hello."),)


def test_a_script_describes_itself_unless_the_configuration_does(script: Path) -> None:
    config = Config(
        models={
            "tape": ScriptModel(path=script),
            "named": ScriptModel(path=script, name="Mine", max_input_tokens=7, max_output_tokens=8),
        }
    )
    plain, named = build_unguarded(config, "tape").info, build_unguarded(config, "named").info
    assert (plain.id, plain.name, plain.max_input_tokens) == ("tape", "Tape", 5)
    assert (named.id, named.name, named.max_input_tokens, named.max_output_tokens) == ("named", "Mine", 7, 8)


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    config = Config(models={"tape": ScriptModel(path=tmp_path / "none.jsonl")})
    with pytest.raises(ModelNotUsable, match=r"none\.jsonl: the script cannot be read"):
        build(config, "tape")


def test_an_endpoint_is_a_model_with_what_its_configuration_says() -> None:
    model = ResponsesModel(base_url="http://127.0.0.1/v1", model="some/model", max_output_tokens=5)
    info = build(Config(models={"m": model}), "m").info
    assert (info.id, info.family, info.max_output_tokens) == ("m", "some/model", 5)
    assert info.required_calls


def test_an_agent_without_a_command_says_what_to_add() -> None:
    with pytest.raises(ModelNotUsable, match="not installed") as caught:
        build(Config(models={"m": AcpModel(agent="claude")}), "m")
    assert caught.value.hint == (
        "Install it: dragoman agents add claude. Or add `command`: how the agent is started."
    )


def test_an_agent_is_a_model_with_what_its_configuration_says(tmp_path: Path) -> None:
    model = AcpModel(command=("agent",), name="An Agent", max_input_tokens=5, cwd=tmp_path)
    info = build(Config(models={"m": model}), "m").info
    assert (info.id, info.name, info.max_input_tokens, info.is_byok) == ("m", "An Agent", 5, True)


def test_a_name_that_does_not_exist() -> None:
    for build_it in (build, build_unguarded, find):
        with pytest.raises(ModelNotUsable) as caught:
            build_it(Config(), "deom")
        assert caught.value.sentence == 'There is no model "deom". Did you mean "demo"?'
        assert caught.value.kind == "not_found"


def test_a_variable_that_is_not_set_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GATEWAY_KEY", raising=False)
    file = tmp_path / "dragoman.toml"
    file.write_text(
        '[models.g]\nkind = "responses"\nbase_url = "http://a"\nmodel = "m"\napi_key = "$GATEWAY_KEY"\n'
    )
    with pytest.raises(
        ModelNotUsable, match=r"dragoman\.toml:5: the environment variable GATEWAY_KEY is not set"
    ):
        build(load(file), "g")


def test_an_agent_of_the_catalogue_that_is_no_model_yet_can_be_added() -> None:
    with pytest.raises(ModelNotUsable) as raised:
        find(Config(), "claude")
    assert "`dragoman agents add claude`" in (raised.value.hint or "")


def test_a_model_may_name_the_built_in_agent_without_a_command(tmp_path: Path) -> None:
    config = Config(models={"mine": AcpModel(agent="demo", permission="allow")})
    model = KnownAgents(tmp_path).applied(config).models["mine"]
    assert isinstance(model, AcpModel)
    assert (model.command, model.permission) == (("dragoman", "demo-agent"), "allow")
