"""From the events of a journal to the entries of a chat. Pure.

An entry has a key that it keeps, and the sequence number of the last event that changed it. So a page that has seen the
journal up to an event gets only what is new or different, and replaces entries that it has. Everything in an entry is
visible: no character acts on the page or hides in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from dragoman.conversations.history import NormalAnswer, NormalItem, NormalPrompt
from dragoman.journal.agent_events import (
    AgentLaunched,
    AgentStopped,
    ConversationImported,
    PermissionDecided,
    PermissionRequested,
    PlanMade,
    ReplyEnded,
    RequestReceived,
    StepTaken,
    TextSaid,
    ThinkingSaid,
)
from dragoman.journal.chat_events import MessagesAdded, ModelChosen, RunEnded
from dragoman.journal.decision_text import decision_in_words, permission_in_words, who_decided
from dragoman.journal.event import ContentDeleted
from dragoman.journal.events import JournalEntry
from dragoman.journal.proofs import without_proofs
from dragoman.lm import (
    ActivityPart,
    DataPart,
    JsonObject,
    Message,
    Part,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from dragoman.lm.gfm import plain
from dragoman.permissions.action import is_permission_tool
from dragoman.permissions.layout import from_both_ends
from dragoman.visible import visible, visible_line

__all__ = ["ChatEntry", "ChatFold"]

# Of the result of a tool. The rest is in `dragoman conversations show`.
_LONGEST = 20_000
_NOT_STORED = "(not stored)"


@dataclass(slots=True)
class ChatEntry:
    """One entry. `text` is made of pieces, as the agent said them."""

    key: str
    # The sequence number of the last event that changed it.
    sequence: int
    at: float
    role: str
    pieces: list[str] = field(default_factory=list)
    more: JsonObject = field(default_factory=dict)
    # Of a permission: what identifies the action.
    digest: str | None = None

    def as_json(self) -> JsonObject:
        return {
            "key": self.key,
            "sequence": self.sequence,
            "at": self.at,
            "role": self.role,
            "text": visible("".join(self.pieces)),
            **self.more,
        }


class ChatFold:
    """Takes the events of one journal in order, and has the entries."""

    def __init__(self, prefix: str = "") -> None:
        """`prefix` distinguishes the keys of several journals in one chat."""
        self._prefix = prefix
        self.sequence = 0
        self.entries: dict[str, ChatEntry] = {}
        # The entry that further text of the same reply belongs to, and that reply.
        self._speaking: tuple[ChatEntry, int] | None = None
        self._turn = 0
        self._calls: dict[str, str] = {}

    def changed(self, after: int) -> list[ChatEntry]:
        """The entries that events after this one have added or changed, in the order of the chat."""
        return [entry for entry in self.entries.values() if entry.sequence > after]

    def apply(self, stored: JournalEntry) -> None:
        self.sequence = stored.sequence
        event = without_proofs(stored.event)
        match event:
            case TextSaid() | ThinkingSaid():
                self._say(stored, event)
            case RequestReceived():
                self._turn = event.turn
                if event.origin is not None:
                    self._note(stored, "This conversation branches off from another one.")
                self._items(stored, event.items)
                for result in event.results:
                    self._result(stored, self._calls.get(result.call_id), result.text)
            case ConversationImported():
                self._items(stored, event.items)
            case StepTaken(part=part):
                self._step(stored, part)
            case PlanMade(part=plan):
                self._plan(stored, plan, f"plan {event.number}")
            case PermissionRequested():
                self._permission(stored, event)
            case PermissionDecided():
                self._decided(stored, event)
            case ReplyEnded():
                self._reply_ended(stored, event)
            case AgentLaunched():
                session = "a new session" if event.is_new else "the session from before"
                self._note(stored, f"{event.name} {event.version or ''} started, with {session}.")
            case AgentStopped():
                self._note(stored, f"The agent ended{f': {event.error}' if event.error else '.'}")
            case MessagesAdded():
                for message in event.messages:
                    self._message(stored, message, has_content=event.has_content)
            case ModelChosen():
                self._note(stored, f"Model: {event.model}")
            case RunEnded() if event.reason != "completed":
                self._note(stored, f"Ended: {event.reason}{f': {event.error}' if event.error else ''}")
            case ContentDeleted():
                self._note(stored, "What was said was deleted.")
            case _:
                pass

    # What events add.

    def _say(self, stored: JournalEntry, event: TextSaid | ThinkingSaid) -> None:
        if isinstance(event, TextSaid) and event.is_notice:
            self._note(stored, plain(event.text) or _NOT_STORED)
            return
        role = "agent" if isinstance(event, TextSaid) else "thinking"
        text = event.text or f"{_NOT_STORED} "
        if self._speaking is not None:
            entry, number = self._speaking
            if entry.role == role and number == event.number:
                entry.pieces.append(text)
                entry.sequence = stored.sequence
                return
        self._speaking = self._add(stored, role, text), event.number

    def _items(self, stored: JournalEntry, items: Iterable[NormalItem]) -> None:
        for item in items:
            match item:
                case NormalPrompt():
                    self._add(stored, "user", item.text or _files(len(item.data)))
                case NormalAnswer():
                    if item.text:
                        self._add(stored, "agent", item.text)
                    for call_id, name, _ in item.calls:
                        self._call(stored, call_id, name)
                case _:
                    pass

    def _call(self, stored: JournalEntry, call_id: str, name: str) -> None:
        """A call of one of the client's tools. A permission has an entry of its own."""
        self._calls[call_id] = name
        if not is_permission_tool(name):
            self._add(stored, "step", visible_line(name))

    def _result(self, stored: JournalEntry, name: str | None, text: str) -> None:
        if name is None or not is_permission_tool(name):
            self._add(stored, "result", _shortened(text) or _NOT_STORED)

    def _step(self, stored: JournalEntry, part: ActivityPart) -> None:
        title = visible_line(part.title) or _NOT_STORED
        self._put(stored, f"step {self._turn}.{part.id}", "step", title, {"status": part.status})

    def _plan(self, stored: JournalEntry, plan: PlanPart, key: str) -> None:
        text = "\n".join(f"{_MARKS[entry.status]} {visible_line(entry.text)}" for entry in plan.entries)
        self._put(stored, key, "plan", text or _NOT_STORED)

    def _permission(self, stored: JournalEntry, event: PermissionRequested) -> None:
        words = permission_in_words(event, names_agent=False)
        entry = self._put(stored, f"permission {event.id}", "permission", words, {"outcome": None})
        entry.digest = event.digest

    def _decided(self, stored: JournalEntry, event: PermissionDecided) -> None:
        entry = self.entries.get(f"{self._prefix}permission {event.id}")
        if entry is None:
            return
        state = (
            "allowed" if event.is_allowed else {"timeout": "expired", "end": "ended"}.get(event.by, "denied")
        )
        entry.sequence = stored.sequence
        entry.more["outcome"] = {
            "state": state,
            # None: no person. `words` says what decided.
            "by": visible_line(who_decided(event)) if event.by == "person" else None,
            "words": visible_line(decision_in_words(event)),
            "at": stored.at,
            "level": event.level if event.is_allowed else None,
            "reason": None if event.why is None else visible(event.why),
            "rule": event.new_rule,
        }

    def _reply_ended(self, stored: JournalEntry, event: ReplyEnded) -> None:
        self._speaking = None
        for call_id, name, _ in event.calls:
            self._call(stored, call_id, name)
        if event.error is not None:
            self._note(stored, f"The answer failed: {event.sentence or event.error}")
        elif event.status != "complete":
            self._note(stored, f"The answer was {event.status}.")

    def _message(self, stored: JournalEntry, message: Message, *, has_content: bool) -> None:
        role = "agent" if message.role == "assistant" else "user"
        if not has_content and not message.calls and not message.results:
            self._add(stored, role, _NOT_STORED)
        for kind, same in groupby(message.content, type):
            parts = tuple(same)
            if kind is TextPart:
                self._add(stored, role, "".join(part.value for part in parts if isinstance(part, TextPart)))
            elif kind is ThinkingPart:
                said = "".join(part.text for part in parts if isinstance(part, ThinkingPart))
                self._add(stored, "thinking", said)
            else:
                for part in parts:
                    self._part(stored, part)

    def _part(self, stored: JournalEntry, part: Part) -> None:
        match part:
            case ToolCallPart():
                self._call(stored, part.call_id, part.name)
            case ToolResultPart():
                self._result(stored, part.name or self._calls.get(part.call_id), part.text)
            case ActivityPart():
                self._step(stored, part)
            case PlanPart():
                self._plan(stored, part, f"plan {stored.sequence}")
            case DataPart() if not part.is_internal:
                self._note(stored, f"{part.mime_type}, {len(part.data):,} bytes")
            case _:
                pass

    def _note(self, stored: JournalEntry, text: str) -> None:
        self._add(stored, "note", " ".join(text.split()))

    # Entries.

    def _add(self, stored: JournalEntry, role: str, text: str) -> ChatEntry:
        """A new entry. An event may add several."""
        number = 0
        while f"{self._prefix}{stored.sequence}.{number}" in self.entries:
            number += 1
        return self._put(stored, f"{stored.sequence}.{number}", role, text)

    def _put(
        self, stored: JournalEntry, key: str, role: str, text: str, more: JsonObject | None = None
    ) -> ChatEntry:
        """The entry of this key: a new one, or as it is from now on."""
        key = f"{self._prefix}{key}"
        entry = self.entries.get(key)
        if entry is None:
            # What is said after it stands below it.
            self._speaking = None
            entry = self.entries[key] = ChatEntry(key, stored.sequence, stored.at, role)
        entry.sequence, entry.pieces, entry.more = stored.sequence, [text], {**(more or {})}
        return entry


_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}


def _files(count: int) -> str:
    return _NOT_STORED if not count else "(1 file)" if count == 1 else f"({count} files)"


def _shortened(text: str) -> str:
    head, tail, left_out = from_both_ends(text, _LONGEST)
    if not left_out:
        return visible(head)
    return f"{visible(head)}\n⟨{left_out:,} characters left out⟩\n{visible(tail)}"
