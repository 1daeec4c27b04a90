"""Two histories of one history are equal, and two histories are not."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from agent.bridge import result
from dragoman.conversations.history import (
    NormalAnswer,
    NormalPrompt,
    NormalResult,
    PrefixIndex,
    chain,
    item_key,
    normalise,
)
from dragoman.lm import (
    ActivityPart,
    DataPart,
    Message,
    Part,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
    assistant,
    system,
    user,
)
from dragoman.lm.json import decode
from dragoman.lm.messages import messages_from
from dragoman.lm.parts import INTERNAL_MIME_TYPES

INTERNAL: list[Part] = [
    *(DataPart(kind, b"{}") for kind in sorted(INTERNAL_MIME_TYPES)),
    ActivityPart("a", "Run", "execute", "completed", output="much"),
    PlanPart(()),
    UsagePart(1),
]
CALL = ToolCallPart("dg_1", "look", {"where": "here", "deep": [1, {"b": True, "a": None}]})


def items(*messages: Message) -> tuple[object, ...]:
    return normalise(messages).items


def test_what_everybody_says_of_a_history() -> None:
    resent = normalise(
        [
            system("Be brief."),
            user("hello\n"),
            assistant(ThinkingPart("hm"), " Hello. ", CALL),
            user(result("dg_1")),
            user(TextPart("so?"), result("dg_2")),
            assistant("Done."),
        ]
    )
    assert resent.items == (
        NormalPrompt("hello"),
        NormalAnswer("Hello.", (("dg_1", "look", '{"deep":[1.0,{"a":null,"b":true}],"where":"here"}'),)),
        NormalResult("dg_1"),
        NormalResult("dg_2"),
        NormalPrompt("so?"),
        NormalAnswer("Done."),
    )
    assert resent.counts == (1, 2, 3, 5, 6)
    assert resent.keys == tuple(item_key(item) for item in resent.items)
    assert resent.links == tuple(chain(resent.keys))
    assert NormalAnswer("x", (("a", "n", "{}"), ("b", "n", "{}"))).call_ids == ("a", "b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([assistant("a", "b")], [assistant("ab")], id="parts"),
        pytest.param([assistant("ab", CALL)], [assistant("ab"), assistant(CALL)], id="split at the calls"),
        pytest.param([assistant(CALL, "ab")], [assistant("ab", CALL)], id="text behind the calls"),
        pytest.param([user(" a\n")], [user("a")], id="white space at the ends"),
        pytest.param([user("a")], [user(""), user("a"), user("\n"), assistant("")], id="empty messages"),
        pytest.param([user("a")], [system("b"), user("a"), system("c")], id="system"),
        pytest.param([assistant("a")], [assistant(ThinkingPart(("x", "y")), "a")], id="thinking"),
        pytest.param(
            [user("a"), assistant("b")], [user("a", *INTERNAL), assistant("b", *INTERNAL)], id="internal"
        ),
        pytest.param([assistant("a")], [assistant("a", DataPart("image/png", b"x"))], id="an answer's data"),
        pytest.param([user(result("x", "much"))], [user(result("x", "m…"))], id="what a result says"),
        pytest.param(
            [user(ToolResultPart("x", (DataPart("image/png", b"x"),)))],
            [user(ToolResultPart("x"))],
            id="its data",
        ),
        pytest.param(
            [user(result("x"), result("y"))], [user(result("x")), user(result("y"))], id="results apart"
        ),
        pytest.param([user("a", result("x"))], [user(result("x")), user("a")], id="a result and words"),
    ],
)
def test_h2_h3_h4_h6_two_tellings_of_one_history(one: list[Message], other: list[Message]) -> None:
    assert items(*one) == items(*other)
    assert normalise(one).links == normalise(other).links


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([user("a"), user("b")], [user("ab")], id="two messages"),
        pytest.param([user("a")], [assistant("a")], id="who says it"),
        pytest.param([user("a b")], [user("ab")], id="white space within"),
        pytest.param(
            [assistant(CALL)], [assistant(ToolCallPart("dg_2", "look", CALL.input))], id="another call"
        ),
        pytest.param([assistant(CALL)], [assistant(ToolCallPart("dg_1", "look", {}))], id="other arguments"),
        pytest.param(
            [assistant("a"), user("b"), assistant("c")], [assistant("ac"), user("b")], id="answers apart"
        ),
        pytest.param(
            [assistant("a"), user(DataPart("image/png", b"x")), assistant("c")],
            [assistant("a"), assistant("c")],
            id="answers to a picture",
        ),
        pytest.param([user(DataPart("image/png", b"x"))], [user(DataPart("image/png", b"y"))], id="pictures"),
        pytest.param(
            [user(DataPart("image/png", b"x"))], [user(DataPart("image/gif", b"x"))], id="kinds of pictures"
        ),
        pytest.param([user("a", DataPart("image/png", b"x"))], [user("a")], id="a picture or none"),
        pytest.param([user(result("x"))], [user(result("y"))], id="results of different calls"),
    ],
)
def test_two_histories(one: list[Message], other: list[Message]) -> None:
    assert items(*one) != items(*other)
    assert normalise(one).links[-1] != normalise(other).links[-1]


@pytest.mark.parametrize("arguments", ["{}", "null"])
def test_h5_no_arguments_are_no_arguments(arguments: str) -> None:
    call = f'{{"type":"tool_call","callId":"x","name":"n","input":{arguments}}}'
    resent = messages_from(decode(f'[{{"role":"assistant","content":[{call}]}}]'))
    assert items(*resent) == (NormalAnswer("", (("x", "n", "{}"),)),)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (1.0, 1),
        (-0.0, 0),
        (12345678901234567890, 12345678901234567000),
        (1e21, 1000000000000000000000),
        (10**400, None),
        ([{"a": 2.0}], [{"a": 2}]),
        ((1, 2), [1.0, 2.0]),
    ],
)
def test_h5_arguments_as_a_consumer_in_javascript_writes_them(ours: object, theirs: object) -> None:
    one, other = (assistant(ToolCallPart("x", "n", {"v": value})) for value in (ours, theirs))
    assert items(one) == items(other)


def test_true_is_not_one() -> None:
    one, other = (assistant(ToolCallPart("x", "n", {"v": value})) for value in (True, 1))
    assert items(one) != items(other)


@pytest.mark.long
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists))
def test_any_arguments_have_a_form(value: object) -> None:
    call = assistant(ToolCallPart("x", "n", {"v": value}))
    assert items(call) == items(call)


def test_h5_an_answer_that_is_only_a_file_is_an_answer_whichever_file_it_is() -> None:
    picture, report = DataPart("image/png", b"x"), DataPart("application/pdf", b"y")
    assert (
        items(assistant(picture))
        == items(assistant(report, picture))
        == items(assistant(picture), assistant(report))
    )
    assert len(items(assistant(picture))) == 1
    # Beside text or calls, files do not count: consumers drop them.
    assert (
        items(assistant("a", picture)) == items(assistant(picture), assistant("a")) == items(assistant("a"))
    )
    call = ToolCallPart("x", "n", {})
    assert items(assistant(picture), assistant(call)) == items(assistant(call))


def test_a_chain_goes_on_from_a_link() -> None:
    resent = normalise([user("a"), assistant("b"), user("c")])
    assert chain(resent.keys[1:], resent.links[0]) == list(resent.links[1:])
    assert chain(()) == []


def test_an_index_forgets_what_is_removed() -> None:
    index = PrefixIndex()
    index.add("shelf", 1, "x")
    index.add("shelf", 1, "y")
    assert (index.on("shelf"), len(index)) == ({1: {"x", "y"}}, 1)
    assert index.on("other") == {}
    index.remove("shelf", 1, "x")
    assert (index.on("shelf"), len(index)) == ({1: {"y"}}, 1)
    index.remove("shelf", 1, "y")
    assert (index.on("shelf"), len(index)) == ({}, 0)
    with pytest.raises(KeyError):
        index.remove("shelf", 1, "y")
