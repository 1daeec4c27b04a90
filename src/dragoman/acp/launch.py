"""Starting an agent: a supervised process, and a connection to it.

The agent's standard error says best why it does not start, so an error quotes it. From the first prompt on it may contain
the user's messages, or those of another conversation: then it goes to the log only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from dragoman.acp.link import AgentLink
from dragoman.acp.words import as_sentence, cleaned
from dragoman.jsonrpc import Peer, PeerOptions
from dragoman.lm import CancellationSource, CancellationToken, ErrorKind, LanguageModelError
from dragoman.lm.errors import ASK_OPERATOR
from dragoman.process import Ledger, SpawnError, SupervisedProcess
from dragoman.traces.recording import watch

__all__ = ["RunningAgent", "launch"]

_log = logging.getLogger(__name__)

_NEXT_STEP = "Try again to restart it."
# For an agent that ended after its first prompt.
_WHERE_TO_LOOK = (
    "What it printed is in the log, with --log-level info (and --log-file FILE)."
    " To see whether it works: dragoman doctor MODEL."
)
# The hint for a command that has never spoken ACP.
_IS_IT_COMPLETE = "Its command may lack an argument (for many agents: --acp):"
# The end of what an agent printed to its standard error, as much of it as helps in an error message.
_LAST_WORDS_CHARACTERS = 600
# An agent whose connection has ended is about to exit. One that is not by then hangs, and is ended.
_EXIT_SECONDS = 2.0


class RunningAgent:
    """An agent's process and the link to it. `stop` ends both, and everything the agent started."""

    def __init__(
        self, name: str, process: SupervisedProcess, link: AgentLink, peer: Peer, gone: CancellationToken
    ) -> None:
        self.name = name
        self._process = process
        self.link = link
        self.peer = peer
        # Cancelled when the connection has ended.
        self.gone = gone

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def last_words(self) -> str | None:
        """The end of its output, for an error message. None once the user's messages may be in it."""
        tail = self._printed
        if not tail or self.link.knows_words:
            return None
        cut = tail[-_LAST_WORDS_CHARACTERS:]
        return f"It said: {'…' if len(cut) < len(tail) else ''}{cut}"

    @property
    def _printed(self) -> str:
        printed = self._process.stderr_tail.strip() or self.link.printed.decode(errors="replace").strip()
        return cleaned(printed)

    @property
    def has_exited(self) -> bool:
        return self._process.exit is not None

    async def exited(self) -> None:
        """Wait until the process has ended, even if its output is not read yet."""
        await self._process.wait()

    async def explain_exit(self) -> LanguageModelError:
        """The reason why it is gone. Waits for the process to end after its connection, or ends it."""
        try:
            async with asyncio.timeout(_EXIT_SECONDS):
                how = f"ended unexpectedly: it {await self._process.wait()}"
        except TimeoutError:
            how = "closed its connection, and was ended"
            await self._process.stop(0)
        for line in self._printed.splitlines():
            _log.info("%s printed: %s", self.name, line)
        message = f"{self.name} {how}."
        public = f"{message} {ASK_OPERATOR}"
        return LanguageModelError("agent_failed", message, hint=self._after_exit(), public=public)

    def _after_exit(self) -> str:
        said = f"{as_sentence(self.last_words)} " if self.last_words else ""
        if self.link.knows_words:
            return f"{_NEXT_STEP} {_WHERE_TO_LOOK}"
        if self.link.is_introduced:
            return f"{said}{_NEXT_STEP}"
        return f"{said}{_IS_IT_COMPLETE} {self.link.command}\n{_NEXT_STEP}"

    async def stop(self) -> None:
        await self._process.stop()


async def launch(
    name: str,
    command: tuple[str, ...],
    env: Mapping[str, str],
    cwd: str,
    on_closed: Callable[[], None],
    ledger: Ledger | None = None,
) -> RunningAgent:
    """Start an agent's process and connect to it. Raises `LanguageModelError` when it cannot be started."""
    try:
        process = await SupervisedProcess.start(command, env=env, cwd=Path(cwd), ledger=ledger)
    except SpawnError as error:
        # The agent is not installed, so a retry will not help.
        kind: ErrorKind = "agent_failed" if error.kind == "command_not_found" else "unavailable"
        raise LanguageModelError(
            kind,
            f"{name} cannot be started: {error.message}",
            hint=error.hint,
            public=f"{name} cannot be started. {ASK_OPERATOR}",
        ) from error
    gone = CancellationSource()

    def closed(_reason: str) -> None:
        gone.cancel()
        on_closed()

    link = AgentLink(name, command, closed)
    try:
        peer = await process.connect(link, PeerOptions(name=name, watch=watch(name, env)))
    except BaseException:
        await process.stop()
        raise
    return RunningAgent(name, process, link, peer, gone.token)
