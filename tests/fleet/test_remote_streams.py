"""`respond` on another machine: a gateway, a worker, and a real NATS server between them."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.consumer import Chat, Heard, result
from dragoman.config import Config, FleetConfig, FleetModel
from dragoman.fleet.subjects import GATEWAYS, NODES
from dragoman.fleet.window import WINDOW_BYTES
from dragoman.frontends.worker.serving import WorkerLimits
from dragoman.lm import (
    DataPart,
    Features,
    LanguageModelError,
    TextPart,
    ToolResultPart,
    assistant,
    user,
)
from dragoman.lm.parts import CONVERSATION
from dragoman.models import Models
from fake_agent.steps import open_gate, prompt
from fleet.lossy import losing
from fleet.machines import Machines, fake, machines, script, soon, until
from nats_servers import free_port

# Through agents and connections: each takes a second or more.
pytestmark = pytest.mark.long


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Machines]:
    async with machines(tmp_path) as each:
        yield each


async def test_a_scripted_answer_arrives_whole_and_in_order(room: Machines) -> None:
    words = [f"word{n} " for n in range(500)]
    await room.worker("w1", story=script(room.folder, {"do": [{"say": "".join(words), "pace": 100_000}]}))
    gateway = await room.gateway()
    heard = await room.chat(gateway, "story").say("tell")
    assert heard.text == "".join(words)
    assert len([part for part in heard.parts if isinstance(part, TextPart)]) == 500


async def test_calls_and_results_of_an_agent_cross_requests(room: Machines) -> None:
    await room.worker("w1", fake=fake(room.folder / "agent"))
    chat = room.chat(await room.gateway(), "fake")
    heard = await chat.do(["say", "Looking."], ["call", "look", {"word": "x"}], ["say", "Done."])
    [call] = heard.message().calls
    answer = await chat.give(result(call, "a thing"))
    assert "a thing" in answer.text
    assert answer.text.endswith("Done.")
    assert await chat.echo()


def _noted(folder: Path, name: str) -> bool:
    journal = folder / "journal"
    return journal.exists() and f'"{name}"' in journal.read_text()


async def test_a_cancel_reaches_the_agent_at_once(room: Machines) -> None:
    folder = room.folder / "agent"
    running = await room.worker("w1", fake=fake(folder))
    chat = room.chat(await room.gateway(), "fake")
    going = chat.begin(user(prompt(["say", "Working."], ["hang"])))
    await going.until(lambda heard: "Working." in heard.text)
    [conversation] = running.models.conversations()
    stopped = asyncio.Event()

    async def watch() -> None:
        await until(lambda: _noted(folder, "session/cancel"))
        stopped.set()

    watching = asyncio.create_task(watch())
    began = time.monotonic()
    heard = await going.cancel()
    await soon(stopped.wait())
    print(f"the agent had the cancel after {(time.monotonic() - began) * 1_000:.0f} ms")
    await watching
    assert heard.text == "Working."
    await soon(until(lambda: not conversation.is_busy))
    await soon(until(lambda: running.streams == 0))


async def test_a_cancel_before_the_worker_has_answered_frees_its_place_at_once(
    room: Machines, caplog: pytest.LogCaptureFixture
) -> None:
    requested: list[bool] = []
    running = await room.worker(
        "w1",
        wrapped=losing(lambda subject, _: subject.startswith("_INBOX") and bool(requested)),
        fake=fake(room.folder / "agent"),
    )
    gateway = await room.gateway(wrapped=losing(lambda subject, _: _noting(requested, subject)))
    with caplog.at_level(logging.INFO, "dragoman.frontends.worker"):
        going = room.chat(gateway, "fake").begin(user(prompt(["say", "Never."])))
        await soon(until(lambda: running.streams == 1))
        await going.cancel()
        await soon(until(lambda: running.streams == 0))
    # The place was not kept until the confirmation was overdue.
    assert "not confirmed" not in caplog.text
    assert not _noted(room.folder / "agent", "session/prompt")


class _Slow(Heard):
    """A consumer that takes a part, and then nothing for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()
        self.size = 0

    def report(self, part: object) -> None:
        super().report(part)  # type: ignore[arg-type]
        self.size += len(part.value) if isinstance(part, TextPart) else 0

    async def drain(self) -> None:
        await self.goes_on.wait()


async def test_n4_a_slow_client_costs_one_window_and_its_agent_waits(room: Machines) -> None:
    folder, size, count = room.folder / "agent", 10_000, 400
    running = await room.worker("w1", fake=fake(folder))
    chat = room.chat(await room.gateway(), "fake")
    slow = _Slow()
    going = chat.begin(
        user(prompt(["repeat", count, size], ["note", "all-said"], ["say", "End."])), heard=slow
    )
    await going.until(lambda heard: heard.parts)
    [stream] = running.worker.serving._streams.values()  # type: ignore[union-attr]
    await soon(until(lambda: not stream.window.has_room))
    # It stays so: the agent's pipe is full, and the agent waits.
    kept = len(b"".join(stream.window.after(0))) + stream._queued
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert len(b"".join(stream.window.after(0))) <= WINDOW_BYTES + 64 * 1024
    assert len(b"".join(stream.window.after(0))) + stream._queued - kept <= 64 * 1024
    assert not _noted(folder, "all-said")
    slow.goes_on.set()
    heard = await going.end()
    assert len(heard.text) == size * count + len("End.")


@pytest.mark.parametrize("drains", [False, True])
async def test_n4_a_client_that_pauses_at_the_end_gets_the_whole_answer(
    room: Machines, monkeypatch: pytest.MonkeyPatch, *, drains: bool
) -> None:
    """The gateway has everything, and its client has not: the worker keeps the stream, and a drain waits for it."""
    monkeypatch.setattr("dragoman.backends.remote.worker_streams.PING_SECONDS", 0.05)
    words = "".join(f"word{n} " for n in range(3_000))
    running = await room.worker("w1", story=script(room.folder, {"do": [{"say": words, "pace": 100_000}]}))
    serving = running.worker.serving
    assert serving is not None
    slow = _Slow()
    going = room.chat(await room.gateway(), "story").begin(user("tell"), heard=slow)
    await going.until(lambda heard: heard.parts)
    [stream] = serving._streams.values()
    await soon(until(lambda: not stream.is_under_way))
    if drains:
        running.worker.drain()
    for _ in range(3):
        pinged = serving._heard.pop(stream.gateway)
        await soon(until(lambda: serving._heard.get(stream.gateway, 0.0) > pinged))  # noqa: B023 - it is awaited here
    slow.goes_on.set()
    assert (await going.end()).text == words
    if drains:
        await soon(running.task)


async def test_numbers_of_any_size_cross_machines(room: Machines) -> None:
    """JSON has no largest integer, and an agent's call may have any. One that failed would stop the worker's other streams."""
    await room.worker("w1", fake=fake(room.folder / "agent"))
    chat = room.chat(await room.gateway(), "fake")
    heard = await chat.do(["call", "look", {"word": 2**70}], ["say", "Done."])
    [call] = heard.message().calls
    assert call.input == {"word": 2**70}
    assert (await chat.give(result(call, "a thing"))).text.endswith("Done.")
    # The history with the call goes to the worker again.
    assert await chat.echo()


async def test_nothing_is_lost_or_doubled_when_messages_are_lost_in_both_directions(room: Machines) -> None:
    chance = random.Random(7)  # noqa: S311 - losses, not secrets
    lost: list[str] = []

    def is_lost(subject: str, _: bytes) -> bool:
        if (
            subject.startswith((GATEWAYS, NODES))
            and not subject.endswith(".request")
            and chance.random() < 0.05
        ):
            lost.append(subject)
            return True
        return False

    words = "".join(f"word{n} " for n in range(200))
    model = script(room.folder, {"do": [{"say": words, "pace": 2_000}]})
    await room.worker("w1", wrapped=losing(is_lost), story=model)
    chat = room.chat(await room.gateway(wrapped=losing(is_lost)), "story")
    heard = await chat.say("tell")
    assert heard.text == words
    assert any(each.startswith(GATEWAYS) for each in lost)


async def test_a_request_whose_answer_is_lost_is_sent_again_and_runs_once(room: Machines) -> None:
    folder = room.folder / "agent"
    answers: list[str] = []

    def is_lost(subject: str, data: bytes) -> bool:
        # The first answer to the request: it goes to an inbox, and the status and bids went before.
        if subject.startswith("_INBOX") and requested:
            answers.append(subject)
            return len(answers) == 1
        return False

    requested: list[bool] = []
    await room.worker("w1", wrapped=losing(is_lost), fake=fake(folder))
    gateway = await room.gateway(wrapped=losing(lambda subject, _: _noting(requested, subject)))
    heard = await room.chat(gateway, "fake").do(["say", "Once."])
    assert heard.text == "Once."
    assert len(requested) == 2
    assert (folder / "journal").read_text().count('"session/prompt"') == 1


def _noting(requested: list[bool], subject: str) -> bool:
    if subject.endswith(".request"):
        requested.append(True)
    return False


async def test_no_worker_is_unavailable_at_once(room: Machines) -> None:
    running = await room.worker("w1", story=script(room.folder, {"do": [{"say": "hi"}]}))
    gateway = await room.gateway()
    chat = room.chat(gateway, "story")
    assert (await chat.say("hello")).text == "hi"
    await running.drained()
    with pytest.raises(LanguageModelError) as failed:
        await chat.say("again")
    assert failed.value.kind == "unavailable"
    assert "dragoman worker" in failed.value.sentence


async def test_requests_of_one_moment_are_spread_over_the_workers(room: Machines) -> None:
    workers = [
        await room.worker(f"w{number}", fake=fake(room.folder / f"agent{number}")) for number in range(3)
    ]
    gateway = await room.gateway()
    chats = [room.chat(gateway, "fake").begin(user(prompt(["say", "Here."], ["hang"]))) for _ in range(6)]
    for chat in chats:
        await chat.until(lambda heard: "Here." in heard.text)
    assert [worker.streams for worker in workers] == [2, 2, 2]
    for chat in chats:
        await chat.cancel()


async def test_a_full_fleet_is_rate_limited_with_a_time_to_wait(room: Machines) -> None:
    folder = room.folder / "agent"
    running = await room.worker("w1", WorkerLimits(max_agents=1), fake=fake(folder))
    gateway = await room.gateway()
    chat = room.chat(gateway, "fake")
    going = chat.begin(user(prompt(["say", "Busy."], ["gate", "on"], ["say", "Done."])))
    await going.until(lambda heard: "Busy." in heard.text)
    with pytest.raises(LanguageModelError) as failed:
        await room.chat(gateway, "fake").say("me too")
    assert failed.value.kind == "rate_limited"
    assert failed.value.retry_after
    # Nor does it help to name the conversation that is there with an id that nobody has signed.
    [busy] = running.models.conversations()
    forged = ToolResultPart(f"dg_{busy.id}_1_{'a' * 16}", (TextPart("x"),))
    with pytest.raises(LanguageModelError, match="full"):
        await room.chat(gateway, "fake").give(forged)
    open_gate(folder, "on")
    assert (await going.end()).text == "Busy.Done."
    assert (await room.chat(gateway, "fake").do(["say", "Free."])).text == "Free."


async def test_n5_a_drain_finishes_what_is_under_way_and_loses_nothing(room: Machines) -> None:
    first, second = room.folder / "one", room.folder / "two"
    running = await room.worker("w1", fake=fake(first))
    gateway = await room.gateway()
    streaming, calling = room.chat(gateway, "fake"), room.chat(gateway, "fake")
    going = streaming.begin(user(prompt(["say", "Half"], ["gate", "on"], ["say", " and whole."])))
    await going.until(lambda heard: "Half" in heard.text)
    [call] = (await calling.do(["call", "look", {}], ["say", "Looked."])).message().calls
    await room.worker("w2", fake=fake(second))
    running.worker.drain()
    # New conversations go to the other one.
    assert (await room.chat(gateway, "fake").do(["say", "Elsewhere."])).text == "Elsewhere."
    assert _noted(second, "session/prompt")
    # A result for a call of the turn under way still counts.
    assert (await calling.give(result(call, "seen"))).text.endswith("Looked.")
    open_gate(first, "on")
    assert (await going.end()).text == "Half and whole."
    await soon(running.task)
    # The conversation goes on elsewhere.
    assert (await streaming.do(["say", "Further."])).text == "Further."


@pytest.mark.long
async def test_a_gateway_that_is_gone_leaves_no_request_running(
    room: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.frontends.worker.serving.GATEWAY_SILENCE_SECONDS", 4.0)
    folder = room.folder / "agent"
    running = await room.worker("w1", fake=fake(folder))
    is_cut: list[bool] = []
    gateway = await room.gateway(wrapped=losing(lambda *_: bool(is_cut)))
    chat = room.chat(gateway, "fake")
    going = chat.begin(user(prompt(["say", "Working."], ["hang"])))
    await going.until(lambda heard: "Working." in heard.text)
    is_cut.append(True)
    await soon(until(lambda: _noted(folder, "session/cancel")))
    await soon(until(lambda: running.streams == 0))
    going.task.cancel()
    await asyncio.gather(going.task, return_exceptions=True)


@pytest.mark.long
async def test_two_gateways_with_one_name_do_not_mix_their_streams(room: Machines) -> None:
    folder = room.folder / "agent"
    await room.worker("w1", fake=fake(folder))
    chats = [room.chat(await room.gateway("same", has_store=False), "fake") for _ in range(2)]
    steps = ["gate", "on"]
    both = [
        chat.begin(user(prompt(["say", f"I am {n}."], steps, ["say", f" Still {n}."])))
        for n, chat in enumerate(chats)
    ]
    for n, going in enumerate(both):
        await going.until(lambda heard, n=n: f"I am {n}." in heard.text)  # type: ignore[misc]
    # Pings of both have come and gone.
    await asyncio.sleep(2.5)
    open_gate(folder, "on")
    assert [(await going.end()).text for going in both] == ["I am 0. Still 0.", "I am 1. Still 1."]


async def test_a_model_of_the_fleet_works_without_a_store_and_finds_its_conversation(room: Machines) -> None:
    one, two = room.folder / "one", room.folder / "two"
    await room.worker("w1", fake=fake(one))
    config = Config(
        models={"mine": FleetModel(model="fake", name="Far")}, fleet=FleetConfig(url=room.url, name="term")
    )
    models = Models(config)
    room.stack.push_async_callback(models.close)
    chat = Chat(models.get("mine"), room.folder)
    await chat.do(["say", "First."])
    await room.worker("w2", fake=fake(two))
    assert len(await chat.echo()) == 1
    assert not _noted(two, "session/prompt")
    assert models.get("mine").info.name == "Far"


@pytest.mark.long
async def test_a_model_that_a_worker_offers_later_is_in_the_list(room: Machines) -> None:
    gateway = await room.gateway()
    assert gateway.infos() == ()
    await room.worker("w1", story=script(room.folder, {"do": [{"say": "hi"}]}))
    await soon(until(lambda: [info.id for info in gateway.infos()] == ["story"]))


async def test_a_gateway_knows_in_which_folder_an_agent_works(room: Machines) -> None:
    folder = room.folder / "agent"
    await room.worker("w1", fake=fake(folder), story=script(room.folder, {"do": [{"say": "hi"}]}))
    gateway = await room.gateway()
    assert gateway.folder("fake") == folder
    assert gateway.folder("story") is None


async def test_what_was_delivered_is_said_to_the_worker(room: Machines) -> None:
    running = await room.worker("w1", fake=fake(room.folder / "agent"))
    gateway = await room.gateway()
    chat = room.chat(gateway, "fake")
    chat.features = Features(thinking=True, data=True, confirms_delivery=True)
    heard = await chat.do(["say", "Hello."])
    [said] = [part for part in heard.parts if isinstance(part, DataPart) and part.mime_type == CONVERSATION]
    [conversation] = running.models.conversations()
    assert conversation.id.encode() in said.data
    gateway.get("fake").delivered(conversation.id, whole=True)
    record = conversation.journal  # type: ignore[attr-defined]
    await soon(until(lambda: record.record.last.is_delivered))


async def test_a_permission_call_comes_with_its_request_and_an_approved_call_is_granted_once(
    room: Machines,
) -> None:
    running = await room.worker("w1", fake=fake(room.folder / "agent"))
    gateway = await room.gateway()
    chat = room.chat(gateway, "fake")
    ask = ["ask", {"toolCallId": "t1", "title": "rm -r x", "kind": "execute"}, ["allow_once", "reject_once"]]
    [call] = (await chat.do(ask)).message().calls
    copies = gateway.permissions.grants
    pending = copies.pending(call.input["nonce"])
    assert pending is not None
    assert (pending.call_id, pending.action.title) == (call.call_id, "rm -r x")
    token = copies.issue(call.input["nonce"], call.name)
    assert token is not None
    assert "allow" in (await chat.give(result(call, token))).text
    assert (len(copies), len(running.models.permissions.grants)) == (0, 0)


async def test_a_yes_that_the_gateway_has_not_seen_grants_nothing(room: Machines) -> None:
    await room.worker("w1", fake=fake(room.folder / "agent"))
    chat = room.chat(await room.gateway(), "fake")
    ask = ["ask", {"toolCallId": "t1", "title": "rm -r x", "kind": "execute"}, ["allow_once", "reject_once"]]
    [call] = (await chat.do(ask)).message().calls
    assert "reject" in (await chat.give(result(call, f"yes {call.input['nonce']}"))).text


async def test_a_worker_that_finds_another_owner_sends_the_request_there(room: Machines) -> None:
    one, two = room.folder / "one", room.folder / "two"
    bids: list[bool] = []

    def is_lost(subject: str, _: bytes) -> bool:
        return bool(bids) and subject.startswith("_INBOX")

    first = await room.worker("w1", wrapped=losing(is_lost), fake=fake(one))
    # It has no store, so it does not know who owns what.
    chat = room.chat(await room.gateway(has_store=False), "fake")
    [call] = (await chat.do(["call", "look", {}], ["say", "Looked."])).message().calls
    second = await room.worker("w2", fake=fake(two))
    bids.append(True)
    going = chat.begin(user(result(call, "seen")))
    await soon(until(lambda: second.served_requests))
    bids.clear()
    assert (await going.end()).text.endswith("Looked.")
    assert not second.models.conversations()
    assert len(first.models.conversations()) == 1


async def test_a_conversation_without_markers_is_found_by_its_history(room: Machines) -> None:
    one, two = room.folder / "one", room.folder / "two"
    first = await room.worker("w1", fake=fake(one))
    gateway = await room.gateway()
    chat = room.chat(gateway, "fake")
    await chat.do(["say", "First."])
    await first.drained()
    second = await room.worker("w2", fake=fake(two))
    # A plain client sends back nothing but text.
    chat.history = [user(chat.history[0].text), assistant("First.")]
    await chat.echo()
    [conversation] = second.models.conversations()
    assert len(conversation.journal.record.replies) == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_shared", [True, False])
async def test_a_second_worker_resumes_the_session_of_an_agent_that_works_in_the_shared_folder(
    room: Machines, *, is_shared: bool
) -> None:
    """The agent's own files are there as well: both workers have the same."""
    shared = room.folder / "shared"
    folder = shared / "project" if is_shared else room.folder / "project"
    shared.mkdir()
    agent = fake(folder, resume=True)
    first = await room.worker("w1", shared=shared, fake=agent)
    gateway = await room.gateway()
    chat = room.chat(gateway, "fake", folder)
    assert (await chat.do(["say", "First."])).text == "First."
    await first.drained()
    await room.worker("w2", shared=shared, fake=agent)
    assert (await chat.do(["say", "Second."])).text == "Second."
    sent = [json.loads(line)["method"] for line in (folder / "journal").read_text().splitlines()]
    assert (sent.count("session/new"), sent.count("session/resume")) == ((1, 1) if is_shared else (2, 0))


async def test_only_workers_with_the_labels_of_a_model_get_its_requests(room: Machines) -> None:
    for name, label in (("w1", "small"), ("w2", "big")):
        story = script(room.folder, {"do": [{"say": f"I am {label}."}]})
        await room.worker(name, WorkerLimits(labels=(label,)), story=story)
    config = Config(
        models={
            "big": FleetModel(model="story", labels=("big",)),
            "huge": FleetModel(model="story", labels=("huge",)),
        },
        fleet=FleetConfig(url=room.url),
    )
    models = Models(config)
    room.stack.push_async_callback(models.close)
    assert (await Chat(models.get("big"), room.folder).say("who?")).text == "I am big."
    with pytest.raises(LanguageModelError, match="huge"):
        await Chat(models.get("huge"), room.folder).say("who?")


async def test_a_request_with_a_large_picture_and_half_a_character_arrives(room: Machines) -> None:
    await room.worker("w1", fake=fake(room.folder / "agent", images=True))
    chat = room.chat(await room.gateway(), "fake")
    picture = DataPart.image(bytes(3_000_000), "image/png")
    heard = await chat.begin(user(picture, "look \ud800 here")).end()
    assert "here" in heard.text


async def test_n5_a_drain_under_load_loses_no_word_of_any_answer(room: Machines) -> None:
    words = "".join(f"word{n} " for n in range(80))
    model = script(room.folder, {"do": [{"say": words, "pace": 200}]})
    first = await room.worker("w1", story=model)
    await room.worker("w2", story=model)
    gateway = await room.gateway()

    async def talk() -> list[str]:
        chat = room.chat(gateway, "story")
        return [(await chat.say("tell")).text for _ in range(3)]

    talking = [asyncio.create_task(talk()) for _ in range(20)]
    await soon(until(lambda: first.streams > 5))
    await first.drained()
    assert await soon(asyncio.gather(*talking)) == [[words] * 3] * 20


async def test_turns_are_limited_for_agents_only(room: Machines) -> None:
    model = script(room.folder, {"do": [{"say": "a b c d e f", "pace": 20}]})
    await room.worker("w1", WorkerLimits(max_agents=1), story=model)
    gateway = await room.gateway()
    heard = await asyncio.gather(*(room.chat(gateway, "story").say("tell") for _ in range(4)))
    assert [each.text for each in heard] == ["a b c d e f"] * 4


def test_nothing_of_the_fleet_is_imported_without_it(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from dragoman.config import Config, ScriptModel\n"
        "from dragoman.models import Models\n"
        "from pathlib import Path\n"
        f"Models(Config(models={{'s': ScriptModel(path=Path({str(tmp_path / 's.jsonl')!r}))}})).get('s')\n"
        "print([each for each in sys.modules if each == 'nats' or each.startswith(('dragoman.fleet', 'dragoman.backends.remote'))])\n"
    )
    (tmp_path / "s.jsonl").write_text('{"do": [{"say": "hi"}]}\n')
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_without_nats_a_model_of_the_fleet_is_unavailable(tmp_path: Path) -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    models = Models(Config(models={"far": FleetModel()}, fleet=FleetConfig(url=url)))
    chat = Chat(models.get("far"), tmp_path)
    await models.learn()
    with pytest.raises(LanguageModelError) as failed:
        await chat.say("hello")
    assert failed.value.kind == "unavailable"
    assert url in failed.value.sentence
    assert url not in failed.value.sentence_for(sees_paths=False)
    await models.close()
