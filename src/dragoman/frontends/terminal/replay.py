"""Shows again what was said in a stored chat, drawn as it was when it was said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.style import Style
from rich.text import Text

from dragoman.frontends.terminal.layout import Hanging, note, place
from dragoman.frontends.terminal.prompt import CONTINUATION, MARK
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.stored_chats import StoredChat, time_of
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.journal.agent_events import (
    PermissionDecided,
    PermissionRequested,
    PlanMade,
    StepTaken,
    TextSaid,
    ThinkingSaid,
)
from dragoman.journal.chat_agents import (
    AgentRequest,
    AllowedProgress,
    LostReply,
    agent_requests,
    begins_prompt,
    is_prompt,
    lost_replies,
)
from dragoman.journal.chat_events import MessagesAdded, ModelChosen, RunEnded
from dragoman.journal.events import JournalEntry
from dragoman.lm import (
    ActivityPart,
    DataPart,
    Message,
    Part,
    PlanPart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
)
from dragoman.loop.events import (
    ActivityReported,
    DataReported,
    Ended,
    EndReason,
    PlanReported,
    QuestionAsked,
    TextReported,
    ThinkingReported,
    ToolFinished,
    ToolStarted,
    ToolUsed,
    TurnStarted,
)
from dragoman.permissions.question import in_one_line, what_in_one_line
from dragoman.visible import visible, visible_line

__all__ = ["replay"]

# More is a matter for `dragoman conversations show`.
_MOST_PROMPTS = 20
_ALLOWED = Style(color="green")
_NOTICE = Style(color="yellow")
_CUT = "The chat ended here, before the answer was complete."
# What is known of an action that was allowed shortly before the answer ended.
_PROGRESS: dict[AllowedProgress, str] = {
    "unknown": "Whether it was done is not known.",
    "running": "It was running when the {what} ended; it may have taken effect.",
    "done": "It was over when the {what} ended.",
}
_LEVELS = {"once": "allowed once", "session": "allowed for that session"}
_REASONS: dict[str, EndReason] = {
    "tool_denied": "tool_denied",
    "cancelled": "cancelled",
    "turn_limit": "turn_limit",
    "timed_out": "timed_out",
    "failed": "failed",
}


def replay(id_: str, chat: StoredChat, screen: Screen, transcript: Transcript) -> None:
    """Draw the last prompts of a chat and what came of them, and a line that says from when it is."""
    entries = chat.entries
    starts = [place for place, entry in enumerate(entries) if begins_prompt(entry.event)]
    first = starts[-_MOST_PROMPTS] if len(starts) > _MOST_PROMPTS else 0
    if first:
        hidden = (
            f"{len(starts) - _MOST_PROMPTS} earlier prompts: dragoman conversations show {id_} shows them."
        )
        screen.print(note("○", hidden, Style(dim=True)))
        screen.print()
    drawing = _Drawing(
        screen, transcript, agent_requests(chat.agents), lost_replies(chat.entries, chat.agents)
    )
    for entry in entries[first:]:
        drawing.draw(entry)
    drawing.end()
    screen.print(note("●", f"continued from {time_of(entries[-1].at)}", Style(dim=True)))


class _Drawing:
    def __init__(
        self,
        screen: Screen,
        transcript: Transcript,
        requests: Mapping[str, AgentRequest],
        lost: Mapping[int, Sequence[LostReply]],
    ) -> None:
        self._requests = requests
        self._lost = lost
        self._screen = screen
        self._transcript = transcript
        self._is_open = False
        self._asked: dict[str, PermissionRequested] = {}
        # What agents may do, and had not reported when the last message was recorded.
        self._allowed: list[AgentRequest] = []

    def draw(self, entry: JournalEntry) -> None:
        event = entry.event
        match event:
            case MessagesAdded():
                for message in event.messages:
                    self._message(message)
                for reply in self._lost.get(entry.sequence, ()):
                    self._lost_reply(reply)
            case PermissionRequested():
                self._asked[event.id] = event
            case PermissionDecided():
                self._decision(event)
            case ModelChosen():
                self._screen.print(note("●", f"Going on with {visible_line(event.model)}."))
                self._screen.print()
            case RunEnded():
                self._end(Ended(_REASONS.get(event.reason, "completed"), event.error, event.hint))
            case _:
                pass

    def end(self) -> None:
        """Say that the last answer is not complete, if that is so."""
        if self._is_open:
            self._end(Ended("completed"), "chat")
            self._screen.print(note("⊘", _CUT, _NOTICE))
            self._screen.print()

    def _end(self, event: Ended, what: str = "answer") -> None:
        self._is_open = False
        notes = [
            f"Allowed to {visible_line(what_in_one_line(each.action))}. {_PROGRESS[each.progress].format(what=what)}"
            for each in self._allowed
        ]
        self._transcript.end_again(event, notes)
        self._allowed.clear()
        self._screen.print()

    def _message(self, message: Message) -> None:
        if is_prompt(message):
            self.end()
            body = Text(visible(message.text.strip()), overflow="fold")
            self._screen.print(Hanging(MARK, CONTINUATION, body, Style(color="cyan", bold=True)))
            self._transcript.begin()
            self._is_open = True
        elif message.role == "assistant":
            self._allowed.clear()
            self._transcript.on_event(TurnStarted(1))
            for part in message.content:
                self._part(part)
            for call in message.calls:
                self._transcript.on_event(ToolUsed(call))
        for result in message.results:
            if (request := self._requests.get(result.call_id)) is not None:
                self._request(result, request)
            self._transcript.on_event(ToolFinished(result, approved=result.outcome == "ok"))

    def _request(self, result: ToolResultPart, request: AgentRequest) -> None:
        """An agent has asked for a permission. The question itself is not drawn again."""
        name, words = result.name or "", in_one_line(request.action)
        if result.outcome == "ok":
            what = visible_line(what_in_one_line(request.action))
            self._transcript.say(note("→", f"allowed to {what}", _ALLOWED), "question")
            self._transcript.on_event(ToolStarted(result.call_id, name, words, "approved once"))
            self._allowed.append(request)
        else:
            # The step of an action that was refused is not drawn: it fails.
            asked = QuestionAsked(result.call_id, name, words, subject=request.action.title)
            self._transcript.on_event(asked)

    def _lost_reply(self, reply: LostReply) -> None:
        """What an agent had said and done when the chat's process ended."""
        self._transcript.on_event(TurnStarted(1))
        for event in reply.events:
            match event:
                case TextSaid(text=text):
                    self._transcript.on_event(TextReported(text))
                case ThinkingSaid(text=text):
                    self._transcript.on_event(ThinkingReported(text))
                case StepTaken(part=step):
                    self._part(step)
                case PlanMade(part=plan):
                    self._part(plan)
                case _:
                    pass

    def _part(self, part: Part) -> None:
        match part:
            case TextPart(value=text):
                self._transcript.on_event(TextReported(text))
            case ThinkingPart():
                self._transcript.on_event(ThinkingReported(part.text))
            case ActivityPart():
                self._transcript.on_event(ActivityReported(part))
            case PlanPart():
                self._transcript.on_event(PlanReported(part))
            case DataPart() if not part.is_internal:
                self._transcript.on_event(DataReported(part))
            case _:
                pass

    def _decision(self, event: PermissionDecided) -> None:
        asked = self._asked.pop(event.id, None)
        if asked is None or asked.action is None:
            return
        title = asked.action.title
        if not event.is_allowed:
            self._transcript.on_event(QuestionAsked(event.id, asked.tool, title))
            return
        approved = event.why or ""
        if event.by == "person":
            approved = "approved once"
            allowed = _LEVELS.get(event.why or "once", "allowed from then on")
            if event.new_rule is not None:
                allowed += f", and from then on by the rule at {visible_line(place(event.new_rule))}"
            self._transcript.say(note("→", allowed, _ALLOWED), "question")
        self._transcript.on_event(ToolStarted(event.id, asked.tool, title, approved))
