"""What an agent does, in one process: as parts for a consumer that has them, as text for any other."""

from __future__ import annotations

import pytest

from bridge.consumer import Bridge, Chat, result
from dragoman.lm import ActivityPart, DataPart, Features, PlanEntry, PlanPart, Response, UsagePart
from dragoman.lm.json import decode

pytestmark = pytest.mark.long

_PLAN = {"sessionUpdate": "plan", "entries": [{"content": "Look", "priority": "high", "status": "pending"}]}


def _update(**fields: object) -> list[object]:
    return ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "t", **fields}]


def _output(text: str) -> list[object]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


_BEGUN = _update(title="Run", kind="execute", status="in_progress", content=_output("one\n"))
_GROWN = _update(content=_output("one\ntwo\n"))
_ENDED = _update(status="completed", rawOutput={"exit_code": 0})


def _structured(chat: Chat) -> Chat:
    chat.features = Features(thinking=True, data=True, activity=True)
    return chat


def _activities(response: Response) -> list[ActivityPart]:
    return [part for part in response.parts if isinstance(part, ActivityPart)]


async def test_what_was_written_in_one_response_is_not_repeated_in_the_next(bridge: Bridge) -> None:
    chat = bridge.chat()
    asked = await chat.do(
        ["update", _PLAN], _BEGUN, ["call", "look", {}], ["update", _PLAN], _GROWN, _ENDED, ["say", "."]
    )
    assert asked.thinking == "\n\n☐ Look  \n\n\n\n▸ Run\n\n    one\n    "
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert answer.thinking == "\n\n▸ Run …\n\n    two\n    \n\n✓ Run\n"


async def test_a_step_goes_on_under_its_id_in_the_next_response(bridge: Bridge) -> None:
    chat = _structured(bridge.chat())
    asked = await chat.do(["update", _PLAN], _BEGUN, ["call", "look", {}], _GROWN, _ENDED, ["say", "."])
    assert [part for part in asked.parts if isinstance(part, PlanPart)] == [
        PlanPart((PlanEntry("Look", "high", "pending"),))
    ]
    (begun,) = _activities(asked)
    assert (begun.title, begun.status, begun.output) == ("Run", "in_progress", "one\n")
    answer = await chat.give(result(asked.calls[0], "seen"))
    (ended,) = _activities(answer)
    assert ended.id == begun.id
    assert (ended.status, ended.output, ended.exit_status) == ("completed", "one\ntwo\n", 0)
    assert asked.thinking == answer.thinking == ""
    # The history that has them is known for what it is: the agent is told nothing of it again.
    assert await chat.echo() == ["still there?"]


async def test_an_agent_that_takes_over_is_told_nothing_of_them(bridge: Bridge) -> None:
    chat = _structured(bridge.chat())
    await chat.do(_BEGUN, _ENDED, ["say", "said"])
    other = Chat(chat.model, chat.folder, history=list(chat.history), connection="another")
    transcript = "\n".join(await other.echo())
    _, _, heard = transcript.rpartition("Assistant: ")
    assert heard.startswith("said\n")
    assert "Run" not in heard


async def test_usage_is_what_the_agent_says(bridge: Bridge) -> None:
    chat = _structured(bridge.chat())
    counted = {
        "sessionUpdate": "usage_update",
        "used": 10,
        "size": 100,
        "cost": {"amount": 1, "currency": "EUR"},
    }
    answer = await chat.do(["update", counted], ["say", "."])
    assert [part for part in answer.parts if isinstance(part, UsagePart)] == [
        UsagePart(context_used=10, context_size=100, cost=1, currency="EUR")
    ]
    assert not any(part.mime_type == "usage" for part in answer.data)


async def test_the_context_is_told_to_a_consumer_without_the_part(bridge: Bridge) -> None:
    answer = await bridge.chat().do(
        ["update", {"sessionUpdate": "usage_update", "used": 10, "size": 100}], ["say", "."]
    )
    assert not [part for part in answer.parts if isinstance(part, UsagePart)]
    assert [
        decode(part.data) for part in answer.parts if isinstance(part, DataPart) and part.mime_type == "usage"
    ] == [{"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10, "context_size": 100}]


async def test_a_step_that_goes_on_while_nobody_listens_is_kept_as_it_is_in_the_end(bridge: Bridge) -> None:
    chat = _structured(bridge.chat())
    growing = [_update(content=_output("x" * (3_000 * number))) for number in range(1, 22)]
    late = ["row", [["gate", "later"], _BEGUN, *growing, _ENDED, ["say", "[kept]"]]]
    asked = await chat.do(["all", [["call", "look", {}], late]])
    bridge.open_gate("later")
    await bridge.until_kept("[kept]")
    answer = await chat.give(result(asked.calls[0], "seen"))
    (step,) = _activities(answer)
    assert (step.status, len(step.output or "")) == ("completed", 63_000)
    assert "left out" not in answer.thinking


async def test_a_usage_that_came_while_no_reply_was_open_comes_with_the_next(bridge: Bridge) -> None:
    chat = _structured(bridge.chat())
    usage = ["update", {"sessionUpdate": "usage_update", "used": 10, "size": 100}]
    asked = await chat.do(
        ["all", [["call", "look", {}], ["row", [["gate", "g"], usage, ["say", "late"]]]]], ["say", "."]
    )
    bridge.open_gate("g")
    await bridge.until_kept("late")
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert UsagePart(context_used=10, context_size=100) in answer.parts


async def test_output_that_goes_on_in_the_next_response_has_its_title_and_is_indented(bridge: Bridge) -> None:
    chat = bridge.chat()
    forged = _update(content=_output("one\n# forged\n"))
    asked = await chat.do(
        ["all", [["row", [_BEGUN, ["call", "look", {}]]], ["row", [["gate", "g"], forged, ["say", "late"]]]]],
        ["say", "."],
    )
    bridge.open_gate("g")
    await bridge.until_kept("late")
    answer = await chat.give(result(asked.calls[0], "seen"))
    assert answer.thinking.startswith("\n\n▸ Run …\n\n    # forged\n")
