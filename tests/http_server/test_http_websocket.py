"""R7: the compliance suite's seven cases over a WebSocket, and what else may happen on one."""

import asyncio
import base64
import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from dragoman.backends.scripted import call, fail, forever, reply, say
from dragoman.config import Serve
from dragoman.frontends.http.budget import MOST_VALUES
from dragoman.lm import ActivityPart, TextPart
from http_server.kit import KEY, TOOL, Json, Site, soon
from http_server.stream_check import check_events

_Make = Callable[..., Site]
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class Socket:
    """A client's end of a WebSocket."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[Json] = asyncio.Queue()
        self.told: asyncio.Queue[Json] = asyncio.Queue()
        # How it was answered.
        self.opened: Json = {}

    async def create(self, **fields: object) -> Json:
        """A turn: the response it came to, or the error."""
        self.send({"type": "response.create", "model": "m", **fields})
        return await self.turn()

    def send(self, value: object) -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        self.sent.put_nowait({"type": "websocket.receive", "text": text})

    async def message(self) -> Json:
        message = await soon(self.told.get())
        assert message["type"] == "websocket.send", message
        value: Json = json.loads(message["text"])
        return value

    async def turn(self) -> Json:
        events: list[Json] = []
        while True:
            event = await self.message()
            if event["type"] == "error" and "status" in event:
                return event
            events.append(event)
            if event["type"] in _ENDS:
                return check_events(events)


@asynccontextmanager
async def _connected(made: Site, **headers: str) -> AsyncIterator[Socket]:
    socket = Socket()
    named = {"host": "127.0.0.1", **made.headers, **headers}
    scope: dict[str, Any] = {
        "type": "websocket",
        "asgi": {"version": "3.0"},
        "path": "/v1/responses",
        "raw_path": b"/v1/responses",
        "query_string": b"",
        "root_path": "",
        "scheme": "ws",
        "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
    }
    socket.sent.put_nowait({"type": "websocket.connect"})

    async def send(message: Json) -> None:
        socket.told.put_nowait(message)

    serving = asyncio.ensure_future(made.app(scope, socket.sent.get, send))
    socket.opened = await soon(socket.told.get())
    yield socket
    socket.sent.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await soon(serving)


def _text(response: Json) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])


async def test_r7_one_response_after_the_other_on_one_socket(site: _Make) -> None:
    async with _connected(site("You said ${prompt}.")) as socket:
        assert _text(await socket.create(input="one")) == "You said one."
        # Also when both are sent at once.
        socket.send({"type": "response.create", "model": "m", "input": "two"})
        socket.send({"type": "response.create", "model": "m", "input": "three"})
        assert [_text(await socket.turn()), _text(await socket.turn())] == [
            "You said two.",
            "You said three.",
        ]


async def test_r7_a_turn_goes_on_from_one_that_was_not_stored(site: _Make) -> None:
    async with _connected(site("OK", "You had said ${prompt}.")) as socket:
        first = await socket.create(input="cobalt", store=False)
        second = await socket.create(input="ember", previous_response_id=first["id"], store=False)
        assert (_text(second), second["store"]) == ("You had said ember.", False)


async def test_r10_an_item_that_is_named_may_be_one_that_only_the_socket_remembers(site: _Make) -> None:
    made = site("One.", "You had said ${prompt}.")
    async with _connected(made) as socket:
        first = await socket.create(input="cobalt", store=False)
        named = {"type": "item_reference", "id": first["output"][0]["id"]}
        given = [{"role": "user", "content": "cobalt"}, named, {"role": "user", "content": "ember"}]
        assert _text(await socket.create(input=given, store=False)) == "You had said ember."
    async with _connected(made) as socket:
        gone = await socket.create(input=given, store=False)
        assert (gone["status"], gone["error"]["code"], gone["error"]["param"]) == (
            404,
            "item_not_found",
            "input[1]",
        )


async def test_r7_what_was_not_stored_is_gone_with_its_socket(site: _Make) -> None:
    made = site("OK")
    async with _connected(made) as socket:
        first = await socket.create(input="seed", store=False)
        kept = await socket.create(input="seed")
    async with _connected(made) as socket:
        gone = await socket.create(input="go on", previous_response_id=first["id"], store=False)
        assert (gone["status"], gone["error"]["code"]) == (400, "previous_response_not_found")
        assert (await socket.create(input="fresh", store=False))["status"] == "completed"
        # What was stored is there for everybody with the key; the script has no second answer.
        assert (await socket.create(input="x", previous_response_id=kept["id"]))["error"][
            "code"
        ] == "bad_request"


async def test_r7_a_turn_from_a_response_that_never_was_is_refused(site: _Make) -> None:
    async with _connected(site("OK")) as socket:
        gone = await socket.create(input="x", previous_response_id="resp_openresponses_missing", store=False)
        assert gone["error"]["code"] == "previous_response_not_found"
        assert set(gone["error"]) == {"message", "type", "param", "code"}


async def test_r7_a_turn_that_fails_takes_along_what_it_went_on_from(site: _Make) -> None:
    async with _connected(site("OK", "Yes.")) as socket:
        first = await socket.create(input="ember", store=False)
        orphan = [{"type": "function_call_output", "call_id": "call_orphaned", "output": "x"}]
        failed = await socket.create(input=orphan, previous_response_id=first["id"], store=False)
        assert failed["error"]["code"] == "no_such_call"
        gone = await socket.create(input="Go on.", previous_response_id=first["id"], store=False)
        assert gone["error"]["code"] == "previous_response_not_found"


async def test_r7_a_turn_that_fails_after_it_began_takes_it_along_too(site: _Make) -> None:
    async with _connected(site("OK", reply(say("Half "), fail("agent_failed")))) as socket:
        first = await socket.create(input="ember", store=False)
        again = {"previous_response_id": first["id"], "store": False}
        assert (await socket.create(input="x", **again))["status"] == "failed"
        assert (await socket.create(input="x", **again))["error"]["code"] == "previous_response_not_found"


async def test_r7_a_compaction_begins_a_new_chain(site: _Make) -> None:
    made = site("OK", "You said ${prompt}.", "And ${prompt}.")
    items = [{"role": "user", "content": "cobalt"}, {"role": "assistant", "content": "OK"}]
    packed = (await made.post("/v1/responses/compact", {"model": "m", "input": items})).json["output"]
    async with _connected(made) as socket:
        first = await socket.create(input=[*packed, {"role": "user", "content": "a"}], store=False)
        assert _text(first) == "You said a."
        second = await socket.create(input="b", previous_response_id=first["id"], store=False)
        assert _text(second) == "And b."


async def test_r7_a_turn_may_only_take_the_input_for_the_next(site: _Make) -> None:
    async with _connected(site("You said ${prompt}.")) as socket:
        warm = await socket.create(input="cobalt", store=False, generate=False)
        assert (warm["status"], warm["output"]) == ("completed", [])
        # A model that is told two messages answers the last.
        after = await socket.create(input="ember", previous_response_id=warm["id"], store=False)
        assert _text(after) == "You said ember."


async def test_r7_calls_and_their_results_on_one_socket(site: _Make) -> None:
    async with _connected(site(call("look"), "It is ${result}.")) as socket:
        asked = await socket.create(input="x", tools=[TOOL], store=False)
        (made_call,) = asked["output"]
        output = {"type": "function_call_output", "call_id": made_call["call_id"], "output": "green"}
        after = await socket.create(input=[output], previous_response_id=asked["id"], tools=[TOOL])
        assert _text(after) == "It is green."


async def test_r7_what_is_no_turn_is_refused_and_the_next_is_served(site: _Make) -> None:
    async with _connected(site("OK")) as socket:
        for broken in (
            "{",
            "[]",
            {"type": "response.cancel"},
            {"type": "response.create", "model": "m", "input": 7},
        ):
            socket.send(broken)
            assert (await socket.turn())["status"] == 400
        assert (await socket.create(input="x"))["status"] == "completed"


async def test_r10_a_turn_may_say_that_it_is_a_stream_as_codex_does(site: _Make) -> None:
    async with _connected(site("OK")) as socket:
        codex = {"stream": True, "background": False, "store": False, "generate": True, "include": []}
        assert _text(await socket.create(input="x", stream_options={"include_usage": True}, **codex)) == "OK"
        assert _text(await socket.create(input="x", stream=False)) == "OK"
        assert _text(await socket.create(input="x", stream_options={})) == "OK"
        assert (await socket.create(input="x", stream="yes"))["error"]["param"] == "stream"


async def test_r10_a_background_response_over_a_websocket_is_streamed_and_stays(site: _Make) -> None:
    made = site("OK")
    async with _connected(made) as socket:
        response = await socket.create(input="x", background=True)
        assert (response["status"], response["background"], _text(response)) == ("completed", True, "OK")
        refused = await socket.create(input="x", background=True, store=False)
        assert (refused["status"], refused["error"]["param"]) == (400, "background")
        assert _text(await socket.create(input="x")) == "OK"
    assert (await made.get(f"/v1/responses/{response['id']}")).response == response


async def test_r10_a_background_response_goes_on_when_its_socket_is_closed(site: _Make) -> None:
    made = site(reply(say("Wait. "), forever()))
    async with _connected(made) as socket:
        socket.send({"type": "response.create", "model": "m", "input": "x", "background": True})
        id_ = (await socket.message())["response"]["id"]
        while (await socket.message())["type"] != "response.output_text.delta":
            pass
    # The socket has ended, although the model says nothing more.
    path = f"/v1/responses/{id_}"
    assert (await made.get(path)).response["status"] == "in_progress"
    cancelled = await made.call("POST", f"{path}/cancel", b"")
    assert (cancelled.response["status"], _text(cancelled.response)) == ("cancelled", "Wait. ")


async def test_r7_a_client_that_goes_in_the_middle_of_a_turn_cancels_it(site: _Make) -> None:
    made = site(reply(say("Wait. "), forever()))
    async with _connected(made) as socket:
        socket.send({"type": "response.create", "model": "m", "input": "x"})
        while (await socket.message())["type"] != "response.output_text.delta":
            pass
    metrics = (await made.get("/metrics")).writes[0].decode()
    assert 'outcome="cancelled"' in metrics
    assert "dragoman_websockets_open 0" in metrics


async def test_r10_activities_are_items_for_a_socket_that_asks_for_them(playing: _Make) -> None:
    step = ActivityPart("act_1", "Run", "execute", "completed")
    made = playing(step, TextPart("Done."))
    async with _connected(made, **{"x-dragoman-activity": "items"}) as socket:
        for _ in range(2):
            response = await socket.create(input="x")
            assert [item["type"] for item in response["output"]] == ["dragoman:activity", "message"]
    async with _connected(made) as socket:
        response = await socket.create(input="x")
        assert [item["type"] for item in response["output"]] == ["reasoning", "message"]


@pytest.mark.parametrize("name", ["x-dragoman-activity", "x-dragoman-approvals", "x-dragoman-aside"])
async def test_a_header_with_another_value_opens_no_socket(playing: _Make, name: str) -> None:
    async with _connected(playing(TextPart("x")), **{name: "text"}) as socket:
        assert socket.opened["status"] == 400


async def test_r7_without_a_key_no_socket_is_opened(site: _Make) -> None:
    made = site("OK", keys=(KEY,))
    made.headers = {}
    async with _connected(made) as socket:
        assert (socket.opened["type"], socket.opened["status"]) == ("websocket.http.response.start", 401)


async def test_r7_there_are_only_so_many_sockets(site: _Make) -> None:
    made = site("OK", serve=Serve(max_responses=1))
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(_connected(made)) for _ in range(9)]
        assert [socket.opened["type"] for socket in opened[:-1]] == ["websocket.accept"] * 8
        assert opened[-1].opened["status"] == 429


async def test_the_sockets_of_one_key_leave_room_for_another(site: _Make) -> None:
    made = site("OK", keys=(KEY, "second"), serve=Serve(max_responses=1))
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(_connected(made)) for _ in range(3)]
        assert [socket.opened["type"] for socket in opened[:2]] == ["websocket.accept"] * 2
        assert opened[2].opened["status"] == 429
        other = await stack.enter_async_context(_connected(made, authorization="Bearer second"))
        assert (await other.create(input="x"))["status"] == "completed"
    # Those that were closed make room again.
    async with _connected(made) as socket:
        assert socket.opened["type"] == "websocket.accept"


async def test_what_a_turn_holds_packed_is_limited(site: _Make) -> None:
    packed = zlib.compress(json.dumps([{"role": "user", "content": " " * 700}]).encode())
    item = {"type": "compaction", "encrypted_content": "dg1." + base64.urlsafe_b64encode(packed).decode()}
    async with _connected(site("Yes.", serve=Serve(max_body_megabytes=0.0015))) as socket:
        assert (await socket.create(input=[item, item]))["status"] == "completed"
        refused = await socket.create(input=[item, item, item])
        assert (refused["status"], refused["error"]["code"]) == (413, "body_too_large")
    async with _connected(site("Yes.")) as socket:
        refused = await socket.create(input=[{}] * MOST_VALUES)
        assert (refused["status"], refused["error"]["code"]) == (413, "body_too_large")


async def test_j4_a_conversation_of_the_server_over_a_websocket(site: _Make) -> None:
    made = site("One.", "Two.")
    id_ = (await made.post("/v1/conversations", {})).json["id"]
    async with _connected(made) as socket:
        first = await socket.create(input="a", conversation=id_)
        assert first["conversation"] == {"id": id_}
        await socket.create(input="b", conversation=id_)
    listed = (await made.get(f"/v1/conversations/{id_}/items?order=asc")).json["data"]
    assert [item["content"][0]["text"] for item in listed] == ["a", "One.", "b", "Two."]
