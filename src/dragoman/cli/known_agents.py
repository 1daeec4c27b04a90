"""Adds the commands of installed agents, and of the built-in one, to a configuration."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from dragoman.agents.catalogue import REFRESHED, catalogue
from dragoman.agents.installed import InstalledAgents
from dragoman.config import AcpModel, Config, ModelConfig
from dragoman.config.loading import BUILTIN_MODELS

__all__ = ["KnownAgents"]


class KnownAgents:
    def __init__(self, state_dir: Path) -> None:
        self._installed = InstalledAgents(state_dir)

    @cached_property
    def ids(self) -> Collection[str]:
        """The ids of the agents in a fetched registry. Those that came with us are known anyway."""
        folder = self._installed.folder
        return catalogue(folder).keys() if (folder / REFRESHED).exists() else ()

    def applied(self, config: Config) -> Config:
        """The configuration with a command for every model that names an installed agent and no command."""
        models = {id_: self._started(model) for id_, model in config.models.items()}
        facts = (
            {id_: entry.facts for id_, entry in catalogue(self._installed.folder).items()} if self.ids else {}
        )
        return replace(config, models=models, facts=facts)

    def _started(self, model: ModelConfig) -> ModelConfig:
        if not isinstance(model, AcpModel) or model.command is not None or model.agent is None:
            return model
        built_in = BUILTIN_MODELS.get(model.agent)
        if isinstance(built_in, AcpModel):
            # There is nothing to install.
            return replace(model, command=built_in.command)
        found = self._installed.find(model.agent)
        return model if found is None else replace(model, command=found.command, env=found.env | model.env)
