"""Requests that join a reply: each gets it presented for its own features."""

import pytest

from bridge.consumer import Bridge
from dragoman.lm import ActivityPart, Features, ThinkingPart
from dragoman.lm.messages import user
from fake_agent.steps import prompt

pytestmark = pytest.mark.long

_STEP = ["update", {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run it", "kind": "execute"}]
_DONE = ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}]
_ALL = Features(thinking=True, data=True, activity=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [(_ALL, Features()), (Features(), _ALL), (_ALL, _ALL)],
    ids=["fewer", "more", "the same"],
)
async def test_i7_a_request_that_joins_gets_its_own_presentation(
    bridge: Bridge, first: Features, second: Features
) -> None:
    chat = bridge.chat()
    await chat.say("hello")
    chat.features = first
    going = chat.begin(
        user(prompt(["think", "Hm."], _STEP, ["say", "one "], ["gate", "on"], _DONE, ["say", "two"]))
    )
    await going.until(lambda heard: "one" in heard.text)
    chat.features = second
    again = chat.begin()
    await again.until(lambda heard: "one" in heard.text)
    bridge.open_gate("on")
    for heard, features in ((await again.end(), second), (await going.end(), first)):
        kinds = {type(part) for part in heard.parts}
        assert (ActivityPart in kinds) == features.activity
        assert (ThinkingPart in kinds) == features.thinking
        assert ("▸ Run it" in heard.text) != features.activity
        assert heard.text.replace(" ", "").endswith("two")
    # The agent was prompted once for both.
    assert len(bridge.noted("session/prompt")) == 2
