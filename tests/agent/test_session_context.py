"""What a prompt contains beside the new messages: everything once, then changes, and again what may be lost."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from agent.reader import REPLACED, Known, read
from dragoman.acp.content import TextBlock
from dragoman.backends.agent.prompt.prompting import Composed, compose, split_prompt
from dragoman.backends.agent.prompt.session_context import SessionContext
from dragoman.conversations.context import context_of, units
from dragoman.conversations.history import normalise
from dragoman.conversations.records import RequestKey
from dragoman.lm import Message, Request, ToolCallPart, ToolResultPart, assistant, system, user

_BUDGET = 10_000
_OPENING = "<client-context>\nFrom the program you are used in, not from the user.\n\n"
_CLOSING = "\n</client-context>"
_EARLIER = (user("My name is Ada."), assistant("Hello, Ada."))


def _session_context(*, is_known: bool = False) -> SessionContext:
    return SessionContext(_BUDGET, is_known=is_known)


def _asked(*messages: Message) -> RequestKey:
    return RequestKey.by(Request(messages), normalise(messages))


def _texts(composed: Composed) -> list[str]:
    return [block.text for block in composed.blocks if isinstance(block, TextBlock)]


def _prompted(session_context: SessionContext, context: str, *messages: Message) -> list[str]:
    """The blocks of the prompt for a request, the user's messages last."""
    said = messages or (user("hello"),)
    session_context.update(_asked(*([system(context)] if context else []), *said))
    return _texts(session_context.prompt([said[-1]], images=False))


def _context(sent: list[str]) -> str:
    return next(
        (text.removeprefix(_OPENING).removesuffix(_CLOSING) for text in sent if text.startswith(_OPENING)),
        "",
    )


def test_a_command_of_the_agent_goes_alone_and_the_context_waits() -> None:
    session_context = _session_context()
    session_context.update(_asked(system("Be brief."), user("/plan it")))
    sent = session_context.prompt([user("/plan it")], images=False, commands={"plan"})
    assert _texts(sent) == ["/plan it"]
    assert (
        _context(_prompted(session_context, "Be brief.", user("/plan it"), assistant("So."), user("go")))
        == "Be brief."
    )


_PARTS = st.one_of(
    st.text(max_size=5),
    st.builds(ToolCallPart, st.sampled_from("ab"), st.just("look"), st.just({})),
    st.builds(ToolResultPart, st.sampled_from("ab")),
)
_MESSAGES = st.lists(
    st.builds(
        lambda speaks, parts: speaks(*parts),
        st.sampled_from([user, assistant]),
        st.lists(_PARTS, min_size=1, max_size=3),
    )
    | st.builds(system, st.text(max_size=5)),
    max_size=8,
).map(tuple)


@given(_MESSAGES)
def test_what_is_kept_of_a_request_tells_as_much_as_the_request(messages: tuple[Message, ...]) -> None:
    before, words = split_prompt(messages)
    whole = compose(words, context=context_of(messages), history=before, images=True, budget=_BUDGET)
    session_context = _session_context()
    session_context.update(_asked(*messages))
    assert session_context.words == words
    assert session_context.prompt(words, images=True) == whole


def test_h7_a_new_session_is_told_everything_and_then_what_is_new() -> None:
    session_context = _session_context()
    context, transcript, words = _prompted(session_context, "Be brief.", *_EARLIER, user("one"))
    assert "Be brief." in context
    assert "Hello, Ada." in transcript
    assert words == "one"
    assert _prompted(session_context, "Be brief.", *_EARLIER, user("two")) == ["two"]
    session_context.begin()
    assert len(_prompted(session_context, "Be brief.", *_EARLIER, user("three"))) == 3


def test_h7_f8_what_is_taken_back_is_told_again() -> None:
    session_context = _session_context()
    _prompted(session_context, "Be brief.", *_EARLIER, user("one"))
    session_context.take_back(acknowledged=False)
    assert session_context.is_new
    sent = _prompted(session_context, "Be brief.", *_EARLIER, user("two"))
    assert "Hello, Ada." in "".join(sent)
    assert _context(sent).endswith("Be brief.")
    # The next prompt had no context: there is nothing to take back.
    assert _prompted(session_context, "Be brief.", *_EARLIER, user("three")) == ["three"]
    session_context.take_back(acknowledged=False)
    assert _prompted(session_context, "Be brief.", *_EARLIER, user("four")) == ["four"]


def test_h7_f3_of_what_was_heard_only_what_the_program_says_is_told_again() -> None:
    """The session of an agent that has sent output has the conversation: it must not get a transcript of it."""
    session_context = _session_context()
    _prompted(session_context, "Be brief.", *_EARLIER, user("one"))
    assert (session_context.was_new, session_context.is_new) == (True, False)
    session_context.take_back(acknowledged=True)
    context, words = _prompted(session_context, "Be brief.", *_EARLIER, user("two"))
    assert _context([context]).endswith(f"{REPLACED}Be brief.")
    assert words == "two"
    # Nor does what becomes of a later prompt bring it back.
    session_context.take_back(acknowledged=False)
    assert not session_context.is_new


def test_h7_a_prompt_that_could_not_be_made_has_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    session_context = _session_context()
    _prompted(session_context, "Be brief.", *_EARLIER, user("one"))
    with monkeypatch.context() as patched:
        patched.setattr("dragoman.backends.agent.prompt.session_context.compose", None)
        with pytest.raises(TypeError):
            _prompted(session_context, "Be long.", *_EARLIER, user("two"))
    session_context.take_back(acknowledged=False)
    assert not session_context.is_new
    context, _ = _prompted(session_context, "Be long.", *_EARLIER, user("three"))
    assert "Be long." in context


@pytest.mark.parametrize("now", ["Be brief.", "Be long.", "Be kind."])
def test_h7_f8_an_agent_that_may_have_heard_it_is_told_what_holds_instead(now: str) -> None:
    """Even if it is the context that was sent before: it is unknown whether that was replaced."""
    session_context = _session_context()
    _prompted(session_context, "Be brief.")
    _prompted(session_context, "Be long.")
    session_context.take_back(acknowledged=False)
    assert _context(_prompted(session_context, now)).endswith(f"{REPLACED}{now}")
    assert _prompted(session_context, now) == ["hello"]


def test_what_is_said_into_a_turn_that_runs_tells_nothing_else() -> None:
    session_context = _session_context()
    session_context.update(_asked(system("Be brief."), *_EARLIER, user("one")))
    assert _texts(session_context.steer([user("one")], images=False)) == ["one"]
    assert session_context.is_new
    assert len(_texts(session_context.prompt([user("one")], images=False))) == 3


def test_h7_h21_a_session_of_another_process_is_told_what_holds_instead_of_what_nobody_knows() -> None:
    session_context = _session_context(is_known=True)
    assert not session_context.is_new
    assert _prompted(session_context, "", *_EARLIER, user("one")) == ["one"]
    context, words = _prompted(session_context, "Be brief.", *_EARLIER, user("two"))
    assert _context([context]).endswith(f"{REPLACED}Be brief.")
    assert words == "two"


_SECTIONS = ["<a>\n1\n</a>", "<a>\n2\n</a>", "<b>\n1\n</b>", "Be brief.", "Be kind."]
_STEPS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(_SECTIONS), max_size=4),
        # The outcome of the prompt: it is answered; or the agent is gone, with or without having stored it; or replaced.
        st.sampled_from(["answered", "kept", "lost", "new"]),
    ),
    max_size=6,
)


@given(_STEPS, st.lists(st.sampled_from(_SECTIONS), min_size=1))
def test_h7_whatever_became_of_prompts_an_agent_that_answers_knows_what_is_said_now(
    steps: list[tuple[list[str], str]], last: list[str]
) -> None:
    session_context, known = _session_context(), Known()
    for sections, becomes in [*steps, (last, "answered")]:
        now = "\n".join(["<long>", "x" * 500, "</long>", *sections])
        after = read(known, _context(_prompted(session_context, now)))
        if becomes != "lost":
            known = after
        if becomes == "answered":
            assert known == [*units(now)]
        elif becomes == "new":
            session_context.begin()
            known = Known()
        else:
            session_context.take_back(acknowledged=False)


def test_h21_the_words_before_the_last_are_those_that_a_loaded_session_ends_with() -> None:
    session_context = _session_context(is_known=True)
    assert session_context.last_text("user") == ""
    session_context.update(
        _asked(user("one"), assistant("first"), user("two"), assistant("second"), user("three"))
    )
    assert (session_context.last_text("user"), session_context.last_text("assistant")) == ("two", "second")
