"""R7, R10: responses that are gone on from by their id, and who may."""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dragoman.backends.scripted import call, fail, reply, say
from dragoman.config import Serve
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.store import Database, SqliteResponses, StoredResponse
from http_server.kit import TOOL, Json, Site

_Make = Callable[..., Site]


def _text(response: Json) -> str:
    return "".join(
        part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]
    )


async def test_r10_a_chain_of_responses_is_one_history(site: _Make) -> None:
    made = site(reply(say("Looking."), call("look", word="a")), "It is ${result}.", "You said ${prompt}.")
    first = (await made.create(input="Look.", tools=[TOOL])).response
    output = {"type": "function_call_output", "call_id": first["output"][1]["call_id"], "output": "green"}
    second = (await made.create(input=[output], previous_response_id=first["id"], tools=[TOOL])).response
    assert (_text(second), second["previous_response_id"]) == ("It is green.", first["id"])
    third = (await made.create(input="Thanks", previous_response_id=second["id"])).response
    assert _text(third) == "You said Thanks."
    # Two may go on from the same one.
    other = (await made.create(input="Other", previous_response_id=second["id"])).response
    assert _text(other) == "You said Other."


async def test_r7_a_stored_response_is_given_again_until_it_is_deleted(site: _Make) -> None:
    made = site("Yes.")
    response = (await made.create(input="x")).response
    assert response["store"] is True
    path = f"/v1/responses/{response['id']}"
    assert (await made.get(path)).response == response
    assert (await made.call("DELETE", path, b"")).json["deleted"] is True
    assert (await made.get(path)).error["type"] == "not_found"
    gone = await made.create(input="x", previous_response_id=response["id"])
    assert (gone.status, gone.error["code"]) == (400, "previous_response_not_found")


async def test_r10_what_a_response_was_asked_with_is_listed_page_by_page(site: _Make) -> None:
    made = site(*["Yes."] * 3)
    given = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": [{"type": "input_text", "text": "three"}], "id": "msg_mine"},
    ]
    response = (await made.create(input=given)).response
    path = f"/v1/responses/{response['id']}/input_items"
    whole = (await made.get(path)).json
    assert [item["content"][0]["text"] for item in whole["data"]] == ["three", "two", "one"]
    assert (whole["first_id"], whole["last_id"], whole["has_more"]) == (
        "msg_mine",
        whole["data"][-1]["id"],
        False,
    )
    assert {item["type"] for item in whole["data"]} == {"message"}
    assert [item["content"][0]["type"] for item in whole["data"]] == [
        "input_text",
        "output_text",
        "input_text",
    ]
    first = (await made.get(f"{path}?order=asc&limit=2")).json
    assert ([item["content"][0]["text"] for item in first["data"]], first["has_more"]) == (
        ["one", "two"],
        True,
    )
    rest = (await made.get(f"{path}?order=asc&limit=2&after={first['last_id']}")).json
    assert ([item["id"] for item in rest["data"]], rest["has_more"]) == (["msg_mine"], False)
    for query, param in (
        ("limit=0", "limit"),
        ("limit=x", "limit"),
        ("order=up", "order"),
        ("after=no", "after"),
    ):
        refused = await made.get(f"{path}?{query}")
        assert (refused.status, refused.error["param"]) == (400, param)
    # Only what was new in the request: the rest is in the response before.
    after = (await made.create(input="four", previous_response_id=response["id"])).response
    (item,) = (await made.get(f"/v1/responses/{after['id']}/input_items")).json["data"]
    assert item["content"][0]["text"] == "four"


async def test_r10_nothing_of_a_response_is_told_to_another_key(site: _Make) -> None:
    made = site("Yes.", keys=("one", "two"))
    path = f"/v1/responses/{(await made.create(input='x')).response['id']}"
    other = {"authorization": "Bearer two"}
    assert (await made.get(f"{path}/input_items")).status == 200
    assert (await made.get(f"{path}/input_items", **other)).status == 404
    assert (await made.call("POST", f"{path}/cancel", b"", other)).status == 404


async def test_r10_a_response_that_is_over_can_be_neither_cancelled_nor_streamed(site: _Make) -> None:
    made = site("Yes.")
    path = f"/v1/responses/{(await made.create(input='x')).response['id']}"
    refused = await made.call("POST", f"{path}/cancel", b"")
    assert (refused.status, refused.error["code"]) == (400, "response_not_cancellable")
    assert "close its connection" in refused.error["message"]
    assert (await made.get(f"{path}?stream=true")).error["param"] == "stream"
    assert (await made.get(f"{path}?stream=false")).status == 200


async def test_r7_what_is_not_to_be_stored_is_not(site: _Make) -> None:
    made = site("Yes.")
    response = (await made.create(input="x", store=False)).response
    assert response["store"] is False
    assert (await made.get(f"/v1/responses/{response['id']}")).status == 404
    never = site("Yes.", serve=Serve(store=False))
    assert (await never.create(input="x")).response["store"] is False


async def test_r7_what_failed_cannot_be_gone_on_from(site: _Make) -> None:
    made = site(reply(say("Half "), fail("agent_failed")))
    failed = (await made.create(input="x", stream=True)).streamed
    assert (await made.create(input="y", previous_response_id=failed["id"])).status == 400


async def test_r7_a_response_belongs_to_the_key_it_was_made_with(site: _Make) -> None:
    made = site("Yes.", keys=("one", "two"))
    response = (await made.create(input="x")).response
    path = f"/v1/responses/{response['id']}"
    assert (await made.get(path)).status == 200
    assert (await made.get(path, authorization="Bearer two")).status == 404
    other = await made.create(
        input="x", previous_response_id=response["id"], headers={"authorization": "Bearer two"}
    )
    assert other.error["code"] == "previous_response_not_found"
    assert (await made.call("DELETE", path, b"", {"authorization": "Bearer two"})).status == 404


async def test_r7_ids_that_contradict_each_other_are_refused(site: _Make) -> None:
    made = site("Yes.", "Again.")
    named = (await made.create(input="x", headers={"x_conversation_id": "a"})).response
    again = {"input": "y", "previous_response_id": named["id"]}
    assert (await made.create(**again, headers={"x_conversation_id": "b"})).error["code"] == "conflicting_ids"
    assert (await made.create(**again, headers={"x_conversation_id": "a"})).status == 200
    both = await made.create(input="y", previous_response_id=named["id"], conversation="a")
    assert both.error["code"] == "conflicting_ids"


async def test_r7_the_store_forgets_what_is_old_and_what_is_too_much(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    with closing(Database.open(tmp_path)) as database:
        store = SqliteResponses(database, limit=25)
        for number in range(4):
            used = now + timedelta(seconds=number)
            await store.save(StoredResponse(f"r{number}", "c", None, used, b"0123456789"))
        assert [await store.find(f"r{number}", "c") is not None for number in range(4)] == [
            False,
            False,
            True,
            True,
        ]
        await store.touch(["r2"], "c", now + timedelta(hours=1))
        forgotten = await SqliteJournals(database).forget_unused(
            now + timedelta(hours=1), timedelta(minutes=59)
        )
        assert forgotten == 1
        assert await store.find("r2", "c") is not None
        assert await store.find("r2", "d") is None


async def test_r7_a_store_in_memory_has_a_limit_too() -> None:
    now = datetime.now(UTC)
    with SqliteResponses.in_memory(limit=25) as store:
        for number in range(4):
            used = now + timedelta(seconds=number)
            await store.save(StoredResponse(f"r{number}", "c", None, used, b"0123456789"))
        assert [await store.find(f"r{number}", "c") is not None for number in range(4)] == [
            False,
            False,
            True,
            True,
        ]
        await store.delete("r2", "c")
        assert await store.find("r2", "c") is None
