"""What was seen of a model's answers, and the verdict on each rule that follows from it.

A rule that was broken once has failed. One that might have been broken and was not has passed. One that there was no
occasion to break is *not exercised*, which is not the same as passed: a model that made no call shows nothing about the
ids of its calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dragoman.lm.model import ModelInfo
from dragoman.lm.rules import RULES, Rule, Violation
from dragoman.visible import visible_line

__all__ = ["CheckRecord", "CheckReport", "RuleFinding", "RuleVerdict", "VerdictRow", "render"]

RuleVerdict: TypeAlias = Literal["pass", "fail", "not exercised"]

# What gives an occasion to break a rule, and what to say when there was none.
_OCCASIONS: dict[str, tuple[str, str]] = {
    "S1": ("part", "nothing was reported"),
    "S2": ("part", "nothing was reported"),
    "S3": ("part", "nothing was reported"),
    "S4.unique": ("further call", "fewer than two calls were made"),
    "S4.legal": ("call", "no call was made"),
    "S4.namespaced": ("call", "no call was made"),
    "S5": ("call", "no call was made"),
    "S6": ("cancellation", "every answer was complete before it could be cancelled"),
    "S7": ("call", "no call was made"),
    "S8": ("failure", "nothing failed"),
    "S9": ("answer", "nothing was answered"),
    "S10": ("thought", "the model did not think"),
    "S11": ("data part", "no data was reported"),
    "S12": ("rule", "speaks of this table, not of a model"),
    "S13": ("text", "no text was reported"),
    "S14": ("activity or plan part", "no activity and no plan was reported"),
    "S15": ("finished step", "no activity was finished"),
    "S16": ("usage part", "no usage was reported"),
    "T14": ("required call", "no call was required: the model decides for itself, or did not answer"),
}
# Enough to recognise a part by; a whole image would only fill the screen.
_PART_SHOWN = 160


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A rule that was broken, and the probe it was broken in."""

    violation: Violation
    probe: str


@dataclass(frozen=True, slots=True)
class VerdictRow:
    rule: Rule
    verdict: RuleVerdict
    detail: str
    finding: RuleFinding | None = None


class CheckRecord:
    """The observations of all probes, and the verdict on each of the `rules`."""

    def __init__(
        self, rules: Mapping[str, Rule] = RULES, occasions: Mapping[str, tuple[str, str]] = _OCCASIONS
    ) -> None:
        """`occasions` has for each rule when it can be broken, and what to say if it was not exercised."""
        self._rules = rules
        self._occasions = occasions
        self.findings: list[RuleFinding] = []
        # How often each rule might have been broken and was not.
        self._passed: Counter[str] = Counter()
        # Of all answers together: an id must not come again later either.
        self.call_ids: set[str] = set()

    def passed(self, *rules: str) -> None:
        self._passed.update(rules)

    def breaks(self, rule: str, detail: str, probe: str, part: object = None) -> None:
        self.findings.append(RuleFinding(Violation(self._rules[rule], detail, part), probe))

    def rows(self) -> tuple[VerdictRow, ...]:
        return tuple(map(self._row, self._rules.values()))

    def _row(self, rule: Rule) -> VerdictRow:
        findings = [finding for finding in self.findings if finding.violation.rule is rule]
        occasion, without = self._occasions[rule.id]
        count = self._passed[rule.id]
        if findings:
            more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
            return VerdictRow(rule, "fail", f"{findings[0].violation.detail}{more}", findings[0])
        if count:
            return VerdictRow(rule, "pass", f"{count} {occasion}{'s' if count > 1 else ''}")
        return VerdictRow(rule, "not exercised", without)


@dataclass(frozen=True, slots=True)
class CheckReport:
    model: ModelInfo
    rows: tuple[VerdictRow, ...]
    # Probes that got no answer, and why. A model need not be able to answer all of them.
    unanswered: tuple[tuple[str, str], ...] = ()
    # Why nothing can be said of the model, whatever the rows say: it never answered, or never ended.
    inconclusive: str | None = None
    # What the model was held against.
    against: str = "the stream rules"

    @property
    def passed(self) -> bool:
        """No rule was broken, and there were answers to see it by. Rules not exercised do not count against it."""
        return self.inconclusive is None and all(row.verdict != "fail" for row in self.rows)


def render(report: CheckReport) -> str:
    """The report as a plain table."""
    lines = [f"{visible_line(report.model.name)} ({visible_line(report.model.id)}) and {report.against}", ""]
    ids = max(len(row.rule.id) for row in report.rows)
    titles = max(len(row.rule.title) for row in report.rows)
    verdicts = len("not exercised")
    for row in report.rows:
        verdict = "FAIL" if row.verdict == "fail" else row.verdict
        lines.append(
            f"{row.rule.id:<{ids}}  {row.rule.title:<{titles}}  {verdict:<{verdicts}}  {visible_line(row.detail)}"
        )
        if row.finding is not None:
            margin = " " * (ids + titles + verdicts + 6)
            lines.append(f"{margin}in the probe “{row.finding.probe}”")
            if row.finding.violation.part is not None:
                lines.append(f"{margin}{_shown(row.finding.violation.part)}")
    lines += ["", _summary(report)]
    if report.unanswered:
        lines += ["", "Without an answer:", *_grouped(report.unanswered)]
    return "\n".join(lines)


def _summary(report: CheckReport) -> str:
    counts = Counter(row.verdict for row in report.rows)
    if report.inconclusive is not None:
        # What passed is no praise for a model that was not seen to answer.
        return (
            f"{counts['fail']} failed. This says little about the model: {visible_line(report.inconclusive)}."
        )
    return f"{counts['pass']} passed, {counts['fail']} failed, {counts['not exercised']} not exercised."


def _grouped(unanswered: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """The findings, grouped by detail: most repeat each other."""
    probes: dict[str, list[str]] = {}
    for probe, why in unanswered:
        probes.setdefault(why, []).append(probe)
    for why, names in probes.items():
        yield f"  {', '.join(names)}: {visible_line(why)}"


def _shown(part: object) -> str:
    text = visible_line(repr(part))
    return text if len(text) <= _PART_SHOWN else f"{text[:_PART_SHOWN]}…"
