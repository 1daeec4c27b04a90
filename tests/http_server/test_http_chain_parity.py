"""R10: what a client gets from one server, it gets from two: the same words, files, decisions, retries and errors."""

import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.config import Serve
from dragoman.lm import DataPart, GuardedModel, TextPart
from dragoman.lm.foreign_items import item_part
from dragoman.lm.parts import ANNOTATION
from fake_agent.steps import prompt
from http_server.chains import AgentChain, agent_chain, chain_of
from http_server.kit import Held, Json
from lm.providers import plays

pytestmark = pytest.mark.long

_APIS = pytest.mark.parametrize("api", ["chat", "responses"])
_STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
_RUN: list[object] = [
    "ask",
    {"toolCallId": "p", "title": "Run it", "kind": "execute"},
    ["allow_once", "reject_once"],
]
_APPROVALS = {"x-dragoman-approvals": "items"}
_BYTES = b"\x89PNG\r\n\x1a\n" + b"0" * 40
_CODED = base64.b64encode(_BYTES).decode()
_SAID = {
    "picture": {"type": "image", "mimeType": "image/png", "data": _CODED},
    "file": {
        "type": "resource",
        "resource": {"uri": "file:///x/report.pdf", "mimeType": "application/pdf", "blob": _CODED},
    },
}
_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
_LINK = re.compile(r"\]\((http://[^)]+/content)\)")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[AgentChain]:
    async with agent_chain(tmp_path, Serve(workspaces=(tmp_path / "open",))) as chain:
        yield chain


def _user(*steps: object) -> Json:
    return {"role": "user", "content": prompt(*steps)}


def _update(said: str) -> list[object]:
    return ["update", {"sessionUpdate": "agent_message_chunk", "content": _SAID[said]}]


def _without_links(text: str) -> str:
    return _LINK.sub("](ADDRESS)", text)


# The same words, and the same conversation.


@_APIS
@_STREAMS
@pytest.mark.parametrize(
    "steps",
    [
        [["say", "Half a wo"], ["think", "hm"], ["say", "rd"]],
        [["say", "Look: "], _update("picture"), ["say", "there."]],
        [["say", "Read: "], _update("file"), ["say", "Done."]],
        [_update("file")],
        [["say", "Two"], _update("picture"), ["think", "hm"], _update("file"), ["think", "so"], ["say", "!"]],
    ],
    ids=["thought", "picture", "file", "file_alone", "both"],
)
async def test_r10_a_second_turn_continues_after_any_answer(
    agent: AgentChain, api: str, steps: list[object], *, stream: bool
) -> None:
    texts = []
    for at in (agent.inner, agent.outer):
        history = [_user(["note", at], *steps)]
        first = await agent.told(api, history, at=at, stream=stream)
        texts.append(_without_links(first.text))
        conversation = first.headers["x-dragoman-conversation"].partition(";")[0]
        second = await agent.told(
            api, [*history, *first.history, _user(["say", "next"])], at=at, stream=stream
        )
        assert second.headers["x-dragoman-conversation"].partition("; evidence")[0] == conversation
        assert second.headers["x-dragoman-conversation"].endswith("kind=prompt")
        assert "x-dragoman-ignored" not in second.headers
        assert second.text == "next"
    assert texts[0] == texts[1]


async def test_r10_the_messages_of_an_endpoint_are_paragraphs_of_a_completion(tmp_path: Path) -> None:
    """An endpoint that is no agent has messages of its own, and an annotation counts within its message."""
    heading = item_part({"type": "message", "role": "assistant"})
    cited = {
        "type": "url_citation",
        "url": "https://a.example",
        "title": "A",
        "start_index": 1,
        "end_index": 4,
    }
    model = plays(heading, TextPart("One."), heading, TextPart(" Two."), DataPart.json(cited, ANNOTATION))
    async with chain_of(Held(m=GuardedModel(model)), tmp_path) as chain:
        for at in (chain.inner, chain.outer):
            told = await chain.told("chat", [{"role": "user", "content": "x"}], at=at)
            assert told.text == "One.\n\n Two."
            (annotation,) = told.history[0]["annotations"]
            place = annotation["url_citation"]
            assert told.text[place["start_index"] : place["end_index"]] == "Two"


# Files.


@_APIS
@_STREAMS
async def test_r10_a_file_has_an_address_of_the_server_that_the_client_uses(
    agent: AgentChain, api: str, *, stream: bool
) -> None:
    asked = [_user(["say", "Look: "], _update("picture"), _update("file"), ["say", "Done."])]
    links = {"x-dragoman-files": "links"}
    for at in (agent.inner, agent.outer):
        told = await agent.told(api, asked, at=at, headers=links, stream=stream)
        addresses = _LINK.findall(told.text)
        assert len(addresses) == 2
        for address, kind in zip(addresses, ("image/png", "application/pdf"), strict=True):
            assert address.startswith(f"{at}/v1/files/")
            fetched = await agent.client.get(address)
            assert (fetched.content, fetched.headers["content-type"]) == (_BYTES, kind)
        for item in told.history:
            for part in item.get("content") or () if api == "responses" else ():
                for annotation in part.get("annotations", ()):
                    cited = part["text"][annotation["start_index"] : annotation["end_index"]]
                    assert cited.endswith(f"]({annotation['url']})")
                    assert annotation["url"] in addresses
        assert "annotations" not in (told.history[0] if api == "chat" else {})


async def test_r10_a_client_may_take_every_file_as_an_item_with_its_bytes(agent: AgentChain) -> None:
    asked = [_user(["say", "Read: "], _update("file"), _update("picture"), ["say", "Done."])]
    for at in (agent.inner, agent.outer):
        first = await agent.told("responses", asked, at=at, headers={"x-dragoman-files": "data"})
        files = [item for item in first.history if item["type"] == "dragoman:file"]
        assert [(item["mime_type"], item["name"], item["data"]) for item in files] == [
            ("application/pdf", "report.pdf", _CODED),
            ("image/png", "", _CODED),
        ]
        assert (first.text, "/v1/files/" in json.dumps(first.history)) == ("Read: Done.", False)
        second = await agent.told("responses", [*asked, *first.history, _user(["say", "next"])], at=at)
        assert second.headers["x-dragoman-conversation"].endswith("kind=prompt")
        assert "x-dragoman-ignored" not in second.headers


# Headers.


@_APIS
async def test_r10_an_idempotency_key_names_a_request_through_both(agent: AgentChain, api: str) -> None:
    for at in (agent.inner, agent.outer):
        asked, key = [_user(["say", f"Once at {at}."])], {"idempotency-key": f"key of {at}"}
        first = await agent.told(api, asked, at=at, headers=key)
        again = await agent.told(api, asked, at=at, headers=key)
        assert first.text == again.text == f"Once at {at}."
        assert again.headers["x-dragoman-conversation"].endswith("kind=retry")
        assert len(agent.prompts(f"Once at {at}.")) == 1


async def test_r10_the_folder_that_a_client_names_is_where_the_agent_works(
    agent: AgentChain, tmp_path: Path
) -> None:
    folder = tmp_path / "open" / "project"
    folder.mkdir(parents=True)
    for at in (agent.inner, agent.outer):
        for api in ("chat", "responses"):
            named = {"x-dragoman-workspace": str(folder)}
            told = await agent.told(api, [_user(["say", f"{api} {at}"])], at=at, headers=named)
            assert told.headers["x-dragoman-workspace"] == str(folder)
            assert "x-dragoman-ignored" not in told.headers
            assert agent.bridge.noted("session/new")[-1]["cwd"] == str(folder)
            if api == "responses":
                assert told.last["metadata"] == {"dragoman.workspace": str(folder)}
        refused = await agent.create(
            at, {"x-dragoman-workspace": str(tmp_path / "agent")}, input=prompt(["say", "x"])
        )
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "workspace_not_allowed")


@_APIS
async def test_r10_text_of_our_own_is_plain_unless_the_client_renders_markdown(
    agent: AgentChain, api: str
) -> None:
    ask = ["ask", {"toolCallId": "p", "title": "rm _x_", "kind": "execute"}, ["allow_once", "reject_once"]]
    for renders in ("true", "false"):
        texts = [
            (await agent.told(api, [_user(ask)], at=at, headers={"x-dragoman-markdown": renders})).text
            for at in (agent.inner, agent.outer)
        ]
        assert texts[0] == texts[1]
        assert (r"\_x\_" in texts[0] or "`" in texts[0]) == (renders == "true")


# Approvals.


@_STREAMS
@pytest.mark.parametrize("approves", [True, False])
async def test_r10_a_completion_asks_for_approval_through_both(
    agent: AgentChain, *, stream: bool, approves: bool
) -> None:
    for at in (agent.inner, agent.outer):
        history = [_user(["say", "Now. "], _RUN, ["say", f" {at}"])]
        first = await agent.told("chat", history, at=at, headers=_APPROVALS, stream=stream)
        (call,) = first.history[0]["tool_calls"]
        assert first.last["choices"][0]["finish_reason"] == "tool_calls"
        assert first.last["dragoman"]["approval_requests"] == [call["id"]]
        assert (first.text, call["function"]["name"]) == ("Now. ", "dragoman-agent-action-execute")
        assert json.loads(call["function"]["arguments"])["title"] == "Run it"
        decided = {"approve": approves, "reason": "Not now."}
        answer = {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(decided)}
        history += [*first.history, answer]
        second = await agent.told("chat", history, at=at, headers=_APPROVALS, stream=stream)
        assert f"<p: the-{'allow' if approves else 'reject'}_once>" in second.text
        assert second.text.endswith(at)
        history += [*second.history, _user(["say", "next"])]
        third = await agent.told("chat", history, at=at, headers=_APPROVALS, stream=stream)
        assert (third.text, third.headers["x-dragoman-conversation"].rpartition("; ")[2]) == (
            "next",
            "kind=prompt",
        )


async def test_r10_a_request_that_no_decision_answers_is_given_up_through_both(agent: AgentChain) -> None:
    """The client sends another message instead."""
    kinds = []
    for at in (agent.inner, agent.outer):
        history = [_user(_RUN, ["say", f" {at}"])]
        first = await agent.told("chat", history, at=at, headers=_APPROVALS)
        history += [*first.history, _user(["say", "next"])]
        second = await agent.told("chat", history, at=at, headers=_APPROVALS)
        assert second.text == "next"
        kinds.append(second.headers["x-dragoman-conversation"].rpartition("; ")[2])
    assert kinds[0] == kinds[1]


# Failures.


@_STREAMS
async def test_r10_a_form_that_is_not_kept_is_an_error_through_both(
    agent: AgentChain, *, stream: bool
) -> None:
    asked = prompt(["think", "hm"], ["say", "prose"], ["again", [["say", "prose"]]])
    form = {"type": "json_schema", "name": "x", "schema": _SCHEMA}
    chat_form = {"type": "json_schema", "json_schema": {"name": "x", "schema": _SCHEMA}}
    for at in (agent.inner, agent.outer):
        response = await agent.create(at, input=asked, text={"format": form}, stream=stream)
        completion = await agent.chat(
            at, messages=[{"role": "user", "content": asked}], response_format=chat_form, stream=stream
        )
        for answered in (response, completion):
            assert "does not have the requested form" in answered.text
            assert '"code":"agent_failed"' in answered.text
            assert "Try again" not in answered.text
            if not stream:
                assert (answered.status_code, answered.headers["x-should-retry"]) == (500, "false")


@_APIS
async def test_r10_a_link_is_no_part_of_a_form_through_both(agent: AgentChain, api: str) -> None:
    form: Json = {"type": "json_schema", "name": "x", "schema": _SCHEMA}
    asked = [_user(_update("file"), ["say", '{"a": "x"}'])]
    for at in (agent.inner, agent.outer):
        if api == "chat":
            nested = {"type": "json_schema", "json_schema": {"name": "x", "schema": _SCHEMA}}
            told = await agent.told(api, asked, at=at, response_format=nested)
        else:
            told = await agent.told(api, asked, at=at, text={"format": form})
        assert told.text == '{"a": "x"}'
        assert f"{at}/v1/files/" in json.dumps(told.last)


# What an endpoint that is no server of ours gets.


async def test_r10_a_folder_that_no_agent_works_in_is_named_as_ignored(tmp_path: Path) -> None:
    async with chain_of(Held(m=GuardedModel(plays(TextPart("Yes.")))), tmp_path) as chain:
        for at in (chain.inner, chain.outer):
            for api in ("chat", "responses"):
                asked: list[Json] = [{"role": "user", "content": "x"}]
                told = await chain.told(api, asked, at=at, headers={"x-dragoman-workspace": str(tmp_path)})
                assert told.headers["x-dragoman-ignored"] == "x-dragoman-workspace"
