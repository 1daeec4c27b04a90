"""What a lasting yes covers: a key made from the complete action, and the line that says so.

The key is the digest of everything in the action, behind words for a person. Nothing is normalised but the order of the
keys of JSON objects, which means nothing. So another agent, folder, argument, word boundary, variable, method, body or
change is another key, and is asked about. `covered` reads the line back out of the key: it cannot say anything else.
"""

from __future__ import annotations

import hashlib
import re

from dragoman.lm.json import canonical
from dragoman.permissions.action import Action
from dragoman.permissions.layout import in_short

__all__ = ["agent_in", "approval_key", "covered", "is_agent_key"]

# The form of the key. Another form is never equal to it, so approvals of another form do not count.
_FORM = "action-1"
_KEY = re.compile(rf"{_FORM} ([0-9a-f]{{64}}): (.*)", re.DOTALL)
# The words of it, as `_words` writes them.
_NAMED = re.compile(r"exactly this request of (.*?): .*, in (.*)", re.DOTALL)
_LONGEST_PART = 160
_VERBS = {
    "read": "read",
    "edit": "change",
    "delete": "delete or move",
    "execute": "run",
    "fetch": "fetch",
    "other": "do",
}


def approval_key(action: Action) -> str:
    """The key of an approval for exactly this action."""
    # Names and classes that we derive are left out: they follow from the rest, and may be derived better later.
    complete = canonical(
        {
            "agent": action.agent,
            "kind": action.kind,
            "title": action.title,
            "tool": action.tool,
            "content": action.content,
            "locations": action.locations,
            "input": action.input,
            "extra": action.extra,
            "meta": action.meta,
            "folder": action.folder,
        }
    )
    digest = hashlib.sha256(complete.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_FORM} {digest}: {_words(action)}"


def covered(key: str) -> str:
    """What an approval with this key covers, in words; the key itself where it is none of ours."""
    found = _KEY.fullmatch(key)
    return key if found is None else found[2]


def agent_in(key: str) -> tuple[str, str] | None:
    """The agent and the folder that the words of a key name; None where it is not the key of an agent's action."""
    found = _KEY.fullmatch(key)
    named = None if found is None else _NAMED.fullmatch(found[2])
    return None if named is None else (named[1], named[2])


def is_agent_key(key: str) -> bool:
    return _KEY.fullmatch(key) is not None


def _words(action: Action) -> str:
    what = action.command or ", ".join([*action.paths, *action.urls]) or action.title
    tool = f" with {in_short(action.tool, _LONGEST_PART)}" if action.tool and action.command is None else ""
    return (
        f"exactly this request of {in_short(action.agent_name, _LONGEST_PART)}: {_VERBS[action.risk]} "
        f"{in_short(what, _LONGEST_PART)}{tool}, in {in_short(action.folder, _LONGEST_PART)}"
    )
