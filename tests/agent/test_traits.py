"""What is known of agents: above all, how a call of ours is recognised, and that no other is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agent.recorded import PERMISSIONS, UPDATES, Recorded
from dragoman.acp.messages import ToolActivity, decode_permission, decode_update
from dragoman.backends.agent.profile.observations import Observed
from dragoman.backends.agent.profile.traits import (
    CATALOGUE,
    UNKNOWN,
    Traits,
    cautions_for,
    recognise,
    recognise_request,
    traits_of,
)
from dragoman.backends.agent.toolserver.endpoint import Addresses, Endpoint
from dragoman.clock import SystemClock

TOOLS = ("look", "touch")
AGENTS = ("claude", "codex", "copilot", "fast-agent", "gemini", "kimi", "opencode", "qwen", "demo")
# The names that the recorded agents have here, and the probe they were recorded with.
NAMES = {
    "claude": "claude",
    "claude20": "claude",
    "codex": "codex",
    "copilot": "copilot",
    "fast": "fast-agent",
}
PROBE = ("probe_alpha", "probe_beta", "probe_gamma", "probe_grow", "probe_slow")


async def _never(*_: object) -> None:
    raise AssertionError("not called here")


def said(agent: str, tool: str, server: str) -> ToolActivity:
    match agent:
        case "claude":
            return ToolActivity("t", meta={"claudeCode": {"toolName": f"mcp__{server}__{tool}"}})
        case "copilot":
            return ToolActivity("t", f"{server}-{tool}", kind="other")
        case "opencode":
            return ToolActivity("t", f"{server}_{tool}", kind="other")
        case "fast-agent":
            return ToolActivity("t", f"{server}/{tool}")
        case "gemini":
            return ToolActivity(f"mcp_{server}_{tool}__call_1", f"{tool} ({server} MCP Server)", kind="other")
        case "kimi":
            return ToolActivity("t", f"mcp__{server}__{tool}", kind="other")
        case "qwen":
            return ToolActivity("t", "{}", kind="other", meta={"toolName": f"mcp__{server}__{tool}"})
        case _:
            return ToolActivity("t", raw_input={"server": server, "tool": tool, "arguments": {}})


@pytest.mark.parametrize("agent", AGENTS)
def test_p7_a_call_of_ours_is_recognised_by_server_and_tool(agent: str) -> None:
    traits = traits_of(agent)
    assert recognise(traits, [said(agent, "touch", "dg-1")], "dg-1", TOOLS) == "touch"
    assert recognise(traits, [ToolActivity("t"), said(agent, "look", "dg-1")], "dg-1", TOOLS) == "look"


@pytest.mark.parametrize("agent", AGENTS)
def test_p23_a_call_under_the_name_of_a_tool_of_ours_is_not_recognised_by_that_alone(agent: str) -> None:
    traits = traits_of(agent)
    assert recognise(traits, [said(agent, "look", "another")], "dg-1", TOOLS) is None
    assert recognise(traits, [said(agent, "not offered", "dg-1")], "dg-1", TOOLS) is None
    assert recognise(traits, [ToolActivity("t", "look", name="look")], "dg-1", TOOLS) is None
    assert recognise(traits, [], "dg-1", TOOLS) is None
    assert recognise(traits, [said(agent, "look", "dg-1")], "dg-1", ()) is None


def test_p23_a_command_with_the_right_words_in_it_is_not_recognised() -> None:
    activity = ToolActivity(
        "t", "look", raw_input={"command": "dg-1 look"}, meta={"claudeCode": "mcp__dg-1__look"}
    )
    for traits in CATALOGUE.values():
        assert recognise(traits, [activity], "dg-1", TOOLS) is None
    # Half of what must agree is nothing.
    half = ToolActivity("t", raw_input={"server": "dg-1", "tool": {"look": 1}})
    assert recognise(traits_of("codex"), [half], "dg-1", TOOLS) is None


@pytest.mark.parametrize("agent", ["copilot", "gemini", "kimi", "opencode"])
def test_p23_a_command_that_the_model_calls_like_a_tool_of_ours_is_not_recognised(agent: str) -> None:
    command = msgspec.structs.replace(said(agent, "look", "dg-1"), kind="execute")
    assert recognise(traits_of(agent), [command], "dg-1", TOOLS) is None


@pytest.mark.parametrize(
    ("tool", "kind"),
    [("look", "other"), ("read_file", "read"), ("edit_it", "edit"), ("run_command", "execute")],
)
def test_p7_a_kind_that_copilot_guesses_by_the_name_of_a_tool_does_not_matter(tool: str, kind: str) -> None:
    traits = traits_of("copilot")
    announced = ToolActivity("t", f"dg-1-{tool}", kind=kind, raw_input={"path": "x"})
    asked = ToolActivity("t", tool, kind="other", raw_input={"path": "x"})
    assert recognise_request(traits, announced, asked, "dg-1", (tool,)) == tool
    assert recognise_request(traits, ToolActivity("t"), asked, "dg-1", (tool,)) is None
    assert recognise_request(traits, announced, asked, "dg-2", (tool,)) is None


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    "asked",
    [
        ToolActivity("t", "look", kind="execute", raw_input={"command": "rm -rf ~"}),
        ToolActivity("t", "rm -rf ~", raw_input={"command": "rm -rf ~"}),
        ToolActivity("t", kind="execute"),
        ToolActivity("t", kind="edit", raw_input={"path": "x"}),
    ],
)
def test_p23_a_call_that_is_announced_as_ours_and_asked_for_as_something_else_is_not_recognised(
    agent: str, asked: ToolActivity
) -> None:
    announced = said(agent, "look", "dg-1")
    asked = msgspec.structs.replace(asked, tool_call_id=announced.tool_call_id)
    assert recognise_request(traits_of(agent), announced, asked, "dg-1", TOOLS) is None
    # A request that says nothing is about what was announced.
    asked = ToolActivity(announced.tool_call_id)
    assert recognise_request(traits_of(agent), announced, asked, "dg-1", TOOLS) == "look"


def test_p7_a_call_that_gemini_asks_about_without_announcing_it_is_recognised_by_its_id() -> None:
    asked = said("gemini", "look", "dg-1")
    assert recognise_request(traits_of("gemini"), ToolActivity("t"), asked, "dg-1", TOOLS) == "look"


@pytest.mark.parametrize(
    ("call_id", "tool"),
    [
        ("mcp_dg-1_look__call_1", "look"),
        ("mcp_dg-1_look_up__call_1", "look_up"),
        # It ends where the name does, and nothing is missing.
        ("mcp_dg-1_look_", None),
        ("mcp_dg-1_look__", None),
        ("mcp_dg-1_look_up", None),
        ("mcp_dg-1_loo__call_1", None),
        # It is at the beginning: what the model's provider calls it stands behind the name of the agent's own tool.
        ("run_shell_command__mcp_dg-1_look__call_1", None),
        (" mcp_dg-1_look__call_1", None),
        ("mcp_dg-10_look__call_1", None),
        ("MCP_dg-1_look__call_1", None),
    ],
)
def test_p23_an_id_is_recognised_by_its_beginning_to_the_letter(call_id: str, tool: str | None) -> None:
    asked = ToolActivity(call_id, kind="other")
    names = ("look", "look_up", "up", "*")
    assert recognise(traits_of("gemini"), [asked], "dg-1", names) == tool
    assert recognise_request(traits_of("gemini"), ToolActivity(call_id), asked, "dg-1", names) == tool


def test_p23_an_id_that_could_be_of_two_tools_is_of_neither() -> None:
    asked = ToolActivity("mcp_dg-1_look__up__call_1", kind="other")
    assert recognise(traits_of("gemini"), [asked], "dg-1", ("look", "look__up")) is None
    assert (
        recognise_request(traits_of("gemini"), ToolActivity("t"), asked, "dg-1", ("look", "look__up")) is None
    )
    assert recognise(traits_of("gemini"), [asked], "dg-1", ("look__up",)) == "look__up"


def test_p7_kimi_must_have_announced_what_it_asks_about() -> None:
    """Its question has no kind: without the announcement it could be about anything of that name."""
    asked = ToolActivity("t", "mcp__dg-1__look")
    announced = said("kimi", "look", "dg-1")
    assert recognise_request(traits_of("kimi"), announced, asked, "dg-1", TOOLS) == "look"
    assert recognise_request(traits_of("kimi"), ToolActivity("t"), asked, "dg-1", TOOLS) is None
    command = ToolActivity("t", "mcp__dg-1__look", kind="execute")
    assert recognise_request(traits_of("kimi"), command, asked, "dg-1", TOOLS) is None


@pytest.mark.parametrize("agent", ["unknown", None])
def test_an_agent_that_does_not_show_it_is_always_permission_requested(agent: str | None) -> None:
    everything = [said(kind, "look", "dg-1") for kind in AGENTS]
    assert recognise(traits_of(agent), everything, "dg-1", TOOLS) is None


def test_an_unknown_agent_gets_the_careful_defaults() -> None:
    assert traits_of("unknown") == traits_of(None) == UNKNOWN
    assert (UNKNOWN.lists, UNKNOWN.lists_again, UNKNOWN.recognised_by) == (None, None, ())


def test_an_unknown_agent_gets_a_ticket_after_45_seconds() -> None:
    endpoint = Endpoint(
        "dg-1",
        UNKNOWN.tool_limit_seconds,
        _never,
        _never,
        _never,
        SystemClock(),
        Addresses("http://127.0.0.1:1", Path("socket")),
        _never,
    )
    assert endpoint.patience_seconds == 45


@pytest.mark.parametrize("known", [Traits(), UNKNOWN, Traits(tool_limit_seconds=300, lists_again=False)])
def test_what_was_learnt_is_put_over_what_is_known(known: Traits) -> None:
    assert known.after(Observed()) == known
    after = known.after(Observed(lists=False, lists_again=True, tool_limit_seconds=30, history="late"))
    assert (after.tool_limit_seconds, after.history) == (30, "late")
    # An agent that lists tools as a rule may have failed once.
    assert after.lists is (None if known.is_known else False)
    assert known.after(Observed(lists=True)).lists is True
    # The catalogue knows better: an agent may list too late.
    assert after.lists_again == (known.lists_again is not False)
    # A limit that is longer than a known one changes nothing.
    assert known.after(Observed(tool_limit_seconds=1_000)).tool_limit_seconds == (
        known.tool_limit_seconds or 1_000
    )


def test_a_field_that_is_nowhere_has_no_value() -> None:
    traits = Traits(recognised_by=((("nowhere.at.all", "{tool}"),),))
    assert recognise(traits, [ToolActivity("t", "look")], "dg-1", TOOLS) is None


@pytest.mark.parametrize(
    ("command", "fs", "about"),
    [
        (("fast-agent", "acp"), False, ["commands", "files"]),
        (("fast-agent", "acp", "--no-shell"), False, ["files"]),
        (("fast-agent", "acp"), True, ["commands"]),
        (("fast-agent", "acp", "--no-shell"), True, []),
    ],
)
def test_i4_it_is_known_how_an_agent_is_started_so_that_it_asks(
    command: tuple[str, ...], about: list[str], *, fs: bool
) -> None:
    texts = cautions_for(traits_of("fast-agent"), command, fs=fs, mode=None)
    assert len(texts) == len(about)
    assert all(word in text for word, text in zip(about, texts, strict=True))
    assert cautions_for(traits_of("unknown"), command, fs=fs, mode=None) == ()


@pytest.mark.parametrize(("mode", "count"), [(None, 1), ("auto", 1), ("default", 0)])
def test_i4_it_is_known_in_which_mode_an_agent_asks(mode: str | None, count: int) -> None:
    assert len(cautions_for(traits_of("qwen"), ("qwen", "--acp"), fs=True, mode=mode)) == count


def recognised(recorded: Recorded, server: str) -> tuple[str | None, str]:
    """Which tool of that server a recorded agent asks for, and all that it said of it.

    Some name the server only before they ask, others only when they do.
    """
    asked = decode_permission(recorded.data).tool_call
    announced = ToolActivity(asked.tool_call_id)
    for it in UPDATES:
        update = decode_update(it.data).update if it.source == recorded.source else None
        if isinstance(update, ToolActivity) and update.tool_call_id == asked.tool_call_id:
            announced = announced.updated(update)
    traits = traits_of(NAMES[recorded.agent])
    return recognise_request(traits, announced, asked, server, PROBE), f"{announced} {asked}"


@pytest.mark.parametrize(
    "recorded", [it for it in PERMISSIONS if it.agent in NAMES], ids=lambda it: it.source
)
def test_p7_p23_real_agents_that_ask_for_a_tool_of_ours_are_recognised_and_no_others(
    recorded: Recorded,
) -> None:
    """Recorded with a server called `probe`."""
    found, words = recognised(recorded, "probe")
    assert (found is not None) == ("probe" in words)
    assert found is None or found in words
    assert recognised(recorded, "dg-1")[0] is None


def test_p7_each_of_them_has_asked_for_one() -> None:
    assert {
        it.agent for it in PERMISSIONS if it.agent in NAMES and recognised(it, "probe")[0]
    } == NAMES.keys()
