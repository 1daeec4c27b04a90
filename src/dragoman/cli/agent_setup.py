"""Installing an agent of the catalogue and making it a model: what `dragoman agents add` and `dragoman init` share."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dragoman.acp.messages import Initialized
from dragoman.agents.catalogue import asking_mode, catalogue
from dragoman.agents.entry import CatalogueEntry
from dragoman.agents.installed import InstalledAgents
from dragoman.agents.installing import InstallPlan, install, plan
from dragoman.backends.agent.profile.traits import cautions_for, traits_of
from dragoman.cli.asking import agreed_to
from dragoman.cli.errors import CommandError, UsageError
from dragoman.cli.layout import laid_out, say, width_of
from dragoman.cli.run import CommandContext
from dragoman.cli.steps import StepProgress
from dragoman.config import (
    BUILTIN_MODELS,
    AcpModel,
    Config,
    ModelConfig,
    inherited,
    load,
    quoted,
    user_config_file,
)
from dragoman.config.editing import model_table, with_model, write
from dragoman.config.loading import MAX_FILE_BYTES
from dragoman.config.schema import is_model_id
from dragoman.interruptible import run_interruptible
from dragoman.logs import one_line
from dragoman.nearest import nearest
from dragoman.regular_file import read_regular

__all__ = ["AgentSetup", "ModelValues", "install_agent", "model_values", "setup_of", "uses", "write_model"]

ModelValues = dict[str, str | bool]
_MANAGERS = {"npx": "npm", "uvx": "pip", "binary": ""}


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """The agents that there are, and the file that models are written to."""

    agents: InstalledAgents
    catalogue: Mapping[str, CatalogueEntry]
    # The file that is written to: the one that was named, else the user's own; never one that was only found.
    file: Path
    # What that file says.
    config: Config

    def entry(self, id_: str) -> CatalogueEntry:
        if id_ in self.catalogue:
            return self.catalogue[id_]
        by_alias = {alias: entry.id for entry in self.catalogue.values() for alias in entry.facts.aliases}
        meant = by_alias.get(id_) or nearest(id_, self.catalogue)
        hint = f'Did you mean "{meant}"?' if meant else f"There are {', '.join(self.catalogue)}."
        raise UsageError(f'There is no agent "{id_}" in the catalogue. {hint}')

    def models_of(self, agent: str) -> tuple[str, ...]:
        """The models of that file that start the installed agent."""
        return tuple(id_ for id_, model in self.config.models.items() if uses(model, agent))

    def is_written(
        self, model_id: str, agent: str, *, replace: bool = False, can_replace: bool = False
    ) -> bool:
        """Whether the file has to be changed. A model that starts this agent already is left as it is.

        `UsageError` if another model has that name.
        """
        if not is_model_id(model_id):
            raise UsageError(f'"{model_id}" cannot be the name of a model: letters, digits, dots and dashes.')
        existing = self.config.models.get(model_id)
        if existing is None or existing is BUILTIN_MODELS.get(model_id) or replace:
            return True
        if uses(existing, agent):
            return False
        raise UsageError(
            f"{self.config.source.at(('models', model_id))}: there is a model {quoted(model_id)} already."
            f" Choose another name with --name{', or replace it with --replace' if can_replace else ''}."
        )


def setup_of(context: CommandContext) -> AgentSetup:
    agents = InstalledAgents(context.state_dir)
    known = catalogue(agents.folder)
    file = context.config_file or user_config_file()
    return AgentSetup(agents, known, file, load(file if file.exists() else None, known.keys()))


def model_values(entry: CatalogueEntry) -> ModelValues:
    """The table of a model that starts an agent so that it asks before it acts."""
    values: ModelValues = {"kind": "acp", "agent": entry.id, "name": entry.name}
    if any(caution.unless_fs for caution in entry.facts.cautions):
        values["fs"] = True
    if (mode := asking_mode(entry.id)) is not None:
        values["mode"] = mode
    return values


def install_agent(
    setup: AgentSetup, entry: CatalogueEntry, version: str | None, *, model_id: str | None, is_sure: bool
) -> Initialized | None:
    """Install an agent after a yes, and return its `initialize` response. None: the answer was no.

    `model_id`: the model that is going to be written, which is announced, too.
    """
    with _reporting_interrupt(setup.agents, entry.id):
        planned = run_interruptible(lambda: plan(entry, version, setup.catalogue))
        _announce(setup, planned, model_id)
        if not agreed_to("Install it?", is_sure=is_sure):
            return None
        with StepProgress() as steps:
            said = run_interruptible(lambda: install(planned, setup.agents, inherited(setup.config), steps))
    found = setup.agents.find(entry.id)
    say(f"{entry.name} {found.version if found else planned.version} is installed.")
    return said


@contextmanager
def _reporting_interrupt(agents: InstalledAgents, id_: str) -> Iterator[None]:
    """Report, after an interrupt, that nothing has changed."""
    before = agents.find(id_)
    try:
        yield
    except KeyboardInterrupt:
        if agents.find(id_) == before:
            say("Nothing was installed or removed.", sys.stderr)
        raise


def _announce(setup: AgentSetup, planned: InstallPlan, model_id: str | None) -> None:
    entry = planned.entry
    before = setup.agents.find(entry.id)
    lines = [
        f"{entry.name}: {entry.description}",
        f"  from      {_MANAGERS[planned.kind]} {planned.source}{f' ({entry.license})' if entry.license else ''}",
        f"  into      {setup.agents.folder / entry.id}{f', replacing {before.version}' if before else ''}",
        f"  verified  {_verified(planned)}",
    ]
    if planned.kind == "npx" and entry.facts.scripts:
        lines.append("  runs      the installation script of that package; it does not work without")
    known = traits_of(entry.id, {entry.id: entry.facts})
    cautions = cautions_for(known, planned.what.args, fs=True, mode=asking_mode(entry.id))
    lines += [f"  mind      {text}" for text in cautions]
    if entry.facts.when_no_tools is not None:
        lines.append(f"  tools     {entry.facts.when_no_tools}")
    if model_id is not None:
        lines.append(f"  model     [models.{model_id}] in {setup.file}")
    print(laid_out("\n".join(map(one_line, lines)), width_of(sys.stderr)), file=sys.stderr)


def _verified(planned: InstallPlan) -> str:
    if planned.integrity is not None:
        return "by the hash in the catalogue"
    if planned.kind == "binary":
        return "not at all: the registry gives no hash"
    return f"by {_MANAGERS[planned.kind]}, against where it comes from"


def write_model(file: Path, model_id: str, values: ModelValues) -> None:
    """Add the model's table to the file as it is now: it may have changed during the installation."""
    try:
        text = read_regular(file, MAX_FILE_BYTES).decode("utf-8-sig") if file.exists() else ""
        write(file, with_model(file, text, model_id, values))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CommandError(
            f"{file} cannot be changed: {reason}. Add this to your configuration:\n{model_table(model_id, values)}"
        ) from error
    say(f"[models.{model_id}] is in {file}.")


def uses(model: ModelConfig, agent: str) -> bool:
    """Whether a model starts the installed agent."""
    return isinstance(model, AcpModel) and model.agent == agent and model.command is None
