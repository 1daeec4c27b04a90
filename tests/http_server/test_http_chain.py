"""R10: a chain of two servers loses nothing that one keeps. Both listen on loopback; a real agent is behind the inner one."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from dragoman.lm import GuardedModel, LanguageModelError, Part, Stopped, TextPart, UsagePart
from fake_agent.steps import prompt
from http_server.chains import Chain, agent_chain, chain_of
from http_server.kit import Held, Json, function
from lm.providers import plays

pytestmark = pytest.mark.long

_BOTH = ["allow_once", "reject_once"]
_RUN: list[object] = ["ask", {"toolCallId": "p", "title": "Run it", "kind": "execute"}, _BOTH]
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


_Make = Callable[..., Any]


@pytest.fixture
async def chained(tmp_path: Path) -> AsyncIterator[_Make]:
    """Makes a chain with these models behind."""
    async with AsyncExitStack() as stack:

        async def made(models: Held) -> Chain:
            return await stack.enter_async_context(chain_of(models, tmp_path))

        yield made


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Chain]:
    async with agent_chain(tmp_path) as chain:
        yield chain


def _plays(*parts: Part, then: BaseException | None = None) -> Held:
    return Held(m=GuardedModel(plays(*parts, then=then)))


def _texts(response: Json) -> str:
    return "".join(
        part.get("text", "")
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


async def test_r10_an_agents_conversation_goes_on_by_the_ids_of_its_messages(agent: Chain) -> None:
    first = await agent.create(input=prompt(["say", "one"]))
    conversation = first.headers["x-dragoman-conversation"].partition(";")[0]
    history = [{"role": "user", "content": prompt(["say", "one"])}, *first.json()["output"]]
    second = await agent.create(input=[*history, {"role": "user", "content": prompt(["say", "two"])}])
    assert _texts(second.json()) == "two"
    assert second.headers["x-dragoman-conversation"] == f"{conversation}; evidence=marker; kind=prompt"
    third = await agent.create(input=prompt(["say", "three"]), previous_response_id=second.json()["id"])
    assert third.headers["x-dragoman-conversation"] == f"{conversation}; evidence=marker; kind=prompt"


async def test_r10_what_the_inner_server_ignores_is_named_with_what_the_outer_one_ignores(
    agent: Chain,
) -> None:
    asked: Json = {"temperature": 0.5, "unheard_of": 1, "tools": [{"type": "web_search"}]}
    direct = await agent.create(at=agent.inner, input=prompt(["say", "x"]), **asked)
    through = await agent.create(input=prompt(["say", "x"]), **asked)
    names = set(direct.headers["x-dragoman-ignored"].split(", "))
    assert names == {"temperature", "unheard_of", "tools[0] (web_search)"}
    assert set(through.headers["x-dragoman-ignored"].split(", ")) == names
    assert set(through.json()["metadata"]["dragoman.ignored"].split(", ")) == names


async def test_r10_a_file_that_an_agent_cannot_take_is_named_as_ignored(agent: Chain) -> None:
    file = {"type": "input_file", "filename": "x.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
    message = {"role": "user", "content": [file, {"type": "input_text", "text": prompt(["say", "x"])}]}
    named = "input (application/pdf)"
    for at in (agent.inner, agent.outer):
        whole = await agent.create(at=at, input=[message])
        assert (whole.headers["x-dragoman-ignored"], whole.json()["metadata"]["dragoman.ignored"]) == (
            named,
            named,
        )
        streamed = await agent.create(at=at, input=[message], stream=True)
        assert streamed.headers["x-dragoman-ignored"] == named
        part = {"type": "file", "file": {"filename": "x.pdf", "file_data": file["file_data"]}}
        asked = [{"role": "user", "content": [part, {"type": "text", "text": prompt(["say", "y"])}]}]
        completed = await agent.chat(at=at, messages=asked)
        assert completed.json()["dragoman"]["ignored"] == [named]
    # In the background, where the first event was sent before the agent had the request.
    begun = (await agent.create(at=agent.inner, input=[message], background=True, stream=True)).text
    created, *_, completed_event, _ = [line for line in begun.splitlines() if line.startswith("data: ")]
    assert named not in created
    assert named in completed_event
    id_ = json.loads(created.removeprefix("data: "))["response"]["id"]
    again = await agent.client.get(f"{agent.inner}/v1/responses/{id_}?stream=true")
    assert again.text == begun


@pytest.mark.parametrize("approves", [True, False])
async def test_p1_an_approval_is_asked_for_and_answered_through_both(agent: Chain, approves: bool) -> None:  # noqa: FBT001 - a table
    items = {"x-dragoman-approvals": "items"}
    first = (await agent.create(input=prompt(_RUN), headers=items)).json()
    (request,) = [item for item in first["output"] if item["type"] == "mcp_approval_request"]
    assert "Run it" in request["arguments"]
    answer = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approves}
    second = (await agent.create(input=[answer], previous_response_id=first["id"], headers=items)).json()
    assert ("allow_once" if approves else "reject_once") in _texts(second)


async def test_r10_activities_of_an_agent_are_items_through_both(agent: Chain) -> None:
    step = {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "make test",
        "kind": "execute",
        "status": "pending",
    }
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}
    asked = prompt(["update", step], ["update", done], ["say", "done"])
    headers = {"x-dragoman-activity": "items"}
    direct = (await agent.create(at=agent.inner, input=asked, headers=headers)).json()
    through = (await agent.create(input=asked, headers=headers)).json()
    steps = [
        [{**item, "id": ""} for item in response["output"] if item["type"] == "dragoman:activity"]
        for response in (direct, through)
    ]
    assert [item["title"] for item in steps[0]] == ["make test"]
    assert steps[0] == steps[1]


async def test_r10_functions_are_called_through_both(agent: Chain) -> None:
    first = (await agent.create(input=prompt(["call", "look", {"n": 1}]), tools=[function("look")])).json()
    (call,) = [item for item in first["output"] if item["type"] == "function_call"]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "seen"}
    second = await agent.create(input=[output], previous_response_id=first["id"], tools=[function("look")])
    assert "seen" in _texts(second.json())


async def test_r10_a_picture_of_an_agent_is_an_item_through_both(agent: Chain) -> None:
    chunk = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "image", "data": _PNG, "mimeType": "image/png"},
    }
    asked = prompt(["say", "Look: "], ["update", chunk], ["say", "there."])
    direct = (await agent.create(at=agent.inner, input=asked)).json()["output"]
    first = await agent.create(input=asked)
    through = first.json()["output"]
    assert [item["type"] for item in through] == ["message", "image_generation_call", "message"]
    assert [item["type"] for item in direct] == [item["type"] for item in through]
    assert through[1]["result"] == _PNG
    history = [
        {"role": "user", "content": asked},
        *through,
        {"role": "user", "content": prompt(["say", "y"])},
    ]
    second = await agent.create(input=history)
    assert (
        second.headers["x-dragoman-conversation"].partition(";")[0]
        == first.headers["x-dragoman-conversation"].partition(";")[0]
    )
    # Also without the ids of the messages, by the history alone.
    plain = [{key: value for key, value in item.items() if key != "id"} for item in history[:-1]]
    third = await agent.create(
        input=[*plain, *second.json()["output"], {"role": "user", "content": prompt(["say", "z"])}]
    )
    assert (
        third.headers["x-dragoman-conversation"].partition(";")[0]
        == first.headers["x-dragoman-conversation"].partition(";")[0]
    )


async def test_r10_a_refusal_and_the_reason_of_an_end_come_through(chained: _Make) -> None:
    chain = await chained(_plays(TextPart("So far. "), Stopped("content_filter", "I will not.").part))
    for at in (chain.inner, chain.outer):
        response = (await chain.create(at=at, input="x")).json()
        assert (response["status"], response["incomplete_details"]) == (
            "incomplete",
            {"reason": "content_filter"},
        )
        contents = [part for item in response["output"] for part in item["content"]]
        assert [part.get("refusal") or part.get("text") for part in contents] == ["So far. ", "I will not."]
        message = (await chain.chat(at=at, messages=[{"role": "user", "content": "x"}])).json()["choices"][0]
        assert (message["message"]["refusal"], message["finish_reason"]) == ("I will not.", "content_filter")


async def test_r10_the_usage_comes_through_with_its_details(chained: _Make) -> None:
    chain = await chained(_plays(TextPart("Yes."), UsagePart(7, 3, 12, cached=5, reasoning=2)))
    direct, through = [
        (await chain.create(at=at, input="x")).json()["usage"] for at in (chain.inner, chain.outer)
    ]
    assert through == direct
    assert (through["input_tokens_details"], through["output_tokens_details"]) == (
        {"cached_tokens": 5},
        {"reasoning_tokens": 2},
    )


@pytest.mark.parametrize(
    "error",
    [
        LanguageModelError("bad_request", "The history is odd."),
        LanguageModelError("agent_failed", "It broke."),
        LanguageModelError("internal", "A fault."),
        LanguageModelError("not_found", "No such thing."),
    ],
    ids=lambda error: error.kind,
)
async def test_r10_an_error_before_the_first_word_is_the_same_through_both(
    chained: _Make, error: LanguageModelError
) -> None:
    chain = await chained(_plays(then=error))
    direct, through = [await chain.create(at=at, input="x") for at in (chain.inner, chain.outer)]
    assert through.status_code == direct.status_code
    inner, outer = direct.json()["error"], through.json()["error"]
    assert (outer["type"], outer["code"], outer["param"]) == (inner["type"], inner["code"], inner["param"])
    assert error.message in outer["message"]


async def test_r10_a_failure_after_words_has_the_same_code_through_both(chained: _Make) -> None:
    chain = await chained(_plays(TextPart("Half. "), then=LanguageModelError("agent_failed", "It broke.")))
    direct, through = [(await chain.create(at=at, input="x")).json() for at in (chain.inner, chain.outer)]
    assert _texts(through) == "Half. "
    assert (through["status"], through["error"]["code"]) == (direct["status"], direct["error"]["code"])


async def test_r10_a_server_that_is_full_says_when_to_come_back_through_both(
    chained: _Make, tmp_path: Path
) -> None:
    """A wait that is longer than a user waits is passed on and not obeyed."""
    busy = LanguageModelError("unavailable", "Full.", retry_after=3_600)
    chain = await chained(_plays(then=busy))
    direct, through = [await chain.create(at=at, input="x") for at in (chain.inner, chain.outer)]
    assert (through.status_code, through.headers["retry-after"]) == (direct.status_code, "3600")
    assert through.json()["error"]["code"] == direct.json()["error"]["code"]
