"""All rules of a configuration, applied to an action.

The strictest rule that matches decides. For a command, each simple command in it is judged: one that is denied denies
all, and the whole is allowed if a rule allows each. What is not understood is never allowed by a rule about commands,
and raises a doubt if there is a *deny* or *ask* rule about commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dragoman.lm.json import canonical
from dragoman.permissions.action import Action
from dragoman.permissions.commands import commands_in
from dragoman.permissions.fields import ARGUMENTS, COMMANDS, ENVIRONMENTS, FOLDERS, fields_of, plain_name
from dragoman.permissions.sensitive import Places
from dragoman.permissions.verdict import MatchedRule, RuleDecision, Verdict
from dragoman.policy.match import Match
from dragoman.policy.matching import RuleMatcher
from dragoman.policy.path_patterns import resolving_once
from dragoman.policy.rule import LocatedRule
from dragoman.policy.simple_command import SimpleCommand
from dragoman.policy.words import Word

__all__ = ["JudgedCommand", "Judgement", "Policy", "commands_of"]

# Fields beside a command that change nothing about what runs: words for a person, limits of time, ids.
_HARMLESS = frozenset(
    {
        "availabledecisions", "background", "callid", "description", "explanation", "isbackground", "justification",
        "parsedcmd", "proposedexecpolicyamendment", "reason", "runinbackground", "startedatms", "timeout", "timeoutms",
        "timeoutseconds", "toolcallid", "turnid",
    }
)  # fmt: skip
_KNOWN = _HARMLESS | COMMANDS | frozenset(ARGUMENTS) | frozenset(FOLDERS) | ENVIRONMENTS
_STRICTEST: dict[RuleDecision, int] = {"deny": 0, "ask": 1, "allow": 2}


@dataclass(frozen=True, slots=True)
class JudgedCommand:
    """A simple command, and the rules that match it."""

    command: SimpleCommand
    rules: tuple[MatchedRule, ...]

    @property
    def is_allowed(self) -> bool:
        return self.command.is_wrapper or any(rule.decision == "allow" for rule in self.rules)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and how it came about."""

    verdict: Verdict
    commands: tuple[JudgedCommand, ...] = ()
    # What in the command or its request is not understood.
    unsure: tuple[str, ...] = ()


class Policy:
    """The rules in force. The strictest rule that matches decides; their order does not matter."""

    def __init__(self, rules: Sequence[LocatedRule]) -> None:
        self.rules = tuple(rules)
        self._matchers = tuple(map(RuleMatcher, self.rules))

    def judge(self, action: Action, places: Places) -> Verdict:
        return self.judgement(action, places).verdict

    def judgement(self, action: Action, places: Places) -> Judgement:
        """The verdict on an action, with each simple command."""
        places = resolving_once(places)
        matchers = [(matcher, matcher.of_action(action, places)) for matcher in self._matchers]
        matchers = [(matcher, match) for matcher, match in matchers if match is not Match.NO]
        commands, unsure = (
            commands_of(action)
            if action.risk == "execute" and any(matcher.is_about_commands for matcher, _ in matchers)
            else ((), ())
        )
        found: dict[MatchedRule, None] = {}
        doubts: list[str] = []
        judged = [
            JudgedCommand(command, tuple(self._of_command(command, matchers, places, doubts)))
            for command in commands
        ]
        for each in judged:
            found |= dict.fromkeys(each.rules)
        is_allowed = bool(judged) and not unsure and all(each.is_allowed for each in judged)
        for matcher, match in matchers:
            if matcher.is_about_commands and action.risk == "execute":
                if not matcher.is_allow and (unsure or not commands):
                    doubts.append(f"the rule at {matcher.matched.where} may be about it: {_listed(unsure)}")
            elif match is Match.YES:
                found[matcher.matched] = None
                is_allowed = is_allowed or matcher.is_allow
            elif not matcher.is_allow:
                doubts.append(f"the rule at {matcher.matched.where} may be about it")
        rules = tuple(sorted(found, key=lambda rule: _STRICTEST[rule.decision]))
        verdict = _verdict(rules, doubts, is_allowed=is_allowed)
        if verdict.decision == "allow" and action.sensitive is not None and _names_own(action, places):
            reason = "it names a file of Dragoman itself, which no rule allows"
            verdict = Verdict(None, rules, reason)
        return Judgement(verdict, tuple(judged), unsure)

    def _of_command(
        self,
        command: SimpleCommand,
        matchers: Iterable[tuple[RuleMatcher, Match]],
        places: Places,
        doubts: list[str],
    ) -> Iterator[MatchedRule]:
        program = command.words[0].text if command.words else ""
        for matcher, of_action in matchers:
            if not matcher.is_about_commands:
                continue
            if matcher.is_allow and (command.is_wrapper or program not in matcher.programs):
                continue
            match = min(of_action, matcher.of_command(command, places))
            if match is Match.YES:
                yield matcher.matched
            elif match is Match.MAYBE and not matcher.is_allow:
                doubts.append(f"“{command}” may be what the rule at {matcher.matched.where} is about")


def _verdict(rules: tuple[MatchedRule, ...], doubts: list[str], *, is_allowed: bool) -> Verdict:
    strictest = rules[0].decision if rules else None
    doubt = doubts[0] if doubts else None
    if strictest in ("deny", "ask"):
        return Verdict(strictest, rules, _reason(rules, strictest), doubt)
    if not is_allowed:
        missing = "no rule decides about all of it" if rules else "no rule matches"
        return Verdict(None, rules, doubt or missing, doubt)
    if doubt is not None:
        return Verdict(None, rules, doubt, doubt)
    # A rule that does not cover a sensitive action does not match one.
    return Verdict("allow", rules, _reason(rules, "allow"), covers_sensitive=True)


def _reason(rules: tuple[MatchedRule, ...], decision: RuleDecision) -> str:
    return next((rule.reason for rule in rules if rule.decision == decision and rule.reason), "")


def commands_of(action: Action) -> tuple[tuple[SimpleCommand, ...], tuple[str, ...]]:
    """The simple commands of an action, and what is not understood about them."""
    from dragoman.policy.command_line import CommandLine, read_line, read_vector  # noqa: PLC0415 - loads tree-sitter

    commands: list[SimpleCommand] = []
    unsure: dict[str, None] = {}
    variables, unclear = _environment(action.environment)
    unsure |= dict.fromkeys((*unclear, *_further_fields(action)))
    for given in commands_in(action.input, action.extra):
        line = (
            CommandLine((), ("what its fields mean",))
            if not given.is_clear
            else read_line(given.text, action.folder)
            if given.argv is None
            else read_vector(given.argv, action.folder)
        )
        commands += (
            replace(command, assignments=(*variables, *command.assignments)) for command in line.commands
        )
        unsure |= dict.fromkeys(line.unsure)
    return tuple(commands), tuple(unsure)


def _environment(given: object) -> tuple[tuple[tuple[str, Word], ...], tuple[str, ...]]:
    """The variables that the agent would set, as those of a command."""
    match given:
        case None:
            return (), ()
        case dict():
            return tuple((str(name), Word(str(value))) for name, value in given.items()), ()
        case list() if all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in given):
            return tuple((each["name"], Word(str(each.get("value")))) for each in given), ()
        case _:
            return (), ("the environment that it would run with",)


def _further_fields(action: Action) -> Iterator[str]:
    """What a request says beside its command, and may change what runs."""
    if action.diffs:
        yield "a change of a file beside the command"
    for given in (action.input, action.extra):
        if given is not None and not isinstance(given, dict):
            yield "the form of the request"
            return
        for name, value in (given or {}).items():
            if value is not None and plain_name(name) not in _KNOWN:
                yield f"the field “{name[:40]}” of the request"
    fields = (*fields_of(action.input), *fields_of(action.extra))
    if len({canonical(value) for name, value in fields if name in FOLDERS and value}) > 1:
        yield "which of its folders it would run in"


def _names_own(action: Action, places: Places) -> bool:
    from dragoman.permissions.fields import texts_of  # noqa: PLC0415 - for sensitive actions that a rule allows
    from dragoman.permissions.sensitive import SensitivePathScan  # noqa: PLC0415

    # What is written into a file names nothing; the file is among the paths.
    is_by_paths = action.risk in ("read", "edit", "delete")
    said = () if is_by_paths else (action.command or "", *texts_of(action.input), *texts_of(action.extra))
    texts = (*action.paths, *said)
    return SensitivePathScan(places, action.folder, is_own=True).why(texts) is not None


def _listed(unsure: tuple[str, ...]) -> str:
    return f"not understood: {'; '.join(unsure)}" if unsure else "its command is not known"
