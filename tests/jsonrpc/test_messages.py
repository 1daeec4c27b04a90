"""One line, one message: what is understood, what is forgiven, and what is not."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from dragoman.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorObject,
    ErrorResponse,
    Malformed,
    Notification,
    RequestId,
    RpcMessage,
    RpcRequest,
    RpcResponse,
    encode_error,
    encode_notification,
    encode_request,
    encode_response,
    parse,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ids = st.integers(-(2**70), 2**70) | st.text() | st.none()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1}}', RpcRequest(1, "a", b'{"x":1}')),
        ('{"jsonrpc":"2.0","id":"1","method":"a","params":[1, 2]}', RpcRequest("1", "a", b"[1, 2]")),
        ('{"jsonrpc":"2.0","id":null,"method":"a"}', RpcRequest(None, "a", b"{}")),
        ('{"jsonrpc":"2.0","method":"a","params":null}', Notification("a", b"{}")),
        ('{"jsonrpc":"2.0","id":1,"result":null}', RpcResponse(1, b"null")),
        ('{"jsonrpc":"2.0","id":"x","result":{"ü":"é"}}', RpcResponse("x", '{"ü":"é"}'.encode())),
        (
            '{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":[1]}}',
            ErrorResponse(1, ErrorObject(-1, "no", [1])),
        ),
        (
            '{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}',
            ErrorResponse(None, ErrorObject(-1, "no")),
        ),
    ],
)
def test_the_four_kinds_of_message(line: str, message: RpcMessage) -> None:
    assert parse(line.encode()) == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id":1,"method":"a"}', RpcRequest(1, "a")),
        (' {"method" : "a" , "more" : {"x":[]}, "_meta": 1 }\r', Notification("a")),
        ('{"id":1,"result":2,"error":null}', RpcResponse(1, b"2")),
        ('{"id":1,"result":null,"error":{"code":1,"message":"m"}}', ErrorResponse(1, ErrorObject(1, "m"))),
        ('{"id":1,"error":"it broke"}', ErrorResponse(1, ErrorObject(INTERNAL_ERROR, "it broke"))),
        ('{"id":1,"error":{"code":7}}', ErrorResponse(1, ErrorObject(7, '{"code":7}'))),
        (
            '{"id":1,"error":{"code":"E","message":"m","data":5}}',
            ErrorResponse(1, ErrorObject(INTERNAL_ERROR, "m", 5)),
        ),
        ('{"id":1,"error":{"code":true,"message":"m"}}', ErrorResponse(1, ErrorObject(INTERNAL_ERROR, "m"))),
        ('{"id":1,"error":[]}', ErrorResponse(1, ErrorObject(INTERNAL_ERROR, "[]"))),
        ('{"id":1,"error":{"code":1,"message":"\\ud83d!"}}', ErrorResponse(1, ErrorObject(1, "\ufffd!"))),
        # What a lone surrogate is in stays as it is, in escapes; names and ids have to be text.
        ('{"method":"a","params":{"t":"\\ud83d"}}', Notification("a", b'{"t":"\\ud83d"}')),
        ('{"method":"a\\udc00","id":"\\ud83d","params":{}}', RpcRequest("\ufffd", "a\ufffd")),
        ('{"id":1,"result":["\\ude00"]}', RpcResponse(1, b'["\\ude00"]')),
        ('{"id":1,"result":1,"more":"\\ude00"}', RpcResponse(1, b"1")),
    ],
)
def test_what_is_forgiven(line: str, message: RpcMessage) -> None:
    assert parse(line.encode()) == message


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        (b"npm WARN deprecated", PARSE_ERROR, "not JSON"),
        (b'{"method":"a"', PARSE_ERROR, "not JSON"),
        (b'{"method":"a"} {"method":"b"}', PARSE_ERROR, "not JSON"),
        (b'{"method":"a","params":{"x":NaN}}', PARSE_ERROR, "not JSON"),
        (b'{"method":"a","params":["\\ud83d",NaN]}', PARSE_ERROR, "NaN"),
        (b'{"method":"a","params":["\\ud83d",1e999]}', PARSE_ERROR, "not JSON"),
        (b'{"method":"a","params":{"x":"\xff"}}', PARSE_ERROR, "not valid UTF-8"),
        (b'{"method":"\xc3', PARSE_ERROR, "not valid UTF-8"),
        (b'{"method":"a","params":' + b"[" * 100_000, INVALID_REQUEST, "nested more than"),
        (b"[]", INVALID_REQUEST, "batches"),
        (b'[{"method":"a"}]', INVALID_REQUEST, "batches"),
        (b"17", INVALID_REQUEST, "not a JSON object"),
        (b'"text"', INVALID_REQUEST, "not a JSON object"),
        (b"null", INVALID_REQUEST, "not a JSON object"),
        (b"{}", INVALID_REQUEST, "neither a method nor an id"),
        (b'{"result":1}', INVALID_REQUEST, "neither a method nor an id"),
        (b'{"id":true,"method":"a"}', INVALID_REQUEST, "id"),
        (b'{"id":1.5,"method":"a"}', INVALID_REQUEST, "id"),
        (b'{"id":{},"result":1}', INVALID_REQUEST, "id"),
    ],
)
def test_what_nobody_can_act_on(line: bytes, code: int, reason: str) -> None:
    message = parse(line)
    assert isinstance(message, Malformed)
    assert message.code == code
    assert reason in message.reason
    assert message.size == len(line)
    assert message.request_id is None
    assert message.reply_id is None


@pytest.mark.parametrize(
    ("line", "request_id", "reply_id"),
    [
        (b'{"id":5,"method":7}', 5, None),
        (b'{"id":"x","method":"a","params":7}', "x", None),
        (b'{"method":"a","params":"b"}', None, None),
        (b'{"jsonrpc":"1.0","id":5,"method":"a"}', 5, None),
        (b'{"jsonrpc":2.0,"id":5,"method":"a"}', 5, None),
        (b'{"jsonrpc":"2.0","id":5}', None, 5),
        (b'{"jsonrpc":"2.0","id":5,"error":null}', None, 5),
    ],
)
def test_a_malformed_line_says_whom_it_concerns(
    line: bytes, request_id: RequestId, reply_id: RequestId
) -> None:
    message = parse(line)
    assert isinstance(message, Malformed)
    assert message.code == INVALID_REQUEST
    assert (message.request_id, message.reply_id) == (request_id, reply_id)


def test_the_reason_quotes_only_the_beginning() -> None:
    message = parse(b"x" * 10_000)
    assert isinstance(message, Malformed)
    assert "xxx" in message.reason
    assert len(message.reason) < 300


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
@example(b"\xed\xa0\xbd")
def test_parsing_never_raises(line: bytes) -> None:
    assert isinstance(parse(line), RpcRequest | Notification | RpcResponse | ErrorResponse | Malformed)


@given(ids, st.text(), st.dictionaries(st.text(), json_values) | st.lists(json_values))
def test_what_is_written_reads_the_same(identity: RequestId, method: str, params: object) -> None:
    request = parse(encode_request(identity, method, params)[:-1])
    assert isinstance(request, RpcRequest)
    assert (request.id, request.method) == (identity, method)
    assert json.loads(request.params) == params
    notification = parse(encode_notification(method, params)[:-1])
    assert isinstance(notification, Notification)
    assert json.loads(notification.params) == params
    response = parse(encode_response(identity, params)[:-1])
    assert isinstance(response, RpcResponse)
    assert json.loads(response.result) == params
    error = ErrorObject(-32000, method, params)
    assert parse(encode_error(identity, error)[:-1]) == ErrorResponse(identity, error)


def test_absent_params_are_not_written() -> None:
    assert encode_request(1, "a") == b'{"jsonrpc":"2.0","id":1,"method":"a"}\n'
    assert encode_notification("a") == b'{"jsonrpc":"2.0","method":"a"}\n'
    assert encode_response(1, None) == b'{"jsonrpc":"2.0","id":1,"result":null}\n'
    assert (
        encode_error(None, ErrorObject(-1, "m"))
        == b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}\n'
    )


def test_raw_json_is_passed_through() -> None:
    line = encode_notification("a", msgspec.Raw(b'{"x": [1,2]}'))
    assert line == b'{"jsonrpc":"2.0","method":"a","params":{"x": [1,2]}}\n'
