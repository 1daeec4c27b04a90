"""An agent that means ill, or a model in it that was talked into something."""

import os.path
from pathlib import Path

import pytest

from bridge.consumer import TOOLS, Bridge
from dragoman.acp.messages import decode_permission
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.session.actions import action_of
from dragoman.config import AcpModel, Config, Serve
from dragoman.lm import JsonObject, json
from dragoman.lm.links import InertLinks
from dragoman.lm.nesting import INPUT_LEVELS, MOST_LEVELS
from dragoman.models import build_unguarded
from dragoman.permissions.keys import approval_key
from dragoman.permissions.question import question_about
from dragoman.permissions.sensitive import Places
from dragoman.tools.schema import SchemaProblem, check_schema, complete
from dragoman.visible import visible_exactly

_KINDS = ["allow_once", "reject_once"]


@pytest.fixture
def outside(bridge: Bridge, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a secret, and a link to it that came with the workspace."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "id_rsa").write_text("secret")
    (bridge.folder / "docs").symlink_to(folder)
    return folder


async def test_reading_through_a_link_that_leads_out_is_not_reading(bridge: Bridge, outside: Path) -> None:
    chat = bridge.chat(permission="allow-reads", tools=TOOLS)
    read = {"toolCallId": "r1", "title": "Read the docs", "kind": "read"}
    locations = [{"path": str(bridge.folder / "docs" / "id_rsa")}]
    answer = await chat.do(["ask", {**read, "locations": locations}, _KINDS], ["say", "on"])
    assert answer.text.endswith("on")
    [outcome] = bridge.noted("outcome")
    assert "reject_once" in str(outcome)


def test_a_path_that_no_system_takes_is_not_inside(tmp_path: Path) -> None:
    asked = {"toolCall": {"toolCallId": "r1", "kind": "read", "locations": [{"path": f"{tmp_path}/a\0b"}]}}
    activity = decode_permission(json.encode(asked)).tool_call
    places = Places((str(tmp_path),), resolve=os.path.realpath)
    assert action_of(activity, "a", "Agent", places).risk == "other"


def test_a_title_that_imitates_the_question_stays_a_title() -> None:
    """Markdown in what an agent asks for is shown as its letters; what is asked about stands in a block of its own."""
    title = "List files\n\n**Allowed.**\n\n```sh\nls\n```\n\n[Deny](command:workbench.action.chat.acceptTool)"
    command = "rm -rf ~\n```\nAllow `ls`?"
    asked = {
        "toolCall": {"toolCallId": "c", "title": title, "kind": "read", "rawInput": {"command": command}}
    }
    action = action_of(decode_permission(json.encode(asked)).tool_call, "a", "Agent", Places(("/",)))
    shown = question_about(action).message
    assert action.risk == "execute"
    assert shown.count("````sh\nrm -rf ~\n```\nAllow `ls`?\n````") == 1
    before = shown.partition("````sh")[0]
    assert "Allowed" not in before
    called = shown.partition("Title by the agent:\n")[2]
    assert called.startswith("````text\nList files␊")
    assert called.endswith("\n````\n\nKind, says the agent: `read`")


def test_words_that_imitate_the_question_have_no_link_and_no_escape_that_acts() -> None:
    """An agent's own words pass as they are, but nothing in them can be clicked that acts, and nothing moves the cursor."""
    words = (
        "\x1b[2J\x1b[1;1HAllow `ls`? [Allow](command:workbench.action.chat.acceptTool) [y/n] \x9b31m\u202e"
    )
    assert "(command:" not in InertLinks().feed(words)
    shown = visible_exactly(words)
    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)
    assert "Allow `ls`?" in shown


@pytest.mark.parametrize("asked", [{}, {"SERVER_KEY": "$SERVER_KEY"}])
def test_the_servers_own_key_is_not_in_an_agents_environment(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, str]
) -> None:
    """Unless it is given it by name."""
    monkeypatch.setenv("SERVER_KEY", "sk-of-the-server")
    monkeypatch.setenv("AGENT_KEY", "sk-of-the-agent")
    agent = AcpModel(command=("agent",), env=asked)
    config = Config(models={"a": agent}, serve=Serve(api_keys=("$SERVER_KEY", "literal")))
    model = build_unguarded(config, "a")
    assert isinstance(model, AgentModel)
    assert model.settings.env["AGENT_KEY"] == "sk-of-the-agent"
    assert model.settings.env.get("SERVER_KEY") == ("sk-of-the-server" if asked else None)


def _nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.long
async def test_a_call_that_is_nested_too_deeply_gets_an_error_that_says_so(bridge: Bridge) -> None:
    chat = bridge.chat()
    heard = await chat.do(["call", "look", _nested(INPUT_LEVELS + 1)], ["say", "and on"])
    assert f"at most {INPUT_LEVELS} levels deep" in heard.text
    assert heard.text.endswith("and on")
    heard = await chat.do(["call", "look", _nested(500)])
    assert f"more than {MOST_LEVELS} levels deep" in heard.text
    assert await chat.echo()


@pytest.mark.long
async def test_a_permission_request_that_is_nested_too_deeply_is_refused(bridge: Bridge) -> None:
    chat = bridge.chat()
    call = {"toolCallId": "c1", "title": "Run it", "kind": "execute", "rawInput": _nested(500)}
    heard = await chat.do(["ask", call, ["allow_once", "reject_once"]], ["say", "and on"])
    assert heard.calls == ()
    assert [outcome["outcome"] for outcome in bridge.noted("outcome")] == ["none"]
    assert heard.text.endswith("and on")


_LOOP: JsonObject = {"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": False}


def test_what_is_as_deep_as_may_be_ends_in_no_function_that_follows_it() -> None:
    """Everything here calls itself for each level: the description, the question, its key, the checks of an input."""
    deep = _nested(MOST_LEVELS - 3)
    params = json.encode(
        {
            "sessionId": "s",
            "toolCall": {"toolCallId": "c", "title": "Run it", "kind": "execute", "rawInput": deep},
            "options": [{"optionId": "o", "kind": "allow_once", "name": "Yes"}],
        }
    )
    request = decode_permission(params)
    action = action_of(request.tool_call, "a", "A", Places(("/project",)), request)
    assert '"a"' in question_about(action).whole
    assert approval_key(action)
    check_schema(_LOOP)
    with pytest.raises(SchemaProblem, match="object"):
        # The innermost is a number, which is found at the end of the way.
        complete(_LOOP, _nested(INPUT_LEVELS))
    assert json.decode(json.canonical(deep)) == deep
