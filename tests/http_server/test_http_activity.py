"""R7, R10: an agent's steps and plans as items, for clients that ask for them."""

import json
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.frontends.http.activity_items import ITEM_TYPES
from dragoman.lm import (
    ActivityPart,
    CancellationToken,
    DataPart,
    LanguageModelError,
    Message,
    PlanEntry,
    PlanPart,
    Request,
    Sink,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from dragoman.lm.parts import ActivityLocation
from http_server.kit import TOOL, Held, Json, Site, site_of
from lm.providers import Provider

_Make = Callable[..., Site]
_ITEMS = {"x_dragoman_activity": "items"}
_BEGUN = ActivityPart("act_1", "Run *it*", "execute", "in_progress", output="one")
_GROWN = ActivityPart("act_1", "Run *it*", "execute", "in_progress", output="one two")
_ENDED = ActivityPart("act_1", "Run *it*", "execute", "completed", output="one two", exit_status=0)
_EDIT = ActivityPart(
    "act_2", "Edit", "edit", "failed", (ActivityLocation("/a.py", 3),), "--- a.py\n+++ a.py\n"
)
_PLAN, _NEXT_PLAN = (PlanPart((PlanEntry("Look", "high", status),)) for status in ("pending", "completed"))


def _shown(response: Json) -> list[Json]:
    return [item for item in response["output"] if item["type"] in ITEM_TYPES]


def _steps(events: list[Json]) -> list[tuple[str, object]]:
    """The events about items, each with its index."""
    return [
        (event["type"].removeprefix("response.output_item."), event["output_index"])
        for event in events
        if "item" in event
    ]


async def test_r10_a_step_is_one_item_and_its_last_state(playing: _Make) -> None:
    made = playing(_BEGUN, TextPart("Running. "), _GROWN, TextPart("Done."), _ENDED, _EDIT)
    response = (await made.create(input="x", headers=_ITEMS)).response
    assert [item["type"] for item in response["output"]] == [
        "dragoman:activity",
        "message",
        "dragoman:activity",
    ]
    assert response["output"][1]["content"][0]["text"] == "Running. Done."
    assert _shown(response) == [
        {
            "type": "dragoman:activity",
            "id": "act_1",
            "status": "completed",
            "title": "Run *it*",
            "kind": "execute",
            "activity_status": "completed",
            "locations": [],
            "diff": None,
            "output": "one two",
            "exit_status": 0,
        },
        {
            "type": "dragoman:activity",
            "id": "act_2",
            "status": "failed",
            "title": "Edit",
            "kind": "edit",
            "activity_status": "failed",
            "locations": [{"path": "/a.py", "line": 3}],
            "diff": "--- a.py\n+++ a.py\n",
            "output": None,
            "exit_status": None,
        },
    ]


async def test_r10_a_stream_says_when_a_step_begins_changes_and_ends(playing: _Make) -> None:
    made = playing(TextPart("Now. "), _BEGUN, TextPart("Running."), _GROWN, _ENDED, TextPart(" Done."))
    answered = await made.create(input="x", stream=True, headers=_ITEMS)
    assert _shown(answered.streamed)[0]["exit_status"] == 0
    assert _steps(answered.data) == [
        ("added", 0),
        ("done", 0),
        ("added", 1),
        ("added", 2),
        ("dragoman:activity.updated", 1),
        ("done", 1),
        ("done", 2),
    ]
    (updated,) = [event for event in answered.data if event["type"] == "dragoman:activity.updated"]
    assert (updated["item_id"], updated["item"]["output"]) == ("act_1", "one two")
    assert updated["item"]["status"] == "in_progress"


async def test_r10_a_plan_is_one_item_that_ends_with_the_response(playing: _Make) -> None:
    made = playing(_PLAN, TextPart("First. "), _PLAN, _NEXT_PLAN, TextPart("Done."))
    answered = await made.create(input="x", stream=True, headers=_ITEMS)
    (plan,) = _shown(answered.streamed)
    assert plan["entries"] == [{"text": "Look", "priority": "high", "status": "completed"}]
    assert (plan["type"], plan["status"]) == ("dragoman:plan", "completed")
    assert _steps(answered.data) == [
        ("added", 0),
        ("added", 1),
        ("dragoman:plan.updated", 0),
        ("done", 1),
        ("done", 0),
    ]


async def test_r10_a_step_that_goes_on_after_the_response_says_so(playing: _Make) -> None:
    made = playing(_BEGUN, ToolCallPart("dg_1", "look", {}))
    answered = await made.create(input="x", stream=True, tools=[TOOL], headers=_ITEMS)
    (step,) = _shown(answered.streamed)
    assert (step["status"], step["activity_status"]) == ("completed", "in_progress")


async def test_r10_what_comes_after_the_end_of_a_step_is_not_lost(playing: _Make) -> None:
    late = ActivityPart("act_1", "Run *it*", "execute", "completed", output="one two three", exit_status=0)
    made = playing(_BEGUN, _ENDED, late, TextPart("Done."))
    answered = await made.create(input="x", stream=True, headers=_ITEMS)
    (step,) = _shown(answered.streamed)
    assert step["output"] == "one two three"
    assert _steps(answered.data)[:3] == [("added", 0), ("done", 0), ("dragoman:activity.updated", 0)]


async def test_r10_a_failure_ends_the_steps_as_well(playing: _Make) -> None:
    made = playing(_BEGUN, TextPart("Half"), then=LanguageModelError("agent_failed", "It broke."))
    response = (await made.create(input="x", stream=True, headers=_ITEMS)).streamed
    assert response["status"] == "failed"
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


@pytest.mark.parametrize("headers", [{}, {"x_dragoman_approvals": "items"}])
async def test_r10_other_clients_get_thinking(playing: _Make, headers: dict[str, str]) -> None:
    made = playing(_PLAN, _BEGUN, _ENDED, TextPart("Done."))
    for stream in (False, True):
        answered = await made.create(input="x", stream=stream, headers=headers)
        response = answered.streamed if stream else answered.response
        assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
        assert "▸ Run" in response["output"][0]["summary"][0]["text"]


async def test_r10_chat_completions_have_thinking_in_any_case(playing: _Make) -> None:
    made = playing(_BEGUN, _ENDED, TextPart("Done."))
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    plain = (await made.post("/v1/chat/completions", body)).json["choices"]
    assert (await made.post("/v1/chat/completions", body, **_ITEMS)).json["choices"] == plain
    assert "▸ Run" in plain[0]["message"]["reasoning_content"]


async def test_r10_items_that_come_back_are_taken_and_reach_no_model(playing: _Make, tmp_path: Path) -> None:
    sent = playing(_PLAN, ThinkingPart("Hm."), _BEGUN, TextPart("One."), _ENDED)
    told = (await sent.create(input="x", headers=_ITEMS)).response["output"]
    assert {item["type"] for item in told} >= ITEM_TYPES
    given: list[Message] = []

    async def body(request: Request, sink: Sink, _token: CancellationToken) -> None:
        given.extend(request.messages)
        sink.report(TextPart("Two."))

    with contextmanager(site_of)(Held(m=Provider(body)), store=tmp_path / "other") as made:
        items = [{"role": "user", "content": "x"}, *told]
        packed = (await made.post("/v1/responses/compact", {"model": "m", "input": items})).json["output"]
        for history in (items, packed):
            given.clear()
            answered = await made.create(input=[*history, {"role": "user", "content": "And now?"}])
            assert answered.response["metadata"] == {}
            assert "x-dragoman-ignored" not in answered.headers
            spoken = given[1].content
            assert [part for part in spoken if not isinstance(part, DataPart)] == [
                ThinkingPart("Hm."),
                TextPart("One."),
            ]


async def test_r10_items_are_stored_with_their_response(playing: _Make) -> None:
    made = playing(_BEGUN, _ENDED, TextPart("Done."))
    first = (await made.create(input="x", headers=_ITEMS)).response
    assert (await made.get(f"/v1/responses/{first['id']}")).json == first
    second = await made.create(input="y", previous_response_id=first["id"])
    assert (second.status, "x-dragoman-ignored" in second.headers) == (200, False)


@pytest.mark.parametrize("value", ["text", "", "items, text", "true"])
async def test_r10_another_value_of_the_header_is_an_error(playing: _Make, value: str) -> None:
    answered = await playing(TextPart("x")).create(input="x", headers={"x_dragoman_activity": value})
    assert (answered.status, answered.error["param"]) == (400, "x-dragoman-activity")
    assert "`items`" in json.dumps(answered.error["message"])
