"""One rule, compared with an action and with each simple command in it.

`RuleMatcher.of_action` compares what concerns the action as a whole: kind, agent, workspace, tool, addresses, paths.
`of_command` compares one simple command. What an *allow* rule must see for certain and what a *deny* rule must not miss
differ: see `match.Match`.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from dragoman.permissions.urls import Url, UrlError, UrlPattern
from dragoman.permissions.verdict import MatchedRule
from dragoman.policy.git_folders import is_git, is_repository_of_files
from dragoman.policy.match import Match
from dragoman.policy.options import ListedOptions, has_forbidden, is_option
from dragoman.policy.path_patterns import PathPatterns
from dragoman.policy.rule import ActionKind, LocatedRule, as_texts
from dragoman.policy.simple_command import SimpleCommand
from dragoman.policy.words import Word

__all__ = ["RUNNERS", "RuleMatcher", "kinds_of"]

# Programs that run other programs or code which their arguments name, beyond those that `wrappers` sees through.
RUNNERS = frozenset(
    {
        "ansible", "ash", "awk", "bash", "bun", "bunx", "busybox", "chroot", "csh", "dash", "deno", "docker", "doas", "env",
        "eval", "exec", "expect", "find", "fish", "flock", "gawk", "gdb", "ionice", "kubectl", "ksh", "lua", "mawk", "nice",
        "node", "nohup", "npx", "nsenter", "parallel", "perl", "php", "pipx", "pnpx", "podman", "powershell", "pwsh",
        "python", "python2", "python3", "rsync", "ruby", "screen", "script", "sed", "setsid", "sh", "source", "ssh", "stdbuf",
        "strace", "su", "sudo", "systemd-run", "tar", "taskset", "tcsh", "time", "timeout", "tmux", "unshare", "uvx", "vi",
        "vim", "watch", "xargs", "zsh",
    }
)  # fmt: skip
# Compares one condition of a rule with an action.
_Condition: TypeAlias = Callable[[Action, Places], Match]
_BETWEEN_TOKENS = re.compile(r"[\s;|&()<>'\"`$={},]+")


@dataclass(frozen=True, slots=True)
class _Conditions:
    """The conditions of a rule in a form that is quick to compare."""

    kinds: frozenset[ActionKind]
    agents: frozenset[str]
    workspaces: tuple[str, ...]
    command: tuple[frozenset[str], ...]
    paths: PathPatterns | None
    redirects: PathPatterns | None
    urls: tuple[UrlPattern, ...]
    options: ListedOptions | None


class RuleMatcher:
    """Compares one rule. Raises `GlobError` or `UrlPatternError` for a rule with a pattern that cannot be used."""

    def __init__(self, located: LocatedRule) -> None:
        rule = located.rule
        self.rule = rule
        self.matched = MatchedRule(rule.decision, located.file, located.line, rule.reason)
        self.is_allow = rule.decision == "allow"
        # Whether it says something about commands, so that it can only be compared with one that is understood.
        self.is_about_commands = rule.command is not None or (rule.paths is not None and not self.is_allow)
        self._is = _Conditions(
            frozenset([rule.kind] if isinstance(rule.kind, str) else rule.kind or ()),
            frozenset(as_texts(rule.agent)),
            tuple(os.path.expanduser(text) for text in as_texts(rule.workspace)),  # noqa: PTH111 - never fails
            tuple(frozenset(as_texts(word)) for word in rule.command or ()),
            None if rule.paths is None else PathPatterns(rule.paths),
            None if rule.redirects is None else PathPatterns(rule.redirects),
            tuple(map(UrlPattern.parse, rule.urls or ())),
            None if rule.options is None else ListedOptions(rule.options),
        )
        self._conditions = tuple(self._needed())

    @property
    def programs(self) -> frozenset[str]:
        """The programs of which one must be the first word of a command that it allows."""
        return self._is.command[0] if self._is.command else frozenset()

    # --- The action. -------------------------------------------------------------------------------------------------

    def of_action(self, action: Action, places: Places) -> Match:
        """Whether the action as a whole fits. What the rule says about commands is not compared here."""
        result = Match.YES
        for condition in self._conditions:
            result = min(result, condition(action, places))
            if result is Match.NO:
                break
        return result

    def _needed(self) -> Iterator[_Condition]:
        """The comparisons that the rule's conditions need, the quickest first."""
        rule, wanted = self.rule, self._is
        if rule.command is not None:
            yield lambda action, _: Match.of(action.risk == "execute")
        if wanted.kinds:
            yield lambda action, _: Match.of(not wanted.kinds.isdisjoint(kinds_of(action)))
        if self.is_allow != rule.sensitive:
            # allow: nothing sensitive. ask and deny: nothing else.
            yield lambda action, _: Match.of((action.sensitive is None) == self.is_allow)
        if wanted.agents:
            # Without an agent it is not known which one would act.
            yield lambda action, _: Match.of(action.agent in wanted.agents) if action.agent else Match.MAYBE
        if wanted.workspaces:
            yield lambda _, places: self._of_workspace(places)
        if (tools := rule.tools) is not None:
            yield lambda action, _: self._of_tool(action, tools)
        if wanted.urls:
            yield lambda action, _: self._of_urls(action)
        if (paths := wanted.paths) is not None:
            yield lambda action, places: self._of_paths(action, paths, places)

    def _of_workspace(self, places: Places) -> Match:
        if not places.workspace:
            return Match.MAYBE
        roots = [places.resolve(root) for root in self._is.workspaces]
        inside = [
            any(_is_below(places.resolve(folder), root) for root in roots) for folder in places.workspace
        ]
        return Match.of(all(inside) if self.is_allow else any(inside))

    def _of_tool(self, action: Action, patterns: Iterable[str]) -> Match:
        if action.tool is None:
            return Match.MAYBE
        if self.is_allow:
            return Match.of(any(fnmatchcase(action.tool, pattern) for pattern in patterns))
        name = action.tool.casefold()
        return Match.of(any(fnmatchcase(name, pattern.casefold()) for pattern in patterns))

    def _of_urls(self, action: Action) -> Match:
        if not action.urls:
            return Match.MAYBE if action.risk == "fetch" else Match.NO
        try:
            urls = [Url.parse(text) for text in action.urls]
        except UrlError:
            return Match.MAYBE
        found = [any(pattern.matches(url) for pattern in self._is.urls) for url in urls]
        return Match.of(all(found) if self.is_allow else any(found))

    def _of_paths(self, action: Action, patterns: PathPatterns, places: Places) -> Match:
        if action.risk == "execute":
            # The paths of a command are its arguments. Without a command, an allow rule says nothing about what runs.
            return Match.of(self.rule.command is not None or not self.is_allow)
        if not action.paths:
            return Match.NO if action.risk == "fetch" else Match.MAYBE
        paths = [places.absolute(path, action.folder) for path in action.paths]
        if not self.is_allow:
            return Match.of(any(patterns.a_way_matches(path, places) for path in paths))
        # Which folder an agent takes a relative path from is not known. Our own tools take it from the workspace.
        is_known = action.kind == "tool" or all(path.startswith(("/", "file:")) for path in action.paths)
        return Match.of(is_known and all(patterns.all_ways_match(path, places) for path in paths))

    # --- A simple command. -------------------------------------------------------------------------------------------

    def of_command(self, command: SimpleCommand, places: Places) -> Match:
        """Whether the rule's conditions about commands hold for one simple command."""
        if self.is_allow:
            match = self._allows_words(command)
            return match if match is Match.NO else min(match, self._allows_around(command, places))
        result = self._restricts_words(command) if self._is.command else Match.YES
        if result is not Match.NO and self._is.paths is not None:
            if command.is_wrapper:
                # The command that it runs has its arguments and redirects.
                return Match.NO
            result = min(result, self._restricts_paths(command, self._is.paths, places))
        return result

    def _allows_words(self, command: SimpleCommand) -> Match:
        words, wanted = command.words, self._is.command
        begins = len(words) >= len(wanted) and all(
            word.is_exact and word.text in alternatives
            for word, alternatives in zip(words, wanted, strict=False)
        )
        return self._of_arguments(words[len(wanted) :], has_more=command.has_more) if begins else Match.NO

    def _of_arguments(self, words: tuple[Word, ...], *, has_more: bool) -> Match:
        """Whether what stands behind the rule's own words is as the rule wants it."""
        rule = self.rule
        result = Match.YES
        is_behind_options = False
        for before, word in zip((Word(""), *words), words, strict=False):
            if not _is_known(word) or (self._forbids_operands and not word.is_exact):
                result = min(result, self._of_computed(is_behind_options=is_behind_options))
                continue
            if word == Word("--") and not is_option(before.text):
                # Behind an option it may be the value of that.
                is_behind_options = True
            if not self._may_follow(word.text):
                return Match.NO
            if rule.without is not None:
                result = min(result, Match(Match.YES - has_forbidden(word.text, rule.without)))
        if has_more:
            result = min(result, self._of_computed(is_behind_options=is_behind_options))
        return result

    def _may_follow(self, argument: str) -> bool:
        if is_option(argument) and self._is.options is not None:
            return argument in self._is.options
        return self.rule.args == "any"

    def _of_computed(self, *, is_behind_options: bool) -> Match:
        """An argument that the shell or xargs computes. It may become an option, unless `--` stands before it."""
        names_options = self.rule.options is not None or self.rule.without is not None
        is_named = self.rule.args == "any" and (self.rule.expands or not self.is_allow)
        is_free = is_behind_options and not self._forbids_operands
        return Match.YES if is_named and (is_free or not names_options) else Match.MAYBE

    @property
    def _forbids_operands(self) -> bool:
        """Whether `without` has more than options. Then what the shell computes may be one of those."""
        return not all(map(is_option, self.rule.without or ()))

    def _allows_around(self, command: SimpleCommand, places: Places) -> Match:
        """Variables, redirects, folder and paths of a command that an allow rule names."""
        rule, paths, redirects = self.rule, self._is.paths, self._is.redirects
        is_named = all(name in (rule.variables or ()) for name, _ in command.assignments) and all(
            redirects is not None and _all_match(redirects, redirect.path, command, places)
            for redirect in command.redirects
        )
        # A command that runs elsewhere is as sensitive as one that an agent starts elsewhere.
        is_here = rule.sensitive or (
            command.folders is not None
            and all(_is_here(command, _folder(folder, places), places) for folder in command.folders)
        )
        is_inside = paths is None or (
            not command.has_more
            and all(
                _all_match(paths, candidate, command, places)
                for word in command.words[len(self._is.command) :]
                for candidate in _path_candidates(word)
            )
        )
        return Match.of(is_named and is_here and is_inside)

    def _restricts_words(self, command: SimpleCommand) -> Match:
        words, wanted = command.words, self._is.command
        if not words:
            return Match.NO
        for place, alternatives in enumerate(wanted):
            if place >= len(words):
                return Match.MAYBE if command.has_more else Match.NO
            word = words[place]
            if not word.is_exact and word.kind != "home":
                return Match.MAYBE
            if not (_is_program(word.text, alternatives) if place == 0 else word.text in alternatives):
                is_behind_options = (
                    place > 0 and is_option(word.text) and _in_order(words[place:], wanted[place:])
                )
                return Match.MAYBE if is_behind_options else self._may_run_it(command)
        return self._of_arguments(words[len(wanted) :], has_more=command.has_more)

    def _may_run_it(self, command: SimpleCommand) -> Match:
        """Whether the rule's command stands among the arguments of another, which may run it."""
        if command.is_wrapper:
            # What it runs is compared by itself.
            return Match.NO
        arguments = command.words[1:]
        program = os.path.basename(command.words[0].text).casefold()  # noqa: PTH119 - of any text
        if program in RUNNERS:
            tokens = [
                Word(token) for word in arguments for token in _BETWEEN_TOKENS.split(word.text) if token
            ]
            arguments = (*arguments, *tokens)
        first, *rest = self._is.command
        for place, word in enumerate(arguments):
            if _is_program(word.text, first) and _in_order(arguments[place + 1 :], tuple(rest)):
                return Match.MAYBE
        return Match.NO

    def _restricts_paths(self, command: SimpleCommand, patterns: PathPatterns, places: Places) -> Match:
        program = [word for word in command.words[:1] if "/" in word.text or word.kind == "home"]
        redirected = [redirect.path for redirect in command.redirects]
        candidates = [
            candidate
            for word in (*program, *command.words[1:], *redirected)
            for candidate in _path_candidates(word)
        ]
        for word in candidates:
            if word.kind in ("exact", "home") and _some_match(patterns, word, command, places):
                return Match.YES
        is_known = not command.has_more and command.folders is not None
        is_computed = any(word.kind in ("glob", "unknown") for word in candidates)
        return Match.NO if is_known and not is_computed else Match.MAYBE


def kinds_of(action: Action) -> frozenset[ActionKind]:
    """The kinds that an action counts as: a tool that is of no other kind counts as *tool*, too."""
    if action.risk == "other" and (action.tool is not None or action.kind == "tool"):
        return frozenset({"other", "tool"})
    return frozenset({action.risk})


def _is_here(command: SimpleCommand, folder: str, places: Places) -> bool:
    """Whether a command that runs in this folder is one of the workspace, with the settings of the user."""
    if not places.is_inside(folder):
        return False
    return not is_git(command.words[0].text) or not is_repository_of_files(folder, places)


def _is_known(word: Word) -> bool:
    """Whether a word is one argument or several that cannot be options: names of files that begin with other letters."""
    return word.kind in ("exact", "home") or (word.kind == "glob" and word.text[:1] not in "*?[-")


def _is_program(text: str, names: frozenset[str]) -> bool:
    """Whether a word of a command line starts one of these programs: by its path, too, and in any case."""
    given = text.casefold()
    base = os.path.basename(given)  # noqa: PTH119 - of any text
    return any(given == name.casefold() or base == name.casefold() for name in names)


def _in_order(words: Iterable[Word], wanted: tuple[frozenset[str], ...]) -> bool:
    """Whether these words occur one after the other, with others between them. What is not known may be any of them."""
    left = list(wanted)
    for word in words:
        if left and (word.text in left[0] or word.kind in ("glob", "unknown")):
            del left[0]
    return not left


def _path_candidates(word: Word) -> Iterator[Word]:
    """What a program may take for a path in an argument: the whole, the value of an option, the end of a cluster."""
    if not is_option(word.text) or not word.is_exact:
        yield word
        return
    _, equals, value = word.text.partition("=")
    if equals:
        yield Word(value, word.kind)
    if not word.text.startswith("--"):
        yield from (Word(word.text[place:], word.kind) for place in range(2, len(word.text)))


def _absolute(word: Word, folder: str, places: Places) -> str:
    if word.kind == "home":
        return places.absolute(word.text, folder)
    return os.path.join(_folder(folder, places), word.text)  # noqa: PTH118 - `..` stays


def _folder(folder: str, places: Places) -> str:
    """A folder that a command may run in. After `cd ~/x` it begins with the home."""
    return folder if folder.startswith("/") else places.absolute(folder, "/")


def _all_match(patterns: PathPatterns, word: Word, command: SimpleCommand, places: Places) -> bool:
    """Whether a word leads to paths that match, wherever the command runs."""
    if word.kind not in ("exact", "home") or command.folders is None:
        return False
    return all(patterns.all_ways_match(_absolute(word, folder, places), places) for folder in command.folders)


def _some_match(patterns: PathPatterns, word: Word, command: SimpleCommand, places: Places) -> bool:
    folders = command.folders or places.workspace
    return any(patterns.a_way_matches(_absolute(word, folder, places), places) for folder in folders)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
