"""Runs responses for clients: requests that are read, prepared for their model, answered and stored.

HTTP and WebSocket differ only in how they read requests and write responses. They share this service.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from dragoman.config import ConsoleConfig, Serve
from dragoman.frontends.http.answer_forms import outside_text
from dragoman.frontends.http.answering import ResponseRun
from dragoman.frontends.http.approvals import spelled_out
from dragoman.frontends.http.background import BackgroundResponses, OtherGateways
from dragoman.frontends.http.background_run import BackgroundRun
from dragoman.frontends.http.client import HttpClient
from dragoman.frontends.http.create_request import CompactBody, CreateRequest
from dragoman.frontends.http.errors import (
    ApiError,
    bad_request,
    of_model,
    storage_unavailable,
    unexpected,
    unknown_model,
)
from dragoman.frontends.http.files import Files, FilesOfResponse
from dragoman.frontends.http.histories import Histories, HistoryEntry, SocketHistory
from dragoman.frontends.http.ignored import with_ignored
from dragoman.frontends.http.item_lists import ItemLists
from dragoman.frontends.http.metrics import Metrics
from dragoman.frontends.http.preparing import Prepared, RequestPreparation
from dragoman.frontends.http.reading import RequestReader
from dragoman.frontends.http.references import ItemReferences
from dragoman.frontends.http.resource import Resource, new_id
from dragoman.frontends.http.response_journals import stored_entries
from dragoman.frontends.http.saving import ResponseSaver
from dragoman.frontends.http.schema_checks import SchemaChecks
from dragoman.frontends.http.stream_rebuild import drop, server_ended
from dragoman.frontends.http.usage import response_usage
from dragoman.journal.event import JournalStarted
from dragoman.journal.response_events import PartsReported, ResponseClosed, ResponseOpened
from dragoman.journal.writer import Journals
from dragoman.lm import (
    CancellationToken,
    DataPart,
    JsonObject,
    LanguageModel,
    LanguageModelError,
    Part,
    Sink,
    UsagePart,
)
from dragoman.lm.json import encode_text
from dragoman.lm.model import ResponseTaken, Resumable
from dragoman.models import ModelSource
from dragoman.store import ResponseStore

__all__ = ["HttpService"]

_log = logging.getLogger(__name__)

# Workers keep a response without a gateway for two minutes after they have noticed that.
_ORPHAN_SECONDS = 180.0


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
        gateways: OtherGateways | None = None,
    ) -> None:
        """Without journals, background responses are only in memory, and there are no conversations.

        `config_file` is the file that a client's operator changes. `gateways`: those that share the journals.
        """
        journals = journals or Journals()
        self.console_config = console_config or ConsoleConfig()
        self.models = models
        self.serve = serve
        self.histories = Histories(store if serve.store else None)
        self.files = Files(store if serve.store else None)
        self._journals = journals
        self.background = BackgroundResponses(
            journals, self.histories, self._continue_response, self._finish, gateways
        )
        self.conversations = ItemLists(
            journals, self.histories, max_bytes=serve.max_body_bytes, is_on=serve.store
        )
        self.references = ItemReferences(self.histories, self.conversations, max_bytes=serve.max_body_bytes)
        self._reader = RequestReader(
            self.histories, self.conversations, self.references, max_bytes=serve.max_body_bytes
        )
        self.schema_checks = SchemaChecks()
        self._preparation = RequestPreparation(models, serve, self.files, self.schema_checks, config_file)
        self._saver = ResponseSaver(serve, self.histories, self.conversations)
        # The tasks of background responses: the event loop holds no strong reference to them.
        self._tasks: set[asyncio.Task[None]] = set()
        self.metrics = Metrics(lambda: (model.id for model in models.infos()))
        # Why this server cannot take requests now. None: it can.
        self.why_not_ready: Callable[[], str | None] = lambda: None
        # Whether it ends, and only finishes what is under way.
        self.is_draining = False
        self._under_way = 0
        # The answers that do not run in the background.
        self._with_clients: set[ResponseRun] = set()

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
            raise of_model(error, sees_paths=client.sees_paths) from error

    async def prepare(
        self, create: CreateRequest, client: HttpClient, local: SocketHistory | None = None
    ) -> Prepared:
        model = self.model(create.model, client)
        if "text" in create.options:
            # To check its schema is work as well.
            self._check_room()
        read = await self._reader.read(create, client, local, for_endpoint=model.info.takes_options)
        is_stored = create.is_stored and self.histories.stores
        return await self._preparation.prepare(read, client, model, self.console_config, is_stored=is_stored)

    async def count_tokens(self, create: CreateRequest, client: HttpClient) -> int:
        """Return how many tokens of input a request has, by the model's own count. Nothing is run or decided."""
        model = self.model(create.model, client)
        read = await self._reader.read(create, client, for_endpoint=model.info.takes_options)
        said = sum(model.count_tokens(message) for message in read.messages)
        return said + sum(model.count_tokens(encode_text(tool)) for tool in create.offer.tools)

    async def compact(self, body: CompactBody, client: HttpClient) -> JsonObject:
        self.model(body.model, client)
        packed = await self._reader.compacted(body, client)
        return {
            "id": new_id("resp"),
            "object": "response.compaction",
            "created_at": int(time.time()),
            "output": [{"type": "compaction", "id": new_id("cmp"), "encrypted_content": packed}],
            # The field is required, although no model runs.
            "usage": response_usage(UsagePart(0, 0)),
        }

    @asynccontextmanager
    async def answering(self, prepared: Prepared, *, keeps: bool = False) -> AsyncIterator[ResponseRun]:
        """Run a response within the block, and count it at its end. Raise `ApiError` if too many run already.

        `keeps`: its journal will have all of it, so the model keeps from the start what is not stored.
        """
        self._check_room()
        request, options = prepared.request, prepared.request.options

        def respond(sink: Sink, token: CancellationToken) -> Coroutine[None, None, None]:
            return prepared.model.respond(request, sink, token)

        answer = self._answer(
            prepared.model,
            respond,
            prepared.files,
            approves_items=prepared.client.approves_items,
            has_form=options.has_form,
            has_demands=options.has_demands,
            sees_paths=request.consumer.sees_paths,
        )
        if keeps:
            answer.keep(prepared.response_id)
        self._with_clients.add(answer)
        try:
            async with self._counted(answer, prepared.model.info.id, prepared.response_id):
                yield answer
        finally:
            self._with_clients.discard(answer)

    def end_answers(self) -> None:
        """End the answers that clients wait for: the server stops. Those in the background have their own end."""
        for answer in self._with_clients:
            answer.end_with(
                ApiError(
                    503,
                    "server_error",
                    f"The server is being stopped, and the answer was not finished after {self.serve.drain_seconds:g} "
                    "seconds (`drain_seconds` in [serve]). Send the request again in a moment.",
                    code="server_ended",
                    retry_after=1,
                )
            )

    def _answer(
        self,
        model: LanguageModel,
        run: Callable[[Sink, CancellationToken], Coroutine[None, None, None]],
        files: FilesOfResponse,
        *,
        approves_items: bool,
        has_form: bool,
        has_demands: bool = False,
        sees_paths: bool,
    ) -> ResponseRun:
        def spell_out(part: Part) -> Part:
            return spelled_out(part, self.models.permissions.grants, as_item=approves_items)

        async def link_files(part: DataPart) -> Iterable[Part]:
            shown = tuple(await files.shown(part, answer.conversation))
            return outside_text(shown) if shown != (part,) and has_form else shown

        answer = ResponseRun(
            model, run, spell_out, link_files, sees_paths=sees_paths, has_demands=has_demands
        )
        return answer

    @asynccontextmanager
    async def _counted(self, answer: ResponseRun, model_id: str, response_id: str) -> AsyncIterator[None]:
        """Run a response within the block, and count it."""
        self._under_way += 1
        self.metrics.under_way = self._under_way
        began = time.monotonic()
        try:
            async with answer:
                yield
        finally:
            answer.release(response_id)
            self._under_way -= 1
            self.metrics.under_way = self._under_way
            outcome = "cancelled" if answer.was_cancelled else answer.outcome
            self.metrics.response(model_id, outcome, time.monotonic() - began)
            if answer.usage is not None:
                self.metrics.tokens(model_id, answer.usage)

    def _check_room(self) -> None:
        if self._under_way >= self.serve.max_responses:
            raise ApiError(
                429,
                "too_many_requests",
                f"{self._under_way} responses are running, which is the limit (`max_responses` in [serve]). Try again later.",
                retry_after=1,
            )

    async def events(
        self, prepared: Prepared, answer: ResponseRun, local: SocketHistory | None = None
    ) -> AsyncIterator[JsonObject]:
        """Yield the events of a response. The last one has the whole response; a cancelled response has no last event."""
        stream = self._saver.stream(prepared)
        stream.resource.metadata = with_ignored(stream.resource.metadata, answer.ignored)
        self._saver.name_far_folder(prepared, stream.resource, answer.workspace)
        for event in stream.begin():
            yield event
        try:
            async for part in answer.parts():
                for event in stream.take(part):
                    yield event
        except ApiError as error:
            stream.resource.usage = response_usage(answer.usage)
            events = list(stream.fail(error))
            await self._saver.save(prepared, stream.resource, answer.conversation)
            for event in events:
                yield event
            return
        stream.resource.usage = response_usage(answer.usage)
        if answer.is_cancelled:
            # The client has the beginning of the answer, and may refer to its items.
            drop(stream.cancel())
            if stream.resource.output:
                await self._saver.save(prepared, stream.resource, answer.conversation)
            return
        for event in await self._saver.completed(prepared, stream, local, answer.conversation):
            yield event
        answer.outcome = stream.resource.status

    async def without_answer(self, prepared: Prepared, local: SocketHistory) -> AsyncIterator[JsonObject]:
        """Yield the events of a response with `generate: false`, which only stores its input."""
        stream = self._saver.stream(prepared)
        for event in stream.begin():
            yield event
        for event in await self._saver.completed(prepared, stream, local):
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
            keeps = self.background.stores_parts
            answer = await stack.enter_async_context(self.answering(prepared, keeps=keeps))
            return await self.continue_in_background(prepared, answer, stack)

    async def continue_in_background(
        self, prepared: Prepared, answer: ResponseRun, stack: AsyncExitStack
    ) -> BackgroundRun:
        """Let a response go on as a background response, with the parts that are there already.

        It takes over what `stack` has to close. Raise `ApiError`, having changed nothing, if it cannot be stored.
        """
        connection = prepared.client.connection
        resource = self._saver.resource(prepared)
        entry = self._saver.entry(prepared, resource)
        if not await self.histories.save(resource.id, entry, connection, prepared.chain.ids):
            raise ApiError(
                503,
                "server_error",
                "The response cannot be stored now, so it was not begun. Send the request again in a moment.",
                retry_after=1,
            )
        opened = self._saver.opened(prepared, resource)
        run = BackgroundRun(entry, opened, self._journals, prepared.create.model, connection, answer)
        self.background.add(run)
        self._with_clients.discard(answer)
        stack.callback(self.background.ended, run)
        await run.open()
        await self._assign(run, answer)
        await run.take_all(await answer.take_buffered())
        self._start_task(self._run(run, answer, stack.pop_all()))
        return run

    def _start_task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _continue_response(self, response_id: str) -> bool:
        """Continue the background response of a server that is gone. This one owns its journal. False: it cannot be."""
        entries = await stored_entries(self._journals, response_id)
        events = [each.event for each in entries]
        used_at = max((each.at for each in entries), default=0.0)
        started = next((each for each in events if isinstance(each, JournalStarted)), None)
        opened = next((each for each in events if isinstance(each, ResponseOpened)), None)
        reported = [each for each in events if isinstance(each, PartsReported)]
        position = reported[-1].position if reported else None
        if started is None or opened is None or position is None:
            return False
        entry, _ = await self.histories.read(response_id, started.connection, is_latest=True)
        try:
            model = self.models.get(started.model)
        except LanguageModelError as error:
            _log.warning("%s cannot be continued here: %s", response_id, error.message)
            if time.time() - used_at < _ORPHAN_SECONDS:
                # This server may not know its workers yet, or another one does.
                raise storage_unavailable() from error
            return False
        if entry is None or not isinstance(model, Resumable):
            return False

        def resume(sink: Sink, token: CancellationToken) -> Coroutine[None, None, None]:
            return model.resume(response_id, position, sink, token)

        answer = self._answer(
            model,
            resume,
            FilesOfResponse(self.files, response_id, started.connection, opened.files),
            approves_items=opened.approves_items,
            has_form=opened.has_form,
            sees_paths=opened.sees_paths,
        )
        answer.usage = reported[-1].usage
        run = BackgroundRun(entry, opened, self._journals, started.model, started.connection, answer, events)
        self.background.add(run)
        self.metrics.taken_over += 1
        _log.warning("%s is taken over: the server that ran it is gone; position %s", response_id, position)
        async with AsyncExitStack() as stack:
            # However many responses run: it runs already.
            await stack.enter_async_context(self._counted(answer, started.model, response_id))
            stack.callback(self.background.ended, run)
            await run.open()
            self._start_task(self._run(run, answer, stack.pop_all()))
        return True

    async def _run(self, run: BackgroundRun, answer: ResponseRun, stack: AsyncExitStack) -> None:
        async with stack:
            error = await self._take_parts(run, answer)
            if run.stopped == "successor":
                await run.close()
                return
            if not run.is_lost:
                # The client can fetch it.
                answer.delivered(whole=True)
            if run.stopped == "server" or run.is_lost:
                error = server_ended()
            if error is not None and not run.is_lost:
                _log.warning("the background response %s has failed: %s", run.id, error.message)
            closed = ResponseClosed(
                "cancelled" if run.stopped == "client" else "completed" if error is None else "failed",
                int(time.time()),
                response_usage(answer.usage),
                None if error is None else error.payload,
                is_cut=run.is_adopted and (error is not None or run.stopped is not None),
            )
            resource = run.end(closed)
            await run.close(closed)
            if run.has_final_end:
                await self._finish(run.entry, run.connection, resource)
            answer.outcome = resource.status

    async def _finish(self, entry: HistoryEntry, connection: str, resource: Resource) -> None:
        """Store what follows from the end in a response's journal. It may be done twice, and counts once."""
        await self._saver.add_to_conversation(entry, connection, resource)
        await self.histories.update(resource.id, connection, entry.ended(resource.as_json()))

    async def _take_parts(self, run: BackgroundRun, answer: ResponseRun) -> ApiError | None:
        """Take all parts of the model. Return its error, if it has failed."""
        is_assigned = False
        try:
            async for part in answer.parts():
                is_assigned = is_assigned or await self._assign(run, answer)
                await run.take(part)
        except ApiError as error:
            if not isinstance(error.__cause__, ResponseTaken):
                return error
            _log.warning("%s is left to the gateway that has it: %s", run.id, error.message)
            run.hand_over()
        except Exception:
            _log.exception("the background response %s failed", run.id)
            return unexpected()
        return None

    async def _assign(self, run: BackgroundRun, answer: ResponseRun) -> bool:
        """Note the agent's conversation of a response. Return whether it is known yet."""
        if answer.conversation is None:
            return False
        await self.histories.assign(run.id, run.connection, answer.conversation)
        return True
