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
        """What a response may be made of, and what a stream of events may look like. [`dragoman check`](commands.md#dragoman-check)
checks a model or an endpoint against them and prints the verdict for each. *Must* and *should* are the words of the
rule's source; breaking either fails the check.""",
        "## Stream rules",
        """These hold for every model. The guard enforces them between a back end and the consumer: it drops a part that breaks a rule, and
the response fails with the id of the rule. The guard repairs what it can without inventing anything: an empty answer gets
a line that says so (S9), and thinking, data and links go out in a form that the consumer takes (S10, S11, S13).""",
        _table(RULES.values()),
        "## Rules for events",
        "These hold for what an Open Responses endpoint streams, event by event.",
        _table(EVENT_RULES.values()),
    )


def _table(found: Iterable[Rule]) -> str:
    return table(
        ("id", "rule", "", "in a sentence", "from"),
        ((rule.id, rule.title, rule.level, rule.sentence, rule.source) for rule in found),
    )
