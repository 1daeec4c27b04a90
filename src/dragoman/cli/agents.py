"""`dragoman agents`: the catalogue, installing an agent, and removing one."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Mapping

import msgspec

from dragoman.agents.catalogue import CatalogueError, catalogue, refresh
from dragoman.agents.entry import CatalogueEntry
from dragoman.agents.failure import InstallError
from dragoman.agents.installed import Installation, InstalledAgents
from dragoman.cli.actions import check_action
from dragoman.cli.agent_setup import AgentSetup, install_agent, model_values, setup_of, write_model
from dragoman.cli.asking import agreed_to
from dragoman.cli.errors import DONE, FAILED, CommandError, UsageError, complain
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.cli.steps import StepProgress
from dragoman.cli.table import table
from dragoman.config import AcpModel, Config
from dragoman.config.editing import with_model, without_model, write
from dragoman.interruptible import run_interruptible
from dragoman.lm.json import JsonObject, encode_text
from dragoman.logs import one_line

__all__ = ["run"]

_HEADINGS = ("ID", "NAME", "VERSION", "INSTALLED", "MODELS", "ABOUT")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")


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
        if action == "list":
            return _list(agents, catalogue(agents.folder), context.config(), as_json=arguments.json)
        setup = setup_of(context)
        if action == "remove":
            return max(_remove(setup, id_, is_sure=arguments.yes) for id_ in ids)
        if len(ids) > 1:
            raise UsageError("agents add: one at a time.")
        return _add(setup, ids[0], arguments)
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


def _add(setup: AgentSetup, id_: str, arguments: Namespace) -> int:
    entry = setup.entry(id_)
    version: str | None = arguments.agent_version
    if version is not None and not _VERSION.fullmatch(version):
        raise UsageError(f'agents add: "{version}" is no version.')
    model_id: str = arguments.model_id or entry.id
    values = model_values(entry)
    is_written = setup.is_written(model_id, entry.id, can_replace=True, replace=arguments.replace)
    # Before anything is fetched: whether it could be written at all.
    if is_written:
        with_model(setup.file, setup.config.source.text, model_id, values)
    said = install_agent(
        setup, entry, version, model_id=model_id if is_written else None, is_sure=arguments.yes
    )
    if said is None:
        return _nothing_done()
    if is_written:
        write_model(setup.file, model_id, values)
    ways = ", ".join(method.name or method.id for method in said.auth_methods)
    if ways:
        say(f"It may want you to log in: {one_line(ways)}.")
    say(f"Try it: dragoman doctor {model_id}, dragoman chat {model_id}")
    return DONE


# Remove.


def _remove(setup: AgentSetup, id_: str, *, is_sure: bool) -> int:
    agent, models = _removed(setup, id_)
    found = setup.agents.find(agent) is not None and set(setup.models_of(agent)) <= set(models)
    if not found and not models:
        complain(f"{one_line(id_)} is not installed, and no model in {setup.file} uses it.")
        return FAILED
    if found:
        say(f"  {setup.agents.folder / agent}", sys.stderr)
    for model in models:
        say(f"  [models.{model}] in {setup.file}", sys.stderr)
    if not agreed_to("Remove this?", is_sure=is_sure):
        return _nothing_done()
    text = setup.config.source.text
    for model in models:
        text = without_model(setup.file, text, model)
    if models:
        try:
            write(setup.file, text)
        except OSError as error:
            raise CommandError(f"{setup.file} cannot be written: {error.strerror}.") from error
    if found:
        with setup.agents.locked():
            setup.agents.remove(agent)
    say(f"{one_line(id_)} is removed.")
    return DONE


def _removed(setup: AgentSetup, id_: str) -> tuple[str, tuple[str, ...]]:
    """What an id removes: an agent with all its models, or one of several models that share an agent."""
    model = setup.config.models.get(id_)
    if (
        setup.agents.find(id_) is None
        and isinstance(model, AcpModel)
        and model.agent
        and model.command is None
    ):
        return model.agent, (id_,)
    agent = setup.entry(id_).id if setup.agents.find(id_) is None else id_
    return agent, setup.models_of(agent)


def _nothing_done() -> int:
    say("Nothing was done.", sys.stderr)
    return FAILED
