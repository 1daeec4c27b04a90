"""What a client does not learn of the server's machine: commands, paths and output are for its operator."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.consumer import Bridge
from dragoman.config import KeyConfig, Serve
from dragoman.journal.agent_events import AgentStopped, ReplyEnded
from dragoman.store import Database
from fake_agent.steps import COMMAND, prompt
from http_server.kit import Held, Json, Site, site_of, soon
from process.living import all_gone

_Make = Callable[..., tuple[Site, Site]]
_BROKEN = prompt(["error", -32603, "boom"])
_CHAT = "/v1/chat/completions"


@pytest.fixture
async def clients(tmp_path: Path) -> AsyncIterator[tuple[_Make, Bridge]]:
    """A server with the agent `m`, for an administrator and for a client with an ordinary key."""
    bridge = Bridge(tmp_path)
    with ExitStack() as stack:

        def made(serve: Serve | None = None, **options: Any) -> tuple[Site, Site]:
            bridge.chat(**options)
            assert bridge.model is not None
            models = Held(bridge.permissions, m=bridge.model)
            models.cwd = tmp_path
            keys = {
                "admin": KeyConfig(key="a" * 24, role="admin"),
                "user": KeyConfig(key="u" * 24),
            }
            admin = stack.enter_context(
                contextmanager(site_of)(models, named=keys, store=tmp_path / "state", serve=serve)
            )
            return admin, Site(admin.app, admin.service, {"authorization": f"Bearer {'u' * 24}"})

        yield made, bridge
    await bridge.close()
    await soon(all_gone(bridge.pids))


async def _failures(site: Site, text: str) -> list[str]:
    """The message of a failure, in each form that a response has."""
    chat: Json = {"model": "m", "messages": [{"role": "user", "content": text}]}
    whole = await site.create(input=text, store=False)
    begun = await site.create(input=prompt(["say", "Well. "], ["error", -32603, "boom"]), stream=True)
    messages = [whole.error["message"], (await site.post(_CHAT, chat)).error["message"]]
    return [
        *messages,
        *(event["response"]["error"]["message"] for event in begun.data if "failed" in event["type"]),
    ]


@pytest.mark.long
async def test_only_an_administrator_sees_how_a_failing_agent_is_started(
    clients: tuple[_Make, Bridge], tmp_path: Path
) -> None:
    made, _ = clients
    admin, user = made()
    for message in await _failures(admin, _BROKEN):
        assert COMMAND[0] in message
    shown = await _failures(user, _BROKEN)
    assert len(shown) == 3
    for message in shown:
        assert message == (
            "Fake could not answer: boom. Try again; if it stays so, ask the operator of this server."
        )


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("/no/such/folder/agent", "--token=secret"), "Fake cannot be started."),
        (
            ("/bin/sh", "-c", "echo a=secret >&2; exit 3"),
            "Fake ended unexpectedly: it exited with code 3.",
        ),
    ],
)
async def test_only_an_administrator_sees_why_an_agent_does_not_start(
    clients: tuple[_Make, Bridge], command: tuple[str, ...], words: str
) -> None:
    made, _ = clients
    admin, user = made(command=command)
    told = (await admin.create(input="Hi.")).error["message"]
    assert command[0] in told
    shown = (await user.create(input="Hi.")).error["message"]
    assert shown == f"{words} Try again; if it stays so, ask the operator of this server."


async def test_the_journal_of_a_conversation_says_no_more_than_its_client_may_know(
    clients: tuple[_Make, Bridge], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The client reads it at the console."""
    made, bridge = clients
    with closing(Database.open(tmp_path / "conversations")) as database:
        journals = bridge.store_in(database)
        _, user = made()
        await user.create(input=_BROKEN)
        await user.create(input=prompt(["exit", 3]))
        await bridge.close()
        told = [
            str(entry.event)
            for each in await journals.journals("agent")
            for entry in await journals.read(each.id)
            if isinstance(entry.event, ReplyEnded | AgentStopped)
        ]
    assert "boom" in str(told)
    assert "exited with code 3" in str(told)
    assert not [each for each in told if COMMAND[0] in each]
    # The operator finds it in the log.
    assert COMMAND[0] in caplog.text


async def test_a_client_learns_the_agents_folder_only_if_it_is_open_to_it(
    clients: tuple[_Make, Bridge], tmp_path: Path
) -> None:
    made, _ = clients
    other = tmp_path / "other"
    other.mkdir()
    admin, user = made(serve=Serve(workspaces=(other,)))
    cwd = f"<environment_context>\n  <cwd>{tmp_path}</cwd>\n</environment_context>"
    wish = [{"role": "user", "content": cwd}, {"role": "user", "content": "Hi."}]
    told, shown = [await each.create(input=wish) for each in (admin, user)]
    assert told.headers["x-dragoman-workspace"] == str(tmp_path)
    assert "x-dragoman-workspace" not in shown.headers
    assert str(tmp_path) not in str(shown.response["metadata"])
    chosen = await user.create(input="Hi.", headers={"x_dragoman_workspace": str(other)})
    assert chosen.headers["x-dragoman-workspace"] == str(other)
