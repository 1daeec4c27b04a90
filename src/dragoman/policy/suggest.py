"""Rules that would answer a question the next time: for one action, and from the decisions of people.

A proposal is judged before it is shown: what its rules do not allow is not proposed.
"""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from dragoman.journal.decisions import RecordedDecision
from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from dragoman.permissions.urls import Url, UrlError
from dragoman.policy.dry_run import JudgeInWorkspace, dry_run
from dragoman.policy.policy import Policy, commands_of
from dragoman.policy.programs import WideForm, wide_form
from dragoman.policy.rule import LocatedRule, PolicyRule

__all__ = ["Proposal", "Suggestion", "proposals", "suggestions"]

# Characters that mean something in a pattern.
_PATTERN = re.compile(r"[*?\[\]{}\\]")
# Fewer are not worth a rule.
_LEAST_SAVED = 3


@dataclass(frozen=True, slots=True)
class Proposal:
    """*allow* rules that together allow an action, and what they allow in words: "always allow `git log` here"."""

    rules: tuple[PolicyRule, ...]
    words: str


def proposals(action: Action, workspace: str) -> tuple[Proposal, ...]:
    """What a person may choose to allow always, the narrowest first, for this agent and in this workspace.

    None for a sensitive action, for one of which only a title is known, and for a command line that is not understood.
    """
    if action.sensitive is not None or not action.has_substance:
        return ()
    found = dict.fromkeys(_candidates(action, workspace))
    return tuple(each for each in found if _allows(each, action, workspace))


def _allows(proposal: Proposal, action: Action, workspace: str, rules: Sequence[LocatedRule] = ()) -> bool:
    """Whether the proposal allows an action, together with rules that are in force."""
    proposed = [LocatedRule(rule, "the proposal", 1) for rule in proposal.rules]
    return Policy([*rules, *proposed]).judge(action, Places.around((workspace,))).decision == "allow"


def _candidates(action: Action, workspace: str) -> Iterator[Proposal]:
    base = PolicyRule(decision="allow", agent=action.agent, workspace=workspace)
    match action.risk:
        case "execute":
            yield from _for_commands(action, replace(base, kind="execute"))
        case "read" | "edit" | "delete":
            yield from _for_paths(action, workspace, replace(base, kind=action.risk))
        case "fetch":
            yield from _for_addresses(action, replace(base, kind="fetch"))
        case _:
            yield from _for_tool(action, base)


def _for_commands(action: Action, base: PolicyRule) -> Iterator[Proposal]:
    commands = dict.fromkeys(_simple_commands(action))
    if not commands:
        return
    exact = {words: replace(base, command=words) for words in commands}
    yield Proposal(tuple(exact.values()), f"always allow exactly {_and(map(shlex.join, commands))} here")
    forms = {words: wide_form(words) for words in commands}
    if any(forms.values()):
        rules = (exact[words] if form is None else _wide(base, form) for words, form in forms.items())
        named = (_in_words(words, form) for words, form in forms.items())
        yield Proposal(tuple(dict.fromkeys(rules)), f"always allow {' and '.join(dict.fromkeys(named))} here")


def _wide(base: PolicyRule, form: WideForm) -> PolicyRule:
    paths = ("**",) if form.files else None
    return replace(base, command=form.command, args="any", without=form.without or None, paths=paths)


def _in_words(words: tuple[str, ...], form: WideForm | None) -> str:
    if form is None:
        return f"exactly `{shlex.join(words)}`"
    return f"`{shlex.join(form.command)}` with any {'files' if form.files else 'arguments'}"


def _for_paths(action: Action, workspace: str, base: PolicyRule) -> Iterator[Proposal]:
    places = Places.around((workspace,))
    leads = (os.path.relpath(places.absolute(path, action.folder), workspace) for path in action.paths)
    paths = tuple(dict.fromkeys(leads))
    if not paths or any(path.startswith("..") or _PATTERN.search(path) for path in paths):
        return
    verb = {"read": "reading", "edit": "changing"}.get(action.risk, "deleting and moving")
    yield Proposal((replace(base, paths=paths),), f"always allow {verb} {_and(paths)} here")
    if action.risk != "delete":
        folder = os.path.commonpath([os.path.dirname(path) for path in paths])  # noqa: PTH120 - of texts
        pattern, where = (f"{folder}/**", f"`{folder}`") if folder else ("**", "this workspace")
        yield Proposal((replace(base, paths=(pattern,)),), f"always allow {verb} files in {where}")


def _for_addresses(action: Action, base: PolicyRule) -> Iterator[Proposal]:
    try:
        urls = tuple(map(Url.parse, action.urls))
    except UrlError:
        return
    # A pattern does not look at the query.
    addresses = tuple(dict.fromkeys(f"{url.origin}{url.path}" for url in urls))
    origins = tuple(dict.fromkeys(url.origin for url in urls))
    if not addresses:
        return
    if not any("*" in address for address in addresses):
        yield Proposal((replace(base, urls=addresses),), f"always allow fetching {_and(addresses)} here")
    hosts = tuple(f"{origin}/*" for origin in origins)
    yield Proposal((replace(base, urls=hosts),), f"always allow fetching any page of {_and(origins)} here")


def _for_tool(action: Action, base: PolicyRule) -> Iterator[Proposal]:
    if (tool := action.tool) is not None and not _PATTERN.search(tool):
        yield Proposal((replace(base, tools=(tool,)),), f"always allow the tool `{tool}` with any input here")


def _and(texts: Iterable[str]) -> str:
    return " and ".join(f"`{text}`" for text in texts)


def _simple_commands(action: Action) -> tuple[tuple[str, ...], ...]:
    """The simple commands of an action whose command is understood; otherwise none."""
    commands, unsure = commands_of(action)
    simple = [each for each in commands if not each.is_wrapper]
    is_plain = not unsure and all(word.is_exact for each in simple for word in each.words)
    return tuple(tuple(word.text for word in each.words) for each in simple) if is_plain else ()


# From many decisions.


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A proposal, and how many of the recorded questions it would have answered."""

    proposal: Proposal
    saved: int


def suggestions(
    decisions: Iterable[RecordedDecision], judge: JudgeInWorkspace, policy: Policy | None
) -> tuple[Suggestion, ...]:
    """Proposals for what people have allowed repeatedly, the most useful first. `judge` applies the rules in force.

    None of them would have allowed what a person refused.
    """
    questions = [each for each in dry_run(decisions, judge).judged if each.now.decision == "ask"]
    refused = [each for each in questions if each.then == "person: no"]
    allowed = [each for each in questions if each.then == "person: yes"]
    # By proposal, the numbers of the questions that it answers. The narrowest come first.
    answered: dict[Proposal, set[int]] = {}
    for number, each in enumerate(allowed):
        for proposal in proposals(each.action, each.workspace):
            answered.setdefault(proposal, set()).add(number)
    rules = () if policy is None else policy.rules
    candidates = {
        proposal: numbers
        for proposal, numbers in answered.items()
        if len(numbers) >= _LEAST_SAVED
        and not any(_allows(proposal, each.action, each.workspace, rules) for each in refused)
    }
    return tuple(_best_first(candidates))


def _best_first(candidates: dict[Proposal, set[int]]) -> Iterator[Suggestion]:
    """Each with the questions that those before it leave open."""
    while candidates:
        best = max(candidates, key=lambda proposal: len(candidates[proposal]))
        numbers = candidates[best]
        yield Suggestion(best, len(numbers))
        left = {proposal: others - numbers for proposal, others in candidates.items()}
        candidates = {proposal: others for proposal, others in left.items() if len(others) >= _LEAST_SAVED}
