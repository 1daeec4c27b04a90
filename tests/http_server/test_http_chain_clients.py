"""R10: a server in front of another one has clients of its own, and the next server treats each as it would directly."""

import asyncio
import json
from pathlib import Path

import pytest

from dragoman.config import ConsoleConfig, KeyConfig
from fake_agent.steps import COMMAND, prompt
from http_server.chains import AgentChain, agent_chain
from http_server.kit import Json, soon
from http_server.test_http_console_questions import Person

pytestmark = pytest.mark.long

_KEYS = {
    "alice": KeyConfig(key="a" * 24),
    "bob": KeyConfig(key="b" * 24),
    "admin": KeyConfig(key="c" * 24, role="admin"),
}
_ALICE, _BOB, _ADMIN = ({"authorization": f"Bearer {key.key}"} for key in _KEYS.values())
_APIS = pytest.mark.parametrize("api", ["chat", "responses"])
_RUN: list[object] = [
    "ask",
    {"toolCallId": "p", "title": "Run it", "kind": "execute"},
    ["allow_once", "reject_once"],
]


def _user(*steps: object) -> Json:
    return {"role": "user", "content": prompt(*steps)}


@_APIS
async def test_h20_each_key_has_conversations_that_no_other_key_continues(tmp_path: Path, api: str) -> None:
    async with agent_chain(tmp_path, keys=_KEYS) as agent:
        history = [_user(["say", "First."])]
        first = await agent.told(api, history, headers=_ALICE)
        history += first.history
        alice = first.headers["x-dragoman-conversation"].partition(";")[0]
        places = [
            (await agent.told(api, [*history, _user(["say", words])], headers=key)).headers[
                "x-dragoman-conversation"
            ]
            for key, words in ((_BOB, "Bob."), (_ALICE, "Alice."))
        ]
        bob = places[0].partition(";")[0]
        assert places == [f"{bob}; evidence=none; kind=fresh", f"{alice}; evidence=prefix; kind=prompt"]
        assert bob != alice


async def _failures(agent: AgentChain, key: dict[str, str], file: Path) -> list[str]:
    """What a client learns of the operator's files: from a refusal, from an agent that fails, and about a folder."""
    asked = await agent.told("chat", [_user(_RUN)], headers=key)
    broken = await agent.chat(headers=key, messages=[_user(["error", -32603, "boom"])])
    folder = await agent.create(headers={**key, "x-dragoman-workspace": "/etc"}, input="Hello.")
    assert (folder.status_code, file.name in folder.text) == (400, True)
    return [asked.text, broken.text, folder.text]


async def test_only_an_administrator_learns_where_the_next_servers_files_are(tmp_path: Path) -> None:
    file = tmp_path / "secret" / "dragoman.toml"
    async with agent_chain(tmp_path, keys=_KEYS, inner_file=file) as agent:
        shown = "".join(await _failures(agent, _ADMIN, file))
        assert str(file) in shown
        assert COMMAND[0] in shown
        for text in await _failures(agent, _ALICE, file):
            assert str(tmp_path) not in text
            assert COMMAND[0] not in text


@_APIS
async def test_a_response_that_does_not_stream_is_not_held_longer_than_by_one_server(
    tmp_path: Path, api: str
) -> None:
    """The person decides at the console of the next server, which has time."""
    console = ConsoleConfig(decide_seconds=0.05)
    async with agent_chain(tmp_path, permission="ask", console=console) as agent:
        person = Person(agent.bridge.permissions.inbox)
        history = [_user(["say", "First. "], _RUN, ["say", " Last."])]
        begun = await soon(agent.told(api, history))
        question = await person.question()
        assert question.id in {each.id for each in person.inbox}
        assert "First. " in begun.text
        assert "http://127.0.0.1:8427/" in begun.text
        rest = asyncio.create_task(
            agent.told(api, [*history, *begun.history, {"role": "user", "content": "And?"}], stream=True)
        )
        await person.decide_on(question)
        told = await soon(rest)
        assert "<p: the-allow_once> Last." in told.text
        assert told.headers["x-dragoman-conversation"] != begun.headers["x-dragoman-conversation"]
        prompts = [json.dumps(each["prompt"]) for each in agent.bridge.noted("session/prompt")]
        assert len(prompts) == 2
