"""What a gateway sees in a request, without a key and without records."""

from __future__ import annotations

import secrets

from dragoman.conversations.history import normalise
from dragoman.conversations.ids import (
    KEY_BYTES,
    CallName,
    IdSigner,
    MarkerName,
    conversation_in_call_id,
    conversation_in_marker,
    new_conversation_id,
)
from dragoman.fleet.hints import Hints, hints_of, index_keys
from dragoman.lm import (
    Consumer,
    DataPart,
    Message,
    Request,
    RequestOptions,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    user,
)
from dragoman.lm.parts import STATEFUL_MARKER

_SIGNER = IdSigner(secrets.token_bytes(KEY_BYTES))


def _hints(*messages: Message, consumer_id: object = None) -> Hints:
    options = {} if consumer_id is None else {"_conversationId": consumer_id}
    request = Request(messages, RequestOptions(model_options=options), Consumer(connection="c", client="k"))
    return hints_of(request, "agent")


def _keys(links: list[int], consumer_id: str | None = None) -> tuple[str, ...]:
    return tuple(index_keys("agent", "c", "k", consumer_id=consumer_id, links=links))


def test_ids_are_read_without_their_key() -> None:
    id_ = new_conversation_id()
    assert conversation_in_marker(_SIGNER.marker("agent", MarkerName(id_, 1, 2))) == id_
    assert conversation_in_call_id(_SIGNER.call_id(CallName(id_, 3))) == id_
    assert conversation_in_call_id("call_1") is None
    for data in (b"agent\\****", b"no backslash", b"agent\\" + b"A" * 400, b"agent\\QUJD"):
        assert conversation_in_marker(DataPart(STATEFUL_MARKER, data)) is None


def test_named_conversations_come_with_the_latest_first() -> None:
    first, second = new_conversation_id(), new_conversation_id()
    call_id = _SIGNER.call_id(CallName(second, 1))
    named = _hints(
        user("hello"),
        assistant("hi", _SIGNER.marker("agent", MarkerName(first, 1, 1))),
        user("go"),
        assistant(ThinkingPart("hm"), ToolCallPart(call_id, "read", {})),
        user(ToolResultPart(call_id)),
    ).named
    assert named == (second, first)


def test_a_request_names_some_conversations_at_most() -> None:
    markers = [_SIGNER.marker("agent", MarkerName(new_conversation_id(), 1, 1)) for _ in range(9)]
    assert len(_hints(*(assistant("x", each) for each in markers), user("go")).named) == 4


def test_keys_are_of_the_places_after_and_before_the_last_answers_the_longest_first() -> None:
    messages = (user("one"), assistant("1"), user("two"), assistant("2"), user("three"))
    links = normalise(messages).links
    assert _hints(*messages).keys == _keys([links[4], links[3], links[2], links[1], links[0]])


def test_of_a_long_history_only_the_last_places_and_the_first_messages_have_keys() -> None:
    messages = [
        user("a"),
        user("b"),
        *(each for n in range(30) for each in (assistant(f"{n}"), user(f"u{n}"))),
    ]
    links = normalise(messages).links
    keys = _hints(*messages).keys
    assert keys[-2:] == _keys([links[1], links[0]])
    assert len(keys) == 2 + 2 * 8 + 1


def test_the_consumers_own_id_separates_its_places_and_has_a_key() -> None:
    links = normalise([user("hello")]).links
    with_id = _hints(user("hello"), consumer_id="chat-1").keys
    assert with_id == _keys([links[0]], "chat-1")
    assert len(with_id) == 2
    assert not {*with_id} & {*_hints(user("hello")).keys}
    assert _hints(user("hello"), consumer_id=7).keys == _hints(user("hello")).keys


def test_keys_separate_models_connections_and_clients() -> None:
    made = {
        key
        for model, connection, client in (("a", "c", "k"), ("b", "c", "k"), ("a", "d", "k"), ("a", "c", "l"))
        for key in index_keys(model, connection, client, consumer_id=None, links=[1, 2])
    }
    assert len(made) == 8
    assert all(len(key) == 16 and key.isalnum() for key in made)


def test_an_empty_history_gives_no_hints() -> None:
    assert _hints() == Hints((), ())
