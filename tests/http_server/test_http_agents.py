"""R9, R10: an agent over HTTP, with a real process behind it: conversations, tools, permissions, stops."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.consumer import Bridge
from dragoman.config import load
from dragoman.models import policy_of
from dragoman.store import Database
from fake_agent.steps import prompt
from http_server.kit import Answered, Held, Json, Site, function, site_of, soon
from process.living import all_gone

pytestmark = pytest.mark.long

_BOTH = ["allow_once", "reject_once"]
_RUN: list[object] = ["ask", {"toolCallId": "p", "title": "Run it", "kind": "execute"}, _BOTH]
_EXECUTE = {"type": "function", "name": "dragoman-agent-action-execute"}
_ITEMS = {"x_dragoman_approvals": "items"}
_TOOLS = [function("look"), function("count")]


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Site]:
    bridge = Bridge(tmp_path)
    for made in site_of(_models(bridge), store=tmp_path / "state"):
        yield made
    await bridge.close()
    await soon(all_gone(bridge.pids))


def _models(bridge: Bridge) -> Held:
    bridge.chat()
    assert bridge.model is not None
    return Held(bridge.permissions, m=bridge.model)


def _said(response: Json) -> str:
    return "".join(
        part.get("text", part.get("refusal"))
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


def _place(answered: Answered) -> tuple[str, str, str]:
    conversation, evidence, kind = answered.headers["x-dragoman-conversation"].split("; ")
    return conversation, evidence, kind


async def test_r10_tools_over_several_turns_in_one_session(agent: Site) -> None:
    steps = prompt(["all", [["call", "look", {"n": 1}], ["call", "count", {"n": 2}]]], ["say", "both"])
    first = await agent.create(input=steps, tools=_TOOLS, stream=True)
    response = first.streamed
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    assert {call["name"] for call in calls} == {"look", "count"}
    results = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": f"saw {call['name']}"}
        for call in calls
    ]
    # Stateless: the whole history again.
    history = [{"role": "user", "content": steps}, *response["output"], *results]
    second = await agent.create(input=history, tools=_TOOLS, stream=True)
    assert "saw look" in _said(second.streamed)
    assert "both" in _said(second.streamed)
    assert (_place(second)[0], _place(second)[2]) == (_place(first)[0], "kind=results")
    # By the id of the response.
    third = await agent.create(
        input=prompt(["say", "third"]), previous_response_id=second.streamed["id"], tools=_TOOLS
    )
    assert _said(third.response) == "third"
    assert _place(third) == (_place(first)[0], "evidence=marker", "kind=prompt")


async def test_r10_steps_and_plans_of_an_agent_are_items_over_several_responses(agent: Site) -> None:
    entries = [{"content": "Look", "priority": "high", "status": "pending"}]
    begun, ended = (
        ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "t", **fields}]
        for fields in (
            {"title": "Run", "kind": "execute", "status": "in_progress"},
            {"status": "completed", "rawOutput": {"exit_code": 0}},
        )
    )
    plan = ["update", {"sessionUpdate": "plan", "entries": entries}]
    steps = prompt(plan, begun, ["say", "Looking. "], ["call", "look", {}], ended, ["say", "done"])
    headers = {"x_dragoman_activity": "items"}
    first = await agent.create(input=steps, tools=_TOOLS, stream=True, headers=headers)
    shown = first.streamed["output"]
    kinds = ["dragoman:plan", "dragoman:activity", "message", "function_call"]
    assert [item["type"] for item in shown] == kinds
    assert shown[1]["activity_status"] == "in_progress"
    result = {"type": "function_call_output", "call_id": shown[-1]["call_id"], "output": "seen"}
    history = [{"role": "user", "content": steps}, *shown, result]
    second = await agent.create(input=history, tools=_TOOLS, stream=True, headers=headers)
    (step,) = [item for item in second.streamed["output"] if item["type"] == "dragoman:activity"]
    assert (step["id"], step["activity_status"], step["exit_status"]) == (shown[1]["id"], "completed", 0)
    assert (_place(second)[0], _place(second)[2]) == (_place(first)[0], "kind=results")
    assert "x-dragoman-ignored" not in second.headers
    # The history that has them is still known for what it is.
    history += [*second.streamed["output"], {"role": "user", "content": prompt(["say", "on"])}]
    third = await agent.create(input=history, tools=_TOOLS)
    assert _place(third) == (_place(first)[0], "evidence=marker", "kind=prompt")


async def test_r10_a_message_that_comes_back_with_its_id_names_its_conversation(agent: Site) -> None:
    first = await agent.create(input=prompt(["say", "one"]))
    (message,) = first.response["output"]
    asked = {"role": "user", "content": prompt(["say", "one"])}
    after = {"role": "user", "content": prompt(["say", "two"])}
    named = await agent.create(input=[asked, message, after])
    assert _place(named) == (_place(first)[0], "evidence=marker", "kind=prompt")
    # Forged, it is as good as none: the history itself still tells.
    forged = {**message, "id": message["id"][:-4] + "AAAA"}
    other = await agent.create(input=[asked, forged, after, {"role": "assistant", "content": "two"}, after])
    assert _place(other)[1] == "evidence=prefix"


async def test_r10_references_to_messages_and_calls_name_their_conversation(agent: Site) -> None:
    """As the AI SDK sends its tool loops."""
    steps = prompt(["think", "Hm."], ["say", "Looking. "], ["call", "look", {}], ["say", "done"])
    first = await agent.create(input=steps, tools=_TOOLS, stream=True)
    shown = first.streamed["output"]
    assert [item["type"] for item in shown] == ["reasoning", "message", "function_call"]
    asked = {"role": "user", "content": steps}
    named = [{"type": "item_reference", "id": item["id"]} for item in shown]
    result = {"type": "function_call_output", "call_id": shown[-1]["call_id"], "output": "seen"}
    second = await agent.create(input=[asked, *named, result], tools=_TOOLS, stream=True)
    assert (_place(second)[0], _place(second)[2]) == (_place(first)[0], "kind=results")
    assert _said(second.streamed) == "<look returned: seen>done"
    named += [result, *({"type": "item_reference", "id": item["id"]} for item in second.streamed["output"])]
    after = {"role": "user", "content": prompt(["say", "on"])}
    third = await agent.create(input=[asked, *named, after], tools=_TOOLS)
    assert _place(third) == (_place(first)[0], "evidence=marker", "kind=prompt")


async def test_r10_the_clients_own_id_tells_conversations_apart(agent: Site) -> None:
    hello = prompt(["say", "hello"])
    first, second = [
        await agent.create(input=hello, headers={"x_conversation_id": name}) for name in ("a", "b")
    ]
    assert _place(first)[0] != _place(second)[0]
    history = [{"role": "user", "content": hello}, {"role": "assistant", "content": "hello"}]
    again = await agent.create(
        input=[*history, {"role": "user", "content": prompt(["say", "on"])}],
        headers={"x_conversation_id": "b"},
    )
    assert _place(again) == (_place(second)[0], "evidence=consumer_id", "kind=prompt")


@pytest.mark.parametrize(
    ("stop", "reason", "finish"),
    [
        ("max_tokens", "max_output_tokens", "length"),
        ("max_turn_requests", "max_output_tokens", "length"),
        ("refusal", "content_filter", "content_filter"),
    ],
)
async def test_r9_an_agents_stop_reasons_reach_the_client(
    agent: Site, stop: str, reason: str, finish: str
) -> None:
    steps = prompt(["say", "so far"], ["stop", stop])
    response = (await agent.create(input=steps, stream=True)).streamed
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": reason})
    assert ("refused to go on" in _said(response)) == (stop == "refusal")
    messages = [{"role": "user", "content": steps}]
    chat = (await agent.post("/v1/chat/completions", {"model": "m", "messages": messages})).json
    assert chat["choices"][0]["finish_reason"] == finish
    assert (chat["choices"][0]["message"]["refusal"] is None) == (stop != "refusal")


@pytest.mark.parametrize("names", ["kept", "dropped"])
async def test_r9_r10_a_refusal_that_comes_back_is_no_word_of_the_answer(agent: Site, names: str) -> None:
    steps = prompt(["say", "so far"], ["stop", "refusal"])
    asked = {"role": "user", "content": steps}
    after = {"role": "user", "content": prompt(["say", "two"])}
    first = await agent.create(input=steps)
    output = [
        {name: value for name, value in item.items() if names == "kept" or name != "id"}
        for item in first.response["output"]
    ]
    second = await agent.create(input=[asked, *output, after])
    assert (_place(second)[0], _place(second)[2]) == (_place(first)[0], "kind=prompt")
    assert _said(second.response) == "two"


async def test_r9_r10_a_refusal_that_comes_back_in_the_older_dialect(agent: Site) -> None:
    asked = {"role": "user", "content": prompt(["say", "so far"], ["stop", "refusal"])}
    after = {"role": "user", "content": prompt(["say", "two"])}
    first = await agent.post("/v1/chat/completions", {"model": "m", "messages": [asked]})
    message = first.json["choices"][0]["message"]
    assert message["refusal"]
    second = await agent.post("/v1/chat/completions", {"model": "m", "messages": [asked, message, after]})
    assert (_place(second)[0], _place(second)[2]) == (_place(first)[0], "kind=prompt")


async def test_r10_a_permission_is_a_function_call_for_a_client_that_offers_one(agent: Site) -> None:
    asked = (await agent.create(input=prompt(_RUN), tools=[_EXECUTE])).response
    (call,) = [item for item in asked["output"] if item["type"] == "function_call"]
    given = json.loads(call["arguments"])
    assert (call["name"], given["title"]) == ("dragoman-agent-action-execute", "Run it")
    decision = {"decision": "allow", "nonce": given["nonce"]}
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": json.dumps(decision)}
    after = (await agent.create(input=[output], previous_response_id=asked["id"], tools=[_EXECUTE])).response
    assert "<p: the-allow_once>" in _said(after)


@pytest.mark.parametrize(
    "output",
    [
        '{"decision": "deny", "reason": "no"}',
        '{"decision": "allow"}',
        '{"decision": "allow", "nonce": "made up"}',
        "allow",
        "",
        '{"decision": true}',
    ],
)
async def test_r10_nothing_but_the_decision_with_its_nonce_grants(agent: Site, output: str) -> None:
    asked = (await agent.create(input=prompt(_RUN), tools=[_EXECUTE])).response
    (call,) = [item for item in asked["output"] if item["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": output}
    after = (await agent.create(input=[result], previous_response_id=asked["id"], tools=[_EXECUTE])).response
    assert "<p: the-reject_once>" in _said(after)


@pytest.mark.parametrize("approve", [True, False])
async def test_r10_a_permission_is_an_item_for_a_client_that_asks_for_that(
    agent: Site, *, approve: bool
) -> None:
    steps = prompt(_RUN)
    asked = (await agent.create(input=steps, headers=_ITEMS, stream=True)).streamed
    (item,) = [item for item in asked["output"] if item["type"] == "mcp_approval_request"]
    assert json.loads(item["arguments"])["title"] == "Run it"
    answer = {"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": approve}
    # With the whole history, as a client that keeps it itself.
    history = [{"role": "user", "content": steps}, *asked["output"], answer]
    after = (await agent.create(input=history, headers=_ITEMS)).response
    assert f"<p: the-{'allow' if approve else 'reject'}_once>" in _said(after)
    # The same answer again is for nothing that is open.
    again = await agent.create(input=[*history, *after["output"], {"role": "user", "content": prompt(_RUN)}])
    assert "the-allow_once" not in _said(again.response)


@pytest.mark.parametrize("headers", [{}, _ITEMS])
async def test_r10_an_approval_item_is_no_answer_to_a_function_call(
    agent: Site, headers: dict[str, str]
) -> None:
    """Its id can be made from that of the call. The nonce is what proves that the client has read the question."""
    asked = (await agent.create(input=prompt(_RUN), tools=[_EXECUTE])).response
    (call,) = [item for item in asked["output"] if item["type"] == "function_call"]
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": f"mcpr_{call['call_id']}",
        "approve": True,
    }
    after = await agent.create(
        input=[answer], previous_response_id=asked["id"], tools=[_EXECUTE], headers=headers
    )
    assert "<p: the-reject_once>" in _said(after.response)


async def test_r10_without_either_the_policy_decides_and_says_so(agent: Site) -> None:
    response = (await agent.create(input=prompt(_RUN))).response
    assert "<p: the-reject_once>" in _said(response)
    assert 'It is refused by permission = "deny" in [models.fake]' in _said(response)


async def test_r10_an_agent_that_does_not_start_is_told_by_the_status(tmp_path: Path) -> None:
    bridge = Bridge(tmp_path)
    for made in site_of(_models(bridge)):
        answered = await made.create(input=prompt(["exit", 3]), stream=True)
        assert (answered.status, answered.error["code"]) == (500, "agent_failed")
        assert answered.headers["x-should-retry"] == "false"
    await bridge.close()


async def test_r10_a_result_of_a_call_that_nothing_made_prompts_nothing(agent: Site) -> None:
    first = await agent.create(input=prompt(["say", "hello"]))
    made_up = {"type": "function_call_output", "call_id": "dg_made_up", "output": "x"}
    previous = first.response["id"]
    refused = await agent.create(input=[made_up], previous_response_id=previous)
    assert (refused.status, refused.error["code"]) == (400, "bad_request")
    assert "dg_made_up" in refused.error["message"]
    beside = [made_up, {"role": "user", "content": prompt(["say", "only this"])}]
    assert _said((await agent.create(input=beside, previous_response_id=previous)).response) == "only this"


async def test_h11_a_title_that_opencode_asks_for_starts_no_work(tmp_path: Path) -> None:
    bridge = Bridge(tmp_path)
    bridge.chat(permission="allow")
    for made in site_of(_models(bridge)):
        ask = ["ask", {"toolCallId": "p", "title": "Run", "kind": "execute"}, ["allow_once", "reject_once"]]
        messages = [
            {"role": "system", "content": "You are a title generator. You output ONLY a thread title."},
            {"role": "user", "content": "Generate a title for this conversation:\n"},
            {"role": "user", "content": prompt(ask)},
        ]
        title = await made.post("/v1/chat/completions", {"model": "m", "messages": messages})
        assert _place(title) == ("-", "evidence=none", "kind=aside")
        assert "allow_once>" not in title.json["choices"][0]["message"]["content"]
    await bridge.close()


async def test_r10_after_a_response_is_deleted_nothing_of_its_conversation_is_in_the_state(
    tmp_path: Path,
) -> None:
    state, words = tmp_path / "state", "a word that nobody may find again"

    def left() -> list[str]:
        return [
            path.name for path in state.iterdir() if path.is_file() and words.encode() in path.read_bytes()
        ]

    bridge = Bridge(tmp_path)
    with Database.open(state) as database:
        bridge.store_in(database)
        for made in site_of(_models(bridge), store=state):
            first = (await made.create(input=words)).response
            second = (await made.create(input="and on", previous_response_id=first["id"])).response
            assert left()
            assert (await made.call("DELETE", f"/v1/responses/{first['id']}", b"")).status == 200
            assert left(), "the conversation goes on with the second response"
            assert (await made.call("DELETE", f"/v1/responses/{second['id']}", b"")).status == 200
            assert left() == []
            # What is deleted is not found again, also where its agent still runs.
            history = [
                {"role": "user", "content": "and on"},
                *second["output"],
                {"role": "user", "content": "who?"},
            ]
            again = await made.create(input=history)
            assert _place(again)[2] == "kind=fresh"
        await bridge.close()
        await soon(all_gone(bridge.pids))
        assert left() == [], "nor is it written again at the end"


async def test_j4_store_false_leaves_nothing_that_was_said_in_the_state(tmp_path: Path) -> None:
    state, words = tmp_path / "state", "a word that is said once"
    bridge = Bridge(tmp_path)
    with Database.open(state) as database:
        bridge.store_in(database)
        for made in site_of(_models(bridge), store=state):
            first = await made.create(input=words, store=False)
            assert words in _said(first.response)
            history = [{"role": "user", "content": words}, *first.response["output"]]
            after = await made.create(input=[*history, {"role": "user", "content": "on"}], store=False)
            assert _place(after)[1:] == ("evidence=marker", "kind=prompt")
        await bridge.close()
        await soon(all_gone(bridge.pids))
    assert [path.name for path in state.iterdir() if words.encode() in path.read_bytes()] == []


async def test_d5_d6_rules_hold_for_clients_over_http(tmp_path: Path) -> None:
    """The one is allowed, the next refused, and the third is a question with the rule in it, or refused."""
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[policy]]\ndecision = "allow"\ncommand = ["ls"]\n'
        '[[policy]]\ndecision = "deny"\ncommand = ["rm"]\nargs = "any"\nreason = "Nothing is deleted."\n'
        '[[policy]]\ndecision = "ask"\ncommand = ["make"]\nreason = "It takes long."\n'
    )

    def run(command: str) -> str:
        call = {"toolCallId": "p", "title": "Run it", "kind": "execute", "rawInput": {"command": command}}
        return prompt(["ask", call, ["allow_once", "reject_once"]])

    bridge = Bridge(tmp_path)
    bridge.chat(permission="allow")
    bridge.permissions.rules.policy = policy_of(load(rules))
    for made in site_of(_models(bridge)):
        assert "<p: the-allow_once>" in _said((await made.create(input=run("ls"), tools=[_EXECUTE])).response)
        refused = _said((await made.create(input=run("rm x"), tools=[_EXECUTE])).response)
        assert "<p: the-reject_once>" in refused
        assert "Nothing is deleted." in refused
        for asking in ({"tools": [_EXECUTE]}, {"headers": _ITEMS}):
            asked = (await made.create(input=run("make"), **asking)).response
            [item] = [item for item in asked["output"] if "arguments" in item]
            details = json.loads(item["arguments"])["details"].replace("↩\n", "")
            assert f"The rule at {rules}:9 asks about this every time: It takes long." in details
        # This client cannot ask, and `permission = "allow"` does not replace the person.
        unasked = _said((await made.create(input=run("make"))).response)
        assert "<p: the-reject_once>" in unasked
        assert "It takes long." in unasked
    await bridge.close()
