"""`dragoman policy check`: all rules in force, and what to be careful about in them."""

from __future__ import annotations

from argparse import Namespace

from dragoman.cli.errors import DONE
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.config import rules_of
from dragoman.logs import one_line
from dragoman.policy.cautions import cautions
from dragoman.policy.rule_text import in_words

__all__ = ["run"]


def run(arguments: Namespace, context: CommandContext) -> int:
    del arguments
    config = context.config()
    rules = rules_of(config)
    if not rules:
        say("There are no rules. `dragoman policy init` offers a first set.")
    for each in rules:
        say(one_line(f"{each.file}:{each.line}: {in_words(each.rule)}"))
    for rule, text in cautions(rules, (*config.models, *config.untrusted)):
        say(one_line(f"caution: {rule.file}:{rule.line}: {text}"))
    return DONE
