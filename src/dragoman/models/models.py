"""The running models of a configuration: each made when it is first asked for, and all of them ended together."""

from __future__ import annotations

import asyncio
import logging
import tomllib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dragoman.config import AcpModel, Config, FleetModel, rules_of, user_config_file
from dragoman.lm import GuardedModel, LanguageModel, ModelInfo, with_capability_tags
from dragoman.lm.client_services import ClientRegistry
from dragoman.lm.offering import OfferingModel
from dragoman.lm.presentation import Style
from dragoman.logs import Redaction
from dragoman.models.building import ModelNotUsable, SharedServices, build_unguarded, find, folder_of
from dragoman.models.services import journals_of, log_cautions, permissions_of, policy_of
from dragoman.models.sources import Conversing, Learning, LiveConversation, Recalling, Remote

if TYPE_CHECKING:
    from dragoman.backends.agent.profile.memory_limit import MemoryLimit
    from dragoman.backends.remote.fleet import Fleet
    from dragoman.journal.store import JournalStore
    from dragoman.journal.writer import Journals
    from dragoman.other_nodes import OtherNodes
    from dragoman.permissions.pipeline import PermissionServices
    from dragoman.policy.rule import LocatedRule
    from dragoman.process import Ledger
    from dragoman.store import AgentStore, Database

__all__ = ["Models"]

_log = logging.getLogger(__name__)


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
        *,
        store: JournalStore | None = None,
        key: bytes | None = None,
        fleet: Fleet | None = None,
        other_nodes: OtherNodes | None = None,
    ) -> None:
        """With a state folder, conversations with agents outlive this process, and so do approvals and what was learnt.

        `max_memory` is in bytes, and of all agents together. `database` is that of the state folder, if the caller has it
        open: then the caller closes it. Secrets in `redaction` are masked in journals. `store` and `key` are those of a
        fleet: conversations are in that store, and markers and call ids are signed with that key. With `fleet`, the models
        of its workers are models here, too; the caller closes it. `other_nodes` are those of the fleet that this process is
        a node of.
        """
        self._store = store
        self._given_key = key
        self._fleet = fleet
        self._own_fleet: Fleet | None = None
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
        self._recalling: dict[str, Recalling] = {}
        self.other_nodes = other_nodes
        self._remote_models: dict[str, Remote] = {}
        self._on_offer: Callable[[str], None] | None = None

    @property
    def permissions(self) -> PermissionServices:
        """The approvals and the pending permission requests of all models."""
        if self._permissions is None:
            self._permissions = permissions_of(self._config, self._state_dir, self._opened())
        return self._permissions

    def get(self, model_id: str) -> GuardedModel:
        if model_id not in self._made:
            if self._fleet is not None and model_id in self._discovered():
                style, model = Style(), self._remote(self._fleet, model_id)
            else:
                style = find(self._config, model_id).style
                model = build_unguarded(self._config, model_id, self._shared(model_id))
                log_cautions(self._config, model_id)
            if isinstance(model, Remote):
                self._remote_models[model_id] = model
            if isinstance(model, Learning):
                self._learning.append(model)
            if isinstance(model, Conversing):
                self._conversing[model_id] = model
            if isinstance(model, Recalling):
                self._recalling[model_id] = model
            if isinstance(model, OfferingModel):
                self._offering[model_id] = model
                model.watch_offer(partial(self._offer_changed, model_id))
            self._made[model_id] = GuardedModel(model, style)
        return self._made[model_id]

    def _shared(self, model_id: str) -> SharedServices:
        if isinstance(self._config.models[model_id], FleetModel):
            return SharedServices(self.permissions, fleet=self._connected_fleet())
        return SharedServices(
            self.permissions,
            self.journals,
            self._key(),
            self._ledger(),
            self._agents(),
            self._memory_limit(),
            self.clients,
        )

    def _connected_fleet(self) -> Fleet | None:
        """That of the caller, or one that connects when it is first used. None if there is none."""
        if self._fleet is None and self._own_fleet is None and self._config.fleet.urls:
            from dragoman.backends.remote.fleet import Fleet  # noqa: PLC0415 - NATS, for those who have a fleet
            from dragoman.fleet.connection import FleetUnavailable  # noqa: PLC0415 - as above

            try:
                self._own_fleet = Fleet.of_config(self._config.fleet)
            except FleetUnavailable as error:
                raise ModelNotUsable("bad_request", str(error)) from error
        return self._fleet or self._own_fleet

    def _discovered(self) -> tuple[str, ...]:
        """The models that workers offer and that are not configured here."""
        offered = self._fleet.workers.offered if self._fleet is not None else ()
        return tuple(each for each in offered if each not in self._config.models)

    def _remote(self, fleet: Fleet, model_id: str) -> LanguageModel:
        from dragoman.backends.remote.model import RemoteModel  # noqa: PLC0415 - NATS, for those who have a fleet

        return RemoteModel(fleet, model_id, permissions=self.permissions)

    def is_remote(self, model_id: str) -> bool:
        """Whether it runs on a worker of the fleet."""
        configured = self._config.models.get(model_id)
        return (
            isinstance(configured, FleetModel) if configured is not None else model_id in self._discovered()
        )

    def folder(self, model_id: str) -> Path | None:
        """The folder in which a model's agents work, unless a consumer has its own. None: the model is no agent."""
        if self.is_remote(model_id):
            self.get(model_id)
        if model_id in self._remote_models:
            return self._remote_models[model_id].folder
        model = self._config.models.get(model_id)
        return folder_of(model) if isinstance(model, AcpModel) else None

    async def recall_permissions(self, model_id: str, call_ids: Iterable[str]) -> None:
        """Make those permission calls of a model known here that wait at another node. Raises `LanguageModelError`."""
        self.get(model_id)
        if (model := self._recalling.get(model_id)) is not None:
            await model.recall(call_ids)

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
        for model_id in (*self._config.models, *self._discovered()):
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
        self._recalling.clear()
        self._remote_models.clear()
        made, self._made = self._made, {}
        for model in made.values():
            await model.close()
        if self._own_fleet is not None:
            await self._own_fleet.close()
            self._own_fleet = None
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
            self._journals = journals_of(self._config, self._opened(), self._redaction, self._store)
        return self._journals

    def _key(self) -> bytes | None:
        if self._given_key is not None:
            return self._given_key
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
