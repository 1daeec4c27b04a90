"""What the user sees of the agent: everything once, and nothing that would do more than be seen.

Most of it is tested as text, as a consumer without `features.activity` reads it: the narrator's parts, written by
`Activities`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count, groupby

import pytest
from hypothesis import given, strategies as st

from agent.recorded import UPDATES, Recorded
from dragoman import lm
from dragoman.acp.content import ImageBlock, TextBlock
from dragoman.acp.messages import (
    AcpPlanEntry,
    ChunkUpdate,
    Location,
    OtherUpdate,
    PlanUpdate,
    ToolActivity,
    Update,
    UsageUpdate,
    decode_update,
)
from dragoman.backends.agent.reply.narrator import Narrator
from dragoman.lm import (
    ActivityPart,
    DataPart,
    JsonObject,
    Part,
    PlanPart,
    Request,
    StreamWatch,
    TextPart,
    ThinkingPart,
    UsagePart,
)
from dragoman.lm.activity_text import Activities
from dragoman.lm.json import decode
from lm.rendering import hostile_text, inline_tokens, tokens


class Written(Narrator):
    """What an agent says, as a consumer without activities gets it."""

    def __init__(self, is_consumers: Callable[[ToolActivity], bool] = lambda _: False) -> None:
        super().__init__(is_consumers)
        self._watch = StreamWatch(Request(()))
        self._activities = Activities()

    def parts(self, update: Update) -> Iterable[Part]:
        for part in super().parts(update):
            assert self._watch.violation(part) is None
            yield from self._activities.present(part, structured=False)


def narrator() -> Written:
    return Written()


def structured(*updates: Update) -> list[Part]:
    numbers = count(1)
    narrates = Narrator(lambda _: False, lambda: f"a{next(numbers)}")
    return [part for update in updates for part in narrates.parts(update)]


def thoughts(narrates: Narrator, *updates: Update) -> str:
    parts = [part for update in updates for part in narrates.parts(update)]
    assert all(isinstance(part, ThinkingPart) for part in parts)
    return "".join(part.text for part in parts if isinstance(part, ThinkingPart))


def output(text: str) -> tuple[object, ...]:
    return ({"type": "content", "content": {"type": "text", "text": text}},)


def code_in(markdown: str) -> str:
    return "".join(token.content for token in tokens(markdown) if token.type == "code_block")


# What real agents say.


@pytest.mark.parametrize(
    "session",
    [list(group) for _, group in groupby(UPDATES, lambda it: it.source)],
    ids=lambda group: group[0].source,
)
def test_whatever_real_agents_send_is_told(session: list[Recorded]) -> None:
    narrates = narrator()
    narrated: list[Part] = []
    wanted = ""
    for recorded in session:
        update = decode_update(recorded.data).update
        if isinstance(update, ChunkUpdate) and update.role == "agent":
            assert isinstance(update.content, TextBlock)
            wanted += update.content.text
        narrated += narrates.parts(update)
        if isinstance(update, ToolActivity):
            assert narrates.known(update).tool_call_id == update.tool_call_id
        # All of it again says nothing new.
        if not isinstance(update, ChunkUpdate):
            assert list(narrates.parts(update)) == []
    assert "".join(part.value for part in narrated if isinstance(part, TextPart)) == wanted
    thought = "".join(part.text for part in narrated if isinstance(part, ThinkingPart))
    assert thought.count("✓") <= sum("completed" in str(recorded.params) for recorded in session)
    assert narrates.end_turn() == ()


# Words, thoughts and pictures.


def test_words_are_text_and_thoughts_are_thinking() -> None:
    narrates = narrator()
    assert list(narrates.parts(ChunkUpdate("agent", TextBlock("Hello")))) == [TextPart("Hello")]
    assert list(narrates.parts(ChunkUpdate("thought", TextBlock("hm")))) == [ThinkingPart("hm")]
    assert list(narrates.parts(ChunkUpdate("agent", ImageBlock("aGk=", "image/png")))) == [
        DataPart("image/png", b"hi")
    ]


@pytest.mark.parametrize(
    "update",
    [
        ChunkUpdate("user", TextBlock("my own words")),
        ChunkUpdate("thought", ImageBlock("aGk=", "image/png")),
        ChunkUpdate("agent", TextBlock("")),
        OtherUpdate("available_commands_update", {}),
        PlanUpdate(()),
        ToolActivity("t"),
        ToolActivity("t", content=()),
    ],
)
def test_what_is_nothing_new_is_not_told(update: Update) -> None:
    assert list(narrator().parts(update)) == []


def test_f16_an_emoji_in_two_halves_is_one() -> None:
    narrates = narrator()
    halves = ["a\ud83d", "\ude00b", "\ude00", "c\ud83d"]
    narrated = [part for half in halves for part in narrates.parts(ChunkUpdate("agent", TextBlock(half)))]
    assert narrated == [TextPart("a"), TextPart("😀b"), TextPart("\ufffd"), TextPart("c")]
    # Thoughts are a stream of their own.
    list(narrates.parts(ChunkUpdate("thought", TextBlock("\ud83d"))))
    assert narrates.end_turn() == (ThinkingPart("\ufffd"), TextPart("\ufffd"))
    assert narrates.end_turn() == ()


# Tool calls.


def test_each_state_of_a_tool_call_is_told_once() -> None:
    narrates = narrator()
    begun = thoughts(narrates, ToolActivity("t", "Run it", status="pending"))
    assert begun == "\n\n▸ Run it\n"
    assert thoughts(narrates, ToolActivity("t", "Run it", status="in_progress"), ToolActivity("t")) == ""
    assert thoughts(narrates, ToolActivity("t", content=output("one\ntwo"))) == "\n    one\n    two"
    assert thoughts(narrates, ToolActivity("t", status="completed")) == "\n\n✓ Run it\n"
    assert thoughts(narrates, ToolActivity("t", status="completed"), ToolActivity("t", status="failed")) == ""
    assert thoughts(narrates, ToolActivity("u", name="Look", status="failed")) == "\n\n▸ Look\n\n\n✗ Look\n"


def test_a_title_that_changes_is_told_again() -> None:
    narrates = narrator()
    assert thoughts(narrates, ToolActivity("t", "Terminal"), ToolActivity("t", "rm *x*")) == (
        "\n\n▸ Terminal\n\n\n▸ rm \\*x\\*\n"
    )
    assert len(thoughts(narrates, ToolActivity("u", "x" * 10_000))) < 600


def test_the_consumers_own_calls_are_not_told_here() -> None:
    narrates = Written(lambda activity: activity.raw_input == {"server": "ours"})
    assert (
        thoughts(narrates, ToolActivity("t", "look", raw_input={"server": "ours"}, status="completed")) == ""
    )
    # It may show later that it is one.
    assert thoughts(narrates, ToolActivity("u", "look")) == "\n\n▸ look\n"
    assert (
        thoughts(
            narrates, ToolActivity("u", raw_input={"server": "ours"}), ToolActivity("u", status="failed")
        )
        == ""
    )


def test_a_diff_is_told_as_a_diff_once() -> None:
    narrates = narrator()
    diff = {"type": "diff", "path": "/a`b", "oldText": "one\n", "newText": "two\n"}
    narrated = thoughts(narrates, ToolActivity("t", "Edit", content=(diff,)))
    assert narrated == "\n\n▸ Edit\n\n\n``/a`b``\n\n```diff\n@@ -1 +1 @@\n-one\n+two\n```\n"
    assert (
        thoughts(narrates, ToolActivity("t", content=(diff,)), ToolActivity("t", status="in_progress")) == ""
    )


def test_what_was_said_of_a_call_is_known_until_the_turn_ends() -> None:
    narrates = narrator()
    thoughts(narrates, ToolActivity("t", "Run", kind="execute", raw_input={"command": "ls"}))
    asked = ToolActivity("t", kind="other", status="pending")
    assert narrates.known(asked) == ToolActivity(
        "t", "Run", kind="other", status="pending", raw_input={"command": "ls"}
    )
    assert narrates.known(ToolActivity("u", "New")) == ToolActivity("u", "New")
    narrates.end_turn()
    assert narrates.known(asked) == asked


def test_an_agent_that_never_ends_its_calls_is_not_followed_for_ever() -> None:
    narrates = narrator()
    for number in range(1_500):
        thoughts(narrates, ToolActivity(f"t{number}", "Run", kind="execute"))
    assert narrates.known(ToolActivity("t0")).kind is None
    assert narrates.known(ToolActivity("t1499")).kind == "execute"


# Output.


def test_an_output_that_is_sent_again_in_full_costs_what_is_new() -> None:
    """An agent that repeats 280 KB of output 3,000 times: what we say is no longer than what it has."""
    narrates = narrator()
    lines = [f"line {number:>5} of a build that goes on and on, as builds do\n" for number in range(1_000)]
    narrated = thoughts(narrates, ToolActivity("t", "make"))
    text = ""
    for number in range(3_000):
        if number % 3 == 0:
            text += lines[number // 3]
        narrated += thoughts(narrates, ToolActivity("t", content=output(text)))
    assert len(narrated) <= 1.2 * len(text)
    assert code_in(narrated) == text


def test_beyond_a_limit_output_is_not_shown() -> None:
    narrates = narrator()
    narrated = thoughts(narrates, ToolActivity("t", "cat", content=output("x" * 60_000)))
    narrated += thoughts(narrates, ToolActivity("t", content=output("x" * 70_000)))
    assert narrated.count("x") == 64_000
    assert narrated.endswith("\n\n… and more\n")
    assert thoughts(narrates, ToolActivity("t", content=output("x" * 80_000))) == ""
    assert thoughts(narrates, ToolActivity("t", status="completed")) == "\n\n✓ cat\n"


def test_a_window_is_shown_as_it_moves_on() -> None:
    narrates = narrator()
    lines = [f"line {number} of the output\n" for number in range(100)]
    thoughts(narrates, ToolActivity("t", "tail"))
    narrated = ""
    for end in range(10, 101):
        narrated += thoughts(narrates, ToolActivity("t", content=output("".join(lines[end - 10 : end]))))
    assert code_in(f"x\n{narrated}") == "".join(lines)


@pytest.mark.parametrize("now", ["one two three", "one", "two", "", "three"])
def test_what_was_there_before_is_not_new(now: str) -> None:
    narrates = narrator()
    thoughts(narrates, ToolActivity("t", "Run", content=output("one two three")))
    assert thoughts(narrates, ToolActivity("t", content=output(now))) == ""
    assert thoughts(narrates, ToolActivity("t", content=output("one two three, four"))) == ", four"


def test_another_output_in_its_place_is_shown_whole() -> None:
    narrates = narrator()
    thoughts(narrates, ToolActivity("t", "Run", content=output("Running…")))
    assert thoughts(narrates, ToolActivity("t", content=output("Runs no more"))) == "Runs no more"


@pytest.mark.parametrize("language", ["", "console"])
def test_the_fence_that_an_agent_puts_around_output_is_not_output(language: str) -> None:
    narrates = narrator()
    begun = ToolActivity("t", "Run it", content=output(f"```{language}\none\n```"))
    assert code_in(thoughts(narrates, begun)) == "one\n"
    # It grows inside of its fence.
    grown = ToolActivity("t", content=output(f"```{language}\none\ntwo\n```"))
    assert "one" not in thoughts(narrates, grown)


@pytest.mark.parametrize(
    "text", ["```\na\n```\nand\n```\nb\n```", "```\na", "a\n```", "```", "``` `\na\n```", "````\na\n```"]
)
def test_what_is_not_one_fence_is_output_as_it_is(text: str) -> None:
    narrated = thoughts(narrator(), ToolActivity("t", "Run it", content=output(text)))
    assert code_in(narrated).rstrip("\n") == text


def test_what_the_agents_own_terminal_prints_is_output() -> None:
    narrates = narrator()
    thoughts(narrates, ToolActivity("t", "Run it"))
    pieces = [
        ToolActivity("t", meta={name: {"terminal_id": "t", "data": data}})
        for name, data in (("terminal_output_delta", "one\n"), ("terminal_output", "two"))
    ]
    assert code_in(thoughts(narrates, *pieces)) == "one\ntwo\n"
    # All of it as content in the end is nothing new.
    assert "one" not in thoughts(narrates, ToolActivity("t", status="completed", content=output("one\ntwo")))
    assert thoughts(narrates, pieces[0]) == ""


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ({"aggregated_output": "one\n", "stdout": "one\n", "exit_code": 0}, "one\n"),
        ({"code": "rejected", "message": "Not allowed."}, "Not allowed.\n"),
        ({"output": {"text": "deeper"}, "error": None}, ""),
        # Words for its model.
        ("File created (no need to read it)", ""),
    ],
)
def test_output_that_is_shown_in_no_other_way_is_taken_from_where_it_is_raw(raw: object, shown: str) -> None:
    narrates = narrator()
    assert (
        code_in(thoughts(narrates, ToolActivity("t", title="Run", status="in_progress", raw_output=raw)))
        == ""
    )
    ended = ToolActivity("t", status="completed", raw_output=raw)
    assert code_in(thoughts(narrates, ended)) == shown
    told = ToolActivity("u", title="Run", status="completed", content=output("told"), raw_output=raw)
    assert code_in(thoughts(narrates, told)) == "told\n"


def test_a_call_whose_input_is_still_being_written_has_no_name_yet() -> None:
    narrates = narrator()
    assert thoughts(narrates, ToolActivity("t", "Terminal", status="pending", raw_input={})) == ""
    named = thoughts(narrates, ToolActivity("t", "ls -l", raw_input={"command": "ls -l"}))
    assert "▸ ls \\-l" in named or "▸ ls -l" in named
    assert "Terminal" not in named
    # One that has no input begins when it runs.
    thoughts(narrates, ToolActivity("u", "List", status="pending", raw_input={}))
    assert "▸ List" in thoughts(narrates, ToolActivity("u", status="in_progress"))


def test_output_after_something_else_stands_under_its_name_again() -> None:
    narrates = narrator()
    first = thoughts(narrates, ToolActivity("t", "make", content=output("one\n")))
    assert first == "\n\n▸ make\n\n    one\n    "
    for between in (
        ChunkUpdate("thought", TextBlock("- a list")),
        ToolActivity("u", "other", content=output("x")),
        PlanUpdate((AcpPlanEntry("plan it"),)),
    ):
        text = first = f"{first}two\n"
        list(narrates.parts(between))
        narrated = thoughts(narrates, ToolActivity("t", content=output(_all_output(text))))
        assert narrated == "\n\n▸ make …\n\n    two\n    "


def _all_output(narrated: str) -> str:
    return narrated.removeprefix("\n\n▸ make\n\n    ").replace("\n    ", "\n")


@pytest.mark.long
@given(
    st.lists(hostile_text, max_size=5),
    hostile_text,
    st.sampled_from(["", "- list\n", "1. list\n", "> quote\n", "a\n\n- b"]),
)
def test_output_is_code_whatever_is_in_it(pieces: list[str], title: str, before: str) -> None:
    """Also after a list or a quotation in the agent's own thoughts."""
    narrates = narrator()
    narrated = thoughts(narrates, ToolActivity("t", f"T{title}"))
    text = "begin\n"
    for piece in pieces:
        narrated += thoughts(narrates, ToolActivity("t", content=output(text)))
        narrated += thoughts(narrates, ChunkUpdate("thought", TextBlock(f"\n\n{before}"))) if before else ""
        text += piece
    narrated += thoughts(narrates, ToolActivity("t", content=output(text), status="completed"))
    seen = {token.type for token in tokens(narrated) if token.type != "inline"}
    assert not any(kind.startswith(("html", "table", "heading", "fence")) for kind in seen)
    kinds = {token.type for token in inline_tokens(narrated)}
    assert kinds <= {"text", "softbreak", "hardbreak", "text_special", "code_inline"}
    if not before:
        # A renderer shows a null character as the replacement character: CommonMark wants it so.
        assert "".join(text.replace("\0", "\ufffd").split()) == "".join(code_in(narrated).split())


# Plans.


def test_only_what_changes_of_a_plan_is_told() -> None:
    narrates = narrator()
    one, two = AcpPlanEntry("one"), AcpPlanEntry("*two*")
    assert thoughts(narrates, PlanUpdate((one, two))) == "\n\n☐ one  \n☐ \\*two\\*  \n\n"
    assert thoughts(narrates, PlanUpdate((one, two))) == ""
    begun = AcpPlanEntry("one", status="in_progress")
    assert thoughts(narrates, PlanUpdate((begun, two))) == "\n\n◐ one  \n\n"
    assert thoughts(
        narrates, PlanUpdate((AcpPlanEntry("one", status="completed"), AcpPlanEntry("3", status="new")))
    ) == ("\n\n☑ one  \n☐ 3  \n\n")
    # The plan outlives its turn.
    narrates.end_turn()
    assert thoughts(narrates, PlanUpdate((AcpPlanEntry("3", status="new"),))) == ""


def test_two_steps_of_the_same_name_do_not_change_all_the_time() -> None:
    narrates = narrator()
    plan = PlanUpdate((AcpPlanEntry("test", status="completed"), AcpPlanEntry("test")))
    assert thoughts(narrates, plan).count("test") == 2
    assert thoughts(narrates, plan, plan) == ""


# Usage.


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"inputTokens": 10, "outputTokens": 5, "totalTokens": 20}, (10, 5, 20)),
        ({"inputTokens": 10, "outputTokens": 5}, (10, 5, 15)),
        ({"totalTokens": 7}, (0, 0, 7)),
        ({"inputTokens": True, "outputTokens": -5, "totalTokens": "many"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_tokens_fill_the_editors_indicator(
    usage: JsonObject | None, counted: tuple[int, int, int] | None
) -> None:
    shown = [
        shown for part in narrator().usage(usage) for shown in Activities().present(part, structured=False)
    ]
    if counted is None:
        assert shown == []
        return
    (part,) = shown
    assert isinstance(part, DataPart)
    assert part.mime_type == "usage"
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert decode(part.data) == dict(zip(names, counted, strict=True))


def test_what_an_agent_counts_is_told_as_it_says_it_and_nothing_else() -> None:
    narrates = Narrator(lambda _: False)
    assert list(narrates.parts(UsageUpdate(used=10, size=100))) == [
        UsagePart(context_used=10, context_size=100)
    ]
    assert list(narrates.parts(UsageUpdate(used=10, size=100))) == []
    assert list(narrates.parts(UsageUpdate(used=20, size=100, amount=0.5, currency="EUR"))) == [
        UsagePart(context_used=20, context_size=100, cost=0.5, currency="EUR")
    ]
    turn: JsonObject = {"inputTokens": 7, "outputTokens": 0, "cachedReadTokens": 3, "thoughtTokens": 2}
    of_turn = UsagePart(
        7, 0, cached=3, reasoning=2, context_used=20, context_size=100, cost=0.5, currency="EUR"
    )
    assert narrates.usage(turn) == (of_turn,)
    # Its tokens are those of one turn; its context and its cost are the session's.
    assert list(narrates.parts(UsageUpdate(used=30, size=100))) == [
        UsagePart(context_used=30, context_size=100, cost=0.5, currency="EUR")
    ]
    assert narrates.usage({"inputTokens": 0, "outputTokens": 0}) == ()


# Structure.


def test_a_step_is_one_part_that_is_replaced_as_it_goes_on() -> None:
    diff = {"type": "diff", "path": "/a", "oldText": "one\n", "newText": "two\n"}
    begun, printed, ended = structured(
        ToolActivity(
            "t", "Edit", kind="edit", status="pending", locations=(Location("/a", 3),), content=(diff,)
        ),
        ToolActivity("t", content=output("ok\n"), status="in_progress"),
        ToolActivity("t"),
        ToolActivity("t", status="completed", raw_output={"metadata": {"exit": 0}}),
        ToolActivity("t", status="failed"),
    )
    at = (lm.ActivityLocation("/a", 3),)
    shown = "--- /a\n+++ /a\n@@ -1 +1 @@\n-one\n+two"
    assert begun == ActivityPart("a1", "Edit", "edit", "pending", at, shown)
    assert printed == ActivityPart("a1", "Edit", "edit", "in_progress", at, shown, "ok\n")
    assert ended == ActivityPart("a1", "Edit", "edit", "completed", at, shown, "ok\n", 0)


@pytest.mark.parametrize(
    ("activity", "status"),
    [
        (ToolActivity("t", "x", meta={"terminal_exit": {"exit_code": 2}}), 2),
        (ToolActivity("t", "x", raw_output={"exit_code": 3}), 3),
        (ToolActivity("t", "x", raw_output={"exitCode": -1}), -1),
        (ToolActivity("t", "x", meta={"terminal_exit": {"exit_code": None}}), None),
        (ToolActivity("t", "x", raw_output={"exit_code": True}), None),
        (ToolActivity("t", "x", raw_output="0"), None),
    ],
)
def test_how_a_command_ended_is_found_where_agents_say_it(activity: ToolActivity, status: int | None) -> None:
    (part,) = structured(activity)
    assert isinstance(part, ActivityPart)
    assert part.exit_status == status


def test_all_of_an_output_is_there_though_the_agent_shows_a_window() -> None:
    lines = [f"line {number} of the output\n" for number in range(100)]
    windows = [output("".join(lines[end - 10 : end])) for end in range(10, 101)]
    last = structured(*(ToolActivity("t", "tail", content=window) for window in windows))[-1]
    assert isinstance(last, ActivityPart)
    assert last.output == "".join(lines)
    # What it shows in place of the rest is all there is.
    other = structured(
        ToolActivity("t", "x", content=output("Running")), ToolActivity("t", content=output("Done"))
    )[-1]
    assert isinstance(other, ActivityPart)
    assert other.output == "Done"


def test_an_output_without_end_is_cut() -> None:
    parts = structured(
        *(ToolActivity("t", "cat", content=output("x" * size)) for size in (60_000, 70_000, 80_000))
    )
    assert [len(part.output or "") for part in parts if isinstance(part, ActivityPart)] == [60_000, 64_001]


def test_a_step_that_has_something_to_show_and_no_title_gets_one() -> None:
    (part,) = structured(ToolActivity("t"), ToolActivity("t", content=output("x")))
    assert isinstance(part, ActivityPart)
    assert part.title == "Tool call"


def test_values_that_acp_does_not_know_are_told_as_the_nearest_that_it_does() -> None:
    (step,) = structured(ToolActivity("t", "x", kind="dream", status="paused"))
    assert step == ActivityPart("a1", "x", "other", "pending")
    (plan,) = structured(PlanUpdate((AcpPlanEntry("y", priority="urgent", status="new"),)))
    assert plan == PlanPart((lm.PlanEntry("y", "medium", "pending"),))


def test_an_id_that_an_agent_uses_again_is_another_step() -> None:
    narrates = Narrator(lambda _: False)
    (first,) = narrates.parts(ToolActivity("t", "x", status="completed"))
    narrates.end_turn()
    (second,) = narrates.parts(ToolActivity("t", "x", status="pending"))
    assert isinstance(first, ActivityPart)
    assert isinstance(second, ActivityPart)
    assert first.id != second.id


def test_a_diff_without_end_is_cut_at_a_line() -> None:
    narrates = Narrator(lambda _: False)
    many = "".join(f"line {number}\n" for number in range(100_000))
    diff = {"type": "diff", "path": "/a", "oldText": "", "newText": many}
    (part,) = narrates.parts(ToolActivity("t", "Write", kind="edit", content=(diff,)))
    assert isinstance(part, ActivityPart)
    assert part.diff is not None
    assert 250_000 < len(part.diff) <= 256_000
    assert part.diff.endswith("\n")
