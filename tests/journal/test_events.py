"""Events as they are stored: whole, without content, without secrets."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.cleaning import Cleaning
from dragoman.conversations import history
from dragoman.conversations.history import (
    NormalAnswer,
    NormalItem,
    NormalPrompt,
    NormalResult,
    item_key,
    normalise,
)
from dragoman.conversations.records import ReplyRecord, ReplyStatus, Scope
from dragoman.journal import chat_events, response_events
from dragoman.journal.agent_events import (
    ConversationImported,
    PermissionDecided,
    ReplyEnded,
    RequestReceived,
    TextSaid,
)
from dragoman.journal.chat_events import MessagesAdded
from dragoman.journal.content import is_decision, without_content
from dragoman.journal.event import JournalEvent, JournalStarted
from dragoman.journal.events import AnyEvent, UnreadableJournal, decode_events, encode_events
from dragoman.journal.fold import ConversationFold, ConversationState
from dragoman.journal.masking import masked
from dragoman.journal.response_events import ItemsAdded, MetadataChanged, PartsReported, ResponseClosed
from dragoman.lm import (
    ActivityPart,
    DataPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
    assistant,
    user,
)
from dragoman.logs import REDACTED, Redaction
from journal.samples import agent_events

_SECRET = "sk-a-very-secret-word-0123456789"
_WORD = "heron"


def _stored(event: AnyEvent) -> AnyEvent:
    [(_, stored)] = decode_events(encode_events([(1.0, event)]))
    return stored


def test_every_event_is_read_as_it_was_written() -> None:
    for event in agent_events(_WORD):
        assert _stored(event) == event


def test_every_kind_of_agents_event_is_among_the_samples() -> None:
    """So that a new event has to say what of it is content."""
    others = (chat_events.__name__, response_events.__name__)
    kinds = {each for each in JournalEvent.__subclasses__() if each.__module__ not in others}
    assert {type(event) for event in agent_events(_WORD)} == kinds


def test_times_are_stored_to_the_millisecond() -> None:
    event = TextSaid(1, 0, 1, "x")
    assert decode_events(encode_events([(1.23456, event), (2.0, event)])) == [(1.235, event), (2.0, event)]


@pytest.mark.parametrize("data", [b"", b"{}", b"[[1]]", b'[[1,{"type":"unknown"}]]', b"[" * 100_000, b"\xff"])
def test_what_is_no_list_of_events_is_an_error(data: bytes) -> None:
    with pytest.raises(UnreadableJournal):
        decode_events(data)


# Content.


def test_without_content_no_word_of_what_was_said_is_left() -> None:
    for event in agent_events(_WORD):
        left = without_content(event)
        assert left is not None
        assert _WORD not in encode_events([(1.0, left)]).decode(), type(event)


def test_without_content_the_same_conversation_is_recognised() -> None:
    """All that identification needs is in the digests."""
    events = agent_events(_WORD)[:-1]
    left = [event for event in map(without_content, events) if event is not None]
    whole = ConversationFold("c").apply_all(events).state
    reduced = ConversationFold("c").apply_all(left).state
    assert reduced == msgspec.structs.replace(whole, record=msgspec.structs.replace(whole.record, cut=None))
    assert whole.record.cut == NormalAnswer(_WORD, (("dg_1", "look", f'{{"q":"{_WORD}"}}'),))


def test_decisions_are_what_outlives_the_content() -> None:
    assert [event.__class__.__name__ for event in agent_events(_WORD) if is_decision(event)] == [
        "PermissionRequested",
        "PermissionDecided",
    ]
    rule = PermissionDecided("q", is_allowed=True, by="rule", where="", seconds=0.0, why="read-only git")
    assert without_content(rule) == rule, "the name of a rule is no content"


def test_what_the_server_stores_for_its_clients_is_content() -> None:
    closed = ResponseClosed("failed", 1, error={"message": _WORD})
    assert without_content(closed) == ResponseClosed("failed", 1)
    for event in (
        PartsReported((TextPart(_WORD),)),
        ItemsAdded(({"type": "message"},)),
        MetadataChanged({"a": _WORD}),
    ):
        assert without_content(event) is None


# Secrets.


@pytest.fixture
def cleaning() -> Cleaning:
    return Cleaning(Redaction())


def test_secrets_are_masked_in_every_event(cleaning: Cleaning) -> None:
    for event in agent_events(_SECRET):
        written = encode_events([(1.0, masked(event, cleaning))]).decode()
        assert _SECRET not in written, type(event)


def test_a_title_is_cut_after_its_secrets_are_masked(cleaning: Cleaning) -> None:
    """Half a secret has another form, and would stay."""
    started = JournalStarted("chat", "m", title="x" * 110 + f" {_SECRET}" + " more" * 100)
    cleaned = masked(started, cleaning)
    assert isinstance(cleaned, JournalStarted)
    assert cleaned.title == f"{'x' * 110} [redacted"


def test_a_result_in_a_history_has_nothing_to_mask(cleaning: Cleaning) -> None:
    event = ConversationImported((), (), items=(NormalResult("dg_1"),))
    assert masked(event, cleaning) == event


def test_masking_changes_no_digest_and_no_id(cleaning: Cleaning) -> None:
    events = agent_events(_SECRET)
    before, after = ConversationFold("c"), ConversationFold("c")
    for event in events:
        before.apply(event)
        after.apply(masked(event, cleaning))
    whole, cleaned = before.state.record, after.state.record
    assert (cleaned.keys, cleaned.replies, cleaned.pending) == (whole.keys, whole.replies, whole.pending)
    assert cleaned.cut is None, "what is left of it has another digest"


def test_secrets_in_messages_are_masked_and_the_rest_stays(cleaning: Cleaning) -> None:
    picture = DataPart.image(b"\x89PNG", "image/png")
    messages = (
        user(f"my key is {_SECRET}", picture, DataPart.text(f"and {_SECRET}")),
        assistant(
            ThinkingPart(_SECRET),
            ThinkingPart((_SECRET, "more")),
            ToolCallPart("c", "look", {"password": "12345678", "at": [_SECRET]}, unparsed=_SECRET),
            UsagePart(1, 2),
            ActivityPart("s", _SECRET, "execute", "completed"),
        ),
        user(ToolResultPart("c", (TextPart(_SECRET), picture, DataPart.text(_SECRET)), input={"q": _SECRET})),
    )
    cleaned = masked(MessagesAdded(messages), cleaning)
    assert isinstance(cleaned, MessagesAdded)
    written = encode_events([(1.0, cleaned)]).decode()
    assert _SECRET not in written
    assert "12345678" not in written
    first, second, third = cleaned.messages
    assert first.content[:2] == (TextPart(f"my key is {REDACTED}"), picture)
    assert first.content[2] == DataPart.text(f"and {REDACTED}")
    assert second.content[3] == UsagePart(1, 2)
    assert third.results[0].content[1] == picture


# Folding.


def test_a_request_that_keeps_more_than_there_is_cannot_be_read() -> None:
    with pytest.raises(UnreadableJournal, match="keeps 3 items of 0"):
        ConversationFold("c").apply(RequestReceived(1, 1, "prompt", "none", "", "", keeps=3))


def test_a_reply_that_does_not_fit_its_history_cannot_be_read() -> None:
    fold = ConversationFold("c")
    fold.apply(RequestReceived(1, 1, "prompt", "none", "", ""))
    with pytest.raises(UnreadableJournal, match="do not fit"):
        fold.apply(RequestReceived(2, 2, "prompt", "none", "", "", moved=((1, 4, 5),)))


def test_text_of_a_reply_that_is_not_open_changes_nothing() -> None:
    fold = ConversationFold("c").apply_all([TextSaid(1, 0, 3, "too"), TextSaid(9, 0, 4, "late")])
    assert fold.state == ConversationFold("c").state


def test_h20_a_stored_conversation_belongs_to_the_client_behind_its_connection() -> None:
    started = JournalStarted("agent", "m", ("/folder",), "http:", client="behind")
    [(_, stored)] = decode_events(encode_events([(0.0, started)]))
    fold = ConversationFold("c").apply_all([stored])
    assert fold.record.scope == Scope("m", ("/folder",), "http:", "behind")
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(fold.state), type=ConversationState)
    assert kept.record.scope == fold.record.scope


def test_keys_are_the_same_in_every_process() -> None:
    """They are stored, and compared by other processes: a change needs a new format."""
    assert item_key(NormalPrompt("hello")).hex() == "707c7f705dd64bc5b200e92b119d081c"
    assert normalise([user("hello"), assistant("Hello!")]).links == (2020037129952362786, 2237070003992957619)


def test_a_reply_may_end_after_the_next_request() -> None:
    """The next request says what is left of it."""
    fold = ConversationFold("c")
    key = item_key(NormalPrompt("one"))
    fold.apply(RequestReceived(1, 1, "fresh", "none", "", "", 0, (key,)))
    fold.apply(RequestReceived(2, 2, "refusal", "marker", "", "", 1, (key,), moved=((1, 1, 1),)))
    fold.apply(ReplyEnded(1, "cut", item_key(NormalAnswer("late")), pending=("dg_1",), issued=4))
    record = fold.record
    assert [(reply.number, reply.status) for reply in record.replies] == [(1, "cut"), (2, "streaming")]
    assert (record.keys, record.pending, fold.calls) == ((key, key), frozenset(["dg_1"]), 4)


@pytest.mark.parametrize("status", ["cut", "complete"])
def test_an_imported_conversation_has_the_reply_that_was_cut(status: ReplyStatus) -> None:
    items: tuple[NormalItem, ...] = (NormalPrompt("one"), NormalAnswer("half of"))
    event = ConversationImported(tuple(map(item_key, items)), (ReplyRecord(1, 1, 1, 2, status),), items=items)
    fold = ConversationFold("c").apply_all([event])
    assert fold.record.cut == (items[1] if status == "cut" else None)
    with pytest.raises(UnreadableJournal, match="do not fit"):
        fold.apply(ConversationImported((), (ReplyRecord(1, 1, 1, 2, "complete"),)))


def test_the_keys_that_are_remembered_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_keys", history._Keys())
    monkeypatch.setattr(history, "_MOST_REMEMBERED", 1_000)
    monkeypatch.setattr(history, "_MOST_IN_ONE", 500)
    items = [NormalPrompt("x" * 300 + str(number)) for number in range(10)]
    keys = [item_key(item) for item in items]
    assert len(history._keys.known) < 4
    assert [item_key(item) for item in items] == keys
    assert NormalPrompt("y" * 600) not in history._keys.known
    assert item_key(NormalPrompt("y" * 600)) == item_key(NormalPrompt("y" * 600))
    assert NormalPrompt("y" * 600) not in history._keys.known
