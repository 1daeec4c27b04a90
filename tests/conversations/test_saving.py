"""A conversation on its way to disk and back: recognised as before, and true to what can still be true."""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agent.bridge import Bridge, Chat, result
from dragoman.conversations.history import NormalAnswer, NormalItem, NormalPrompt, NormalResult, chain
from dragoman.conversations.records import ConversationRecord, ReplyRecord, Scope
from dragoman.conversations.saving import SavedError, load_conversation, save_conversation
from dragoman.lm import DataPart, ToolCallPart, assistant, user

# As an older version wrote it: never to be made anew. Another form needs another version, and this one is read still.
_KEPT = (Path(__file__).parent / "data/kept_conversation.json").read_bytes()
_TEXT = st.text(max_size=20)
_ITEMS: st.SearchStrategy[NormalItem] = st.one_of(
    st.builds(NormalPrompt, _TEXT),
    st.builds(NormalAnswer, _TEXT, st.lists(st.tuples(_TEXT, _TEXT, _TEXT), max_size=2).map(tuple)),
    st.builds(NormalResult, _TEXT),
)


def _record(
    items: list[NormalItem], status: str = "complete", pending: frozenset[str] = frozenset()
) -> ConversationRecord:
    size = len(items)
    reply = ReplyRecord(1, 1, size, size, status, None, 12.5, ("a",))  # type: ignore[arg-type]
    scope = Scope("agent", ("/one", "/two"), "stdio:editor")
    return ConversationRecord("a" * 16, scope, tuple(items), tuple(chain(items)), (reply,), pending, "chat-1")


@given(items=st.lists(_ITEMS, max_size=6), pending=st.frozensets(_TEXT, max_size=3))
def test_what_was_kept_is_recognised_as_before(items: list[NormalItem], pending: frozenset[str]) -> None:
    record = _record(items, pending=pending)
    saved = load_conversation(save_conversation(record, "session-1", 7))
    assert (saved.session, saved.calls) == ("session-1", 7)
    loaded = saved.record
    assert (loaded.id, loaded.scope, loaded.items, loaded.pending, loaded.consumer_id) == (
        record.id,
        record.scope,
        record.items,
        record.pending,
        record.consumer_id,
    )
    assert loaded.links == record.links
    [reply] = loaded.replies
    assert (reply.number, reply.turn, reply.call_ids) == (1, 1, ("a",))


def test_f13_h21_what_an_older_version_kept_is_recognised() -> None:
    saved = load_conversation(_KEPT)
    assert (saved.session, saved.calls) == ("session-1", 2)
    bridge = Bridge()
    bridge.records.put(saved.record)
    calls = tuple(sorted(saved.record.pending))
    chat = Chat(bridge, keeps_markers=False, consumer_id="chat-1").then(
        user("what is this?", DataPart.image(b"\x89PNG", "image/png")),
        assistant("A picture."),
        "look closer",
        assistant("Wait.", *(ToolCallPart(id_, "look", {"n": n}) for n, id_ in enumerate(calls, 1))),
        user(*map(result, calls)),
    )
    found = chat.identify()
    assert (found.kind, found.conversation, found.joins) == ("results", saved.record.id, 2)
    assert tuple(each.call_id for each in found.results) == calls


def test_the_form_is_the_one_that_older_versions_read() -> None:
    saved = load_conversation(_KEPT)
    again = save_conversation(saved.record, saved.session, saved.calls)
    assert again == re.sub(rb'"[^"]{22}=="', b'""', _KEPT)


def test_what_was_under_way_is_cut_and_times_no_longer_count() -> None:
    loaded = load_conversation(save_conversation(_record([NormalPrompt("hi")], "streaming"), None, 0)).record
    [reply] = loaded.replies
    assert (reply.status, reply.ended_at) == ("cut", None)


@given(data=st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_and_nothing_worse(data: bytes) -> None:
    with pytest.raises(SavedError):
        load_conversation(data)


@pytest.mark.parametrize(
    ("before", "after"),
    [(b'"version":1', b'"version":2'), (b"[1,1,1,1,", b"[1,1,5,1,"), (b'["said",', b'["sung",')],
)
def test_what_no_version_of_ours_could_have_written_is_refused(before: bytes, after: bytes) -> None:
    data = save_conversation(_record([NormalPrompt("hi")]), None, 0)
    assert before in data
    with pytest.raises(SavedError):
        load_conversation(data.replace(before, after))


def test_f16_half_a_character_does_not_keep_a_conversation_from_being_kept() -> None:
    kept = load_conversation(save_conversation(_record([NormalPrompt("\ud83d!")]), None, 0))
    assert kept.record.items == (NormalPrompt("\ufffd!"),)
