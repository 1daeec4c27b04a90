"""An ACP agent as a language model.

Every request is identified, and goes to its conversation, or to a new one. Side requests (a title, a commit message) are
answered separately, and not stored.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from dragoman.backends.agent.conversation import Conversation, SharedContext, TakenOver
from dragoman.backends.agent.profile.observations import Observations
from dragoman.backends.agent.profile.offer import RememberedOffer
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.registry import ConversationRegistry, Placed
from dragoman.backends.agent.session.looking import introduced, look_at
from dragoman.backends.agent.side_requests import SideRequest
from dragoman.backends.agent.toolserver import ToolServer
from dragoman.clock import Clock, DeadlinePassed, SystemClock, within
from dragoman.conversations.history import normalise
from dragoman.conversations.identify import Identified, Knowledge
from dragoman.conversations.ids import KEY_BYTES, CallName, IdSigner, MarkerName
from dragoman.conversations.records import Scope
from dragoman.journal.store import HeldElsewhere
from dragoman.journal.writer import Journals
from dragoman.lm import (
    CancellationError,
    CancellationToken,
    DataPart,
    LanguageModelError,
    Message,
    ModelInfo,
    Request,
    Sink,
    ToolCallPart,
    ToolResultPart,
    estimate_tokens,
    until_cancelled,
)
from dragoman.lm.client_services import ClientRegistry
from dragoman.lm.offering import ModelOffer, schema_of
from dragoman.lm.parts import CONVERSATION
from dragoman.lm.request import SIDE_REQUEST_OPTION
from dragoman.permissions.action import is_permission_tool
from dragoman.permissions.pipeline import PermissionServices

__all__ = ["AgentModel"]

_log = logging.getLogger(__name__)

# How long a request waits for a conversation that another process owns, and how often it checks. An editor that
# restarts sends requests while its old process still ends.
_RELEASE_SECONDS = 3.0
_LOOK_SECONDS = 0.1


class AgentModel:
    # A consumer sends back what it was shown, so replies are presented here (`reply.reply`), not in the guard.
    presents = True

    def __init__(
        self,
        info: ModelInfo,
        settings: AgentSettings,
        *,
        journals: Journals | None = None,
        key: bytes | None = None,
        permissions: PermissionServices | None = None,
        clock: Clock | None = None,
        observations: Observations | None = None,
        offer: RememberedOffer | None = None,
        clients: ClientRegistry | None = None,
    ) -> None:
        self._info = info
        self._settings = settings
        self._clock = clock or SystemClock()
        self._server = ToolServer(self._clock)
        self._starting: asyncio.Task[None] | None = None
        self._journals = journals or Journals()
        self._tokens = IdSigner(key or secrets.token_bytes(KEY_BYTES))
        self._observations = observations or Observations()
        self.remembered = offer or RememberedOffer(info.id, settings.command)
        self._clients = clients or ClientRegistry()
        self.permissions = permissions or PermissionServices()
        self._registry = ConversationRegistry(
            info.id, settings.max_agents, self._journals, self._shared, settings.memory
        )
        # Side requests under way.
        self._side_requests: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def settings(self) -> AgentSettings:
        return self._settings

    @property
    def info(self) -> ModelInfo:
        """With what its sessions have reported."""
        offer = self.remembered.known
        return replace(
            self._info,
            max_context_window_tokens=offer.context_size,
            configuration_schema=schema_of(offer.options),
        )

    @property
    def offer(self) -> ModelOffer:
        return self.remembered.known

    def watch_offer(self, on_change: Callable[[], None]) -> None:
        self.remembered.on_change = on_change

    async def look(self, folder: str | None = None) -> ModelOffer:
        await look_at(self._settings, folder or str(self._settings.cwd), self._clock, self.remembered)
        return self.offer

    async def log_in(self, method: str) -> None:
        settings = self._settings
        async with introduced(settings, str(settings.cwd), self._clock, self.remembered) as agent:
            try:
                await within(agent.link.authenticate(method), settings.timing.login, self._clock)
            except DeadlinePassed as passed:
                message = (
                    f"{settings.name} did not finish the login within {settings.timing.login:g} seconds."
                )
                raise LanguageModelError("timeout", message, hint="Log in again.") from passed
        # Some agents are logged in for one process only: the next one that requires a login is asked to log in, too.
        settings.chosen_login.method = method

    def marker(self, conversation: str, turn: int, response: int) -> DataPart:
        return self._tokens.marker(self._info.id, MarkerName(conversation, turn, response))

    def named(self, request: Request) -> set[str]:
        """The conversations that a request names with ids of ours."""
        found: set[str] = set()
        for _, part in normalise(request.messages).named:
            name: MarkerName | CallName | None = None
            if isinstance(part, DataPart):
                name = self._tokens.read_marker(part)
            elif isinstance(part, ToolCallPart | ToolResultPart):
                name = self._tokens.read_call_id(part.call_id)
            if name is not None:
                found.add(name.conversation)
        return found

    def count_tokens(self, text: str | Message) -> int:
        return estimate_tokens(text)

    def conversations(self) -> tuple[Conversation, ...]:
        """The conversations that are under way in this process, or whose agents still run."""
        return self._registry.here

    def delivered(self, conversation: str, *, whole: bool) -> None:
        self._registry.delivered(conversation, whole=whole)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        self._check_open()
        _check_call_possible(request)
        try:
            await self._prepare(token)
        except CancellationError:
            # No conversation has received it: the next request contains it again.
            return
        scope = self._scope(request)
        consumer_id = request.options.model_options.get("_conversationId")
        known = Knowledge(
            self._registry.records,
            self._tokens,
            scope,
            self._clock.now(),
            self._settings.timing.retry,
            consumer_id if isinstance(consumer_id, str) else None,
        )
        is_placed = False
        while not is_placed:
            placed = await self._place(request, known, token)
            if placed is None:
                return
            # No await between the two: the result of the identification is valid only now.
            found, conversation = placed
            self._report(found, conversation, request, sink)
            try:
                if conversation is None:
                    await self._respond_aside(request, scope, sink, token)
                else:
                    await conversation.respond(request, found, sink, token)
                is_placed = True
            except TakenOver as taken:
                _log.info(
                    "conversation %s was continued by another process, so the request is placed again", taken
                )

    async def _place(self, request: Request, known: Knowledge, token: CancellationToken) -> Placed | None:
        """The conversation of a request. Waits a moment for another process. None if it was cancelled meanwhile."""
        limit = self._clock.now() + _RELEASE_SECONDS
        self._check_open()
        while (placed := await self._try_place(request, known, waits=self._clock.now() < limit)) is None:
            try:
                await until_cancelled(self._clock.sleep(_LOOK_SECONDS), token)
            except CancellationError:
                return None
            self._check_open()
        return placed

    async def _try_place(self, request: Request, known: Knowledge, *, waits: bool) -> Placed | None:
        try:
            return await self._registry.place(request, known, waits=waits)
        except HeldElsewhere as held:
            # A worker of a fleet sends the request there. Nobody else sees this.
            raise LanguageModelError(
                "unavailable", f"The conversation is on {held.owner}.", hint="Try again."
            ) from held

    def _report(
        self, found: Identified, conversation: Conversation | None, request: Request, sink: Sink
    ) -> None:
        _log.debug("%s by %s: %s", found.kind, found.evidence, found.reason)
        if found.unwanted:
            _log.info(
                "ignored, because they came too late or twice: results of %s", ", ".join(found.unwanted)
            )
        if found.foreign:
            # Markers of another model are in every history that goes on with this one.
            level = logging.INFO if all(each == "marker" for each in found.foreign) else logging.WARNING
            _log.log(level, "ignored, because they are not ours: %s", ", ".join(found.foreign))
        features = request.consumer.features
        if features.reports or features.confirms_delivery:
            where = {"conversation": conversation.id if conversation else None, "evidence": found.evidence}
            sink.report(DataPart.json({**where, "kind": found.kind}, CONVERSATION))

    def _check_open(self) -> None:
        if self._is_closed:
            raise LanguageModelError("unavailable", f"{self._info.name} is shutting down.", hint="Try again.")

    def _scope(self, request: Request) -> Scope:
        folders = request.consumer.workspace_folders or (str(self._settings.cwd),)
        return Scope(self._info.id, folders, request.consumer.connection, request.consumer.client)

    async def _respond_aside(
        self, request: Request, scope: Scope, sink: Sink, token: CancellationToken
    ) -> None:
        """Answer a side request. A cancelled caller does not wait until the agent has stopped; `close` does."""
        task = asyncio.create_task(self._answer_side_request(request, scope, sink))
        self._side_requests.add(task)
        task.add_done_callback(self._side_requests.discard)
        try:
            await until_cancelled(asyncio.shield(task), token)
        except CancellationError:
            # What was sent stays; nothing more is sent.
            return
        finally:
            task.cancel()

    async def _answer_side_request(self, request: Request, scope: Scope, sink: Sink) -> None:
        side_request = SideRequest(self._settings, self._clock, request, sink)
        async with self._registry.lend(scope) as agent:
            if agent is not None:
                try:
                    await side_request.borrow(agent, scope.workspace)
                except LanguageModelError as error:
                    if side_request.has_spoken:
                        raise
                    _log.info(
                        "a side request failed in a borrowed agent, and gets its own: %s", error.sentence
                    )
                else:
                    return
        await side_request.start(scope.workspace)

    def _shared(self) -> SharedContext:
        registry = self._registry
        return SharedContext(
            self._settings,
            self._server,
            self._tokens,
            self.permissions,
            registry.records,
            self._clock,
            self._journals,
            self._observations,
            self.remembered,
            registry.settle,
            registry.lose,
            self._clients,
        )

    async def _prepare(self, token: CancellationToken) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        starting = self._starting
        if starting.done() and starting.exception() is None:
            return
        try:
            await until_cancelled(asyncio.shield(starting), token)
        except CancellationError:
            raise
        except Exception as error:
            # Perhaps a full disk: the next request tries again.
            if self._starting is starting:
                self._starting = None
            if not isinstance(error, OSError):
                raise
            raise LanguageModelError(
                "unavailable",
                f"{self._info.name} cannot be started: {error.strerror or error}.",
                hint="When the system has room for it, try again.",
            ) from error

    async def _start(self) -> None:
        if self._settings.ledger is not None:
            # Ends processes that a killed process of ours and its supervisors may have left behind.
            await self._settings.ledger.sweep()
        await self._registry.recall()
        await self._server.start()

    async def close(self) -> None:
        """End every agent. Nothing that was started here is left."""
        self._is_closed = True
        for task in self._side_requests:
            task.cancel()
        if self._side_requests:
            await asyncio.wait(self._side_requests)
        await self._registry.close()
        if self._starting is not None:
            with suppress(Exception):
                await self._starting
                await self._server.close()


def _check_call_possible(request: Request) -> None:
    """Raise an error for a request that requires a call and offers the agent nothing to call."""
    options = request.options
    offers = not options.model_options.get(SIDE_REQUEST_OPTION) and any(
        not is_permission_tool(tool.name) for tool in options.tools
    )
    if options.tool_mode == "required" and not offers:
        raise LanguageModelError(
            "bad_request",
            "A tool call is required, but the agent is offered no tool: a side request has none.",
            hint="Offer a tool, or use the mode 'auto'.",
        )
