"""A tool of the consumer's own, as one would write it: a dictionary with two entries."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from dragoman.clock import Clock
from dragoman.lm import CancellationToken, until_cancelled
from dragoman.tools.definition import DefinedTool, tool
from dragoman.tools.tool import Invocation, PreparedInvocation

__all__ = ["dictionary"]

_ENTRIES = {"thank you": "teşekkürler", "too expensive": "çok pahalı"}
# Long enough to be seen at work.
_SECONDS_A_VOLUME = 0.4


def dictionary(clock: Clock, *, speed: float = 1.0) -> DefinedTool:
    @tool(display_name="Look up", reference_name="lookUp", read_only=True)
    async def look_up(
        phrase: Annotated[str, Meta(description="In English")],
        *,
        invocation: Invocation,
        token: CancellationToken,
    ) -> str:
        """Looks up a phrase in the dictionary, from English to Turkish."""
        for volume in ("A to K", "L to Z"):
            invocation.progress(f"volume {volume}")
            await until_cancelled(clock.sleep(_SECONDS_A_VOLUME / speed), token)
        return _ENTRIES.get(phrase.lower(), "not in the dictionary")

    @look_up.prepare
    def ask(phrase: str) -> PreparedInvocation:
        return PreparedInvocation(invocation_message=f"Looking up “{phrase}”")

    return look_up
