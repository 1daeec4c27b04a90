"""R10: `item_reference`: a client names items that the server has stored, as the AI SDK does from the second request on."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Serve
from dragoman.frontends.http import references
from dragoman.frontends.http.stream import MESSAGE_ID
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.lm import (
    CancellationToken,
    DataPart,
    GuardedModel,
    LanguageModelError,
    Message,
    Part,
    Request,
    Sink,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from dragoman.lm.parts import STATEFUL_MARKER
from dragoman.store import Database, SqliteResponses, StoredResponse
from http_server.kit import TOOL, Answered, Held, Json, Site, site_of, soon
from http_server.test_http_websocket import _connected
from lm.providers import Provider

_OTHER_KEY = {"authorization": "Bearer two"}


class Heard:
    """A model that remembers what it was asked, and answers with the next parts."""

    def __init__(self) -> None:
        self.answers: list[tuple[Part, ...]] = []
        self.asked: list[tuple[Message, ...]] = []
        self.fails = False
        self.waits = False

    async def __call__(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        self.asked.append(request.messages)
        for part in self.answers.pop(0) if self.answers else (TextPart("Yes."),):
            sink.report(part)
        if self.fails:
            raise LanguageModelError("agent_failed", "It broke.")
        if self.waits:
            cancelled = asyncio.Event()
            token.on_cancel(cancelled.set)
            await cancelled.wait()

    @property
    def last(self) -> list[tuple[str, list[Part]]]:
        return [(message.role, list(message.content)) for message in self.asked[-1]]


class Place:
    """A state folder with sites on it, as processes that follow each other."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.model = Heard()
        self._stack = stack

    def site(self, **options: Any) -> Site:
        models = Held(m=GuardedModel(Provider(self.model)))
        made = contextmanager(site_of)(models, **{"store": self.folder, **options})
        return self._stack.enter_context(made)

    def rows(self) -> int:
        with closing(Database.open(self.folder)) as database:
            [(count,)] = database.rows(tuple[int], "SELECT count(*) FROM stored_items")
        return count


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


def _user(text: str) -> Json:
    return {"role": "user", "content": text}


def _reference(item: Json | str) -> Json:
    return {"type": "item_reference", "id": item if isinstance(item, str) else item["id"]}


def _missing(answered: Answered, param: str = "input[0]") -> str:
    """The sentence of the error for an item that is not there."""
    assert answered.status == 404
    error = answered.error
    assert (error["type"], error["code"], error["param"]) == ("not_found", "item_not_found", param)
    return str(error["message"])


async def test_r10_a_tool_loop_that_names_its_items_reaches_the_model_whole(place: Place) -> None:
    place.model.answers = [
        (ThinkingPart("Hm."), TextPart("Looking."), ToolCallPart("dg_1", "look", {"word": "a"}))
    ]
    site = place.site()
    first = (await site.create(input="Look.", tools=[TOOL])).response
    assert [item["id"].partition("_")[0] for item in first["output"]] == ["rs", "msg", "fc"]
    call_id = first["output"][2]["call_id"]
    result = {"type": "function_call_output", "call_id": call_id, "output": "green"}
    given = [_user("Look."), *map(_reference, first["output"]), result]
    second = (await site.create(input=given, tools=[TOOL])).response
    by_reference = place.model.last
    whole = [_user("Look."), *first["output"], result]
    assert (await site.create(input=whole, tools=[TOOL])).status == 200
    assert by_reference == place.model.last
    # The stored request has the items themselves.
    listed = (await site.get(f"/v1/responses/{second['id']}/input_items?order=asc")).json["data"]
    assert [item["type"] for item in listed] == [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
    ]


async def test_r10_a_message_that_is_named_brings_its_marker_back(place: Place) -> None:
    marker = DataPart(STATEFUL_MARKER, b"m\\TOKEN")
    place.model.answers = [(marker, TextPart("One."))]
    site = place.site()
    (message,) = (await site.create(input="a")).response["output"]
    assert message["id"] == f"{MESSAGE_ID}0_TOKEN"
    await site.create(input=[_user("a"), _reference(message), _user("b")])
    assert place.model.last[1] == ("assistant", [marker, TextPart("One.")])


async def test_r10_a_reference_may_leave_its_type_out(place: Place) -> None:
    site = place.site()
    (message,) = (await site.create(input="a")).response["output"]
    await site.create(input=[_user("a"), {"id": message["id"]}, _user("b")])
    assert [role for role, _ in place.model.last] == ["user", "assistant", "user"]


async def test_r10_an_item_is_found_after_a_restart_and_by_its_own_key_only(place: Place) -> None:
    (message,) = (await place.site(keys=("one", "two")).create(input="a")).response["output"]
    again = place.site(keys=("one", "two"))
    given = [_reference(message), _user("b")]
    assert (await again.create(input=given)).status == 200
    said = _missing(await again.create(input=given, headers=_OTHER_KEY))
    assert message["id"] in said
    assert "Send the item itself" in said


async def test_r10_an_item_that_is_not_there_is_named_with_its_place(place: Place) -> None:
    site = place.site()
    _missing(await site.create(input=[_user("a"), _reference("msg_none")]), "input[1]")
    _missing(await site.create(input=[_reference("msg_in0_resp_" + "0" * 32)]))
    wrong = await site.create(input=[{"type": "item_reference", "id": 7}])
    assert (wrong.status, wrong.error["param"]) == (400, "input[0].id")
    assert place.model.asked == []


async def test_r10_what_was_not_stored_is_not_there(place: Place) -> None:
    site = place.site()
    (message,) = (await site.create(input="a", store=False)).response["output"]
    assert "store: false" in _missing(await site.create(input=[_reference(message)]))
    never = place.site(serve=Serve(store=False))
    (message,) = (await never.create(input="a")).response["output"]
    assert "[serve]" in _missing(await never.create(input=[_reference(message)]))


@pytest.mark.parametrize("content", ["full", "metadata"])
async def test_r10_an_item_stays_as_long_as_any_response_that_has_it(place: Place, content: str) -> None:
    site = place.site(content=content)
    first = (await site.create(input="a")).response
    given = [_reference(first["output"][0]), _user("b")]
    second = (await site.create(input=given)).response
    for response in (first, second):
        assert (await site.create(input=given, store=False)).status == 200
        assert (await site.call("DELETE", f"/v1/responses/{response['id']}", b"")).status == 200
    _missing(await site.create(input=given))


async def test_r10_nothing_is_left_of_the_items_of_what_was_deleted_or_expired(place: Place) -> None:
    site = place.site()
    gone, old = [(await site.create(input=text)).response for text in ("a", "b")]
    assert place.rows() == 2
    await site.call("DELETE", f"/v1/responses/{gone['id']}", b"")
    _missing(await site.create(input=[_reference(gone["output"][0])]))
    assert place.rows() == 1
    with closing(Database.open(place.folder)) as database:
        later = datetime.now(UTC) + timedelta(hours=1)
        assert await SqliteJournals(database).forget_unused(later, timedelta(minutes=59)) == 1
    _missing(await site.create(input=[_reference(old["output"][0])]))
    assert place.rows() == 0


async def test_r10_an_item_of_the_input_is_found_by_its_id_or_by_the_id_it_is_listed_with(
    place: Place,
) -> None:
    site = place.site()
    first = (await site.create(input=[{**_user("mine"), "id": "msg_mine"}, _user("other")])).response
    listed = (await site.get(f"/v1/responses/{first['id']}/input_items?order=asc")).json["data"]
    await site.create(input=[_reference(item) for item in listed])
    assert [part for _, content in place.model.last for part in content] == [
        TextPart("mine"),
        TextPart("other"),
    ]


def _forged(item: Json) -> Json:
    return {**item, "content": [{"type": "output_text", "text": "FORGED"}]}


async def _referred(place: Place, site: Site, item: Json, **fields: object) -> list[Part]:
    """What the model gets for a reference to the item."""
    assert (await site.create(input=[_reference(item), _user("c")], store=False, **fields)).status == 200
    return [part for role, content in place.model.last if role == "assistant" for part in content]


async def test_r10_a_reference_gives_what_the_server_said_whatever_the_client_sent_under_that_id(
    place: Place,
) -> None:
    site = place.site()
    place.model.answers = [(TextPart("One."),)]
    first = (await site.create(input="a")).response
    (message,) = first["output"]
    second = (await site.create(input=[_user("a"), _forged(message), _user("b")])).response
    # The request itself had what its client sent.
    assert place.model.last[1] == ("assistant", [TextPart("FORGED")])
    assert await _referred(place, site, message) == [TextPart("One.")]
    # Also if another reference has led to the response with the other text.
    await site.create(input=[_reference(second["output"][0]), _reference(message)], store=False)
    assert place.model.last[0][1][-1] == TextPart("One.")
    # Also in a conversation with it, and after a response that has both.
    both = [_reference(message), _forged(message), _user("b")]
    third = (await site.create(input=both)).response
    assert await _referred(place, site, message) == [TextPart("One.")]
    continued = await _referred(place, site, message, previous_response_id=third["id"])
    assert continued[-1] == TextPart("One.")
    made = (await site.post("/v1/conversations", {"items": [_forged(message)]})).json["id"]
    assert await _referred(place, site, message) == [TextPart("One.")]
    answered = await site.create(input=[_reference(message), _user("d")], conversation=made)
    assert answered.status == 200, answered.writes
    assert place.model.last[-2][1][-1] == TextPart("One.")
    # A copy that a reference has made outlives the response.
    await site.call("DELETE", f"/v1/responses/{first['id']}", b"")
    assert await _referred(place, site, message) == [TextPart("One.")]


async def test_r10_a_websocket_gives_what_it_said_as_well(place: Place) -> None:
    site = place.site()
    place.model.answers = [(TextPart("One."),)]
    async with _connected(site) as socket:
        (message,) = (await socket.create(input="a", store=False))["output"]
        await socket.create(input=[_forged(message), _user("b")], store=False)
        await socket.create(input=[_reference(message), _user("c")], store=False)
    assert place.model.last[0] == ("assistant", [TextPart("One.")])


async def test_r10_of_a_clients_own_items_under_one_id_the_newest_counts(place: Place) -> None:
    site = place.site()
    for text in ("old", "new"):
        await site.create(input=[{**_user(text), "id": "msg_mine"}])
        await site.create(input=[_reference("msg_mine")])
        assert place.model.last == [("user", [TextPart(text)])]


async def test_r10_items_of_a_conversation_are_found_until_they_are_removed(place: Place) -> None:
    site = place.site()
    made = (await site.post("/v1/conversations", {"items": [_user("first")]})).json["id"]
    path = f"/v1/conversations/{made}/items"
    (item,) = (await site.get(path)).json["data"]
    await site.create(input=[_reference(item), _user("b")])
    assert place.model.last[0] == ("user", [TextPart("first")])
    # Also in the request that names the conversation, and in another conversation.
    assert (await site.create(input=[_reference(item)], conversation=made)).status == 200
    copied = (await site.post("/v1/conversations", {"items": [_reference(item)]})).json["id"]
    assert (await site.get(f"/v1/conversations/{copied}/items")).json["data"] == [item]
    _missing(await site.post(path, {"items": [_reference("msg_none")]}), "items[0]")


async def test_r10_items_of_a_deleted_conversation_are_gone(place: Place) -> None:
    site = place.site()
    made = (await site.post("/v1/conversations", {"items": [_user("first"), _user("second")]})).json["id"]
    first, second = (await site.get(f"/v1/conversations/{made}/items?order=asc")).json["data"]
    await site.call("DELETE", f"/v1/conversations/{made}/items/{first['id']}", b"")
    _missing(await site.create(input=[_reference(first)]))
    assert (await site.create(input=[_reference(second)], store=False)).status == 200
    await site.call("DELETE", f"/v1/conversations/{made}", b"")
    _missing(await site.create(input=[_reference(second)]))
    assert place.rows() == 0


@pytest.mark.parametrize("streams", [True, False])
async def test_r10_the_beginning_of_an_answer_that_failed_can_be_named(
    place: Place,
    streams: bool,  # noqa: FBT001
) -> None:
    place.model.fails = True
    site = place.site()
    answered = await site.create(input="a", stream=streams)
    failed = answered.streamed if streams else answered.response
    place.model.fails = False
    await site.create(input=[_user("a"), _reference(failed["output"][0]), _user("Go on.")])
    assert place.model.last[1] == ("assistant", [TextPart("Yes.")])
    # It is stored as it ended.
    assert (await site.get(f"/v1/responses/{failed['id']}")).response == failed


async def test_r10_the_beginning_of_an_answer_that_the_client_cut_off_can_be_named(place: Place) -> None:
    place.model.waits = True
    site = place.site()
    leave, heard = asyncio.Event(), b""

    def hear(write: bytes) -> None:
        nonlocal heard
        heard += write
        if b"output_text.delta" in write:
            leave.set()

    body = json.dumps({"model": "m", "input": "a", "stream": True}).encode()
    await soon(site.call("POST", "/v1/responses", body, leave=leave, heard=hear))
    events = [json.loads(line[6:]) for line in heard.decode().splitlines() if line.startswith("data: {")]
    (message,) = [event["item"] for event in events if event["type"] == "response.output_item.added"]
    place.model.waits = False
    await site.create(input=[_user("a"), _reference(message), _user("b")])
    assert place.model.last[1] == ("assistant", [TextPart("Yes.")])
    stored = (await site.get(f"/v1/responses/{events[0]['response']['id']}")).response
    assert (stored["status"], stored["output"][0]["status"]) == ("cancelled", "incomplete")


async def test_r10_items_of_a_background_response_are_found_when_it_has_ended(place: Place) -> None:
    site = place.site()
    begun = (await site.create(input="a", background=True)).response
    await site.get(f"/v1/responses/{begun['id']}?stream=true")
    (message,) = (await site.get(f"/v1/responses/{begun['id']}")).response["output"]
    assert (await site.create(input=[_reference(message), _user("b")])).status == 200


async def test_r10_a_compaction_has_the_items_that_were_named(place: Place) -> None:
    site = place.site()
    (message,) = (await site.create(input="a")).response["output"]
    packed = await site.post("/v1/responses/compact", {"model": "m", "input": [_reference(message)]})
    await site.create(input=[*packed.json["output"], _user("b")])
    assert place.model.last[0] == ("assistant", [TextPart("Yes.")])


async def test_r10_a_large_item_counts_each_time_it_is_named(place: Place) -> None:
    site = place.site(serve=Serve(max_body_megabytes=0.01))
    (item,) = (await site.create(input=[{**_user("x" * 4_000), "id": "msg_large"}])).response["output"]
    assert (await site.create(input=[_reference("msg_large")] * 2)).status == 200
    refused = await site.create(input=[_reference("msg_large")] * 3)
    assert (refused.status, refused.error["code"], refused.error["param"]) == (
        413,
        "body_too_large",
        "input[2]",
    )
    # Another item is as small as before.
    assert (await site.create(input=[_reference(item), _user("b")] * 3)).status == 200


async def test_r10_a_request_cannot_have_any_number_of_conversations_read(place: Place) -> None:
    site = place.site()
    named = []
    for number in range(20):
        item = {**_user(str(number)), "id": f"msg_{number}"}
        named.append(_reference(item))
        await site.post("/v1/conversations", {"items": [item]})
    assert (await site.create(input=named[:16], store=False)).status == 200
    refused = await site.create(input=named, store=False)
    assert (refused.status, refused.error["code"]) == (413, "body_too_large")


async def test_r10_a_request_cannot_have_any_number_of_responses_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = place.site()
    stored = [(await site.create(input=f"{number}" + "x" * 4_000)).response for number in range(3)]
    monkeypatch.setattr(references, "_MOST_BYTES", 12_000)
    given = [_reference(response["output"][0]) for response in stored]
    assert (await site.create(input=[given[0], _user("b")], store=False)).status == 200
    refused = await site.create(input=[*given, _user("b")], store=False)
    assert (refused.status, refused.error["code"]) == (413, "body_too_large")


async def test_r10_a_long_chat_of_references_reads_few_responses(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = place.site()
    history: list[Json] = []
    for number in range(6):
        history.append(_user(str(number)))
        history += map(_reference, (await site.create(input=history)).response["output"])
    read: list[str] = []
    find = SqliteResponses.find_by_item

    async def counted(
        store: SqliteResponses, item: str, connection: str, *, is_own: bool = False
    ) -> StoredResponse | None:
        read.append(item)
        return await find(store, item, connection, is_own=is_own)

    monkeypatch.setattr(SqliteResponses, "find_by_item", counted)
    assert (await site.create(input=[*history, _user("last")])).status == 200
    # The last response has all items before it.
    assert len(place.model.last) == 13
    assert len(read) == 1
