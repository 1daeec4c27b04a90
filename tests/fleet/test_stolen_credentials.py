"""An agent of a real worker reads its worker's credentials, and tries them at a real server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fake_agent.steps import prompt
from fleet.node_processes import fleet_processes

pytestmark = pytest.mark.long

_THIEF = str(Path(__file__).with_name("thief.py"))
_RUN = ["ask", {"toolCallId": "p", "title": "Run it", "kind": "execute"}, ["allow_once", "reject_once"]]


async def test_an_agent_with_its_workers_credentials_can_do_no_more_than_the_worker(tmp_path: Path) -> None:
    async with fleet_processes(tmp_path) as fleet:
        await fleet.worker("w1")
        gateway = await fleet.gateway("g1")
        thief = await gateway.do(["say", "Hello."])
        await fleet.worker("w2", models='[models.other]\nkind = "acp"\nagent = "demo"\ncommand = ["true"]\n')
        # The gateway knows the second worker now.
        await gateway.until_offered("other")
        # The first worker has a conversation, so a new one goes to the second. It waits for a decision.
        chat = [{"role": "user", "content": prompt(_RUN)}]
        asked = await gateway.chat(chat)
        [call] = asked["tool_calls"]
        assert fleet.owner("Run it", "w1", "w2") == "w2"
        conversation = call["id"].removeprefix("mcpr_").split("_")[1]

        said = await gateway.do(
            ["run", sys.executable, _THIEF, "w2", "g1", conversation], previous_response_id=thief.id
        )
        refused = json.loads(said.text)
        assert len(refused) > 50
        can = {what for what, is_refused in refused.items() if not is_refused}
        assert can == {f"read dg.j.{conversation}", "store dg.j.forged"}

        # Nothing was decided, nothing has stopped, and a person's yes counts.
        answer = {"role": "tool", "tool_call_id": call["id"], "content": '{"approve": true}'}
        after = await gateway.chat([*chat, asked, answer])
        assert "<p: the-allow_once>" in after["content"]
        assert (await gateway.do(["say", "Still here."], previous_response_id=said.id)).text == "Still here."
