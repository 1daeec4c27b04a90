"""Who may come in, how much they may bring, and what a browser may do."""

import asyncio
import json
import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import Route

from dragoman.backends.responses.listing import listed_models
from dragoman.config import ClientKey, Serve
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.budget import MOST_VALUES
from dragoman.frontends.http.errors import ApiError
from http_server.kit import KEY, Held, Site, scripted, site_of
from searching import examples

_Make = Callable[..., Site]
_BODY = {"model": "m", "input": "x"}


@pytest.mark.parametrize(
    "given_", ["", "Bearer", "Bearer other", f"Basic {KEY}", f"Bearer {KEY}x", "Bearer ключ"]
)
async def test_r7_without_a_key_nobody_comes_in(site: _Make, given_: str) -> None:
    made = site("Yes.", keys=(KEY, "second"))
    encoded = given_.encode().decode("latin-1")
    for path in ("/v1/models", "/metrics", "/nowhere"):
        answered = await made.get(path, authorization=encoded)
        assert (answered.status, answered.error["code"]) == (401, "invalid_api_key")
    for path in ("/healthz", "/readyz"):
        assert (await made.get(path, authorization=encoded)).status == 200
    assert (await made.get("/v1/models", authorization="bearer second")).status == 200


def test_a_connection_is_named_after_its_key_and_does_not_tell_it() -> None:
    gate = AccessCheck((ClientKey("key 1", KEY), ClientKey("key 2", "second")))
    first, second = (gate.key({"authorization": f"Bearer {key}"}) for key in (KEY, "second"))
    assert first is not None
    assert second is not None
    assert first.connection != second.connection
    assert KEY not in f"{first.connection} {first!r}"
    assert first == gate.key({"authorization": f"Bearer  {KEY} "})
    # Stored conversations are found by it, so it never changes.
    assert first.connection == "http:f18a2ae6d724158d0d4dbe6f"


@pytest.mark.parametrize("keys", [("",), (KEY, " "), ("\t",)])
def test_a_gate_with_a_blank_key_cannot_be_made(keys: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="blank"):
        AccessCheck(tuple(ClientKey("k", key) for key in keys))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:8427"}, 200),
        ({"host": "[::1]:8427"}, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"host": "evil.example:8427"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": ""}, 403),
        ({"host": "["}, 403),
        ({"host": "LOCALHOST:8427"}, 200),
        ({"host": "localhost.:8427"}, 200),
        ({"host": "127.8.9.1:1"}, 200),
        ({"host": "[0:0:0:0:0:0:0:1]"}, 200),
        ({"host": "[::1].evil.example"}, 403),
        ({"host": "[::1].evil.example:8427"}, 403),
        ({"host": "[::1]x"}, 403),
        ({"host": "x[::1]"}, 403),
        ({"host": "[::1"}, 403),
        ({"host": "::1"}, 403),
        ({"host": "[127.0.0.1]"}, 403),
        ({"host": "[::1%25lo]"}, 403),
        ({"host": "[localhost]"}, 403),
        ({"host": "localhost.evil"}, 403),
        ({"host": "localhost..:8427"}, 403),
        ({"host": "127.0.0.1."}, 403),
        ({"host": "127.1"}, 403),
        ({"host": "2130706433"}, 403),
        ({"host": "user@localhost"}, 403),
        ({"host": "evil.example@localhost"}, 403),
        ({"host": "localhost/evil.example"}, 403),
        ({"host": "localhost?evil.example"}, 403),
        ({"host": "localhost#evil.example"}, 403),
        ({"host": "localhost\\evil.example"}, 403),
        ({"host": "local%68ost"}, 403),
        ({"host": "localhost, evil.example"}, 403),
        ({"host": "localhost evil.example"}, 403),
        ({"host": "localhost:"}, 403),
        ({"host": "localhost:0"}, 403),
        ({"host": "localhost:65536"}, 403),
        ({"host": "localhost:8427:1"}, 403),
        ({"host": "localhost:+1"}, 403),
        ({"host": "localhost:\xb9"}, 403),
        ({"host": "\xb9\xb2\xb7.0.0.1"}, 403),
        ({"host": "localhost:8427", "origin": "http://localhost:8427"}, 200),
        ({"host": "localhost:8427", "origin": "https://evil.example"}, 403),
        ({"host": "localhost:8427", "origin": "null"}, 403),
        ({"host": "localhost:8427", "origin": "http://localhost:3000"}, 403),
        ({"host": "localhost:8427", "origin": "https://localhost:8427"}, 200),
        ({"host": "localhost:8427", "origin": "ftp://localhost:8427"}, 403),
        ({"host": "localhost:8427", "origin": "http://localhost:8427/x"}, 403),
        ({"host": "localhost:8427", "origin": "//localhost:8427"}, 403),
        ({"host": "localhost:8427", "origin": ""}, 403),
    ],
)
async def test_without_keys_only_this_machine_is_served_and_no_page_of_another_site(
    site: _Make, headers: dict[str, str], status: int
) -> None:
    assert (await site("Yes.").post("/v1/responses", _BODY, **headers)).status == status


@pytest.mark.parametrize(
    "raw",
    [
        [],
        [("host", "localhost"), ("host", "evil.example")],
        [("host", "localhost"), ("host", "localhost")],
        [("host", "localhost"), ("origin", "http://localhost"), ("origin", "https://evil.example")],
    ],
)
def test_a_request_with_several_hosts_or_origins_is_refused(raw: list[tuple[str, str]]) -> None:
    headers = Headers(raw=[(name.encode(), value.encode()) for name, value in raw])
    with pytest.raises(ApiError, match=r"this machine|this origin"):
        AccessCheck().check_host_and_origin(headers)


async def test_a_page_may_ask_where_that_is_configured(site: _Make) -> None:
    ui = "http://localhost:3000"
    closed, open_ = site("Yes."), site("Yes.", serve=Serve(cors_origins=(ui,)))
    wanted = {"origin": ui, "access_control_request_method": "POST"}
    assert (
        "access-control-allow-origin"
        not in (await closed.call("OPTIONS", "/v1/responses", b"", wanted)).headers
    )
    preflight = await open_.call("OPTIONS", "/v1/responses", b"", wanted)
    assert preflight.headers["access-control-allow-origin"] == ui
    assert (await open_.post("/v1/responses", _BODY, origin=ui)).status == 200


async def test_a_body_has_a_limit_and_is_json(site: _Make) -> None:
    made = site("Yes.", serve=Serve(max_body_megabytes=0.0002))
    large = await made.post("/v1/responses", {**_BODY, "instructions": "x" * 300})
    assert (large.status, large.error["code"]) == (413, "body_too_large")
    announced = await made.post("/v1/responses", _BODY, content_length="99999")
    assert announced.status == 413
    assert (await made.post("/v1/responses", b"{", content_type="text/plain")).status == 415
    for broken in (b"{", b"[]", b'"x"', b"\xff", b"[" * 50):
        made_ = site("Yes.")
        answered = await made_.post("/v1/responses", broken)
        assert (answered.status, answered.error["code"]) == (400, "invalid_json")


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/compact", "/v1/chat/completions"])
async def test_a_body_has_a_limit_of_values(site: _Make, path: str) -> None:
    """A short text can be a large object: 64 MB of empty objects took 3 GB and 18 seconds."""
    given_ = "messages" if path.endswith("completions") else "input"
    tiny = b'{"model": "m", "%s": [%s{}]}' % (given_.encode(), b"{}," * MOST_VALUES)
    refused = await site("Yes.").post(path, tiny)
    assert (refused.status, refused.error["code"]) == (413, "body_too_large")
    arguments = json.dumps({"a": [0] * MOST_VALUES})
    call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    items = [{"role": "assistant", "tool_calls": [call]}] if given_ == "messages" else [item]
    refused = await site("Yes.").post(path, {"model": "m", given_: items})
    assert (refused.status, refused.error["code"]) == (413, "body_too_large")
    said = {"model": "m", given_: [{"role": "user", "content": '[{,\\"' * MOST_VALUES}]}
    assert (await site("Yes.").post(path, said)).status == 200


async def test_what_is_not_there_is_said_in_the_same_form(site: _Make) -> None:
    made = site("Yes.")
    assert (await made.get("/v1/responses/x/nothing")).error["type"] == "not_found"
    wrong = await made.get("/v1/responses")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    missing = await made.create(input="x", model="gone")
    assert (missing.status, missing.error["code"]) == (404, "model_not_found")


async def test_r7_what_is_served_is_described_and_what_is_described_is_served(site: _Make) -> None:
    made = site("Yes.")
    assert isinstance(made.app, Starlette)
    served = {
        (route.path, method.lower())
        for route in made.app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    paths = (await made.get("/openapi.json")).json["paths"]
    described = {(path, method) for path, methods in paths.items() for method in methods}
    assert served - described == {("/openapi.json", "get")}
    assert described <= served
    for path, methods in paths.items():
        named = {each["name"] for each in next(iter(methods.values())).get("parameters", ())}
        assert set(re.findall(r"{(\w+)}", path)) == named & {"id", "item"}


async def test_models_are_listed_as_our_own_client_reads_them(site: _Make) -> None:
    listing = (await site("Yes.").get("/v1/models")).json
    (model,) = listed_models(listing)
    assert (model.id, model.max_input_tokens, model.tool_calling, model.image_input) == (
        "script",
        1_000_000,
        True,
        True,
    )


@pytest.mark.parametrize("keys", [(), (KEY,)])
async def test_whoever_opens_the_address_in_a_browser_is_told_what_it_is(
    site: _Make, keys: tuple[str, ...]
) -> None:
    made = site("Yes.", keys=keys)
    page = await made.get("/", accept="text/html")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    links = re.findall(r'href="([^"]*)"', page.writes[0].decode())
    assert {"/v1/models", "/openapi.json"} <= set(links)
    for link in links:
        assert (await made.get(link, authorization=f"Bearer {KEY}")).status == 200


async def test_a_server_that_cannot_take_requests_says_why(site: _Make) -> None:
    made = site("Yes.")
    assert (await made.get("/readyz")).json == {"status": "ok"}
    made.service.why_not_ready = lambda: "The store is away."
    answered = await made.get("/readyz")
    assert (answered.status, answered.json) == (
        503,
        {"status": "unavailable", "reason": "The store is away."},
    )
    # A server that waits for something else is not to be started anew for that.
    assert (await made.get("/healthz")).status == 200


async def test_metrics_have_labels_that_no_client_can_add_to(site: _Make) -> None:
    made = site("Yes.")
    for path in ("/v1/responses/a", "/v1/responses/b", "/v1/models/made-up", "/x/1", "/x/2"):
        await made.get(path)
    await made.create(input="x", model="made-up")
    text = (await made.get("/metrics")).writes[0].decode()
    assert 'route="/v1/responses/{id}",status="404"} 2' in text
    assert 'route="/v1/models/{id}",status="404"} 1' in text
    assert 'route="other",status="404"} 2' in text
    assert "made-up" not in text


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
_PART = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "input_image", "input_file", "output_text", "refusal", "x"])},
    optional={"text": _JSON, "image_url": _JSON, "file_data": _JSON, "refusal": _JSON},
)
_ITEM = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["message", "reasoning", "function_call", "function_call_output", "compaction", "x:y"]
        )
        | st.sampled_from(["mcp_approval_request", "mcp_approval_response", "item_reference"])
    },
    optional={
        "role": st.sampled_from(["user", "assistant", "system", "developer", "x"]),
        "content": st.lists(_PART, max_size=3) | _JSON,
        "call_id": st.sampled_from(["a", "dg_x", ""]) | _JSON,
        "id": _JSON,
        "name": st.just("look") | _JSON,
        "arguments": _JSON,
        "output": st.lists(_PART, max_size=2) | _JSON,
        "encrypted_content": _JSON,
        "approval_request_id": st.just("mcpr_dg_x") | _JSON,
        "approve": _JSON,
    },
)


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_r7_whatever_a_body_says_it_is_answered_by_rule(data: st.DataObject) -> None:
    """The description that is published names the fields; each may be anything."""

    async def ask() -> None:
        (made,) = site_of(Held(m=scripted("Yes.", "Yes.", "Yes.", "Yes.")))
        description = (await made.get("/openapi.json")).json
        path = data.draw(st.sampled_from(["/v1/responses", "/v1/responses/compact", "/v1/chat/completions"]))
        schema = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        named = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
        names = data.draw(st.lists(st.sampled_from(sorted(set(named) - {"input", "model"})), max_size=3))
        body = {name: data.draw(_JSON, label=name) for name in names}
        body |= {"model": "m", "input": data.draw(st.lists(_ITEM, max_size=3) | _JSON)}
        answered = await made.post(path, json.dumps(body).encode())
        assert answered.status in (200, 400, 404), (answered.status, answered.writes)
        if answered.status != 200:
            assert answered.error["message"]

    asyncio.run(ask())
