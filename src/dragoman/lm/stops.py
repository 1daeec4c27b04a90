"""Why an answer ended before its time.

A back end reports it once, as the last thing it says: an internal data part with the reason, for consumers that are
programs, and the words for those that are people. Which of the two a consumer gets is a matter of presentation.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from dragoman.lm.json import decode, encode
from dragoman.lm.parts import STOPPED, DataPart

__all__ = ["StopReason", "Stopped"]

# length: a limit of the model or the agent. content_filter: the model refused. other: only `words` has the reason.
StopReason: TypeAlias = Literal["length", "content_filter", "other"]


class Stopped(msgspec.Struct, frozen=True):
    reason: StopReason
    # A sentence, as Markdown.
    words: str

    @property
    def part(self) -> DataPart:
        return DataPart(STOPPED, encode(self))

    @classmethod
    def of(cls, part: DataPart) -> Stopped:
        try:
            return msgspec.convert(decode(part.data), cls)
        except msgspec.MsgspecError:
            return cls("other", "The model stopped before the end of its answer.")
