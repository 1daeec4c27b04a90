"""`dragoman agents`: the catalogue, installing an agent, and removing one."""

from __future__ import annotations

import re
import sys
import tomllib
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dragoman.agents.catalogue import CatalogueError, asking_mode, catalogue, refresh
from dragoman.agents.entry import CatalogueEntry
from dragoman.agents.failure import InstallError
from dragoman.agents.installed import Installation, InstalledAgents
from dragoman.agents.installing import InstallPlan, install, plan
from dragoman.backends.agent.profile.traits import cautions_for, traits_of
from dragoman.cli.actions import check_action
from dragoman.cli.asking import agreed_to
from dragoman.cli.errors import DONE, FAILED, CommandError, UsageError, complain
from dragoman.cli.layout import laid_out, say, width_of
from dragoman.cli.run import CommandContext
from dragoman.cli.steps import StepProgress
from dragoman.cli.table import table
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
from dragoman.config.editing import model_table, with_model, without_model, write
from dragoman.config.loading import MAX_FILE_BYTES
from dragoman.config.schema import is_model_id
from dragoman.interruptible import run_interruptible
from dragoman.lm.json import JsonObject, encode_text
from dragoman.logs import one_line
from dragoman.nearest import nearest
from dragoman.regular_file import read_regular

__all__ = ["run"]

_HEADINGS = ("ID", "NAME", "VERSION", "INSTALLED", "MODELS", "ABOUT")
_MANAGERS = {"npx": "npm", "uvx": "pip", "binary": ""}
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")


@dataclass(frozen=True, slots=True)
class _Desk:
    """What all actions share."""

    agents: InstalledAgents
    catalogue: Mapping[str, CatalogueEntry]
    # The file that is written to: the one that was named, else the user's own; never one that was only found.
    file: Path
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
        return tuple(id_ for id_, model in self.config.models.items() if _uses(model, agent))


def run(arguments: Namespace, context: CommandContext) -> int:
    action: str = arguments.action
    ids: list[str] = arguments.ids
    check_action("agents", action, ids, alone=("list",), with_ids=("add", "remove"))
    agents = InstalledAgents(context.state_dir)
    try:
        if action == "list" and arguments.refresh is not None:
            wanted: str | None = arguments.refresh or None
            with StepProgress() as steps:
                steps.step("reading the catalogue anew")
                source = run_interruptible(lambda: refresh(agents.folder, wanted))
            say(f"The catalogue was read from {source}.", sys.stderr)
        known = catalogue(agents.folder)
        file = context.config_file or user_config_file()
        if action == "list":
            return _list(agents, known, context.config(), as_json=arguments.json)
        desk = _Desk(agents, known, file, load(file if file.exists() else None, known.keys()))
        if action == "remove":
            return max(_remove(desk, id_, is_sure=arguments.yes) for id_ in ids)
        if len(ids) > 1:
            raise UsageError("agents add: one at a time.")
        return _add(desk, ids[0], arguments)
    except (CatalogueError, InstallError) as error:
        raise CommandError(str(error)) from error


# List.


def _list(
    agents: InstalledAgents, known: Mapping[str, CatalogueEntry], config: Config, *, as_json: bool
) -> int:
    installed = agents.all()
    models: dict[str | None, list[str]] = {}
    for id_, model in config.models.items():
        if isinstance(model, AcpModel):
            models.setdefault(model.agent, []).append(id_)
    if as_json:
        for entry in known.values():
            print(encode_text(_as_json(entry, installed.get(entry.id), models.get(entry.id, []))))
        return DONE
    rows = [
        (
            entry.id,
            entry.name,
            "built in" if entry.facts.built_in else entry.version,
            found.version if (found := installed.get(entry.id)) else "",
            ", ".join(models.get(entry.id, [])),
            entry.description,
        )
        for entry in known.values()
    ]
    print(table(_HEADINGS, rows))
    return DONE


def _as_json(entry: CatalogueEntry, found: Installation | None, models: list[str]) -> JsonObject:
    return {
        **msgspec.to_builtins(entry),
        "installed": None if found is None else {"version": found.version, "command": found.command},
        "models": models,
    }


# Add.


def _add(desk: _Desk, id_: str, arguments: Namespace) -> int:
    entry = desk.entry(id_)
    version: str | None = arguments.agent_version
    if version is not None and not _VERSION.fullmatch(version):
        raise UsageError(f'agents add: "{version}" is no version.')
    model_id: str = arguments.model_id or entry.id
    if not is_model_id(model_id):
        raise UsageError(
            f'agents add: "{model_id}" cannot be the name of a model: letters, digits, dots and dashes.'
        )
    table_: dict[str, str | bool] = {"kind": "acp", "agent": entry.id, "name": entry.name}
    if any(caution.unless_fs for caution in entry.facts.cautions):
        table_["fs"] = True
    if (mode := asking_mode(entry.id)) is not None:
        table_["mode"] = mode
    is_written = _is_written(desk, model_id, entry.id, replace=arguments.replace)
    # Before anything is fetched: whether it could be written at all.
    if is_written:
        with_model(desk.file, desk.config.source.text, model_id, table_)
    with _reporting_interrupt(desk.agents, entry.id):
        planned = run_interruptible(lambda: plan(entry, version, desk.catalogue))
        _announce(desk, planned, model_id if is_written else None)
        if not agreed_to("Install it?", is_sure=arguments.yes):
            return _nothing_done()
        with StepProgress() as steps:
            said = run_interruptible(lambda: install(planned, desk.agents, inherited(desk.config), steps))
    found = desk.agents.find(entry.id)
    say(f"{entry.name} {found.version if found else planned.version} is installed.")
    if is_written:
        _write_table(desk.file, model_id, table_)
    ways = ", ".join(method.name or method.id for method in said.auth_methods)
    if ways:
        say(f"It may want you to log in: {one_line(ways)}.")
    say(f"Try it: dragoman doctor {model_id}, dragoman chat {model_id}")
    return DONE


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


def _is_written(desk: _Desk, model_id: str, agent: str, *, replace: bool) -> bool:
    """Whether the configuration has to be changed. A model that starts this agent already is left as it is."""
    existing = desk.config.models.get(model_id)
    if existing is None or existing is BUILTIN_MODELS.get(model_id) or replace:
        return True
    if _uses(existing, agent):
        return False
    raise UsageError(
        f"{desk.config.source.at(('models', model_id))}: there is a model {quoted(model_id)} already."
        " Choose another name with --name, or replace it with --replace."
    )


def _announce(desk: _Desk, planned: InstallPlan, model_id: str | None) -> None:
    entry = planned.entry
    before = desk.agents.find(entry.id)
    lines = [
        f"{entry.name}: {entry.description}",
        f"  from      {_MANAGERS[planned.kind]} {planned.source}{f' ({entry.license})' if entry.license else ''}",
        f"  into      {desk.agents.folder / entry.id}{f', replacing {before.version}' if before else ''}",
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
        lines.append(f"  model     [models.{model_id}] in {desk.file}")
    print(laid_out("\n".join(map(one_line, lines)), width_of(sys.stderr)), file=sys.stderr)


def _verified(planned: InstallPlan) -> str:
    if planned.integrity is not None:
        return "by the hash in the catalogue"
    if planned.kind == "binary":
        return "not at all: the registry gives no hash"
    return f"by {_MANAGERS[planned.kind]}, against where it comes from"


def _write_table(file: Path, model_id: str, values: dict[str, str | bool]) -> None:
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


# Remove.


def _remove(desk: _Desk, id_: str, *, is_sure: bool) -> int:
    agent, models = _removed(desk, id_)
    found = desk.agents.find(agent) is not None and set(desk.models_of(agent)) <= set(models)
    if not found and not models:
        complain(f"{one_line(id_)} is not installed, and no model in {desk.file} uses it.")
        return FAILED
    if found:
        say(f"  {desk.agents.folder / agent}", sys.stderr)
    for model in models:
        say(f"  [models.{model}] in {desk.file}", sys.stderr)
    if not agreed_to("Remove this?", is_sure=is_sure):
        return _nothing_done()
    text = desk.config.source.text
    for model in models:
        text = without_model(desk.file, text, model)
    if models:
        try:
            write(desk.file, text)
        except OSError as error:
            raise CommandError(f"{desk.file} cannot be written: {error.strerror}.") from error
    if found:
        with desk.agents.locked():
            desk.agents.remove(agent)
    say(f"{one_line(id_)} is removed.")
    return DONE


def _removed(desk: _Desk, id_: str) -> tuple[str, tuple[str, ...]]:
    """What an id removes: an agent with all its models, or one of several models that share an agent."""
    model = desk.config.models.get(id_)
    if (
        desk.agents.find(id_) is None
        and isinstance(model, AcpModel)
        and model.agent
        and model.command is None
    ):
        return model.agent, (id_,)
    agent = desk.entry(id_).id if desk.agents.find(id_) is None else id_
    return agent, desk.models_of(agent)


def _uses(model: ModelConfig, agent: str) -> bool:
    return isinstance(model, AcpModel) and model.agent == agent and model.command is None


def _nothing_done() -> int:
    say("Nothing was done.", sys.stderr)
    return FAILED
