"""R10: permission requests of an agent on chat completions, for a client that takes approvals as items."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.consumer import Bridge
from dragoman.frontends.http.approvals import decision_of_message
from fake_agent.steps import prompt
from http_server.kit import Answered, Held, Json, Site, function, site_of, soon
from process.living import all_gone

pytestmark = pytest.mark.long

_CHAT = "/v1/chat/completions"
_RUN: list[object] = [
    "ask",
    {"toolCallId": "p", "title": "Run it", "kind": "execute"},
    ["allow_once", "reject_once"],
]


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Site]:
    bridge = Bridge(tmp_path)
    bridge.chat()
    assert bridge.model is not None
    for made in site_of(Held(bridge.permissions, m=bridge.model), store=tmp_path / "state"):
        yield made
    await bridge.close()
    await soon(all_gone(bridge.pids))


async def _chat(made: Site, messages: list[Json], **fields: object) -> Answered:
    body = {"model": "m", "messages": messages, **fields}
    return await made.post(_CHAT, body, x_dragoman_approvals="items")


def _user(*steps: list[object]) -> Json:
    return {"role": "user", "content": prompt(*steps)}


def _message(answered: Answered) -> Json:
    assert answered.status == 200, answered.writes
    message: Json = answered.json["choices"][0]["message"]
    return message


def _answer(call: Json, content: object) -> Json:
    text = content if isinstance(content, str) else json.dumps(content)
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


@pytest.mark.parametrize("approve", [True, False])
async def test_r10_a_permission_is_a_call_that_no_tool_was_offered_for(agent: Site, *, approve: bool) -> None:
    history = [_user(_RUN)]
    asked = await _chat(agent, history)
    (choice,) = asked.json["choices"]
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert asked.json["dragoman"]["approval_requests"] == [call["id"]]
    assert (call["id"][:5], call["function"]["name"]) == ("mcpr_", "dragoman-agent-action-execute")
    assert json.loads(call["function"]["arguments"])["title"] == "Run it"
    history += [choice["message"], _answer(call, {"approve": approve})]
    after = _message(await _chat(agent, history))
    assert f"<p: the-{'allow' if approve else 'reject'}_once>" in after["content"]
    # The history with the same answer grants nothing of what comes next.
    history += [after, _user(_RUN)]
    (next_call,) = _message(await _chat(agent, history))["tool_calls"]
    assert next_call["id"] != call["id"]


async def test_r10_a_permission_in_a_stream(agent: Site) -> None:
    history = [_user(["say", "Now. "], _RUN)]
    chunks = (await _chat(agent, history, stream=True)).data
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    ((call,),) = [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]
    assert call.pop("index") == 0
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["dragoman"] == {"approval_requests": [call["id"]]}
    said = "".join(delta.get("content") or "" for delta in deltas)
    message = {"role": "assistant", "content": said, "tool_calls": [call]}
    history += [message, _answer(call, {"approve": True})]
    after = (await _chat(agent, history, stream=True)).data
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in after)
    assert "<p: the-allow_once>" in text


async def test_r10_an_approval_and_a_function_of_the_client_in_one_conversation(agent: Site) -> None:
    given = function("look")
    offered = {"type": "function", "function": {"name": "look", "parameters": given["parameters"]}}
    history = [_user(_RUN, ["call", "look", {}])]
    first = _message(await _chat(agent, history, tools=[offered]))
    (call,) = first["tool_calls"]
    history += [first, _answer(call, {"approve": True})]
    answered = await _chat(agent, history, tools=[offered])
    (look,) = _message(answered)["tool_calls"]
    # A call of the client's own function is none of the requests.
    assert (look["function"]["name"], "dragoman" in answered.json) == ("look", False)
    history += [_message(answered), _answer(look, "seen")]
    assert "<look returned: seen>" in _message(await _chat(agent, history, tools=[offered]))["content"]


async def test_r10_a_decision_is_used_once_and_only_for_its_request(agent: Site) -> None:
    history = [_user(_RUN)]
    first = _message(await _chat(agent, history))
    (call,) = first["tool_calls"]
    forged = {**call, "id": call["id"][:-4] + "aaaa"}
    # Forged for another request, it decides nothing of this one.
    await _chat(agent, [*history, {**first, "tool_calls": [forged]}, _answer(forged, {"approve": True})])
    grants = agent.service.models.permissions.grants
    assert grants.of_call(call["id"].removeprefix("mcpr_")) is not None
    refused = [*history, first, _answer(call, {"approve": False, "reason": "Not now."})]
    assert "<p: the-reject_once>" in _message(await _chat(agent, refused))["content"]
    # A yes that comes after the no is too late.
    late = await _chat(agent, [*history, first, _answer(call, {"approve": True})])
    assert b"the-allow_once" not in b"".join(late.writes)


async def test_r10_a_request_that_came_as_a_function_is_not_answered_as_an_item(agent: Site) -> None:
    name = "dragoman-agent-action-execute"
    tool = {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    body: Json = {"model": "m", "messages": [_user(_RUN)], "tools": [tool]}
    first = _message(await agent.post(_CHAT, body))
    (call,) = first["tool_calls"]
    assert (call["id"][:3], call["function"]["name"]) == ("dg_", name)
    answer = _answer({"id": f"mcpr_{call['id']}"}, {"approve": True})
    after = _message(await agent.post(_CHAT, {**body, "messages": [*body["messages"], first, answer]}))
    assert "<p: the-reject_once>" in after["content"]


@pytest.mark.parametrize(
    ("text", "approve", "reason"),
    [
        ('{"approve": true}', True, None),
        ('{"approve": true, "reason": "fine"}', True, None),
        ('{"approve": false, "reason": "no"}', False, "no"),
        ('{"approve": 1}', False, None),
        ('{"approve": "true"}', False, None),
        ('{"decision": "allow"}', False, None),
        ("true", False, None),
        ("yes", False, None),
        ("", False, None),
    ],
)
def test_r10_only_true_is_a_yes(text: str, approve: bool, reason: str | None) -> None:  # noqa: FBT001
    decision = decision_of_message(text)
    assert (decision.approve, decision.reason) == (approve, reason)
