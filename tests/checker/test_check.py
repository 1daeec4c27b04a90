"""The checker finds every broken rule under its id, and never calls a rule kept that nobody could have broken."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from dragoman.backends.scripted import ScriptedModel, When, call, data, fail, image, reply, say, think
from dragoman.checker.check import CheckReport, VerdictRow, check, render
from dragoman.checker.probes import PROBE_TOOL, Probe, all_probes, probes
from dragoman.lm import (
    RULES,
    ActivityPart,
    CancellationError,
    CancellationToken,
    DataPart,
    GuardedModel,
    LanguageModel,
    LanguageModelError,
    PlanPart,
    Request,
    RequestOptions,
    Sink,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
    until_cancelled,
)
from dragoman.lm.parts import STATEFUL_MARKER
from lm.providers import Provider, info
from virtual_clock import VirtualClock, VirtualTimeLoop, run

Body = Callable[[Request, Sink, CancellationToken], Awaitable[None]]


def _clock() -> VirtualClock:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop.clock


def checked(model: LanguageModel | Body) -> CheckReport:
    """The report on a model, in no time."""

    async def work() -> CheckReport:
        return await check(Provider(model) if callable(model) else model, clock=_clock())

    return run(work())


def _row(report: CheckReport, rule: str) -> VerdictRow:
    (row,) = [row for row in report.rows if row.rule.id == rule]
    return row


def _failed(report: CheckReport) -> set[str]:
    return {row.rule.id for row in report.rows if row.verdict == "fail"}


_ids = iter(range(1_000_000))


async def good(request: Request, sink: Sink, token: CancellationToken) -> None:
    """A provider as it should be."""
    if not request.messages:
        raise LanguageModelError("bad_request", "There is nothing to answer.")

    async def answer() -> None:
        sink.report(DataPart(STATEFUL_MARKER, b"test\\abc"))
        sink.report(ThinkingPart("hm"))
        for word in f"You said: {request.messages[-1].text}".split(" "):
            token.raise_if_cancelled()
            sink.report(TextPart(f"{word} "))
            await sink.drain()
        sink.report(PlanPart(()))
        step = f"step {next(_ids)}"
        sink.report(ActivityPart(step, "Look", "read", "pending"))
        sink.report(ActivityPart(step, "Look", "read", "completed"))
        for tool in request.options.tools:
            sink.report(ToolCallPart(f"dg_{next(_ids)}", tool.name, {"town": "Izmir"}))
        sink.report(UsagePart(1, 2))

    try:
        await until_cancelled(answer(), token)
    except CancellationError:
        return


def _then(*parts: object) -> Body:
    """A good provider but for what it reports in the end."""

    async def body(request: Request, sink: Sink, token: CancellationToken) -> None:
        await good(request, sink, token)
        if not token.cancelled():
            for part in parts:
                sink.report(part)  # type: ignore[arg-type]  # the point

    return body


def test_s12_a_good_provider_passes_and_every_rule_has_a_row() -> None:
    report = checked(good)
    assert [row.rule for row in report.rows] == list(RULES.values())
    verdicts = {row.rule.id: row.verdict for row in report.rows}
    assert verdicts == {**dict.fromkeys(RULES, "pass"), "S12": "not exercised"}
    assert _row(report, "S6").detail == "2 cancellations"
    assert report.passed
    assert report.unanswered == ()
    assert report.inconclusive is None


def test_s12_a_guarded_model_passes_whatever_is_inside() -> None:
    worst = _then(ToolResultPart("dg_1"), "nonsense")
    assert not _failed(checked(GuardedModel(Provider(worst))))


# --- one provider for each rule, broken on purpose


async def _late(request: Request, sink: Sink, token: CancellationToken) -> None:
    await good(request, sink, token)
    asyncio.get_running_loop().call_soon(sink.report, TextPart("late"))


async def _from_a_thread(request: Request, sink: Sink, token: CancellationToken) -> None:
    await good(request, sink, token)
    if token.cancelled():
        return
    thread = threading.Thread(target=sink.report, args=[TextPart("elsewhere")])
    thread.start()
    thread.join(timeout=10)


class _Mixing:
    """Keeps the sink on the instance, so that the second request takes over the answer to the first."""

    def __init__(self) -> None:
        self._sink: Sink | None = None

    async def __call__(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        self._sink = sink
        if not token.cancelled():
            sink.report(TextPart("So: "))

        class Current:
            def report(_self, part: object) -> None:  # noqa: N805 - the outer self is the one that matters
                assert self._sink is not None
                self._sink.report(part)  # type: ignore[arg-type]  # passed through

            async def drain(_self) -> None:  # noqa: N805 - as above
                await sink.drain()

        await good(request, Current(), token)


async def _same_ids_every_time(request: Request, sink: Sink, token: CancellationToken) -> None:
    if request.options.tools:
        sink.report(ToolCallPart("dg_call_0", PROBE_TOOL, {}))
    else:
        await good(request, sink, token)


async def _ids_of_the_history(request: Request, sink: Sink, token: CancellationToken) -> None:
    old = [made for message in request.messages for made in message.calls]
    if old and request.options.tools:
        sink.report(old[0])
    else:
        await good(request, sink, token)


async def _deaf(request: Request, sink: Sink, _token: CancellationToken) -> None:
    await good(request, sink, CancellationToken())


async def _raises_on_cancel(request: Request, sink: Sink, token: CancellationToken) -> None:
    await good(request, sink, token)
    token.raise_if_cancelled()


async def _rejects_on_cancel(request: Request, sink: Sink, token: CancellationToken) -> None:
    await good(request, sink, token)
    if token.cancelled():
        raise LanguageModelError("internal", "stopped")


async def _hangs_on_cancel(request: Request, sink: Sink, token: CancellationToken) -> None:
    await good(request, sink, token)
    if token.cancelled():
        await asyncio.get_running_loop().create_future()


class _BrokenByCancel:
    def __init__(self) -> None:
        self._cancelled = False

    async def __call__(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        if self._cancelled:
            raise LanguageModelError("unavailable", "still busy with what was cancelled")
        await good(request, sink, token)
        self._cancelled = token.cancelled()


async def _raises_anything(request: Request, sink: Sink, token: CancellationToken) -> None:
    request.messages[-1]
    await good(request, sink, token)


async def _cancels_itself(request: Request, sink: Sink, token: CancellationToken) -> None:
    if not request.messages:
        raise asyncio.CancelledError
    await good(request, sink, token)


async def _says_nothing_without_features(request: Request, sink: Sink, token: CancellationToken) -> None:
    if request.consumer.features.thinking:
        await good(request, sink, token)
    else:
        sink.report(ThinkingPart("only thinking"))
        sink.report(TextPart(" \n"))


async def _thinks_aloud(request: Request, sink: Sink, token: CancellationToken) -> None:
    for piece in ("\n<th", "ink>hm", "</think>\n"):
        if not token.cancelled():
            sink.report(TextPart(piece))
    await good(request, sink, token)


async def _calls_without_an_offer(request: Request, sink: Sink, token: CancellationToken) -> None:
    await good(request, sink, token)
    if not token.cancelled():
        sink.report(ToolCallPart(f"dg_{next(_ids)}", PROBE_TOOL, {}))


async def _never_calls(request: Request, sink: Sink, token: CancellationToken) -> None:
    await good(msgspec.structs.replace(request, options=RequestOptions()), sink, token)


def _bad_call(call_id: str, arguments: object = None, unparsed: str | None = None) -> Body:
    async def body(request: Request, sink: Sink, token: CancellationToken) -> None:
        if request.options.tools:
            made = ToolCallPart(call_id.format(next(_ids)), PROBE_TOOL, arguments or {}, unparsed)  # type: ignore[arg-type]
            sink.report(made)
        else:
            await good(request, sink, token)

    return body


_BAD: list[tuple[str, Body, str]] = [
    ("S1", _late, "after the response had ended"),
    ("S1", _from_a_thread, "from another thread"),
    ("S1", _Mixing(), "two answers at once were mixed up"),
    ("S2", _then("a string"), "str is not a part"),
    ("S2", _then(TextPart("\ud83d")), "not a string of text"),
    ("S3", _then(ToolResultPart("dg_1", (TextPart("42"),))), "a tool result for 'dg_1' was reported"),
    ("S4.unique", _same_ids_every_time, "'dg_call_0' was used in an earlier answer"),
    ("S4.unique", _ids_of_the_history, "'call_probe_1' was used before"),
    ("S4.legal", _bad_call("dg_{}__vscode-1"), "is not legal"),
    ("S4.namespaced", _bad_call("call_{}"), "does not begin with 'dg_'"),
    ("S5", _calls_without_an_offer, f"the tool '{PROBE_TOOL}' was not offered"),
    ("S6", _deaf, "a part was reported after the cancellation"),
    ("S6", _raises_on_cancel, "did not resolve: CancellationError: the request was cancelled"),
    ("S6", _rejects_on_cancel, "did not resolve: internal: stopped."),
    ("S6", _hangs_on_cancel, "did not resolve: DeadlinePassed: 120 seconds have passed"),
    ("S6", _BrokenByCancel(), "after a cancellation a prompt was not answered"),
    ("S7", _bad_call("dg_{}", [1]), "is not a JSON object"),
    ("S7", _bad_call("dg_{}", unparsed="{oops"), "are not a JSON object"),
    ("S8", _raises_anything, "not a LanguageModelError: IndexError"),
    ("S8", _cancels_itself, "not a LanguageModelError: WorkCancelled"),
    ("S9", _says_nothing_without_features, "no text and no tool call"),
    ("S10", _thinks_aloud, "marked <think>"),
    ("S11", _then(DataPart("", b"x")), "has no mime type"),
    ("S13", _then(TextPart("[a](comm"), TextPart("and:x)")), "a link that would act"),
    ("S14", _then(ActivityPart("a", "", "read", "pending")), "an id and a title"),
    (
        "S15",
        _then(ActivityPart("a", "Look", "read", "completed"), ActivityPart("a", "Look", "read", "failed")),
        "has completed, and is failed again",
    ),
    ("S16", _then(UsagePart(-1)), "from 0 up"),
    ("T14", _never_calls, "a tool call was required and none was made"),
]


@pytest.mark.parametrize(("rule", "body", "detail"), _BAD)
def test_s12_a_broken_rule_is_found_under_its_id(rule: str, body: Body, detail: str) -> None:
    report = checked(body)
    assert _failed(report) == {rule}
    row = _row(report, rule)
    assert detail in row.detail
    assert "(and 0 more)" not in row.detail
    assert row.finding is not None
    assert row.finding.violation.rule.id == rule
    assert row.finding.probe
    assert not report.passed
    (line,) = [line for line in render(report).splitlines() if line.split() and line.split()[0] == rule]
    assert "FAIL" in line


def test_s12_every_rule_that_a_provider_can_break_is_broken_here() -> None:
    assert {rule for rule, _, _ in _BAD} == RULES.keys() - {"S12"}


def test_s12_the_offending_part_is_in_the_report() -> None:
    part = ToolResultPart("dg_1", (TextPart("42"),))
    report = checked(_then(part))
    finding = _row(report, "S3").finding
    assert finding is not None
    assert finding.violation.part is part
    assert "ToolResultPart(call_id='dg_1'" in render(report)


def test_s12_several_broken_rules_are_all_found() -> None:
    report = checked(_then(ToolResultPart("dg_1"), DataPart("", b"x"), None, TextPart("<command:x>")))
    assert _failed(report) == {"S2", "S3", "S11", "S13"}
    assert "(and " in _row(report, "S3").detail


def test_s1_the_last_answer_is_watched_for_a_while_after_its_end() -> None:
    late: list[asyncio.Task[None]] = []

    async def body(request: Request, sink: Sink, token: CancellationToken) -> None:
        async def leftover() -> None:
            await _clock().sleep(0.2)
            sink.report(TextPart("late"))

        if not request.messages:
            late.append(asyncio.ensure_future(leftover()))
        await good(request, sink, token)

    assert _failed(checked(body)) == {"S1"}


def test_s1_an_answer_that_was_given_up_has_ended() -> None:
    async def body(request: Request, sink: Sink, token: CancellationToken) -> None:
        if any(message.role == "system" for message in request.messages):
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                sink.report(TextPart("very late"))
                raise
        await good(request, sink, token)

    report = checked(body)
    assert _failed(report) == {"S1"}
    assert report.inconclusive == "the answer to the system message never ended"


def test_s6_what_comes_after_a_cancellation_breaks_that_rule_and_no_other() -> None:
    async def body(request: Request, sink: Sink, token: CancellationToken) -> None:
        await good(request, sink, token)
        if token.cancelled():
            sink.report(ToolResultPart("dg_1"))

    report = checked(body)
    assert _failed(report) == {"S6"}
    finding = _row(report, "S6").finding
    assert finding is not None
    assert finding.violation.part == ToolResultPart("dg_1")


def test_s9_a_model_that_says_nothing_has_not_answered() -> None:
    async def body(_request: Request, _sink: Sink, _token: CancellationToken) -> None:
        """Nothing."""

    report = checked(body)
    assert "S9" in _failed(report)
    assert report.inconclusive == "the plain prompt was not answered"


def test_two_answers_at_once_get_their_turns() -> None:
    order: list[str] = []

    async def body(request: Request, sink: Sink, _token: CancellationToken) -> None:
        for _ in range(3):
            sink.report(TextPart("x"))
            order.append(request.messages[-1].text if request.messages else "")
            await sink.drain()

    checked(body)
    first, second = ("Write the word amber three times.", "Write the word cobalt three times.")
    assert [text for text in order if text in (first, second)] == [first, second] * 3


# --- not exercised


async def _quiet(request: Request, sink: Sink, _token: CancellationToken) -> None:
    sink.report(TextPart(f"ok {len(request.messages)}"))


def test_s12_what_nobody_could_have_broken_is_not_exercised() -> None:
    report = checked(Provider(_quiet, required_calls=False))
    assert {row.rule.id for row in report.rows if row.verdict == "not exercised"} == {
        "S4.unique",
        "S4.legal",
        "S4.namespaced",
        "S5",
        "S7",
        "S8",
        "S10",
        "S11",
        "S12",
        "S14",
        "S15",
        "S16",
        "T14",
    }
    assert report.passed
    assert _row(report, "S5").detail == "no call was made"


def test_s12_one_call_shows_nothing_about_uniqueness() -> None:
    made: list[int] = []

    async def body(request: Request, sink: Sink, token: CancellationToken) -> None:
        if request.options.tools and not made:
            made.append(1)
            sink.report(ToolCallPart("dg_only", PROBE_TOOL, {}))
        else:
            await _quiet(request, sink, token)

    report = checked(body)
    assert _row(report, "S4.legal").verdict == "pass"
    assert _row(report, "S4.unique").verdict == "not exercised"


def test_s12_a_part_that_breaks_a_rule_is_no_occasion_for_another() -> None:
    async def body(request: Request, sink: Sink, token: CancellationToken) -> None:
        await _quiet(request, sink, token)
        if not token.cancelled():
            sink.report(DataPart("", b"x"))
            sink.report("nonsense")  # type: ignore[arg-type]  # the point
            sink.report(ToolCallPart("dg_1", "not offered", {}))

    report = checked(body)
    assert _failed(report) == {"S2", "S5", "S11"}
    assert _row(report, "S4.legal").verdict == "not exercised"
    assert _row(report, "S7").verdict == "not exercised"


def test_s12_a_model_that_never_answers_does_not_pass() -> None:
    async def body(_request: Request, _sink: Sink, _token: CancellationToken) -> None:
        raise LanguageModelError("unavailable", "Nobody is there", hint="Start it.")

    report = checked(body)
    assert not _failed(report)
    assert not report.passed
    assert report.inconclusive == "the plain prompt was not answered"
    assert report.unanswered[0] == ("plain prompt", "unavailable: Nobody is there. Start it.")
    assert _row(report, "S8").verdict == "pass"
    told = render(report)
    assert "\n0 failed. This says little about the model: the plain prompt was not answered.\n" in told
    assert " passed" not in told
    assert told.count("Nobody is there") == 1, (
        "the same cause is told once, with all that it kept from being answered"
    )


def test_s12_a_mark_that_comes_before_a_failure_is_no_answer_to_judge_by() -> None:
    async def body(_request: Request, sink: Sink, _token: CancellationToken) -> None:
        sink.report(DataPart(STATEFUL_MARKER, b"agent\\mark"))
        raise LanguageModelError("unavailable", "Nobody is there")

    report = checked(body)
    passed = {row.rule.id for row in report.rows if row.verdict == "pass"}
    assert passed == {"S8"}


def test_s12_a_model_that_never_ends_is_left_alone() -> None:
    asked: list[Request] = []

    async def body(request: Request, sink: Sink, _token: CancellationToken) -> None:
        asked.append(request)
        sink.report(TextPart("and then"))
        await asyncio.get_running_loop().create_future()

    report = checked(body)
    assert len(asked) == 1
    assert report.inconclusive == "the answer to the plain prompt never ended"
    assert not report.passed


def test_s12_one_answer_that_never_ends_does_not_pass_either() -> None:
    async def body(request: Request, sink: Sink, token: CancellationToken) -> None:
        if len(request.messages) > 1:
            await asyncio.get_running_loop().create_future()
        await good(request, sink, token)

    report = checked(body)
    assert report.inconclusive is not None
    assert "never ended" in report.inconclusive
    assert not report.passed


def test_a_probe_that_a_model_cannot_answer_is_said_and_is_no_fault() -> None:
    async def body(request: Request, sink: Sink, token: CancellationToken) -> None:
        if any(message.role == "system" for message in request.messages):
            raise LanguageModelError("bad_request", "No system messages here.")
        await good(request, sink, token)

    report = checked(body)
    assert report.passed
    assert report.unanswered == (("system message", "bad_request: No system messages here."),)
    assert "  system message: bad_request: No system messages here." in render(report)


# --- which probes


@pytest.mark.parametrize("tool_calling", [False, 0])
def test_a_model_without_tools_is_offered_none(tool_calling: bool | int) -> None:  # noqa: FBT001 - a table
    assert not any(probe.request.options.tools for probe in probes(info(tool_calling=tool_calling)))
    assert any(probe.request.options.tools for probe in probes(info(tool_calling=1)))


def test_t14_a_call_is_required_only_of_a_model_that_can_be_made_to_call() -> None:
    able, unable = ({probe.name for probe in probes(info(required_calls=can))} for can in (True, False))
    assert able - unable == {"tool required"}
    report = checked(Provider(good, required_calls=False))
    assert (_row(report, "T14").verdict, report.passed) == ("not exercised", True)


def test_a_model_that_takes_images_is_shown_one() -> None:
    with_images = {probe.name for probe in probes(info(image_input=True))}
    assert with_images - {probe.name for probe in probes(info())} == {"image"}


def test_an_agent_is_asked_for_a_plan_and_a_step() -> None:
    agent = msgspec.structs.replace(info(), tags=("agent",))
    names = {probe.name for probe in probes(agent)} - {probe.name for probe in probes(info())}
    assert names == {"plan", "step of the agent"}


def test_every_probe_has_a_name_of_its_own() -> None:
    names = [probe.name for probe in probes(info(image_input=True))]
    assert len(names) == len(set(names))


# --- the scripted model


def _script() -> ScriptedModel:
    return ScriptedModel.of(
        reply(think("Look it up."), call(PROBE_TOOL, town="Izmir"), when=When(tools=(PROBE_TOOL,), round=0)),
        reply(data({"a": 1}), image(b"\x89PNG"), say("It is ${result}."), when=When(round=1)),
        reply("You said: ${prompt}", when=When(prompt=".")),
        reply(fail("bad_request", "nothing to answer"), when=When()),
    )


def test_s12_a_scripted_model_keeps_every_rule() -> None:
    report = checked(_script())
    assert {row.rule.id: row.verdict for row in report.rows} == {
        **dict.fromkeys(RULES, "pass"),
        **dict.fromkeys(("S12", "S14", "S15", "S16"), "not exercised"),
    }
    assert report.passed


# --- the table


def test_s12_the_table_names_every_rule_with_title_and_verdict() -> None:
    report = checked(Provider(_quiet, required_calls=False))
    text = render(report)
    assert text.startswith("Test (test) and the stream rules\n")
    for row in report.rows:
        (line,) = [line for line in text.splitlines() if line.split()[:1] == [row.rule.id]]
        assert row.rule.title in line
        assert row.verdict in line
        assert row.detail in line
    assert text.endswith("6 passed, 0 failed, 13 not exercised.")


def test_the_table_is_plain_whatever_a_model_puts_into_it() -> None:
    report = checked(_then(ToolResultPart("\x1b[31mred\n" + "x" * 500)))
    text = render(report)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 800
    assert all(line.isprintable() for line in text.splitlines())

    async def body(_request: Request, _sink: Sink, _token: CancellationToken) -> None:
        raise ValueError("\x1b[2J two\nlines")

    assert all(line.isprintable() for line in render(checked(body)).splitlines())


def test_what_is_going_to_be_asked_is_known_beforehand() -> None:
    begun: list[Probe] = []
    model = ScriptedModel.of("Hello.")

    async def work() -> CheckReport:
        return await check(model, clock=_clock(), on_probe=begun.append)

    run(work())
    assert begun == list(all_probes(model.info))
