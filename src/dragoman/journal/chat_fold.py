"""From the events of a chat to what is needed to continue it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dragoman.journal.chat_events import MessagesAdded, ModelChosen
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.lm import Message

__all__ = ["ChatState", "fold_chat"]


class ChatState(msgspec.Struct, frozen=True):
    # The last one that was chosen.
    model: str
    messages: tuple[Message, ...] = ()
    # False: some of what was said is not stored.
    is_whole: bool = True


def fold_chat(events: Iterable[AnyEvent]) -> ChatState:
    model, is_whole = "", True
    messages: list[Message] = []
    for event in events:
        match event:
            case JournalStarted(model=chosen) | ModelChosen(model=chosen):
                model = chosen
            case MessagesAdded():
                messages += event.messages
                is_whole = is_whole and event.has_content
            case _:
                pass
    return ChatState(model, tuple(messages), is_whole)
