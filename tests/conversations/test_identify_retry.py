"""The same request again: a retry, or a wish for another answer. And chats that are equal so far."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec import structs

from agent.bridge import SCOPE, Bridge, Chat, result
from dragoman.conversations.history import normalise
from dragoman.conversations.records import ReplyStatus
from dragoman.journal.agent_events import PermissionRequested, PlanMade, StepTaken, ThinkingSaid
from dragoman.journal.events import AnyEvent
from dragoman.lm import ActivityPart, JsonObject, Message, PlanPart, TextPart, assistant, system, user

ONE: JsonObject = {"_idempotencyKey": "one"}
TWO: JsonObject = {"_idempotencyKey": "two"}
RETRY: JsonObject = {"_isRetry": True}
STEP = StepTaken(1, ActivityPart("a", "Run", "execute", "completed"))
ASK = PermissionRequested("p", "agent", "execute", "tool", "digest")
THOUGHT = ThinkingSaid(1, 3, "hm.")


@pytest.fixture
def bridge() -> Bridge:
    return Bridge()


@dataclass
class Asked:
    """A chat whose last request was answered, and may come again."""

    chat: Chat
    conversation: str

    def again(self, options: JsonObject | None = None, *, after: float = 1.0) -> str:
        self.chat.bridge.now += after
        found = self.chat.bridge.identify(
            self.chat.history, consumer_id=self.chat.consumer_id, model_options=options
        )
        assert found.kind == "fresh" or found.conversation == self.conversation
        return found.kind


def asked(
    status: ReplyStatus | None = "complete",
    *,
    options: JsonObject | None = None,
    delivered: bool | None = None,
    markers: bool = False,
    text: str = "Second.",
    does: AnyEvent | None = None,
) -> Asked:
    """`does`: what the agent did beside its answer."""
    bridge = Bridge()
    chat = Chat(bridge, keeps_markers=markers)
    chat.ask("one", "First.")
    chat.history.append(user("two"))
    record = bridge.take(bridge.identify(chat.history, model_options=options))
    if does is not None:
        bridge.records.put(bridge.timeline(record.id).do(does))
    bridge.say(record, text, status=status)
    if delivered is not None:
        bridge.deliver(record.id, whole=delivered)
    return Asked(chat, record.id)


@pytest.mark.parametrize("markers", [True, False])
@pytest.mark.parametrize("status", ["complete", "failed", "cut"])
def test_h15_after_a_reply_that_arrived_whole_another_answer_is_wanted_at_once(
    status: ReplyStatus,
    markers: bool,  # noqa: FBT001
) -> None:
    assert asked(status, delivered=True, markers=markers).again() == "fork"


def test_h14_a_reply_that_did_not_arrive_whole_is_repeated_however_late() -> None:
    assert asked(delivered=False).again(after=3_600) == "retry"


def test_h14_a_reply_that_failed_is_repeated_only_for_a_while() -> None:
    failed = asked("failed", delivered=False)
    assert failed.again() == "retry"
    assert failed.again(after=60) == "fork"


@pytest.mark.parametrize("delivered", [None, False, True])
@pytest.mark.parametrize("does", [None, STEP], ids=["only talks", "acts"])
@pytest.mark.parametrize("text", ["", "Sec"])
def test_h15_after_a_reply_that_was_cut_another_answer_is_wanted_at_once(
    text: str, does: AnyEvent | None, *, delivered: bool | None
) -> None:
    """Stop, and then Regenerate. A lost connection looks like it, and a piece is no answer."""
    assert asked("cut", delivered=delivered, text=text, does=does).again() == "fork"


@pytest.mark.parametrize("text", ["", "Sec"])
@pytest.mark.parametrize("options", [ONE, RETRY, {**ONE, **RETRY}])
def test_h14_a_library_that_repeats_a_request_gets_the_cut_reply_where_the_agent_would_act_twice(
    options: JsonObject, text: str
) -> None:
    for does, kind in ((STEP, "retry"), (ASK, "retry"), (THOUGHT, "fork"), (None, "fork")):
        cut = asked("cut", delivered=False, text=text, options=options, does=does)
        assert cut.again(options, after=300) == kind, does
        # The user's own wish comes without the library's word.
        assert cut.again(TWO) == "fork"
        assert cut.again() == "fork"


def test_h14_what_the_agent_did_in_the_rounds_of_its_turn_counts_and_earlier_turns_do_not(
    bridge: Bridge,
) -> None:
    chat = Chat(bridge)
    first = chat.ask("look", "I look.", calls=1)
    bridge.records.put(bridge.timeline(first.conversation).do(ASK))
    chat.history.append(user(result(first.call_ids[0])))
    bridge.respond(chat.history, "I s", status="cut")
    assert bridge.identify(chat.history, model_options=RETRY).kind == "retry"
    chat.hear([TextPart("I s")])
    chat.history.append(user("and now?"))
    bridge.respond(chat.history, "No", status="cut")
    assert bridge.identify(chat.history, model_options=RETRY).kind == "fork"


def test_h14_a_reply_that_failed_without_content_is_tried_again() -> None:
    failed = asked("failed", delivered=False, text="", options=ONE, does=STEP)
    assert failed.again({**ONE, **RETRY}) == "fork"


def test_h14_the_same_idempotency_key_is_a_retry_whatever_else_is_known() -> None:
    for delivered in (True, False, None):
        found = asked(options=ONE, delivered=delivered)
        assert found.again(ONE, after=3_600) == "retry"
        assert found.again({**ONE, **RETRY}) == "retry"


def test_h15_another_idempotency_key_is_another_request_also_while_the_reply_streams() -> None:
    assert asked(None, options=ONE).again(TWO) == "fork"
    assert asked(delivered=False, options=ONE).again({**TWO, **RETRY}) == "fork"


@pytest.mark.parametrize(("first", "second"), [(ONE, None), (None, ONE)])
def test_h15_one_key_alone_proves_nothing(first: JsonObject | None, second: JsonObject | None) -> None:
    assert asked(options=first).again(second) == "retry"
    assert asked(options=first).again(second, after=60) == "fork"
    assert asked(options=first, delivered=True).again(second) == "fork"


def test_h14_a_client_that_says_that_it_repeats_the_request_is_believed() -> None:
    found = asked("failed", delivered=False)
    assert found.again(RETRY, after=60) == "retry"
    # Its word about itself is no difference between the two requests, but another tool is.
    assert found.chat.bridge.identify(found.chat.history, tools=False, model_options=RETRY).kind == "fork"


def test_h14_a_first_request_is_a_retry_with_proof(bridge: Bridge) -> None:
    first = bridge.respond([user("begin")], "Begun.", model_options=ONE)
    for options, kind in ((ONE, "retry"), (TWO, "fresh"), (RETRY, "retry"), (None, "fresh")):
        found = bridge.identify([user("begin")], model_options=options)
        assert (found.kind, found.conversation) == (kind, first.conversation if kind == "retry" else None)
    # It may be the retry of another chat, whose first attempt was refused.
    bridge.deliver(first.conversation, whole=True)
    assert bridge.identify([user("begin")], model_options=RETRY).kind == "fresh"
    assert bridge.identify([user("begin")], model_options=ONE).kind == "retry"


def test_h14_among_chats_that_begin_alike_a_retry_finds_its_own(bridge: Bridge) -> None:
    replies = [
        bridge.respond([user("begin")], "Begun.", status=None, model_options={"_idempotencyKey": key})
        for key in ("one", "two", "three")
    ]
    found = bridge.identify([user("begin")], model_options=TWO)
    assert (found.kind, found.conversation) == ("retry", replies[1].conversation)
    assert bridge.identify([user("begin")], model_options={"_idempotencyKey": "four"}).kind == "fresh"


def test_h14_among_equal_chats_the_one_whose_reply_was_lost_gets_it_again(bridge: Bridge) -> None:
    chats = [twin(bridge) for _ in range(3)]
    history = [*chats[0].history, user("go on")]
    replies = [bridge.respond(history, "Gone on.") for _ in range(2)]
    bridge.deliver(replies[0].conversation, whole=False)
    bridge.deliver(replies[1].conversation, whole=True)
    found = bridge.identify(history)
    assert (found.kind, found.conversation) == ("retry", replies[0].conversation)


def test_what_was_delivered_is_forgotten_with_the_next_request(bridge: Bridge) -> None:
    chat = Chat(bridge)
    first = chat.ask("one", "First.")
    bridge.deliver(first.conversation, whole=True)
    chat.ask("two", "Second.")
    assert [reply.is_delivered for reply in bridge.record(first.conversation).replies] == [None, None]


# Chats that are equal so far.


def twin(bridge: Bridge, *, context: str = "", status: ReplyStatus = "complete") -> Chat:
    chat = Chat(bridge, keeps_markers=False)
    chat.history += [system(context)] if context else []
    bridge.now += 1
    chat.ask("hello", "Hi!", status=status)
    return chat


def _went_to(bridge: Bridge, chat: Chat, words: str) -> str | None:
    reply = bridge.respond([*chat.history, user(words)], f"{words}!")
    return reply.conversation if reply.found.kind == "prompt" else None


def test_h12_equal_chats_go_on_with_an_agent_each_the_last_used_first(bridge: Bridge) -> None:
    chats = [twin(bridge) for _ in range(3)]
    before = [record.id for record in bridge.records]
    went = [_went_to(bridge, chat, "and?") for chat in chats]
    assert went == [*reversed(before)]
    # They differ by nothing but who goes on, and then there is none left.
    assert _went_to(bridge, chats[0], "and then?") is None


def test_h12_a_chat_that_went_on_alone_is_still_its_own(bridge: Bridge) -> None:
    first, second = twin(bridge), twin(bridge)
    taken = _went_to(bridge, first, "left")
    other = _went_to(bridge, second, "right")
    assert None not in (taken, other)
    assert taken != other
    again = bridge.identify([*first.history, user("left"), assistant("left!"), user("on")])
    assert (again.kind, again.conversation) == ("prompt", taken)


@pytest.mark.parametrize(
    "event",
    [THOUGHT, STEP, PlanMade(1, PlanPart(())), ASK],
    ids=lambda event: type(event).__name__,
)
def test_h12_an_agent_that_did_more_than_answer_is_not_replaced_by_another(
    bridge: Bridge, event: AnyEvent
) -> None:
    chat, _ = twin(bridge), twin(bridge)
    one, _ = bridge.records
    bridge.records.put(bridge.timeline(one.id).do(event))
    assert _went_to(bridge, chat, "and?") is None


def test_h12_a_chat_with_other_instructions_is_another_one(bridge: Bridge) -> None:
    pirate, plain = twin(bridge, context="Talk like a pirate."), twin(bridge)
    pirates, plains = (record.id for record in bridge.records)
    assert _went_to(bridge, plain, "and?") == plains
    assert _went_to(bridge, pirate, "and?") == pirates
    other = Chat(bridge, keeps_markers=False)
    other.history += [system("Talk like a sailor."), *plain.history]
    twin(bridge), twin(bridge)
    assert _went_to(bridge, other, "and?") is None


def test_h12_an_equal_chat_that_was_parked_stands_in_no_ones_way(bridge: Bridge) -> None:
    chat = twin(bridge, context="Be brief.")
    parked, rested = (twin(bridge) for _ in range(2))
    mine, *others = bridge.records
    for record in others:
        bridge.records.put(record.at_rest())
    assert _went_to(bridge, chat, "and?") == mine.id
    # When these were used is no longer known, so either may be the first.
    went = {_went_to(bridge, each, "and?") for each in (parked, rested)}
    assert went == {record.id for record in others}


@pytest.mark.parametrize("status", ["cut", "failed"])
def test_h12_nor_one_whose_answer_is_not_complete(bridge: Bridge, status: ReplyStatus) -> None:
    chat = twin(bridge)
    twin(bridge, status=status)
    assert _went_to(bridge, chat, "and?") is None


def test_h12_nor_is_one_chosen_while_another_is_not_in_memory(bridge: Bridge) -> None:
    chats = [twin(bridge) for _ in range(3)]
    history = [*chats[0].history, user("and?")]
    bridge.records.put_away(next(record.id for record in bridge.records))
    tied, are_all = bridge.records.tied(SCOPE, None, normalise(history), 2)
    assert (len(tied), are_all) == (2, False)


def test_h12_two_requests_at_the_same_moment_are_two_conversations(bridge: Bridge) -> None:
    chats = [twin(bridge) for _ in range(3)]
    went = [bridge.respond([*chat.history, user("go on")], "Go", status=None).conversation for chat in chats]
    assert len(set(went)) == 3
    # A fourth has no agent of its own left: two streams are no single one to join.
    assert bridge.identify([*chats[0].history, user("go on")]).kind == "fresh"


def test_h14_the_same_request_while_it_streams_joins_where_no_equal_chat_is(bridge: Bridge) -> None:
    chat = twin(bridge)
    streaming = bridge.respond([*chat.history, user("go on")], "Go", status=None)
    found = bridge.identify([*chat.history, user("go on")])
    assert (found.kind, found.conversation) == ("retry", streaming.conversation)


def test_h14_a_proved_retry_joins_its_stream_though_an_equal_chat_is_free(bridge: Bridge) -> None:
    chat, _ = twin(bridge), twin(bridge)
    streaming = bridge.respond([*chat.history, user("go on")], "Go", status=None)
    found = bridge.identify([*chat.history, user("go on")], model_options=RETRY)
    assert (found.kind, found.conversation) == ("retry", streaming.conversation)


def test_h12_equal_chats_of_one_consumers_id_go_on_too(bridge: Bridge) -> None:
    for _ in range(2):
        bridge.respond([user("hello")], "Hi!", consumer_id="mine", model_options=TWO)
        bridge.now += 60
    found = bridge.identify([user("hello"), assistant("Hi!"), user("and?")], consumer_id="mine")
    assert (found.kind, found.evidence) == ("prompt", "consumer_id")


def test_a_record_without_a_reply_is_no_candidate(bridge: Bridge) -> None:
    for _ in range(2):
        record = bridge.record(bridge.respond([user("hello")], "Hi!").conversation)
        bridge.records.put(structs.replace(record, id=bridge.new_id(), replies=()))
        bridge.records.remove(record.id)
    assert bridge.identify([user("hello")], model_options=RETRY).kind == "fresh"


def test_h14_a_lost_first_reply_is_not_given_to_another_chat_that_begins_with_the_same_words(
    bridge: Bridge,
) -> None:
    for _ in range(2):
        lost = bridge.respond([user("begin")], "Begun.")
        assert lost.found.kind == "fresh"
        bridge.deliver(lost.conversation, whole=False)
    assert bridge.identify([user("begin")]).kind == "fresh"


# The same request again, after it has made a fork.


@dataclass
class Forked:
    """A chat with two answers, and a fork of it: another answer to its last message, or to an edited one."""

    bridge: Bridge
    original: str
    conversation: str
    history: list[Message]
    consumer_id: str | None

    def again(self, options: JsonObject | None = None, *, after: float = 1.0) -> tuple[str, bool]:
        """The kind of the same request again, and whether it went to the fork."""
        self.bridge.now += after
        found = self.bridge.identify(self.history, consumer_id=self.consumer_id, model_options=options)
        return found.kind, found.conversation == self.conversation


# How a client names the conversation, and whether its user has edited the last message or wants another answer to it.
NAMED = pytest.mark.parametrize("named", ["marker", "id", "history"])
WORDS = pytest.mark.parametrize("words", ["two", "edited"])


def forked(
    named: str,
    words: str,
    status: ReplyStatus | None = "complete",
    *,
    options: JsonObject | None = None,
    delivered: bool | None = None,
    does: AnyEvent | None = None,
) -> Forked:
    bridge = Bridge()
    chat = Chat(bridge, keeps_markers=named == "marker", consumer_id="mine" if named == "id" else None)
    chat.ask("one", "First.")
    history = [*chat.history, user(words)]
    original = chat.ask("two", "Second.").conversation
    bridge.deliver(original, whole=True)
    bridge.now += 60
    # The first attempt is no retry.
    key = {name: value for name, value in (options or {}).items() if name not in RETRY}
    found = bridge.identify(history, consumer_id=chat.consumer_id, model_options=key)
    assert (found.kind, found.conversation) == ("fork", original)
    record = bridge.take(found, consumer_id=chat.consumer_id)
    if does is not None:
        bridge.records.put(bridge.timeline(record.id).do(does))
    bridge.say(record, "Another.", status=status)
    if delivered is not None:
        bridge.deliver(record.id, whole=delivered)
    return Forked(bridge, original, record.id, history, chat.consumer_id)


@NAMED
@WORDS
@pytest.mark.parametrize("options", [ONE, RETRY, {**ONE, **RETRY}])
def test_h14_a_proved_retry_of_a_fork_gets_the_reply_of_the_fork(
    named: str, words: str, options: JsonObject
) -> None:
    for delivered in (True, False, None):
        fork = forked(named, words, options=options, delivered=delivered)
        assert fork.again(options, after=300) == ("retry", True)
        assert fork.again(TWO)[0] == ("retry" if delivered is False and options == RETRY else "fork")


@NAMED
@WORDS
@pytest.mark.parametrize("options", [ONE, RETRY])
def test_h14_after_a_fork_that_was_cut_no_agent_acts_twice(
    named: str, words: str, options: JsonObject
) -> None:
    for does, kind in ((STEP, "retry"), (THOUGHT, "fork")):
        fork = forked(named, words, "cut", options=options, delivered=False, does=does)
        assert fork.again(options, after=300)[0] == kind
        assert fork.again(options)[1] or kind == "fork"
        assert fork.again()[0] == "fork"


@NAMED
@WORDS
def test_h14_without_a_word_the_reply_of_the_fork_says_what_the_same_request_means(
    named: str, words: str
) -> None:
    assert forked(named, words, None).again() == ("retry", True)
    assert forked(named, words, delivered=False).again(after=300) == ("retry", True)
    assert forked(named, words).again() == ("retry", True)
    assert forked(named, words).again(after=300)[0] == "fork"
    assert forked(named, words, delivered=True).again()[0] == "fork"


@NAMED
def test_h15_of_several_forks_the_one_with_the_key_is_repeated_else_the_last(named: str) -> None:
    fork = forked(named, "two", options=ONE, delivered=True)
    fork.bridge.now += 60
    last = fork.bridge.respond(
        fork.history, "Once more.", consumer_id=fork.consumer_id, model_options=TWO
    ).conversation
    fork.bridge.deliver(last, whole=True)
    assert fork.again(ONE) == ("retry", True)
    for options in (TWO, RETRY):
        found = fork.bridge.identify(fork.history, consumer_id=fork.consumer_id, model_options=options)
        assert (found.kind, found.conversation) == ("retry", last)
    fork.bridge.deliver(fork.conversation, whole=False)
    # Its client may still wait for the other.
    assert fork.again(RETRY) == ("retry", True)


@NAMED
def test_h15_an_answer_that_was_cut_is_not_given_for_the_one_that_came_after_it(named: str) -> None:
    fork = forked(named, "two", "cut", delivered=False, does=STEP)
    fork.bridge.now += 60
    last = fork.bridge.respond(fork.history, "Whole.", consumer_id=fork.consumer_id).conversation
    fork.bridge.deliver(last, whole=True)
    found = fork.bridge.identify(fork.history, consumer_id=fork.consumer_id, model_options=RETRY)
    assert (found.kind, found.conversation) == ("retry", last)


def test_h12_an_equal_chat_does_not_join_the_stream_of_a_fork(bridge: Bridge) -> None:
    first = twin(bridge)
    _went_to(bridge, first, "left")
    edited = bridge.respond([*first.history, user("right")], "Right", status=None)
    assert edited.found.kind == "fork"
    second = bridge.record(bridge.respond(first.history[:1], "Hi!").conversation)
    found = bridge.identify([*first.history, user("right")])
    assert (found.kind, found.conversation) == ("prompt", second.id)


def test_b7_more_equal_requests_than_are_compared_are_no_retries(bridge: Bridge) -> None:
    for number in range(65):
        assert bridge.identify([user("begin")], model_options=RETRY).kind == ("retry" if number else "fresh")
        bridge.respond([user("begin")], "Begun.", model_options={"_idempotencyKey": f"{number}"})
    assert bridge.identify([user("begin")], model_options=RETRY).kind == "fresh"
