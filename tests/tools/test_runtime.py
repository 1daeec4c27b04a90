"""Invoking tools: prepared, asked about, run; as part of a request or alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dragoman.lm import (
    CancellationError,
    CancellationSource,
    CancellationToken,
    DataPart,
    JsonObject,
    TextPart,
    ToolCallPart,
)
from dragoman.lm.parts import ToolResult
from dragoman.permissions.decide import Allowed, Ask
from dragoman.tools import (
    Approvals,
    Approve,
    AutoApproval,
    Confirmation,
    Decision,
    Declaration,
    Deny,
    Invocation,
    InvocationToken,
    PreparedInvocation,
    ToolProblem,
    ToolQuestion,
    ToolRegistry,
    ToolRuntime,
    preparation,
    tool,
)

DEADLINE = 5

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "lines": {"type": "integer", "default": 10}},
    "required": ["path"],
    "additionalProperties": False,
}


class Recorder:
    """A tool that does what it is told, and notes that it was invoked."""

    def __init__(
        self, act: Callable[[Invocation, CancellationToken], Awaitable[object]] | None = None
    ) -> None:
        self.invocations: list[Invocation] = []
        self._act = act

    async def invoke(self, invocation: Invocation, token: CancellationToken) -> ToolResult:
        self.invocations.append(invocation)
        if self._act is None:
            return ToolResult.text("done")
        return await self._act(invocation, token)  # type: ignore[return-value]  # also what a tool must not return


class Preparing(Recorder):
    def __init__(
        self, prepare: Callable[[Invocation, CancellationToken], Awaitable[PreparedInvocation | None]]
    ) -> None:
        super().__init__()
        self._prepare = prepare

    async def prepare_invocation(
        self, invocation: Invocation, token: CancellationToken
    ) -> PreparedInvocation:
        return await self._prepare(invocation, token)  # type: ignore[return-value]  # None in the editor's style


class Person:
    """Answers questions, and remembers them."""

    def __init__(self, *answers: Decision) -> None:
        self.questions: list[ToolQuestion] = []
        self._answers = list(answers)

    async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        self.questions.append(question)
        return self._answers.pop(0)


NOBODY = Person()


def runtime_of(
    implementation: object | None = None,
    *,
    name: str = "write",
    session: str = "s1",
    approvals: Approvals | None = None,
    auto: AutoApproval = AutoApproval(),  # noqa: B008 - a frozen value
    registry: ToolRegistry | None = None,
    workspace: tuple[Path, ...] = (),
    **fields: object,
) -> ToolRuntime:
    registry = registry or ToolRegistry()
    if implementation is not None:
        declared = {
            "display_name": "Write file",
            "model_description": "Writes.",
            "input_schema": SCHEMA,
            **fields,
        }
        registry.declare(Declaration(name=name, **declared))  # type: ignore[arg-type]  # fields as the caller names them
        registry.register(name, implementation)  # type: ignore[arg-type]  # a Tool, as every caller's is
    return ToolRuntime(registry, approvals or Approvals(), auto, session=session, workspace=workspace)


def call(name: str = "write", *, unparsed: str | None = None, **arguments: object) -> ToolCallPart:
    return ToolCallPart(
        "dg_1", name, {"path": "a.txt"} if not arguments and unparsed is None else arguments, unparsed
    )


def token() -> CancellationToken:
    return CancellationSource().token


async def soon(work: Awaitable[object]) -> object:
    async with asyncio.timeout(DEADLINE):
        return await work


async def problem(runtime: ToolRuntime, made: ToolCallPart) -> str:
    with pytest.raises(ToolProblem) as caught:
        await soon(runtime.prepare(made, token()))
    assert caught.value.message == str(caught.value)
    return caught.value.message


async def run(runtime: ToolRuntime, made: ToolCallPart | None = None) -> ToolResult:
    async with asyncio.timeout(DEADLINE):
        return await runtime.run(await runtime.prepare(made or call(), token()), token())


class TestPreparing:
    async def test_defaults_are_in_what_is_shown_run_and_recorded(self) -> None:
        recorder = Recorder()
        runtime = runtime_of(recorder)
        prepared = await runtime.prepare(call(), token())
        completed: JsonObject = {"path": "a.txt", "lines": 10}
        assert prepared.call == ToolCallPart("dg_1", "write", completed)
        assert prepared.question.input == completed
        await runtime.run(prepared, token())
        assert recorder.invocations[0].input == completed

    async def test_without_preparation_the_question_is_the_display_name_and_the_input(self) -> None:
        prepared = await runtime_of(Recorder()).prepare(call(path="`a`"), token())
        assert prepared.invocation_message == "Running Write file"
        assert prepared.question.confirmation == Confirmation(
            "Write file", '```json\n{\n  "lines": 10,\n  "path": "`a`"\n}\n```'
        )
        assert prepared.question.call_id == "dg_1"
        assert prepared.question.tool == "write"
        assert prepared.question.display_name == "Write file"
        assert prepared.approval_key == '{"lines":10,"path":"`a`"}'
        assert prepared.urls == ()

    async def test_p9_nothing_in_an_input_gets_out_of_its_code_block_or_hides(self) -> None:
        prepared = await runtime_of(Recorder()).prepare(call(path="```\n\u202e\u200b\x1b[31m😀"), token())
        message = prepared.question.confirmation.message
        assert message.startswith("````json\n")
        assert message.endswith("\n````")
        assert r"```\n\u202e\u200b\u001b[31m😀" in message

    async def test_p9_a_long_input_is_cut_and_that_is_said(self) -> None:
        prepared = await runtime_of(Recorder()).prepare(call(path="x" * 100_000), token())
        message = prepared.question.confirmation.message
        assert len(message) < 21_000
        assert message.endswith("These are the first 20,000 of 100,031 characters.")

    async def test_a_tool_says_what_it_is_about_to_do(self) -> None:
        async def prepare(invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            return PreparedInvocation(
                f"Writing {invocation.input['path']}",
                Confirmation("Write?", "**a.txt**"),
                approval_key="a.txt",
                urls=("https://x.example/",),
            )

        prepared = await runtime_of(Preparing(prepare)).prepare(call(), token())
        assert prepared.invocation_message == "Writing a.txt"
        assert prepared.question.confirmation == Confirmation("Write?", "**a.txt**")
        assert prepared.approval_key == "a.txt"
        assert prepared.urls == ("https://x.example/",)

    async def test_a_tool_may_have_nothing_to_say(self) -> None:
        async def prepare(_invocation: Invocation, _token: CancellationToken) -> None:
            return None

        prepared = await runtime_of(Preparing(prepare)).prepare(call(), token())
        assert prepared.invocation_message == "Running Write file"

    async def test_an_approval_key_may_be_empty(self) -> None:
        async def prepare(_invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            return PreparedInvocation(approval_key="")

        assert (await runtime_of(Preparing(prepare)).prepare(call(), token())).approval_key == ""

    async def test_p16_a_tool_that_changes_its_input_changes_no_record(self) -> None:
        async def prepare(invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            invocation.input["path"] = "/etc/passwd"
            return PreparedInvocation()

        preparing = Preparing(prepare)
        runtime = runtime_of(preparing)
        prepared = await runtime.prepare(call(), token())
        assert prepared.call.input["path"] == "a.txt"
        await runtime.run(prepared, token())
        assert preparing.invocations[0].input["path"] == "a.txt"

    async def test_preparation_that_raises_is_a_problem(self) -> None:
        async def prepare(_invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            raise ValueError("no such folder")

        assert await problem(runtime_of(Preparing(prepare)), call()) == (
            "The tool write could not be prepared and was not run. Error: ValueError: no such folder"
        )

    async def test_preparation_that_takes_too_long_is_a_problem(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def prepare(_invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            await asyncio.Event().wait()
            raise AssertionError("nobody sets it")

        monkeypatch.setattr(preparation, "PREPARE_SECONDS", 0)
        assert await problem(runtime_of(Preparing(prepare)), call()) == (
            "The tool write took longer than 0 seconds to prepare and was not run."
        )

    async def test_a_timeout_of_the_tools_own_is_told_as_such(self) -> None:
        async def prepare(_invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            raise TimeoutError("the disk sleeps")

        assert "Error: TimeoutError: the disk sleeps" in await problem(runtime_of(Preparing(prepare)), call())

    @pytest.mark.parametrize("stop", [asyncio.CancelledError, CancellationError])
    async def test_preparation_that_cancels_itself_is_a_problem(self, stop: type[BaseException]) -> None:
        async def prepare(_invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            raise stop

        assert "could not be prepared and was not run. Error: ToolGaveUp" in await problem(
            runtime_of(Preparing(prepare)), call()
        )

    async def test_preparation_of_another_type_is_a_problem(self) -> None:
        async def prepare(_invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            return "yes"  # type: ignore[return-value]  # that is the point

        assert await problem(runtime_of(Preparing(prepare)), call()) == (
            "The tool write could not be prepared and was not run: it returned str, not a PreparedInvocation."
        )

    async def test_cancelling_while_a_tool_prepares_raises(self) -> None:
        source = CancellationSource()

        async def prepare(_invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            source.cancel()
            await asyncio.Event().wait()
            raise AssertionError("nobody sets it")

        with pytest.raises(CancellationError) as caught:
            await soon(runtime_of(Preparing(prepare)).prepare(call(), source.token))
        assert caught.value.scope == "request"

    async def test_nothing_is_prepared_after_a_cancel(self) -> None:
        source = CancellationSource()
        source.cancel()
        with pytest.raises(CancellationError):
            await runtime_of(Recorder()).prepare(call(), source.token)


class TestBrokenArguments:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('{"path": "a.txt",}', "line 1, column 18, at '}': "),
            ('{"path": "a', "line 1, column 10, at '\"a': Unterminated string"),
            ('{"path":\n  oops}', "line 2, column 3, at 'oops}': Expecting value"),
            ("", "line 1, column 1, at the end: Expecting value"),
            ('["a.txt"]', "they must be a JSON object, not array"),
            ('"a.txt"', "they must be a JSON object, not string"),
            ("[" * 100_000, "they are nested too deeply"),
            ("1" * 10_000, "a number of thousands of digits"),
        ],
    )
    async def test_t20_broken_json_is_a_problem_that_names_the_position(self, text: str, words: str) -> None:
        message = await problem(runtime_of(Recorder()), call(unparsed=text))
        assert message.startswith("The arguments of write could not be read: ")
        assert words in message
        assert message.endswith("Nothing was run. Send one JSON object.")

    async def test_t20_broken_json_is_neither_prepared_nor_executed(self) -> None:
        prepared: list[Invocation] = []

        async def prepare(invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            prepared.append(invocation)
            return PreparedInvocation()

        preparing = Preparing(prepare)
        await problem(runtime_of(preparing), call(unparsed="{"))
        assert prepared == preparing.invocations == []

    async def test_t21_arguments_that_fail_the_schema_tell_the_model_what_is_wrong(self) -> None:
        recorder = Recorder()
        message = await problem(runtime_of(recorder, read_only=True), call(lines="ten", pth="a"))
        assert message == (
            "The input of write does not fit its schema:\n"
            "lines: expected integer, got string 'ten'\n"
            "path: required, but missing\n"
            "pth: unknown property. Did you mean 'path'? Known: path, lines.\n"
            "Nothing was run. Correct the input and call the tool again."
        )
        assert recorder.invocations == []


class TestReaching:
    async def test_an_unknown_tool_is_a_problem_that_names_those_there_are(self) -> None:
        assert await problem(runtime_of(Recorder()), call("wirte")) == (
            "There is no tool 'wirte'. Did you mean 'write'? Available tools: write."
        )

    async def test_no_tools_at_all(self) -> None:
        assert await problem(runtime_of(), call("write")) == "There is no tool 'write'. No tool is available."

    async def test_a_private_tool_is_a_problem_for_a_model(self) -> None:
        runtime = runtime_of()
        runtime.registry.register("inner", Recorder(), private=True)
        runtime.registry.declare(Declaration(name="unborn", display_name="U", model_description="U"))
        assert "The tool 'inner' is private." in await problem(runtime, call("inner"))
        assert "The tool 'unborn' is private: " in await problem(runtime, call("unborn"))

    async def test_a_tool_whose_when_is_false_is_a_problem(self) -> None:
        runtime = runtime_of(Recorder(), when="debugging")
        assert runtime.definitions() == ()
        assert "is not available in this context (when: debugging)" in await problem(runtime, call())

    async def test_a_deselected_tool_is_a_problem(self) -> None:
        runtime = runtime_of(Recorder())
        runtime.registry.deselect("write")
        assert "The tool 'write' was deselected by the user." in await problem(runtime, call())


class TestStandingApproval:
    async def standing(self, runtime: ToolRuntime, made: ToolCallPart | None = None) -> str | None:
        decision = runtime.decide(await runtime.prepare(made or call(), token()))
        return decision.why if isinstance(decision, Allowed) else None

    async def test_every_invocation_asks(self) -> None:
        assert await self.standing(runtime_of(Recorder())) is None

    async def test_a_read_only_tool_does_not_ask(self) -> None:
        assert await self.standing(runtime_of(Recorder(), read_only=True)) == "read-only"

    async def test_p17_an_approval_for_the_session_holds_for_the_same_input_in_the_same_session(self) -> None:
        approvals = Approvals()
        runtime = runtime_of(Recorder(), approvals=approvals)
        runtime.remember(await runtime.prepare(call(), token()), Approve("session"))
        assert await self.standing(runtime) == "approved for this session"
        assert await self.standing(runtime, call(path="b.txt")) is None
        other = runtime_of(Recorder(), approvals=approvals, session="s2")
        assert await self.standing(other) is None
        approvals.reset()
        assert await self.standing(runtime) is None

    async def test_an_approval_is_for_what_the_tool_says_it_is_for(self) -> None:
        async def prepare(invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            return PreparedInvocation(approval_key=str(invocation.input["path"]))

        runtime = runtime_of(Preparing(prepare))
        runtime.remember(await runtime.prepare(call(path="a", lines=1), token()), Approve("session"))
        assert await self.standing(runtime, call(path="a", lines=2)) == "approved for this session"
        assert await self.standing(runtime, call(path="b", lines=1)) is None

    async def test_an_approval_for_once_is_not_remembered(self) -> None:
        runtime = runtime_of(Recorder())
        runtime.remember(await runtime.prepare(call(), token()), Approve("once"))
        assert await self.standing(runtime) is None

    async def test_p19_the_global_setting_approves(self) -> None:
        assert await self.standing(runtime_of(Recorder(), auto=AutoApproval(all=True))) == "auto-approved"

    async def test_p19_url_patterns_approve_what_contacts_only_those(self) -> None:
        async def prepare(invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            return PreparedInvocation(urls=(str(invocation.input["path"]),))

        runtime = runtime_of(Preparing(prepare), auto=AutoApproval(urls={"https://good.example/*": True}))
        assert await self.standing(runtime, call(path="https://good.example/x")) == "auto-approved address"
        assert await self.standing(runtime, call(path="https://good.example.evil.test/x")) is None

    @pytest.mark.parametrize("read_only", [True, False])
    async def test_p19_a_tool_that_is_not_eligible_is_permission_requested_each_time(
        self, *, read_only: bool
    ) -> None:
        auto = AutoApproval(all=True, eligible={"write": False})
        runtime = runtime_of(Recorder(), auto=auto, read_only=read_only)
        prepared = await runtime.prepare(call(), token())
        assert prepared.question.levels == ("once",)
        runtime.remember(prepared, Approve("session"))
        assert runtime.decide(prepared) == Ask(needs_person=True, once=True)

    @pytest.mark.parametrize("read_only", [True, False])
    async def test_a_call_that_must_always_be_permission_requested_is_covered_by_nothing(
        self, *, read_only: bool
    ) -> None:
        always_ask = False

        async def prepare(_invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            return PreparedInvocation(
                approval_key="same", always_ask=always_ask, urls=("https://good.example/",)
            )

        auto = AutoApproval(all=True, urls={"https://good.example/*": True})
        runtime = runtime_of(Preparing(prepare), auto=auto, read_only=read_only)
        runtime.remember(await runtime.prepare(call(), token()), Approve("session"))
        always_ask = True
        prepared = await runtime.prepare(call(), token())
        assert runtime.decide(prepared) == Ask(once=True)
        assert prepared.question.levels == ("once",)

    @pytest.mark.parametrize(
        ("prepared", "covers"),
        [
            (PreparedInvocation(), "exactly this input"),
            (PreparedInvocation(approval_key="x"), "every call that the tool counts as the same"),
            (PreparedInvocation(approval_key="x", covers="any x"), "any x"),
        ],
    )
    async def test_the_question_says_what_an_approval_covers(
        self, prepared: PreparedInvocation, covers: str
    ) -> None:
        async def prepare(_invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            return prepared

        runtime = runtime_of(Preparing(prepare))
        assert (await runtime.prepare(call(), token())).question.covers == covers

    async def test_the_question_offers_the_levels_that_can_be_promised(self) -> None:
        prepared = await runtime_of(Recorder()).prepare(call(), token())
        assert prepared.question.levels == Approvals().levels
        assert "workspace" not in prepared.question.levels


class TestRunning:
    async def test_a_result_comes_back_with_its_parts_and_audiences(self) -> None:
        result = ToolResult(
            (
                TextPart("for you", audience=("user",)),
                DataPart.json({"a": 1}),
                DataPart.image(b"x", "image/png"),
            )
        )

        async def act(_invocation: Invocation, _token: CancellationToken) -> object:
            return result

        assert await run(runtime_of(Recorder(act))) == result

    async def test_a_tool_sees_input_workspace_and_call_id(self) -> None:
        recorder = Recorder()
        await run(runtime_of(recorder, workspace=(Path("/w"),)))
        (invocation,) = recorder.invocations
        assert invocation.workspace == (Path("/w"),)
        assert invocation.call_id == "dg_1"

    async def test_an_exception_becomes_an_error_result(self) -> None:
        async def act(_invocation: Invocation, _token: CancellationToken) -> object:
            raise FileNotFoundError("a.txt")

        assert await run(runtime_of(Recorder(act))) == ToolResult.error("Error: FileNotFoundError: a.txt")

    async def test_a_result_of_another_type_becomes_an_error_result(self) -> None:
        async def act(_invocation: Invocation, _token: CancellationToken) -> object:
            return 3

        assert await run(runtime_of(Recorder(act))) == ToolResult.error(
            "Error: TypeError: a tool returns text, parts or a ToolResult, not int"
        )

    async def test_text_is_a_result(self) -> None:
        async def act(_invocation: Invocation, _token: CancellationToken) -> object:
            return "plain"

        assert await run(runtime_of(Recorder(act))) == ToolResult.text("plain")

    async def test_t22_a_result_of_5_mb_is_cut_with_a_notice(self) -> None:
        async def act(_invocation: Invocation, _token: CancellationToken) -> object:
            return "x" * 5_000_000

        result = await run(runtime_of(Recorder(act)))
        assert "This result was cut" in str(result.content[-1])

    @pytest.mark.parametrize("stop", [asyncio.CancelledError, CancellationError])
    async def test_a_tool_that_cancels_itself_has_failed(self, stop: type[BaseException]) -> None:
        async def act(_invocation: Invocation, _token: CancellationToken) -> object:
            raise stop

        result = await run(runtime_of(Recorder(act)))
        assert result.is_error
        assert "ToolGaveUp" in str(result.content)

    async def test_cancelling_stops_the_tool_and_raises(self) -> None:
        source = CancellationSource()
        stopped = False

        async def act(_invocation: Invocation, _token: CancellationToken) -> object:
            nonlocal stopped
            source.cancel()
            try:
                await asyncio.Event().wait()
            finally:
                stopped = True
            return ""

        runtime = runtime_of(Recorder(act))
        prepared = await runtime.prepare(call(), token())
        with pytest.raises(CancellationError) as caught:
            await soon(runtime.run(prepared, source.token))
        assert caught.value.scope == "request"
        assert stopped

    async def test_being_cancelled_ourselves_goes_upwards(self) -> None:
        started = asyncio.Event()

        async def act(_invocation: Invocation, _token: CancellationToken) -> object:
            started.set()
            await asyncio.Event().wait()
            return ""

        runtime = runtime_of(Recorder(act))
        task = asyncio.create_task(runtime.run(await runtime.prepare(call(), token()), token()))
        await soon(started.wait())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(task)

    async def test_nothing_runs_after_a_cancel(self) -> None:
        recorder = Recorder()
        runtime = runtime_of(recorder)
        prepared = await runtime.prepare(call(), token())
        source = CancellationSource()
        source.cancel()
        with pytest.raises(CancellationError):
            await runtime.run(prepared, source.token)
        assert recorder.invocations == []

    async def test_progress_is_passed_on_a_line_at_a_time_while_the_tool_runs(self) -> None:
        async def act(invocation: Invocation, _token: CancellationToken) -> object:
            invocation.progress("one\n  line")
            invocation.progress("x" * 1_000)
            return "done"

        recorder = Recorder(act)
        runtime = runtime_of(recorder)
        lines: list[str] = []
        await runtime.run(await runtime.prepare(call(), token()), token(), lines.append)
        recorder.invocations[0].progress("late")
        assert lines == ["one line", "x" * 200]

    async def test_progress_that_cannot_be_shown_is_not_the_tools_fault(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def act(invocation: Invocation, _token: CancellationToken) -> object:
            invocation.progress("one")
            return "done"

        def fail(_line: str) -> None:
            raise ValueError("no screen")

        runtime = runtime_of(Recorder(act))
        with caplog.at_level(logging.ERROR):
            result = await runtime.run(await runtime.prepare(call(), token()), token(), fail)
        assert result == ToolResult.text("done")
        assert "showing the progress of a tool failed" in caplog.text

    async def test_progress_need_not_be_watched(self) -> None:
        async def act(invocation: Invocation, _token: CancellationToken) -> object:
            invocation.progress("one")
            return "done"

        assert await run(runtime_of(Recorder(act))) == ToolResult.text("done")


class TestInvoking:
    async def test_invoke_asks_and_runs(self) -> None:
        person = Person(Approve())
        recorder = Recorder()
        result = await runtime_of(recorder).invoke("write", {"path": "a"}, person, token())
        assert result == ToolResult.text("done")
        assert person.questions[0].input == {"path": "a", "lines": 10}
        assert recorder.invocations[0].call_id == ""

    async def test_invoke_as_part_of_a_request_carries_the_call_id(self) -> None:
        recorder = Recorder()
        runtime = runtime_of(recorder, read_only=True)
        await runtime.invoke(
            "write", {"path": "a"}, NOBODY, token(), request=InvocationToken(), call_id="dg_7"
        )
        assert recorder.invocations[0].call_id == "dg_7"

    async def test_a_read_only_tool_is_invoked_without_asking(self) -> None:
        runtime = runtime_of(Recorder(), read_only=True)
        assert await runtime.invoke("write", {"path": "a"}, NOBODY, token()) == ToolResult.text("done")

    async def test_an_approval_for_the_session_is_asked_for_once(self) -> None:
        person = Person(Approve("session"))
        runtime = runtime_of(Recorder())
        for _ in range(3):
            await runtime.invoke("write", {"path": "a"}, person, token())
        assert len(person.questions) == 1

    async def test_a_refusal_raises_a_cancellation_that_says_rejected_and_why(self) -> None:
        recorder = Recorder()
        with pytest.raises(CancellationError) as caught:
            await runtime_of(recorder).invoke("write", {"path": "a"}, Person(Deny("not that file")), token())
        assert (caught.value.scope, caught.value.reason) == ("rejected", "not that file")
        assert recorder.invocations == []

    async def test_a_refusal_without_a_reason(self) -> None:
        with pytest.raises(CancellationError) as caught:
            await runtime_of(Recorder()).invoke("write", {"path": "a"}, Person(Deny()), token())
        assert (caught.value.scope, caught.value.reason) == ("rejected", None)

    async def test_cancelling_raises_a_cancellation_that_says_request(self) -> None:
        source = CancellationSource()
        source.cancel()
        with pytest.raises(CancellationError) as caught:
            await runtime_of(Recorder()).invoke("write", {"path": "a"}, NOBODY, source.token)
        assert caught.value.scope == "request"

    async def test_c10_an_approval_after_the_cancel_runs_nothing(self) -> None:
        source = CancellationSource()

        class Late:
            async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
                source.cancel()
                return Approve("session")

        recorder = Recorder()
        runtime = runtime_of(recorder)
        with pytest.raises(CancellationError) as caught:
            await soon(runtime.invoke("write", {"path": "a"}, Late(), source.token))
        assert caught.value.scope == "request"
        assert recorder.invocations == []
        assert runtime.decide(await runtime.prepare(call(path="a"), token())) == Ask()

    async def test_c10_cancelling_ends_an_open_question(self) -> None:
        source = CancellationSource()

        class Undecided:
            async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
                source.cancel()
                await asyncio.Event().wait()
                return Approve()

        with pytest.raises(CancellationError):
            await soon(runtime_of(Recorder()).invoke("write", {"path": "a"}, Undecided(), source.token))

    async def test_a_confirmer_that_fails_approves_nothing(self) -> None:
        class Broken:
            async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
                raise OSError("no terminal")

        recorder = Recorder()
        with pytest.raises(OSError, match="no terminal"):
            await runtime_of(recorder).invoke("write", {"path": "a"}, Broken(), token())
        assert recorder.invocations == []

    async def test_a_problem_is_raised_as_it_is_and_nobody_is_asked(self) -> None:
        with pytest.raises(ToolProblem, match="path: required, but missing"):
            await runtime_of(Recorder()).invoke("write", {}, NOBODY, token())
        with pytest.raises(ToolProblem, match="There is no tool 'wirte'"):
            await runtime_of(Recorder()).invoke("wirte", {}, NOBODY, token())

    async def test_a_tool_whose_when_is_false_is_refused(self) -> None:
        with pytest.raises(ToolProblem, match="not available in this context"):
            await runtime_of(Recorder(), when="never").invoke("write", {"path": "a"}, NOBODY, token())

    async def test_a_program_may_invoke_private_and_deselected_tools(self) -> None:
        runtime = runtime_of(Recorder())
        runtime.registry.register("inner", Recorder(), private=True)
        runtime.registry.deselect("write")
        for name in ("inner", "write"):
            assert await runtime.invoke(name, {"path": "a"}, Person(Approve()), token()) == ToolResult.text(
                "done"
            )

    async def test_a_declared_tool_that_nobody_registered_cannot_be_invoked(self) -> None:
        runtime = runtime_of()
        runtime.registry.declare(Declaration(name="unborn", display_name="U", model_description="U"))
        with pytest.raises(ToolProblem, match="is private"):
            await runtime.invoke("unborn", {}, NOBODY, token())

    async def test_progress_reaches_whoever_invoked(self) -> None:
        async def act(invocation: Invocation, _token: CancellationToken) -> object:
            invocation.progress("half")
            return ""

        lines: list[str] = []
        runtime = runtime_of(Recorder(act), read_only=True)
        await runtime.invoke("write", {"path": "a"}, NOBODY, token(), progress=lines.append)
        assert lines == ["half"]

    async def test_a_defined_tool_goes_the_same_way(self) -> None:
        @tool(description="Adds.")
        def add(a: int, b: int = 1) -> str:
            return str(a + b)

        registry = ToolRegistry()
        registry.add(add)
        person = Person(Approve())
        result = await runtime_of(registry=registry).invoke("add", {"a": 2}, person, token())
        assert result == ToolResult.text("3")


class TestRequests:
    async def test_after_a_refusal_the_rest_of_the_request_is_skipped(self) -> None:
        recorder = Recorder()
        runtime = runtime_of(recorder)
        request = InvocationToken()
        with pytest.raises(CancellationError):
            await runtime.invoke("write", {"path": "a"}, Person(Deny()), token(), request=request)
        with pytest.raises(CancellationError) as caught:
            await runtime.invoke("write", {"path": "b"}, NOBODY, token(), request=request)
        assert caught.value.scope == "skipped"
        assert recorder.invocations == []

    async def test_another_request_is_not_skipped(self) -> None:
        runtime = runtime_of(Recorder())
        with pytest.raises(CancellationError):
            await runtime.invoke("write", {"path": "a"}, Person(Deny()), token(), request=InvocationToken())
        assert await runtime.invoke(
            "write", {"path": "a"}, Person(Approve()), token(), request=InvocationToken()
        ) == ToolResult.text("done")

    async def test_p14_a_request_may_be_permission_requested_call_by_call(self) -> None:
        recorder = Recorder()
        runtime = runtime_of(recorder)
        request = InvocationToken(skip_rest=False)
        person = Person(Approve(), Deny("no"), Approve())
        outcomes: list[str] = []
        for path in ("1", "2", "3"):
            try:
                await runtime.invoke("write", {"path": path}, person, token(), request=request)
                outcomes.append("ran")
            except CancellationError as error:
                outcomes.append(error.scope)
        assert outcomes == ["ran", "rejected", "ran"]
        assert [invocation.input["path"] for invocation in recorder.invocations] == ["1", "3"]

    async def test_an_ended_request_invokes_nothing(self) -> None:
        recorder = Recorder()
        runtime = runtime_of(recorder, read_only=True)
        request = InvocationToken()
        request.end()
        with pytest.raises(CancellationError) as caught:
            await runtime.invoke("write", {"path": "a"}, NOBODY, token(), request=request)
        assert caught.value.scope == "request"
        assert recorder.invocations == []

    async def test_an_end_outweighs_a_refusal(self) -> None:
        request = InvocationToken()
        request.refuse()
        request.end()
        with pytest.raises(CancellationError) as caught:
            request.check()
        assert caught.value.scope == "request"

    async def test_ending_a_request_cancels_what_runs(self) -> None:
        started = asyncio.Event()

        async def act(_invocation: Invocation, _token: CancellationToken) -> object:
            started.set()
            await asyncio.Event().wait()
            return ""

        runtime = runtime_of(Recorder(act), read_only=True)
        request = InvocationToken()
        task = asyncio.create_task(runtime.invoke("write", {"path": "a"}, NOBODY, token(), request=request))
        await soon(started.wait())
        request.end()
        with pytest.raises(CancellationError) as caught:
            await soon(task)
        assert caught.value.scope == "request"

    async def test_a_refusal_skips_what_is_still_being_prepared(self) -> None:
        preparing, refused = asyncio.Event(), asyncio.Event()

        async def prepare(invocation: Invocation, _token: CancellationToken) -> PreparedInvocation:
            if invocation.input["path"] == "slow":
                preparing.set()
                await refused.wait()
            return PreparedInvocation()

        tool_ = Preparing(prepare)
        runtime = runtime_of(tool_)
        request = InvocationToken()
        slow = asyncio.create_task(
            runtime.invoke("write", {"path": "slow"}, NOBODY, token(), request=request)
        )
        await soon(preparing.wait())
        with pytest.raises(CancellationError):
            await runtime.invoke("write", {"path": "fast"}, Person(Deny()), token(), request=request)
        refused.set()
        with pytest.raises(CancellationError) as caught:
            await soon(slow)
        assert caught.value.scope == "skipped"
        assert tool_.invocations == []

    async def test_a_finished_invocation_leaves_nothing_on_its_tokens(self) -> None:
        source = CancellationSource()
        runtime = runtime_of(Recorder(), read_only=True)
        request = InvocationToken()
        await runtime.invoke("write", {"path": "a"}, NOBODY, source.token, request=request)
        assert not source.token._callbacks
        assert not request._ended.token._callbacks
