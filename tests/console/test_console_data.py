"""The console's data, end to end: a client, an agent that asks, and a page on which a person decides."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from console.asking import Asking
from console.data_site import RUN, DataSite, data_site
from dragoman.config import ClientKey, ConsoleConfig
from http_server.kit import Answered, soon

_JSON = {"content-type": "application/json"}
KEYS = ALICE, _ = (ClientKey("alice", "a"), ClientKey("bob", "b"))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[DataSite]:
    async with data_site(tmp_path, keys=KEYS) as made:
        yield made


def said(answered: Answered) -> str:
    return "".join(
        part["text"]
        for item in answered.streamed["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


def error_of(answered: Answered) -> tuple[int, str]:
    return answered.status, answered.json["error"]["code"]


async def test_a_person_allows_what_an_agent_asks(site: DataSite) -> None:
    page = await site.opened()
    answering = site.respond(RUN, ["say", "after it"])
    question = await page.until("question")
    assert question["title"] == "m wants to run a command"
    assert question["sections"][0]["text"] == "git log --oneline"
    whole = await page.get(f"questions/{question['id']}")
    assert whole["rules_file"] == str(site.folder / "own.toml")
    decided = await page.call("POST", f"questions/{question['id']}/decision", {"decision": "allow"})
    assert decided.status == 200
    outcome = decided.json
    assert (outcome["state"], outcome["by"], outcome["level"]) == ("allowed", "phone", "once")
    answered = await soon(answering)
    assert "after it" in said(answered)
    assert "<p: the-allow_once>" in said(answered)
    closed = await page.until("closed")
    assert closed == {"id": question["id"], "outcome": outcome}
    second = await page.call("POST", f"questions/{question['id']}/decision", {"decision": "deny"})
    assert error_of(second) == (409, "decided")
    assert second.json["outcome"] == outcome


async def test_a_no_reaches_the_agent_with_its_reason(site: DataSite) -> None:
    page = await site.opened()
    answering = site.respond(RUN, ["say", "after it"])
    question = await page.until("question")
    body = {"decision": "deny", "reason": "not today"}
    assert (await page.call("POST", f"questions/{question['id']}/decision", body)).status == 200
    assert "reject_once" in said(await soon(answering))
    (conversation,) = (await page.get("conversations"))["conversations"]
    entries = (await page.get(f"conversations/{conversation['id']}"))["entries"]
    (permission,) = [entry for entry in entries if entry["role"] == "permission"]
    assert permission["outcome"]["state"] == "denied"
    assert permission["outcome"]["by"] == "phone"
    assert permission["outcome"]["reason"] == "not today"


async def test_without_an_open_page_the_agent_is_refused(site: DataSite) -> None:
    page = await site.opened()
    await page.leave()
    answered = await soon(site.respond(RUN))
    # There are keys, and a browser of another key may be open.
    assert "No person who may decide about this conversation has the console open." in said(answered)
    (conversation,) = (await page.get("conversations"))["conversations"]
    entries = (await page.get(f"conversations/{conversation['id']}"))["entries"]
    # Our own words are a note, without marks of Markdown. They are not the agent's.
    (note,) = [entry for entry in entries if "You were not asked" in entry["text"]]
    assert note["role"] == "note"
    assert "*" not in note["text"]
    assert [entry["text"] for entry in entries if entry["role"] == "agent"] == ["<p: the-reject_once>"]


async def test_a_decision_is_one_entry_of_the_chat(site: DataSite) -> None:
    page = await site.opened()
    known: set[str] = set()
    for is_streamed in (True, False):
        answering = site.respond(["say", "before"], RUN, ["say", "after"], stream=is_streamed)
        question = await page.until("question", lambda each: each["conversation"] not in known)
        known.add(question["conversation"])
        await page.call("POST", f"questions/{question['id']}/decision", {"decision": "allow"})
        await soon(answering)
        entries = (await page.get(f"conversations/{question['conversation']}"))["entries"]
        told = [(entry["role"], entry["text"]) for entry in entries if entry["role"] not in ("user", "note")]
        assert told == [
            ("agent", "before"),
            ("permission", "run: git log --oneline"),
            ("agent", "<p: the-allow_once>after"),
        ]
        assert not [entry for entry in entries if "can decide at" in entry["text"]]


async def test_a_conversation_keeps_the_name_of_its_program_when_its_agent_is_parked(site: DataSite) -> None:
    page = await site.opened()
    await soon(site.respond(["say", "hello"], headers={"user_agent": "curl/7.88.1"}))
    (live,) = (await page.get("conversations"))["conversations"]
    assert (live["client"], live["state"]) == ("curl/7.88.1", "idle")
    assert (await page.call("POST", f"conversations/{live['id']}/park", {})).status == 200
    (parked,) = (await page.get("conversations?state=stored"))["conversations"]
    assert parked["client"] == "curl/7.88.1"
    (found,) = (await page.get("conversations?client=curl/7.88.1"))["conversations"]
    assert found["id"] == live["id"]


async def test_a_page_that_lost_its_connection_gets_what_it_missed(site: DataSite) -> None:
    stays, goes = await site.opened(), await site.opened(name="tablet")
    await goes.leave()
    answering = site.respond(RUN)
    question = await stays.until("question")
    goes.open()
    # The question as it came; no snapshot.
    assert await goes.until("question") == question
    assert [name for name, _ in goes.events].count("hello") == 1
    # A page that knows nothing gets it in its snapshot.
    fresh = await site.opened(name="desk")
    assert fresh.events[0][1]["snapshot"]["questions"] == [question]
    await goes.call("POST", f"questions/{question['id']}/decision", {"decision": "deny"})
    await soon(answering)
    await stays.until("closed")
    await fresh.until("closed")


async def test_a_session_of_another_key_sees_and_decides_nothing(site: DataSite) -> None:
    page, alice = await site.opened(), await site.opened(key="alice")
    # Without API keys every client has the connection `http:`.
    answering = site.respond(RUN)
    question = await page.until("question")
    path = f"questions/{question['id']}"
    assert error_of(await alice.call("GET", path)) == (404, "not_found")
    decided = await alice.call("POST", f"{path}/decision", {"decision": "allow"})
    assert error_of(decided) == (404, "not_found")
    (conversation,) = (await page.get("conversations"))["conversations"]
    assert (await alice.get("conversations"))["conversations"] == []
    one = f"conversations/{conversation['id']}"
    for method, place in (("GET", one), ("DELETE", one), ("POST", f"{one}/stop"), ("POST", f"{one}/park")):
        assert error_of(await alice.call(method, place)) == (404, "not_found")
    await page.call("POST", f"{path}/decision", {"decision": "deny"})
    await soon(answering)
    assert {name for name, _ in alice.events} <= {"hello", "beat", "sessions"}


async def test_each_page_is_offered_what_its_session_can_give(site: DataSite) -> None:
    admin, alice, bob = [await site.opened(key=key, name=str(key)) for key in (None, "alice", "bob")]
    asking = Asking(site.models.permissions.inbox, str(site.folder))
    question = asking.ask(connection=ALICE.connection)
    assert (await admin.until("question"))["levels"] == ["once", "session", "workspace", "always", "rule"]
    shown = await alice.until("question")
    assert (shown["levels"], shown["key"]) == (["once", "session"], "alice")
    whole = await alice.get(f"questions/{question.id}")
    assert (whole["levels"], whole["offers"], whole["rules_file"]) == (["once", "session"], [], "")
    body = {"decision": "allow", "level": "session"}
    assert (await alice.call("POST", f"questions/{question.id}/decision", body)).status == 200
    await admin.until("closed")
    # One that comes later sees nothing of a question that is over.
    late = await site.opened(key="alice", name="late")
    assert late.events[0][1]["snapshot"]["questions"] == []
    assert {name for name, _ in bob.events} <= {"hello", "beat", "sessions"}


async def test_who_watches_changes_nothing(site: DataSite) -> None:
    page, watcher = await site.opened(), await site.opened(role="watch")
    answering = site.respond(RUN)
    question = await watcher.until("question")
    path = f"questions/{question['id']}"
    assert (await watcher.get(path))["offers"] == []
    (conversation,) = (await watcher.get("conversations"))["conversations"]
    one = f"conversations/{conversation['id']}"
    refused = [
        await watcher.call("POST", f"{path}/decision", {"decision": "allow"}),
        await watcher.call("POST", f"{one}/stop"),
        await watcher.call("POST", f"{one}/park"),
        await watcher.call("DELETE", one),
    ]
    assert {error_of(each) for each in refused} == {(403, "watch_only")}
    assert (await watcher.call("POST", "seen", {"stream": watcher.events[0][1]["stream"]})).status == 200
    await page.call("POST", f"{path}/decision", {"decision": "deny"})
    await soon(answering)


async def test_a_rule_made_at_the_console_is_in_force_for_the_next_request(site: DataSite) -> None:
    page = await site.opened()
    answering = site.respond(RUN)
    question = await page.until("question")
    path = f"questions/{question['id']}"
    offers = (await page.get(path))["offers"]
    assert offers
    body = {"decision": "allow", "level": "rule"}
    wrong = await page.call("POST", f"{path}/decision", {**body, "toml": "[[policy]]\n"})
    assert error_of(wrong) == (409, "offer_changed")
    decided = await page.call("POST", f"{path}/decision", {**body, "toml": offers[0]["toml"]})
    assert decided.status == 200
    assert offers[0]["toml"] in (site.folder / "own.toml").read_text()
    await soon(answering)
    # No question for the same again.
    assert "allowed by the rule at" in str((await soon(site.respond(RUN))).streamed)


async def test_a_stopped_turn_closes_its_question_and_can_be_parked_and_deleted(site: DataSite) -> None:
    page = await site.opened()
    answering = site.respond(RUN, ["say", "never"])
    question = await page.until("question")
    one = f"conversations/{question['conversation']}"
    shown = await page.get(one)
    assert (shown["conversation"]["state"], shown["conversation"]["questions"]) == ("asking", 1)
    (permission,) = [entry for entry in shown["entries"] if entry["role"] == "permission"]
    assert (permission["outcome"], permission["question"]) == (None, question["id"])
    for method, path in (("POST", f"{one}/park"), ("DELETE", one)):
        assert error_of(await page.call(method, path)) == (409, "busy")
    assert (await page.call("POST", f"{one}/stop")).status == 200
    closed = await page.until("closed")
    assert closed["outcome"]["state"] == "ended"
    late = await page.call("POST", f"questions/{question['id']}/decision", {"decision": "allow"})
    assert error_of(late) == (410, "closed")
    answered = await soon(answering)
    assert "never" not in said(answered)
    response = f"/v1/responses/{answered.streamed['id']}"
    assert (await site.http.get(response)).status == 200

    async def until(state: str) -> None:
        while (await page.get(one))["conversation"]["state"] != state:  # noqa: ASYNC110 - a state tells nobody
            await asyncio.sleep(0.01)

    await soon(until("idle"))
    assert (await page.call("POST", f"{one}/park")).status == 200
    await soon(until("stored"))
    assert (await page.call("DELETE", one)).status == 200
    assert (await page.get("conversations"))["conversations"] == []
    assert error_of(await page.call("GET", one)) == (404, "not_found")
    # Its stored responses are gone, too.
    assert (await site.http.get(response)).status == 404


async def test_a_conversation_as_a_chat_piece_by_piece(site: DataSite) -> None:
    page = await site.opened()
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "kind": "execute"}
    answering = site.respond(
        ["think", "Hm."],
        ["say", "Look\u202ehere. "],
        ["update", {**update, "title": "Run", "status": "in_progress"}],
        RUN,
        ["update", {**update, "status": "completed", "rawOutput": {"exit_code": 0}}],
        ["say", "Done."],
    )
    question = await page.until("question")
    one = f"conversations/{question['conversation']}"
    first = await page.get(one)
    known = {entry["key"]: entry for entry in first["entries"]}
    assert first["entries"][0]["role"] == "user"
    await page.call("POST", f"questions/{question['id']}/decision", {"decision": "allow"})
    await soon(answering)
    # Something was stored, and pages learn of it.
    await page.until("conversation", lambda data: data["sequence"] > first["sequence"])
    second = await page.get(f"{one}?after={first['sequence']}")
    assert second["entries"]
    assert all(entry["sequence"] > first["sequence"] for entry in second["entries"])
    known |= {entry["key"]: entry for entry in second["entries"]}
    whole = await page.get(one)
    assert known == {entry["key"]: entry for entry in whole["entries"]}
    (step,) = [entry for entry in whole["entries"] if entry["role"] == "step" and entry["text"] == "Run"]
    assert step["status"] == "completed"
    texts = [entry["text"] for entry in whole["entries"] if entry["role"] == "agent"]
    assert any("Look<U+202E>here." in text for text in texts)
    assert texts[-1].endswith("Done.")
    assert (await page.get(f"{one}?after={whole['sequence']}"))["entries"] == []


async def test_the_list_has_filters_and_what_is_not_stored(tmp_path: Path) -> None:
    async with data_site(tmp_path, more='[journal]\ncontent = "off"\n') as site:
        page = await site.opened()
        await soon(site.respond(["say", "x"]))
        (one,) = (await page.get("conversations"))["conversations"]
        assert (one["model"], one["state"], one["folder"]) == ("m", "idle", str(site.folder / "work"))
        for query, count in (("model=m", 1), ("model=x", 0), ("state=idle", 1), ("state=stored", 0)):
            assert len((await page.get(f"conversations?{query}"))["conversations"]) == count
        assert (await page.get(f"conversations/{one['id']}"))["entries"] == []
        assert (await page.call("DELETE", f"conversations/{one['id']}")).status == 200
        assert (await page.get("conversations"))["conversations"] == []


@pytest.mark.parametrize(
    "path", ["conversations?before=x", "conversations?before=nan", "conversations/x?after=-1"]
)
async def test_queries_that_mean_nothing_are_refused(site: DataSite, path: str) -> None:
    assert error_of(await site.page().call("GET", path)) == (400, "bad_request")


async def test_a_revoked_session_is_signed_out_at_once(site: DataSite) -> None:
    page, other = await site.opened(), await site.opened(name="other")
    (session,) = [each for each in site.console.sessions.all() if each.name == "phone"]
    site.console.sessions.end(session.id)
    await page.until("signed_out")
    await page.ended()
    await other.until("sessions")
    assert error_of(await page.call("GET", "conversations")) == (401, "signed_out")
    assert site.console.feed.streams == 1


async def test_when_the_server_ends_the_streams_end(site: DataSite) -> None:
    page = await site.opened()
    site.console.end_streams()
    await page.ended()


async def test_what_the_console_serves_is_described(site: DataSite) -> None:
    app = site.http.app
    assert isinstance(app, Starlette)
    served = {
        (route.path, method.lower())
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    paths = (await site.http.get("/openapi.json")).json["paths"]
    described = {(path, method) for path, methods in paths.items() for method in methods}
    assert described <= served
    assert {path for path, _ in served - described} == {
        "/openapi.json",
        "/console",
        "/console/",
        "/console/page/{name}",
        "/console/sw.js",
    }
    for path, methods in paths.items():
        for operation in methods.values():
            named = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"}
            assert set(re.findall(r"{(\w+)}", path)) == named


async def test_a_conversation_whose_output_waits_for_its_client_can_be_parked_and_deleted(
    site: DataSite,
) -> None:
    site.http.service.console_config = ConsoleConfig(decide_seconds=0)
    page = await site.opened()
    steps = json.dumps([RUN, ["say", "done"]])
    request = {"model": "m", "messages": [{"role": "user", "content": steps}]}
    await soon(site.http.post("/v1/chat/completions", request))
    question = await page.until("question")
    await page.call("POST", f"questions/{question['id']}/decision", {"decision": "allow"}, **_JSON)
    [conversation] = site.models.conversations()

    async def until(stage: str) -> None:
        while conversation.stage != stage:  # noqa: ASYNC110 - a conversation tells no one of its stage
            await asyncio.sleep(0.01)

    await soon(until("idle"))
    called = f"conversations/{question['conversation']}"
    assert (await page.call("POST", f"{called}/park", {}, **_JSON)).status == 200
    await soon(until("stored"))
    assert (await page.call("DELETE", called)).status == 200
    assert (await page.get("conversations"))["conversations"] == []


async def test_the_address_of_a_file_works_where_the_console_is(tmp_path: Path) -> None:
    """Also without keys, where nothing else of the API is served under that name."""
    picture = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"\x89PNG").decode()}
    chunk = {"sessionUpdate": "agent_message_chunk", "content": picture}
    asked = {"model": "m", "messages": [{"role": "user", "content": json.dumps([["update", chunk]])}]}
    proxied = {"host": "agents.example"}
    async with data_site(tmp_path, config=ConsoleConfig(url="https://agents.example/")) as site:
        answered = await site.http.post("/v1/chat/completions", asked)
        text = answered.json["choices"][0]["message"]["content"]
        (path,) = re.findall(r"\(https://agents\.example(/v1/files/[^)]+)\)", text)
        for headers in (proxied, {"host": "127.0.0.1:8427"}):
            fetched = await site.http.get(path, **headers)
            assert (fetched.status, b"".join(fetched.writes)) == (200, b"\x89PNG")
        assert error_of(await site.http.get(path, host="other.example")) == (403, "forbidden_host")
        for other, authorization in (("/v1/models", {}), (path, {"authorization": "Bearer x"})):
            assert error_of(await site.http.get(other, **proxied, **authorization)) == (403, "forbidden_host")
