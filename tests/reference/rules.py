"""`docs/reference/rules.md`, from the rules themselves."""

from collections.abc import Iterable

from dragoman.checker.event_rules import EVENT_RULES
from dragoman.lm.rules import RULES, Rule
from reference.markdown import WRITTEN, page, table

__all__ = ["rules"]


def rules() -> str:
    return page(
        "# Rules",
        WRITTEN,
        """What a response may be made of, and what a stream of events may look like. [`dragoman check`](commands.md#dragoman-check) holds a
model or an endpoint against them and prints each with its verdict. *Must* and *should* are the words of where a rule comes
from; a check fails by either.""",
        "## Stream rules",
        """Of any model. The guard enforces them between a back end and whoever asked: a part that breaks one is not passed on, and the
response fails with the id of the rule. What can be put right without inventing anything is: an answer without anything to
see gets a line that says so (S9), and thinking, data and links are told as the consumer can take them (S10, S11, S13).""",
        _table(RULES.values()),
        "## Rules for events",
        "Of an Open Responses endpoint: what it writes, event by event, when it streams.",
        _table(EVENT_RULES.values()),
    )


def _table(found: Iterable[Rule]) -> str:
    return table(
        ("id", "rule", "", "in a sentence", "from"),
        ((rule.id, rule.title, rule.level, rule.sentence, rule.source) for rule in found),
    )
