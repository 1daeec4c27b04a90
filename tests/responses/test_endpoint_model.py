"""The model against a real server on this machine, in the dialects of real ones."""

import asyncio
import base64
import logging
import socket
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from dragoman.backends.responses.settings import SILENCE_SECONDS
from dragoman.config import Config, ResponsesModel
from dragoman.lm import (
    CancellationSource,
    CancellationToken,
    Consumer,
    DataPart,
    Features,
    GuardedModel,
    LanguageModelError,
    Part,
    Request,
    RequestOptions,
    Response,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDefinition,
    ToolResultPart,
    UsagePart,
    assistant,
    user,
)
from dragoman.lm.foreign_items import file_item, item_part
from dragoman.lm.presentation import Style
from dragoman.lm.rules import CALL_ID, NAMESPACE
from dragoman.models import Models
from responses.endpoint import (
    DEADLINE,
    EVERYTHING,
    Endpoint,
    Reply,
    ask,
    endpoint as endpoint_,
    json_reply,
    model_of,
    said,
    sse,
    whole,
)
from virtual_clock import VirtualClock

_WEATHER = ToolDefinition("weather", "", {"type": "object", "required": ["town"]})
_HELLO = Request((user("Hello."),), consumer=EVERYTHING)
_ASKED = Request((user("Weather?"),), RequestOptions(tools=(_WEATHER,)), EVERYTHING)
_DIALECTS = Path(__file__).parent / "dialects"


async def _answer(endpoint: Endpoint, request: Request = _HELLO, **more: Any) -> Response:
    model = model_of(endpoint.url, **more)
    response = Response()
    try:
        async with asyncio.timeout(DEADLINE):
            await model.respond(request, response, CancellationToken())
    finally:
        await model.close()
    return response


class _Patient(VirtualClock):
    """Pauses before another try pass at once, and are noted; silence never lasts too long."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        if seconds == SILENCE_SECONDS:
            await super().sleep(seconds)
        else:
            self.pauses.append(seconds)


@pytest.mark.parametrize(
    ("dialect", "thinking", "text", "towns"),
    [
        ("openai", "**Looking it up**\n\n**Answering**", "Grüße, one moment.", ["Izmir", "Kars"]),
        ("vllm", "The user wants the weather.", "Let me see.", ["Izmir"]),
        ("ollama", "Weather, then.", "I look. ", ["Izmir"]),
    ],
)
async def test_r1_r2_a_dialect_and_its_next_turn(
    endpoint: Endpoint, dialect: str, thinking: str, text: str, towns: list[str]
) -> None:
    stream = (_DIALECTS / f"{dialect}.sse").read_bytes()
    endpoint.will(Reply(tuple(stream[at : at + 37] for at in range(0, len(stream), 37))), said("Sunny."))
    model = model_of(endpoint.url)
    response = Response()
    await model.respond(_ASKED, response, CancellationToken())
    assert (response.thinking, response.text) == (thinking, text)
    assert [(call.name, call.input) for call in response.calls] == [
        ("weather", {"town": town}) for town in towns
    ]
    assert all(
        call.call_id.startswith(NAMESPACE) and CALL_ID.fullmatch(call.call_id) for call in response.calls
    )
    (usage,) = [part for part in response.parts if isinstance(part, UsagePart)]
    assert (usage.input or 0) + (usage.output or 0) == 18
    results = user(*(ToolResultPart(call.call_id, (TextPart("sunny"),)) for call in response.calls))
    parts = await ask(
        model, Request((user("Weather?"), response.message(), results), _ASKED.options, EVERYTHING)
    )
    assert parts == (TextPart("Sunny."),)
    await model.close()
    sent = endpoint.posts[1].json["input"]
    wire_ids = [event["call_id"] for event in sent if event["type"] == "function_call"]
    # As the server called them.
    assert all(f'"{wire_id}"' in stream.decode() for wire_id in wire_ids)
    assert [each["call_id"] for each in sent if each["type"] == "function_call_output"] == wire_ids
    # Reasoning that can be given back is, in its place.
    types = [each["type"] for each in sent]
    assert types.count("reasoning") == (0 if dialect == "vllm" else 1)
    if dialect != "vllm":
        assert types[1] == "reasoning"


_OPENAI = (_DIALECTS / "openai.sse").read_bytes()


@pytest.mark.long
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(1, len(_OPENAI) - 1), max_size=12))
def test_r5_wherever_the_network_cuts_the_parts_are_the_same(cuts: list[int]) -> None:
    places = sorted({0, len(_OPENAI), *cuts})
    chunks = tuple(_OPENAI[a:b] for a, b in pairwise(places))

    async def answered(*chunks: bytes) -> list[Part]:
        async with endpoint_() as served:
            served.will(Reply(chunks))
            response = await _answer(served, _ASKED)
            return [part for part in response.parts if not isinstance(part, ToolCallPart)]

    assert asyncio.run(answered(*chunks)) == asyncio.run(answered(_OPENAI))


@pytest.mark.long
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, len(_OPENAI)), st.sampled_from(["end", "cut"]))
def test_r5_wherever_a_stream_ends_what_was_said_stands_and_a_failure_is_told(at: int, then: Any) -> None:
    async def answered(reply: Reply) -> tuple[list[str], bool]:
        async with endpoint_() as served:
            served.will(reply)
            model = model_of(served.url, clock=_Patient())
            response = Response()
            try:
                await model.respond(_ASKED, response, CancellationToken())
            except LanguageModelError:
                failed = True
            else:
                failed = False
            await model.close()
        told = [str(part.input) if isinstance(part, ToolCallPart) else str(part) for part in response.parts]
        return told, failed

    everything, _ = asyncio.run(answered(Reply((_OPENAI,))))
    told, failed = asyncio.run(answered(Reply((_OPENAI[:at],), then=then)))
    assert told == everything[: len(told)]
    assert failed == (told != everything)


async def test_reasoning_is_remembered_for_a_consumer_that_does_not_bring_it_back(endpoint: Endpoint) -> None:
    endpoint.will(Reply((_OPENAI,)), said("Sunny."))
    model = model_of(endpoint.url)
    response = Response()
    one, other = Consumer(connection="one"), Consumer(connection="other")
    await model.respond(Request((user("Weather?"),), _ASKED.options, one), response, CancellationToken())
    calls = response.calls
    results = user(*(ToolResultPart(call.call_id) for call in calls))
    history = (user("Weather?"), assistant(*calls), results)
    for consumer, count in ((one, 1), (other, 0)):
        await ask(model, Request(history, _ASKED.options, consumer))
        types = [each["type"] for each in endpoint.posts[-1].json["input"]]
        assert types.count("reasoning") == count
    await model.close()


async def test_an_endpoint_that_takes_no_reasoning_back_is_asked_without(endpoint: Endpoint) -> None:
    refusal = {
        "error": {"message": "Encrypted content is not supported with this model.", "param": "include"}
    }
    endpoint.will(json_reply(refusal, 400), said("Hello."))
    model = model_of(endpoint.url)
    assert await ask(model, _HELLO) == (TextPart("Hello."),)
    assert await ask(model, _HELLO) == (TextPart("Hello."),)
    assert ["include" in asked.json for asked in endpoint.posts] == [True, False, False]
    await model.close()


async def test_thinking_is_shown_as_configured(endpoint: Endpoint) -> None:
    endpoint.will(Reply((_OPENAI,)))
    for style, consumer, thinking, begins in (
        (Style("thinking"), EVERYTHING, True, "Grüße"),
        (Style("text"), EVERYTHING, False, "**Looking it up**"),
        (Style("hide"), EVERYTHING, False, "Grüße"),
        (Style("thinking", "hide"), Consumer(), False, "Grüße"),
    ):
        model = GuardedModel(model_of(endpoint.url), style)
        response = Response()
        await model.respond(Request(_ASKED.messages, _ASKED.options, consumer), response, CancellationToken())
        await model.close()
        assert any(isinstance(part, ThinkingPart) for part in response.parts) is thinking
        assert response.text.startswith(begins)


async def test_t14_a_call_that_is_required(endpoint: Endpoint) -> None:
    endpoint.will(Reply((_OPENAI,)))
    model = GuardedModel(model_of(endpoint.url))
    request = Request(_ASKED.messages, RequestOptions(tools=(_WEATHER,), tool_mode="required"), EVERYTHING)
    await model.respond(request, Response(), CancellationToken())
    await model.close()
    assert endpoint.posts[0].json["tool_choice"] == "required"


# --- What may go wrong. ----------------------------------------------------------------------------------------------


async def test_r5_a_missing_done_is_no_loss(endpoint: Endpoint) -> None:
    for done in (True, False):
        endpoint.will(Reply((sse(*said("Hello."), done=done),)))
        assert (await _answer(endpoint)).text == "Hello."


async def test_r5_a_done_in_the_place_of_the_end(endpoint: Endpoint) -> None:
    endpoint.will(Reply((sse(*said("Hello.")[:-1], done=True),)))
    assert (await _answer(endpoint)).text == "Hello."


@pytest.mark.parametrize("then", ["end", "reset", "cut"])
async def test_r5_a_stream_that_breaks_off_keeps_what_was_said_and_is_not_begun_again(
    endpoint: Endpoint, then: str
) -> None:
    endpoint.will(Reply((sse(*said("Hello, ", "world.")[:4]),), then=then))  # type: ignore[arg-type]
    model = model_of(endpoint.url)
    response = Response()
    with pytest.raises(LanguageModelError, match="broke off") as caught:
        await model.respond(_HELLO, response, CancellationToken())
    await model.close()
    assert caught.value.kind == "unavailable"
    if then != "reset":
        # A reset may overtake the last bytes.
        assert response.text == "Hello, "
    assert len(endpoint.posts) == 1


async def test_r5_a_stream_that_is_cut_in_an_event(endpoint: Endpoint) -> None:
    endpoint.will(Reply((sse(*said("Hello."))[:-30],)))
    with pytest.raises(LanguageModelError, match="not JSON") as caught:
        await _answer(endpoint)
    assert caught.value.kind == "unavailable"


async def test_r5_an_answer_that_is_not_streamed(endpoint: Endpoint) -> None:
    endpoint.will(json_reply(said("Hello.")[-1]["response"]))
    assert (await _answer(endpoint)).text == "Hello."
    endpoint.will(json_reply(whole("failed", error={"code": "server_error", "message": "Broken"})))
    with pytest.raises(LanguageModelError, match="Broken"):
        await _answer(endpoint)


async def test_r5_wrong_content_types(endpoint: Endpoint) -> None:
    page = Reply(
        (b"<html><body>Welcome</body></html>",), headers={"Content-Type": "text/html; charset=utf-8"}
    )
    endpoint.will(page)
    with pytest.raises(LanguageModelError, match="answered with a web page") as caught:
        await _answer(endpoint)
    assert caught.value.kind == "not_found"
    # Some servers call their events something else, or nothing.
    for headers in ({"Content-Type": "text/plain"}, {}):
        endpoint.will(Reply((sse(*said("Hello.")),), headers=headers))
        assert (await _answer(endpoint)).text == "Hello."


def _refused(
    code: str | None, message: str = "words", kind: str = "invalid_request_error"
) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "hint"),
    [
        (400, _refused(None), "bad_request", None),
        (400, _refused("context_length_exceeded"), "bad_request", "Shorten the conversation"),
        (400, _refused(None, "maximum context length is 8192"), "bad_request", "Shorten the conversation"),
        (400, _refused("content_policy_violation"), "blocked", "in other words"),
        (401, _refused("invalid_api_key"), "no_permissions", "the environment variable KEY_VARIABLE"),
        (403, _refused(None), "no_permissions", "KEY_VARIABLE"),
        (402, _refused(None), "blocked", None),
        (404, _refused("model_not_found"), "not_found", "Check `model`"),
        (404, {"detail": "Not Found"}, "not_found", "Check `base_url`"),
        (413, _refused(None), "bad_request", None),
        (422, {"detail": [{"loc": ["body"]}]}, "bad_request", None),
        (429, _refused("insufficient_quota"), "blocked", "no credit left"),
        (307, {}, "bad_request", "leads elsewhere"),
    ],
)
async def test_r5_http_errors(
    endpoint: Endpoint, status: int, body: object, kind: str, hint: str | None
) -> None:
    endpoint.will(json_reply(body, status))
    with pytest.raises(LanguageModelError) as caught:
        await _answer(endpoint, key_place="the environment variable KEY_VARIABLE")
    assert caught.value.kind == kind
    assert f"status {status}" in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")
    assert len(endpoint.posts) == 1


async def test_a_model_that_is_not_there_is_told_with_those_that_are(endpoint: Endpoint) -> None:
    endpoint.will(json_reply(_refused("model_not_found"), 404))
    endpoint.models = {"data": [{"id": "some/models"}, {"id": "other"}]}
    with pytest.raises(LanguageModelError) as caught:
        await _answer(endpoint)
    assert caught.value.hint == "Check `model`. Did you mean some/models?"


# --- Retries, deadlines, cancellation. -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "pauses"), [(429, [1, 2, 4]), (503, [1, 2, 4]), (502, [1, 2, 4]), (500, [1])]
)
async def test_r6_a_busy_endpoint_is_asked_again_and_not_for_ever(
    endpoint: Endpoint, status: int, pauses: list[float]
) -> None:
    endpoint.will(json_reply(_refused("busy"), status))
    clock = _Patient()
    with pytest.raises(LanguageModelError) as caught:
        await _answer(endpoint, clock=clock)
    assert caught.value.kind == ("rate_limited" if status == 429 else "unavailable")
    assert caught.value.is_transient
    assert clock.pauses == pauses
    assert len(endpoint.posts) == len(pauses) + 1


async def test_r6_it_answers_in_the_end_when_it_said_it_would(endpoint: Endpoint) -> None:
    endpoint.will(
        json_reply(_refused("busy"), 429, Retry_After="7"),
        Reply(then="reset", is_silent=True),
        Reply(()),
        said("Hello."),
    )
    clock = _Patient()
    assert (await _answer(endpoint, clock=clock)).text == "Hello."
    assert clock.pauses == [7, 2, 4]
    assert [asked.body for asked in endpoint.posts] == [endpoint.posts[0].body] * 4


async def test_r6_one_that_says_to_come_back_tomorrow_is_believed(endpoint: Endpoint) -> None:
    endpoint.will(json_reply(_refused("busy"), 429, Retry_After="86400"))
    with pytest.raises(LanguageModelError) as caught:
        await _answer(endpoint)
    assert caught.value.retry_after == 86_400
    assert len(endpoint.posts) == 1


async def test_r6_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    clock = _Patient()
    model = model_of(f"http://127.0.0.1:{port}/v1", clock=clock)
    with pytest.raises(LanguageModelError, match="cannot be reached at http://127") as caught:
        await ask(model, _HELLO)
    await model.close()
    assert caught.value.kind == "unavailable"
    assert clock.pauses == [1, 2, 4]


@pytest.mark.parametrize("words", [0, 2])
async def test_r6_silence_has_an_end(endpoint: Endpoint, words: int) -> None:
    events = sse(*said("Hello, ", "world.")[: 3 + words]) if words else b""
    endpoint.will(Reply((events,), then="hold", is_silent=not words))
    clock = VirtualClock()
    told = asyncio.Event()

    class _Watched(Response):
        def report(self, part: Part) -> None:
            super().report(part)
            if len(self.parts) == words:
                told.set()

    model = model_of(endpoint.url, clock=clock)
    response = _Watched()
    task = asyncio.create_task(model.respond(_HELLO, response, CancellationToken()))
    async with asyncio.timeout(DEADLINE):
        await endpoint.arrived.wait()
        if words:
            await told.wait()
        # Until the wait for the next bytes has begun.
        while all(wakes.done() for _, _, wakes in clock._sleepers):  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0)
        clock.advance(119)
        await asyncio.sleep(0)
        assert not task.done()
        clock.advance(1)
        with pytest.raises(LanguageModelError, match="has sent nothing for 120 seconds") as caught:
            await task
        await endpoint.left.wait()
    await model.close()
    assert caught.value.kind == "timeout"
    assert len(endpoint.posts) == 1


@pytest.mark.parametrize("words", [0, 1])
async def test_r8_a_cancelled_request_is_closed_upstream_at_once(endpoint: Endpoint, words: int) -> None:
    events = sse(*said("Hello, ", "world.")[:4])
    endpoint.will(Reply((events,), then="hold", is_silent=not words))
    source = CancellationSource()

    class _Stopping(Response):
        def report(self, part: Part) -> None:
            super().report(part)
            source.cancel()

    model = model_of(endpoint.url)
    response = _Stopping()
    task = asyncio.create_task(model.respond(_HELLO, response, source.token))
    async with asyncio.timeout(DEADLINE):
        await endpoint.arrived.wait()
        if not words:
            source.cancel()
        # It resolves, and the server sees its client leave while it would go on.
        await task
        await endpoint.left.wait()
    assert response.text == ("Hello, " if words else "")
    # The next one gets its own answer.
    endpoint.will(said("Again."))
    assert await ask(model, _HELLO) == (TextPart("Again."),)
    await model.close()


async def test_r8_a_request_that_waits_for_its_next_try_is_cancelled_too(endpoint: Endpoint) -> None:
    endpoint.will(json_reply(_refused("busy"), 429, Retry_After="50"))
    clock = VirtualClock()
    source = CancellationSource()
    model = model_of(endpoint.url, clock=clock)
    task = asyncio.create_task(model.respond(_HELLO, Response(), source.token))
    async with asyncio.timeout(DEADLINE):
        while 50 not in clock.slept:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0)
        source.cancel()
        await task
    await model.close()
    assert len(endpoint.posts) == 1


async def test_a_connection_is_used_again(endpoint: Endpoint) -> None:
    endpoint.will(said("Hello."))
    model = model_of(endpoint.url)
    for _ in range(3):
        await ask(model, _HELLO)
    await model.close()
    assert endpoint.connections == 1


# --- Keys, headers, proxies, models. ---------------------------------------------------------------------------------


async def test_the_key_goes_to_the_endpoint_and_nowhere_else(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = "sk-very-secret-key"
    endpoint.will(
        json_reply(_refused("invalid_api_key", f"Incorrect API key provided: {key}."), 401),
        [{"type": "error", "message": f"The key {key} is used up."}],
    )
    model = model_of(endpoint.url, key=key, headers={"X-Team": "team-secret"})
    errors = []
    for _ in range(2):
        with pytest.raises(LanguageModelError) as caught:
            await model.respond(_HELLO, Response(), CancellationToken())
        errors.append(caught.value)
    await model.close()
    assert endpoint.posts[0].headers["authorization"] == f"Bearer {key}"
    assert endpoint.posts[0].headers["x-team"] == "team-secret"
    shown = caplog.text + "".join(f"{error!r} {error.sentence}" for error in errors) + repr(model._settings)
    assert "sk-very" not in shown
    assert "team-secret" not in shown
    assert "[redacted]" in errors[0].message


async def test_r10_the_next_server_learns_what_the_headers_of_the_client_asked_for(
    endpoint: Endpoint,
) -> None:
    endpoint.will(said("Hello."))
    own = {
        "_idempotencyKey": "key",
        "_isRetry": True,
        "_oneShot": True,
        "_workspace": "/src/größe",
        "_conversationId": "größe",
    }
    model = model_of(endpoint.url)
    for connection in ("one", "one", "two"):
        consumer = Consumer(connection=connection, features=Features(markdown=connection == "two"))
        await ask(model, Request((user("Hello."),), RequestOptions(model_options=own), consumer))
    await ask(model, _HELLO)
    await model.close()
    first, again, other, plain = (post.headers for post in endpoint.posts)
    assert first["x-stainless-retry-count"] == "1"
    assert first["x-dragoman-one-shot"] == "true"
    assert first["x-dragoman-workspace"] == "/src/größe"
    assert (first["x-dragoman-markdown"], other["x-dragoman-markdown"]) == ("false", "true")
    # The id of a conversation is ASCII.
    assert "x-conversation-id" not in first
    # Two clients of ours are one client of the endpoint, and may name their requests alike.
    for name in ("idempotency-key", "x-dragoman-client"):
        assert first[name] == again[name] != other[name]
        assert not {"one", "key"} & {first[name]}
    assert not {"idempotency-key", "x-stainless-retry-count", "x-dragoman-one-shot"} & plain.keys()


async def test_r10_a_file_of_another_server_of_ours_is_no_item_for_an_endpoint(endpoint: Endpoint) -> None:
    """A client may go on with another model. That one does not know the item."""
    file = item_part(file_item(DataPart("application/pdf", b"%PDF", name="a.pdf"), "file_1"))
    endpoint.will(said("Hello."))
    model = model_of(endpoint.url)
    history = (user("Hello."), assistant(TextPart("Here."), file), user("Go on."))
    await ask(model, Request(history, consumer=EVERYTHING))
    await model.close()
    assert [item["content"] for item in endpoint.posts[0].json["input"]] == ["Hello.", "Here.", "Go on."]


_PNG = b"\x89PNG and more"
_CODED = base64.b64encode(_PNG).decode()
_MADE = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": _CODED}
_MESSAGE_WITH_PICTURE = {
    "type": "message",
    "id": "msg_2",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_image", "image_url": f"data:image/png;base64,{_CODED}"}],
}


@pytest.mark.parametrize(
    ("event", "file"),
    [
        (
            {"type": "response.output_item.done", "output_index": 1, "item": _MADE},
            DataPart("image/png", _PNG),
        ),
        (
            {"type": "response.output_item.done", "output_index": 1, "item": _MESSAGE_WITH_PICTURE},
            DataPart("image/png", _PNG),
        ),
        (
            {"type": "response.file", "mime_type": "text/csv", "filename": "a.csv", "data": _CODED},
            DataPart("text/csv", _PNG, name="a.csv"),
        ),
        (
            {
                "type": "response.file",
                "file": {"name": "a.pdf", "file_data": f"data:application/pdf;base64,{_CODED}"},
            },
            DataPart("application/pdf", _PNG, name="a.pdf"),
        ),
    ],
    ids=["a picture as an item", "a picture in a message", "a file", "a file with an address of its bytes"],
)
async def test_s11_pictures_and_files_of_an_endpoint_reach_the_consumer_as_data_with_a_line(
    endpoint: Endpoint, event: dict[str, Any], file: DataPart
) -> None:
    *before, end = said("Here.")
    endpoint.will([*before, event, end])
    model = GuardedModel(model_of(endpoint.url), Style())
    response = Response()
    async with asyncio.timeout(DEADLINE):
        await model.respond(_HELLO, response, CancellationToken())
    await model.close()
    assert response.data == (file,)
    assert response.text.startswith("Here.")
    assert file.mime_type in response.text


@pytest.mark.parametrize("fields", [{}, {"data": "!", "mime_type": "a/b"}, {"data": _CODED}, {"file": 7}])
async def test_s11_a_file_without_a_type_or_bytes_is_passed_over(
    endpoint: Endpoint, fields: dict[str, Any]
) -> None:
    *before, end = said("Here.")
    endpoint.will([*before, {"type": "response.file", **fields}, end])
    assert (await _answer(endpoint)).data == ()


async def test_a_proxy_of_the_environment_is_used(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", endpoint.url.removesuffix("/v1"))
    endpoint.will(said("Hello."))
    model = model_of("http://endpoint.test/v1")
    assert await ask(model, _HELLO) == (TextPart("Hello."),)
    await model.close()
    assert endpoint.posts[0].target == "http://endpoint.test/v1/responses"


async def test_a_model_learns_what_its_endpoint_says_of_it(endpoint: Endpoint) -> None:
    listed = {
        "id": "some/model",
        "context_window": 5_000,
        "max_tokens": 500,
        "tags": ["tool-use", "reasoning"],
    }
    endpoint.models = {"data": [{"id": "other", "context_window": 1}, listed]}
    config = Config(
        models={
            "plain": ResponsesModel(base_url=endpoint.url, model="some/model"),
            "set": ResponsesModel(
                base_url=endpoint.url, model="some/model", image_input=True, max_input_tokens=7
            ),
            "away": ResponsesModel(base_url="http://127.0.0.1:1/v1", model="some/model"),
        }
    )
    models = Models(config)
    await models.learn()
    await models.learn()
    known = {info.id: info for info in models.infos()}
    await models.close()
    assert [
        (known[id_].max_input_tokens, known[id_].max_output_tokens) for id_ in ("plain", "set", "away")
    ] == [
        (5_000, 500),
        (7, 500),
        (1_000_000, 64_000),
    ]
    assert [known[id_].capabilities.image_input for id_ in ("plain", "set", "away")] == [False, True, True]
    assert [known[id_].tags for id_ in ("plain", "set", "away")] == [
        ("thinking", "tools"),
        ("thinking", "tools", "images"),
        ("tools", "images"),
    ]
    assert len(endpoint.asked) == 2, "each asks once"


async def test_the_models_of_an_endpoint(endpoint: Endpoint) -> None:
    endpoint.models = {
        "object": "list",
        "data": [
            {"id": "plain", "object": "model", "owned_by": "x"},
            {"id": "vllm", "max_model_len": 32_768},
            {
                "id": "router",
                "context_length": 200_000,
                "top_provider": {"max_completion_tokens": 8_000},
                "architecture": {"input_modalities": ["text", "image"]},
                "supported_parameters": ["temperature", "tools"],
            },
            {"id": "gateway", "context_window": 1_000, "max_tokens": 100, "tags": ["reasoning", "vision"]},
            {"no": "id"},
            5,
        ],
    }
    model = model_of(endpoint.url)
    listed = await model.models()
    await model.close()
    assert endpoint.asked[0].target == "/v1/models"
    assert [
        (
            each.id,
            each.max_input_tokens,
            each.max_output_tokens,
            each.tool_calling,
            each.image_input,
            each.thinking,
        )
        for each in listed
    ] == [
        ("plain", None, None, None, None, False),
        ("vllm", 32_768, None, None, None, False),
        ("router", 200_000, 8_000, True, True, False),
        ("gateway", 1_000, 100, False, True, True),
    ]
