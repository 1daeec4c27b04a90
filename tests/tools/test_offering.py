"""What a session's model is offered: selection, references, groups that open and close."""

from __future__ import annotations

import pytest

from dragoman.lm import CancellationSource, ToolCallPart, ToolDefinition
from dragoman.lm.parts import ToolResult
from dragoman.permissions.decide import Allowed
from dragoman.tools import (
    Approvals,
    AutoApproval,
    Declaration,
    ToolLimitError,
    ToolProblem,
    ToolRegistry,
    ToolRuntime,
    tool,
)

TOKEN = CancellationSource().token


@tool(description="Works.", read_only=True)
def worker() -> str:
    return "worked"


def registry_with(*names: str, **fields: object) -> ToolRegistry:
    registry = ToolRegistry()
    for name in names:
        declared = Declaration(
            name=name,
            display_name=name,
            model_description=f"The {name}.",
            tool_reference_name=f"ref-{name}",
            can_be_referenced_in_prompt=True,
            read_only=True,
            **fields,  # type: ignore[arg-type]  # fields as the caller names them
        )
        registry.declare(declared)
        registry.register(name, worker)
    return registry


def runtime_of(registry: ToolRegistry, *, limit: int = 128, threshold: int = 128) -> ToolRuntime:
    return ToolRuntime(
        registry, Approvals(), AutoApproval(), session="s", limit=limit, virtual_threshold=threshold
    )


def grouped(limit: int = 6) -> ToolRuntime:
    """Three groups of three; room for one to open, or for two with a limit of 7."""
    names = [f"{group}_{number}" for group in "abc" for number in range(3)]
    return runtime_of(registry_with(*names), limit=limit, threshold=5)


def names(definitions: tuple[ToolDefinition, ...]) -> list[str]:
    return [definition.name for definition in definitions]


async def made(runtime: ToolRuntime, name: str) -> ToolResult:
    prepared = await runtime.prepare(ToolCallPart("dg_1", name, {}), TOKEN)
    assert runtime.decide(prepared) == Allowed("read-only", "read-only")
    return await runtime.run(prepared, TOKEN)


def test_definitions_carry_name_model_description_and_schema() -> None:
    runtime = runtime_of(registry_with("search", input_schema={"type": "object"}))
    assert runtime.definitions() == (ToolDefinition("search", "The search.", {"type": "object"}),)


def test_a_reference_in_the_prompt_offers_a_deselected_tool() -> None:
    registry = registry_with("read", "search")
    registry.deselect("search")
    runtime = runtime_of(registry)
    assert names(runtime.definitions()) == ["read"]
    assert names(runtime.definitions("please #ref-search for it")) == ["read", "search"]
    assert names(runtime.definitions("and now without")) == ["read"]


async def test_a_referenced_tool_can_be_called_although_it_is_deselected() -> None:
    registry = registry_with("search")
    registry.deselect("search")
    runtime = runtime_of(registry)
    runtime.definitions("#ref-search")
    assert await made(runtime, "search") == ToolResult.text("worked")
    runtime.definitions()
    with pytest.raises(ToolProblem, match="deselected"):
        await made(runtime, "search")


def test_a_reference_to_an_unknown_name_is_left_alone() -> None:
    assert names(runtime_of(registry_with("read")).definitions("#nobody #1 #")) == ["read"]


def test_a_reference_in_the_prompt_offers_a_tool_that_is_grouped_away() -> None:
    runtime = grouped(limit=7)
    assert names(runtime.definitions("use #ref-b_1")) == ["b_1", "activate_a", "activate_b", "activate_c"]


def test_t19_above_the_threshold_groups_are_offered() -> None:
    assert names(grouped().definitions()) == ["activate_a", "activate_b", "activate_c"]


async def test_t19_an_activate_tool_runs_without_a_question_and_names_what_is_available_now() -> None:
    runtime = grouped()
    runtime.definitions()
    assert await made(runtime, "activate_b") == ToolResult.text("Available now: b_0, b_1, b_2.")
    assert names(runtime.definitions()) == ["b_0", "b_1", "b_2", "activate_a", "activate_c"]


async def test_t19_a_group_that_must_make_room_closes_and_that_is_said() -> None:
    runtime = grouped()
    runtime.definitions()
    await made(runtime, "activate_a")
    assert await made(runtime, "activate_c") == ToolResult.text(
        "Available now: c_0, c_1, c_2. To make room, these are closed again: activate_a."
    )
    assert names(runtime.definitions()) == ["c_0", "c_1", "c_2", "activate_a", "activate_b"]


async def test_t19_a_tool_that_was_called_keeps_its_group_open() -> None:
    runtime = grouped(limit=7)
    runtime.definitions()
    await made(runtime, "activate_a")
    await made(runtime, "activate_b")
    await made(runtime, "a_1")
    await made(runtime, "activate_c")
    assert names(runtime.definitions()) == ["a_0", "a_1", "a_2", "c_0", "c_1", "c_2", "activate_b"]


async def test_t19_a_tool_known_from_earlier_is_reached_and_its_group_opens() -> None:
    runtime = grouped()
    runtime.definitions()
    assert await made(runtime, "b_1") == ToolResult.text("worked")
    assert names(runtime.definitions()) == ["b_0", "b_1", "b_2", "activate_a", "activate_c"]


async def test_t19_an_activate_tool_can_be_called_first_of_all() -> None:
    assert await made(grouped(), "activate_b") == ToolResult.text("Available now: b_0, b_1, b_2.")


async def test_t19_the_same_session_has_the_same_offer_and_another_its_own() -> None:
    registry = registry_with(*(f"{group}_{number}" for group in "ab" for number in range(3)))
    one, other = (runtime_of(registry, limit=8, threshold=3) for _ in range(2))
    await made(one, "activate_a")
    assert one.definitions() == one.definitions()
    assert names(one.definitions()) == ["a_0", "a_1", "a_2", "activate_b"]
    assert names(other.definitions()) == ["activate_a", "activate_b"]


async def test_a_group_whose_tools_have_gone_says_so() -> None:
    runtime = grouped()
    runtime.definitions()
    for number in range(3):
        runtime.registry.deselect(f"b_{number}")
    result = await made(runtime, "activate_b")
    assert result.is_error
    assert "The tools of activate_b are no longer available. Available tools: activate_a, " in str(result)


async def test_an_unknown_activate_tool_is_a_problem() -> None:
    with pytest.raises(ToolProblem, match="There is no tool 'activate_z'"):
        await made(grouped(), "activate_z")


async def test_a_tool_of_ours_may_begin_with_activate() -> None:
    assert await made(runtime_of(registry_with("activate_me")), "activate_me") == ToolResult.text("worked")


async def test_among_many_tools_an_unknown_one_is_told_some() -> None:
    runtime = runtime_of(registry_with(*(f"t{number}" for number in range(30))))
    with pytest.raises(ToolProblem, match=r"t18, t19 and 10 more\."):
        await made(runtime, "nothing_like_it")


def test_t19_too_many_for_groups_is_an_error_that_names_what_to_do() -> None:
    registry = registry_with(*(f"g{number // 2}_{number}" for number in range(200)))
    with pytest.raises(ToolLimitError, match=r"200 tools are too many: .* the limit is 64"):
        runtime_of(registry, limit=64).definitions()
