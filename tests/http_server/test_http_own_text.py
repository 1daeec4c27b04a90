"""Text of Dragoman's own in an answer: whom it is written for, and what it says of a refusal."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.consumer import Bridge
from dragoman.config import KeyConfig, load
from dragoman.models import policy_of
from fake_agent.steps import prompt
from http_server.kit import Answered, Held, Json, Site, site_of, soon
from process.living import all_gone

_Make = Callable[..., Site]
_BOTH = ["allow_once", "reject_once"]
_CHAT = "/v1/chat/completions"


def _ask(command: str = "make <all>", title: str = "make <all>") -> list[object]:
    call = {"toolCallId": "p", "title": title, "kind": "execute", "rawInput": {"command": command}}
    return ["ask", call, _BOTH]


_STEP = [
    "update",
    {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "cat <a> & b_c",
        "kind": "execute",
        "status": "completed",
    },
]


@pytest.fixture
async def agents(tmp_path: Path) -> AsyncIterator[tuple[_Make, Bridge]]:
    """Sites with an agent, `m`, whose file is dragoman.toml."""
    bridge = Bridge(tmp_path)
    with ExitStack() as stack:

        def made(permission: str = "deny", **options: Any) -> Site:
            file = tmp_path / "dragoman.toml"
            bridge.chat(permission=permission, configured={"config_file": file})  # type: ignore[arg-type]
            assert bridge.model is not None
            models = Held(bridge.permissions, m=bridge.model)
            return stack.enter_context(contextmanager(site_of)(models, **options))

        yield made, bridge
    await bridge.close()
    await soon(all_gone(bridge.pids))


def _text(answered: Answered) -> str:
    return "".join(
        part["text"]
        for item in answered.response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


def _thinking(answered: Answered) -> str:
    message: Json = answered.json["choices"][0]["message"]
    return str(message["reasoning_content"])


async def test_our_own_text_is_plain_unless_the_client_renders_markdown(agents: tuple[_Make, Bridge]) -> None:
    made, _ = agents
    site = made()
    steps = prompt(_STEP, _ask(), ["say", "**Done** <b>."])
    plain = await site.create(input=steps)
    assert "\\" not in _text(plain)
    assert "\n\nFake wants to run: make <all>. You were not asked, so it was refused." in _text(plain)
    # What the agent says is as it was.
    assert _text(plain).endswith("**Done** <b>.")
    marked = await site.create(input=steps, headers={"x_dragoman_markdown": "true"})
    assert "\n\n*Fake wants to run: make \\<all\\>." in _text(marked)
    body = {"model": "m", "messages": [{"role": "user", "content": prompt(_STEP)}]}
    assert "✓ cat <a> & b_c" in _thinking(await site.post(_CHAT, body))
    assert "✓ cat \\<a\\> \\& b_c" in _thinking(await site.post(_CHAT, body, x_openwebui_chat_id="c"))


@pytest.mark.parametrize("markdown", ["true", "false"])
async def test_a_history_with_either_form_is_known(agents: tuple[_Make, Bridge], markdown: str) -> None:
    made, bridge = agents
    site = made()
    headers = {"x_dragoman_markdown": markdown}
    messages: list[Json] = [{"role": "user", "content": prompt(_ask(), ["say", "done"])}]
    first = await site.post(_CHAT, {"model": "m", "messages": messages}, **headers)
    # Only its text comes back, without an id.
    messages += [{"role": "assistant", "content": first.json["choices"][0]["message"]["content"]}]
    messages += [{"role": "user", "content": "and now?"}]
    second = await site.post(_CHAT, {"model": "m", "messages": messages}, **headers)
    found = [each.headers["x-dragoman-conversation"].split("; ") for each in (first, second)]
    assert found[0][0] == found[1][0]
    assert found[1][2] == "kind=prompt"
    assert len(bridge.noted("session/new")) == 1


@pytest.mark.parametrize(
    ("permission", "says"),
    [
        ("deny", 'It is refused by permission = "deny" in [models.fake] of {file}.'),
        ("allow-reads", 'It is refused by permission = "allow-reads" in [models.fake] of {file}.'),
        (
            "ask",
            'By permission = "ask" (the default; [models.fake] of {file} can have another) a person decides.',
        ),
        (
            "allow",
            'This client cannot ask you, so permission = "allow" in [models.fake] of {file} allowed it.',
        ),
    ],
)
async def test_what_a_setting_decides_names_the_key_and_the_file(
    agents: tuple[_Make, Bridge], tmp_path: Path, permission: str, says: str
) -> None:
    made, bridge = agents
    answered = await made(permission).create(input=prompt(_ask()))
    words = says.format(file=tmp_path / "dragoman.toml")
    assert words in _text(answered)
    if permission != "allow":
        # The agent gets the same, and that no person has refused it.
        [remark] = bridge.noted("remark")
        told = msgspec.convert(remark["dragoman"], dict[str, Any])
        assert told["unasked"] is True
        assert told["reason"].startswith("The user was not asked. ")
        assert words in told["reason"]


async def test_a_sensitive_action_names_the_rule_that_would_allow_it(
    agents: tuple[_Make, Bridge], tmp_path: Path
) -> None:
    made, _ = agents
    answered = await made("allow").create(input=prompt(_ask("cat .env")))
    file = tmp_path / "dragoman.toml"
    assert f"Only a rule with sensitive = true in [[policy]] of {file} can allow it." in _text(answered)


@pytest.mark.long
async def test_the_holder_of_a_key_does_not_learn_where_the_files_are(
    agents: tuple[_Make, Bridge], tmp_path: Path
) -> None:
    made, bridge = agents
    file = tmp_path / "dragoman.toml"
    rules = '[[policy]]\ndecision = "{}"\nkind = "execute"\ncommand = ["{}"]\n'
    file.write_text(
        rules.format("deny", "push") + rules.format("ask", "wait") + rules.format("allow", "look")
    )
    bridge.permissions.rules.policy = policy_of(load(file))
    named = {"user": KeyConfig("user-key"), "admin": KeyConfig("admin-key", "admin")}
    site = made("deny", named=named)
    shown = {
        "push": "The rule at {}:1 denies it.",
        "wait": "The rule at {}:5 asks about this every time.",
        "look": "allowed by the rule at {}:9",
        "other": 'It is refused by permission = "deny" in [models.fake] of {}.',
    }
    for key, place in (("user-key", "dragoman.toml"), ("admin-key", str(file))):
        headers = {"authorization": f"Bearer {key}"}
        for command, words in shown.items():
            body = {"model": "m", "messages": [{"role": "user", "content": prompt(_ask(command))}]}
            message = (await site.post(_CHAT, body, **headers)).json["choices"][0]["message"]
            text = f"{message['content']} {message.get('reasoning_content')}"
            assert words.format(place) in text
            assert (str(tmp_path) in text) == (key == "admin-key")
    # Nor does the agent say it: what it was told for the first key has no folder in it.
    assert str(tmp_path) not in str(bridge.noted("remark")[0])
