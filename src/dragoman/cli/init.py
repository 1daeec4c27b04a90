"""`dragoman init`: from nothing to a model that answers, in a short dialogue.

Five steps: choose an agent, install it, log in, send one test prompt, write the configuration. The file is written
last, whole or not at all, so an interrupt at any step leaves it as it was. An agent that was installed stays installed,
and the last line says so.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec.structs import replace

from dragoman.acp.login import LoginCommand
from dragoman.acp.messages import AuthMethod
from dragoman.agents.catalogue import CatalogueError
from dragoman.agents.entry import CatalogueEntry
from dragoman.agents.failure import InstallError
from dragoman.backends.agent.model import AgentModel
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.cli.agent_probe.login import LoginCheck, check_login
from dragoman.cli.agent_setup import (
    AgentSetup,
    ModelValues,
    install_agent,
    model_values,
    setup_of,
    write_model,
)
from dragoman.cli.asking import agreed, answer_to, can_ask
from dragoman.cli.errors import DONE, FAILED, CommandError, UsageError
from dragoman.cli.known_agents import KnownAgents
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.cli.steps import StepProgress
from dragoman.cli.table import table
from dragoman.cli.trial import TRIAL_PROMPT, PrintedResponse, try_model
from dragoman.config import AcpModel, Config
from dragoman.config.editing import model_table, with_model
from dragoman.interruptible import run_interruptible
from dragoman.lm import LanguageModelError
from dragoman.logs import one_line
from dragoman.models import build_unguarded

__all__ = ["run"]

# A login that has failed three times needs more than another try.
_LOGINS = 3


class _Declined(Exception):
    """The user has answered no. The text says what was not done."""


def run(arguments: Namespace, context: CommandContext) -> int:
    if not can_ask() and not (arguments.agent and arguments.yes):
        raise UsageError(
            "init: there is no terminal to ask at. Name the agent and agree beforehand: --agent ID --yes."
        )
    if arguments.yes and not arguments.agent:
        raise UsageError("init: --yes needs --agent ID, as `dragoman agents` lists them.")
    setup = setup_of(context)
    dialogue = _Dialogue(context, setup, is_sure=arguments.yes)
    try:
        return dialogue.run(arguments.agent, arguments.model_id, is_tested=not arguments.no_test)
    except _Declined as declined:
        say(str(declined), sys.stderr)
        dialogue.say_unwritten()
        return FAILED
    except (CatalogueError, InstallError) as error:
        raise CommandError(str(error)) from error
    except KeyboardInterrupt:
        dialogue.say_unwritten()
        raise


@dataclass(slots=True)
class _Progress:
    installed: CatalogueEntry | None = None
    is_written: bool = False


class _Dialogue:
    def __init__(self, context: CommandContext, setup: AgentSetup, *, is_sure: bool) -> None:
        self._context = context
        self._setup = setup
        self._is_sure = is_sure
        self._progress = _Progress()

    def run(self, agent: str | None, model_id: str | None, *, is_tested: bool) -> int:
        entry = self._setup.entry(agent) if agent else self._chosen()
        model_id = self._model_id(entry, model_id)
        values = model_values(entry) if self._setup.is_written(model_id, entry.id) else None
        if values is not None:
            # Before anything is fetched: whether it could be written at all.
            with_model(self._setup.file, self._setup.config.source.text, model_id, values)
        self._install(entry)
        if is_tested:
            method = self._test(model_id, values, entry)
            if method is not None and values is not None:
                values["auth"] = method
        if values is not None:
            self._write(model_id, values)
        else:
            where = self._setup.config.source.at(("models", model_id))
            say(f"{where}: the model {model_id} starts {entry.name} already. Nothing was written.")
        say(f"\nNext: dragoman chat {model_id}")
        return DONE

    def say_unwritten(self) -> None:
        if self._progress.is_written:
            return
        say("No configuration was written.", sys.stderr)
        if (entry := self._progress.installed) is not None:
            say(f"{entry.name} stays installed. To remove it: dragoman agents remove {entry.id}", sys.stderr)

    # Which agent.

    def _chosen(self) -> CatalogueEntry:
        known = sorted(self._setup.catalogue.values(), key=self._rank)
        rows = (
            (str(number), entry.id, entry.name, self._state_of(entry))
            for number, entry in enumerate(known, 1)
        )
        say("Which agent do you want to use?\n")
        print(table(("", "ID", "NAME", "STATE"), rows))
        print(flush=True)
        while True:
            answer = answer_to(f"Number or id [1, {known[0].id}]:")
            if answer is None:
                raise _Declined("No agent was chosen.")
            if not answer:
                return known[0]
            if answer.isdecimal() and 1 <= int(answer) <= len(known):
                return known[int(answer) - 1]
            try:
                return self._setup.entry(answer)
            except UsageError as error:
                say(str(error), sys.stderr)

    def _rank(self, entry: CatalogueEntry) -> int:
        """What is installed first, then the demo, which needs nothing, then the rest in the catalogue's order."""
        if entry.facts.built_in:
            return 1
        return 0 if self._setup.agents.find(entry.id) is not None else 2

    def _state_of(self, entry: CatalogueEntry) -> str:
        if entry.facts.built_in:
            return "built in, no account"
        found = self._setup.agents.find(entry.id)
        return "" if found is None else f"installed ({found.version})"

    def _model_id(self, entry: CatalogueEntry, wanted: str | None) -> str:
        """The id of the model: the one that was asked for, one that starts the agent already, or the agent's id."""
        if wanted:
            return wanted
        mine = self._setup.models_of(entry.id)
        return mine[0] if mine else entry.id

    # Is it installed.

    def _install(self, entry: CatalogueEntry) -> None:
        if entry.facts.built_in:
            say(f"{entry.name} is built in: there is nothing to install.")
            return
        found = self._setup.agents.find(entry.id)
        if found is not None:
            say(f"{entry.name} {found.version} is installed.")
            return
        if install_agent(self._setup, entry, None, model_id=None, is_sure=self._is_sure) is None:
            raise _Declined(f"{entry.name} is not installed.")
        self._progress.installed = entry

    def _config_with(self, model_id: str, values: ModelValues | None, method: str | None) -> Config:
        """The configuration as it is going to be."""
        config = self._setup.config
        model = config.models.get(model_id) if values is None else msgspec.convert(values, AcpModel)
        if isinstance(model, AcpModel):
            model = model if method is None else replace(model, auth=method)
            config = replace(config, models=config.models | {model_id: model})
        return KnownAgents(self._context.state_dir).applied(config)

    # Is it logged in, and does it answer.

    def _test(self, model_id: str, values: ModelValues | None, entry: CatalogueEntry) -> str | None:
        """Test the agent, and let the user log in if that is missing. Returns the agent's own way that was used."""
        method: str | None = None
        for _ in range(_LOGINS):
            config = self._config_with(model_id, values, method)
            try:
                check = self._checked(config, model_id, entry, method)
                refusal = check.refusal or self._refused_prompt(config, model_id, entry)
            except LanguageModelError as error:
                self._go_on_without(error)
                return method
            if refusal is None:
                return method
            say(one_line(refusal.message), sys.stderr)
            way = None if self._is_sure or not can_ask() else self._chosen_way(check, refusal)
            if way is None:
                self._go_on_without(refusal)
                return None
            method = way.id if isinstance(way, AuthMethod) else None
            if isinstance(way, LoginCommand):
                self._run_login(way, self._settings(config, model_id))
        raise _Declined(f"{entry.name} still requires a login.")

    def _settings(self, config: Config, model_id: str) -> AgentSettings:
        model = build_unguarded(config, model_id)
        if not isinstance(model, AgentModel):
            raise CommandError(f"The model {model_id} is no agent.")
        return model.settings

    def _checked(
        self, config: Config, model_id: str, entry: CatalogueEntry, method: str | None
    ) -> LoginCheck:
        settings = self._settings(config, model_id)
        with StepProgress() as steps:
            steps.step(
                f"starting {entry.name}, to see whether it is logged in"
                if method is None
                else f"{entry.name} logs in; it may have opened a browser"
            )
            check = run_interruptible(lambda: check_login(settings, method))
        if check.refusal is None:
            say(f"{entry.name} starts, and opens a session.")
        return check

    def _refused_prompt(
        self, config: Config, model_id: str, entry: CatalogueEntry
    ) -> LanguageModelError | None:
        """Send the test prompt. Returns the error if a login is missing; any other error is raised."""
        say(f"\nA test prompt for {entry.name}: {TRIAL_PROMPT}\n")
        response = PrintedResponse()
        try:
            try_model(config, model_id, response)
        except LanguageModelError as error:
            if error.kind != "auth_required":
                raise
            return error
        finally:
            response.end()
        if not response.text.strip():
            raise LanguageModelError("agent_failed", f"{entry.name} ended its answer without a word.")
        print(flush=True)
        return None

    def _chosen_way(
        self, check: LoginCheck, refusal: LanguageModelError
    ) -> LoginCommand | AuthMethod | Literal["elsewhere"] | None:
        """Ask the user how to log in. None: not at all."""
        ways: tuple[LoginCommand | AuthMethod, ...] = (*check.commands, *check.methods)
        match ways:
            case ():
                _say_steps(refusal)
                return "elsewhere" if agreed("Log in in another terminal. Have you done so?") else None
            case (LoginCommand() as only,):
                say(f"Its own login command ({only.label}):", sys.stderr)
                _print_command(only)
                return only if agreed("Run it?") else None
        say("Its own ways to log in:", sys.stderr)
        for number, way in enumerate(ways, 1):
            if isinstance(way, LoginCommand):
                say(f"  {number}  {way.label}", sys.stderr)
                _print_command(way)
            else:
                about = f": {way.description}" if way.description else ""
                say(one_line(f"  {number}  {way.name or way.id}{about}"), sys.stderr)
        answer = answer_to("Which one? Its number, or Enter for none:") or ""
        return ways[int(answer) - 1] if answer.isdecimal() and 1 <= int(answer) <= len(ways) else None

    def _run_login(self, login: LoginCommand, settings: AgentSettings) -> None:
        try:
            # The command of the agent, in the user's terminal; the user has seen it and agreed.
            status = subprocess.run(  # noqa: S603
                login.command, env={**settings.env, **login.env}, check=False
            ).returncode
        except OSError as error:
            say(f"It cannot be started: {error.strerror}.", sys.stderr)
            return
        if status:
            say(f"The login ended with status {status}.", sys.stderr)

    def _go_on_without(self, error: LanguageModelError) -> None:
        """Report a test that failed, and ask whether to write the file all the same."""
        say(f"The test failed: {one_line(error.message)}", sys.stderr)
        _say_steps(error)
        if self._is_sure or not can_ask() or not agreed("Write the configuration all the same?"):
            raise _Declined("The agent does not answer yet.")

    # The file.

    def _write(self, model_id: str, values: ModelValues) -> None:
        file = self._setup.file.absolute()
        say(f"This goes to {'the end of ' if file.exists() else ''}{file}:\n")
        print(model_table(model_id, values), flush=True)
        if not self._is_sure and not agreed("Write it?", enter_agrees=True):
            raise _Declined("You can add these lines yourself.")
        write_model(self._setup.file, model_id, values)
        self._progress.is_written = True


def _print_command(command: LoginCommand) -> None:
    """Print a command whole, so that it can be copied: the terminal breaks the line, we do not."""
    print(f"    {command.text}", file=sys.stderr, flush=True)


def _say_steps(error: LanguageModelError) -> None:
    for line in (error.hint or "").splitlines():
        say(f"  → {one_line(line)}", sys.stderr)
