"""A tool of your own, a model that calls it, and the loop that lets a person decide.

    python examples/tool.py "Book a table for 4"

The model is a script, so this needs no account. Any other goes in its place: `dragoman.models.build` makes the one of a
configuration.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from msgspec import Meta

from dragoman.backends.scripted import ScriptedModel, parse_script
from dragoman.lm import CancellationSource, CancellationToken, user
from dragoman.loop import Hooks, RunEvent, ToolLoop, begin
from dragoman.loop.events import TextReported, ToolFinished
from dragoman.tools import (
    Approvals,
    Approve,
    AutoApproval,
    Confirmation,
    Decision,
    Deny,
    PreparedInvocation,
    ToolQuestion,
    ToolRegistry,
    ToolRuntime,
    tool,
)

SCRIPT = """
{"when": {"round": 0}, "do": [{"say": "I ask for a table.\\n"}, {"call": "book_table", "input": {"guests": 4}}]}
{"when": {"outcome": "denied"}, "do": [{"say": "No table, then. You said: ${reason}\\n"}]}
{"do": [{"say": "Done: ${result}\\n"}]}
"""


@tool(display_name="Book a table")
async def book_table(guests: Annotated[int, Meta(ge=1, le=12, description="How many come")]) -> str:
    """Books a table in the restaurant next door."""
    return f"a table for {guests}, at eight"


@book_table.prepare
def ask(guests: int) -> PreparedInvocation:
    """What the person is asked, and how far an approval that lasts would reach."""
    return PreparedInvocation(
        confirmation=Confirmation(f"Book a table for {guests}?"),
        approval_key=str(guests),
        covers=f"tables for {guests}",
    )


class AtTheTerminal(Hooks):
    """Shows what happens, and asks."""

    def on_event(self, event: RunEvent) -> None:
        match event:
            case TextReported(text=text):
                print(text, end="", flush=True)
            case ToolFinished(result=result):
                print(f"[{result.name}: {result.outcome}]")

    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        del token  # a real one would take the question back when it is cancelled
        answer = await asyncio.to_thread(input, f"{question.confirmation.title} [y, or why not] ")
        return Approve() if answer == "y" else Deny(answer or None)


async def main(prompt: str) -> int:
    registry = ToolRegistry()
    registry.add(book_table)
    runtime = ToolRuntime(registry, Approvals(), AutoApproval(), session="example")
    model = ScriptedModel(parse_script(SCRIPT))
    state = await ToolLoop(model, runtime, hooks=AtTheTerminal()).run(
        begin((user(prompt),)), CancellationSource().token
    )
    print(f"The run is {state.ended}.")
    return 0 if state.ended == "completed" else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(" ".join(sys.argv[1:]) or "Book a table for 4")))
