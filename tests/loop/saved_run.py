"""One half of a run, in a process of its own: `saved_run.py start FILE` until it is suspended, `saved_run.py go-on FILE` after.

The model calls three tools; the second needs a person, who is not there in the first process and approves in the other.
What is known in the end is printed as JSON: how the run ended, what ran here, and what is recorded.
"""

import asyncio
import json
import sys
from pathlib import Path

from dragoman.backends.scripted import ScriptedModel, call, reply
from dragoman.clock import SystemClock
from dragoman.loop import RunState, Suspend, dump, load
from loop_kit import YES, Person, RecordingTool, last_results, play, toolbox


async def run_half(half: str, state: RunState | None) -> tuple[RunState, dict[str, object]]:
    look = RecordingTool("look", read_only=True)
    write = RecordingTool("write")
    model = ScriptedModel.of(
        reply(
            "Three things.",
            call("look", call_id="dg_1"),
            call("write", call_id="dg_2", path="a"),
            call("look", call_id="dg_3"),
        ),
        "All done.",
    )
    person = Person(Suspend("nobody is here") if half == "start" else YES)
    ended = await play(model, toolbox(look, write), person, clock=SystemClock(), state=state)
    return ended, {
        "ended": ended.ended,
        "ran": [*look.ended, *write.ended],
        "asked": [question.call_id for question in person.asked],
        "results": [(result.call_id, result.outcome) for result in last_results(ended)],
        "said": ended.messages[-1].text,
    }


def main(half: str, saved: Path) -> None:
    state = load(saved.read_bytes()) if half == "go-on" else None
    ended, known = asyncio.run(run_half(half, state))
    saved.write_bytes(dump(ended))
    print(json.dumps(known))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
