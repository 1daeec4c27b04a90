"""One rule, compared with an action as a whole: kind, agent, workspace, tool, addresses, paths.

`command_conditions` compares each simple command. What an *allow* rule must see for certain and what a *deny* rule must
not miss differ: see `match.Match`.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TypeAlias

from dragoman.permissions.action import Action
from dragoman.permissions.fields import texts_of
from dragoman.permissions.sensitive import Places
from dragoman.permissions.urls import Url, UrlError, UrlPattern
from dragoman.permissions.verdict import MatchedRule
from dragoman.policy.command_conditions import CommandConditions
from dragoman.policy.match import Match
from dragoman.policy.path_patterns import PathPatterns
from dragoman.policy.requested import says_only_paths
from dragoman.policy.rule import ActionKind, LocatedRule, PolicyRule, as_texts
from dragoman.policy.simple_command import SimpleCommand

__all__ = ["RuleMatcher"]

# Compares one condition of a rule with an action.
_Check: TypeAlias = Callable[[Action, Places], Match]
_ADDRESS = re.compile(r"https?://[^\s'\"`<>|;)}\]]+", re.IGNORECASE)
# What agents call an action, and the kind that it counts as.
_CALLED: dict[str, ActionKind] = {
    "read": "read", "search": "read", "edit": "edit", "delete": "delete", "move": "delete", "execute": "execute",
    "fetch": "fetch",
}  # fmt: skip
_OF_FILES: frozenset[ActionKind] = frozenset({"read", "edit", "delete"})
_LONGEST_PATH = 4_096


class RuleMatcher:
    """Compares one rule. Raises `GlobError` or `UrlPatternError` for a rule with a pattern that cannot be used."""

    def __init__(self, located: LocatedRule) -> None:
        rule = located.rule
        self.rule = rule
        self.matched = MatchedRule(rule.decision, located.file, located.line, rule.reason)
        self.is_allow = rule.decision == "allow"
        # Whether it says something about commands, so that it can only be compared with one that is understood.
        self.is_about_commands = rule.command is not None or (rule.paths is not None and not self.is_allow)
        self._command = CommandConditions(rule)
        self._kinds = _kinds(rule)
        self._agents = frozenset(as_texts(rule.agent))
        self._workspaces = tuple(os.path.expanduser(text) for text in as_texts(rule.workspace))  # noqa: PTH111
        self._urls = tuple(map(UrlPattern.parse, rule.urls or ()))
        self._paths = None if rule.paths is None else PathPatterns(rule.paths)
        self._checks = tuple(self._needed())

    @property
    def programs(self) -> frozenset[str]:
        """The programs of which one must be the first word of a command that it allows."""
        return self._command.wanted[0] if self._command.wanted else frozenset()

    def of_action(self, action: Action, places: Places) -> Match:
        """Whether the action as a whole fits. What the rule says about commands is not compared here."""
        result = Match.YES
        for check in self._checks:
            result = min(result, check(action, places))
            if result is Match.NO:
                break
        return result

    def of_command(self, command: SimpleCommand, places: Places) -> Match:
        """Whether the rule's conditions about commands hold for one simple command."""
        compare = self._command.allows if self.is_allow else self._command.restricts
        return compare(command, places)

    def objection(self, command: SimpleCommand, places: Places) -> str | None:
        """Why the rule does not allow a command that begins with its words; None if it begins with others."""
        return self._command.objection(command, places) if self.is_allow else None

    def _needed(self) -> Iterator[_Check]:
        """The comparisons that the rule's conditions need, the quickest first."""
        if self._kinds:
            yield self._allows_kind if self.is_allow else self._restricts_kind
        if self.is_allow != self.rule.sensitive:
            # allow: nothing sensitive. ask and deny: nothing else.
            yield lambda action, _: Match.of((action.sensitive is None) == self.is_allow)
        if self._agents:
            # Without an agent it is not known which one would act.
            yield lambda action, _: Match.of(action.agent in self._agents) if action.agent else Match.MAYBE
        if self._workspaces:
            yield lambda _, places: self._of_workspace(places)
        if (tools := self.rule.tools) is not None:
            yield lambda action, _: self._of_tool(action, tools)
        if self._urls:
            yield (
                lambda action, _: self._allows_urls(action) if self.is_allow else self._restricts_urls(action)
            )
        if (paths := self._paths) is not None:
            yield (
                lambda action, places: (
                    self._allows_paths(action, paths, places)
                    if self.is_allow
                    else Match.YES
                    if _has_command(action)
                    else self.restricts_paths(action, places)
                )
            )

    def _allows_kind(self, action: Action, _places: Places) -> Match:
        return Match.of(not self._kinds.isdisjoint(_certain_kinds(action)))

    def _restricts_kind(self, action: Action, _places: Places) -> Match:
        if not self._kinds.isdisjoint(_possible_kinds(action)):
            return Match.YES
        # A tool of which nothing more is known may read or change the file, or fetch the address, that it names.
        is_about_named = self.rule.paths is not None or self.rule.urls is not None
        return Match.MAYBE if is_about_named and action.risk == "other" else Match.NO

    def _of_workspace(self, places: Places) -> Match:
        if not places.workspace:
            return Match.MAYBE
        roots = [places.resolve(root) for root in self._workspaces]
        inside = [
            any(_is_below(places.resolve(folder), root) for root in roots) for folder in places.workspace
        ]
        return Match.of(all(inside) if self.is_allow else any(inside))

    def _of_tool(self, action: Action, patterns: Iterable[str]) -> Match:
        if action.tool is None:
            # Agents name the tools of MCP servers. What runs a command or changes a file is none of those.
            return Match.MAYBE if action.risk == "other" else Match.NO
        if self.is_allow:
            return Match.of(any(fnmatchcase(action.tool, pattern) for pattern in patterns))
        name = action.tool.casefold()
        return Match.of(any(fnmatchcase(name, pattern.casefold()) for pattern in patterns))

    # --- Addresses. --------------------------------------------------------------------------------------------------

    def _allows_urls(self, action: Action) -> Match:
        return Match.of(action.urls and all(map(self._matches_address, action.urls)))

    def _restricts_urls(self, action: Action) -> Match:
        if any(map(self._may_match_address, action.urls)):
            return Match.YES if all(map(_is_address, action.urls)) else Match.MAYBE
        said = (action.command or "", action.title, *texts_of(action.input), *texts_of(action.extra))
        named = (address for text in said for address in _ADDRESS.findall(text))
        if any(map(self._may_match_address, named)):
            return Match.MAYBE
        is_unknown = action.kind == "fetch" and not action.urls
        return Match.MAYBE if is_unknown else Match.NO

    def _matches_address(self, address: str) -> bool:
        return _is_address(address) and self._may_match_address(address)

    def _may_match_address(self, address: str) -> bool:
        try:
            url = Url.parse(address)
        except UrlError:
            return True
        return any(pattern.matches(url) for pattern in self._urls)

    # --- Paths. ------------------------------------------------------------------------------------------------------

    def _allows_paths(self, action: Action, patterns: PathPatterns, places: Places) -> Match:
        if action.risk == "execute":
            # The paths of a command are its arguments. Without a command, the rule says nothing about what runs.
            return Match.of(self.rule.command is not None)
        if not action.paths or (action.risk != "read" and not says_only_paths(action)):
            return Match.NO
        # Which folder an agent takes a relative path from is not known. Our own tools take it from the workspace.
        is_known = action.kind == "tool" or all(path.startswith(("/", "file:")) for path in action.paths)
        paths = (places.absolute(path, action.folder) for path in action.paths)
        return Match.of(is_known and all(patterns.all_ways_match(path, places) for path in paths))

    def restricts_paths(self, action: Action, places: Places) -> Match:
        """Whether a rule that asks or denies is about a file that the action names."""
        patterns = self._paths
        if patterns is None:
            return Match.NO
        paths = [places.absolute(path, action.folder) for path in action.paths]
        named = max((patterns.of_restricted(path, places) for path in paths), default=Match.NO)
        if named is not Match.NO:
            return named
        if not paths and action.risk in _OF_FILES:
            return Match.MAYBE
        said = (text for text in texts_of(action.input) if len(text) <= _LONGEST_PATH and "\n" not in text)
        is_named = action.risk == "other" and any(
            patterns.a_way_matches(places.absolute(text, action.folder), places) for text in said
        )
        return Match.MAYBE if is_named else Match.NO


def _kinds(rule: PolicyRule) -> frozenset[ActionKind]:
    """The kinds that a rule is about. An allow rule without `kind` is about those that its conditions describe."""
    if rule.kind is not None:
        return frozenset([rule.kind] if isinstance(rule.kind, str) else rule.kind)
    if rule.command is not None:
        # A rule that restricts is compared with every command that an action has.
        return frozenset({"execute"})
    if rule.decision != "allow":
        return frozenset()
    of_tools: frozenset[ActionKind] = frozenset({"tool"} if rule.tools is not None else ())
    if rule.urls is not None:
        return of_tools | {"fetch"}
    return of_tools | _OF_FILES if rule.paths is not None else frozenset()


def _certain_kinds(action: Action) -> frozenset[ActionKind]:
    """The kinds that an action certainly counts as. A tool that is of no other kind counts as *tool*, too."""
    if action.risk == "other" and (action.tool is not None or action.kind == "tool"):
        return frozenset({"other", "tool"})
    return frozenset({action.risk})


def _possible_kinds(action: Action) -> frozenset[ActionKind]:
    """The kinds that a rule which restricts takes an action for: also what the agent calls it, and what it contains."""
    kinds = set(_certain_kinds(action))
    if action.kind in _CALLED:
        kinds.add(_CALLED[action.kind])
    if action.diffs:
        kinds.add("edit")
    if action.urls:
        kinds.add("fetch")
    return frozenset(kinds)


def _has_command(action: Action) -> bool:
    return action.risk == "execute"


def _is_address(text: str) -> bool:
    try:
        Url.parse(text)
    except UrlError:
        return False
    return True


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
