"""R10: `POST /v1/responses/input_tokens` counts what a request would bring to its model."""

from collections.abc import Callable

from dragoman.backends.scripted import reply, say
from dragoman.lm import ToolDefinition, estimate_tokens, system, user
from dragoman.lm.json import encode_text
from http_server.kit import TOOL, Site

_Make = Callable[..., Site]


async def _count(made: Site, **fields: object) -> int:
    counted = (await made.post("/v1/responses/input_tokens", {"model": "m", **fields})).json
    assert counted.keys() == {"object", "input_tokens"}
    assert counted["object"] == "response.input_tokens"
    return int(counted["input_tokens"])


async def test_r10_the_tokens_of_input_instructions_and_tools_are_counted(site: _Make) -> None:
    made = site("Yes.")
    asked = estimate_tokens(user("How long is this?"))
    assert await _count(made, input="How long is this?") == asked
    told = asked + estimate_tokens(system("Be brief."))
    assert await _count(made, input="How long is this?", instructions="Be brief.") == told
    tool = ToolDefinition(TOOL["name"], TOOL["description"], TOOL["parameters"])
    offered = asked + estimate_tokens(encode_text(tool))
    assert await _count(made, input="How long is this?", tools=[TOOL]) == offered
    assert await _count(made, input="How long is this?", tools=[TOOL], tool_choice="none") == asked


async def test_r10_the_history_counts_however_it_is_named(site: _Make) -> None:
    made = site("Yes, indeed.", "Yes, indeed.")
    conversation = (await made.post("/v1/conversations", {})).json["id"]
    first = (await made.create(input="Is it?")).response
    await made.create(input="Is it?", conversation=conversation)
    history = [{"role": "user", "content": "Is it?"}, *first["output"]]
    after = {"role": "user", "content": "Really?"}
    whole = await _count(made, input=[*history, after])
    assert whole > await _count(made, input=[after])
    assert await _count(made, input=[after], previous_response_id=first["id"]) == whole
    assert await _count(made, input=[after], conversation=conversation) == whole
    named = {"type": "item_reference", "id": first["output"][0]["id"]}
    assert await _count(made, input=[history[0], named, after]) == whole


async def test_r10_counting_runs_and_stores_nothing(site: _Make) -> None:
    made = site(reply(say("Only once.")))
    conversation = (await made.post("/v1/conversations", {})).json["id"]
    await _count(made, input="x", conversation=conversation)
    assert (await made.get(f"/v1/conversations/{conversation}/items")).json["data"] == []
    assert "dragoman_responses_total{" not in (await made.get("/metrics")).writes[0].decode()


async def test_r10_what_cannot_be_created_cannot_be_counted(site: _Make) -> None:
    made = site("Yes.")
    for fields, param in (
        ({"input": "x", "temperature": 9}, "temperature"),
        ({"input": "x", "previous_response_id": "resp_none"}, "previous_response_id"),
        ({"input": [{"type": "item_reference", "id": "msg_none"}]}, "input[0]"),
    ):
        refused = await made.post("/v1/responses/input_tokens", {"model": "m", **fields})
        assert refused.error["param"] == param
    refused = await made.post("/v1/responses/input_tokens", {"input": "x"})
    assert refused.error["code"] == "missing_required_parameter"
