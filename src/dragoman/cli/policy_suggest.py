"""`dragoman policy suggest`: rules for what people have allowed again and again."""

from __future__ import annotations

from argparse import Namespace

from dragoman.cli.asking import agreed, can_ask
from dragoman.cli.decision_history import recorded_decisions
from dragoman.cli.errors import DONE
from dragoman.cli.layout import say
from dragoman.cli.policy_dry_run import judge_in_workspace
from dragoman.cli.run import CommandContext
from dragoman.config import rules_of, user_config_file
from dragoman.config.editing import add_rules
from dragoman.models import own_places
from dragoman.policy.policy import Policy
from dragoman.policy.suggest import suggestions

__all__ = ["run"]


def run(arguments: Namespace, context: CommandContext) -> int:
    config = context.config()
    rules = rules_of(config)
    own = own_places(config, context.state_dir)
    decisions = recorded_decisions(context, arguments.since)
    found = suggestions(decisions, judge_in_workspace(config, context, Policy(rules)), rules, own)
    if not found:
        say("There is nothing to suggest: no rule would have saved three questions or more.")
        return DONE
    file = (context.config_file or user_config_file()).absolute()
    for each in found:
        say(f"# {each.saved} questions saved: {each.offer.words}")
        print(each.offer.toml, flush=True)
        if can_ask() and agreed(f"Add this to {file}?"):
            add_rules(file, each.offer.toml)
            say(f"The rule is in {file}.")
    if not can_ask():
        say("Nothing was written: there is no terminal to ask at.")
    return DONE
