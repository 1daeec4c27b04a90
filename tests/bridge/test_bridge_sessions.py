"""Sessions of an agent: logging in, mode and options, taking one up."""

import pytest

from bridge.consumer import Bridge, result
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.profile.settings import Timing
from dragoman.lm import LanguageModelError, system, user
from fake_agent.steps import prompt

pytestmark = pytest.mark.long

_METHODS = [
    {"id": "key", "name": "Use the key", "description": "from the environment"},
    {"id": "shell", "name": "Log in in a terminal", "type": "terminal"},
]


async def test_f9_with_the_method_configured_the_agent_logs_in_once_and_the_user_notices_nothing(
    bridge: Bridge,
) -> None:
    chat = bridge.chat(configured={"auth": "key"}, authentication=_METHODS, login="key")
    await chat.echo()
    assert bridge.noted("authenticate") == [{"methodId": "key"}]
    # Neither the next prompt nor a side request logs in again.
    await chat.echo()
    await bridge.aside().say("a title, please")
    assert len(bridge.noted("authenticate")) == 1


async def test_f9_an_agent_that_wants_no_login_is_not_logged_in(bridge: Bridge) -> None:
    chat = bridge.chat(configured={"auth": "key"}, authentication=_METHODS)
    await chat.echo()
    assert bridge.noted("authenticate") == []


@pytest.mark.parametrize("how", ["resume", "load"])
async def test_f9_h21_a_session_is_taken_up_after_a_login(bridge: Bridge, how: str) -> None:
    chat = bridge.chat(
        timing=Timing(idle=0.1),
        configured={"auth": "key"},
        authentication=_METHODS,
        login="key",
        load=how == "load",
        resume=how == "resume",
    )
    await chat.do(["say", "hello"])
    await bridge.until_parked()
    assert await chat.echo() == ["still there?"]
    # Refused, and asked once more after the login.
    assert len(bridge.noted(f"session/{how}")) == 2
    assert len(bridge.noted("authenticate")) == 2


async def test_f9_a_method_that_the_agent_does_not_have_is_told_with_those_that_it_has(
    bridge: Bridge,
) -> None:
    chat = bridge.chat(configured={"auth": "keys"}, authentication=_METHODS, login="key")
    with pytest.raises(LanguageModelError) as failed:
        await chat.say("hello")
    assert failed.value.kind == "bad_request"
    assert '"keys"' in failed.value.message
    assert '"key", "shell"' in str(failed.value.hint)
    assert bridge.noted("authenticate") == []


async def test_f9_a_method_that_needs_a_terminal_is_left_to_the_person(bridge: Bridge) -> None:
    chat = bridge.chat(configured={"auth": "shell"}, authentication=_METHODS, login="shell")
    with pytest.raises(LanguageModelError) as failed:
        await chat.say("hello")
    assert failed.value.kind == "auth_required"
    assert "terminal" in failed.value.message
    assert bridge.noted("authenticate") == []


async def test_f9_a_login_that_fails_or_does_not_help_is_told_and_not_repeated(bridge: Bridge) -> None:
    chat = bridge.chat(
        configured={"auth": "key"},
        authentication=_METHODS,
        login="key",
        refuse={"authenticate": [-32603, "the key has expired"]},
    )
    with pytest.raises(LanguageModelError) as failed:
        await chat.say("hello")
    assert failed.value.kind == "auth_required"
    assert "the key has expired" in failed.value.message
    assert len(bridge.noted("authenticate")) == 1


async def test_f9_a_login_that_changes_nothing_is_not_tried_for_ever(bridge: Bridge) -> None:
    chat = bridge.chat(configured={"auth": "key"}, authentication=_METHODS, login="another")
    with pytest.raises(LanguageModelError) as failed:
        await chat.say("hello")
    assert failed.value.kind == "auth_required"
    assert '`auth = "key"`' in str(failed.value.hint)
    assert len(bridge.noted("authenticate")) == 1


_WANTED = {"mode": "careful", "options": {"model": "large", "fast": True}}


@pytest.mark.parametrize("how", ["resume", "load", "replay"])
async def test_h21_mode_and_options_are_set_again_when_a_session_is_taken_up(
    bridge: Bridge, how: str
) -> None:
    chat = bridge.chat(
        timing=Timing(idle=0.1), configured=_WANTED, load=how == "load", resume=how == "resume"
    )
    await chat.do(["say", "hello"])
    await bridge.until_parked()
    await chat.echo()
    methods = ("session/new", "session/load", "session/resume", "session/set_mode", "session/prompt")
    order = [method for method, _ in bridge.journal if method in methods]
    taken_up = "session/new" if how == "replay" else f"session/{how}"
    assert order == [
        *("session/new", "session/set_mode", "session/prompt"),
        *(taken_up, "session/set_mode", "session/prompt"),
    ]
    assert {params["modeId"] for params in bridge.noted("session/set_mode")} == {"careful"}
    [model, fast] = bridge.noted("session/set_config_option")[2:]
    assert (model["configId"], model["value"]) == ("model", "large")
    assert (fast["configId"], fast["value"], fast["type"]) == ("fast", True, "boolean")


async def test_h21_what_the_agent_says_is_set_already_is_not_set_again(bridge: Bridge) -> None:
    state = {
        "modes": {"currentModeId": "careful", "availableModes": []},
        "configOptions": [{"id": "model", "currentValue": "small"}, {"id": "fast", "currentValue": True}],
    }
    chat = bridge.chat(timing=Timing(idle=0.1), configured=_WANTED, resume=True, state=state)
    await chat.do(["say", "hello"])
    await bridge.until_parked()
    await chat.echo()
    assert bridge.noted("session/set_mode") == []
    assert [params["configId"] for params in bridge.noted("session/set_config_option")] == ["model", "model"]


async def test_h21_a_mode_that_cannot_be_set_again_is_not_passed_over(bridge: Bridge) -> None:
    """It may be what keeps the agent from doing harm."""
    chat = bridge.chat(
        timing=Timing(idle=0.1),
        configured={"mode": "careful"},
        resume=True,
        refuse={"session/set_mode": [-32602, "there is no such mode"]},
    )
    with pytest.raises(LanguageModelError) as failed:
        await chat.say("hello")
    assert failed.value.kind == "bad_request"
    assert "no such mode" in failed.value.message


async def test_f4_an_agent_that_is_gone_when_it_is_prompted_is_replaced_and_nobody_is_told(
    bridge: Bridge,
) -> None:
    chat = bridge.chat()
    await chat.do(["say", "a word"], ["doom"])
    heard = await chat.echo()
    assert "a word" in " ".join(heard)
    assert len(bridge.pids) == 2
    # The old one had it, and the new one.
    assert len(bridge.noted("session/prompt")) == 3


async def test_f4_what_goes_with_the_prompt_goes_with_it_again(bridge: Bridge) -> None:
    chat = bridge.chat(resume=True)
    await chat.begin(system("Be brief."), user(prompt(["say", "a word"], ["doom"]))).end()
    chat.history[0] = system("Be kind.")
    heard = await chat.echo()
    assert "Be kind." in " ".join(heard)
    assert len(bridge.noted("session/resume")) == 1


async def test_f3_a_prompt_that_no_agent_survives_fails_after_the_second(bridge: Bridge) -> None:
    chat = bridge.chat()
    await chat.do(["say", "a word"])
    with pytest.raises(LanguageModelError) as failed:
        await chat.do(["exit", 7])
    assert "exited with code 7" in failed.value.message
    assert len(bridge.pids) == 2
    await chat.echo()
    assert len(bridge.pids) == 3


async def test_t9_an_agent_that_can_be_steered_has_the_words_that_come_with_a_result_at_once(
    bridge: Bridge,
) -> None:
    chat = bridge.chat(steers=True)
    asked = await chat.do(["call", "look", {}], ["gate", "end"], ["say", " the end"])
    going = chat.begin(user(result(asked.calls[0], "seen")), user("and hurry"))
    # The turn still runs.
    await going.until(lambda heard: "steered" in heard.text)
    bridge.open_gate("end")
    answer = await going.end()
    assert "<steered: and hurry>" in answer.text
    assert answer.text.endswith(" the end")
    assert len(bridge.noted("session/prompt")) == 1
    [sent] = bridge.noted("_session/steering")
    assert sent["prompt"] == [{"type": "text", "text": "and hurry"}]
    await chat.echo()


@pytest.mark.parametrize("outcome", ["failed", "promptRequired"])
async def test_t9_words_that_the_turn_did_not_take_are_prompted_when_it_ends(
    bridge: Bridge, outcome: str
) -> None:
    chat = bridge.chat(steers=outcome)
    asked = await chat.do(["call", "look", {}], ["say", " the end. "])
    answer = await chat.begin(user(result(asked.calls[0], "seen")), user("and hurry")).end()
    assert answer.text.endswith(' the end. echo: ["and hurry"]')
    assert len(bridge.noted("_session/steering")) == 1


async def test_t9_an_agent_that_does_not_say_so_is_not_steered(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(["call", "look", {}], ["say", " the end. "])
    answer = await chat.begin(user(result(asked.calls[0], "seen")), user("and hurry")).end()
    assert answer.text.endswith(' the end. echo: ["and hurry"]')
    assert bridge.noted("_session/steering") == []


async def test_h21_no_prompt_is_sent_while_it_is_unknown_which_mode_the_agent_is_in(bridge: Bridge) -> None:
    """A mode that the agent never answered for may hold or not."""
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "yolo"}]}
    chat = bridge.chat(timing=Timing(grace=0.1), state={"modes": modes}, lost=["yolo"])
    chat.model_configuration = {"mode": "yolo"}
    with pytest.raises(LanguageModelError, match=r"unknown value now.*“ask”.*did not answer in time"):
        await chat.say("hello")
    assert bridge.noted("session/prompt") == []
    # The user takes the choice back: the mode is set, although the agent never said that it had left it.
    chat.model_configuration = {}
    await chat.say("and now?")
    assert [params["modeId"] for params in bridge.noted("session/set_mode")] == ["yolo", "ask"]


async def test_a_login_has_a_limit(bridge: Bridge) -> None:
    methods = [{"id": "key", "name": "With the key"}]
    chat = bridge.chat(timing=Timing(login=0.1), authentication=methods, lost=["key"])
    model = chat.model._model
    assert isinstance(model, AgentModel)
    with pytest.raises(LanguageModelError, match="did not finish the login") as late:
        await model.log_in("key")
    assert late.value.kind == "timeout"
