"""R7, R10: what an endpoint sends and no part has a form for reaches the client, and the endpoint again, unchanged."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from http_server.kit import Held, Json, Site, site_of
from http_server.real_server import endpoint_at
from responses.endpoint import Endpoint, endpoint as endpoint_, said, whole

_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_PICTURE = {
    "type": "image_generation_call",
    "id": "ig_1",
    "status": "completed",
    "result": _PNG,
    "size": "1x1",
}
_OTHERS: list[Json] = [
    _PICTURE,
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "patch", "input": "*** Begin"},
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    },
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": None},
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "code": "1+1",
        "container_id": "x",
    },
    {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "c2",
        "status": "completed",
        "action": {"type": "exec"},
    },
    {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "n", "arguments": "{}", "output": "o"},
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []},
    {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "n", "arguments": "{}"},
    {"type": "computer_call", "id": "cu_1", "call_id": "c3", "action": {"type": "click", "x": 1}},
    {"type": "acme:thing", "id": "t", "any": [1, 2.5, {"x": None}]},
]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[Site, Endpoint]]:
    """A site whose model is at an endpoint that replies as the test says."""
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(endpoint_())
        model = await stack.enter_async_context(endpoint_at(endpoint.url))
        made = stack.enter_context(contextmanager(site_of)(Held(m=model), store=tmp_path))
        yield made, endpoint


def _done(*items: Json) -> Iterator[Json]:
    for place, item in enumerate(items):
        yield {
            "type": "response.output_item.added",
            "output_index": place,
            "item": {**item, "status": "in_progress"},
        }
        yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _answer(*items: Json, **fields: object) -> list[Json]:
    return [*_done(*items), {"type": "response.completed", "response": whole("completed", *items, **fields)}]


@pytest.mark.parametrize("item", _OTHERS, ids=lambda item: item["type"])
@pytest.mark.parametrize("streams", [False, True])
async def test_r10_an_item_of_an_endpoint_goes_to_the_client_and_back_unchanged(
    served: tuple[Site, Endpoint],
    item: Json,
    streams: bool,  # noqa: FBT001 - a table
) -> None:
    made, endpoint = served
    endpoint.will(_answer(item), said("Yes."))
    first = await made.create(input="x", **({"stream": True} if streams else {}))
    response = first.data[-1]["response"] if streams else first.json
    assert response["status"] == "completed"
    assert response["output"] == [item]
    # In the client's own history.
    await made.create(input=[{"role": "user", "content": "x"}, item, {"role": "user", "content": "y"}])
    assert item in endpoint.posts[-1].json["input"]
    # In the history that the server has.
    await made.create(input="z", previous_response_id=response["id"])
    assert item in endpoint.posts[-1].json["input"]


async def test_r10_an_endpoint_that_sends_no_events_has_the_same_items(served: tuple[Site, Endpoint]) -> None:
    made, endpoint = served
    endpoint.will([{"type": "response.completed", "response": whole("completed", *_OTHERS)}])
    assert (await made.create(input="x")).json["output"] == _OTHERS


async def test_r7_events_about_an_items_of_an_endpoint_have_its_place_in_the_response(
    served: tuple[Site, Endpoint],
) -> None:
    made, endpoint = served
    begun = {**_PICTURE, "status": "in_progress", "result": None}
    partial = {
        "type": "response.image_generation_call.partial_image",
        "item_id": "ig_1",
        "output_index": 1,
        "partial_image_b64": _PNG,
        "partial_image_index": 0,
    }
    events = said("Here. ")[:-1]
    events += [
        {"type": "response.output_item.added", "output_index": 1, "item": begun},
        partial,
        {"type": "response.output_item.done", "output_index": 1, "item": _PICTURE},
        {"type": "response.completed", "response": whole("completed", _PICTURE)},
    ]
    endpoint.will(events)
    sent = (await made.create(input="x", stream=True)).data
    about = [event for event in sent if event.get("output_index") == 1]
    assert [event["type"] for event in about] == [
        "response.output_item.added",
        "response.image_generation_call.partial_image",
        "response.output_item.done",
    ]
    assert {**partial, "sequence_number": about[1]["sequence_number"]} == about[1]
    assert [event["sequence_number"] for event in sent] == list(range(len(sent)))
    assert [item["type"] for item in sent[-1]["response"]["output"]] == ["message", "image_generation_call"]


async def test_r10_a_refusal_is_a_refusal_and_the_response_is_completed(
    served: tuple[Site, Endpoint],
) -> None:
    made, endpoint = served
    refusal = {"type": "refusal", "refusal": "I will not."}
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [refusal],
    }
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    endpoint.will(
        [
            {"type": "response.output_item.added", "output_index": 0, "item": {**message, "content": []}},
            {"type": "response.refusal.delta", **place, "delta": "I will "},
            {"type": "response.refusal.delta", **place, "delta": "not."},
            {"type": "response.refusal.done", **place, "refusal": "I will not."},
            *_answer(message),
        ]
    )
    streamed = await made.create(input="x", stream=True)
    response = streamed.streamed
    assert (response["status"], response["incomplete_details"]) == ("completed", None)
    assert [item["content"] for item in response["output"]] == [[refusal]]
    kinds = [event["type"] for event in streamed.data]
    assert kinds.count("response.refusal.delta") == 2
    # And back, as a refusal.
    await made.create(input="y", previous_response_id=response["id"])
    assert [refusal] in [item["content"] for item in endpoint.posts[-1].json["input"]]
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    choice = (await made.post("/v1/chat/completions", body)).json["choices"][0]
    assert (choice["message"]["refusal"], choice["finish_reason"]) == ("I will not.", "stop")


async def test_r10_annotations_and_fields_of_a_message_pass_both_ways(served: tuple[Site, Endpoint]) -> None:
    made, endpoint = served
    cited = {
        "type": "url_citation",
        "url": "https://a.example/",
        "title": "A",
        "start_index": 0,
        "end_index": 3,
    }
    content = [{"type": "output_text", "text": "Yes.", "annotations": [cited], "logprobs": []}]
    events = said("Yes.")
    message = {**events[-2]["item"], "content": content, "phase": "final_answer"}
    events[1]["item"]["phase"] = "final_answer"
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "annotation_index": 0}
    events.insert(4, {"type": "response.output_text.annotation.added", **place, "annotation": cited})
    events[-1]["response"]["output"] = [message]
    events[-2]["item"] = message
    endpoint.will(events)
    streamed = await made.create(input="x", stream=True)
    response = streamed.streamed
    (item,) = response["output"]
    assert (item["content"], item["phase"]) == (content, "final_answer")
    added = [event for event in streamed.data if event["type"] == "response.output_text.annotation.added"]
    assert [event["annotation"] for event in added] == [cited]
    await made.create(input=[{"role": "user", "content": "x"}, item, {"role": "user", "content": "y"}])
    sent = endpoint.posts[-1].json["input"][1]
    assert (sent["content"], sent["phase"]) == (content, "final_answer")
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    said_in_chat = (await made.post("/v1/chat/completions", body)).json["choices"][0]["message"]
    deeper = {key: value for key, value in cited.items() if key != "type"}
    assert said_in_chat["annotations"] == [{"type": "url_citation", "url_citation": deeper}]
    assert said_in_chat["content"] == "Yes."


async def test_r10_two_messages_of_an_endpoint_are_two_messages(served: tuple[Site, Endpoint]) -> None:
    made, endpoint = served
    first = said("One.")[1:-1]
    second = [
        {
            **event,
            "output_index": 1,
            **({"item_id": "msg_2"} if "item_id" in event else {}),
            **({"item": {**event["item"], "id": "msg_2"}} if "item" in event else {}),
        }
        for event in first
    ]
    output = [event["item"] for event in (first[-1], second[-1])]
    endpoint.will([*first, *second, {"type": "response.completed", "response": whole("completed", *output)}])
    texts = [item["content"][0]["text"] for item in (await made.create(input="x")).response["output"]]
    assert texts == ["One.", "One."]
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    chat = (await made.post("/v1/chat/completions", body)).json
    assert chat["choices"][0]["message"]["content"] == "One.\n\nOne."


async def test_r10_reasoning_goes_to_the_client_and_back_with_its_encrypted_content(
    served: tuple[Site, Endpoint],
) -> None:
    made, endpoint = served
    summary = [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}]
    thought = {
        "type": "reasoning",
        "id": "rs_7",
        "summary": summary,
        "encrypted_content": "SEALED",
        "content": [],
    }
    hidden = {"type": "reasoning", "id": "rs_8", "summary": [], "encrypted_content": "ALSO", "content": []}
    endpoint.will([*_done(thought, hidden), *said("Yes.")[1:]])
    response = (await made.create(input="x")).json
    kept = {item["id"]: item for item in response["output"] if item["type"] == "reasoning"}
    assert (kept["rs_7"]["summary"], kept["rs_7"]["encrypted_content"]) == (summary, "SEALED")
    assert kept["rs_8"]["encrypted_content"] == "ALSO"
    history = [{"role": "user", "content": "x"}, *response["output"], {"role": "user", "content": "y"}]
    await made.create(input=history)
    sent = [item for item in endpoint.posts[-1].json["input"] if item["type"] == "reasoning"]
    without = [{key: value for key, value in item.items() if key != "content"} for item in (thought, hidden)]
    assert sent == without


async def test_r10_all_details_of_an_endpoints_usage_are_in_the_response(
    served: tuple[Site, Endpoint],
) -> None:
    made, endpoint = served
    usage = {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 5, "audio_tokens": 1},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2, "accepted_prediction_tokens": 1},
        "total_tokens": 12,
        "cost_in_cents": 0.5,
    }
    events = said("Yes.")
    events[-1]["response"]["usage"] = usage
    endpoint.will(events)
    assert (await made.create(input="x")).json["usage"] == usage
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    counted = (await made.post("/v1/chat/completions", body)).json["usage"]
    assert counted["prompt_tokens_details"] == usage["input_tokens_details"]
    assert counted["completion_tokens_details"] == usage["output_tokens_details"]


async def test_r10_log_probabilities_reach_a_client_that_asks_for_them(served: tuple[Site, Endpoint]) -> None:
    made, endpoint = served
    likely = [{"token": "Yes", "bytes": [89], "logprob": -0.1, "top_logprobs": []}]
    events = said("Yes.")
    events[3]["logprobs"] = likely
    endpoint.will(events)
    asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 1}
    streamed = await made.create(input="x", stream=True, **asked)
    deltas = [event for event in streamed.data if event["type"] == "response.output_text.delta"]
    assert deltas[0]["logprobs"] == likely
    assert streamed.streamed["output"][0]["content"][0]["logprobs"] == likely
    assert "x-dragoman-ignored" not in streamed.headers
    sent = endpoint.posts[-1].json
    assert sent["include"] == ["message.output_text.logprobs", "reasoning.encrypted_content"]


async def test_t14_tools_of_all_types_and_a_choice_of_one_reach_an_endpoint(
    served: tuple[Site, Endpoint],
) -> None:
    made, endpoint = served
    endpoint.will(said("Yes."))
    tools = [
        {"type": "custom", "name": "patch", "format": {"type": "text"}},
        {"type": "web_search", "filters": {}},
    ]
    choice = {"type": "custom", "name": "patch"}
    answered = await made.create(input="x", tools=tools, tool_choice=choice)
    assert answered.json["status"] == "completed"
    assert (endpoint.posts[-1].json["tools"], endpoint.posts[-1].json["tool_choice"]) == (tools, choice)
    assert "x-dragoman-ignored" not in answered.headers


async def test_r10_content_that_only_an_endpoint_can_read_reaches_it(served: tuple[Site, Endpoint]) -> None:
    made, endpoint = served
    endpoint.will(said("Yes."))
    parts = [
        {"type": "input_text", "text": "x"},
        {"type": "input_image", "image_url": "https://a.example/x.png", "detail": "high"},
        {"type": "input_file", "file_id": "file_1"},
    ]
    message = {"type": "message", "role": "user", "content": parts}
    answered = await made.create(input=[message])
    assert endpoint.posts[-1].json["input"] == [message]
    assert "x-dragoman-ignored" not in answered.headers


async def test_r10_what_an_endpoint_cannot_be_sent_is_named_as_ignored(served: tuple[Site, Endpoint]) -> None:
    made, endpoint = served
    endpoint.will(said("Yes."))
    zipped = {"type": "input_file", "filename": "x.zip", "file_data": "data:application/zip;base64,UEs="}
    answered = await made.create(input=[{"role": "user", "content": [zipped]}])
    assert answered.headers["x-dragoman-ignored"] == "input (application/zip)"
    assert answered.response["metadata"]["dragoman.ignored"] == "input (application/zip)"


async def test_r7_a_completion_has_a_custom_call_and_a_line_for_what_it_has_no_form_for(
    served: tuple[Site, Endpoint],
) -> None:
    made, endpoint = served
    endpoint.will(_answer(_OTHERS[1], _OTHERS[2]))
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    message = (await made.post("/v1/chat/completions", body)).json["choices"][0]["message"]
    call = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    assert message["tool_calls"] == [call]
    assert "web_search_call" in message["content"]
    assert "empty answer" not in message["content"]
