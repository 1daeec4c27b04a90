"""What a consumer's tools are called towards a model.

Consumers name tools as they like; a model's provider takes so many characters of `[a-zA-Z0-9_-]`. A name that fits is
offered as it is. Any other is spelled with legal characters, cut, and given a suffix made of the original: so what a
tool is offered as depends on its own name alone, and a tool that comes or goes never renames another.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable

__all__ = ["legal_names"]

_LEGAL = re.compile(r"[a-zA-Z0-9_-]+")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]+")
# Thirty-two bits tell the few names apart that are spelled alike; if they do not, twice as many will.
_DIGITS = 8
# A name that looks as if we had made it is made anew, so that it cannot be mistaken for one.
_MADE = re.compile(r".*_0x[0-9a-f]+", re.DOTALL)


def legal_names(names: Iterable[str], length: int, reserved: Collection[str] = ()) -> dict[str, str]:
    """The legal name for each of `names`; no two are the same, none is longer than `length` or `reserved`."""
    made = {name: _legal_name(name, _DIGITS, length, reserved) for name in names}
    count = Counter(made.values())
    return {
        name: legal if count[legal] == 1 else _legal_name(name, 2 * _DIGITS, length, reserved)
        for name, legal in made.items()
    }


def _legal_name(name: str, digits: int, length: int, reserved: Collection[str]) -> str:
    is_short = len(name) <= length
    if is_short and _LEGAL.fullmatch(name) and name not in reserved and not _MADE.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    suffix = f"_0x{digest[:digits]}"
    return _ILLEGAL.sub("_", name)[: length - len(suffix)] + suffix
