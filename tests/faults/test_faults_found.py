"""What the runs have found, each by itself: the smallest way to see that it is mended."""

import signal
from pathlib import Path

import pytest

from faults.world import World

pytestmark = pytest.mark.long

_HELLO = {"role": "user", "content": [{"type": "text", "value": '[["word", "A0.0"]]'}]}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
async def test_i7_a_bridge_that_is_told_to_end_cleans_up_behind_itself(
    tmp_path: Path, how: signal.Signals
) -> None:
    world = World(tmp_path / "world")
    try:
        editor = await world.start()
        await editor.respond(
            "fake", [{"role": "user", "content": [{"type": "text", "value": _HELLO}]}], []
        ).settled()
        world.process.send_signal(how)
        assert await world.ended() == 0
        assert world.temporary_files() == []
        assert world.remaining() == []
    finally:
        world.close()


async def test_i6_a_bridge_that_had_no_files_left_at_its_first_request_answers_the_next_one(
    tmp_path: Path,
) -> None:
    world = World(tmp_path / "world")
    try:
        editor = await world.start()
        # What is made for all models is there by then.
        await editor.ask("lm/provideLanguageModelChatInformation", {"silent": True})
        world.exhaust_files()
        failed = await editor.respond("fake", [_HELLO], []).settled()
        assert failed.kind == "unavailable"
        assert "Too many open files" in failed.error.error.message
        world.mend()
        answer = await editor.respond("fake", [_HELLO], []).settled()
        assert answer.text.startswith("«A0.0@")
    finally:
        world.close()
