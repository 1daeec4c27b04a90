"""Turns a client's request into a request to a model, and the model's parts into a response that is stored.

HTTP and WebSocket differ only in how they read requests and write responses. They share this service.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from dragoman.config import ClientKey, ConsoleConfig, Serve
from dragoman.frontends.http.answer_forms import form_of, ignored_options, outside_text
from dragoman.frontends.http.answering import ResponseRun
from dragoman.frontends.http.approvals import APPROVAL_TOOLS, spelled_out, with_proofs
from dragoman.frontends.http.background import BackgroundResponses
from dragoman.frontends.http.background_run import BackgroundRun
from dragoman.frontends.http.budget import Budget
from dragoman.frontends.http.compaction import compacted, expanded
from dragoman.frontends.http.create_request import CompactBody, CreateRequest, items_of
from dragoman.frontends.http.errors import ApiError, bad_request, of_model, unexpected, unknown_model
from dragoman.frontends.http.files import Files, FilesOfResponse
from dragoman.frontends.http.histories import Histories, HistoryEntry, ResponseChain, SocketHistory
from dragoman.frontends.http.ignored import IGNORED_KEY, with_ignored
from dragoman.frontends.http.item_lists import ItemLists
from dragoman.frontends.http.items import RequestInput, messages_from_items
from dragoman.frontends.http.metrics import Metrics
from dragoman.frontends.http.references import ItemReferences
from dragoman.frontends.http.resource import Resource, new_id
from dragoman.frontends.http.stream import ResponseStream
from dragoman.frontends.http.stream_rebuild import new_stream, server_ended
from dragoman.frontends.http.usage import response_usage
from dragoman.frontends.http.workspace_choice import WORKSPACE_HEADER, FolderRoots, codex_folder
from dragoman.frontends.side_requests import is_side_request
from dragoman.journal.response_events import ResponseClosed, ResponseOpened
from dragoman.journal.writer import Journals
from dragoman.lm import (
    Consumer,
    DataPart,
    Features,
    JsonObject,
    LanguageModel,
    LanguageModelError,
    Message,
    Part,
    Request,
    RequestOptions,
    UsagePart,
    system,
)
from dragoman.lm.json import encode_text
from dragoman.lm.request import (
    IDEMPOTENCY_OPTION,
    ONE_SHOT_OPTION,
    RETRY_OPTION,
    SIDE_REQUEST_OPTION,
    STORE_OPTION,
)
from dragoman.models import ModelSource
from dragoman.store import ResponseStore

__all__ = ["FEATURES", "HttpClient", "HttpService", "Prepared"]

_log = logging.getLogger(__name__)

# What both APIs can carry.
FEATURES = Features(
    thinking=True,
    keeps_parts_of_failures=True,
    unparsed_calls=True,
    reports=True,
    items=True,
    markdown=False,
)
_METADATA_LENGTH = 512
# The key of a response's metadata that names the folder, if the request named one.
_WORKSPACE = "dragoman.workspace"


@dataclass(frozen=True, slots=True)
class HttpClient:
    """The client of a request. `connection` is derived from its key, and never contains the key."""

    connection: str
    # None: the server has no keys.
    key: ClientKey | None = None
    # Takes permission requests as items.
    approves_items: bool = False
    # Takes an agent's activities and plans as items, not as thinking.
    takes_activity: bool = False
    # Marks its requests as side requests.
    is_aside: bool = False
    # Its own name for this request, and whether it says that it sends it again.
    idempotency_key: str | None = None
    is_repeated: bool = False
    # The name that its program gives itself, for people to read.
    program: str = ""
    # The folder in which an agent is to work.
    workspace: str | None = None
    # Takes pictures as links in Markdown, not as items.
    links_files: bool = False
    # Takes items at all: chat completions have none.
    has_items: bool = True
    # The address by which it reached the server, without a path.
    origin: str = ""
    renders_markdown: bool = False
    # Says that no further request of its conversation follows.
    is_one_shot: bool = False

    @property
    def key_name(self) -> str:
        return "" if self.key is None else self.key.name

    def allows(self, model_id: str) -> bool:
        return self.key is None or self.key.allows(model_id)

    @property
    def sees_paths(self) -> bool:
        """Whether it may learn where the operator's files are. Without keys, the client is on this machine."""
        return self.key is None or self.key.role == "admin"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request of either API, ready for its model."""

    model: LanguageModel
    request: Request
    create: CreateRequest
    client: HttpClient
    chain: ResponseChain
    created_at: int
    # The id of the response. A chat completion has an id of its own form.
    response_id: str
    ignored: tuple[str, ...] = ()
    # The folder in which the agent works, and whether the request named one. None: the model is no agent.
    workspace: str | None = None
    names_workspace: bool = False
    files: FilesOfResponse | None = None


class HttpService:
    """Prepares requests, runs responses, and stores them, for HTTP and WebSocket."""

    def __init__(
        self,
        models: ModelSource,
        serve: Serve,
        store: ResponseStore | None = None,
        journals: Journals | None = None,
        console_config: ConsoleConfig | None = None,
        config_file: Path | None = None,
    ) -> None:
        """Without journals, background responses are only in memory, and there are no conversations.

        `config_file` is the file that a client's operator changes.
        """
        journals = journals or Journals()
        self.console_config = console_config or ConsoleConfig()
        self.models = models
        self.serve = serve
        self._roots = tuple(folder.resolve() for folder in serve.workspaces)
        self._config_file = config_file
        self.histories = Histories(store if serve.store else None)
        self.files = Files(store if serve.store else None)
        self.background = BackgroundResponses(journals, self.histories)
        self.conversations = ItemLists(
            journals, self.histories, max_bytes=serve.max_body_bytes, is_on=serve.store
        )
        self.references = ItemReferences(self.histories, self.conversations, max_bytes=serve.max_body_bytes)
        # The tasks of background responses: the event loop holds no strong reference to them.
        self._tasks: set[asyncio.Task[None]] = set()
        self.metrics = Metrics(model.id for model in models.infos())
        self._under_way = 0

    def model(self, model_id: str, client: HttpClient) -> LanguageModel:
        """Find a model. One that the client's key does not allow is unknown to the client."""
        if not client.allows(model_id):
            _log.info("the key %r does not allow the model %r", client.key_name, model_id[:128])
            raise unknown_model(model_id)
        try:
            return self.models.get(model_id)
        except LanguageModelError as error:
            if error.kind == "not_found":
                # The sentence may contain the configuration's path, which is only for the server's operator.
                _log.info("a client requested an unknown model: %s", error.sentence)
                raise unknown_model(model_id) from error
            raise of_model(error) from error

    def is_stored(self, create: CreateRequest) -> bool:
        """Whether the response to this request is stored."""
        return create.is_stored and self.histories.stores

    @asynccontextmanager
    async def answering(
        self, model: LanguageModel, request: Request, files: FilesOfResponse | None = None
    ) -> AsyncIterator[ResponseRun]:
        """Run a response within the block, and count it at its end. Raise `ApiError` if too many run already."""
        if self._under_way >= self.serve.max_responses:
            raise ApiError(
                429,
                "too_many_requests",
                f"{self._under_way} responses are running, which is the limit (`max_responses` in [serve]). Try again later.",
                retry_after=1,
            )
        self._under_way += 1
        self.metrics.under_way = self._under_way
        began = time.monotonic()

        def spell_out(part: Part) -> Iterable[Part]:
            if files is not None and isinstance(part, DataPart):
                shown = files.shown(part, answer.place.conversation if answer.place is not None else None)
                return shown if request.options.answer_form is None else outside_text(shown)
            return (spelled_out(part, self.models.permissions.grants),)

        answer = ResponseRun(model, request, spell_out)
        try:
            async with answer:
                yield answer
        finally:
            self._under_way -= 1
            self.metrics.under_way = self._under_way
            outcome = "cancelled" if answer.was_cancelled else answer.outcome
            self.metrics.response(model.info.id, outcome, time.monotonic() - began)
            if answer.usage is not None:
                self.metrics.tokens(model.info.id, answer.usage)

    async def prepare(
        self, create: CreateRequest, client: HttpClient, local: SocketHistory | None = None
    ) -> Prepared:
        model = self.model(create.model, client)
        create, chain, given = await self._read(create, client, local, for_endpoint=model.info.takes_options)
        if create.consumer_id is not None and chain.consumer_id not in (
            None,
            create.consumer_id,
        ):
            raise bad_request(
                "The previous response belongs to another conversation than the header x-conversation-id names.",
                param="previous_response_id",
                code="conflicting_ids",
            )
        decisions = {**create.decisions, **given.decisions}
        messages = with_proofs(_messages(create, given), decisions, self.models.permissions.grants)
        takes_options = model.info.takes_options
        messages = tuple(
            self.files.without_links(message, client.connection, for_endpoint=takes_options)
            for message in messages
        )
        offer = create.offer
        if offer.other_choice is not None and not takes_options:
            raise bad_request(
                "An agent has only your functions: choose one of them, or leave `tool_choice` out.",
                param="tool_choice",
            )
        options: JsonObject = dict(create.options) if takes_options else {}
        if consumer_id := create.consumer_id or chain.consumer_id or create.consumer_hint:
            options["_conversationId"] = consumer_id
        if client.idempotency_key is not None:
            options[IDEMPOTENCY_OPTION] = client.idempotency_key
        if client.is_repeated:
            options[RETRY_OPTION] = True
        if client.is_aside or is_side_request(messages, create.offer.tools):
            options[SIDE_REQUEST_OPTION] = True
        if create.refuses_storing or not self.serve.store:
            options[STORE_OPTION] = False
        if client.is_one_shot:
            options[ONE_SHOT_OPTION] = True
        response_id = new_id("resp")
        is_stored = self.is_stored(create)
        # Only agents send permission requests. A model would call these tools like any other.
        approvals = APPROVAL_TOOLS if client.approves_items and not takes_options else ()
        configured = self.models.folder(create.model)
        chosen, names_workspace = (None, False) if configured is None else self._chosen(client, messages)
        folders: tuple[str, ...] = ()
        if chosen is not None:
            folders = (str(chosen),)
        elif client.key is not None and configured is not None:
            folders = client.key.folders(configured)
        request = Request(
            messages,
            RequestOptions(
                tools=(*offer.tools, *approvals),
                tool_mode=offer.mode,
                model_options=options,
                answer_form=await form_of(create, model.info),
                other_tools=tuple(tool for _, tool in offer.others) if takes_options else (),
                other_choice=offer.other_choice,
            ),
            Consumer(
                "http",
                client.connection,
                folders,
                features=msgspec.structs.replace(
                    FEATURES,
                    activity=client.takes_activity,
                    approvals=client.approves_items,
                    markdown=client.renders_markdown,
                ),
                program=client.program,
                sees_paths=client.sees_paths,
                # A stream stays open, and `holding` moves a stored response to the background.
                hold_seconds=None if create.is_streamed or is_stored else self.console_config.decide_seconds,
                response_id=response_id if is_stored else None,
            ),
        )
        ignored = (
            *create.ignored,
            *given.ignored,
            *ignored_options(create, model.info),
            *(() if takes_options else offer.ignored),
            *((WORKSPACE_HEADER,) if client.workspace is not None and configured is None else ()),
        )
        workspace = None if configured is None else (*folders, str(configured))[0]
        files = FilesOfResponse(
            self.files,
            response_id,
            client.connection,
            self.console_config.url or client.origin,
            may_store=not create.refuses_storing,
            links_pictures=client.links_files or not client.has_items,
            has_items=client.has_items,
        )
        return Prepared(
            model,
            request,
            create,
            client,
            chain,
            int(time.time()),
            response_id,
            ignored,
            workspace,
            names_workspace,
            files,
        )

    def _chosen(self, client: HttpClient, messages: Sequence[Message]) -> tuple[Path | None, bool]:
        """The folder that a request chooses, and whether it names one. Raise `ApiError` if the header may not."""
        roots = FolderRoots(self._roots, (client.key and client.key.workspaces) or (), self._file_for(client))
        if client.workspace is not None:
            return roots.require(client.workspace), True
        wish = codex_folder(messages)
        return (None, False) if wish is None else (roots.find(wish), True)

    def _file_for(self, client: HttpClient) -> str:
        """The configuration file in words. Where it is, only a client learns that is on this machine, or an administrator."""
        if self._config_file is None:
            return "the server's configuration"
        return str(self._config_file) if client.sees_paths else self._config_file.name

    async def count_tokens(self, create: CreateRequest, client: HttpClient) -> int:
        """Return how many tokens of input a request has, by the model's own count. Nothing is run or decided."""
        model = self.model(create.model, client)
        create, _, given = await self._read(create, client, for_endpoint=model.info.takes_options)
        said = sum(model.count_tokens(message) for message in _messages(create, given))
        return said + sum(model.count_tokens(encode_text(tool)) for tool in create.offer.tools)

    async def _read(
        self,
        create: CreateRequest,
        client: HttpClient,
        local: SocketHistory | None = None,
        *,
        for_endpoint: bool,
    ) -> tuple[CreateRequest, ResponseChain, RequestInput]:
        """Return the request with its references resolved, the history it continues, and both as messages."""
        chain = await self._chain(create.previous, client, local)
        if create.conversation is not None:
            chain = await self._conversation(create, create.conversation, client)
        items = await self.references.resolved(
            create.items, client.connection, known=chain.items, local=local
        )
        given = messages_from_items(
            [*chain.items, *items], create.model, self._budget(), for_endpoint=for_endpoint
        )
        return replace(create, items=items), chain, given

    async def events(
        self, prepared: Prepared, answer: ResponseRun, local: SocketHistory | None = None
    ) -> AsyncIterator[JsonObject]:
        """Yield the events of a response. The last one has the whole response; a cancelled response has no last event."""
        stream = self._stream(prepared)
        stream.resource.metadata = with_ignored(stream.resource.metadata, answer.ignored)
        for event in stream.begin():
            yield event
        try:
            async for part in answer.parts():
                for event in stream.take(part):
                    yield event
        except ApiError as error:
            stream.resource.usage = response_usage(answer.usage)
            events = list(stream.fail(error))
            await self._add_to_conversation(prepared, stream.resource)
            self._save(prepared, stream.resource, _conversation_of(answer))
            for event in events:
                yield event
            return
        stream.resource.usage = response_usage(answer.usage)
        if answer.is_cancelled:
            # The client has the beginning of the answer, and may refer to its items.
            deque(stream.cancel(), maxlen=0)
            if stream.resource.output:
                await self._add_to_conversation(prepared, stream.resource)
                self._save(prepared, stream.resource, _conversation_of(answer))
            return
        for event in await self._completed(prepared, stream, local, _conversation_of(answer)):
            yield event
        answer.outcome = stream.resource.status

    async def without_answer(self, prepared: Prepared, local: SocketHistory) -> AsyncIterator[JsonObject]:
        """Yield the events of a response with `generate: false`, which only stores its input."""
        stream = self._stream(prepared)
        for event in stream.begin():
            yield event
        for event in await self._completed(prepared, stream, local):
            yield event

    async def start(self, prepared: Prepared) -> BackgroundRun:
        """Start a background response. It runs until its end, whatever becomes of the client."""
        if not self.histories.stores:
            raise bad_request(
                "A background response is stored while it runs, and this server stores none: [serve] has "
                "`store = false`, or its state folder cannot be used.",
                param="background",
                code="unsupported",
            )
        async with AsyncExitStack() as stack:
            answer = await stack.enter_async_context(
                self.answering(prepared.model, prepared.request, prepared.files)
            )
            return await self.continue_in_background(prepared, answer, stack)

    async def continue_in_background(
        self, prepared: Prepared, answer: ResponseRun, stack: AsyncExitStack
    ) -> BackgroundRun:
        """Let a response go on as a background response, with the parts that are there already.

        It takes over what `stack` has to close. Raise `ApiError`, having changed nothing, if it cannot be stored.
        """
        connection = prepared.client.connection
        resource = self._resource(prepared)
        entry = self._entry(prepared, resource)
        if not self.histories.save(resource.id, entry, connection, prepared.chain.ids):
            raise ApiError(503, "server_error", "The response cannot be stored now.", retry_after=1)
        opened = self._opened(prepared, resource)
        run = self.background.new(entry, opened)
        stack.callback(self.background.ended, run)
        await run.open(prepared.create.model, connection, answer.cancel)
        self._assign(run, answer)
        for part in answer.take_buffered():
            await run.take(part)
        task = asyncio.create_task(self._run(run, prepared, answer, stack.pop_all()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    async def _run(
        self, run: BackgroundRun, prepared: Prepared, answer: ResponseRun, stack: AsyncExitStack
    ) -> None:
        async with stack:
            error = await self._take_parts(run, answer)
            # The client can fetch it.
            answer.delivered(whole=True)
            if run.stopped == "server" or run.is_lost:
                error = server_ended()
            closed = ResponseClosed(
                "cancelled" if run.stopped == "client" else "completed" if error is None else "failed",
                int(time.time()),
                response_usage(answer.usage),
                None if error is None else error.payload,
            )
            resource = run.end(closed)
            await self._add_to_conversation(prepared, resource)
            await run.store_end(closed)
            if not run.is_lost:
                self.histories.update(run.id, run.entry.ended(resource.as_json()))
            answer.outcome = resource.status

    async def _take_parts(self, run: BackgroundRun, answer: ResponseRun) -> ApiError | None:
        """Take all parts of the model. Return its error, if it has failed."""
        is_assigned = False
        try:
            async for part in answer.parts():
                is_assigned = is_assigned or self._assign(run, answer)
                await run.take(part)
        except ApiError as error:
            return error
        except Exception:
            _log.exception("the background response %s failed", run.id)
            return unexpected()
        return None

    def _assign(self, run: BackgroundRun, answer: ResponseRun) -> bool:
        """Note the agent's conversation of a response. Return whether it is known yet."""
        if answer.place is None or answer.place.conversation is None:
            return False
        self.histories.assign(run.id, answer.place.conversation)
        return True

    async def _chain(
        self, previous: str | None, client: HttpClient, local: SocketHistory | None = None
    ) -> ResponseChain:
        chain = self.histories.chain(previous, client.connection, local)
        if chain.conversation is None:
            return chain
        if not await self.conversations.has(chain.conversation, client.connection):
            raise ApiError(
                404,
                "not_found",
                f"This response is in the conversation {chain.conversation!r}, which was deleted. Send the whole history "
                "instead.",
                param="previous_response_id",
                code="conversation_not_found",
            )
        raise bad_request(
            f"This response is in a conversation: continue it with `conversation`: {chain.conversation!r}.",
            param="previous_response_id",
            code="conflicting_ids",
        )

    async def _conversation(
        self, create: CreateRequest, conversation: str, client: HttpClient
    ) -> ResponseChain:
        """The items of a conversation that this server keeps."""
        if create.refuses_storing:
            raise bad_request(
                "The conversation stores what is said in it: leave `store: false` out, or send the history itself.",
                param="store",
                code="conflicting_fields",
            )
        found = await self.conversations.find(conversation, client.connection)
        return ResponseChain(list(found.items.values()))

    async def _add_to_conversation(self, prepared: Prepared, resource: Resource) -> None:
        """Add a response and its input to its conversation, unless it failed before it said anything."""
        create = prepared.create
        if create.conversation is not None and (resource.output or resource.status == "completed"):
            items = (*create.items, *resource.output)
            await self.conversations.add_turn(create.conversation, prepared.client.connection, items)

    def _stream(self, prepared: Prepared) -> ResponseStream:
        resource = self._resource(prepared)
        return new_stream(resource, self._opened(prepared, resource))

    def _opened(self, prepared: Prepared, resource: Resource) -> ResponseOpened:
        ignored = str(resource.metadata.get(IGNORED_KEY, ""))
        return ResponseOpened(self.serve.reasoning_events, prepared.client.approves_items, ignored)

    def _resource(self, prepared: Prepared) -> Resource:
        create = prepared.create
        return Resource(
            id=prepared.response_id,
            model=create.model,
            created_at=prepared.created_at,
            echoed=create.echoed,
            metadata=with_ignored({**create.metadata, **_named(prepared)}, prepared.ignored),
            previous=create.previous,
            is_stored=self.is_stored(create),
            is_background=create.is_background,
            conversation=create.conversation,
        )

    def _entry(self, prepared: Prepared, resource: Resource) -> HistoryEntry:
        create = prepared.create
        return HistoryEntry(
            create.items,
            resource.as_json(),
            create.previous,
            create.consumer_id or prepared.chain.consumer_id,
            create.conversation,
        )

    async def _completed(
        self,
        prepared: Prepared,
        stream: ResponseStream,
        local: SocketHistory | None = None,
        conversation: str | None = None,
    ) -> list[JsonObject]:
        """Store a response, and only then return its last events."""
        events = list(stream.complete(int(time.time())))
        resource = stream.resource
        await self._add_to_conversation(prepared, resource)
        self._save(prepared, resource, conversation)
        if local is not None and not resource.is_stored:
            local.add(resource.id, self._entry(prepared, resource))
        return events

    def _save(self, prepared: Prepared, resource: Resource, conversation: str | None) -> None:
        """Store a response that has ended, however it has. `conversation` is its agent's."""
        if resource.is_stored:
            entry = self._entry(prepared, resource)
            connection = prepared.client.connection
            self.histories.save(resource.id, entry, connection, prepared.chain.ids, conversation)

    def _budget(self) -> Budget:
        """Return the budget for the packed content of a request: the limit of an unpacked body."""
        return Budget(self.serve.max_body_bytes)

    async def compact(self, body: CompactBody, client: HttpClient) -> JsonObject:
        self.model(body.model, client)
        chain = await self._chain(body.previous_response_id, client)
        given = await self.references.resolved(items_of(body.input), client.connection, known=chain.items)
        budget = self._budget()
        items = [
            inner
            for item in (*chain.items, *given)
            for inner in (
                expanded(str(item.get("encrypted_content")), "input", budget)
                if item.get("type") == "compaction"
                else [item]
            )
        ]
        if not items:
            raise bad_request("There is nothing to compact.", param="input")
        # Raise an error for items that a later request could not bring back.
        messages_from_items(items, body.model, budget)
        if body.instructions:
            items.insert(0, {"type": "message", "role": "system", "content": body.instructions})
        packed = compacted(items, self._budget())
        return {
            "id": new_id("resp"),
            "object": "response.compaction",
            "created_at": int(time.time()),
            "output": [{"type": "compaction", "id": new_id("cmp"), "encrypted_content": packed}],
            # The field is required, although no model runs.
            "usage": response_usage(UsagePart(0, 0)),
        }


def _messages(create: CreateRequest, given: RequestInput) -> tuple[Message, ...]:
    messages = (*create.messages, *given.messages)
    return (system(create.instructions), *messages) if create.instructions else messages


def _conversation_of(answer: ResponseRun) -> str | None:
    return answer.place.conversation if answer.place is not None else None


def _named(prepared: Prepared) -> JsonObject:
    named: JsonObject = {}
    if prepared.names_workspace and prepared.workspace is not None:
        named[_WORKSPACE] = prepared.workspace[:_METADATA_LENGTH]
    return named
