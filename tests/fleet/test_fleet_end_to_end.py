"""A fleet as operators run it: every node is a process of its own, with the credentials of its role."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from bridge.consumer import Chat
from dragoman.config import Config, FleetConfig, FleetModel
from dragoman.lm import LanguageModelError
from dragoman.models import Models
from fake_agent.steps import open_gate, prompt
from fleet.node_processes import Answer, FleetProcesses, fleet_processes
from fleet.stalling_proxy import stalling_proxy
from http_server.kit import function
from process.living import all_gone

pytestmark = pytest.mark.long


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[FleetProcesses]:
    async with fleet_processes(tmp_path) as each:
        yield each


async def test_a_conversation_goes_on_at_the_other_gateway_by_every_kind_of_evidence(
    fleet: FleetProcesses,
) -> None:
    await fleet.worker("w1")
    await fleet.worker("w2")
    one, two = await fleet.gateway("g1"), await fleet.gateway("g2")
    first = await one.do(["say", "First."], ["note", "first"])
    assert first.text == "First."
    owner = fleet.owner("first", "w1", "w2")
    # By the id of the response, and back.
    second = await two.do(["say", "Second."], previous_response_id=first.id)
    third = await one.do(["say", "Third."], ["note", "third"], previous_response_id=second.id)
    assert (second.text, third.text) == ("Second.", "Third.")
    assert fleet.owner("third", "w1", "w2") == owner
    # By the history: the client sends everything itself, and has no id.
    history = [
        {"role": "user", "content": prompt(["say", "Other."], ["note", "other"])},
        {"role": "assistant", "content": "Other."},
        {"role": "user", "content": prompt(["say", "Goes on."], ["note", "goes on"])},
    ]
    assert (await one.ask(history[:1], store=False)).text == "Other."
    assert (await two.ask(history, store=False)).text == "Goes on."
    other = fleet.owner("goes on", "w1", "w2")
    assert other == fleet.owner('"other"', "w1", "w2")
    # By the marker, which is in the ids of its items.
    said = [{"role": "user", "content": prompt(["say", "Marked."], ["note", "marked"])}]
    answered = await one.ask(said, store=False)
    changed = {"role": "user", "content": "Something else than was said."}
    follow_up = {"role": "user", "content": prompt(["say", "Found."], ["note", "found"])}
    assert (await two.ask([changed, *answered.json["output"], follow_up], store=False)).text == "Found."
    assert fleet.owner('"found"', "w1", "w2") == fleet.owner('"marked"', "w1", "w2")
    # Each conversation is one session of one agent: nothing was replayed.
    assert sum(fleet.notes(name).count('"session/new"') for name in ("w1", "w2")) == 3


async def test_a_tool_call_is_answered_at_the_other_gateway(fleet: FleetProcesses) -> None:
    await fleet.worker("w1")
    await fleet.worker("w2")
    one, two = await fleet.gateway("g1"), await fleet.gateway("g2")
    asked = await one.do(["call", "look", {"word": "tree"}], tools=[function("look")])
    [call] = asked.calls
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "an oak"}
    answered = await two.ask([result], previous_response_id=asked.id, tools=[function("look")])
    assert answered.text == "<look returned: an oak>"
    # The demo agent, whose client sends the history.
    said = {"role": "user", "content": "Please call the function look for the word tree."}
    asked = await one.ask([said], "demo", tools=[function("look")], store=False)
    [call] = asked.calls
    assert call["name"] == "look"
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "a birch"}
    answered = await two.ask(
        [said, *asked.json["output"], result], "demo", tools=[function("look")], store=False
    )
    assert "a birch" in answered.text


async def test_n1_a_worker_killed_in_mid_turn_is_an_honest_error_and_the_conversation_goes_on_at_the_other(
    fleet: FleetProcesses,
) -> None:
    workers = {"w1": await fleet.worker("w1"), "w2": await fleet.worker("w2")}
    one, two = await fleet.gateway("g1"), await fleet.gateway("g2")
    first = await one.do(["say", "First."], ["note", "first"])
    owner = fleet.owner("first", *workers)
    [other] = workers.keys() - {owner}
    going = one.begin(["say", "Half"], ["hang"], previous_response_id=first.id)
    await going.until("Half")
    loop = asyncio.get_running_loop()
    killed_at = loop.time()
    workers[owner].signal(signal.SIGKILL)
    ended = await going.end()
    # A gateway believes in a worker until its fence at most.
    assert loop.time() - killed_at < 20
    assert ended["type"] == "response.failed"
    assert "no longer answers" in ended["response"]["error"]["message"]
    await all_gone(fleet.pids(owner))
    # As soon as the lease is over, and with all that was said.
    after = await two.do(["say", "Here again."], ["note", "again"], previous_response_id=first.id)
    assert after.text == "Here again."
    assert fleet.owner('"again"', *workers) == other
    assert "First." in fleet.notes(other)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
async def test_j4_background_responses_of_a_gateway_that_is_gone_go_on_at_the_other(
    fleet: FleetProcesses, number: signal.Signals
) -> None:
    await fleet.worker("w1")
    extra = "[serve]\ndrain_seconds = 1\n"
    one, two = await fleet.gateway("g1", extra=extra), await fleet.gateway("g2")
    steps = (["say", "One "], ["gate", "on"], ["repeat", 20, 1_000], ["say", " Done."])
    going = [one.begin(*steps, background=True) for _ in range(3)]
    for each in going:
        await each.until("One ")
    one.node.signal(number)
    status = await one.node.end()
    assert status == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    for each in going:
        # Their connections are cut.
        await asyncio.gather(each.task, return_exceptions=True)
    rest = [
        two.follow(each.events[0]["response"]["id"], each.events[-1]["sequence_number"]) for each in going
    ]
    open_gate(fleet.place("w1"), "on")
    for first, second in zip(going, rest, strict=True):
        assert (await second.end())["type"] == "response.completed"
        numbers = [event["sequence_number"] for event in (*first.events, *second.events)]
        assert numbers == list(range(len(numbers)))
        whole = second.events[-1]["response"]
        text = first.text + second.text
        assert text == Answer(whole).text
        assert (text.startswith("One "), text.endswith(" Done."), len(text) > 20_000) == (True, True, True)
    # Each agent was asked once.
    assert fleet.notes("w1").count('"session/prompt"') == 3


async def test_n5_a_worker_drained_under_load_loses_nothing(fleet: FleetProcesses) -> None:
    workers = {"w1": await fleet.worker("w1"), "w2": await fleet.worker("w2")}
    gateways = [await fleet.gateway("g1"), await fleet.gateway("g2")]
    steps = [["say", "Begun. "], ["gate", "on"], ["repeat", 20, 1000], ["say", " Done."]]
    load = [gateways[number % 2].begin(["note", f"load {number};"], *steps) for number in range(6)]
    await asyncio.gather(*(each.until("Begun.") for each in load))
    owners = [fleet.owner(f"load {number};", *workers) for number in range(6)]
    drained = owners[0]
    [other] = workers.keys() - {drained}
    workers[drained].signal(signal.SIGTERM)
    await workers[drained].until_said("taking nothing new")
    # What is new goes to the other one.
    for number, gateway in enumerate(gateways):
        assert (await gateway.do(["say", "New."], ["note", f"new {number};"])).text == "New."
        assert fleet.owner(f"new {number};", *workers) == other
    for name in workers:
        open_gate(fleet.place(name), "on")
    for each in load:
        assert (await each.end())["type"] == "response.completed"
        assert (each.text.startswith("Begun. "), each.text.endswith(" Done.")) == (True, True)
    lengths = {len(each.text) for each in load}
    assert len(lengths) == 1
    assert max(lengths) > 20_000
    assert await workers[drained].end() == 0
    # Its conversations go on at once: its lease was given back.
    for number, each in enumerate(load):
        id_ = each.events[-1]["response"]["id"]
        after = await gateways[0].do(["say", "On."], ["note", f"after {number};"], previous_response_id=id_)
        assert after.text == "On."
        assert fleet.owner(f"after {number};", *workers) == other


async def test_a_second_signal_ends_a_worker_at_once_and_its_answers_say_so(fleet: FleetProcesses) -> None:
    worker = await fleet.worker("w1")
    gateway = await fleet.gateway("g1")
    going = gateway.begin(["say", "Half"], ["hang"])
    await going.until("Half")
    worker.signal(signal.SIGTERM)
    await worker.until_said("A second signal ends at once.")
    worker.signal(signal.SIGTERM)
    ended = await going.end()
    assert ended["type"] == "response.failed"
    assert "stops" in ended["response"]["error"]["message"]
    assert await worker.end() == 0
    await all_gone(fleet.pids("w1"))
    # Nobody is there: said at once.
    refused = await gateway.post("Hello")
    assert (refused.status_code, "No worker with the model" in refused.text) == (503, True)
    await fleet.again("w1")
    assert (await gateway.do(["say", "Back."])).text == "Back."


async def test_n5_an_operator_drains_a_worker_with_a_command(fleet: FleetProcesses) -> None:
    worker = await fleet.worker("w1")
    gateway = await fleet.gateway("g1")
    going = gateway.begin(["say", "Half"], ["gate", "on"], ["say", " whole."])
    await going.until("Half")
    drain = await fleet.process("fleet", "drain", "w1")
    await drain.until_said("w1 takes nothing new; it waits for 1 answer.")
    open_gate(fleet.place("w1"), "on")
    assert await drain.end() == 0
    assert drain.said.endswith("w1 has ended.\n")
    assert (await going.end())["type"] == "response.completed"
    assert going.text == "Half whole."
    assert await worker.end() == 0


async def test_n3_a_worker_cut_off_from_nats_fences_itself_ends_its_agents_and_comes_back(
    fleet: FleetProcesses,
) -> None:
    async with stalling_proxy(fleet.url) as proxy:
        worker = await fleet.worker("w1", proxy.url)
        gateway = await fleet.gateway("g1")
        first = await gateway.do(["say", "First."])
        going = gateway.begin(["say", "Half"], ["hang"], previous_response_id=first.id)
        await going.until("Half")
        loop = asyncio.get_running_loop()
        proxy.stall()
        cut_at = loop.time()
        ended = await going.end()
        assert ended["type"] == "response.failed"
        await all_gone(fleet.pids("w1"))
        # Before its lease, of 20 seconds, can have ended.
        assert loop.time() - cut_at < 20
        await worker.until_said("the lease was not renewed in time")
        proxy.go_on()
        await fleet.until_listed("w1")
        after = await gateway.do(["say", "Again."], previous_response_id=first.id)
        assert after.text == "Again."
        assert worker.process.returncode is None


async def test_a_model_that_is_added_to_a_running_worker_is_offered_and_one_that_is_removed_is_not(
    fleet: FleetProcesses,
) -> None:
    await fleet.worker("w1")
    gateway = await fleet.gateway("g1")
    first = await gateway.do(["say", "First."])
    file = fleet.place("w1") / "dragoman.toml"
    before = file.read_text()
    (fleet.place("w1") / "tape.jsonl").write_text('{"do": [{"say": "From the tape."}]}\n')
    file.write_text(f'{before}[models.tape]\nkind = "script"\npath = "tape.jsonl"\n')
    await gateway.until_offered("tape")
    assert (await gateway.ask("Hello", "tape")).text == "From the tape."
    # What was there goes on.
    assert (await gateway.do(["say", "Second."], previous_response_id=first.id)).text == "Second."
    file.write_text(before)
    await gateway.until_offered("tape", is_so=False)
    assert (await gateway.post("Hello", "tape")).status_code == 503


async def test_a_single_model_of_the_fleet_is_reached_with_the_credentials_in_the_operators_folder(
    fleet: FleetProcesses,
) -> None:
    """As in an editor or a terminal: `kind = "fleet"`, and no lease."""
    await fleet.worker("w1")
    settings = FleetConfig(url=fleet.url, credentials=fleet.state / "fleet", name="gateway-1")
    models = Models(Config(models={"far": FleetModel(model="fake")}, fleet=settings))
    try:
        assert (await Chat(models.get("far"), fleet.folder).do(["say", "From afar."])).text == "From afar."
    finally:
        await models.close()
    stranger = Models(
        Config(models={"far": FleetModel(model="fake")}, fleet=replace(settings, name="stranger"))
    )
    try:
        with pytest.raises(LanguageModelError, match="dragoman fleet credentials"):
            await Chat(stranger.get("far"), fleet.folder).do(["say", "Never."])
    finally:
        await stranger.close()


async def test_an_operator_reads_all_decisions_of_the_fleet_with_a_gateways_credentials(
    fleet: FleetProcesses,
) -> None:
    await fleet.worker("w1")
    one = await fleet.gateway("g1")
    tool_call = {"toolCallId": "c", "title": "Run", "kind": "execute", "rawInput": {"command": "ls"}}
    # Nobody can be asked, so it is refused, and that is a decision.
    await one.do(["ask", tool_call, ["allow_once", "reject_once"]])
    # On a gateway beside the one that serves, with its name and credentials.
    said = await fleet.run(*fleet.named("g1"), "approvals", "history", "--json")
    [decision] = [json.loads(line) for line in said.splitlines()]
    assert "ls" in json.dumps(decision)
    # A history without them would seem to be all.
    refused = await fleet.process(*fleet.named("w1"), "approvals", "history")
    assert await refused.end() != 0
    assert "credentials of a gateway" in refused.said


async def test_nodes_that_end_while_nats_is_away_end_well(fleet: FleetProcesses) -> None:
    worker = await fleet.worker("w1")
    gateway = await fleet.gateway("g1")
    assert (await gateway.do(["say", "Hi."])).text == "Hi."
    assert fleet.up is not None
    fleet.up.signal(signal.SIGTERM)
    assert await fleet.up.end() == 0
    for node in (worker, gateway.node):
        # What it has to say waits for a connection.
        await node.until_said("Connection refused")
        node.signal(signal.SIGTERM)
        assert await node.end() == 0, node.said
        assert "should not have happened" not in node.said
