"""J4: `/v1/conversations`: ids that this server makes carry the history."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Serve
from dragoman.journal.store import JournalConflict, JournalStoreError
from dragoman.lm import (
    CancellationToken,
    GuardedModel,
    LanguageModelError,
    Request,
    Sink,
    TextPart,
)
from dragoman.lm.request import STORE_OPTION
from http_server.kit import Answered, Held, Json, Site, site_of
from lm.providers import Provider

_Make = Callable[..., Site]


class Listener:
    """A model that answers with what it was sent, and remembers the requests."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def __call__(self, request: Request, sink: Sink, _token: CancellationToken) -> None:
        self.requests.append(request)
        last = request.messages[-1].text
        if last == "fail":
            raise LanguageModelError("agent_failed", "It broke.")
        sink.report(TextPart(f"You said {last}."))
        if last == "break":
            raise LanguageModelError("agent_failed", "It broke.")

    @property
    def last(self) -> list[str]:
        return [message.text for message in self.requests[-1].messages]


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def site(tmp_path: Path, listener: Listener) -> Iterator[_Make]:
    with ExitStack() as stack:

        def made(**options: Any) -> Site:
            models = Held(m=GuardedModel(Provider(listener)))
            return stack.enter_context(contextmanager(site_of)(models, store=tmp_path, **options))

        yield made


def _message(text: str) -> Json:
    return {"type": "message", "role": "user", "content": text}


async def _made(site: Site, *texts: str, **fields: object) -> str:
    body = {"items": list(map(_message, texts)), **fields}
    id_: str = (await site.post("/v1/conversations", body)).json["id"]
    return id_


async def _texts(site: Site, id_: str) -> list[str]:
    listed = (await site.get(f"/v1/conversations/{id_}/items?order=asc&limit=100")).json
    return [item["content"][0]["text"] for item in listed["data"]]


async def test_j4_a_conversation_carries_the_history(site: _Make, listener: Listener) -> None:
    made = site()
    id_ = await _made(made, "Before")
    first = (await made.create(input="one", conversation=id_)).response
    assert first["conversation"] == {"id": id_}
    assert listener.last == ["Before", "one"]
    second = (await made.create(input="two", conversation={"id": id_}, stream=True)).streamed
    assert second["conversation"] == {"id": id_}
    assert listener.last == ["Before", "one", "You said one.", "two"]
    # It is evidence of the conversation as well.
    assert listener.requests[-1].options.model_options["_conversationId"] == id_
    assert await _texts(made, id_) == ["Before", "one", "You said one.", "two", "You said two."]
    # Another process, which has only the database, goes on.
    other = site(owner="0 another")
    await other.create(input="three", conversation=id_)
    assert len(listener.last) == 6
    assert (await made.get(f"/v1/responses/{second['id']}")).response["conversation"] == {"id": id_}


async def test_j4_a_background_response_is_added_to_its_conversation(site: _Make, listener: Listener) -> None:
    made = site()
    id_ = await _made(made)
    begun = (await made.create(input="one", conversation=id_, background=True)).response
    events = (await made.get(f"/v1/responses/{begun['id']}?stream=true")).data
    assert events[-1]["response"]["conversation"] == {"id": id_}
    assert await _texts(made, id_) == ["one", "You said one."]
    assert listener.last == ["one"]


async def test_j4_a_failure_is_added_only_with_what_was_said(site: _Make) -> None:
    made = site()
    id_ = await _made(made)
    assert (await made.create(input="fail", conversation=id_)).status == 500
    assert await _texts(made, id_) == []
    assert (await made.create(input="break", conversation=id_)).response["status"] == "failed"
    assert await _texts(made, id_) == ["break", "You said break."]


async def test_j4_responses_at_the_same_time_lose_no_items(
    site: _Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, other = site(), site(owner="0 another")
    id_ = await _made(made)
    conflicts = 0
    for each in (made, other):
        store = each.service.conversations._journals.store
        assert store is not None
        append, read = store.append, store.read

        async def appended(*arguments: Any, append: Any = append, **named: Any) -> int:
            nonlocal conflicts
            try:
                return int(await append(*arguments, **named))
            except JournalConflict:
                conflicts += 1
                raise

        async def slowly(*arguments: Any, read: Any = read) -> Any:
            found = await read(*arguments)
            # The others read the same now, and all but one of them come too late.
            await asyncio.sleep(0)
            return found

        monkeypatch.setattr(store, "append", appended)
        monkeypatch.setattr(store, "read", slowly)
    words = [f"w{number}" for number in range(10)]
    await asyncio.gather(
        *(
            (made if number % 2 else other).create(input=word, conversation=id_)
            for number, word in enumerate(words)
        )
    )
    found = await _texts(made, id_)
    assert sorted(found) == sorted([*words, *(f"You said {word}." for word in words)])
    assert all(found[found.index(word) + 1] == f"You said {word}." for word in words)
    assert conflicts > 0


async def test_j4_only_the_key_that_made_it_finds_a_conversation(site: _Make) -> None:
    made = site(keys=("one", "two"))
    id_ = await _made(made, "Mine")
    other = {"authorization": "Bearer two"}
    path = f"/v1/conversations/{id_}"
    assert (await made.get(path)).status == 200
    item = (await made.get(f"{path}/items")).json["data"][0]["id"]
    refused: list[Answered] = [
        await made.get(path, **other),
        await made.get(f"{path}/items", **other),
        await made.get(f"{path}/items/{item}", **other),
        await made.post(path, {"metadata": {}}, **other),
        await made.post(f"{path}/items", {"items": [_message("x")]}, **other),
        await made.call("DELETE", f"{path}/items/{item}", b"", other),
        await made.call("DELETE", path, b"", other),
        await made.create(input="x", conversation=id_, headers=other),
        await made.create(input="x", conversation="conv_" + "0" * 32),
    ]
    for each in refused:
        assert (each.status, each.error["code"]) == (404, "conversation_not_found")
    assert await _texts(made, id_) == ["Mine"]


@pytest.mark.parametrize(
    "id_", ["mine", "conv_mine", "conv_689667905b048191b4740501625afd940c7533ace33a2dab"]
)
async def test_j4_an_id_that_was_not_made_here_is_evidence_only(
    site: _Make, listener: Listener, id_: str
) -> None:
    made = site()
    response = (await made.create(input="one", conversation=id_)).response
    assert "conversation" not in response
    await made.create(input="two", conversation=id_)
    assert listener.last == ["two"]
    assert listener.requests[-1].options.model_options["_conversationId"] == id_
    assert (await made.get(f"/v1/conversations/{id_}")).status == 404


async def test_j4_a_conversation_is_changed_and_deleted(site: _Make, tmp_path: Path) -> None:
    made = site()
    created = (await made.post("/v1/conversations", {"metadata": {"a": "b"}})).json
    path = f"/v1/conversations/{created['id']}"
    assert (created["object"], created["metadata"]) == ("conversation", {"a": "b"})
    assert (await made.get(path)).json == created
    assert (await made.post(path, {"metadata": {"c": "d"}})).json["metadata"] == {"c": "d"}
    assert (await made.get(path)).json["metadata"] == {"c": "d"}
    words = ["First-4711", "Second-4712", "Third-4713"]
    added = (await made.post(f"{path}/items", {"items": list(map(_message, words))})).json
    assert [item["content"][0]["text"] for item in added["data"]] == words
    assert added["has_more"] is False
    ids = [item["id"] for item in added["data"]]
    listing = (await made.get(f"{path}/items?limit=1&after={ids[2]}")).json
    assert ([item["id"] for item in listing["data"]], listing["has_more"]) == ([ids[1]], True)
    assert (await made.get(f"{path}/items/{ids[1]}")).json == added["data"][1]
    # An item that is deleted is in no file; the others are as they were.
    assert (await made.call("DELETE", f"{path}/items/{ids[1]}", b"")).json["id"] == created["id"]
    assert (await made.get(f"{path}/items/{ids[1]}")).status == 404
    assert (await made.call("DELETE", f"{path}/items/{ids[1]}", b"")).status == 404
    assert await _texts(made, created["id"]) == [words[0], words[2]]
    assert _found(tmp_path, *words) == [words[0], words[2]]
    deleted = (await made.call("DELETE", path, b"")).json
    assert deleted == {"id": created["id"], "object": "conversation.deleted", "deleted": True}
    assert (await made.get(path)).status == 404
    assert _found(tmp_path, *words) == []


@pytest.mark.parametrize("failing", ["amend", "append"])
async def test_j4_removing_an_item_leaves_no_content_where_the_store_fails_in_between(
    site: _Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """It is removed with its content, or is still there to be removed; never hidden with its content stored."""
    made = site()
    id_ = await _made(made, "First-4711", "Second-4712")
    path = f"/v1/conversations/{id_}/items"
    items = (await made.get(f"{path}?order=asc")).json["data"]
    store = made.service.conversations._journals.store

    async def fails(*_arguments: object, **_named: object) -> None:
        raise JournalStoreError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(store, failing, fails)
        assert (await made.call("DELETE", f"{path}/{items[1]['id']}", b"")).status == 503
    listed = [item["id"] for item in (await made.get(f"{path}?order=asc")).json["data"]]
    is_stored = bool(_found(tmp_path, "Second-4712"))
    assert is_stored is (items[1]["id"] in listed)
    assert is_stored is (failing == "amend")
    # The client tries again.
    again = await made.call("DELETE", f"{path}/{items[1]['id']}", b"")
    assert again.status == (200 if is_stored else 404)
    assert await _texts(made, id_) == ["First-4711"]
    assert _found(tmp_path, "Second-4712") == []


def _found(folder: Path, *words: str) -> list[str]:
    files = list(folder.iterdir())
    assert any(file.name.endswith("-wal") for file in files)
    stored = b"".join(file.read_bytes() for file in files)
    return [word for word in words if word.encode() in stored]


@pytest.mark.parametrize(
    "items",
    [
        [_message("x")] * 21,
        [{"type": "message", "role": "other", "content": "x"}],
        [{"type": "function_call_output", "call_id": "none", "output": "x"}],
        [{**_message("x"), "id": "msg_1"}, {**_message("y"), "id": "msg_1"}],
        [{**_message("x"), "id": 1}],
        "x",
    ],
)
async def test_j4_items_that_no_request_could_read_are_refused(site: _Make, items: object) -> None:
    made = site()
    id_ = await _made(made)
    assert (await made.post(f"/v1/conversations/{id_}/items", {"items": items})).status == 400
    assert (await made.post("/v1/conversations", {"items": items})).status == 400
    assert await _texts(made, id_) == []


async def test_j4_a_result_follows_its_call_into_a_conversation(site: _Make) -> None:
    made = site()
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    id_: str = (await made.post("/v1/conversations", {"items": [call]})).json["id"]
    output = {"type": "function_call_output", "call_id": "c1", "output": "green"}
    assert (await made.post(f"/v1/conversations/{id_}/items", {"items": [output]})).status == 200
    assert (await made.create(input="x", conversation=id_)).status == 200


async def test_j4_two_names_of_a_history_contradict_each_other(site: _Make) -> None:
    made = site()
    id_ = await _made(made)
    response = (await made.create(input="one", conversation=id_)).response
    both = await made.create(input="two", conversation=id_, previous_response_id=response["id"])
    assert both.error["code"] == "conflicting_ids"
    # The response alone is not the whole history.
    alone = await made.create(input="two", previous_response_id=response["id"])
    assert (alone.status, alone.error["code"]) == (400, "conflicting_ids")
    assert id_ in alone.error["message"]
    assert "deleted" not in alone.error["message"]
    await made.call("DELETE", f"/v1/conversations/{id_}", b"")
    gone = await made.create(input="two", previous_response_id=response["id"])
    assert (gone.status, gone.error["code"]) == (404, "conversation_not_found")
    assert f"{id_!r}, which was deleted" in gone.error["message"]
    unstored = await made.create(input="two", conversation=id_, store=False)
    assert (unstored.status, unstored.error["param"]) == (400, "store")


@pytest.mark.parametrize(
    "options", [{"content": "metadata"}, {"content": "off"}, {"serve": Serve(store=False)}]
)
async def test_j4_without_stored_content_there_are_no_conversations(site: _Make, options: Any) -> None:
    made = site(**options)
    refused = await made.post("/v1/conversations", {})
    assert (refused.status, refused.error["code"]) == (400, "unsupported")
    assert "[journal]" in refused.error["message"]


async def test_store_false_tells_the_model_to_store_nothing(site: _Make, listener: Listener) -> None:
    made = site()

    def option() -> object:
        return listener.requests[-1].options.model_options.get(STORE_OPTION)

    await made.create(input="x")
    assert option() is None
    await made.create(input="x", store=False)
    assert option() is False
    chat = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    await made.post("/v1/chat/completions", chat)
    assert option() is None
    await made.post("/v1/chat/completions", {**chat, "store": False})
    assert option() is False
    await site(serve=Serve(store=False)).create(input="x")
    assert option() is False
