"""The conditions of a rule that are about a simple command.

`allows` says YES only if all of the command is certain. `restricts` is for rules that ask or deny: it says MAYBE wherever
the command may be the one that the rule is about.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.permissions.sensitive import Places
from dragoman.policy.arguments import (
    folder_path,
    is_program,
    path_of,
    path_words,
    runs_arguments,
    runs_files_of_folder,
    tokens_of,
)
from dragoman.policy.git_folders import takes_files_for_repository
from dragoman.policy.match import Match
from dragoman.policy.options import ListedOptions, has_forbidden, is_option
from dragoman.policy.path_patterns import PathPatterns
from dragoman.policy.rule import PolicyRule, as_texts
from dragoman.policy.simple_command import SimpleCommand
from dragoman.policy.words import Word

__all__ = ["CommandConditions"]

_END_OF_OPTIONS = Word("--")
# Links to files of the process that looks at them.
_OF_PROCESSES = ("/proc/", "/dev/fd/")
# A dash and a letter.
_SHORT = 2


class CommandConditions:
    """Raises `GlobError` for a rule with a glob that cannot be used."""

    def __init__(self, rule: PolicyRule) -> None:
        self._rule = rule
        self._is_allow = rule.decision == "allow"
        self.wanted = tuple(frozenset(as_texts(word)) for word in rule.command or ())
        self._paths = None if rule.paths is None else PathPatterns(rule.paths)
        self._redirects = None if rule.redirects is None else PathPatterns(rule.redirects)
        self._options = None if rule.options is None else ListedOptions(rule.options)
        # Whether `without` has more than options. Then what the shell computes may be one of those.
        self._forbids_operands = not all(map(is_option, rule.without or ()))

    # --- Arguments. --------------------------------------------------------------------------------------------------

    def _of_arguments(self, words: Sequence[Word], *, has_more: bool) -> Match:
        """Whether what stands behind the rule's own words is as the rule wants it."""
        without = self._rule.without
        result = Match.YES
        is_behind_options = False
        for before, word in zip((Word(""), *words), words, strict=False):
            if not _cannot_become_option(word) or (self._forbids_operands and not word.is_exact):
                result = min(result, self._of_computed(is_behind_options=is_behind_options))
                continue
            if word == _END_OF_OPTIONS and not is_option(before.text):
                # Behind an option it may be the value of that.
                is_behind_options = True
            if not self._may_follow(word.text):
                return Match.NO
            if without is not None:
                forbidden = has_forbidden(word.text, without)
                if is_behind_options and not self._is_allow:
                    # There it may be a file that is called so.
                    forbidden = min(forbidden, Match.MAYBE)
                result = min(result, forbidden.negated)
        if has_more:
            result = min(result, self._of_computed(is_behind_options=is_behind_options))
        return result

    def _may_follow(self, argument: str) -> bool:
        if is_option(argument) and self._options is not None:
            return argument in self._options
        return self._rule.args == "any"

    def _of_computed(self, *, is_behind_options: bool) -> Match:
        """An argument that the shell or xargs computes. It may become an option, unless `--` stands before it."""
        rule = self._rule
        names_options = rule.options is not None or rule.without is not None
        is_named = rule.args == "any" and (rule.expands or not self._is_allow)
        is_free = is_behind_options and not self._forbids_operands
        return Match.YES if is_named and (is_free or not names_options) else Match.MAYBE

    # --- Allowing. ---------------------------------------------------------------------------------------------------

    def allows(self, command: SimpleCommand, places: Places) -> Match:
        if not self._begins(command.words):
            return Match.NO
        rest = command.words[len(self.wanted) :]
        match = self._of_arguments(rest, has_more=command.has_more)
        variables = self._rule.variables or ()
        is_allowed = (
            match is not Match.NO
            and all(name in variables for name, _ in command.assignments)
            and self._allows_folders(command, places)
            and self._allows_redirects(command, places)
            and self._allows_paths(command, rest, places)
        )
        return match if is_allowed else Match.NO

    def _begins(self, words: Sequence[Word]) -> bool:
        """Whether a command begins with the words of the rule, to the letter."""
        return len(words) >= len(self.wanted) and all(
            word.is_exact and word.text in alternatives
            for word, alternatives in zip(words, self.wanted, strict=False)
        )

    def _allows_redirects(self, command: SimpleCommand, places: Places) -> bool:
        patterns = self._redirects
        return all(
            patterns is not None and _leads_only_to(redirect.path, patterns, command, places)
            for redirect in command.redirects
        )

    def _allows_folders(self, command: SimpleCommand, places: Places) -> bool:
        # A command that runs elsewhere is as sensitive as one that an agent starts elsewhere.
        if self._rule.sensitive:
            return True
        folders = [folder_path(folder, places) for folder in command.folders or ()]
        if not folders or not all(map(places.is_inside, folders)):
            return False
        if runs_files_of_folder(command):
            roots = {places.resolve(root) for root in places.workspace}
            return all(places.resolve(folder) in roots for folder in folders)
        return not any(takes_files_for_repository(command, folder, places) for folder in folders)

    def _allows_paths(self, command: SimpleCommand, arguments: Sequence[Word], places: Places) -> bool:
        if self._paths is not None and command.has_more:
            return False
        named = [candidate for word in arguments for candidate in path_words(word)]
        if self._paths is not None and not all(
            _leads_only_to(word, self._paths, command, places) for word in named
        ):
            return False
        return self._rule.sensitive or not any(_leads_to_sensitive(word, command, places) for word in named)

    def objection(self, command: SimpleCommand, places: Places) -> str | None:
        """Why a rule that begins with these words does not allow the command; None if it begins with others."""
        words = command.words
        if not self._begins(words) or self.allows(command, places) is Match.YES:
            return None
        rest = words[len(self.wanted) :]
        variables = [name for name, _ in command.assignments if name not in (self._rule.variables or ())]
        unlisted = [
            word.text for word in rest if _cannot_become_option(word) and not self._may_follow(word.text)
        ]
        if variables:
            return f"it does not name the variable {variables[0]}"
        if unlisted:
            return f"it does not allow the argument {unlisted[0]}"
        if self._of_arguments(rest, has_more=command.has_more) is not Match.YES:
            return "an argument is forbidden, or computed by the shell"
        if command.redirects and not self._allows_redirects(command, places):
            return f"it does not allow the redirect to or from {command.redirects[0].path.text}"
        if not self._allows_folders(command, places):
            return "it does not hold in the folder that the command would run in"
        return "a path is not among those that it allows, or may be a link to a sensitive file"

    # --- Restricting. ------------------------------------------------------------------------------------------------

    def restricts(self, command: SimpleCommand, places: Places) -> Match:
        result = self._restricts_words(command) if self.wanted else Match.YES
        if result is Match.NO or self._paths is None:
            return result
        if command.is_wrapper:
            # The command that it runs has its arguments and redirects.
            return Match.NO
        return min(result, self._restricts_paths(command, self._paths, places))

    def _restricts_words(self, command: SimpleCommand) -> Match:
        words, wanted = command.words, self.wanted
        if not words:
            return Match.NO
        if words[0].kind in ("glob", "unknown"):
            return Match.MAYBE
        if not is_program(words[0].text, wanted[0]):
            return self._may_run_it(command)
        is_exactly = len(words) >= len(wanted) and all(
            word.is_exact and word.text in alternatives
            for word, alternatives in zip(words[1:], wanted[1:], strict=False)
        )
        if is_exactly:
            return self._of_arguments(words[len(wanted) :], has_more=command.has_more)
        may_be = _may_be_in_other_order(words[1:], wanted[1:], has_more=command.has_more)
        return Match.MAYBE if may_be else self._may_run_it(command)

    def _may_run_it(self, command: SimpleCommand) -> Match:
        """Whether the rule's command stands among the arguments of another, which may run it."""
        if command.is_wrapper:
            # What it runs is compared by itself.
            return Match.NO
        arguments = [*command.words[1:], *(tokens_of(command) if runs_arguments(command) else ())]
        first, *rest = self.wanted
        for place, word in enumerate(arguments):
            if is_program(word.text, first) and _occur_in_order(arguments[place + 1 :], rest):
                return Match.MAYBE
        return Match.NO

    def _restricts_paths(self, command: SimpleCommand, patterns: PathPatterns, places: Places) -> Match:
        folders = [folder_path(folder, places) for folder in command.folders or places.workspace]
        if command.folders is not None and any(patterns.a_way_matches(folder, places) for folder in folders):
            return Match.YES
        program = [word for word in command.words[:1] if "/" in word.text or word.kind == "home"]
        redirected = [redirect.path for redirect in command.redirects]
        named = [word for given in (*program, *command.words[1:], *redirected) for word in path_words(given)]
        is_known = not command.has_more and command.folders is not None
        result = Match.NO if is_known else Match.MAYBE
        for word in named:
            if word.kind in ("glob", "unknown"):
                result = Match.MAYBE
                continue
            for folder in folders:
                path = path_of(word, folder, places)
                result = max(result, patterns.of_restricted(path, places))
                if result is Match.YES:
                    return result
                if path.startswith(_OF_PROCESSES):
                    result = Match.MAYBE
        if result is Match.NO and runs_arguments(command):
            inner = [path_of(token, folder, places) for token in tokens_of(command) for folder in folders]
            result = Match.MAYBE if any(patterns.a_way_matches(path, places) for path in inner) else Match.NO
        return result


def _cannot_become_option(word: Word) -> bool:
    """Whether the word cannot expand to an option: it is literal, or a glob with a literal beginning."""
    return word.kind in ("exact", "home") or (word.kind == "glob" and word.text[:1] not in "*?[-")


def _leads_only_to(word: Word, patterns: PathPatterns, command: SimpleCommand, places: Places) -> bool:
    """Whether a word leads to paths that match, wherever the command runs."""
    if word.kind not in ("exact", "home") or command.folders is None:
        return False
    return all(patterns.all_ways_match(path_of(word, folder, places), places) for folder in command.folders)


def _leads_to_sensitive(word: Word, command: SimpleCommand, places: Places) -> bool:
    """Whether a word leads through a link to a sensitive place. What it says itself is compared elsewhere."""
    if word.kind not in ("exact", "home") or not word.text:
        return False
    for folder in command.folders or ():
        path = path_of(word, folder, places)
        try:
            lead = places.resolve(path)
        except (OSError, ValueError):
            return True
        if lead != path and places.why_named(path, iter((lead,)), changing=True) is not None:
            return True
    return False


def _may_be_in_other_order(
    words: Sequence[Word], wanted: Sequence[frozenset[str]], *, has_more: bool
) -> bool:
    """Whether the wanted words may be among these: options anywhere, in any spelling, and the others in order."""
    operands = [each for each in wanted if not all(map(is_option, each))]
    options = [each for each in wanted if all(map(is_option, each))]
    is_behind_option = has_more
    for word in words:
        if word.kind in ("glob", "unknown"):
            return True
        if is_option(word.text):
            # What follows may be its value.
            is_behind_option = True
        elif operands and word.text in operands[0]:
            del operands[0]
        elif operands and not is_behind_option:
            return False
    if operands:
        return is_behind_option
    given = [word.text for word in words if is_option(word.text)]
    return has_more or all(_may_be_given(option, given) for each in options for option in list(each)[:1])


def _may_be_given(option: str, given: Sequence[str]) -> bool:
    """Whether an option is among those given, by itself, abbreviated, in a cluster, or by a long name."""
    if any(has_forbidden(each, [option]) is not Match.NO for each in given):
        return True
    if option.startswith("--") or len(option) < _SHORT:
        return False
    letters = {letter for each in given if not each.startswith("--") for letter in each[1:]}
    return set(option[1:]) <= letters or any(each.startswith("--") for each in given)


def _occur_in_order(words: Sequence[Word], wanted: Sequence[frozenset[str]]) -> bool:
    """Whether these words occur one after the other, with others between them. A computed word matches any."""
    left = list(wanted)
    for word in words:
        if left and (word.text in left[0] or word.kind in ("glob", "unknown")):
            del left[0]
    return not left
