"""Turns a client's request, of either API, into a request to a model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.config import ConsoleConfig, Serve
from dragoman.frontends.http.answer_forms import form_of, ignored_options
from dragoman.frontends.http.approvals import APPROVAL_TOOLS, as_items, decided_calls, with_proofs
from dragoman.frontends.http.client import HttpClient
from dragoman.frontends.http.create_request import CreateRequest
from dragoman.frontends.http.errors import bad_request, of_model
from dragoman.frontends.http.files import Files, FilesOfResponse
from dragoman.frontends.http.histories import ResponseChain
from dragoman.frontends.http.reading import ReadRequest
from dragoman.frontends.http.resource import new_id
from dragoman.frontends.http.schema_checks import SchemaChecks
from dragoman.frontends.http.workspace_choice import WORKSPACE_HEADER, FolderRoots, codex_folder
from dragoman.frontends.side_requests import is_side_request
from dragoman.journal.response_events import FileTerms
from dragoman.lm import (
    Consumer,
    JsonObject,
    LanguageModel,
    LanguageModelError,
    Message,
    Request,
    RequestOptions,
)
from dragoman.lm.request import (
    IDEMPOTENCY_OPTION,
    ONE_SHOT_OPTION,
    RETRY_OPTION,
    SIDE_REQUEST_OPTION,
    STORE_OPTION,
    WORKSPACE_OPTION,
    FolderChoice,
)
from dragoman.models import ModelSource

__all__ = ["Prepared", "RequestPreparation"]


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
    # Whether the response is stored.
    is_stored: bool
    files: FilesOfResponse
    ignored: tuple[str, ...] = ()
    # The folder in which the agent works, and whether the request named one. None: the model is no agent, or the
    # client may not learn the folder.
    workspace: str | None = None
    names_workspace: bool = False
    # The places of its items that were references to what the server had said.
    copies: tuple[int, ...] = ()

    def folder(self, reported: str | None) -> str | None:
        """The folder in which the agent works. An endpoint that has the agent has `reported` it."""
        may_learn = self.client.workspace is not None or self.client.sees_paths
        return self.workspace or (reported if may_learn else None)


@dataclass(frozen=True, slots=True)
class _Folders:
    """Where an agent works for a request."""

    # The folder of the model's configuration. None: the model is no agent.
    configured: Path | None = None
    # The folders for the consumer, the first of which counts. Empty: the configured one.
    own: tuple[str, ...] = ()
    # Whether the request named one.
    are_named: bool = False
    # Whether the client may learn the folder.
    is_shown: bool = True
    # What the worker tries, if the agent runs on one.
    choices: tuple[FolderChoice, ...] = ()

    @property
    def workspace(self) -> str | None:
        return None if self.configured is None else (*self.own, str(self.configured))[0]

    def for_client(self, client: HttpClient, roots: FolderRoots) -> _Folders:
        """Show a folder that is open to the client. Others are those of the operator."""
        is_open = self.workspace is not None and roots.find(self.workspace) is not None
        return replace(self, is_shown=client.sees_paths or is_open)


def _hold_seconds(
    create: CreateRequest, client: HttpClient, console: ConsoleConfig, *, goes_on_alone: bool
) -> float | None:
    """How long the client waits while a person decides. Then the response ends, and the next one begins with the rest.

    A stream stays open, and `holding` moves a stored response of an agent to the background. It cannot see that a person
    decides at another server, so the response of an endpoint ends. A server in front of this one says how long its own
    client waits.
    """
    if create.is_streamed or create.is_background or goes_on_alone:
        return client.hold_seconds
    return min(console.decide_seconds, client.hold_seconds or console.decide_seconds)


def _folders_there(
    configured: Path | None, client: HttpClient, roots: FolderRoots, wish: str | None
) -> _Folders:
    """Where an agent of a worker works: the worker has the folders, and decides. Raise `ApiError` if no client may choose.

    `configured` is None also while no worker with the model is known.
    """
    named = client.workspace
    if named is None:
        choices = roots.choices(wish, is_order=False)
        return _Folders(configured, (), wish is not None, client.sees_paths and not choices, choices)
    if configured is not None:
        roots.check_form(named)
    return _Folders(configured, (named,), are_named=True, choices=roots.choices(named, is_order=True))


class RequestPreparation:
    """Prepares requests for their models. `config_file` is the file that a client's operator changes."""

    def __init__(
        self,
        models: ModelSource,
        serve: Serve,
        files: Files,
        checks: SchemaChecks,
        config_file: Path | None = None,
    ) -> None:
        self._models = models
        self._may_store = serve.store
        self._roots = tuple(folder.resolve() for folder in serve.workspaces)
        self._files = files
        self._checks = checks
        self._config_file = config_file

    async def prepare(
        self,
        read: ReadRequest,
        client: HttpClient,
        model: LanguageModel,
        console: ConsoleConfig,
        *,
        is_stored: bool,
    ) -> Prepared:
        """Prepare a request. Raise `ApiError` if the model cannot have it."""
        create, chain, takes_options = read.create, read.chain, model.info.takes_options
        if create.consumer_id is not None and chain.consumer_id not in (None, create.consumer_id):
            raise bad_request(
                "The previous response belongs to another conversation than the header x-conversation-id names.",
                param="previous_response_id",
                code="conflicting_ids",
            )
        if not takes_options:
            await self._recall_permissions(read, client)
        messages = await self._messages(read, client, for_endpoint=takes_options)
        if not messages and (unused := (*create.ignored, *read.given.ignored)):
            raise bad_request(
                f"The request has no messages. Not supported here: {', '.join(unused)}.", param="input"
            )
        offer = create.offer
        if offer.other_choice is not None and not takes_options:
            raise bad_request(
                "An agent has only your functions: choose one of them, or leave `tool_choice` out.",
                param="tool_choice",
            )
        response_id = new_id("resp")
        # Only agents send permission requests. A model would call these tools like any other.
        approvals = APPROVAL_TOOLS if client.approves_items and not takes_options else ()
        folders = self._folders(create.model, client, messages)
        # An endpoint says itself that it has none.
        has_folder = folders.configured is not None or takes_options
        request = Request(
            messages,
            RequestOptions(
                tools=(*offer.tools, *approvals),
                tool_mode=offer.mode,
                model_options={
                    **(create.options if takes_options else {}),
                    **self._own_options(create, client, chain, messages),
                    **(self._far_folder(client) if takes_options else {}),
                },
                answer_form=await form_of(create, model.info, self._checks, client.connection),
                other_tools=tuple(tool for _, tool in offer.others) if takes_options else (),
                other_choice=offer.other_choice,
            ),
            Consumer(
                "http",
                client.connection,
                () if folders.choices else folders.own,
                features=client.features,
                program=client.program,
                sees_paths=client.sees_paths,
                hold_seconds=_hold_seconds(
                    create, client, console, goes_on_alone=is_stored and not takes_options
                ),
                # A stream that is cut ends its turn, unless the response runs in the background.
                response_id=response_id
                if is_stored and (create.is_background or not create.is_streamed)
                else None,
                is_live=create.is_streamed,
                client=client.client,
                folder_choices=folders.choices,
            ),
        )
        ignored = (
            *client.unknown_headers,
            *create.ignored,
            *read.given.ignored,
            *ignored_options(create, model.info),
            *(() if takes_options else offer.ignored),
            *((WORKSPACE_HEADER,) if client.workspace is not None and not has_folder else ()),
        )
        files = FilesOfResponse(
            self._files,
            response_id,
            client.connection,
            FileTerms(
                (console.url if console.enabled else None) or client.origin,
                may_store=not create.refuses_storing,
                links_pictures=client.links_files or not client.has_items,
                takes_data=client.takes_files and client.has_items,
                has_items=client.has_items,
            ),
        )
        return Prepared(
            model,
            request,
            create,
            client,
            chain,
            int(time.time()),
            response_id,
            is_stored,
            files,
            ignored,
            folders.workspace if folders.is_shown else None,
            folders.are_named,
            read.copies,
        )

    async def _recall_permissions(self, read: ReadRequest, client: HttpClient) -> None:
        """Another server of the fleet may have asked what this request decides. Raise `ApiError` if that is not known."""
        decided = decided_calls(read.messages, {**read.create.decisions, **read.given.decisions})
        if not decided:
            return
        try:
            await self._models.recall_permissions(read.create.model, decided)
        except LanguageModelError as error:
            raise of_model(error, sees_paths=client.sees_paths) from error

    async def _messages(
        self, read: ReadRequest, client: HttpClient, *, for_endpoint: bool
    ) -> tuple[Message, ...]:
        """The messages of a request, with links as the files that they stand for, and decisions as proofs.

        An endpoint gets the decisions themselves: they are about its own requests.
        """
        create = read.create
        if for_endpoint:
            messages = as_items(read.messages, create.approvals_asked, create.decisions)
        else:
            decisions = {**create.decisions, **read.given.decisions}
            messages = with_proofs(read.messages, decisions, self._models.permissions.grants)
        return tuple(
            [
                await self._files.without_links(message, client.connection, for_endpoint=for_endpoint)
                for message in messages
            ]
        )

    def _own_options(
        self, create: CreateRequest, client: HttpClient, chain: ResponseChain, messages: Sequence[Message]
    ) -> JsonObject:
        """The model options by which a front end of Dragoman says more about a request."""
        options: JsonObject = {}
        if consumer_id := create.consumer_id or chain.consumer_id or create.consumer_hint:
            options["_conversationId"] = consumer_id
        if client.idempotency_key is not None:
            options[IDEMPOTENCY_OPTION] = client.idempotency_key
        if client.is_repeated:
            options[RETRY_OPTION] = True
        if client.is_aside or is_side_request(messages, create.offer.tools):
            options[SIDE_REQUEST_OPTION] = True
        if create.refuses_storing or not self._may_store:
            options[STORE_OPTION] = False
        if client.is_one_shot:
            options[ONE_SHOT_OPTION] = True
        return options

    def _folders(self, model_id: str, client: HttpClient, messages: Sequence[Message]) -> _Folders:
        """Where an agent works for a request. Raise `ApiError` if the header names a folder that it may not."""
        configured = self._models.folder(model_id)
        roots = FolderRoots(self._roots, (client.key and client.key.workspaces) or (), self._file_for(client))
        if self._models.is_remote(model_id):
            return _folders_there(configured, client, roots, codex_folder(messages))
        if configured is None:
            return _Folders()
        chosen: Path | None = None
        if client.workspace is not None:
            chosen, are_named = roots.require(client.workspace), True
        elif are_named := (wish := codex_folder(messages)) is not None:
            chosen = roots.find(wish)
        if chosen is not None:
            own: tuple[str, ...] = (str(chosen),)
        else:
            own = client.key.folders(configured) if client.key else ()
        return _Folders(configured, own, are_named).for_client(client, roots)

    def _far_folder(self, client: HttpClient) -> JsonObject:
        """The folder that a client names for an agent behind an endpoint, which has rules of its own.

        Raise `ApiError` if the client's key has folders, and this is none of them.
        """
        if client.workspace is None:
            return {}
        if client.key is None or not client.key.workspaces:
            return {WORKSPACE_OPTION: client.workspace}
        roots = FolderRoots((), client.key.workspaces, self._file_for(client))
        return {WORKSPACE_OPTION: str(roots.require(client.workspace))}

    def _file_for(self, client: HttpClient) -> str:
        """The configuration file, in words. Only a client on this machine, or an administrator, learns its folder."""
        if self._config_file is None:
            return "the server's configuration"
        return str(self._config_file) if client.sees_paths else self._config_file.name
