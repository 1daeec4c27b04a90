"""The MCP protocol without a transport: requests in, actions out."""

import mcp_types
import pytest
from hypothesis import given, settings, strategies as st

from dragoman.backends.agent.toolserver.session import (
    HANDSHAKE_VERSIONS,
    META_VERSION,
    STATELESS_VERSION,
    UNSUPPORTED_VERSION,
    CallTool,
    CancelCall,
    Era,
    Listen,
    ListTools,
    McpSession,
    Refuse,
    Respond,
)
from dragoman.jsonrpc.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Notification,
    RpcRequest,
)
from dragoman.lm import JsonObject, json
from searching import examples

_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_ENVELOPE: JsonObject = {META_VERSION: STATELESS_VERSION, _CAPABILITIES: {}}


def _asked(method: str, params: object = None) -> RpcRequest:
    return RpcRequest(1, method, json.encode({} if params is None else params))


def _modern(method: str, **params: object) -> RpcRequest:
    return _asked(method, {"_meta": _ENVELOPE, **params})


def _told(method: str, params: object = None) -> Notification:
    return Notification(method, json.encode({} if params is None else params))


def _shaken(version: str = "2025-06-18") -> McpSession:
    session = McpSession("dragoman")
    assert isinstance(session.request(_asked("initialize", {"protocolVersion": version})), Respond)
    return session


def _code(action: object) -> int:
    assert isinstance(action, Refuse)
    return action.code


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_revision_that_we_speak_is_agreed_on(version: str) -> None:
    session = _shaken(version)
    assert (session.era, session.version) == ("handshake", version)


@pytest.mark.parametrize("version", ["2023-01-01", "2027-01-01", STATELESS_VERSION, ""])
def test_for_any_other_the_latest_of_ours_is_proposed(version: str) -> None:
    action = McpSession("dragoman").request(_asked("initialize", {"protocolVersion": version}))
    assert isinstance(action, Respond)
    assert action.result["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("params", [{}, {"protocolVersion": None}, {"protocolVersion": 20250618}])
def test_a_handshake_without_a_revision_fails_and_may_be_tried_again(params: JsonObject) -> None:
    session = McpSession("dragoman")
    assert _code(session.request(_asked("initialize", params))) == INVALID_PARAMS
    assert session.version is None
    assert isinstance(session.request(_asked("initialize", {"protocolVersion": "2025-06-18"})), Respond)


def test_before_the_handshake_there_is_nothing_but_a_ping() -> None:
    session = McpSession("dragoman")
    assert session.request(_asked("ping")) == Respond({})
    for method in ("tools/list", "tools/call", "server/discover", "subscriptions/listen", "nonsense"):
        assert _code(session.request(_asked(method))) == INVALID_REQUEST


def test_what_belongs_to_no_era_decides_none() -> None:
    for method in ("ping", "tools/list", "server/discover"):
        session = McpSession("dragoman")
        session.request(_asked(method))
        assert session.era is None
        assert session.request(_modern("tools/list")) == ListTools()


def test_a_probe_of_a_later_revision_is_told_ours_and_may_still_shake_hands() -> None:
    session = McpSession("dragoman")
    probe: JsonObject = {"_meta": {META_VERSION: "2027-01-01", _CAPABILITIES: {}}}
    action = session.request(_asked("server/discover", probe))
    assert isinstance(action, Refuse)
    assert action.code == UNSUPPORTED_VERSION
    assert action.data == {"supported": [STATELESS_VERSION], "requested": "2027-01-01"}
    assert isinstance(session.request(_asked("initialize", {"protocolVersion": "2025-06-18"})), Respond)


def test_after_a_handshake_there_are_no_stateless_requests() -> None:
    session = _shaken()
    assert _code(session.request(_modern("tools/list"))) == INVALID_REQUEST
    assert session.request(_asked("tools/list")) == ListTools()


def test_after_a_stateless_request_there_is_no_handshake() -> None:
    session = McpSession("dragoman")
    assert session.request(_modern("tools/list")) == ListTools()
    assert (
        _code(session.request(_asked("initialize", {"protocolVersion": "2025-06-18"}))) == UNSUPPORTED_VERSION
    )
    assert _code(session.request(_asked("tools/list"))) == INVALID_PARAMS
    assert _code(session.request(_modern("ping"))) == METHOD_NOT_FOUND


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        (None, INVALID_PARAMS),
        ([], INVALID_PARAMS),
        ({META_VERSION: STATELESS_VERSION}, INVALID_PARAMS),
        ({_CAPABILITIES: {}}, INVALID_PARAMS),
        ({META_VERSION: 2026, _CAPABILITIES: {}}, INVALID_PARAMS),
        ({META_VERSION: "2025-11-25", _CAPABILITIES: {}}, UNSUPPORTED_VERSION),
    ],
)
def test_a_stateless_request_says_which_revision_it_is_in(meta: object, code: int) -> None:
    session = McpSession("dragoman", "stateless")
    assert _code(session.request(_asked("tools/list", {"_meta": meta}))) == code


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize(
    "method", ["resources/list", "prompts/get", "logging/setLevel", "completion/complete", "", "tools/List"]
)
def test_what_a_server_of_tools_does_not_have_is_not_found(era: Era, method: str) -> None:
    session = _shaken() if era == "handshake" else McpSession("dragoman", era)
    request = _asked(method) if era == "handshake" else _modern(method)
    assert _code(session.request(request)) == METHOD_NOT_FOUND


@pytest.mark.parametrize("params", [[], [1], "text", 5, True])
def test_params_that_are_no_object_are_refused(params: object) -> None:
    assert _code(_shaken().request(_asked("tools/list", params))) == INVALID_PARAMS


@pytest.mark.parametrize(
    ("params", "call"),
    [
        ({"name": "a", "arguments": {"b": 1}}, CallTool("a", {"b": 1}, None)),
        ({"name": "a"}, CallTool("a", {}, None)),
        ({"name": "a", "arguments": None}, CallTool("a", {}, None)),
        ({"name": 5, "arguments": []}, CallTool(None, None, None)),
        ({"name": "a", "_meta": {"progressToken": 0}}, CallTool("a", {}, 0)),
        ({"name": "a", "_meta": {"progressToken": "t"}}, CallTool("a", {}, "t")),
        ({"name": "a", "_meta": {"progressToken": True}}, CallTool("a", {}, None)),
        ({"name": "a", "_meta": {"progressToken": 1.5}}, CallTool("a", {}, None)),
        ({"name": "a", "_meta": []}, CallTool("a", {}, None)),
    ],
)
def test_a_call_is_read_as_far_as_it_can_be(params: JsonObject, call: CallTool) -> None:
    assert _shaken().request(_asked("tools/call", params)) == call


def test_a_list_is_never_in_pages() -> None:
    session = _shaken()
    assert session.request(_asked("tools/list", {"cursor": "from elsewhere"})) == ListTools()
    assert _code(session.request(_asked("tools/list", {"cursor": 5}))) == INVALID_PARAMS


def test_a_subscription_is_to_what_was_asked_for() -> None:
    session = McpSession("dragoman", "stateless")
    assert session.request(_modern("subscriptions/listen", notifications={})) == Listen(tools=False)
    wanted: JsonObject = {"toolsListChanged": True, "promptsListChanged": True}
    assert session.request(_modern("subscriptions/listen", notifications=wanted)) == Listen(tools=True)
    assert _code(session.request(_modern("subscriptions/listen"))) == INVALID_PARAMS


def test_a_cancellation_names_a_request() -> None:
    session = _shaken()
    cancelled = "notifications/cancelled"
    assert session.notification(_told(cancelled, {"requestId": 7})) == CancelCall(7)
    assert session.notification(_told(cancelled, {"requestId": "seven", "reason": "late"})) == CancelCall(
        "seven"
    )
    malformed: tuple[object, ...] = ({}, [], {"requestId": None}, {"requestId": 1.5}, {"requestId": True})
    for params in malformed:
        assert session.notification(_told(cancelled, params)) is None
    assert session.notification(_told("notifications/initialized")) is None


def test_only_stateless_results_say_what_they_are_and_who_gave_them() -> None:
    with_handshake, stateless = _shaken(), McpSession("dragoman", "stateless")
    result: JsonObject = {"_meta": {"kept": 1}, "content": []}
    assert json.decode(with_handshake.response(1, result)) == {"jsonrpc": "2.0", "id": 1, "result": result}
    said = json.decode(stateless.response("one", result))
    assert isinstance(said, dict)
    assert said["id"] == "one"
    sent = said["result"]
    assert isinstance(sent, dict)
    assert sent["resultType"] == "complete"
    meta = sent["_meta"]
    assert isinstance(meta, dict)
    assert meta["kept"] == 1
    assert "io.modelcontextprotocol/serverInfo" in meta
    assert result == {"_meta": {"kept": 1}, "content": []}


def test_the_official_library_reads_what_is_offered() -> None:
    tools: list[JsonObject] = [{"name": "a", "inputSchema": {"type": "object"}}]
    for session in (_shaken(), McpSession("dragoman", "stateless")):
        listed = json.decode(session.response(1, session.tools(tools)))
        assert isinstance(listed, dict)
        read = mcp_types.ListToolsResult.model_validate(listed["result"])
        assert [tool.name for tool in read.tools] == ["a"]
    discovered = McpSession("dragoman").request(_modern("server/discover"))
    assert isinstance(discovered, Respond)
    assert mcp_types.DiscoverResult.model_validate(discovered.result).supported_versions == [
        STATELESS_VERSION
    ]


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "a", STATELESS_VERSION, "2025-06-18"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "_meta",
                    "arguments",
                    "cursor",
                    "name",
                    "notifications",
                    "progressToken",
                    "protocolVersion",
                    "requestId",
                    "toolsListChanged",
                    META_VERSION,
                    _CAPABILITIES,
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_METHODS = (
    "initialize",
    "ping",
    "server/discover",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
    "notifications/cancelled",
    "other",
)


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(st.tuples(st.sampled_from(_METHODS), _json | st.just({"_meta": _ENVELOPE})), max_size=8))
def test_whatever_is_said_a_session_is_of_one_era_and_answers(said: list[tuple[str, object]]) -> None:
    session = McpSession("dragoman")
    for method, params in said:
        before = session.era
        action = session.request(_asked(method, params))
        assert before in (None, session.era)
        # The other era's requests have no effect on this one's.
        if session.era == "handshake":
            assert not isinstance(action, Listen)
            assert session.version is not None or not isinstance(action, ListTools | CallTool)
        else:
            assert session.version is None
        if session.era is None:
            assert isinstance(action, Refuse) or (method, action) == ("ping", Respond({}))
        if isinstance(action, Refuse):
            assert json.decode(session.error(1, action))
        session.notification(_told(method, params))
