"""Scripts as models: from Python, from files, and with time in our hands."""

import asyncio
import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from dragoman.backends.scripted import (
    Script,
    ScriptedModel,
    ScriptError,
    When,
    act,
    call,
    data,
    fail,
    forever,
    image,
    load_script,
    parse_script,
    reply,
    say,
    think,
    wait,
)
from dragoman.lm import (
    CancellationSource,
    DataPart,
    GuardedModel,
    LanguageModelError,
    Message,
    Outcome,
    Request,
    Response,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    estimate_tokens,
    system,
    user,
)
from lm.providers import ask, respond, within_deadline


class Clock:
    """A clock whose time passes only in `sleep`."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


def _answered(*results: ToolResultPart, prompt: str = "go") -> Request:
    """A request after one answer whose calls came to these results."""
    calls = [ToolCallPart(result.call_id, f"tool_{n}", {}) for n, result in enumerate(results)]
    return ask(user(prompt), assistant("so", *calls), user(*results))


def _result(text: str, *, is_error: bool = False, outcome: Outcome | None = None) -> ToolResultPart:
    return ToolResultPart("dg_old", (TextPart(text),), is_error=is_error, outcome=outcome)


async def _text(model: ScriptedModel, request: Request) -> str:
    response = Response()
    await respond(model, request, sink=response)
    return response.text


# --- what it says


async def test_every_kind_of_step_becomes_its_part() -> None:
    model = ScriptedModel.of(
        reply(
            think("Let me think."),
            "Hello there.",
            call("read_file", path="a"),
            data({"n": 1}),
            data("a,b", "text/csv"),
            data("x", "application/json"),
            image(b"\x89PNG"),
            image(b"GIF8", "image/gif"),
        )
    )
    parts = await respond(model, ask())
    (made,) = [part for part in parts if isinstance(part, ToolCallPart)]
    assert parts == [
        *(ThinkingPart(word) for word in ("Let ", "me ", "think.")),
        TextPart("Hello "),
        TextPart("there."),
        ToolCallPart(made.call_id, "read_file", {"path": "a"}),
        DataPart("application/json", b'{"n":1}'),
        DataPart("text/csv", b"a,b"),
        DataPart("application/json", b'"x"'),
        DataPart("image/png", b"\x89PNG"),
        DataPart("image/gif", b"GIF8"),
    ]


@given(st.text())
def test_words_are_pieces_of_the_whole(text: str) -> None:
    model = ScriptedModel.of(reply(say(text.replace("$", ""))))
    parts = asyncio.run(respond(model, ask()))
    assert "".join(part.value for part in parts if isinstance(part, TextPart)) == text.replace("$", "")
    assert all(part != TextPart("") for part in parts)


def test_a_call_takes_its_arguments_by_name_or_as_an_object() -> None:
    assert call("x", {"a": 1}, b=2).input == {"a": 1, "b": 2}
    assert call("x", {"call_id": 1}, call_id="dg_1").input == {"call_id": 1}
    assert call("x").input == {}


async def test_a_call_with_unreadable_arguments_has_no_input() -> None:
    (part,) = await respond(ScriptedModel.of(call("read_file", unparsed="{oops", call_id="dg_1")), ask())
    assert part == ToolCallPart("dg_1", "read_file", {}, "{oops")


async def test_call_ids_are_legal_and_differ_over_rounds_models_and_repetitions() -> None:
    def model() -> ScriptedModel:
        return ScriptedModel.of(reply(call("read_file"), call("list_files")), reply(call("read_file")))

    seen: list[str] = []
    one = model()
    for guarded in (GuardedModel(one), GuardedModel(one), GuardedModel(model())):
        first = Response()
        await respond(guarded, ask(), sink=first)
        second = Response()
        results = user(*(ToolResultPart(made.call_id) for made in first.calls))
        await respond(guarded, ask(user("hello"), first.message(), results), sink=second)
        seen += [made.call_id for made in (*first.calls, *second.calls)]
    assert len(seen) == len(set(seen)) == 9


async def test_the_part_of_a_call_id_that_is_ours_alone_can_be_given() -> None:
    model = ScriptedModel(Script.in_turn(reply(call("read_file"), call("read_file"))), tag=lambda: "t")
    assert [part.call_id for part in await respond(model, ask()) if isinstance(part, ToolCallPart)] == [
        "dg_0_0_t",
        "dg_0_1_t",
    ]


def test_the_model_describes_itself_and_counts() -> None:
    model = ScriptedModel.of("x")
    assert model.info.id == "script"
    assert model.count_tokens("some text") == estimate_tokens("some text")
    info = msgspec.structs.replace(model.info, id="other")
    assert ScriptedModel.of("x", info=info).info is info


async def test_requests_can_be_looked_at_afterwards() -> None:
    model = ScriptedModel.of("x")
    await respond(model, ask())
    assert list(model.requests) == [ask()]


# --- which reply answers


async def test_replies_without_conditions_answer_one_after_the_other() -> None:
    model = ScriptedModel.of("one", reply("two"), say("three"))
    history: list[Message] = [user("a")]
    for expected in ("one", "two", "three"):
        assert await _text(model, ask(*history)) == expected
        assert await _text(model, ask(*history)) == expected, "asking again changes nothing"
        history += [assistant(expected), user("more")]
    with pytest.raises(
        LanguageModelError, match=r"no reply to “more” \(round 0, 3 answers so far, 2 tools offered\)"
    ):
        await _text(model, ask(*history))


async def test_a_reply_that_is_missing_says_what_to_do() -> None:
    with pytest.raises(LanguageModelError) as caught:
        await _text(ScriptedModel.of(reply("x", when=When(round=7))), _answered(_result("r")))
    assert caught.value.kind == "bad_request"
    assert "no reply to 1 results" in caught.value.message
    assert caught.value.hint == "Add a line whose conditions hold, or one without any at the end."


async def test_t14_a_reply_that_makes_no_call_is_refused_where_one_is_required() -> None:
    model = ScriptedModel.of("Words.", call("read_file"), fail("unavailable", "Not now"))
    required = ask(tool_mode="required")
    with pytest.raises(
        LanguageModelError, match=r"A tool call is required, but the reply .* makes none"
    ) as caught:
        await respond(model, required)
    assert (caught.value.kind, bool(caught.value.hint)) == ("bad_request", True)
    assert await _text(model, ask()) == "Words."
    messages = (user("x"), assistant("y"), user("z"))
    parts = await respond(GuardedModel(model), ask(*messages, tool_mode="required"))
    assert [type(part) for part in parts] == [ToolCallPart]
    # A reply that fails is no answer at all, and owes nothing.
    with pytest.raises(LanguageModelError, match="Not now"):
        await respond(model, ask(*messages, assistant("y"), user("z"), tool_mode="required"))


@pytest.mark.parametrize(
    ("when", "request_", "holds"),
    [
        (When(), ask(), True),
        (When(prompt="^hel"), ask(), True),
        (When(prompt="bye"), ask(), False),
        (When(prompt="last"), ask(user("first"), assistant("x"), user("the last")), True),
        (When(prompt="first"), ask(user("first"), assistant("x"), user("the last")), False),
        (When(prompt="go"), _answered(_result("r")), True),
        (When(prompt="x"), ask(system("x")), False),
        (When(result="4"), _answered(_result("42")), True),
        (When(result="5"), _answered(_result("42")), False),
        (When(result=""), ask(), False),
        (
            When(result="42"),
            ask(user("a"), assistant("b"), user(_result("42")), assistant("c"), user("d")),
            False,
        ),
        (When(outcome="ok"), _answered(_result("r")), True),
        (When(outcome="error"), _answered(_result("r", is_error=True)), True),
        (When(outcome="denied"), _answered(_result("r", is_error=True, outcome="denied")), True),
        (When(outcome="error"), _answered(_result("r", is_error=True, outcome="denied")), False),
        (When(outcome="ok"), ask(), False),
        (When(called="tool_0"), _answered(_result("r")), True),
        (When(called="tool_1"), _answered(_result("r")), False),
        (When(called="tool_1"), _answered(_result("r"), ToolResultPart("dg_2")), True),
        (When(called="tool_0"), ask(), False),
        (When(round=0), ask(), True),
        (When(round=1), _answered(_result("r")), True),
        (When(round=0), _answered(_result("r")), False),
        (When(round=0), ask(user("a"), assistant("b"), user("c")), True),
        (When(answers=1), ask(user("a"), assistant("b"), user("c")), True),
        (When(answers=0), ask(user("a"), assistant("b"), user("c")), False),
        (When(tools=("read_file",)), ask(), True),
        (When(tools=("read_file", "rm")), ask(), False),
        (When(prompt="hello", tools=("rm",)), ask(), False),
        # Denied without a reason, then the user went on: the prompt counts, the results are still there to see.
        (
            When(round=0, outcome="denied"),
            ask(user("a"), assistant("b"), user(_result("r", outcome="denied")), user("c")),
            True,
        ),
        # Each result in a message of its own, as some consumers send them.
        (
            When(result="two"),
            ask(user("a"), assistant("b"), user(_result("one")), user(_result("two"))),
            True,
        ),
    ],
)
async def test_conditions(when: When, request_: Request, holds: bool) -> None:  # noqa: FBT001 - a table
    model = ScriptedModel.of(reply("held", when=when), reply("did not", when=When()))
    assert await _text(model, request_) == ("held" if holds else "did not")


def test_a_condition_that_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="`result` is not a regular expression"):
        When(result="(")


# --- what it fills in


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("${prompt}!", "go!"),
        ("${result}", "one\n${prompt}"),
        ("${result.0}, ${result.1}, ${result.2}.", "one, ${prompt}, ."),
        ("[${reason}]", "[]"),
        ("$${prompt} $prompt $ {prompt} $$", "${prompt} $prompt $ {prompt} $$"),
    ],
)
async def test_places_are_filled_once(text: str, filled: str) -> None:
    request = _answered(_result("one"), _result("${prompt}"))
    assert await _text(ScriptedModel.of(reply(text, when=When())), request) == filled


async def test_the_reason_of_a_refusal_can_be_repeated() -> None:
    refusal = _result(
        "Tool use rejected with user message: use\nthe other file", is_error=True, outcome="denied"
    )
    model = ScriptedModel.of(reply("You said: ${reason}", when=When()))
    assert await _text(model, _answered(_result("ok"), refusal)) == "You said: use\nthe other file"


async def test_places_in_arguments_thoughts_and_failures_are_filled() -> None:
    arguments = {"path": "${prompt}", "deep": [{"${prompt}": "${prompt}", "n": 1, "t": True}]}
    model = ScriptedModel.of(
        reply(think("${prompt}"), call("read_file", arguments), fail("blocked", "no ${prompt}"))
    )
    response = Response()
    with pytest.raises(LanguageModelError, match="no hello"):
        await respond(model, ask(), sink=response)
    assert response.thinking == "hello"
    assert response.calls[0].input == {"path": "hello", "deep": [{"${prompt}": "hello", "n": 1, "t": True}]}


# --- failing


async def test_a_failure_is_the_error_it_says() -> None:
    model = ScriptedModel.of(reply("so far", fail("auth_required", "Log in", hint="Run it.", retry_after=2)))
    response = Response()
    with pytest.raises(LanguageModelError) as caught:
        await respond(model, ask(), sink=response)
    error = caught.value
    assert (error.kind, error.message, error.hint, error.retry_after) == (
        "auth_required",
        "Log in",
        "Run it.",
        2,
    )
    assert response.text == "so far"


async def test_a_failure_may_pass_after_a_number_of_times() -> None:
    model = ScriptedModel.of(reply(fail("unavailable", times=2), "at last"), fail("timeout"))
    for _ in range(2):
        with pytest.raises(LanguageModelError, match="The script fails here"):
            await respond(model, ask())
    assert await _text(model, ask()) == "at last"
    for _ in range(3):
        with pytest.raises(LanguageModelError) as caught:
            await respond(model, ask(user("a"), assistant("b"), user("c")))
        assert caught.value.kind == "timeout"


async def test_anything_can_be_done_in_mid_answer() -> None:
    done: list[str] = []

    async def later() -> None:
        done.append("awaited")

    model = ScriptedModel.of(reply("a", act(lambda: done.append("called")), act(later), "b"))
    assert await _text(model, ask()) == "ab"
    assert done == ["called", "awaited"]


# --- time


async def test_it_keeps_the_pace() -> None:
    clock = Clock()
    script = Script((reply("a b", say("c", pace=2), think("d"), wait(3)),), pace=10)
    await respond(ScriptedModel(script, sleep=clock.sleep), ask())
    assert clock.slept == [0.1, 0.1, 0.5, 0.1, 3]


async def test_time_can_run_faster_or_not_at_all() -> None:
    script = Script((reply("a", wait(3)),), pace=10)
    for speed, expected in ((2, [0.05, 1.5]), (math.inf, [0, 0])):
        clock = Clock()
        await respond(ScriptedModel(script, speed=speed, sleep=clock.sleep), ask())
        assert clock.slept == expected


@pytest.mark.parametrize("speed", [0, -1, math.nan])
def test_time_does_not_stand_still_or_run_backwards(speed: float) -> None:
    with pytest.raises(ValueError, match="more than 0"):
        ScriptedModel.of("x", speed=speed)


async def test_a_model_from_python_waits_for_nothing() -> None:
    clock = Clock()
    await respond(ScriptedModel.of(reply("a b", wait(1000)), sleep=clock.sleep), ask())
    assert clock.slept == [0, 0, 0]


async def test_others_get_their_turn_between_two_words() -> None:
    order: list[str] = []

    class Noting(Response):
        def __init__(self, name: str) -> None:
            super().__init__()
            self._name = name

        def report(self, part: object) -> None:
            order.append(self._name)

    model = ScriptedModel.of("a b c")
    await asyncio.gather(respond(model, ask(), sink=Noting("1")), respond(model, ask(), sink=Noting("2")))
    assert order == ["1", "2"] * 3


# --- cancelling


async def test_s6_a_cancelled_script_stops_where_it_waits_and_resolves() -> None:
    source = CancellationSource()
    began = asyncio.Event()
    model = ScriptedModel.of(reply("before", act(began.set), forever(), "after"))
    response = Response()
    running = asyncio.ensure_future(model.respond(ask(), response, source.token))
    await within_deadline(began.wait())
    source.cancel()
    await within_deadline(running)
    assert response.text == "before"


async def test_s6_a_cancelled_script_does_not_sleep_on() -> None:
    source = CancellationSource()
    sleeping = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds:
            sleeping.set()
            await asyncio.Event().wait()

    model = ScriptedModel(Script((reply("a", wait(5), "b"),)), sleep=sleep)
    response = Response()
    running = asyncio.ensure_future(model.respond(ask(), response, source.token))
    await within_deadline(sleeping.wait())
    source.cancel()
    await within_deadline(running)
    assert response.text == "a"


async def test_s6_a_cancelled_script_stops_before_its_next_step() -> None:
    """It goes no further, as a provider stops asking upstream for more."""
    source = CancellationSource()
    reached: list[str] = []
    model = ScriptedModel.of(
        reply(
            "a", act(source.cancel), call("read_file"), act(lambda: reached.append("step")), fail("internal")
        )
    )
    assert await respond(model, ask(), source.token) == [TextPart("a")]
    assert reached == []


async def test_s6_a_script_is_not_stuck_behind_a_slow_consumer() -> None:
    source = CancellationSource()
    full = asyncio.Event()

    class Full(Response):
        async def drain(self) -> None:
            full.set()
            await asyncio.Event().wait()

    response = Full()
    running = asyncio.ensure_future(ScriptedModel.of("a b c").respond(ask(), response, source.token))
    await within_deadline(full.wait())
    source.cancel()
    await within_deadline(running)
    assert response.text == "a "


async def test_s6_a_script_that_is_cancelled_before_it_begins_says_nothing() -> None:
    source = CancellationSource()
    source.cancel()
    assert await respond(ScriptedModel.of("a"), ask(), source.token) == []


# --- files

_FILE = """\
// A comment, a blank line, settings, and replies.

{"model": {"name": "Tape", "version": "2", "capabilities": {"toolCalling": 8, "imageInput": false}, "tags": ["demo"]}, "pace": 100}
  // Another comment.
{"when": {"prompt": "notes", "round": 0, "tools": ["read_file"]}, "do": [{"think": "hm"}, {"say": "Let me look.", "pace": 5}, {"call": "read_file", "input": {"path": "n", "more": [1, {"a": "b"}]}}]}
{"when": {"outcome": "denied"}, "do": [{"say": "${reason}"}]}
{"when": {"result": "x", "called": "read_file", "answers": 1}, "do": [{"wait": 0.5}, {"wait": "forever"}]}
{"when": {"prompt": "fail"}, "do": [{"fail": "unavailable", "message": "m", "hint": "h", "times": 2, "retryAfter": 1.5}]}
{"when": {"prompt": "data"}, "do": [{"data": {"a": 1}}, {"data": "t", "mimeType": "text/plain"}, {"image": "iVBORw==", "mimeType": "image/png"}]}
{"when": {"prompt": "bad"}, "do": [{"call": "read_file", "unparsed": "{", "callId": "dg_1"}]}
{"do": [{"say": "You said:\u2028${prompt}"}]}
"""


def test_a_file_holds_everything_a_script_can(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_text(_FILE, "utf-8")
    script = load_script(path)
    assert script.info.id == "tape"
    assert (script.info.name, script.info.version, script.info.family) == ("Tape", "2", "script")
    assert script.info.capabilities.tool_calling == 8
    assert script.pace == 100
    assert [(made.when, made.steps) for made in script.replies] == [
        (
            When(prompt="notes", round=0, tools=("read_file",)),
            (think("hm"), say("Let me look.", pace=5), call("read_file", path="n", more=[1, {"a": "b"}])),
        ),
        (When(outcome="denied"), (say("${reason}"),)),
        (When(result="x", called="read_file", answers=1), (wait(0.5), forever())),
        (When(prompt="fail"), (fail("unavailable", "m", hint="h", times=2, retry_after=1.5),)),
        (When(prompt="data"), (data({"a": 1}), data("t", "text/plain"), image(b"\x89PNG"))),
        (When(prompt="bad"), (call("read_file", unparsed="{", call_id="dg_1"),)),
        (None, (say("You said:\u2028${prompt}"),)),
    ]
    assert script.replies[0].where == f"{path}:5"


async def test_a_model_from_a_file_has_the_id_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_text('{"model": {"id": "own"}}\n{"do": [{"say": "${prompt}"}]}\n', "utf-8")
    assert load_script(path, id="configured").info.id == "configured"
    model = ScriptedModel(load_script(path), speed=math.inf)
    assert model.info.id == "own"
    assert await _text(model, ask()) == "hello"


def test_a_file_without_settings_is_read_at_a_persons_pace() -> None:
    script = parse_script('{"do": [{"say": "x"}]}')
    assert script.pace == 30
    assert script.info.id == "script"


def test_windows_line_ends_do_no_harm() -> None:
    assert (
        len(
            parse_script(
                '// x\r\n\r\n{"when": {"round": 1}, "do": [{"say": "x"}]}\r\n{"do": [{"say": "y"}]}\r\n'
            ).replies
        )
        == 2
    )


_ONE = '{"do": [{"say": "x"}]}'


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("", None, "there is no reply in the script. Add one:"),
        ("// only a comment", None, "there is no reply"),
        ("{", 1, "not valid JSON"),
        (f"\n\n{{}}x\n{_ONE}", 3, "not valid JSON"),
        ("[1]", 1, "a line is a JSON object like"),
        ("{}", 1, 'a reply has steps: "do"'),
        ('{"do": []}', 1, "a reply has steps"),
        ('{"do": {"say": "x"}}', 1, "a reply has steps"),
        ('{"don": []}', 1, "`don` is not a part of a reply. Did you mean `do`? There are `do`, `when`."),
        ('{"do": [3]}', 1, 'step 1: a step is an object like {"say": "…"}'),
        ('{"do": [{"say": "x"}, {}]}', 1, "step 2: a step has exactly one of `say`, `think`"),
        ('{"do": [{"say": "x", "think": "y"}]}', 1, "step 1: a step has exactly one of"),
        (
            '{"do": [{"sya": "x"}]}',
            1,
            "step 1: `sya` is not a step. Did you mean `say`? There are `call`, `data`",
        ),
        (
            '{"do": [{"say": "x", "pase": 1}]}',
            1,
            "`pase` is not a part of a `say` step. Did you mean `pace`?",
        ),
        ('{"do": [{"say": 1}]}', 1, "step 1: Expected `str`, got `int` - at `$.say`."),
        ('{"do": [{"say": "x", "pace": 0}]}', 1, "Expected `float` > 0.0 - at `$.pace`."),
        ('{"do": [{"wait": -1}]}', 1, "Expected `float` >= 0.0 - at `$.wait`."),
        ('{"do": [{"wait": "a while"}]}', 1, "at `$.wait`"),
        (
            '{"do": [{"fail": "unavailabel"}]}',
            1,
            "`unavailabel` is not a value of `fail`. Did you mean `unavailable`?",
        ),
        ('{"do": [{"fail": 3}]}', 1, "at `$.fail`"),
        ('{"do": [{"fail": "timeout", "times": 0}]}', 1, "Expected `int` >= 1 - at `$.times`."),
        ('{"do": [{"image": "?"}]}', 1, "Invalid base64"),
        ('{"do": [{"image": "", "mimeType": "text/plain"}]}', 1, "begins with 'image/'"),
        ('{"do": [{"call": "x", "input": [1]}]}', 1, "Expected `object`, got `array` - at `$.input`."),
        (
            '{"do": [{"say": "${promt}"}]}',
            1,
            "`${promt}` is nothing that can be filled in. Did you mean `prompt`?",
        ),
        ('{"do": [{"think": "${HOME}"}]}', 1, "write `$${HOME}` to say it as it stands"),
        ('{"do": [{"call": "x", "input": {"a": [{"b": "${}"}], "c": 1}}]}', 1, "`${}` is nothing"),
        ('{"do": [{"fail": "timeout", "message": "${result.x}"}]}', 1, "`${result.x}` is nothing"),
        ('{"when": 3, "do": [{"say": "x"}]}', 1, "`when` is an object of conditions"),
        (
            '{"when": {"promt": "x"}, "do": [{"say": "x"}]}',
            1,
            "`promt` is not a condition. Did you mean `prompt`?",
        ),
        ('{"when": {"prompt": "("}, "do": [{"say": "x"}]}', 1, "`prompt` is not a regular expression"),
        ('{"when": {"round": -1}, "do": [{"say": "x"}]}', 1, "Expected `int` >= 0 - at `$.round`."),
        ('{"when": {"outcome": "denid"}, "do": [{"say": "x"}]}', 1, "Did you mean `denied`?"),
        ('{"when": {"tools": "x"}, "do": [{"say": "x"}]}', 1, "at `$.tools`"),
        (
            f'{_ONE}\n{{"pace": 1}}',
            2,
            "settings stand once, before every reply. Move them to the first line.",
        ),
        ('{"pace": 1}\n{"pace": 1}', 2, "settings stand once"),
        ('{"pace": 0}', 1, "`pace` is words a second, so more than 0; not 0."),
        ('{"pace": "fast"}', 1, "at `$.pace`"),
        ('{"pace": 1, "do": []}', 1, "`do` is not a setting."),
        ('{"model": {"nam": "x"}}', 1, "`model`: `nam` is not a field of a model. Did you mean `name`?"),
        ('{"model": {"name": 3}}', 1, "`model`: Expected `str`, got `int` - at `$.name`."),
        ('{"model": 3}', 1, "at `$.model`"),
        (
            f"{_ONE}\n// x\n{_ONE}",
            3,
            "never answers, because tape.jsonl:1 has no conditions and stands before it.",
        ),
        (f'{{"when": {{}}, "do": [{{"say": "x"}}]}}\n{_ONE}', 2, "never answers, because tape.jsonl:1"),
    ],
)
def test_a_file_that_is_not_right_is_refused_with_the_place_and_the_cure(
    text: str, line: int | None, complaint: str
) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script(text, source="tape.jsonl")
    place = "tape.jsonl" if line is None else f"tape.jsonl:{line}"
    assert str(caught.value).startswith(f"{place}: ")
    assert complaint in str(caught.value)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="No such file or directory"):
        load_script(tmp_path / "none.jsonl")
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes(b'{"do": [{"say": "\xe9"}]}')
    with pytest.raises(ScriptError, match="is not UTF-8 text"):
        load_script(latin)


def test_what_is_said_literally_need_not_be_a_place() -> None:
    (made,) = parse_script(json.dumps({"do": [{"say": "$${HOME} $5 {x}"}]})).replies
    assert made.steps == (say("$${HOME} $5 {x}"),)
