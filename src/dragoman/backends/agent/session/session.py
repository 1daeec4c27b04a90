"""A session with an agent: its process, its tools, its narrator. `opening` makes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dragoman.acp.content import ContentBlock, TextBlock, plain
from dragoman.acp.launch import RunningAgent
from dragoman.acp.link import TurnEnd
from dragoman.acp.messages import (
    ChunkUpdate,
    ToolActivity,
    Update,
)
from dragoman.backends.agent.profile.observations import Observed
from dragoman.backends.agent.profile.traits import Traits, recognise, recognise_request
from dragoman.backends.agent.reply.narrator import Narrator
from dragoman.backends.agent.session.options import SessionOptions
from dragoman.backends.agent.toolserver import Endpoint

__all__ = ["AgentSession", "TurnListener"]


class TurnListener(Protocol):
    """Receives the outcome of a prompt, and of messages that were sent in the middle of a turn."""

    def on_turn_end(self, end: TurnEnd) -> None: ...

    def on_steered(self, reply: int, *, taken: bool) -> None: ...


class AgentSession:
    def __init__(
        self,
        agent: RunningAgent,
        endpoint: Endpoint,
        listener: TurnListener,
        traits: Traits,
        learn: Callable[..., None],
    ) -> None:
        """`learn` stores observations of the agent's behaviour for later runs."""
        self.agent = agent
        self._listener = listener
        self.endpoint = endpoint
        self.id = ""
        # False for a resumed or loaded session.
        self.is_new = True
        # The agent has listed the tools before; when they change, it may list them again.
        self.has_listed = False
        # No tools were offered when it began, so it is no evidence that the agent has not listed them.
        self.began_without_tools = False
        self._notices: list[str] = []
        self.narrator = Narrator(lambda activity: self.own_tool((activity,)) is not None)
        self.traits = traits
        self.options = SessionOptions(agent.name)
        self._learn = learn
        # It was loaded, and until the end of the first turn the agent may still send its history.
        self.may_send_history = False
        # The text of the prompt under way: an agent may repeat it.
        self._prompted = ""

    @property
    def takes_images(self) -> bool:
        return self.agent.link.info.agent_capabilities.prompt_capabilities.image

    @property
    def resumes(self) -> bool:
        """Whether the agent takes up a session without sending its history."""
        return self.agent.link.info.agent_capabilities.session_capabilities.resume is not None

    @property
    def can_be_taken_up(self) -> bool:
        """Whether another process of the agent can resume or load a session of this one."""
        loads = self.agent.link.info.agent_capabilities.load_session and self.traits.history != "unusable"
        return self.resumes or loads

    @property
    def steers(self) -> bool:
        return self.agent.link.info.steers

    @property
    def awaits_listing(self) -> bool:
        """Whether there are tools that the agent has not listed yet, and is expected to.

        Of an agent that does not take changed tools in, only the first listing counts: Gemini CLI lists them again at once,
        and then prompts its model with the old ones.
        """
        never_again = self.traits.lists_again is False
        has_news = self.endpoint.has_news_since_start if never_again else self.endpoint.has_news
        return has_news and (self.has_listed or self.began_without_tools)

    def learn(self, **seen: object) -> None:
        """Store an observation of the agent's behaviour, for this run and for later ones."""
        self._learn(**seen)
        self.traits = self.traits.after(Observed(**seen))  # type: ignore[arg-type]  # names are checked by `Observed`

    def on_listed(self) -> None:
        if not self.has_listed:
            self.has_listed = True
            self.learn(lists=True)

    def is_stale(self, update: Update) -> bool:
        """Whether an update belongs to an earlier turn: a user's text that is not in this prompt."""
        match update:
            case ChunkUpdate(role="user", content=TextBlock(text=text)):
                return plain(text) not in self._prompted
            case _:
                return False

    def own_tool(self, updates: tuple[ToolActivity, ...]) -> str | None:
        """The tool of ours that an agent's tool call is for, if its updates show that."""
        return recognise(self.traits, updates, self.endpoint.name, self.endpoint.own_names)

    def requested_tool(self, request: ToolActivity) -> str | None:
        """The tool of ours that a permission request is for, if it is for one."""
        announced = self.narrator.known(ToolActivity(request.tool_call_id))
        return recognise_request(self.traits, announced, request, self.endpoint.name, self.endpoint.own_names)

    def add_notice(self, text: str) -> None:
        """Add a notice for the user, which is shown with the next turn."""
        self._notices.append(text)

    def take_notices(self) -> tuple[str, ...]:
        notices, self._notices = tuple(self._notices), []
        return notices

    def prompt(self, blocks: tuple[ContentBlock, ...]) -> None:
        self._prompted = _words(blocks)
        self.agent.link.prompt(self.id, blocks, self._listener.on_turn_end)

    def steer(self, blocks: tuple[ContentBlock, ...], reply: int) -> None:
        """Send the messages of a request into the running turn."""
        self._prompted += f" {_words(blocks)}"
        self.agent.link.steer(self.id, blocks, lambda taken: self._listener.on_steered(reply, taken=taken))

    def cancel(self) -> None:
        self.agent.link.cancel(self.id)

    async def close(self) -> None:
        try:
            await self.endpoint.close()
        finally:
            await self.agent.stop()


def _words(blocks: tuple[ContentBlock, ...]) -> str:
    return plain("\n".join(block.text for block in blocks if isinstance(block, TextBlock)))
