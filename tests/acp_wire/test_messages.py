"""The messages of ACP: what we send is what the official SDK reads, and whatever is sent to us can be read."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import cast

import acp.schema
import msgspec
import pytest
from hypothesis import given, strategies as st

from agent.recorded import INITIALIZED, PERMISSIONS, UPDATES, Recorded
from dragoman.acp.content import (
    AudioBlock,
    ContentBlock,
    EmbeddedResourceBlock,
    ImageBlock,
    ResourceLinkBlock,
    TextBlock,
    parts_of,
)
from dragoman.acp.messages import (
    AcpPlanEntry,
    ChunkUpdate,
    Diff,
    Header,
    HttpServer,
    Initialized,
    OtherUpdate,
    PlanUpdate,
    StdioServer,
    ToolActivity,
    UsageUpdate,
    decode_permission,
    decode_update,
    decode_words,
)
from dragoman.jsonrpc import Notification
from dragoman.jsonrpc.messages import parse
from dragoman.lm import DataPart, JsonObject, TextPart
from dragoman.lm.json import encode
from dragoman.lm.parts import INTERNAL_MIME_TYPES
from lm.rendering import hostile_text, hrefs, inline_tokens

_TEXT = {"type": "text", "text": "words"}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
# Near enough to an update to get somewhere.
KINDS = st.sampled_from(
    [
        "agent_message_chunk",
        "agent_thought_chunk",
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "usage_update",
        "new",
    ]
)
FIELDS = st.dictionaries(
    st.sampled_from(
        [
            "content",
            "toolCallId",
            "title",
            "kind",
            "status",
            "locations",
            "rawInput",
            "entries",
            "used",
            "_meta",
        ]
    ),
    JSON,
)


def update(**fields: object) -> bytes:
    return encode({"sessionId": "s", "update": fields})


# Near enough to a chunk, too.
CHUNKS = st.fixed_dictionaries(
    {
        "sessionId": st.text() | JSON,
        "update": st.fixed_dictionaries(
            {
                "sessionUpdate": KINDS,
                "content": st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}) | JSON,
            },
            optional={"_meta": JSON},
        ),
    }
)
LINES = st.fixed_dictionaries(
    {"method": st.sampled_from(["session/update", "session/new"]), "params": CHUNKS | JSON},
    optional={"jsonrpc": st.sampled_from(["2.0", "2.0", "1.0", 2]), "id": JSON, "result": JSON},
)


# What real agents send.


@pytest.mark.parametrize("recorded", UPDATES, ids=lambda recorded: recorded.source)
def test_the_words_of_real_agents_are_read_in_one_pass(recorded: Recorded) -> None:
    line = encode({"jsonrpc": "2.0", "method": "session/update", "params": recorded.params})
    raw = cast("dict[str, object]", recorded.params["update"])
    is_chunk = str(raw["sessionUpdate"]).endswith("_chunk")
    assert decode_words(line) == (decode_update(recorded.data) if is_chunk and line.isascii() else None)


@given(message=LINES, escaped=st.booleans())
def test_a_line_is_read_in_one_pass_as_it_is_in_two_or_not_at_all(
    message: dict[str, object], *, escaped: bool
) -> None:
    line = json.dumps(message, ensure_ascii=escaped).encode(errors="replace")
    read = decode_words(line)
    if read is not None:
        parsed = parse(line)
        assert isinstance(parsed, Notification)
        assert parsed.method == "session/update"
        assert decode_update(parsed.params) == read


@pytest.mark.parametrize("wants_answer", [{"id": 1}, {"id": None}, {"id": "a"}])
def test_a_request_is_no_words(wants_answer: dict[str, object]) -> None:
    params = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": _TEXT}}
    line = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    assert decode_words(encode(line)) is not None
    assert decode_words(encode({**line, **wants_answer})) is None


@pytest.mark.parametrize("recorded", UPDATES, ids=lambda recorded: recorded.source)
def test_every_update_of_real_agents_is_read_for_what_it_is(recorded: Recorded) -> None:
    read = decode_update(recorded.data)
    raw = cast("dict[str, object]", recorded.params["update"])
    kind = raw["sessionUpdate"]
    assert read.session_id == recorded.params["sessionId"]
    match kind:
        case "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk":
            assert isinstance(read.update, ChunkUpdate)
            assert read.update.content == TextBlock(cast("dict[str, str]", raw["content"])["text"])
        case "tool_call" | "tool_call_update":
            assert isinstance(read.update, ToolActivity)
            assert read.update.tool_call_id == raw["toolCallId"]
            assert (read.update.title, read.update.kind) == (raw.get("title"), raw.get("kind"))
            assert read.update.raw_input == raw.get("rawInput")
            content = cast("list[dict[str, object]]", raw.get("content") or [])
            assert len(read.update.diffs) == sum(item["type"] == "diff" for item in content)
        case "usage_update":
            assert isinstance(read.update, UsageUpdate)
            assert (read.update.used, read.update.size) == (raw["used"], raw["size"])
            cost = cast("dict[str, object]", raw.get("cost") or {})
            assert (read.update.amount, read.update.currency) == (cost.get("amount"), cost.get("currency"))
        case _:
            assert read.update == OtherUpdate(str(kind), raw)


@pytest.mark.parametrize("recorded", PERMISSIONS, ids=lambda recorded: recorded.source)
def test_every_permission_request_of_real_agents_can_be_answered(recorded: Recorded) -> None:
    request = decode_permission(recorded.data)
    call = cast("dict[str, object]", recorded.params["toolCall"])
    assert request.tool_call.tool_call_id == call["toolCallId"]
    assert request.tool_call.raw_input == call.get("rawInput")
    assert request.option("allow_once") is not None
    assert request.option("reject_once") is not None


@pytest.mark.parametrize("recorded", INITIALIZED, ids=lambda recorded: recorded.source)
def test_what_real_agents_say_of_themselves(recorded: Recorded) -> None:
    info = msgspec.json.decode(recorded.data, type=Initialized)
    said = acp.schema.InitializeResponse.model_validate(recorded.result)
    assert info.protocol_version == said.protocol_version == 1
    assert said.agent_capabilities is not None
    assert info.agent_capabilities.load_session == said.agent_capabilities.load_session
    capabilities = said.agent_capabilities.prompt_capabilities
    assert capabilities is not None
    assert info.agent_capabilities.prompt_capabilities.image == capabilities.image
    assert [method.id for method in info.auth_methods] == [
        method.root.id if hasattr(method, "root") else method.id for method in said.auth_methods or []
    ]


# What we send.


@pytest.mark.parametrize(
    ("block", "model"),
    [
        (TextBlock("hello"), acp.schema.TextContentBlock),
        (ImageBlock("aGk=", "image/png"), acp.schema.ImageContentBlock),
        (ImageBlock("aGk=", "image/png", "file:///a.png"), acp.schema.ImageContentBlock),
        (AudioBlock("aGk=", "audio/wav"), acp.schema.AudioContentBlock),
        (ResourceLinkBlock("file:///a", "a", "text/plain", "A", "an a", 1), acp.schema.ResourceContentBlock),
        (
            EmbeddedResourceBlock({"uri": "file:///a", "text": "a", "mimeType": "text/plain"}),
            acp.schema.EmbeddedResourceContentBlock,
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, msgspec.Struct) else "",
)
def test_blocks_are_what_the_official_sdk_reads(block: ContentBlock, model: type) -> None:
    sent = json.loads(encode(block))
    prompt = acp.schema.PromptRequest.model_validate({"sessionId": "s", "prompt": [sent]})
    assert type(prompt.prompt[0]) is model
    again = prompt.model_dump(by_alias=True, exclude_none=True, mode="json")["prompt"][0]
    assert again == sent
    # And back again, as a chunk.
    read = decode_update(update(sessionUpdate="agent_message_chunk", content=sent)).update
    assert read == ChunkUpdate("agent", block)


@pytest.mark.parametrize(
    "server",
    [
        HttpServer("dg", "http://127.0.0.1:1/x", (Header("authorization", "Bearer x"),)),
        StdioServer("dg", "/bin/relay", ("a",), (Header("K", "v"),)),
        StdioServer("dg", "/bin/relay", (), ()),
    ],
)
def test_tool_servers_are_what_the_official_sdk_reads(server: HttpServer | StdioServer) -> None:
    sent = json.loads(encode(server))
    request = acp.schema.NewSessionRequest.model_validate({"cwd": "/WS", "mcpServers": [sent]})
    again = request.model_dump(by_alias=True, exclude_none=True, mode="json")["mcpServers"][0]
    assert again == sent


# What an agent might send.


@pytest.mark.long
@given(JSON)
def test_any_json_is_an_update_or_is_not(value: object) -> None:
    for read in (decode_update, decode_permission):
        try:
            read(encode(value))
        except msgspec.ValidationError:
            continue
        raise AssertionError(value)


@pytest.mark.long
@given(KINDS, FIELDS)
def test_an_update_of_any_form_is_read_as_far_as_it_can_be(kind: str, fields: dict[str, object]) -> None:
    read = decode_update(update(**fields, sessionUpdate=kind))
    assert read.session_id == "s"
    if isinstance(read.update, ToolActivity):
        assert isinstance(read.update.text, str)
        assert isinstance(read.update.diffs, tuple)


@pytest.mark.long
@given(FIELDS, JSON)
def test_a_permission_request_of_any_form_is_read_as_far_as_it_can_be(
    call: dict[str, object], options: object
) -> None:
    request = decode_permission(
        encode({"sessionId": "s", "toolCall": {**call, "toolCallId": "t"}, "options": options})
    )
    assert request.tool_call.tool_call_id == "t"


@given(st.binary(max_size=60))
def test_any_bytes_are_an_update_or_are_not(data: bytes) -> None:
    for read in (decode_update, decode_permission):
        with suppress(msgspec.ValidationError):
            read(data)


DEEP = b"[" * 5_000 + b"]" * 5_000


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            b'{"sessionId":"s","update":{"sessionUpdate":"tool_call","rawInput":' + DEEP + b"}}", id="deep"
        ),
        pytest.param(b'{"sessionId":"s","toolCall":' + DEEP + b"}", id="deep permission"),
        pytest.param(
            b'{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":"\xff"}}',
            id="no UTF-8",
        ),
        pytest.param(b'{"sessionId":"s","update":{"sessionUpdate":"x"}', id="cut"),
        pytest.param(b'{"sessionId":1,"update":{"sessionUpdate":"plan"}}', id="no session"),
        pytest.param(b'{"sessionId":"s","update":{"sessionUpdate":7}}', id="no kind"),
        pytest.param(b'{"sessionId":"s","update":[]}', id="a list"),
        pytest.param(b'{"sessionId":"s","toolCall":{"title":"t"}}', id="a call without an id"),
    ],
)
def test_f10_what_cannot_be_read_is_refused_in_one_way(data: bytes) -> None:
    for read in (decode_update, decode_permission):
        with pytest.raises(msgspec.ValidationError):
            read(data)


def test_f16_half_a_character_at_the_end_of_a_chunk_is_kept() -> None:
    data = b'{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\\ud83d"}}}'
    read = decode_update(data).update
    assert isinstance(read, ChunkUpdate)
    assert read.content == TextBlock("a\ud83d")
    # In other places the halves could not be joined.
    data = b'{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"a\\ud83d"}}'
    assert decode_update(data).update == ToolActivity("t", title="a\ufffd")


def test_a_value_of_the_wrong_form_costs_that_value() -> None:
    read = decode_update(
        update(
            sessionUpdate="tool_call",
            toolCallId="t",
            title=7,
            kind="read",
            locations=[{"no": "path"}],
            rawInput={"a": 1},
        )
    )
    assert read.update == ToolActivity("t", kind="read", raw_input={"a": 1})
    read = decode_update(
        update(
            sessionUpdate="plan",
            entries=[{"content": "a"}, {"content": 1}, 7, {"content": "b", "status": "completed"}],
        )
    )
    assert read.update == PlanUpdate((AcpPlanEntry("a"), AcpPlanEntry("b", status="completed")))
    assert decode_update(update(sessionUpdate="plan", entries="none")).update == PlanUpdate(())
    assert isinstance(decode_update(update(sessionUpdate="usage_update", used="much")).update, OtherUpdate)
    counted = update(sessionUpdate="usage_update", used=1, size=-5, cost={"amount": 2, "currency": "EUR"})
    assert decode_update(counted).update == UsageUpdate(1, None, 2.0, "EUR")
    for cost in (
        {"amount": True, "currency": "EUR"},
        {"amount": -1, "currency": "EUR"},
        {"amount": 10**400},
        3,
    ):
        read = decode_update(update(sessionUpdate="usage_update", size=5, cost=cost))
        assert read.update == UsageUpdate(size=5)
    assert isinstance(decode_update(update(sessionUpdate="tool_call", title="no id")).update, OtherUpdate)
    options = [{"optionId": "x", "kind": "allow_once"}, {"kind": "reject_once"}, 7]
    asked = decode_permission(
        encode({"toolCall": {"toolCallId": "t"}, "options": options, "_meta": {"a": 1}})
    )
    assert ([option.option_id for option in asked.options], asked.session_id, asked.meta) == (
        ["x"],
        "",
        {"a": 1},
    )
    assert decode_permission(encode({"toolCall": {"toolCallId": "t"}, "_meta": 7})).meta is None


def test_what_is_in_the_content_of_a_tool_call() -> None:
    activity = ToolActivity(
        "t",
        content=(
            {"type": "content", "content": {"type": "text", "text": "one "}},
            {"type": "content", "content": {"type": "image"}},
            {"type": "content", "content": "no block"},
            {"type": "content", "content": {"type": "text", "text": "two"}},
            {"type": "diff", "path": "/a", "newText": "new"},
            {"type": "diff", "path": "/b", "oldText": "old", "newText": "new"},
            {"type": "diff", "path": "/c"},
            "nonsense",
        ),
    )
    assert activity.text == "one two"
    assert activity.diffs == (Diff("/a", None, "new"), Diff("/b", "old", "new"))


# What a consumer gets of a block.


def test_blocks_become_parts() -> None:
    assert parts_of(TextBlock("a")) == (TextPart("a"),)
    assert parts_of(ImageBlock("aGk=", "image/png")) == (DataPart("image/png", b"hi"),)
    assert parts_of(AudioBlock("aGk=", "audio/wav")) == (DataPart("audio/wav", b"hi"),)
    assert parts_of(EmbeddedResourceBlock({"uri": "u", "blob": "aGk=", "mimeType": "image/gif"})) == (
        DataPart("image/gif", b"hi"),
    )
    assert parts_of(EmbeddedResourceBlock({"uri": "u", "blob": "aGk="})) == (
        DataPart("application/octet-stream", b"hi"),
    )
    named: JsonObject = {"uri": "file:///x/a%20b.pdf", "blob": "aGk=", "mimeType": "application/pdf"}
    assert parts_of(EmbeddedResourceBlock(named)) == (DataPart("application/pdf", b"hi", name="a b.pdf"),)
    assert parts_of(EmbeddedResourceBlock({"uri": "u", "text": "a"}))[1] == TextPart("a")
    assert len(parts_of(EmbeddedResourceBlock({"uri": "u"}))) == 1
    (broken,) = parts_of(ImageBlock("not base64", "image/png"))
    assert isinstance(broken, TextPart)
    assert "cannot be read" in broken.value


@pytest.mark.parametrize("mime_type", [*sorted(INTERNAL_MIME_TYPES), ""])
def test_h23_an_agent_sends_no_markers(mime_type: str) -> None:
    """Nor a count of tokens, nor anything else that only programs read; and what has no type has one."""
    for block in (
        ImageBlock("aGk=", mime_type),
        AudioBlock("aGk=", mime_type),
        EmbeddedResourceBlock({"uri": "u", "blob": "aGk=", "mimeType": mime_type}),
    ):
        assert parts_of(block) == (DataPart("application/octet-stream", b"hi"),)


@given(hostile_text, hostile_text)
def test_s13_what_we_write_about_a_resource_does_nothing(name: str, uri: str) -> None:
    for block in (ResourceLinkBlock(uri, name), EmbeddedResourceBlock({"uri": uri}), ImageBlock("?", name)):
        for part in parts_of(block):
            assert isinstance(part, TextPart)
            assert hrefs(part.value) == []
            assert not any(token.type.startswith("html") for token in inline_tokens(part.value))
