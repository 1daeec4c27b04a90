"""Group H, as far as `identify` decides it: always in the presence of a thousand other conversations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from agent.bridge import MODEL, SCOPE, Bridge, Chat, crowded, result, text_of
from dragoman.conversations.ids import CallName, IdSigner, MarkerName
from dragoman.conversations.records import ConversationRecord, Records
from dragoman.lm import (
    AnswerForm,
    DataPart,
    LanguageModelError,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    system,
    user,
)
from dragoman.lm.json import decode, encode
from dragoman.lm.messages import messages_from
from dragoman.lm.parts import CACHE_CONTROL, STATEFUL_MARKER, USAGE

CACHE = DataPart(CACHE_CONTROL, b"{}")


@pytest.fixture
def bridge() -> Bridge:
    return crowded()


@pytest.fixture(params=[True, False], ids=["with markers", "without"])
def chat(bridge: Bridge, request: pytest.FixtureRequest) -> Chat:
    """A chat whose consumer gives our markers back, or does not."""
    return Chat(bridge, keeps_markers=request.param)


def evidence_of(chat: Chat, otherwise: str = "prefix") -> str:
    return "marker" if chat.keeps_markers else otherwise


# The history goes on.


def test_h1_one_more_message_is_all_that_is_prompted(chat: Chat) -> None:
    first = chat.ask("what is new?", "Nothing much.")
    found = chat.then("and now?").identify()
    assert (found.kind, found.conversation, found.evidence) == (
        "prompt",
        first.conversation,
        evidence_of(chat),
    )
    assert (text_of(found.prompt), found.joins, found.results, found.meanwhile) == (["and now?"], 1, (), ())
    assert found.foreign == ()


def test_h1_instructions_that_come_with_every_request_are_not_prompted_again(chat: Chat) -> None:
    chat.history += [system("Be brief."), user("instructions"), user("environment")]
    first = chat.ask("what is new?", "Nothing much.")
    chat.ask("and now?", "Still nothing.")
    found = chat.then("really?").identify()
    assert (found.conversation, text_of(found.prompt), found.joins) == (first.conversation, ["really?"], 2)


def test_h1_several_new_messages_are_all_prompted_but_empty_ones(chat: Chat) -> None:
    chat.ask("what is new?", "Nothing much.")
    found = chat.then("a reminder", user(""), user(CACHE), "and now?", user(" ")).identify()
    assert text_of(found.prompt) == ["a reminder", "and now?"]


def test_h2_forty_parts_come_back_as_one(bridge: Bridge) -> None:
    pieces = [f"{number} " for number in range(40)]
    first = bridge.respond([user("count")], "".join(pieces))
    for echo in (assistant(*pieces), assistant("".join(pieces))):
        assert bridge.identify([user("count"), echo, user("on")]).conversation == first.conversation


@pytest.mark.parametrize(
    "echo",
    [
        pytest.param(assistant("", "Here it is."), id="an empty part before"),
        pytest.param(assistant("Here", "", " it is.", ""), id="empty parts between and behind"),
        pytest.param(
            assistant(ThinkingPart("hm"), "Here it is.", DataPart(USAGE, b"{}")), id="internal parts"
        ),
    ],
)
def test_h3_empty_parts_come_and_go(bridge: Bridge, echo: Message) -> None:
    first = bridge.respond([user("", "where?")], "Here it is.")
    found = bridge.identify([user("where?", ""), user(""), echo, assistant(""), user("thanks")])
    assert (found.kind, found.conversation, text_of(found.prompt)) == (
        "prompt",
        first.conversation,
        ["thanks"],
    )


def test_h3_half_of_an_answer_in_a_message_of_its_own_is_not_another_models_turn(chat: Chat) -> None:
    first = chat.ask("look", "I look.", calls=1)
    answer = chat.history.pop()
    *before, call = answer.content
    chat.history += [assistant(*before), assistant(ThinkingPart("so")), assistant(call)]
    found = chat.then(user(result(first.call_ids[0])), "well?").identify()
    assert (found.kind, found.conversation, found.meanwhile) == ("results_and_prompt", first.conversation, ())
    assert text_of(found.prompt) == ["well?"]


def test_h4_a_trimmed_answer_with_its_text_before_its_calls(bridge: Bridge) -> None:
    for calls in (0, 2):
        first = bridge.respond([user(f"look {calls}")], "\nI look.\n\n", calls)
        echo = assistant("I look.", *(part for part in first.parts if isinstance(part, ToolCallPart)))
        given = [user(result(call_id)) for call_id in first.call_ids]
        found = bridge.identify([user(f"look {calls}"), echo, *given, user("so?")])
        assert found.conversation == first.conversation
        assert [part.call_id for part in found.results] == list(first.call_ids)


@pytest.mark.parametrize("arguments", [b"{}", b"null"])
def test_h5_a_call_without_arguments(bridge: Bridge, arguments: bytes) -> None:
    record = bridge.take(bridge.identify([user("go")]))
    call_id = bridge.tokens.call_id(CallName(record.id, 1))
    asked = assistant("I go.", ToolCallPart(call_id, "look", {}))
    bridge.remember(record, asked)
    echo = encode(asked).replace(b'"input":{}', b'"input":' + arguments)
    messages = [user("go"), *messages_from(decode(b"[" + echo + b"]")), user(result(call_id))]
    found = bridge.identify(messages)
    assert (found.kind, found.conversation) == ("results", record.id)
    # The same without the help of its id: what the two have in common goes up to the call.
    assert dict(found.places) == {1: 2}


def test_h6_internal_parts_come_and_go(chat: Chat) -> None:
    first = chat.ask("look", "I look.", calls=1)
    noise = [CACHE, DataPart(STATEFUL_MARKER, b"gpt\\other"), DataPart(USAGE, b"{}")]
    resent = [Message(message.role, (*noise, *message.content, CACHE)) for message in chat.history]
    noisy = ToolResultPart(first.call_ids[0], (*noise, TextPart("seen"), CACHE))
    found = chat.bridge.identify([*resent, user(CACHE), user(noisy, CACHE), user(CACHE)])
    assert (found.kind, found.conversation, found.prompt) == ("results", first.conversation, ())
    assert set(found.foreign) <= {"marker"}


def test_h7_a_new_system_message_changes_nothing(chat: Chat) -> None:
    chat.history.append(system("Today is Monday."))
    first = chat.ask("what day is it?", "Monday.")
    chat.history[0] = system("Today is Tuesday.")
    chat.history.insert(1, system("Be brief."))
    found = chat.then("and now?", system("The user looks away.")).identify()
    assert (found.kind, found.conversation, text_of(found.prompt)) == (
        "prompt",
        first.conversation,
        ["and now?"],
    )


def test_h8_rendered_anew_with_a_marker(bridge: Bridge) -> None:
    chat = Chat(bridge)
    first = chat.ask("where is it?", "There.")
    chat.ask("and the other?", "Here.")
    chat.history = [
        user(f"<context>now</context>{message.text}") if message.role == "user" else message
        for message in chat.history
    ]
    found = chat.then("thanks").identify()
    assert (found.kind, found.conversation, found.evidence, found.joins) == (
        "prompt",
        first.conversation,
        "marker",
        2,
    )
    assert text_of(found.prompt) == ["thanks"]
    assert dict(found.places) == {1: 2, 2: 4}


def test_h8_rendered_anew_with_call_ids_only(bridge: Bridge) -> None:
    chat = Chat(bridge, keeps_markers=False)
    first = chat.ask("where is it?", "I look.", calls=1)
    second = chat.give({first.call_ids[0]: "there"}, "There. And more:", calls=1)
    chat.history[0] = user("<context>now</context> where is it?")
    found = chat.then(user(result(second.call_ids[0]))).identify()
    assert (found.kind, found.conversation, found.evidence, found.joins) == (
        "results",
        first.conversation,
        "call_id",
        2,
    )
    assert dict(found.places) == {1: 2, 2: 4}
    # The history is longer than its last marker shows: its calls identify the rest.
    chat.history[1] = assistant(first.parts[0], *chat.history[1].content)
    assert chat.then(user(result(second.call_ids[0]))).identify().joins == 2


def test_h8_a_call_tells_more_than_a_marker_before_it(bridge: Bridge) -> None:
    chat = Chat(bridge)
    first = chat.ask("one", "First.")
    chat.keeps_markers = False
    second = chat.ask("two", "I look.", calls=1)
    assert second.conversation == first.conversation
    chat.history[2] = user("<context>now</context> two")
    found = chat.then(user(result(second.call_ids[0]))).identify()
    assert (found.kind, found.conversation, found.evidence, found.joins) == (
        "results",
        first.conversation,
        "call_id",
        2,
    )


# Other chats.


def test_h9_a_new_chat_beside_a_finished_turn_is_new(chat: Chat) -> None:
    chat.ask("hello there", "Hello!")
    before = chat.bridge.record(chat.bridge.respond([*chat.history, user("so?")], "So.").conversation)
    found = Chat(chat.bridge, chat.keeps_markers).then("hello there").identify()
    assert (found.kind, found.conversation, found.evidence, found.places) == ("fresh", None, "none", ())
    assert chat.bridge.record(before.id) is before


@pytest.mark.parametrize("consumer_id", [None, "its own"])
def test_h10_a_new_chat_beside_a_streaming_one_is_new(bridge: Bridge, consumer_id: str | None) -> None:
    streaming = Chat(bridge, consumer_id="another" if consumer_id else None)
    streaming.ask("tell me a story", "Once upon", status=None)
    found = Chat(bridge, consumer_id=consumer_id).then("tell me a story").identify()
    assert (found.kind, found.conversation) == ("fresh", None)
    # Nor does it lose its way later.
    other = Chat(bridge, keeps_markers=False, consumer_id=consumer_id)
    resent = other.ask("tell me a story", "There was a king.")
    assert other.then("go on").identify().conversation == resent.conversation


_UNKNOWN = "dg_aaaaaaaaaaaaaaaa_1"


@pytest.mark.parametrize("calls", [0, 1])
@pytest.mark.parametrize("unknown", [_UNKNOWN, "call_of_another"])
def test_a_result_of_an_unknown_call_alone_is_refused_and_prompts_nothing(
    chat: Chat, calls: int, unknown: str
) -> None:
    chat.ask("look", "I look.", calls=calls)
    with pytest.raises(LanguageModelError, match=unknown) as caught:
        chat.then(user(result(unknown))).identify()
    assert caught.value.kind == "bad_request"
    with pytest.raises(LanguageModelError, match=unknown):
        chat.bridge.identify([user(result(unknown))])


def test_a_result_of_an_unknown_call_beside_words_is_left_out(chat: Chat) -> None:
    first = chat.ask("look", "I look.")
    found = chat.then(user(result(_UNKNOWN, "made up")), "go on").identify()
    assert (found.kind, found.conversation, found.foreign) == ("prompt", first.conversation, (_UNKNOWN,))
    assert [message.content for message in found.prompt] == [user("go on").content]


def test_a_result_of_an_unknown_call_beside_an_open_one_adds_no_turn(chat: Chat) -> None:
    first = chat.ask("look", "I look.", calls=1)
    known = result(first.call_ids[0])
    found = chat.then(user(known), user(result(_UNKNOWN, "made up"))).identify()
    assert (found.kind, found.prompt, found.foreign) == ("results", (), (_UNKNOWN,))
    assert [each.call_id for each in found.results] == list(first.call_ids)


def test_results_of_another_models_calls_are_told_with_their_calls(chat: Chat) -> None:
    first = chat.ask("look", "I look.")
    called = assistant(ToolCallPart("theirs", "count", {}))
    found = chat.then("count", called, user(result("theirs", "three"))).identify()
    assert (found.kind, found.conversation, found.foreign) == ("prompt", first.conversation, ())
    assert [part.text for message in found.prompt for part in message.results] == ["three"]
    fresh = chat.bridge.identify([user("count"), called, user(result("theirs", "three"))])
    assert (fresh.kind, fresh.foreign) == ("fresh", ())


@pytest.mark.parametrize("consumer", ["vscode", "http", "terminal"])
def test_h11_a_request_without_tools_is_a_conversation_like_any_other(bridge: Bridge, consumer: str) -> None:
    chat = Chat(bridge, consumer=consumer)
    chat.history.append(user("say hello"))
    first = bridge.respond(chat.history, "Hello!", tools=False, consumer=consumer)
    assert first.found.kind == "fresh"
    chat.hear(first.parts)
    found = chat.then("and again").identify(tools=False)
    assert (found.kind, found.conversation) == ("prompt", first.conversation)


def test_h11_without_tools_a_second_message_refuses_the_open_call(bridge: Bridge) -> None:
    chat = Chat(bridge, keeps_markers=False)
    chat.ask("tidy up", calls=1)
    request = [user("tidy up"), user("Write a commit message for the changes above.")]
    assert bridge.identify(request, tools=False).kind == "refusal"
    assert bridge.identify(request, tools=False, model_options={"_aside": True}).kind == "aside"


def test_h11_without_tools_results_reach_their_calls(chat: Chat) -> None:
    first = chat.ask("look", "I look.", calls=1)
    found = chat.then(user(result(first.call_ids[0]))).identify(tools=False)
    assert (found.kind, found.conversation) == ("results", first.conversation)


def test_h11_a_front_end_that_knows_says_so(chat: Chat) -> None:
    first = chat.ask("look", "I look.", calls=1)
    messages = [*chat.history, user(result(first.call_ids[0])), user("Three follow-up questions, please.")]
    for said, kind in ((True, "aside"), ("yes", "results_and_prompt"), (None, "results_and_prompt")):
        found = chat.bridge.identify(messages, model_options={"_aside": said})
        assert found.kind == kind
        assert found.conversation == (None if said is True else first.conversation)


def test_h12_the_longest_prefix_wins(bridge: Bridge) -> None:
    long = Chat(bridge, keeps_markers=False)
    resent = long.ask("twin", "Yes?")
    for number in range(4):
        long.ask(f"step {number}", f"Done {number}.")
    short = _twin(bridge)
    bridge.records.put(short)
    assert len(bridge.record(resent.conversation).keys) == 10
    found = long.then("on").identify()
    assert (found.kind, found.conversation, found.evidence) == ("prompt", resent.conversation, "prefix")
    # In what both have in common they are a tie, and the long one has gone on.
    found = bridge.identify([*long.history[:2], user("on")])
    assert (found.kind, found.conversation) == ("prompt", short.id)


def test_h12_a_tie_that_cannot_be_proved_to_be_one_is_nobodys(bridge: Bridge) -> None:
    for _ in range(2):
        bridge.records.put(structs.replace(_twin(bridge).at_rest(), is_plain=False))
    messages = [user("twin"), assistant("Yes?"), user("which?")]
    assert bridge.identify(messages).kind == "fresh"
    # With the consumer's own id it is none.
    mine = structs.replace(_twin(bridge), consumer_id="mine")
    bridge.records.put(mine)
    found = bridge.identify(messages, consumer_id="mine")
    assert (found.conversation, found.evidence) == (mine.id, "consumer_id")


def _twin(bridge: Bridge) -> ConversationRecord:
    """Of a chat that began with the same words and was given the same answer."""
    scratch = replace(bridge, records=Records())
    reply = scratch.respond([user("twin")], "Yes?")
    record = scratch.record(reply.conversation)
    return structs.replace(record, id=bridge.new_id())


def test_h12_a_conversation_with_another_id_of_the_consumers_is_another(bridge: Bridge) -> None:
    theirs = Chat(bridge, keeps_markers=False, consumer_id="theirs")
    theirs.ask("only once", "Said once.")
    found = bridge.identify([*theirs.history, user("more")], consumer_id="mine")
    assert (found.kind, found.conversation) == ("fresh", None)
    # Nor is one that gives an id found among those that give none, or the other way round.
    assert bridge.identify([*theirs.history, user("more")]).kind == "fresh"
    anonymous = Chat(bridge, keeps_markers=False)
    anonymous.ask("only once more", "Said once more.")
    assert bridge.identify([*anonymous.history, user("more")], consumer_id="mine").kind == "fresh"


def test_h13_a_refusal_stays_in_the_long_chat(chat: Chat) -> None:
    first = chat.ask("one", "First.")
    chat.ask("two", "Second.")
    chat.history.append(user("three"))
    pending = chat.bridge.respond(chat.history, calls=1)
    Chat(chat.bridge, chat.keeps_markers).ask("one", "First.")
    found = chat.then("no, four").identify()
    assert (found.kind, found.conversation) == ("refusal", first.conversation)
    assert pending.conversation == first.conversation
    assert (text_of(found.prompt), found.joins, found.results) == (["no, four"], 2, ())


def test_h13_several_rounds_of_a_refused_turn_vanish(chat: Chat) -> None:
    chat.ask("one", "First.")
    retained = list(chat.history)
    round_one = chat.ask("two", "I look.", calls=1)
    round_two = chat.give({round_one.call_ids[0]: "seen"}, "Again.", calls=1)
    pending = chat.give({round_two.call_ids[0]: "seen"}, "And touch.", calls=2)
    for resent in (
        [*retained, user("two")],
        chat.history[: len(retained) + 2],
        chat.history[: len(retained) + 3],
        chat.history[: len(retained) + 5],
    ):
        found = chat.bridge.identify([*resent, user("stop that")])
        assert (found.kind, found.conversation) == ("refusal", pending.conversation), resent
        assert text_of(found.prompt) == ["stop that"]
    # A turn that vanishes with the message that opened it looks like an edited message.
    found = chat.bridge.identify([*retained, user("stop that")])
    assert (found.kind, found.conversation, found.joins) == ("fork", pending.conversation, 1)


# The same request again.


def test_h14_again_while_it_streams_with_evidence(bridge: Bridge) -> None:
    chat = Chat(bridge)
    chat.ask("one", "First.")
    chat.history.append(user("two"))
    streaming = bridge.respond(chat.history, "Sec", status=None)
    bridge.now += 3_600
    found = chat.identify()
    assert (found.kind, found.conversation, found.prompt) == ("retry", streaming.conversation, ())


@pytest.mark.parametrize("status", ["cut", "failed", "complete"])
def test_h14_again_right_after_its_end_but_not_later(bridge: Bridge, status: str) -> None:
    chat = Chat(bridge)
    chat.ask("one", "First.")
    chat.history.append(user("two"))
    ended = bridge.respond(chat.history, "Second.", status=status)  # type: ignore[arg-type]
    bridge.now += 10
    assert (chat.identify().kind, chat.identify().conversation) == ("retry", ended.conversation)
    bridge.now += 0.1
    later = chat.identify()
    assert (later.kind, later.conversation, later.joins) == ("fork", ended.conversation, 1)


def test_h14_nothing_was_said_so_it_is_tried_anew(bridge: Bridge) -> None:
    chat = Chat(bridge)
    chat.ask("one", "First.")
    chat.history.append(user("two"))
    bridge.respond(chat.history, "", status="failed")
    assert chat.identify().kind == "fork"


def test_h14_nobody_knows_when_it_ended_so_it_is_not_repeated(bridge: Bridge) -> None:
    """As after a restart of ours."""
    chat = Chat(bridge)
    chat.ask("one", "First.")
    chat.history.append(user("two"))
    record = bridge.record(bridge.respond(chat.history, "Second.").conversation)
    last = record.replies[-1]
    bridge.records.put(
        structs.replace(record, replies=(*record.replies[:-1], structs.replace(last, ended_at=None)))
    )
    assert chat.identify().kind == "fork"


def test_h14_the_same_request_on_the_same_connection(bridge: Bridge) -> None:
    chat = Chat(bridge, keeps_markers=False)
    chat.ask("one", "First.")
    chat.history.append(user("two"))
    again = bridge.respond(chat.history, "Sec", status=None)
    assert chat.identify().kind == "retry"
    # Something else is said beside the user, or may be called.
    assert replace(chat, history=[system("Be brief."), *chat.history]).identify().kind == "fork"
    assert chat.identify(tools=False).kind == "fork"
    # The request before it came to rest is not stored.
    bridge.records.put(bridge.record(again.conversation).at_rest())
    assert chat.identify().kind == "fork"


def test_h14_with_a_name_of_ours_it_is_the_same_though_something_has_drifted(bridge: Bridge) -> None:
    chat = Chat(bridge)
    chat.ask("one", "First.")
    chat.history.append(user("two"))
    bridge.respond(chat.history, "Sec", status=None)
    assert replace(chat, history=[system("It is noon."), *chat.history]).identify().kind == "retry"


def test_h14_the_same_words_with_another_form_of_the_answer_want_another_answer(bridge: Bridge) -> None:
    chat = Chat(bridge)
    chat.ask("one", "First.")
    chat.history.append(user("two"))
    bridge.respond(chat.history, "Sec", status=None)
    found = bridge.identify(chat.history, form=AnswerForm())
    assert (found.kind, found.reason) == ("fork", "another answer is wanted")
    assert chat.identify().kind == "retry"


def test_h14_a_first_request_is_a_retry_only_with_the_consumers_id(bridge: Bridge) -> None:
    for consumer_id in (None, "chat"):
        chat = Chat(bridge, consumer_id=consumer_id)
        chat.history.append(user("begin anew"))
        streaming = bridge.respond(chat.history, "Be", status=None, consumer_id=consumer_id)
        again = chat.identify()
        assert again.kind == ("retry" if consumer_id else "fresh")
        assert again.conversation == (streaming.conversation if consumer_id else None)
    # In another chat that begins with the same words it is none.
    assert Chat(bridge, consumer_id="another").then("begin anew").identify().kind == "fresh"
    # After a first answer that failed, the same words are asked anew.
    bridge.now += 60
    assert Chat(bridge, consumer_id="chat").then("begin anew").identify().kind == "retry"


def test_h14_again_in_mid_round(chat: Chat) -> None:
    first = chat.ask("look", "I look.", calls=1)
    chat.history.append(user(result(first.call_ids[0])))
    streaming = chat.bridge.respond(chat.history, "I s", status=None)
    found = chat.identify()
    assert (found.kind, found.conversation, found.results) == ("retry", streaming.conversation, ())


# Going back.


def test_h15_regenerate_forks_before_the_answer(chat: Chat) -> None:
    first = chat.ask("one", "First.")
    chat.ask("two", "Second.")
    chat.bridge.now += 60
    chat.history.pop()
    found = chat.identify()
    assert (found.kind, found.conversation, found.joins) == ("fork", first.conversation, 1)
    assert found.reason == "another answer is wanted"


def test_h15_regenerate_a_turn_of_several_rounds(chat: Chat) -> None:
    first = chat.ask("one", "First.")
    retained = [*chat.history, user("two")]
    looked = chat.ask("two", "I look.", calls=1)
    chat.give({looked.call_ids[0]: "seen"}, "Seen.")
    chat.bridge.now += 60
    found = chat.bridge.identify(retained)
    assert (found.kind, found.conversation, found.joins) == ("fork", first.conversation, 1)


def test_h16_an_edited_message_forks_before_it(chat: Chat) -> None:
    first = chat.ask("one", "First.")
    for number in ("two", "three"):
        chat.ask(number, f"{number}.")
    edited = [*chat.history[:2], user("two, but different")]
    found = chat.bridge.identify(edited)
    assert (found.kind, found.conversation, found.joins) == ("fork", first.conversation, 1)
    # With the following messages still in the history, the common part is found.
    found = chat.bridge.identify([*edited, *chat.history[3:], user("four")])
    if chat.keeps_markers:
        assert (found.kind, found.joins) == ("prompt", 3)
    else:
        assert (found.kind, found.joins) == ("fork", 1)


@pytest.mark.parametrize("calls", [0, 1])
def test_h16_a_fork_is_found_again_by_its_own_answers(chat: Chat, calls: int) -> None:
    """Its history is full of names of the conversation it came from."""
    first = chat.ask("one", "First.", calls)
    if calls:
        chat.give(dict.fromkeys(first.call_ids, "seen"), "I see.")
    chat.ask("two", "Second.")
    del chat.history[-2:]
    fork = chat.ask("two, but different", "Otherwise.")
    assert (fork.found.kind, fork.found.conversation) == ("fork", first.conversation)
    for number in range(3):
        again = chat.ask(f"and {number}", f"Done {number}.")
        assert (again.found.kind, again.conversation) == ("prompt", fork.conversation)


def test_h16_the_first_message_edited_is_a_new_conversation(bridge: Bridge) -> None:
    chat = Chat(bridge, keeps_markers=False)
    chat.ask("one", "First.")
    assert bridge.identify([user("one, but different")]).kind == "fresh"


def test_h16_another_models_answer_in_place_of_ours(chat: Chat) -> None:
    first = chat.ask("one", "First.")
    chat.ask("two", "Second.")
    chat.history[-1] = assistant("Somebody else's second.")
    found = chat.then("three").identify()
    assert (found.kind, found.conversation, found.joins) == ("fork", first.conversation, 1)


def test_h17_summarised_and_known_by_marker_or_call(chat: Chat) -> None:
    chat.ask("one", "First.")
    last = chat.ask("two", "I look.", calls=1)
    summary = [user("<conversation-summary>\nMuch was said.\n</conversation-summary>"), chat.history[-1]]
    found = chat.bridge.identify([*summary, user(result(last.call_ids[0]))])
    assert (found.kind, found.conversation, found.joins) == ("results", last.conversation, 2)
    assert dict(found.places) == {2: 2}


def test_h17_summarised_and_known_by_the_consumers_id(bridge: Bridge) -> None:
    chat = Chat(bridge, consumer_id="mine")
    first = chat.ask("one", "First.")
    summary = [user("environment"), user("<conversation-summary>Much.</conversation-summary>"), user("two")]
    found = bridge.identify(summary, consumer_id="mine")
    assert (found.kind, found.conversation, found.evidence, found.joins) == (
        "fork",
        first.conversation,
        "consumer_id",
        None,
    )
    assert bridge.identify(summary).kind == "fresh"
    assert bridge.identify([user("environment"), user("two")], consumer_id="mine").kind == "fresh"
    # A summary is ambiguous when a sub-agent shares the id.
    Chat(bridge, consumer_id="mine").ask("a task", "Done.")
    assert bridge.identify(summary, consumer_id="mine").kind == "fresh"


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        pytest.param([user("one"), assistant("First.")], "ends with an assistant", id="an answer"),
        pytest.param(
            [user("one"), assistant("First."), user("", CACHE)], "ends with an assistant", id="nothing"
        ),
        pytest.param([system("Be brief."), user(" ")], "says nothing", id="no words at all"),
    ],
)
def test_h18_nothing_to_answer_is_a_bad_request(bridge: Bridge, messages: list[Message], says: str) -> None:
    bridge.respond([user("one")], "First.")
    with pytest.raises(LanguageModelError, match=says) as caught:
        bridge.identify(messages)
    assert caught.value.kind == "bad_request"
    assert caught.value.hint


# Several models, places and kinds of content.


def test_h19_another_models_turns_are_told_when_we_are_back(chat: Chat) -> None:
    first = chat.ask("one", "First.")
    other = [user("two"), assistant("B's second."), user("three"), assistant("B's third.", _foreign_call())]
    found = chat.then(*other, user(result("call_9")), assistant("B's end."), "four").identify()
    assert (found.kind, found.conversation, found.joins) == ("prompt", first.conversation, 1)
    assert text_of(found.prompt) == ["four"]
    assert text_of(found.meanwhile) == ["two", "B's second.", "three", "B's third.", "", "B's end."]
    assert (found.evidence, found.foreign) == (evidence_of(chat), ())
    # The results of B's tools are part of it.
    assert [part.call_id for message in found.meanwhile for part in message.results] == ["call_9"]


def test_h19_another_models_turns_and_everything_rendered_anew(bridge: Bridge) -> None:
    chat = Chat(bridge)
    first = chat.ask("one", "First.")
    chat.history[0] = user("<context>now</context> one")
    found = chat.then("two", assistant("B's second."), "three").identify()
    assert (found.kind, found.conversation, found.evidence) == ("prompt", first.conversation, "marker")
    assert (text_of(found.meanwhile), text_of(found.prompt)) == (["two", "B's second."], ["three"])
    # Internal data is no turn.
    between = [user("two"), user(CACHE), assistant("B's second."), user("three")]
    found = replace(chat, history=[*chat.history[:2], *between]).identify()
    assert (text_of(found.meanwhile), text_of(found.prompt)) == (["two", "B's second."], ["three"])


def test_h19_back_and_forth_again(chat: Chat) -> None:
    first = chat.ask("one", "First.")
    chat.history += [user("two"), assistant("B's second.")]
    chat.ask("three", "Third.")
    chat.history += [user("four"), assistant("B's fourth.")]
    found = chat.then("five").identify()
    assert (found.kind, found.conversation, found.joins) == ("prompt", first.conversation, 2)
    assert (text_of(found.meanwhile), text_of(found.prompt)) == (["four", "B's fourth."], ["five"])
    # An edit behind B's answer forks, and is no other conversation.
    found = chat.bridge.identify([*chat.history[:4], user("three, but different")])
    assert (found.kind, found.conversation, found.joins) == ("fork", first.conversation, 1)


def test_h19_in_the_middle_of_another_models_turn(chat: Chat) -> None:
    """The person changes models while a tool of the other one's runs: its result is for us to go on with."""
    first = chat.ask("one", "First.")
    found = chat.then(
        "two", assistant("B looks.", _foreign_call()), user(result("call_9", "seen"))
    ).identify()
    assert (found.kind, found.conversation) == ("prompt", first.conversation)
    assert text_of(found.meanwhile) == ["two", "B looks."]
    assert [given.text for message in found.prompt for given in message.results] == ["seen"]


def test_h19_our_open_call_was_left_to_another_model(chat: Chat) -> None:
    first = chat.ask("one", "I look.", calls=1)
    found = chat.then(user(result(first.call_ids[0], "seen")), assistant("B: seen."), "two").identify()
    assert (found.kind, found.conversation) == ("refusal", first.conversation)
    assert [given.text for given in found.results] == ["seen"]
    assert (text_of(found.meanwhile)[-1], text_of(found.prompt)) == ("B: seen.", ["two"])


def test_h19_a_model_sees_no_conversation_of_another(chat: Chat) -> None:
    chat.ask("one", "First.")
    found = chat.bridge.identify(chat.then("two").history, scope=structs.replace(SCOPE, model="codex"))
    assert (found.kind, found.conversation) == ("fresh", None)


def _foreign_call() -> ToolCallPart:
    return ToolCallPart("call_9", "look", {})


@pytest.mark.parametrize(
    "scope",
    [structs.replace(SCOPE, workspace=("/elsewhere",)), structs.replace(SCOPE, connection="a server")],
    ids=["workspace", "connection"],
)
def test_h20_the_same_history_elsewhere_is_another_conversation(chat: Chat, scope: object) -> None:
    chat.ask("one", "I look.", calls=1)
    chat.scope = scope  # type: ignore[assignment]  # one of the two above
    found = chat.then(user(result(_calls(chat)[0]))).identify()
    assert (found.kind, found.conversation, found.results) == ("fresh", None, ())


def _calls(chat: Chat) -> list[str]:
    return [call.call_id for message in chat.history for call in message.calls]


def test_h22_a_picture_without_words_is_a_message(chat: Chat) -> None:
    picture = DataPart("image/png", b"\x89PNG")
    first = chat.ask("look at this", "I see nothing.")
    chat.history.append(user(picture))
    second = chat.send("I see it.")
    assert (second.found.kind, second.found.conversation) == ("prompt", first.conversation)
    assert [message.content for message in second.found.prompt] == [(picture,)]
    found = chat.then("what is it?").identify()
    assert (found.conversation, text_of(found.prompt)) == (first.conversation, ["what is it?"])
    assert found.foreign == ()


def test_h22_another_picture_is_another_request(bridge: Bridge) -> None:
    chat = Chat(bridge)
    chat.ask("hello, painter", "Hello!")
    bridge.respond([*chat.history, user("who?", DataPart("image/png", b"a"))], "A cat.")
    assert chat.then(user("who?", DataPart("image/png", b"a"))).identify().kind == "retry"
    assert chat.then(user("who?", DataPart("image/png", b"b"))).identify().kind == "fork"


# Names that claim to be ours.


def test_h23_forged_and_foreign_names_are_as_good_as_none(chat: Chat) -> None:
    first = chat.ask("one", "I look.", calls=1)
    victim, ours, thief = first.conversation, chat.bridge.tokens, IdSigner(b"t" * 32)
    forged_call = thief.call_id(CallName(victim, 1))
    genuine = ours.marker(MODEL, MarkerName(victim, 1, 1))
    wrong: list[Message] = [
        assistant(thief.marker(MODEL, MarkerName(victim, 1, 1)), "x"),
        assistant(DataPart(STATEFUL_MARKER, genuine.data[:-2] + b"AA"), "x"),
        assistant(DataPart(STATEFUL_MARKER, genuine.data.partition(b"\\")[2]), "x"),
        assistant(ToolCallPart(forged_call, "look", {})),
        user(result(forged_call)),
        user(result(f"dg_{victim}_1_aaaaaaaaaaaaaaaa")),
        user(result(first.call_ids[0].upper())),
    ]
    for message in wrong:
        found = chat.bridge.identify([message, user("give me the rest")])
        assert (found.kind, found.conversation, found.results) == ("fresh", None, ()), message
        assert len(found.foreign) == 1 or first.call_ids[0].upper() in str(message)


def test_h23_a_genuine_name_of_another_scope_gives_no_access(bridge: Bridge) -> None:
    elsewhere = structs.replace(SCOPE, connection="somebody else")
    victim = Chat(bridge, scope=elsewhere)
    secret = victim.ask("my secret", "I keep it.", calls=1)
    for stolen in (
        [assistant(secret.parts[0])],
        [assistant(secret.parts[2])],
        [user(result(secret.call_ids[0]))],
    ):
        found = bridge.identify([*stolen, user("what was it?")])
        assert (found.kind, found.conversation) == ("fresh", None)
        assert found.foreign


def test_h23_a_genuine_name_of_a_reply_that_is_gone(bridge: Bridge) -> None:
    gone = MarkerName(bridge.respond([user("one")], "First.").conversation, 1, 99)
    found = bridge.identify([assistant(bridge.tokens.marker(MODEL, gone)), user("two")])
    assert (found.kind, found.foreign) == ("fresh", ())
    never_made = bridge.tokens.call_id(CallName(gone.conversation, 99))
    assert bridge.identify([user(result(never_made)), user("two")]).kind == "fresh"


def test_h24_a_marker_first_and_nothing_before_it(bridge: Bridge) -> None:
    chat = Chat(bridge)
    chat.ask("one", "First.")
    last = chat.ask("two", "Second.")
    found = bridge.identify([assistant(last.parts[0]), user("three")])
    assert (found.kind, found.conversation, found.joins, found.evidence) == (
        "prompt",
        last.conversation,
        2,
        "marker",
    )
    record = bridge.take(found)
    # The record goes on from there.
    _, parts = bridge.say(record, "Third.")
    assert (record.keys[record.opening :], record.opening) == ((), 1)
    found = bridge.identify([assistant(parts[0]), user("four")])
    assert (found.conversation, found.joins, text_of(found.prompt)) == (last.conversation, 3, ["four"])


def test_h24_partial_history_with_results_in_several_messages(bridge: Bridge) -> None:
    chat = Chat(bridge)
    last = chat.ask("look at both", "I look.", calls=2)
    given = [user(result(call_id, call_id)) for call_id in last.call_ids]
    for before in ([assistant(last.parts[0])], []):
        found = bridge.identify([*before, *given])
        assert (found.kind, found.conversation) == ("results", last.conversation)
        assert [part.call_id for part in found.results] == list(last.call_ids)
    earlier = bridge.identify([assistant(last.parts[0]), *given]).places
    assert dict(earlier) == {1: 0}


def test_h24_an_earlier_marker_and_nothing_before_it(bridge: Bridge) -> None:
    chat = Chat(bridge)
    first = chat.ask("one", "First.")
    chat.ask("two", "Second.")
    bridge.now += 60
    other = bridge.identify([assistant(first.parts[0]), user("two, but different")])
    assert (other.kind, other.joins) == ("fork", 1)
    again = bridge.identify([assistant(first.parts[0]), user("two")])
    assert (again.kind, again.joins) == ("fork", 1)


# Refused, stopped, and shared.


@pytest.mark.parametrize("status", ["complete", "cut", "failed", None])
def test_h25_rejected_in_the_first_turn(bridge: Bridge, status: str | None) -> None:
    chat = Chat(bridge)
    chat.history += [system("x"), user("instructions"), user("tidy up")]
    pending = bridge.respond(chat.history, "I will", calls=int(status == "complete"), status=status)  # type: ignore[arg-type]
    found = chat.then("do not").identify()
    assert (found.kind, found.conversation, found.evidence) == ("refusal", pending.conversation, "first_turn")
    assert (text_of(found.prompt), found.joins) == (["do not"], None)


def test_h25_two_that_began_so_are_one_too_many(bridge: Bridge) -> None:
    for _ in range(2):
        bridge.respond([user("tidy up")], calls=1)
    found = bridge.identify([user("tidy up"), user("do not")])
    assert (found.kind, found.conversation) == ("fresh", None)


def test_h25_a_settled_first_turn_is_not_refused(bridge: Bridge) -> None:
    bridge.respond([user("tidy up")], "Tidied.")
    assert bridge.identify([user("tidy up"), user("do not")]).kind == "fresh"


def test_h25_an_open_turn_with_words_of_the_user_in_it_is_not_left_out_for_somebody_who_never_said_them(
    bridge: Bridge,
) -> None:
    chat = Chat(bridge)
    chat.ask("one", "First.")
    opened = chat.ask("two", calls=1)
    before = chat.history[:-1]
    # In a copy of the chat the turn was steered, and goes on.
    steered = chat.then(user(result(opened.call_ids[0])), "and also this")
    bridge.respond(steered.history, "On it", status="cut")
    found = bridge.identify([*before, user("something else")])
    assert (found.kind, found.joins) == ("fork", 1)


def test_h15_back_to_an_earlier_question_is_no_retry_of_the_last_one(bridge: Bridge) -> None:
    chat = Chat(bridge)
    chat.ask("one", "First.")
    chat.ask("two", "Second.")
    earlier = chat.history[:-1]
    chat.ask("three", "Third.")
    found = bridge.identify(earlier)
    assert (found.kind, found.joins) == ("fork", 1)


def test_h27_words_of_the_user_that_read_like_our_cut_answer_are_no_echo_of_it(bridge: Bridge) -> None:
    chat = Chat(bridge)
    chat.ask("one", "First.")
    asked = chat.then("two")
    bridge.respond(asked.history, "Second, and more", status="cut")
    found = asked.then("Second").identify()
    assert (found.kind, text_of(found.prompt)) == ("refusal", ["Second"])


def test_h25_begins_alike_and_goes_on_differently(bridge: Bridge) -> None:
    bridge.respond([user("tidy up")], "I will", status="cut")
    found = bridge.identify([user("tidy up"), assistant("Somebody else's answer."), user("do not")])
    assert (found.kind, found.conversation, found.evidence) == ("fresh", None, "none")
    # Not even with the consumer's id.
    bridge.respond([user("clean up")], "I will", status="cut", consumer_id="mine")
    messages = [user("clean up"), assistant("Somebody else's answer."), user("do not")]
    assert bridge.identify(messages, consumer_id="mine").kind == "fresh"


@pytest.mark.parametrize("keeps_markers", [True, False])
def test_h26_a_sub_agent_with_its_parents_id(bridge: Bridge, keeps_markers: bool) -> None:  # noqa: FBT001
    parent = Chat(bridge, keeps_markers, consumer_id="chat")
    parent.history += [user("instructions"), user("environment")]
    waiting = parent.ask("do it all", "I delegate.", calls=1)
    before = bridge.record(waiting.conversation)
    child = Chat(bridge, keeps_markers, consumer_id="chat")
    child.history += [user("instructions"), user("environment")]
    done = child.ask("do a part", "I look.", calls=1)
    assert (done.found.kind, done.found.conversation) == ("fresh", None)
    given = child.give({done.call_ids[0]: "seen"}, "Done.")
    assert (given.found.kind, given.conversation) == ("results", done.conversation)
    # A second one, without calls, is distinguished from both by its text.
    other = Chat(bridge, keeps_markers, consumer_id="chat")
    other.history += [user("instructions"), user("environment")]
    said = other.ask("do another part", "Done, too.")
    assert (said.found.kind, said.found.conversation) == ("fresh", None)
    for chat, conversation in ((child, done.conversation), (other, said.conversation)):
        found = chat.then("more").identify()
        assert (found.kind, found.conversation) == ("prompt", conversation)
    assert bridge.record(waiting.conversation) is before
    found = parent.then(user(result(waiting.call_ids[0]))).identify()
    assert (found.kind, found.conversation) == ("results", waiting.conversation)


@pytest.mark.parametrize("status", ["cut", "failed"])
@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_h27_stopped_in_mid_answer(chat: Chat, rounds: int, status: str) -> None:
    """In the first reply of a turn, or after rounds of calls; with the first marker only, or none."""
    chat.ask("one", "First.")
    chat.history.append(user("two"))
    for _ in range(rounds):
        looked = chat.send("I look.", calls=1)
        chat.history.append(user(result(looked.call_ids[0])))
    cut = chat.bridge.respond(chat.history, "Second, and very long.", status=status)  # type: ignore[arg-type]
    for heard in ("Sec", "Second, and very long.", "Second, "):
        resent = replace(chat, history=list(chat.history))
        resent.hear([cut.parts[0], TextPart(heard)])
        found = resent.then("three").identify()
        assert (found.kind, found.conversation) == ("prompt", cut.conversation), heard
        assert (found.joins, text_of(found.prompt), found.meanwhile) == (cut.number, ["three"], ())
        assert dict(found.places)[cut.number] == len(found.history.items) - 1


def test_h27_stopped_in_the_first_answer_without_any_marker(bridge: Bridge) -> None:
    cut = bridge.respond([user("a story, please")], "Once upon a time", status="cut")
    found = bridge.identify([user("a story, please"), assistant("Once upon"), user("shorter")])
    assert (found.kind, found.conversation, found.evidence) == ("prompt", cut.conversation, "first_turn")
    assert text_of(found.prompt) == ["shorter"]


def test_h27_stopped_before_a_word_was_said(bridge: Bridge) -> None:
    chat = Chat(bridge)
    chat.ask("one", "First.")
    cut = chat.ask("two", "", status="cut")
    marker = chat.history.pop()
    assert marker.content == (cut.parts[0],)
    # The editor drops the empty message: then it is a turn that was left out.
    found = chat.then("three").identify()
    assert (found.kind, found.conversation, text_of(found.prompt)) == ("refusal", cut.conversation, ["three"])
    found = chat.then(marker, "three").identify()
    assert (found.kind, found.conversation, text_of(found.prompt)) == ("prompt", cut.conversation, ["three"])
    retained = bridge.take(found).reply(cut.number)
    assert retained is not None
    assert (retained.starts, retained.ends) == (3, 3)


def test_h27_stopped_before_a_word_was_said_and_no_markers(bridge: Bridge) -> None:
    chat = Chat(bridge, keeps_markers=False)
    chat.ask("one", "First.")
    cut = chat.ask("two", "", status="cut")
    found = chat.then("three").identify()
    assert (found.kind, found.conversation, found.joins) == ("refusal", cut.conversation, 1)
    assert text_of(found.prompt) == ["three"]


def test_h27_a_complete_answer_that_is_told_in_part_was_edited(bridge: Bridge) -> None:
    chat = Chat(bridge, keeps_markers=False)
    chat.ask("one", "First.")
    chat.ask("two", "Second, and very long.")
    chat.history[-1] = assistant("Second")
    assert chat.then("three").identify().kind == "fork"


def test_h27_an_echo_with_calls_we_never_made_is_none(bridge: Bridge) -> None:
    chat = Chat(bridge, keeps_markers=False)
    chat.ask("one", "First.")
    bridge.respond([*chat.history, user("two")], "Second, and", status="cut")
    echo = assistant("Second", _foreign_call())
    found = chat.then("two", echo, user(result("call_9")), "three").identify()
    assert found.kind == "fork"


# Results.


def test_t4_results_in_any_order_are_each_their_own_calls(chat: Chat) -> None:
    asked = chat.ask("look thrice", calls=3)
    resent = chat.then(*(user(result(call_id, call_id)) for call_id in reversed(asked.call_ids)))
    found = resent.identify()
    assert (found.kind, found.reason) == ("results", "3 of 3 calls answered")
    assert [(given.call_id, given.text) for given in found.results] == [
        (call_id, call_id) for call_id in reversed(asked.call_ids)
    ]
    assert found.evidence == evidence_of(chat, "call_id")


def test_t5_one_of_three_results(chat: Chat) -> None:
    asked = chat.ask("look thrice", calls=3)
    found = chat.then(user(result(asked.call_ids[1]))).identify()
    assert (found.kind, found.reason) == ("results", "1 of 3 calls answered")
    assert [given.call_id for given in found.results] == [asked.call_ids[1]]


def test_t6_a_result_that_comes_late_changes_nothing(chat: Chat) -> None:
    asked = chat.ask("look twice", calls=2)
    chat.give({asked.call_ids[0]: "seen"}, "Half of it.")
    late = user(result(asked.call_ids[1], "late"))
    # In the place where it belongs, with the answer behind it: the history goes on all the same.
    chat.history.insert(-1, late)
    found = chat.then("so?").identify()
    assert (found.kind, found.conversation, found.results) == ("prompt", asked.conversation, ())
    assert (text_of(found.prompt), found.joins) == (["so?"], 2)
    assert found.unwanted == (asked.call_ids[1],)
    # It is reported once, not with every request that contains it.
    chat.ask("so?", "So.")
    assert chat.then("and?").identify().unwanted == ()


def test_t6_a_late_result_alone(chat: Chat) -> None:
    asked = chat.ask("look", "I look.", calls=1)
    # No decision arrived in time.
    chat.bridge.settle(asked.conversation, asked.call_ids)
    found = chat.then(user(result(asked.call_ids[0], "late"))).identify()
    assert (found.kind, found.conversation, found.results) == ("results", asked.conversation, ())
    assert found.unwanted == asked.call_ids
    found = chat.then(user(result(asked.call_ids[0], "late")), "and?").identify()
    assert (found.kind, text_of(found.prompt)) == ("prompt", ["and?"])
    assert [message.results for message in found.prompt] == [()]


def test_t7_the_first_of_two_results_wins(chat: Chat) -> None:
    asked = chat.ask("look", calls=1)
    (call_id,) = asked.call_ids
    for resent in (
        chat.then(user(result(call_id, "first"), result(call_id, "second"))),
        chat.then(user(result(call_id, "first")), user(result(call_id, "second"))),
    ):
        found = resent.identify()
        assert [given.text for given in found.results] == ["first"]
        assert found.unwanted == (call_id,)
    assert chat.then(user(result(call_id, "only"))).identify().unwanted == ()


def test_t9_a_result_and_more_to_say(chat: Chat) -> None:
    asked = chat.ask("look", calls=2)
    given = [result(call_id) for call_id in asked.call_ids]
    for resent in (
        chat.then(user(*given), "and hurry"),
        chat.then(user(given[0]), "and hurry", user(given[1])),
        chat.then(user(*given, TextPart("and hurry"))),
        chat.then(user(TextPart("and hurry"), *given)),
    ):
        found = resent.identify()
        assert (found.kind, found.conversation, len(found.results)) == (
            "results_and_prompt",
            asked.conversation,
            2,
        )
        assert text_of(found.prompt) == ["and hurry"]
        assert all(not message.results for message in found.prompt)


def test_p4_words_instead_of_an_answer(chat: Chat) -> None:
    asked = chat.ask("look", "I look.", calls=2)
    found = chat.then("leave it").identify()
    assert (found.kind, found.conversation, found.results) == ("refusal", asked.conversation, ())
    assert text_of(found.prompt) == ["leave it"]


def test_p25_the_stop_text_cancels_the_turn(chat: Chat) -> None:
    asked = chat.ask("look", calls=2)
    ran, stopped = asked.call_ids
    stop = "The user cancelled the tool call.\n"
    found = chat.then(user(result(ran, "seen")), user(result(stopped, stop)), "do this instead").identify()
    assert (found.kind, found.conversation) == ("refusal", asked.conversation)
    assert text_of(found.prompt) == ["do this instead"]
    # What ran has run.
    assert [(given.call_id, given.text) for given in found.results] == [(ran, "seen")]


def test_p25_a_call_that_our_own_loop_has_interrupted_cancels_the_turn(chat: Chat) -> None:
    asked = chat.ask("do both", calls=2)
    allowed, cut = asked.call_ids
    ours = ToolResultPart(cut, (TextPart("The call was not made."),), is_error=True, outcome="interrupted")
    found = chat.then(user(result(allowed, "yes")), user(ours), "do this instead").identify()
    assert (found.kind, found.conversation) == ("refusal", asked.conversation)
    assert [given.call_id for given in found.results] == [allowed]


@pytest.mark.parametrize(
    "given",
    [
        # The consumer says itself what became of it.
        ToolResultPart("", (TextPart("The user cancelled the tool call."),), outcome="ok"),
        ToolResultPart("", (TextPart("The user cancelled the tool call."), DataPart("image/png", b"png"))),
        ToolResultPart("", (TextPart("seen"), TextPart("The user cancelled the tool call.", ("user",)))),
    ],
    ids=["by its outcome", "with a picture", "to the user"],
)
def test_p25_what_a_result_is_to_the_agent_it_is_to_the_turn(chat: Chat, given: ToolResultPart) -> None:
    (call_id,) = chat.ask("look", calls=1).call_ids
    found = chat.then(user(structs.replace(given, call_id=call_id)), "well?").identify()
    assert (found.kind, len(found.results)) == ("results_and_prompt", 1)


def test_p25_the_stop_text_in_a_longer_result_is_only_a_text(chat: Chat) -> None:
    asked = chat.ask("read the source", calls=1)
    source = '_STOPPED = "The user cancelled the tool call."'
    found = chat.then(user(result(asked.call_ids[0], source)), "well?").identify()
    assert (found.kind, len(found.results)) == ("results_and_prompt", 1)


def test_a_result_that_is_told_again_and_again_is_unwanted_once() -> None:
    chat = Chat(Bridge())
    (call_id,) = chat.ask("look", calls=1).call_ids
    found = chat.then(*(user(result(call_id, text)) for text in ("one", "two", "three"))).identify()
    assert (found.kind, found.unwanted) == ("results", (call_id,))


def test_an_old_result_is_not_unwanted_because_other_words_have_changed() -> None:
    chat = Chat(Bridge())
    (call_id,) = chat.ask("look", calls=1).call_ids
    chat.give({call_id: "seen"}, "Done.")
    chat.history[0] = user("look, at noon")
    found = chat.then("thanks").identify()
    assert (found.kind, found.unwanted) == ("prompt", ())


def test_words_before_the_results_of_a_partial_history_are_not_said_anew() -> None:
    chat = Chat(Bridge())
    (call_id,) = chat.ask("look", calls=1).call_ids
    found = chat.bridge.identify([user("in short: look"), user(result(call_id))])
    assert (found.kind, found.prompt) == ("results", ())
