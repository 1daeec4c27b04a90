"""The base of all events, and those that every journal has."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

__all__ = ["ContentDeleted", "JournalEvent", "JournalKind", "JournalStarted"]

JournalKind: TypeAlias = Literal["agent", "chat", "response", "items"]


def _tag(name: str) -> str:
    return re.sub("(?<=.)([A-Z])", r"_\1", name).lower()


class JournalEvent(msgspec.Struct, frozen=True, tag_field="type", tag=_tag, omit_defaults=True):
    """Something that happened. Its JSON is its stored form, with the name of its class: `text_said`."""


class JournalStarted(JournalEvent, frozen=True):
    """The first event of a journal: what it is about."""

    kind: JournalKind
    model: str
    # The folders of the workspace, the first of them first.
    workspace: tuple[str, ...] = ()
    # Who may find it: the connection of the client, as the front end names it.
    connection: str = ""
    # The consumer's own id of the conversation.
    consumer_id: str | None = None
    # The journal of the chat that this conversation is part of.
    parent: str | None = None
    # Content: the first words of it, for a list.
    title: str = ""
    # The client behind the connection, if that is another server, as it names it.
    client: str = ""
    # The program behind the front end, by its own name.
    program: str = ""


class ContentDeleted(JournalEvent, frozen=True):
    """The content of this journal was deleted. Only decisions are left of what was before."""
