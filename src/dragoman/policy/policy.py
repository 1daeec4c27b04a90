"""All rules of a configuration, applied to an action.

The strictest rule that matches decides. For a command, each simple command in it is judged: one that is denied denies
all, and the whole is allowed if a rule allows each. What is not understood is never allowed by a rule about commands,
and raises a doubt if there is a *deny* or *ask* rule about commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dragoman.permissions.action import Action
from dragoman.permissions.fields import texts_of
from dragoman.permissions.sensitive import Places, SensitivePathScan
from dragoman.permissions.verdict import MatchedRule, RuleDecision, Verdict
from dragoman.policy.arguments import path_of, path_words
from dragoman.policy.match import Match
from dragoman.policy.matching import RuleMatcher
from dragoman.policy.path_patterns import resolving_once
from dragoman.policy.requested import commands_of
from dragoman.policy.rule import LocatedRule
from dragoman.policy.simple_command import SimpleCommand

__all__ = ["JudgedCommand", "Judgement", "Policy", "commands_of"]

_STRICTEST: dict[RuleDecision, int] = {"deny": 0, "ask": 1, "allow": 2}


@dataclass(frozen=True, slots=True)
class JudgedCommand:
    """A simple command, and the rules that match it."""

    command: SimpleCommand
    rules: tuple[MatchedRule, ...]
    # Why rules that begin with the same words do not allow it.
    objections: tuple[tuple[MatchedRule, str], ...] = ()

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

    def judgement(self, action: Action, places: Places, *, explains: bool = False) -> Judgement:
        """The verdict on an action, with each simple command. `explains`: and why rules do not allow it."""
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
            JudgedCommand(
                command,
                tuple(self._of_command(command, matchers, places, doubts)),
                _objections(command, matchers, places) if explains else (),
            )
            for command in commands
        ]
        for each in judged:
            found |= dict.fromkeys(each.rules)
        is_allowed = bool(judged) and not unsure and all(each.is_allowed for each in judged)
        for matcher, match in matchers:
            if matcher.is_about_commands and action.risk == "execute":
                if matcher.is_allow:
                    continue
                if match is Match.YES and matcher.restricts_paths(action, places) is Match.YES:
                    found[matcher.matched] = None
                elif unsure or not commands:
                    doubts.append(f"the rule at {matcher.matched.where} may be about it: {_listed(unsure)}")
            elif match is Match.YES:
                found[matcher.matched] = None
                is_allowed = is_allowed or matcher.is_allow
            elif not matcher.is_allow:
                doubts.append(f"the rule at {matcher.matched.where} may be about it")
        rules = tuple(sorted(found, key=lambda rule: _STRICTEST[rule.decision]))
        verdict = _verdict(rules, doubts, unsure, is_allowed=is_allowed)
        if verdict.decision == "allow" and _names_own(action, places, is_wide=self._is_sensitive(rules)):
            reason = "it names a file of Dragoman itself, which no rule allows"
            verdict = Verdict(None, rules, reason)
        return Judgement(verdict, tuple(judged), unsure)

    def _is_sensitive(self, matched: tuple[MatchedRule, ...]) -> bool:
        """Whether one of the rules that allow covers sensitive actions."""
        return any(
            each.rule.sensitive for each in self._matchers if each.is_allow and each.matched in matched
        )

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


def _objections(
    command: SimpleCommand, matchers: Iterable[tuple[RuleMatcher, Match]], places: Places
) -> tuple[tuple[MatchedRule, str], ...]:
    found = ((matcher.matched, matcher.objection(command, places)) for matcher, _ in matchers)
    return tuple((rule, why) for rule, why in found if why is not None)


def _verdict(
    rules: tuple[MatchedRule, ...], doubts: list[str], unsure: tuple[str, ...], *, is_allowed: bool
) -> Verdict:
    strictest = rules[0].decision if rules else None
    doubt = doubts[0] if doubts else None
    if strictest in ("deny", "ask"):
        return Verdict(strictest, rules, _reason(rules, strictest), doubt)
    if not is_allowed:
        missing = "no rule decides about all of it" if rules else "no rule matches"
        missing = f"{missing}; {_listed(unsure)}" if unsure else missing
        return Verdict(None, rules, doubt or missing, doubt)
    if doubt is not None:
        return Verdict(None, rules, doubt, doubt)
    # A rule that does not cover a sensitive action does not match one.
    return Verdict("allow", rules, _reason(rules, "allow"), covers_sensitive=True)


def _reason(rules: tuple[MatchedRule, ...], decision: RuleDecision) -> str:
    return next((rule.reason for rule in rules if rule.decision == decision and rule.reason), "")


def _names_own(action: Action, places: Places, *, is_wide: bool) -> bool:
    """Whether an action names a file of Dragoman; `is_wide`: or a folder above one."""
    if not places.own or (action.sensitive is None and not is_wide):
        return False
    named = [places.absolute(path, action.folder) for path in action.paths if path != action.folder]
    said: tuple[str, ...] = ()
    # What is written into a file names nothing; the file is among the paths.
    if action.risk not in ("read", "edit", "delete"):
        said = (action.command or "", *texts_of(action.input), *texts_of(action.extra))
    if action.command is not None:
        named += _paths_in_commands(action, places)
    is_above = is_wide and any(places.has_own_below(path) for path in named)
    return (
        is_above
        or SensitivePathScan(places, action.folder, is_own=True).why((*action.paths, *said)) is not None
    )


def _paths_in_commands(action: Action, places: Places) -> Iterator[str]:
    for command in commands_of(action)[0]:
        words = (*command.words, *(redirect.path for redirect in command.redirects))
        for word in (each for given in words for each in path_words(given)):
            if word.text and word.kind in ("exact", "home"):
                yield from (path_of(word, folder, places) for folder in command.folders or (action.folder,))


def _listed(unsure: tuple[str, ...]) -> str:
    return f"not understood: {'; '.join(unsure)}" if unsure else "its command is not known"
