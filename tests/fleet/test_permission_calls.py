"""Permission calls of a worker's agent, approved at gateways: granted once, whatever gateways do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.backends.remote import model as model_module
from dragoman.backends.remote.worker_streams import WorkerStreams
from dragoman.fleet.console_messages import LookUpCalls, ShownAsItem
from dragoman.fleet.lease import LeaseTimes
from dragoman.fleet.messages import ApprovedCall
from dragoman.frontends.worker.permission_service import PermissionService
from dragoman.lm import LanguageModelError, Message, Request, TextPart, ToolCallPart, ToolResultPart
from dragoman.permissions.action import PERMISSION_TOOLS, Action
from dragoman.permissions.grants import Grants, PendingPermission
from fake_agent.steps import prompt
from fleet.machines import Machines, RunningWorker, fake, machines
from http_server.kit import Json, Site, site_of, soon

_ITEMS = {"x_dragoman_approvals": "items"}
_RUN: list[object] = [
    "ask",
    {"toolCallId": "p", "title": "Run it", "kind": "execute", "rawInput": {"command": "git log"}},
    ["allow_once", "reject_once"],
]
_EXECUTE = {
    "type": "function",
    "name": PERMISSION_TOOLS["execute"],
    "description": "May it?",
    "parameters": {"type": "object", "properties": {}},
}


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Machines]:
    async with machines(tmp_path) as fleet:
        yield fleet


@pytest.fixture
async def runner(room: Machines, tmp_path: Path) -> RunningWorker:
    return await room.worker("w1", times=LeaseTimes(), m=fake(tmp_path / "w"))


async def _site(room: Machines, name: str) -> Site:
    """The HTTP server of a gateway. Gateways share what is stored."""
    models = await room.gateway(name)
    return room.stack.enter_context(contextmanager(site_of)(models, store=room.folder / "shared", owner=name))


@pytest.fixture
async def first(room: Machines, runner: RunningWorker) -> Site:
    assert runner.models.infos()
    return await _site(room, "g1")


@pytest.fixture
async def second(room: Machines, runner: RunningWorker) -> Site:
    assert runner.models.infos()
    return await _site(room, "g2")


def _said(response: Json) -> str:
    return "".join(
        part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]
    )


async def _asked(site: Site, **options: object) -> tuple[str, Json, Json]:
    """The prompt, the response, and its item that asks."""
    steps = prompt(_RUN)
    asked: Json = (await site.create(input=steps, **options)).response
    [item] = [each for each in asked["output"] if each["type"] in ("mcp_approval_request", "function_call")]
    return steps, asked, item


@pytest.mark.parametrize("approve", [True, False])
async def test_n6_an_item_of_one_gateway_is_answered_at_another(
    first: Site, second: Site, *, approve: bool
) -> None:
    steps, asked, item = await _asked(first, headers=_ITEMS)
    assert json.loads(item["arguments"])["title"] == "Run it"
    answer = {"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": approve}
    history = [{"role": "user", "content": steps}, *asked["output"], answer]
    after = (await second.create(input=history, headers=_ITEMS)).response
    assert f"<p: the-{'allow' if approve else 'reject'}_once>" in _said(after)


@pytest.mark.parametrize("is_same", [True, False])
async def test_n6_a_function_call_is_answered_with_its_nonce_at_any_gateway(
    first: Site, second: Site, *, is_same: bool
) -> None:
    steps, asked, item = await _asked(first, tools=[_EXECUTE])
    nonce = json.loads(item["arguments"])["nonce"]
    output = json.dumps({"decision": "allow", "nonce": nonce})
    result = {"type": "function_call_output", "call_id": item["call_id"], "output": output}
    history = [{"role": "user", "content": steps}, *asked["output"], result]
    after = (await (first if is_same else second).create(input=history, tools=[_EXECUTE])).response
    assert "<p: the-allow_once>" in _said(after)


async def test_n6_a_yes_whose_request_reached_no_worker_counts_when_it_is_sent_again(
    room: Machines, runner: RunningWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runner.models.infos()
    gateway = await room.gateway()
    chat = room.chat(gateway, "m")
    [call] = (await chat.do(_RUN)).message().calls
    token = gateway.permissions.grants.issue(call.input["nonce"], call.name)
    answer = ToolResultPart(call.call_id, (TextPart(str(token)),))

    async def unreachable(*_: object) -> None:
        return None

    with monkeypatch.context() as patch:
        patch.setattr(WorkerStreams, "open", unreachable)
        patch.setattr(model_module, "ELECTION_SECONDS", 0.0)
        with pytest.raises(LanguageModelError, match="do not answer now: w1"):
            await chat.begin(Message("user", (answer,))).end()
        chat.history.pop()
    assert "<p: the-allow_once>" in (await chat.give(answer)).text


@pytest.mark.parametrize(
    "output", ['{"decision": "allow"}', '{"decision": "allow", "nonce": "made up"}', "allow"]
)
async def test_n6_nothing_but_the_nonce_grants_at_another_gateway(
    first: Site, second: Site, output: str
) -> None:
    steps, asked, item = await _asked(first, tools=[_EXECUTE])
    result = {"type": "function_call_output", "call_id": item["call_id"], "output": output}
    history = [{"role": "user", "content": steps}, *asked["output"], result]
    after = (await second.create(input=history, tools=[_EXECUTE])).response
    assert "<p: the-reject_once>" in _said(after)


async def test_n6_an_item_is_no_answer_to_a_function_call_at_another_gateway(
    first: Site, second: Site
) -> None:
    steps, asked, item = await _asked(first, tools=[_EXECUTE])
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": f"mcpr_{item['call_id']}",
        "approve": True,
    }
    history = [{"role": "user", "content": steps}, *asked["output"], answer]
    after = (await second.create(input=history, tools=[_EXECUTE])).response
    assert "<p: the-reject_once>" in _said(after)


async def test_n6_the_same_yes_at_two_gateways_at_once_is_granted_once(
    first: Site, second: Site, runner: RunningWorker
) -> None:
    steps, asked, item = await _asked(first, headers=_ITEMS)
    answer = {"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": True}
    history = [{"role": "user", "content": steps}, *asked["output"], answer]
    answers = await soon(
        asyncio.gather(*(site.create(input=history, headers=_ITEMS) for site in (first, second)))
    )
    said = [_said(each.response) for each in answers if each.status == 200]
    # The second one joins the reply to the first, or goes on behind it. Nothing waits any more.
    assert any("<p: the-allow_once>" in each for each in said)
    assert not any("<p: the-reject_once>" in each for each in said)
    decided = [each for each in runner.models.permissions.record.newest_first() if each.allowed is not None]
    assert [(each.allowed, each.by) for each in decided] == [(True, "person")]
    assert len(runner.models.permissions.grants) == 0


# The worker's part.


def _pending(grants: Grants, call_id: str = "dg_1") -> str:
    action = Action(agent="a", agent_name="A", risk="execute", kind="execute", title="x", folder="/w")
    return grants.open(PendingPermission(call_id, action, "c"))


def _decided(call_id: str = "dg_1", text: str = "x", *, is_error: bool = False) -> Request:
    result = ToolResultPart(call_id, (TextPart(text),), is_error=is_error)
    return Request((Message("user", (TextPart("hi"),)), Message("user", (result,))))


def _text(request: Request) -> str:
    return request.messages[-1].results[0].text


def test_n6_two_approvals_of_one_call_have_one_grant_which_is_used_once() -> None:
    grants = Grants()
    service = PermissionService(grants)
    approved = [ApprovedCall("dg_1", _pending(grants))]
    one, other = (_text(service.proved(_decided(), approved)) for _ in range(2))
    assert one == other
    assert [grants.redeem("dg_1", each) for each in (one, other)] == [True, False]
    # It is decided: what comes now stays as it is.
    assert _text(service.proved(_decided(), approved)) == "x"


def test_a_wrong_nonce_refuses_and_an_error_proves_nothing() -> None:
    grants = Grants()
    service = PermissionService(grants)
    nonce = _pending(grants)
    assert _text(service.proved(_decided(), [ApprovedCall("dg_1", "made up")])) == "The user refused it."
    failed = _decided(is_error=True)
    assert service.proved(failed, [ApprovedCall("dg_1", nonce)]) == failed
    request = _decided()
    assert service.proved(request, ()) is request
    assert service.proved(_decided("dg_2"), [ApprovedCall("dg_1", nonce)]) == _decided("dg_2")


def test_what_waits_goes_with_its_call() -> None:
    grants = Grants()
    service = PermissionService(grants)
    nonce = _pending(grants)
    call = ToolCallPart("dg_1", PERMISSION_TOOLS["execute"], {"nonce": nonce})
    [pending] = service.pending([TextPart("x"), ToolCallPart("dg_9", "look", {}), call])
    assert (pending.call_id, pending.nonce, pending.conversation, pending.is_item) == (
        "dg_1",
        nonce,
        "c",
        False,
    )
    service.note_item(ShownAsItem("dg_1", "made up"))
    service.note_item(ShownAsItem("dg_9", nonce))
    assert not grants.is_item("dg_1")
    service.note_item(ShownAsItem("dg_1", nonce))
    [again] = service.look_up(LookUpCalls(("dg_1", "dg_9"))).pending
    assert again.is_item
