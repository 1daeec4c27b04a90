"""The events of a run as a person reads them: events in, lines on the screen out.

What is over is printed for good at once; what is under way (the unfinished block of an answer, the last words of a
thought, the tools that run) is in the live lines, which `tick` draws again as time passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import RenderableType
from rich.style import Style
from rich.styled import Styled
from rich.text import Text

from dragoman.clock import Clock
from dragoman.frontends.terminal.blocks import Blocks, MarkdownBlock
from dragoman.frontends.terminal.folded import FoldedTexts
from dragoman.frontends.terminal.images import Protocol, picture
from dragoman.frontends.terminal.layout import column, elapsed, marked, note, stacked
from dragoman.frontends.terminal.markdown import render
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.steps import PlanView, StepView
from dragoman.frontends.terminal.tool_call_line import SHORTEST, ToolCallLine, failed_output, spinner
from dragoman.lm import (
    ActivityPart,
    ContentPart,
    DataPart,
    LanguageModelError,
    PlanPart,
    TextPart,
    ThinkingPart,
)
from dragoman.lm.activity_text import Activities
from dragoman.loop.events import (
    ActivityReported,
    CallDecided,
    DataReported,
    Ended,
    PlanReported,
    QuestionAsked,
    Retrying,
    RunEvent,
    TextReported,
    ThinkingReported,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    ToolUsed,
    TurnStarted,
    Withdrawn,
)
from dragoman.permissions.action import Action
from dragoman.visible import VisibleText, visible, visible_exactly, visible_line

__all__ = ["Transcript"]

_DIM = Style(dim=True)
_THOUGHT = Style(dim=True, italic=True)
_NOTICE = Style(color="yellow")
_FAILURE = Style(color="red")
_ACCEPTED = Style(color="green")
# What stands in a line beside what is done and its output: a mark, the outcome, the exit status, the time.
_BESIDE_OUTPUT = 24
# Kinds of which the second follows the first without an empty line.
_TOGETHER = {("question", "activity"), ("accepted", "activity")}
# The end of a thought that stands in its live line; more would not fit in the widest terminal.
_LAST_WORDS = 300


@dataclass(slots=True)
class _Thought:
    since: float
    words: str = ""
    # Whether there was more than white space, and than what an agent does.
    is_thinking: bool = False

    def append(self, text: str) -> None:
        self.words = (self.words + text)[-_LAST_WORDS:]
        self.is_thinking = self.is_thinking or bool(text.strip())


@dataclass(slots=True)
class _Speech:
    """Markdown on its way: an answer, or a thought that is shown in full."""

    style: Style
    text: VisibleText = field(default_factory=VisibleText)
    blocks: Blocks = field(default_factory=Blocks)

    def shown(self, block: MarkdownBlock) -> RenderableType:
        return Styled(column(render(block)), self.style)


class Transcript:
    def __init__(
        self,
        screen: Screen,
        clock: Clock,
        *,
        model: Callable[[], str],
        pictures: Protocol | None = None,
        alone: bool = False,
    ) -> None:
        """`model` names who is waited for. Where a prompt is `alone`, no other follows it."""
        self._screen = screen
        self._clock = clock
        self._pictures = pictures
        self._model = model
        self._alone = alone
        # What was shown in part. Where no prompt follows, `/last` cannot be typed.
        self.folded = FoldedTexts(hint="") if alone else FoldedTexts()
        self._shows_thinking = False
        # What stands below everything else while a person is asked.
        self._footer: RenderableType | None = None
        self._waiting_since: float | None = None
        self._speech: _Speech | None = None
        self._thought: _Thought | None = None
        self._activities: dict[str, ToolCallLine] = {}
        # An agent's activities: those that run, by id, those that are printed, and the plan.
        self._steps: dict[str, StepView] = {}
        self._over: set[str] = set()
        self._plan = PlanView()
        # Where thinking is shown in full, so is what an agent does.
        self._written = Activities()
        # Actions that the user refused: their failure needs no further line.
        self._refused: set[str] = set()
        # Actions that the user allowed: the agent gets the permission with its next prompt.
        self._allowed: list[str] = []
        # The kind of what was printed last: things of one kind stand together, an empty line sets others apart.
        self._last = ""

    def begin(self) -> None:
        """Begin the output for a prompt that was printed above."""
        self._last = "prompt"

    def end_again(self, event: Ended, notes: Iterable[str]) -> None:
        """The end of an answer that is drawn again. `notes`: what is known of that which was allowed and not reported."""
        self._allowed.clear()
        for text in notes:
            self._note("⊘", text, _NOTICE)
        self._end(event)

    def on_event(self, event: RunEvent) -> None:
        match event:
            case TurnStarted():
                self._allowed.clear()
                self._waiting_since = self._clock.now()
            case TextReported(text=text):
                self._speak(text)
            case ThinkingReported(text=text):
                self._think(text)
            case ActivityReported(part=part):
                self._step(part)
            case PlanReported(part=part):
                self._begin_thought()
                self._plan.update(part)
                self._write(part)
                self._waiting_since = self._clock.now()
            case DataReported(part=part):
                self._settle()
                # Its line comes as text, from the guard.
                self._show_picture(part)
            case Withdrawn():
                self._note("↺", "It starts again: what this answer said so far does not count.", _NOTICE)
            case Retrying(delay=delay, error=error):
                self._note("↻", _sentences(error, f"Trying again in {elapsed(delay)}."), _NOTICE)
            case ToolUsed(call=call):
                self._settle()
                self._activities[call.call_id] = ToolCallLine(call)
            case QuestionAsked(call_id=call_id) if call_id in self._activities:
                self._activities[call_id].title = event.summary or event.title
                self._activities[call_id].subject = event.subject
            case CallDecided(by="mode", allowed=True):
                self._accept(event)
            case CallDecided(call=call, allowed=False) if call.call_id in self._activities:
                # Without a question, this is all that says what the call would have done.
                line = self._activities[call.call_id]
                line.title = line.title or event.doing
            case CallDecided(allowed=False, action=Action(title=title)):
                # An agent's own action. A notice in its answer says so; the failed step needs no further line.
                self._refused.add(visible_exactly(title))
            case ToolStarted(call_id=call_id) if call_id in self._activities:
                activity = self._activities[call_id]
                activity.started, activity.since = event, self._clock.now()
            case ToolProgressed(call_id=call_id, line=line) if call_id in self._activities:
                self._activities[call_id].progress = line
            case ToolFinished():
                self._finish(event)
            case Ended():
                self._end(event)
            case _:
                pass

    def toggle_thinking(self) -> bool:
        """Whether thinking is shown in full from now on."""
        self._shows_thinking = not self._shows_thinking
        return self._shows_thinking

    def tick(self) -> None:
        """Draw the live lines as they are now."""
        self._screen.show(self._live())

    def ask(self, footer: RenderableType | None) -> None:
        """Show a footer below everything; None removes it."""
        self._settle()
        self._footer = footer
        self.tick()

    def say(self, renderable: RenderableType, kind: str) -> None:
        """Print something permanently, with an empty line between things of different kinds."""
        # The outcome of a call belongs to its question.
        if self._last and self._last != kind and (self._last, kind) not in _TOGETHER:
            self._screen.print()
        self._last = kind
        self._screen.print(renderable)

    def _live(self) -> RenderableType | None:
        now = self._clock.now()
        lines: list[RenderableType] = []
        if self._speech is not None and (rest := self._speech.blocks.rest()) is not None:
            gap = rest.gap and bool(self._last)
            lines += [Text(), self._speech.shown(rest)] if gap else [self._speech.shown(rest)]
        if self._thought is not None and self._thought.is_thinking:
            lines.append(_thinking(self._thought, now, self._screen.console.width))
        lines += [
            line for activity in self._activities.values() if (line := activity.running(now)) is not None
        ]
        # One that has not begun may be the subject of the question.
        lines += [
            step.running(now) for step in self._steps.values() if step.is_running or self._footer is None
        ]
        if not self._shows_thinking:
            lines += self._plan.changes()
        if self._waiting_since is not None:
            waited = Text(f"{visible_line(self._model())} · {elapsed(now - self._waiting_since)}", _DIM)
            lines.append(marked(spinner(now), waited, _DIM))
        if self._footer is not None:
            lines.append(self._footer)
        return stacked(lines, loose=False) if lines else None

    def _speak(self, text: str) -> None:
        self._waiting_since = None
        self._end_thought()
        self._stream(text, Style())

    def _think(self, text: str) -> None:
        self._begin_thought().append(text)
        if self._shows_thinking:
            self._written.present(ThinkingPart(text), structured=False)
            self._stream(text, _THOUGHT)

    def _begin_thought(self) -> _Thought:
        self._waiting_since = None
        if self._thought is None:
            self._end_speech()
            self._thought = _Thought(self._clock.now())
        return self._thought

    def _step(self, part: ActivityPart) -> None:
        self._begin_thought()
        self._write(part)
        if part.id in self._over:
            return
        now = self._clock.now()
        step = self._steps.setdefault(part.id, StepView(part))
        step.update(part, now)
        if step.is_over:
            del self._steps[part.id]
            self._over.add(part.id)
            if not self._shows_thinking and not self._was_refused(part):
                self._settle()
                self._say_outcome(
                    lambda fits: step.finished(now, with_output=fits),
                    visible_line(part.title),
                    step.failed_output,
                )
            # The agent goes on, and has not reported an activity yet.
            self._waiting_since = now

    def _accept(self, event: CallDecided) -> None:
        """Show an edit that the mode of this chat accepts, with its change."""
        self._settle()
        doing = visible_line(event.doing)
        self.say(marked("→", Text(doing), _ACCEPTED, fixed=Text(" · accepted", _ACCEPTED)), "accepted")
        self.say(self.folded.change(doing, event.change), "accepted")

    def _was_refused(self, part: ActivityPart) -> bool:
        """Whether an activity failed because the user refused it, which is on the screen already."""
        # The question had shown what hides in it.
        title = visible_exactly(part.title)
        if part.status != "failed" or title not in self._refused:
            return False
        self._refused.discard(title)
        return True

    def _write(self, part: ActivityPart | PlanPart) -> None:
        """Print an agent's activity in full, if thinking is shown in full."""
        if self._shows_thinking:
            for shown in self._written.present(part, structured=False):
                if isinstance(shown, ThinkingPart):
                    self._stream(shown.text, _THOUGHT)

    def _stream(self, text: str, style: Style) -> None:
        speech = self._speech = self._speech or _Speech(style)
        self._print_blocks(speech, speech.blocks.feed(speech.text.feed(text)))

    def _print_blocks(self, speech: _Speech, blocks: list[MarkdownBlock]) -> None:
        for block in blocks:
            if block.gap and self._last:
                self._screen.print()
            self._last = "speech"
            self._screen.print(speech.shown(block))

    def _end_speech(self) -> None:
        if self._speech is not None:
            speech, self._speech = self._speech, None
            self._print_blocks(speech, speech.blocks.feed(speech.text.end()) + speech.blocks.close())

    def _end_thought(self) -> None:
        if self._thought is not None:
            self._end_speech()
            thought, self._thought = self._thought, None
            took = self._clock.now() - thought.since
            if thought.is_thinking:
                words = f"thought for {elapsed(took)}" if took >= SHORTEST else "thought"
                self.say(marked("✻", Text(words, _DIM), _DIM), "activity")
            for line in self._plan.take():
                if not self._shows_thinking:
                    self.say(line, "activity")

    def _settle(self) -> None:
        """End the current text or thought."""
        self._waiting_since = None
        self._end_thought()
        self._end_speech()

    def _finish(self, event: ToolFinished) -> None:
        self._settle()
        activity = self._activities.pop(event.result.call_id, None)
        if activity is not None and activity.is_permission:
            if event.result.outcome == "ok":
                self._allowed.append(activity.about)
            else:
                self._refused.add(visible_exactly(activity.subject))
        if activity is not None and not activity.is_already_known(event.result):
            self._say_outcome(
                lambda fits: activity.finished(event.result, event.seconds, with_output=fits),
                activity.about,
                failed_output(event.result),
            )
        for part in event.result.content:
            self._show_content(part)

    def _say_outcome(self, line: Callable[[bool], RenderableType], about: str, output: str) -> None:
        """Print the last line about a step or a call. What it said when it failed stands in it, or folded below."""
        room = self._screen.console.width - cell_len(about) - _BESIDE_OUTPUT
        fits = not output or ("\n" not in output and cell_len(output) <= room)
        self.say(line(fits), "activity")
        if not fits:
            self.say(self.folded.output(about, output), "activity")

    def _show_content(self, part: ContentPart) -> None:
        """Print the parts of a tool's result that are for the user."""
        if part.audience and "user" not in part.audience:
            return
        match part:
            case TextPart(value=text) if part.audience:
                self._stream(text, Style())
                self._end_speech()
            case DataPart() if not part.is_internal:
                line = Text(f"▣ {visible_line(part.mime_type)}, {len(part.data):,} bytes", _DIM)
                self.say(column(line), "activity")
                self._show_picture(part)
            case _:
                pass

    def _show_picture(self, part: DataPart) -> None:
        if self._pictures is not None:
            sequence = picture(part, self._pictures, width=self._screen.console.width)
            if sequence is not None:
                self._screen.send(sequence)

    def _end(self, event: Ended) -> None:
        self._settle()
        match event.reason:
            case "completed":
                pass
            case "cancelled":
                self._note("⊘", "Cancelled.", _NOTICE)
            case "tool_denied":
                then = "" if self._alone else " Say how to go on."
                self._note("⊘", f"Stopped, because a tool was denied.{then}", _NOTICE)
            case "turn_limit":
                self._note("⊘", "Stopped: that was as many turns as one prompt may take.", _NOTICE)
            case "timed_out":
                self._note("⊘", "Stopped: no decision in time.", _NOTICE)
            case "suspended":
                self._note("⊘", "Suspended until a person can be asked.", _NOTICE)
            case "failed":
                self._note("✗", _sentences(event.error or "The model failed.", event.hint), _FAILURE)
        if self._allowed:
            self._note_allowed(goes_on=not self._alone and event.reason != "cancelled")
        self._screen.show(None)
        self._steps.clear()
        self._over.clear()
        self._last = ""
        if event.reason != "tool_denied":
            # After a denial, the next prompt reports it to the agent.
            self._refused.clear()

    def _note_allowed(self, *, goes_on: bool) -> None:
        """Say what is allowed and not done: the agent gets the permission only when it is prompted again."""
        what = "; ".join(self._allowed)
        if goes_on:
            then = "With your next prompt the agent goes on and does it; /new takes it back."
            self._note("⊘", f"Allowed, and not done yet: {what}. {then}", _NOTICE)
        else:
            self._note("⊘", f"Allowed, and not done: {what}.", _NOTICE)

    def _note(self, mark: str, text: str, style: Style) -> None:
        self._settle()
        self.say(note(mark, text, style), "note")


def _sentences(cause: str, next_step: str | None) -> str:
    sentences = LanguageModelError("internal", cause.rstrip(), hint=next_step).sentence
    return "\n".join(filter(None, map(visible_line, sentences.splitlines())))


def _thinking(thought: _Thought, now: float, width: int) -> RenderableType:
    """On one line, its last words rather than its first: what a thought has come to is at its end."""
    line = Text(f"thinking · {elapsed(now - thought.since)} · ", _DIM)
    words = " ".join(visible(thought.words).split())
    room = width - line.cell_len - len("✻ …")
    while words and cell_len(words) > room:
        words = words[1:]
    line.append(f"…{words}", _THOUGHT)
    return marked("✻", line, _DIM)
