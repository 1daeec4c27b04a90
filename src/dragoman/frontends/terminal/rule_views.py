"""What `/policy` shows: the rules in force, and what they say of a command."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from dragoman.frontends.terminal.layout import column, note, place, stacked
from dragoman.frontends.terminal.session import ChatSession
from dragoman.logs import one_line
from dragoman.permissions.verdict import RuleDecision
from dragoman.policy.rule import LocatedRule
from dragoman.visible import visible_line

__all__ = ["explained_command", "rule_list"]

_DIM = Style(dim=True)
_STYLES: dict[RuleDecision, Style] = {
    "allow": Style(color="green"),
    "ask": Style(color="yellow"),
    "deny": Style(color="red"),
}


def rule_list(rules: Sequence[LocatedRule]) -> RenderableType:
    """Every rule in words, with its file and line."""
    from dragoman.policy.rule_text import in_words  # noqa: PLC0415 - for those who have rules

    if not rules:
        return note("○", "There are no rules. `dragoman policy init` offers a first set.")
    table = Table.grid(padding=(0, 2, 0, 0))
    for each in rules:
        decision = each.rule.decision
        words = Text(visible_line(in_words(each.rule).removeprefix(f"{decision} ")), overflow="fold")
        words.append(f"\n{visible_line(place(each.file))}:{each.line}", _DIM)
        table.add_row(Text(decision, _STYLES[decision]), words)
    return column(table)


def explained_command(session: ChatSession, line: str) -> RenderableType:
    """What would happen to this command here, and why: the text of `dragoman policy explain`."""
    from dragoman.policy.action_text import action_from_text  # noqa: PLC0415
    from dragoman.policy.explanation import explain  # noqa: PLC0415 - the analysis of commands
    from dragoman.policy.policy import Policy  # noqa: PLC0415

    places = session.permissions.places(tuple(map(str, session.workspace)))
    action = action_from_text("command", line, places, agent=session.model_name)
    explanation = explain(action, places, Policy(session.rules), session.permissions.settings)
    return column(stacked(map(_line, explanation.lines()), loose=False))


def _line(text: str) -> RenderableType:
    # As the command prints it: spaces and line breaks matter in a command.
    line = Text(one_line(text.lstrip()), overflow="fold")
    return column(line) if text.startswith(" ") else line
