"""Builds what models share from the configuration: journals, approvals and rules."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.config import AcpModel, Config, rules_of, user_config_file
from dragoman.logs import Redaction

if TYPE_CHECKING:
    from dragoman.journal.store import JournalStore
    from dragoman.journal.writer import Journals
    from dragoman.permissions.autoapproval import AutoApproval
    from dragoman.permissions.pipeline import PermissionServices
    from dragoman.policy.policy import Policy
    from dragoman.store import Database

__all__ = [
    "auto_approval",
    "cautions_of",
    "journals_of",
    "log_cautions",
    "own_places",
    "permissions_of",
    "policy_of",
]

_log = logging.getLogger(__name__)

# In the state folder. What agents are installed there is the user's.
_STATE_FILES = ("dragoman.db", "dragoman.db-wal", "dragoman.db-shm", "run", "agreed", "agents", "fleet")


def journals_of(
    config: Config,
    database: Database | None,
    redaction: Redaction | None,
    store: JournalStore | None = None,
) -> Journals:
    """The journals of a database or of another store, as the configuration has them."""
    from dragoman.cleaning import Cleaning  # noqa: PLC0415 - for what stores conversations
    from dragoman.journal.sqlite.journals import SqliteJournals  # noqa: PLC0415
    from dragoman.journal.writer import Journals  # noqa: PLC0415

    cleaning = Cleaning(redaction or Redaction())
    cleaning.add_environment(os.environ)
    if store is None and database is not None:
        store = SqliteJournals(database)
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
