"""Builds language models from the configuration.

A back end has one case in `_made`, and nothing else here knows of it. `Models` is what a front end holds: each model
made when it is first asked for, and all of them ended together.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import msgspec

from dragoman.backends.scripted import ScriptedModel, ScriptError, load_script
from dragoman.config import (
    AcpModel,
    Config,
    ConfigError,
    ModelConfig,
    ResponsesModel,
    ScriptModel,
    inherited,
    quoted,
    resolved,
    rules_of,
    user_config_file,
)
from dragoman.lm import (
    Capabilities,
    DataPart,
    ErrorKind,
    GuardedModel,
    LanguageModel,
    LanguageModelError,
    ModelInfo,
    with_capability_tags,
)
from dragoman.lm.client_services import ClientRegistry
from dragoman.lm.offering import OfferingModel
from dragoman.logs import Redaction
from dragoman.nearest import nearest

if TYPE_CHECKING:
    from dragoman.backends.agent.model import AgentModel
    from dragoman.backends.agent.profile.memory_limit import MemoryLimit
    from dragoman.backends.responses.model import EndpointModel
    from dragoman.journal.writer import Journals
    from dragoman.permissions.autoapproval import AutoApproval
    from dragoman.permissions.pipeline import PermissionServices
    from dragoman.policy.policy import Policy
    from dragoman.policy.rule import LocatedRule
    from dragoman.process import Ledger
    from dragoman.store import AgentStore, Database

__all__ = [
    "AgentSource",
    "LiveConversation",
    "ModelNotUsable",
    "Models",
    "SharedServices",
    "build",
    "build_unguarded",
    "cautions_of",
    "find",
    "journals_of",
    "log_cautions",
    "policy_of",
]

_log = logging.getLogger(__name__)

# In the state folder. What agents are installed there is the user's.
_STATE_FILES = ("dragoman.db", "dragoman.db-wal", "dragoman.db-shm", "run", "agreed", "agents", "fleet")

_ADDED = "`dragoman agents add {}` installs the agent of that name, and makes it a model."


# For clients: the message may name files and commands of the operator.
_UNUSABLE = (
    "This model cannot be used as it is configured. Ask the operator of this server, whose log says why."
)


class ModelNotUsable(LanguageModelError):
    """A model that cannot even be started, because there is none of that name or its configuration is not right."""

    def __init__(self, kind: ErrorKind, message: str, *, hint: str | None = None) -> None:
        super().__init__(kind, message, hint=hint, public=_UNUSABLE)


def find(config: Config, model_id: str) -> ModelConfig:
    """The model of that name, as it is configured."""
    if model_id in config.models:
        return config.models[model_id]
    if model_id in config.untrusted:
        # Clients of the HTTP front end see this, so it does not say where the file is.
        raise ModelNotUsable(
            "no_permissions",
            f"The model {quoted(model_id)} is defined by a dragoman.toml that came with the folder and is not trusted.",
            hint="Run `dragoman trust` in that folder. Or name the file: --config, in VS Code dragoman.configuration.",
        )
    from dragoman.agents.catalogue import shipped  # noqa: PLC0415 - only for an unknown name

    catalogue = shipped()
    if model_id in catalogue:
        hint = _ADDED.format(model_id)
    elif meant := nearest(model_id, config.models):
        hint = f"Did you mean {quoted(meant)}?"
    elif meant := nearest(model_id, catalogue):
        hint = f"Did you mean {quoted(meant)}? {_ADDED.format(meant)}"
    else:
        known = ", ".join(quoted(each) for each in config.models)
        file = config.source.path or user_config_file()
        hint = (
            f"Configured: {known}. To add one: `dragoman agents` lists those that are known; for any other agent put"
            f' [models.NAME] with kind = "acp" and its command into {file}.'
        )
    raise ModelNotUsable("not_found", f"There is no model {quoted(model_id)}.", hint=hint)


@dataclass(frozen=True, slots=True)
class SharedServices:
    """What the models of one process share."""

    permissions: PermissionServices | None = None
    journals: Journals | None = None
    # What authenticates markers and call ids, and names clients to endpoints, in every process that uses the state folder.
    key: bytes | None = None
    ledger: Ledger | None = None
    # The store of what was learnt about agents.
    learnt: AgentStore | None = None
    memory: MemoryLimit | None = None
    # The services of connected clients.
    clients: ClientRegistry | None = None


@runtime_checkable
class Learning(Protocol):
    """A model that can ask its server for its limits and features. What it learns is in its `info`."""

    async def learn(self) -> None:
        """Ask the server once. Never fails, and never takes long."""
        ...


class LiveConversation(Protocol):
    """A conversation with an agent in this process, as the console sees it."""

    @property
    def id(self) -> str: ...

    @property
    def model(self) -> str:
        """The model's id."""
        ...

    @property
    def folder(self) -> str:
        """The first folder of its workspace."""
        ...

    @property
    def connection(self) -> str: ...

    @property
    def program(self) -> str:
        """The program that sent its latest request, by its own name."""
        ...

    @property
    def stage(self) -> Literal["answering", "asking", "waiting", "idle", "stored"]:
        """asking: a person must decide. waiting: the consumer has calls. idle: the agent runs. stored: no agent runs."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether something is under way in it. Output that waits for the next request does not count."""
        ...

    def stop_turn(self) -> None:
        """Cancel the turn under way, if there is one."""
        ...

    def park(self) -> None:
        """Stop an idle agent."""
        ...

    def forget(self) -> None:
        """Stop the agent and drop what is in memory, because the conversation was deleted."""
        ...


@runtime_checkable
class Conversing(Protocol):
    """A model that has conversations."""

    def conversations(self) -> Iterable[LiveConversation]: ...

    def marker(self, conversation: str, turn: int, response: int) -> DataPart:
        """The marker by which a request goes on after this response."""
        ...


class ModelSource(Protocol):
    """What a front end needs of the configured models. `Models` is the one that the commands use."""

    @property
    def permissions(self) -> PermissionServices: ...

    @property
    def clients(self) -> ClientRegistry:
        """Where a front end registers what its clients offer to agents."""
        ...

    async def learn(self) -> None: ...

    def infos(self) -> tuple[ModelInfo, ...]: ...

    def get(self, model_id: str) -> LanguageModel: ...

    def folder(self, model_id: str) -> Path | None:
        """The folder in which a model's agents work, unless a consumer has its own. None: the model is no agent."""
        ...

    async def close(self) -> None: ...


class AgentSource(ModelSource, Protocol):
    """With what belongs to agents: their conversations, and what they offer."""

    @property
    def journals(self) -> Journals: ...

    def conversing(self, model_id: str) -> Conversing | None:
        """The model of that name, if it is an agent. Raises `LanguageModelError` if there is none."""
        ...

    def offering(self, model_id: str) -> OfferingModel | None:
        """The model of that name, if it offers something to choose. Raises `LanguageModelError` if there is none."""
        ...

    def watch_offers(self, on_change: Callable[[str], None]) -> None:
        """Call a function with the id of each model whose offer has changed."""
        ...

    def conversations(self) -> tuple[LiveConversation, ...]: ...


class Models:
    """The running models of a configuration."""

    def __init__(
        self,
        config: Config,
        state_dir: Path | None = None,
        permissions: PermissionServices | None = None,
        learnt: AgentStore | None = None,
        max_memory: int | None = None,
        database: Database | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        """With a state folder, conversations with agents outlive this process, and so do approvals and what was learnt.

        `max_memory` is in bytes, and of all agents together. `database` is that of the state folder, if the caller has it
        open: then the caller closes it. Secrets in `redaction` are masked in journals.
        """
        self._redaction = redaction
        self.clients = ClientRegistry()
        self._journals: Journals | None = None
        self._owns_database = database is None
        self._max_memory = max_memory
        self._memory: MemoryLimit | None = None
        self._config = config
        self._state_dir = state_dir
        self._database = database
        self._made: dict[str, GuardedModel] = {}
        self._permissions = permissions
        self._learnt = learnt
        self._learning: list[Learning] = []
        self._conversing: dict[str, Conversing] = {}
        self._offering: dict[str, OfferingModel] = {}
        self._on_offer: Callable[[str], None] | None = None

    @property
    def permissions(self) -> PermissionServices:
        """The approvals and the pending permission requests of all models."""
        if self._permissions is None:
            self._permissions = permissions_of(self._config, self._state_dir, self._opened())
        return self._permissions

    def get(self, model_id: str) -> GuardedModel:
        if model_id not in self._made:
            style = find(self._config, model_id).style
            shared = SharedServices(
                self.permissions,
                self.journals,
                self._key(),
                self._ledger(),
                self._agents(),
                self._memory_limit(),
                self.clients,
            )
            model = build_unguarded(self._config, model_id, shared)
            log_cautions(self._config, model_id)
            if isinstance(model, Learning):
                self._learning.append(model)
            if isinstance(model, Conversing):
                self._conversing[model_id] = model
            if isinstance(model, OfferingModel):
                self._offering[model_id] = model
                model.watch_offer(partial(self._offer_changed, model_id))
            self._made[model_id] = GuardedModel(model, style)
        return self._made[model_id]

    def folder(self, model_id: str) -> Path | None:
        """The folder in which a model's agents work, unless a consumer has its own. None: the model is no agent."""
        model = self._config.models.get(model_id)
        return _folder_of(model) if isinstance(model, AcpModel) else None

    def conversations(self) -> tuple[LiveConversation, ...]:
        """The conversations of all models that are in this process."""
        return tuple(each for model in self._conversing.values() for each in model.conversations())

    def conversing(self, model_id: str) -> Conversing | None:
        self.get(model_id)
        return self._conversing.get(model_id)

    def offering(self, model_id: str) -> OfferingModel | None:
        self.get(model_id)
        return self._offering.get(model_id)

    def watch_offers(self, on_change: Callable[[str], None]) -> None:
        self._on_offer = on_change

    def _offer_changed(self, model_id: str) -> None:
        if self._on_offer is not None:
            self._on_offer(model_id)

    def infos(self) -> tuple[ModelInfo, ...]:
        """The info of every usable model. Why a model is unusable is in the log, and in the error of `get`."""
        found: list[ModelInfo] = []
        for model_id in self._config.models:
            try:
                found.append(with_capability_tags(self.get(model_id).info))
            except ModelNotUsable as error:
                _log.warning("model %s cannot be used: %s", model_id, error.sentence)
        return tuple(found)

    def adopt(self, config: Config) -> bool:
        """Switch to another configuration. Returns whether the list of models changed.

        Its rules count from now on. A model that is in use stays as it is, with its agents, until the next start.
        """
        was, self._config = self._config, config
        if self._permissions is not None and rules_of(config) != rules_of(was):
            self._permissions.rules.policy = policy_of(config)
            _log.info("the rules were changed; there are %d now", len(rules_of(config)))
        for model_id in self._made:
            if model_id in config.models and config.models[model_id] != was.models.get(model_id):
                _log.info("model %s was changed: restart Dragoman to use the change", model_id)
        return list(config.models) != list(was.models)

    @property
    def rules(self) -> tuple[LocatedRule, ...]:
        """The rules in force."""
        return rules_of(self._config)

    @property
    def rules_file(self) -> Path:
        """The file that new rules are written to: the user's own, never one that was only found."""
        return self._config.source.path or user_config_file()

    def add_rules(self, tables: str) -> LocatedRule:
        """Write `[[policy]]` tables to the user's own file, and apply them from now on. Returns the first of them.

        `ConfigError` if they cannot be written; then nothing has changed.
        """
        from dragoman.config.editing import add_rules  # noqa: PLC0415 - when a person makes a rule

        source, policy = add_rules(self.rules_file, tables)
        self.adopt(msgspec.structs.replace(self._config, policy=policy, source=source))
        return self.rules[len(policy) - len(tomllib.loads(tables)["policy"])]

    async def learn(self) -> None:
        """Let every model ask its server for its limits, so that its `info` is right. Takes some seconds at most."""
        self.infos()
        await asyncio.gather(*(model.learn() for model in self._learning))

    async def close(self) -> None:
        """Close all models, and end their agents."""
        self._learning.clear()
        self._conversing.clear()
        self._offering.clear()
        made, self._made = self._made, {}
        for model in made.values():
            await model.close()
        if self._database is not None and self._owns_database:
            self._database.close()
            self._database = None

    def _memory_limit(self) -> MemoryLimit | None:
        from dragoman.backends.agent.profile.memory_limit import MemoryLimit  # noqa: PLC0415 - for models that are agents

        if self._memory is None and self._max_memory is not None:
            self._memory = MemoryLimit(self._max_memory)
        return self._memory

    def _ledger(self) -> Ledger | None:
        from dragoman.process import Ledger  # noqa: PLC0415 - for models that are agents

        return Ledger(self._state_dir / "run" / "processes") if self._state_dir is not None else None

    def _agents(self) -> AgentStore | None:
        from dragoman.store import AgentStore  # noqa: PLC0415 - SQLite, for agents only

        database = self._opened()
        return AgentStore(database) if database is not None else self._learnt

    @property
    def journals(self) -> Journals:
        """Where conversations are recorded."""
        if self._journals is None:
            self._journals = journals_of(self._config, self._opened(), self._redaction)
        return self._journals

    def _key(self) -> bytes | None:
        database = self._opened()
        if database is None:
            return None
        from dragoman.store import StoreError, signing_key  # noqa: PLC0415 - SQLite, for agents only

        try:
            return signing_key(database)
        except StoreError as error:
            _log.warning("conversations will not survive a restart: %s", error)
            return None

    def _opened(self) -> Database | None:
        """The database of the state folder, if there is one that can be used."""
        if self._state_dir is None or self._database is not None:
            return self._database
        from dragoman.store import Database, StoreError  # noqa: PLC0415 - SQLite, for agents only

        try:
            self._database = Database.open(self._state_dir)
        except StoreError as error:
            _log.warning("conversations and approvals will not survive a restart: %s", error)
        return self._database


def journals_of(config: Config, database: Database | None, redaction: Redaction | None) -> Journals:
    """The journals of a database, as the configuration has them."""
    from dragoman.cleaning import Cleaning  # noqa: PLC0415 - for what stores conversations
    from dragoman.journal.sqlite.journals import SqliteJournals  # noqa: PLC0415
    from dragoman.journal.writer import Journals  # noqa: PLC0415

    cleaning = Cleaning(redaction or Redaction())
    cleaning.add_environment(os.environ)
    store = None if database is None else SqliteJournals(database)
    return Journals(store, config.journal.content, cleaning, config.keep)


def permissions_of(config: Config, state_dir: Path | None, database: Database | None) -> PermissionServices:
    """What approvals and settings say of agents' actions."""
    from dragoman.permissions.approvals import Approvals  # noqa: PLC0415 - for models that are agents
    from dragoman.permissions.pipeline import PermissionServices  # noqa: PLC0415
    from dragoman.permissions.rules_in_force import RulesInForce  # noqa: PLC0415
    from dragoman.store import ApprovalStore  # noqa: PLC0415

    approvals = Approvals(None if database is None else ApprovalStore(database))
    if (notice := approvals.drop_incomplete()) is not None:
        _log.warning("%s", notice)
    return PermissionServices(
        approvals,
        auto_approval(config),
        own=own_places(config, state_dir),
        rules=RulesInForce(policy_of(config)),
    )


def policy_of(config: Config) -> Policy | None:
    """The rules of a configuration, ready to be applied; None if it has none."""
    rules = rules_of(config)
    if not rules:
        return None
    from dragoman.policy.policy import Policy  # noqa: PLC0415 - the analysis of commands, for those who have rules

    return Policy(rules)


def auto_approval(config: Config) -> AutoApproval:
    """What the settings allow without a question, and what they never allow."""
    from dragoman.permissions.autoapproval import AutoApproval  # noqa: PLC0415 - only for front ends that ask the user

    tools = config.tools
    return AutoApproval(tools.auto_approve, tools.eligible, tools.urls, config.refused_urls)


def own_places(config: Config, state_dir: Path | None) -> tuple[str, ...]:
    """The files of Dragoman that an agent must not change unasked: its configuration and its state."""
    files = [user_config_file(), *([config.source.path] if config.source.path is not None else [])]
    if state_dir is not None:
        files += [state_dir / name for name in _STATE_FILES]
    return tuple(str(file.absolute()) for file in files)


def cautions_of(config: Config, model_id: str) -> tuple[str, ...]:
    """Where this model, started as it is configured, acts without asking. The caller shows each once."""
    model = config.models[model_id]
    if not isinstance(model, AcpModel):
        return ()
    from dragoman.backends.agent.profile.traits import cautions_for, traits_of  # noqa: PLC0415 - only agents need it

    traits = traits_of(model.agent, config.facts)
    return cautions_for(traits, model.command or (), fs=bool(model.fs), mode=model.mode)


def log_cautions(config: Config, model_id: str) -> None:
    """Log the cautions of a model that a command is about to use."""
    for caution in cautions_of(config, model_id):
        _log.warning("%s: %s", model_id, caution)


def build(config: Config, model_id: str) -> GuardedModel:
    """The model of that name, behind the guard. The one to use, except in the checker."""
    style = find(config, model_id).style
    return GuardedModel(build_unguarded(config, model_id), style)


def build_unguarded(config: Config, model_id: str, shared: SharedServices | None = None) -> LanguageModel:
    """The model as its back end made it, without the guard, so that the checker sees which rules it breaks."""
    find(config, model_id)
    try:
        return _made(model_id, resolved(config, model_id), config, shared or SharedServices())
    except (ConfigError, ScriptError) as error:
        raise ModelNotUsable("bad_request", str(error)) from error


def _made(model_id: str, model: ModelConfig, config: Config, shared: SharedServices) -> LanguageModel:
    match model:
        case ScriptModel():
            return _scripted(model_id, model)
        case AcpModel():
            return _agent(model_id, model, config, shared)
        case ResponsesModel():
            return _endpoint(model_id, model, config, shared.key)


def _folder_of(model: AcpModel) -> Path:
    return (model.cwd or Path.cwd()).absolute()


def _agent(model_id: str, model: AcpModel, config: Config, shared: SharedServices) -> AgentModel:
    from dragoman.backends.agent.model import AgentModel  # noqa: PLC0415
    from dragoman.backends.agent.profile.observations import Observations  # noqa: PLC0415
    from dragoman.backends.agent.profile.offer import RememberedOffer  # noqa: PLC0415
    from dragoman.backends.agent.profile.settings import AgentSettings, Timing  # noqa: PLC0415
    from dragoman.backends.agent.profile.traits import traits_of  # noqa: PLC0415 - only agents need it

    if model.command is None:
        raise ModelNotUsable(
            "bad_request",
            f"{quoted(model_id)} names the agent {quoted(model.agent or '')}, which is not installed.",
            hint=f"Install it: dragoman agents add {model.agent}. Or add `command`: how the agent is started.",
        )
    traits = traits_of(model.agent, config.facts)
    conversation = config.conversation
    own_env = {**dict(traits.env), **model.env}
    settings = AgentSettings(
        model_id,
        model.name or model_id,
        model.command,
        {**(inherited(config) if model.env_inherit else {}), **own_env},
        _folder_of(model),
        traits,
        Timing(
            idle=conversation.idle_minutes * 60,
            human=conversation.human_minutes * 60,
            grace=conversation.cancel_grace_seconds,
            gather=conversation.gather_milliseconds / 1_000,
            retry=conversation.retry_seconds,
            one_turn=config.serve.one_turn_seconds,
        ),
        model.mode,
        model.options,
        model.permission,
        model.style,
        conversation.replay_tokens,
        model.fs,
        model.tool_limit_seconds,
        model.auth,
        own_env=own_env,
        config_file=(config.source_of(model_id).path or user_config_file()).absolute(),
        ledger=shared.ledger,
        max_agents=conversation.max_agents,
        memory=shared.memory,
    )
    info = ModelInfo(
        id=model_id,
        name=model.name or model_id,
        family=model.agent or model_id,
        version="1",
        max_input_tokens=model.max_input_tokens,
        max_output_tokens=model.max_output_tokens,
        capabilities=Capabilities(tool_calling=True, image_input=True),
        required_calls=True,
        takes_forms=True,
        detail="An agent, through Dragoman.",
        tags=("agent", "permissions", "thinking"),
        is_byok=True,
        is_user_selectable=True,
    )
    return AgentModel(
        info,
        settings,
        permissions=shared.permissions,
        journals=shared.journals,
        key=shared.key,
        observations=Observations(shared.learnt),
        offer=RememberedOffer(model_id, model.command, shared.learnt),
        clients=shared.clients,
    )


def _endpoint(model_id: str, model: ResponsesModel, config: Config, secret: bytes | None) -> EndpointModel:
    from dragoman.backends.responses.listing import Listed  # noqa: PLC0415 - only endpoints need it
    from dragoman.backends.responses.model import EndpointModel  # noqa: PLC0415
    from dragoman.backends.responses.settings import EndpointSettings  # noqa: PLC0415

    key = getattr(config.models[model_id], "api_key", None)
    of_model = f"`api_key` of {quoted(model_id)}"
    settings = EndpointSettings(
        model_id,
        model.name or model_id,
        model.base_url,
        model.model,
        model.api_key,
        model.headers,
        None
        if key is None
        else f"the environment variable {key[1:]} ({of_model})"
        if key.startswith("$")
        else of_model,
        model.options,
        model.silence_seconds,
    )
    if secret is not None:
        settings = replace(settings, secret=secret)
    configured = Listed(
        model.model, model.max_input_tokens, model.max_output_tokens, image_input=model.image_input
    )
    info = ModelInfo(
        id=model_id,
        name=model.name or model_id,
        family=model.model,
        version="1",
        max_input_tokens=1_000_000,
        max_output_tokens=64_000,
        capabilities=Capabilities(tool_calling=True, image_input=True),
        required_calls=True,
        takes_options=True,
        detail=f"{model.model}, through Dragoman.",
        is_byok=True,
        is_user_selectable=True,
    )
    return EndpointModel(info, settings, configured)


def _scripted(model_id: str, model: ScriptModel) -> ScriptedModel:
    script = load_script(model.path, id=model_id)
    info = script.info
    return ScriptedModel(
        script,
        info=msgspec.structs.replace(
            info,
            name=model.name or info.name,
            max_input_tokens=model.max_input_tokens or info.max_input_tokens,
            max_output_tokens=model.max_output_tokens or info.max_output_tokens,
        ),
    )
