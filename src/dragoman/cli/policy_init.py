"""`dragoman policy init`: a first set of rules, and the test command of this folder, for the user's own file."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from dragoman.cli.asking import agreed, agreed_to, can_ask
from dragoman.cli.errors import DONE, FAILED
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import load, user_config_file
from dragoman.config.editing import add_rules
from dragoman.policy.rule import PolicyRule
from dragoman.policy.rule_text import rule_table
from dragoman.policy.starter import (
    missing_starter_rules,
    starter_text,
    workspace_test_command,
    workspace_test_rule,
)

__all__ = ["run"]


def run(arguments: Namespace, context: CommandContext) -> int:
    here = Path.cwd()
    command = workspace_test_command(here)
    test = None if command is None else workspace_test_rule(here, command)
    if arguments.print:
        print(starter_text(), end="" if test is None else f"\n{rule_table(test)}")
        return DONE
    file = (context.config_file or user_config_file()).absolute()
    rules = load(file, context.known_agents).policy if file.exists() else ()
    missing = missing_starter_rules(rules)
    if not missing:
        say(f"The starter set is in {file} already.")
    else:
        print(missing, flush=True)
        if not agreed_to(f"Add these rules to {file}?", is_sure=arguments.yes):
            say("Nothing was written.", sys.stderr)
            return FAILED
        add_rules(file, missing)
        say(f"The starter set is in {file}. `dragoman policy check` lists all rules.")
    if test is not None and test not in rules:
        _offer_test(test, file)
    return DONE


def _offer_test(test: PolicyRule, file: Path) -> None:
    """The tests of a workspace run code of the workspace, so this is asked by itself, also after `--yes`."""
    text = rule_table(test)
    if not can_ask():
        say(
            f"To let agents run the tests of this folder without a question, add this to {file}:\n\n{text}",
            end="",
        )
        return
    print(f"\n{text}", flush=True)
    if agreed("Add this rule, too? It runs whatever the files of this folder say."):
        add_rules(file, text)
        say(f"The rule is in {file}.")
