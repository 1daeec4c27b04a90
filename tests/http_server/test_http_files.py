"""R7, R10: pictures and files of an agent: as items, or as addresses that only their client knows."""

import base64
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from bridge.consumer import Bridge
from dragoman.config import ConsoleConfig, KeyConfig, Serve
from dragoman.frontends.http.file_links import linked_files, shown_name
from dragoman.frontends.http.files import Files, StoredFile
from dragoman.lm import DataPart, GuardedModel, Part, TextPart, assistant
from dragoman.lm.foreign_items import item_part
from dragoman.store import Database
from fake_agent.steps import prompt
from http_server.kit import Answered, Held, Json, Site, site_of, soon
from http_server.real_server import listening
from lm.providers import plays
from process.living import all_gone

_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_PICTURE = DataPart("image/png", _PNG)
_PDF = DataPart("application/pdf", b"%PDF-1.4", name="report [1].pdf")
_ADDRESS = re.compile(r"\]\((http://[^)]+)\)")

_Play = Callable[..., Site]


@pytest.fixture
def playing(tmp_path: Path) -> Iterator[_Play]:
    with ExitStack() as stack:

        def made(*parts: Part, **options: Any) -> Site:
            models = Held(m=GuardedModel(plays(*parts)))
            return stack.enter_context(contextmanager(site_of)(models, **{"store": tmp_path, **options}))

        yield made


async def _chat(made: Site, *messages: Json, **fields: object) -> Json:
    asked = list(messages) or [{"role": "user", "content": "x"}]
    answered = await made.post("/v1/chat/completions", {"model": "m", "messages": asked, **fields})
    message: Json = answered.json["choices"][0]["message"]
    return message


def _path(text: str) -> str:
    """The path of the only address in a text."""
    (address,) = _ADDRESS.findall(text)
    return str(address.removeprefix("http://127.0.0.1"))


def _written(folder: Path) -> bytes:
    """All bytes of all files in it."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def _fetch(made: Site, path: str) -> Answered:
    """As a browser does: without a key."""
    without = Site(made.app, made.service)
    return await without.get(path)


async def test_r10_a_picture_is_an_item_that_openai_has_a_form_for(playing: _Play) -> None:
    made = playing(TextPart("Look: "), _PICTURE, TextPart("there."))
    for response in (
        (await made.create(input="x")).json,
        (await made.create(input="x", stream=True)).data[-1]["response"],
    ):
        before, picture, after = response["output"]
        assert [item["content"][0]["text"] for item in (before, after)] == ["Look: ", "there."]
        assert (picture["type"], picture["status"]) == ("image_generation_call", "completed")
        assert base64.b64decode(picture["result"]) == _PNG
        assert picture["id"].startswith("ig_")


async def test_r7_a_picture_alone_is_an_answer(playing: _Play) -> None:
    assert [item["type"] for item in (await playing(_PICTURE).create(input="x")).json["output"]] == [
        "image_generation_call"
    ]


async def test_r10_a_completion_has_the_address_of_a_picture_in_markdown(playing: _Play) -> None:
    made = playing(TextPart("Look: "), _PICTURE, keys=("a-key",))
    content = (await _chat(made))["content"]
    assert content.startswith("Look: \n\n![image.png](http://127.0.0.1/v1/files/file_")
    fetched = await _fetch(made, _path(content))
    assert (fetched.status, b"".join(fetched.writes)) == (200, _PNG)
    assert fetched.headers["content-type"] == "image/png"
    assert fetched.headers["content-disposition"] == "inline; filename*=UTF-8''image.png"


async def test_r10_a_client_of_responses_gets_links_if_it_asks_for_them(playing: _Play) -> None:
    made = playing(_PICTURE)
    (message,) = (await made.create(input="x", headers={"x_dragoman_files": "links"})).response["output"]
    assert (await _fetch(made, _path(message["content"][0]["text"]))).status == 200


async def test_r10_a_file_is_a_link_with_an_annotation(playing: _Play) -> None:
    made = playing(TextPart("Here: "), _PDF, TextPart("Done."))
    streamed = await made.create(input="x", stream=True)
    before, message, after = streamed.streamed["output"]
    assert [item["content"][0]["text"] for item in (before, after)] == ["Here: ", "Done."]
    (content,) = message["content"]
    (annotation,) = content["annotations"]
    link = content["text"][annotation["start_index"] : annotation["end_index"]]
    assert link == rf"[report \[1\].pdf]({annotation['url']})"
    assert annotation["title"] == "report [1].pdf"
    fetched = await _fetch(made, _path(link))
    assert (fetched.headers["content-type"], b"".join(fetched.writes)) == ("application/pdf", _PDF.data)
    assert fetched.headers["content-disposition"] == "attachment; filename*=UTF-8''report%20%5B1%5D.pdf"


async def test_r10_a_background_response_repeats_its_links(playing: _Play) -> None:
    made = playing(_PDF, _PICTURE)
    first = await made.create(input="x", background=True, stream=True)
    response = first.data[-1]["response"]
    again = await made.get(f"/v1/responses/{response['id']}?stream=true")
    assert again.data == first.data
    assert (await _fetch(made, _path(response["output"][0]["content"][0]["text"]))).status == 200


async def test_r10_a_file_is_gone_with_its_response(playing: _Play) -> None:
    made = playing(_PDF)
    response = (await made.create(input="x")).json
    path = _path(response["output"][0]["content"][0]["text"])
    assert (await _fetch(made, path)).status == 200
    await made.call("DELETE", f"/v1/responses/{response['id']}", b"")
    assert (await _fetch(made, path)).status == 404


async def test_r10_a_file_of_a_response_that_is_not_stored_is_in_no_file(
    playing: _Play, tmp_path: Path
) -> None:
    secret = DataPart("application/pdf", b"%PDF a secret of the client")
    made = playing(secret)
    content = (await _chat(made, store=False))["content"]
    assert (await _fetch(made, _path(content))).status == 200
    assert secret.data not in _written(tmp_path)
    # Unlike that of one that is.
    await _chat(made)
    assert secret.data in _written(tmp_path)


@pytest.mark.parametrize("options", [{"content": "metadata"}, {"serve": Serve(store=False)}, {"store": None}])
async def test_r10_where_nothing_is_stored_files_are_in_memory(
    playing: _Play, tmp_path: Path, options: Json
) -> None:
    made = playing(_PICTURE, **options)
    assert (await _fetch(made, _path((await _chat(made))["content"]))).status == 200
    assert _PNG not in _written(tmp_path)


async def test_files_in_memory_are_bounded_and_the_least_recently_used_goes_first() -> None:
    files = Files(None, 20)
    first, second = [
        await files.add(StoredFile("c", "image/png", "", b"x" * 8), "resp_1", None, may_store=True)
        for _ in range(2)
    ]
    assert await files.find(first) is not None
    await files.add(StoredFile("c", "image/png", "", b"x" * 8), "resp_2", None, may_store=True)
    assert (await files.find(first) is None, await files.find(second) is None) == (False, True)
    files.forget("resp_1")
    assert await files.find(first) is None


async def test_an_address_is_no_one_elses(playing: _Play) -> None:
    """What is not exactly the address finds nothing, and another key neither."""
    named = {"other": KeyConfig("the-other-key")}
    made = playing(_PICTURE, keys=("a-key",), named=named)
    path = _path((await _chat(made))["content"])
    guessed = path.replace(path[-20], "0" if path[-20] != "0" else "1")
    for wrong in (guessed, "/v1/files/file_1/content", path.removesuffix("/content"), path.upper()):
        assert (await _fetch(made, wrong)).status in (401, 404)
    assert (await made.get(path)).status == 200
    assert (await made.get(path, authorization="Bearer the-other-key")).status == 404
    assert (await made.get(path, authorization="Bearer wrong")).status == 401
    id_ = path.split("/")[3]
    assert (await made.get(f"/v1/responses/{id_}")).status == 404


async def test_a_file_of_a_key_that_was_removed_is_gone(playing: _Play) -> None:
    path = _path((await _chat(playing(_PICTURE, keys=("a-key",))))["content"])
    assert (await _fetch(playing(_PICTURE, keys=("a-key",)), path)).status == 200
    assert (await _fetch(playing(_PICTURE, keys=("a-new-key",)), path)).status == 404


@pytest.mark.parametrize(
    ("mime_type", "served"),
    [
        ("text/html", "application/octet-stream"),
        ("text/html; charset=utf-8", "application/octet-stream"),
        ("application/xhtml+xml", "application/octet-stream"),
        ("text/javascript", "application/octet-stream"),
        ("image/svg+xml", "image/svg+xml"),
        ("image/png\r\nset-cookie: x=1", "application/octet-stream"),
        ("no type", "application/octet-stream"),
    ],
)
async def test_nothing_in_a_file_of_an_agent_acts_in_a_browser(
    playing: _Play, mime_type: str, served: str
) -> None:
    made = playing(DataPart(mime_type, b"<script>alert(1)</script>", name='x"\r\n.html'))
    fetched = await _fetch(made, _path((await _chat(made))["content"]))
    assert (fetched.status, fetched.headers["content-type"]) == (200, served)
    assert fetched.headers["content-disposition"].startswith("attachment; ")
    assert fetched.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in fetched.headers["content-security-policy"].split("; ")
    assert "set-cookie" not in fetched.headers


async def test_the_address_begins_with_that_of_the_console_if_it_has_one(playing: _Play) -> None:
    made = playing(_PICTURE, console=ConsoleConfig(url="https://agents.example/"))
    assert "](https://agents.example/v1/files/file_" in (await _chat(made))["content"]


async def test_r10_a_picture_of_an_endpoint_that_a_completion_links_to_is_its_item_again() -> None:
    """The client sends the link back, and the endpoint gets its own item."""
    files = Files(None)
    item: Json = {"type": "image_generation_call", "id": "ig_1", "status": "completed"}
    id_ = await files.add(
        StoredFile("c", "image/png", "", _PNG, item), "resp_" + "0" * 32, None, may_store=True
    )
    said = assistant(f"Look: \n\n![image.png](http://localhost/v1/files/{id_}/content)\n\nthere.")
    whole = item_part({**item, "result": base64.b64encode(_PNG).decode()})
    assert (await files.without_links(said, "c", for_endpoint=True)).content == (
        TextPart("Look: "),
        whole,
        TextPart("there."),
    )
    assert (await files.without_links(said, "c", for_endpoint=False)).content[1] == DataPart(
        "image/png", _PNG
    )
    # A client that has another key's address gets nothing of the file.
    nothing = DataPart("application/octet-stream", b"")
    assert (await files.without_links(said, "d", for_endpoint=False)).content[1] == nothing


def test_only_links_to_files_are_taken_out_of_a_text() -> None:
    for text in ("", "[a](http://x/y)", "/v1/files/file_1/content", "![a](http://x/v1/files/file_1/content)"):
        assert list(linked_files(text)) == [text]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (DataPart("audio/mpeg", b""), "file.mp3"),
        (DataPart("x/unheard-of", b""), "file"),
        (DataPart("image/png", b"", name="a/b\nc.png"), "a b c.png"),
    ],
)
def test_a_file_has_a_name_on_one_line(file: DataPart, name: str) -> None:
    assert shown_name(file) == name


async def test_r10_the_official_client_reads_a_picture_and_fetches_a_file(playing: _Play) -> None:
    made = playing(TextPart("Look: "), _PICTURE, _PDF, keys=("a-key",))
    async with (
        listening(made.app) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="a-key") as client,
    ):
        async with client.responses.stream(model="m", input="x") as stream:
            async for _ in stream:
                pass
            response = await soon(stream.get_final_response())
        picture = next(item for item in response.output if item.type == "image_generation_call")
        assert base64.b64decode(picture.result or "") == _PNG
        id_ = response.output_text.partition("/v1/files/")[2].partition("/content")[0]
        assert (await soon(client.files.content(id_))).content == _PDF.data


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Site]:
    bridge = Bridge(tmp_path)
    bridge.chat()
    assert bridge.model is not None
    for made in site_of(Held(bridge.permissions, m=bridge.model), store=tmp_path / "state"):
        yield made
    await bridge.close()
    await soon(all_gone(bridge.pids))


def _chunk(content: Json) -> list[object]:
    return ["update", {"sessionUpdate": "agent_message_chunk", "content": content}]


_IMAGE = _chunk({"type": "image", "data": base64.b64encode(_PNG).decode(), "mimeType": "image/png"})
_RESOURCE = _chunk(
    {
        "type": "resource",
        "resource": {"uri": "file:///x/a%20b.pdf", "mimeType": "application/pdf", "blob": "JVBERg=="},
    }
)


@pytest.mark.long
@pytest.mark.parametrize("steps", [[["say", "A "], _IMAGE, ["say", "B"], _RESOURCE], [_IMAGE]])
async def test_r10_a_history_with_links_is_recognised(agent: Site, steps: list[object]) -> None:
    body: Json = {"model": "m", "messages": [{"role": "user", "content": prompt(*steps)}]}
    first = await agent.post("/v1/chat/completions", body)
    said = first.json["choices"][0]["message"]
    assert "](http://127.0.0.1/v1/files/" in said["content"]
    # As clients send it back: without white space at the ends, and perhaps over another address.
    content = said["content"].strip().replace("http://127.0.0.1/", "http://localhost:80/")
    body["messages"] += [
        {"role": "assistant", "content": content},
        {"role": "user", "content": prompt(["say", "C"])},
    ]
    second = await agent.post("/v1/chat/completions", body)
    conversation = first.headers["x-dragoman-conversation"].partition(";")[0]
    assert second.headers["x-dragoman-conversation"] == f"{conversation}; evidence=prefix; kind=prompt"


@pytest.mark.long
async def test_r10_a_file_of_a_completion_is_gone_with_its_conversation(agent: Site, tmp_path: Path) -> None:
    body: Json = {"model": "m", "messages": [{"role": "user", "content": prompt(_RESOURCE)}]}
    answered = await agent.post("/v1/chat/completions", body)
    text = answered.json["choices"][0]["message"]["content"]
    assert "[a b.pdf]" in text
    conversation = answered.headers["x-dragoman-conversation"].partition(";")[0]
    with Database.open(tmp_path / "state") as database:
        owned = database.rows(tuple[str], "SELECT id FROM responses WHERE conversation = ?", conversation)
    assert [id_ for (id_,) in owned] == [_path(text).split("/")[3]]
