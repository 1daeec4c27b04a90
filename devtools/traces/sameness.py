"""Whether a frame is the one that the trace has, whatever differs from run to run.

Ids of requests are left to the connection. Names that one side makes up (sessions, tool calls, terminals, tool servers)
and folders may be others than in the trace, but each of them always the same one: what was learned of them once holds from
then on, also inside other texts. A few fields may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dragoman.lm.json import encode_text
from dragoman.logs import REDACTED

__all__ = ["Names", "difference"]

_MADE_UP = frozenset({"sessionId", "toolCallId", "terminalId", "messageId", "cwd"})
# Versions, moments, addresses, and what agents and clients tell each other beside the protocol.
_ANYTHING = frozenset({"_meta", "version", "updatedAt", "url", "headers", "command", "args", "env"})
# Shorter ones are not looked for inside texts: they may be anything there.
_TELLING_LENGTH = 8
_SHOWN = 200


class Names:
    """What names of the trace are now, each for one."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self._now: dict[str, str] = {}
        self._then: dict[str, str] = {}
        self._inside: re.Pattern[str] | None = None
        for then, now in (known or {}).items():
            self.learn(then, now)

    def learn(self, then: str, now: str) -> bool:
        """False if either was known for another."""
        if self._now.setdefault(then, now) != now or self._then.setdefault(now, then) != then:
            return False
        self._inside = None
        return True

    def now(self, text: str) -> str:
        """A text of the trace with the names of now."""
        if text in self._now:
            return self._now[text]
        if self._inside is None:
            forms = [_form(name) for name in sorted(self._now, key=len, reverse=True) if _is_telling(name)]
            self._inside = re.compile("|".join(forms) or r"(?!)")
        return self._inside.sub(lambda found: self._now[found[0]], text)

    def renamed(self, value: object) -> object:
        match value:
            case str():
                return self.now(value)
            case list():
                return [self.renamed(each) for each in value]
            case dict():
                return {key: self.renamed(each) for key, each in value.items()}
            case _:
                return value


def difference(then: object, now: object, names: Names, place: str = "", of: str = "") -> str | None:
    """Where and how the two differ, in words; None if they do not. `of` is the field they are the value of."""
    match then, now:
        case dict(), dict():
            return _first(
                difference(then[key], now[key], names, f"{place}.{key}" if place else key, _field(of, key))
                if key in then and key in now
                else f"{place}.{key} is {'missing' if key in then else 'new'}".lstrip(".")
                for key in dict.fromkeys((*then, *now))
                if key not in _ANYTHING
            )
        case list(), list():
            if len(then) != len(now):
                return f"{place} has {len(now)} elements instead of {len(then)}"
            pairs = enumerate(zip(then, now, strict=True))
            return _first(difference(a, b, names, f"{place}[{number}]", of) for number, (a, b) in pairs)
        case str(), str() if of in _MADE_UP:
            same = names.learn(then, now)
        case str(), str():
            same = _is_same_text(names.now(then), now)
        case _:
            # `True == 1`, and JSON knows better.
            same = type(then) is type(now) and then == now
    return None if same else f"{place} is {_shown(now)} instead of {_shown(then)}"


def _field(of: str, key: str) -> str:
    # The name of a tool server is made up, that of a tool is not.
    return "cwd" if of == "mcpServers" and key == "name" else key


def _first(found: Iterable[str | None]) -> str | None:
    return next((each for each in found if each is not None), None)


def _is_same_text(then: str, now: str) -> bool:
    if REDACTED not in then:
        return then == now
    return re.fullmatch(".*".join(map(re.escape, then.split(REDACTED))), now, re.DOTALL) is not None


def _is_telling(name: str) -> bool:
    return len(name) >= _TELLING_LENGTH or name.startswith("/")


def _form(name: str) -> str:
    # A folder is not the beginning of its neighbour's name.
    return re.escape(name) + (r"(?![\w-])" if name.startswith("/") else "")


def _shown(value: object) -> str:
    text = encode_text(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
