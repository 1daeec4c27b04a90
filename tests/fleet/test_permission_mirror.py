"""A gateway's copies of permission requests: bounded, used once, and looked up again where they are missing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.backends.remote import permission_mirror
from dragoman.backends.remote.permission_mirror import PermissionMirror
from dragoman.fleet.connection import FleetConnection, Received
from dragoman.fleet.console_messages import DECISION_FORM, PENDING_LIST_FORM, LookUpCalls, PendingList
from dragoman.fleet.messages import ApprovedCall, Form, NodeStatus, PendingMessage
from dragoman.fleet.subjects import STATUS, decisions_subject
from dragoman.lm import LanguageModelError, Message, Request, TextPart, ToolResultPart
from dragoman.permissions.action import PERMISSION_TOOLS, Action
from dragoman.permissions.decide import Ask
from dragoman.permissions.grants import Grants
from dragoman.store.errors import JournalStoreError
from nats_servers import nats_server

_CALL = "dg_aaaaaaaaaaaaaaaa_1_bbbbbbbbbbbbbbbb"
_ACTION = Action(agent="a", agent_name="A", risk="execute", kind="execute", title="x", folder="/w")


def _pending(call_id: str = _CALL, nonce: str = "nonce") -> PendingMessage:
    return PendingMessage(call_id, nonce, _ACTION, Ask(), "aaaaaaaaaaaaaaaa")


def _answered(text: str, *, is_error: bool = False) -> Request:
    return Request((Message("user", (ToolResultPart(_CALL, (TextPart(text),), is_error=is_error),)),))


async def _no_connection() -> FleetConnection:
    raise AssertionError("it needs none")


async def _nobody(_conversation: str) -> str | None:
    return None


def _mirror(grants: Grants) -> PermissionMirror:
    return PermissionMirror(_no_connection, grants, _nobody)


def test_a_yes_is_sent_without_its_proof_and_once() -> None:
    grants = Grants()
    mirror = _mirror(grants)
    mirror.take("w1", [_pending(), _pending(nonce="another")])
    token = str(grants.issue("nonce", PERMISSION_TOOLS["execute"]))
    sent, approved = mirror.outgoing(_answered(token))
    assert approved == (ApprovedCall(_CALL, "nonce"),)
    assert sent.messages[0].results[0].text == '{"decision": "allow"}'
    # It may not have arrived: the same yes counts again.
    assert mirror.outgoing(_answered(token)) == (sent, approved)
    mirror.settle(sent)
    again = _answered(token)
    assert mirror.outgoing(again) == (again, ())
    assert len(grants) == 0


@pytest.mark.parametrize("is_error", [True, False])
def test_what_proves_nothing_is_sent_as_it_is(*, is_error: bool) -> None:
    grants = Grants()
    mirror = _mirror(grants)
    mirror.take("w1", [_pending()])
    token = str(grants.issue("nonce", PERMISSION_TOOLS["execute"]))
    refused = _answered(token if is_error else "The user refused it.", is_error=is_error)
    assert mirror.outgoing(refused) == (refused, ())
    # The first answer that a worker has decides it, either way.
    mirror.settle(refused)
    assert mirror.outgoing(_answered(token)) == (_answered(token), ())


def test_copies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission_mirror, "_MOST_COPIES", 2)
    grants = Grants()
    _mirror(grants).take("w1", [_pending(f"dg_{number}", f"n{number}") for number in range(3)])
    assert [grants.waiting(f"dg_{number}") is not None for number in range(3)] == [False, True, True]


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[FleetConnection]:
    async with nats_server(tmp_path) as url, FleetConnection.open((url,), "g1") as opened:
        yield opened


async def _worker(connection: FleetConnection, name: str, *pending: PendingMessage) -> None:
    """A worker that answers look-ups."""

    async def look_up(received: Received) -> None:
        wanted = DECISION_FORM.decode(received.data)
        assert isinstance(wanted, LookUpCalls)
        await connection.answer(received, PENDING_LIST_FORM.encode(PendingList(pending)))

    async def status(received: Received) -> None:
        form = Form(NodeStatus)
        await connection.answer(received, form.encode(NodeStatus(name, "i", "worker", "1")))

    await connection.subscribe(decisions_subject(name), look_up)
    await connection.subscribe(STATUS, status)
    await connection.flush()


@pytest.mark.parametrize("owner", ["w2", None])
async def test_n6_a_call_that_is_not_known_is_looked_up_at_its_owner_or_at_all_workers(
    connection: FleetConnection, owner: str | None
) -> None:
    # A worker may answer with what was not asked for.
    await _worker(connection, "w1")
    await _worker(connection, "w2", _pending(), _pending("dg_other", "n"))
    grants, asked = Grants(), []

    async def owner_of(conversation: str) -> str | None:
        asked.append(conversation)
        return owner

    async def connected() -> FleetConnection:
        return connection

    mirror = PermissionMirror(connected, grants, owner_of)
    await mirror.recall([_CALL, "call_of_a_client", "dg_short"])
    assert grants.of_call(_CALL) is not None
    assert grants.of_call("dg_other") is None
    await mirror.recall([_CALL])
    assert asked == ["aaaaaaaaaaaaaaaa"]


@pytest.mark.parametrize("listens", [True, False])
async def test_n6_an_owner_that_does_not_answer_is_asked_again(
    connection: FleetConnection, monkeypatch: pytest.MonkeyPatch, *, listens: bool
) -> None:
    """Its NATS server hangs, or has just started and is not known to the others yet."""
    monkeypatch.setattr(permission_mirror, "_LOOK_UP_SECONDS", 0.05)
    grants = Grants()
    looks = 0

    async def silent(_received: Received) -> None:
        return

    async def owner_of(_conversation: str) -> str | None:
        nonlocal looks
        looks += 1
        if looks == 2:
            await _worker(connection, "w1", _pending())
        return "w1"

    async def connected() -> FleetConnection:
        return connection

    if listens:
        await connection.subscribe(decisions_subject("w1"), silent)
    await PermissionMirror(connected, grants, owner_of).recall([_CALL])
    assert grants.of_call(_CALL) is not None
    assert looks == 2


async def test_a_decision_that_cannot_be_given_to_the_owner_is_an_error_and_never_a_no(
    connection: FleetConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner whose lease lives may only be cut off from this gateway, and its agent waits."""
    monkeypatch.setattr(permission_mirror, "_LOOK_UP_SECONDS", 0.05)
    monkeypatch.setattr(permission_mirror, "ELECTION_SECONDS", 0.1)
    owner = "nobody"

    async def owner_of(_conversation: str) -> str | None:
        if owner == "unknown":
            raise JournalStoreError("The store cannot be read now.")
        return owner

    async def connected() -> FleetConnection:
        return connection

    async def silent(_received: Received) -> None:
        return

    mirror = PermissionMirror(connected, Grants(), owner_of)
    await connection.subscribe(decisions_subject("silent"), silent)
    for owner in ("nobody", "silent", "unknown"):
        with pytest.raises(LanguageModelError) as error:
            await mirror.recall([_CALL])
        assert error.value.kind == "unavailable"
        assert error.value.public is not None
        assert owner not in error.value.public
        assert owner == "unknown" or f"The worker {owner}, which runs the agent," in error.value.message
