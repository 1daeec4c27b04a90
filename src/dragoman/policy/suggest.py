"""Rules that are offered, so that a question need not be asked again: for one action, and from recorded decisions.

Every offer is checked before it is shown: together with the rules in force it allows the action.
"""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from msgspec.structs import replace

from dragoman.journal.decisions import RecordedDecision
from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from dragoman.permissions.urls import Url, UrlError
from dragoman.policy.dry_run import JudgeInWorkspace, dry_run
from dragoman.policy.offer import RuleOffer
from dragoman.policy.policy import JudgedCommand, Policy
from dragoman.policy.rule import LocatedRule, PolicyRule
from dragoman.policy.starter import starter_rules

__all__ = ["Suggestion", "rule_offers", "suggestions"]

# Characters that mean something in a pattern.
_PATTERN = re.compile(r"[*?\[\]{}\\]")
# Fewer are not worth a rule.
_LEAST_SAVED = 3


def rule_offers(action: Action, places: Places, rules: Sequence[LocatedRule]) -> tuple[RuleOffer, ...]:
    """The rules that would allow an action of this agent in this workspace, the narrowest first.

    `rules` are in force. Nothing is offered for a sensitive action, for one of which only a title is known, and for a
    command line that is not understood.
    """
    if action.sensitive is not None or not action.has_substance or not any(places.workspace):
        return ()
    candidates = dict.fromkeys(_candidates(action, places))
    return tuple(each for each in candidates if _allows(each, action, places, rules))


def _allows(offer: RuleOffer, action: Action, places: Places, rules: Sequence[LocatedRule]) -> bool:
    """Whether the offer allows an action, together with the rules in force."""
    added = [LocatedRule(rule, "the offer", 1) for rule in offer.rules]
    return Policy([*rules, *added]).judge(action, places).decision == "allow"


def _candidates(action: Action, places: Places) -> Iterator[RuleOffer]:
    base = PolicyRule(decision="allow", agent=action.agent, workspace=places.workspace[0])
    match action.risk:
        case "execute":
            yield from _for_commands(action, places, replace(base, kind="execute"))
        case "read" | "edit" | "delete":
            yield from _for_paths(action, places, replace(base, kind=action.risk))
        case "fetch":
            yield from _for_addresses(action, replace(base, kind="fetch"))
        case _:
            yield from _for_tool(action, base)


def _for_commands(action: Action, places: Places, base: PolicyRule) -> Iterator[RuleOffer]:
    judgement = _starter_policy().judgement(action, places)
    judged = [each for each in judgement.commands if not each.command.is_wrapper]
    words = [word for each in judged for word in each.command.words]
    if not words or judgement.unsure or not all(word.is_exact and word.text for word in words):
        return
    exact = {shlex.join(_texts(each)): replace(base, command=_texts(each)) for each in judged}
    yield RuleOffer(f"always allow exactly {_and(exact)} here", tuple(exact.values()))
    wide = dict.fromkeys(_wide(each, base) for each in judged)
    if wide.keys() != set(exact.values()):
        yield RuleOffer(f"always allow {' and '.join(map(_in_words, wide))} here", tuple(wide))


def _texts(judged: JudgedCommand) -> tuple[str, ...]:
    return tuple(word.text for word in judged.command.words)


def _wide(judged: JudgedCommand, base: PolicyRule) -> PolicyRule:
    """The starter rule that allows a command, but for this command alone. Without one, exactly this command."""
    words = _texts(judged)
    if not judged.rules:
        return replace(base, command=words)
    rule = starter_rules()[judged.rules[0].line]
    return replace(
        rule,
        kind=base.kind,
        agent=base.agent,
        workspace=base.workspace,
        command=words[: len(rule.command or ())],
        examples=(),
        counterexamples=(),
    )


def _in_words(rule: PolicyRule) -> str:
    command = f"`{shlex.join(map(str, rule.command or ()))}`"
    if rule.args == "any":
        is_limited = (rule.options, rule.without, rule.paths) != (None, None, None)
        return f"{command} with {'harmless' if is_limited else 'any'} arguments"
    return f"{command} with harmless options" if rule.options else f"exactly {command}"


@cache
def _starter_policy() -> Policy:
    """The starter set. A rule's line is its index in `starter_rules`."""
    return Policy([LocatedRule(rule, "", index) for index, rule in enumerate(starter_rules())])


def _for_paths(action: Action, places: Places, base: PolicyRule) -> Iterator[RuleOffer]:
    workspace = places.workspace[0]
    leads = (os.path.relpath(places.absolute(path, action.folder), workspace) for path in action.paths)
    paths = tuple(dict.fromkeys(leads))
    if not paths or any(path.startswith("..") or _PATTERN.search(path) for path in paths):
        return
    verb = {"read": "reading", "edit": "changing"}.get(action.risk, "deleting and moving")
    yield RuleOffer(f"always allow {verb} {_and(paths)} here", (replace(base, paths=paths),))
    if action.risk != "delete":
        folder = os.path.commonpath([os.path.dirname(path) for path in paths])  # noqa: PTH120 - of texts
        pattern, where = (f"{folder}/**", f"`{folder}`") if folder else ("**", "this workspace")
        yield RuleOffer(f"always allow {verb} files in {where}", (replace(base, paths=(pattern,)),))


def _for_addresses(action: Action, base: PolicyRule) -> Iterator[RuleOffer]:
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
        yield RuleOffer(f"always allow fetching {_and(addresses)} here", (replace(base, urls=addresses),))
    hosts = tuple(f"{origin}/*" for origin in origins)
    yield RuleOffer(f"always allow fetching any page of {_and(origins)} here", (replace(base, urls=hosts),))


def _for_tool(action: Action, base: PolicyRule) -> Iterator[RuleOffer]:
    if (tool := action.tool) is not None and not _PATTERN.search(tool):
        yield RuleOffer(
            f"always allow the tool `{tool}` with any input here", (replace(base, tools=(tool,)),)
        )


def _and(texts: Iterable[str]) -> str:
    return " and ".join(f"`{text}`" for text in texts)


# From many decisions.


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An offer, and how many of the recorded questions its rules would have answered."""

    offer: RuleOffer
    saved: int


def suggestions(
    decisions: Iterable[RecordedDecision],
    judge: JudgeInWorkspace,
    rules: Sequence[LocatedRule],
    own: tuple[str, ...],
) -> tuple[Suggestion, ...]:
    """Offers for what people have allowed repeatedly, the most useful first.

    `judge` applies the rules in force: `rules`. `own` are the files of Dragoman. No suggestion would have allowed what
    a person refused.
    """
    questions = [each for each in dry_run(decisions, judge).judged if each.now.decision == "ask"]
    refused = [each for each in questions if each.then == "person: no"]
    allowed = [each for each in questions if each.then == "person: yes"]
    # By offer, the numbers of the questions that it answers. The narrowest come first.
    answered: dict[RuleOffer, set[int]] = {}
    for number, each in enumerate(allowed):
        for offer in rule_offers(each.action, Places.around((each.workspace,), own), rules):
            answered.setdefault(offer, set()).add(number)
    candidates = {
        offer: numbers
        for offer, numbers in answered.items()
        if len(numbers) >= _LEAST_SAVED
        and not any(
            _allows(offer, each.action, Places.around((each.workspace,), own), rules) for each in refused
        )
    }
    return tuple(_best_first(candidates))


def _best_first(candidates: dict[RuleOffer, set[int]]) -> Iterator[Suggestion]:
    """Each with the questions that those before it leave open."""
    while candidates:
        best = max(candidates, key=lambda offer: len(candidates[offer]))
        numbers = candidates[best]
        yield Suggestion(best, len(numbers))
        left = {offer: others - numbers for offer, others in candidates.items()}
        candidates = {offer: others for offer, others in left.items() if len(others) >= _LEAST_SAVED}
