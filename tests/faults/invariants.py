"""I1–I7 after a run: what the agents noted against what the consumers kept account of.

A word that an agent said is in its chat once, in order, or there is a reason: the person stopped that turn, the bridge
died in it, or the agent's own side lost it. A call has one result, which is true. Nothing was allowed that no one allowed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faults.chat import WORD, Chat, name_of, turn_of
from faults.plan import FAULTS

if TYPE_CHECKING:
    from faults.run import Run

__all__ = ["Account", "Noted", "broken_by", "broken_in", "by_method"]

# What a machine without room or files makes the standard library say, which nobody of ours can stop.
_TOLERATED = {"no files": ("Too many open files", "accept", "Errno 24", "Traceback", "ERROR")}


# What agents noted, by the name of the note.
Noted = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Account:
    """What the consumers kept account of, and what the agents noted."""

    chats: tuple[Chat, ...]
    noted: Noted
    # Whether a word that this agent said may be missing.
    is_excused: Callable[[str, int], bool]
    # Agents that were killed, stopped or made useless.
    spoilt: AbstractSet[int] = frozenset()
    # Whether the fault came at a random moment.
    is_anywhere: bool = False

    def chat_of(self, word: str) -> Chat:
        """The chat whose name a word begins with; the first if it has none."""
        initial = name_of(word)[:1]
        return next((chat for chat in self.chats if chat.name == initial), self.chats[0])


def by_method(journal: Iterable[dict[str, Any]]) -> Noted:
    noted: Noted = {}
    for entry in journal:
        noted.setdefault(entry["method"], []).append(entry)
    return noted


def broken_by(run: Run) -> list[str]:
    account = Account(
        (run.chat, run.other),
        by_method(run.world.journal()),
        lambda word, pid: _is_excused(run, account, word, pid),
        run.spoilt,
        run.plan.is_anywhere,
    )
    tolerated = [words for fault in run.plan.faults for words in _TOLERATED.get(fault, ())]
    complaints = run.world.complaints(tolerated=tolerated)
    return [*broken_in(account), *(f"the bridge complains: {line[:300]}" for line in complaints[:3])]


def broken_in(account: Account) -> list[str]:
    return [
        *(complaint for chat in account.chats for complaint in _words(account, chat)),
        *_apart(account.chats),
        *_calls(account),
        *_permissions(account),
        *_once(account.chats),
    ]


def _number_of(word: str) -> int:
    return int(word.rpartition(".")[2][:-1])


def _is_excused(run: Run, account: Account, word: str, pid: int) -> bool:
    """Whether what an agent said may be missing."""
    chat, turn, plan = account.chat_of(word), turn_of(word), run.plan
    if pid in run.spoilt and any(FAULTS[fault].loses for fault in plan.faults):
        return True
    if pid in run.spoilt and plan.has("floods", "reads slowly"):
        # It had more to say than there was room for, and then no more time: what is missing is its last.
        heard = [_number_of(each) for each in chat.seen if f"@{pid}." in each]
        if _number_of(word) > max(heard, default=0):
            return True
    if turn < 0:
        # Outside any turn of ours: with one that was stopped or lost goes what was said meanwhile.
        return bool(chat.stopped or chat.lost) or plan.is_anywhere
    is_cut = turn in chat.stopped or turn in chat.lost or turn + 100 in chat.stopped
    return is_cut or (plan.is_anywhere and turn == plan.turn)


def _words(account: Account, chat: Chat) -> list[str]:
    """I5."""
    said = {entry["params"]: entry["pid"] for entry in account.noted.get("said", ())}
    mine = {word: pid for word, pid in said.items() if account.chat_of(word) is chat}
    found = []
    lost = [w for w, pid in mine.items() if w not in chat.seen and not account.is_excused(w, pid)]
    if lost:
        found.append(f"I5: said and lost ({len(lost)} words): {lost[:5]}")
    doubled = [word for word, times in Counter(chat.heard).items() if times > 1]
    if doubled:
        found.append(f"I5: said twice ({len(doubled)} words): {doubled[:5]}")
    invented = [word for word in chat.heard if word not in said]
    if invented:
        found.append(f"I5: never said: {invented[:5]}")
    latest: dict[str, int] = {}
    for word in chat.heard:
        pid, _, number = word[:-1].partition("@")[2].partition(".")
        if int(number) < latest.get(pid, 0):
            found.append(f"I5: out of order: {word}")
            break
        latest[pid] = int(number)
    return found


def _apart(chats: tuple[Chat, ...]) -> list[str]:
    """I3."""
    names = {chat.name for chat in chats}
    return [
        f"I3: {word} is in chat {chat.name}"
        for chat in chats
        for word in chat.heard
        if name_of(word)[0] in names and name_of(word)[0] != chat.name
    ]


def _calls(account: Account) -> list[str]:
    """I2."""
    found, noted = [], account.noted
    called = {entry["params"]: entry["pid"] for entry in noted.get("called", ())}
    given_up = {entry["params"] for entry in noted.get("gave up", ())}
    results: dict[str, list[dict[str, Any]]] = {}
    for entry in noted.get("result", ()):
        results.setdefault(entry["params"]["word"], []).append(entry["params"])
    told = {
        word
        for entry in noted.get("session/prompt", ())
        for word in WORD.findall(json.dumps(entry["params"], ensure_ascii=False))
    }
    ran = sum((chat.ran for chat in account.chats), Counter[str]())
    given = {word for chat in account.chats for word in chat.given}
    found += [f"I2: {word} ran {times} times" for word, times in ran.items() if times > 1]
    found += [f"I2: {word} ran and was never called" for word in ran if word not in called]
    for word, pid in called.items():
        chat, turn = account.chat_of(word), turn_of(word)
        answers = results.get(word, [])
        if len(answers) > 1:
            found.append(f"I2: {len(answers)} results for {word}: {answers}")
        for answer in answers:
            if not answer["isError"] and answer["text"] != f"ran {word}":
                found.append(f"I2: the result of {word} is not its own: {answer['text'][:200]!r}")
            if not answer["isError"] and word not in ran:
                found.append(f"I2: {word} has a result and never ran")
            # One whose worker was fenced: another agent hears of the result.
            is_cut = turn in chat.stopped or turn in chat.lost or (pid in account.spoilt and word in told)
            if answer["isError"] and word in given and not is_cut:
                found.append(f"I2: {word} ran, and the agent was told {answer['text'][:200]!r}")
        is_cut = turn in chat.stopped or turn in chat.lost or word in given_up or pid in account.spoilt
        if not answers and not is_cut and not account.is_anywhere:
            found.append(f"I2: {word} never got a result")
        if (
            word in given
            and not answers
            and word not in told
            and turn not in chat.stopped
            and turn + 100 not in chat.stopped
        ):
            found.append(f"I2: {word} ran and was given back, and no agent ever heard of it")
    return found


def _permissions(account: Account) -> list[str]:
    """I4."""
    found = []
    decided = {word: decision for chat in account.chats for word, decision in chat.decided.items()}
    noted = account.noted.get("outcome", ())
    outcomes = [entry["params"] for entry in noted]
    for entry in noted:
        outcome = entry["params"]
        word, chat, turn = outcome["word"], account.chat_of(outcome["word"]), turn_of(outcome["word"])
        allowed = outcome["outcome"] == "the-allow_once"
        if allowed and decided.get(word) != "allow":
            found.append(f"I4: {word} was allowed, and the person said {decided.get(word)}")
        is_cut = turn in chat.stopped or turn in chat.lost or turn + 100 in chat.stopped
        # An agent that ends with its worker is told that the request is withdrawn. The yes goes to its successor.
        is_withdrawn = outcome["outcome"] == "none" and account.is_excused(word, entry["pid"])
        if not allowed and decided.get(word) == "allow" and not (is_cut or is_withdrawn):
            found.append(f"I4: the person allowed {word}, and the agent was told {outcome['outcome']}")
    found += [
        f"I4: {word} was answered {times} times"
        for word, times in Counter(outcome["word"] for outcome in outcomes).items()
        if times > 1
    ]
    return found


def _once(chats: tuple[Chat, ...]) -> list[str]:
    """No prompt that was given once is carried out twice, as far as anybody can see.

    An agent that dies before it has given a sign of a turn may have begun it all the same; nobody was told of that.
    """
    found = []
    for chat in chats:
        done: dict[int, set[str]] = {}
        for word in chat.seen | chat.ran.keys() | chat.decided.keys():
            pid = word.partition("@")[2].partition(".")[0]
            done.setdefault(turn_of(word), set()).add(pid)
        for turn, pids in done.items():
            if turn >= 0 and len(pids) > 1 and turn not in chat.repeated:
                found.append(f"I2: turn {turn} of chat {chat.name} was carried out by {len(pids)} agents")
    return found
