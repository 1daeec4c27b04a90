"""What a request would make of whole files. Values in, values out.

An agent shows a change as a diff of two texts: a whole file, or only the passage that changes. A passage that the file has
exactly once makes a whole file of it. Any other passage does not show which one is meant, so it stays a passage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["PlannedChange", "Replacement", "planned_changes"]

_PASSAGE_MISSING = "The agent sent only a passage, which the file does not have now."
_PASSAGE_REPEATED = "The agent sent only a passage, which the file has more than once."


class Replacement(NamedTuple):
    """A text of a file in place of another. `old` is None or empty for a whole new content."""

    path: str
    old: str | None
    new: str


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A file as it is and as it would be. If `why_partial` is set, the texts are only a passage of it."""

    path: str
    # None: there is no file.
    before: str | None
    after: str
    why_partial: str | None = None


def planned_changes(
    replacements: Iterable[Replacement], now: Mapping[str, str | None], unreadable: Mapping[str, str]
) -> tuple[PlannedChange, ...]:
    """The changes by file. `now` has the texts of the files, `unreadable` the reasons for those that have none."""
    made: dict[str, PlannedChange] = {}
    partial: list[PlannedChange] = []
    for path, old, new in replacements:
        why = unreadable.get(path)
        if why is not None:
            partial.append(PlannedChange(path, old, new, why))
            continue
        known = made.get(path)
        before = now.get(path)
        text = before if known is None else known.after
        match _replaced(text, old, new):
            case str() as after, _:
                made[path] = PlannedChange(path, before, after)
            case None, reason:
                partial.append(PlannedChange(path, old, new, reason))
    return (*made.values(), *partial)


def _replaced(text: str | None, old: str | None, new: str) -> tuple[str | None, str]:
    """The whole text after a replacement; or None, and why."""
    if not old or text == old:
        return new, ""
    count = 0 if text is None else text.count(old)
    if text is None or count != 1:
        return None, _PASSAGE_REPEATED if count else _PASSAGE_MISSING
    return text.replace(old, new), ""
