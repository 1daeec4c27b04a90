"""Which journal an id means, of which a person gives only the beginning. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.journal.store import JournalInfo
from dragoman.logs import one_line

__all__ = ["NotFound", "find_by_id"]

# Fewer characters are a slip, not a choice.
_SHORTEST = 4
_MOST_NAMED = 5


class NotFound(Exception):
    """No journal is meant, or several are: a sentence that says so."""


def find_by_id(journals: Iterable[JournalInfo], wanted: str, noun: str = "conversation") -> JournalInfo:
    """The one whose id begins so. Raises `NotFound`."""
    found = [each for each in journals if each.id.startswith(wanted)]
    exact = [each for each in found if each.id == wanted]
    if exact:
        return exact[0]
    name = one_line(wanted)
    if not found:
        raise NotFound(f'There is no {noun} "{name}". `dragoman conversations` lists them.')
    if len(found) > 1:
        several = ", ".join(each.id for each in found[:_MOST_NAMED])
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise NotFound(f'"{name}" matches several: {several}{more}. Give more of it.')
    if len(wanted) < _SHORTEST:
        raise NotFound(
            f'"{name}" is too short for an id: give at least {_SHORTEST} characters. It begins {found[0].id}.'
        )
    return found[0]
