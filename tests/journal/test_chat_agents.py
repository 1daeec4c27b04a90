"""What the journals of its agents add to a chat: what became of permissions, and replies that the chat did not get."""

from dragoman.journal.agent_events import (
    AgentStopped,
    PermissionDecided,
    PermissionRequested,
    RequestReceived,
    StepTaken,
    TextSaid,
)
from dragoman.journal.chat_agents import (
    AgentRequest,
    AllowedProgress,
    LostReply,
    agent_requests,
    lost_replies,
)
from dragoman.journal.chat_events import MessagesAdded, RunEnded
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent, JournalEntry
from dragoman.journal.permission_event import permission_requested
from dragoman.lm import ActivityPart, assistant, user
from dragoman.lm.parts import ActivityStatus
from dragoman.permissions.action import Action

_ACTION = Action(
    agent="claude",
    agent_name="Claude",
    risk="execute",
    kind="execute",
    title="Make it",
    command="make",
    folder="/",
)
_ASKED = permission_requested("c1", _ACTION)
_YES = PermissionDecided("c1", is_allowed=True, by="person", where="terminal", seconds=1)
_NO = PermissionDecided("c1", is_allowed=False, by="person", where="terminal", seconds=1)


def _entries(*stamped: tuple[float, AnyEvent]) -> list[JournalEntry]:
    return [JournalEntry(sequence, at, event) for sequence, (at, event) in enumerate(stamped, 1)]


def _step(status: ActivityStatus, title: str = "make") -> StepTaken:
    return StepTaken(1, ActivityPart("s1", title, "execute", status))


def _progress(*events: AnyEvent) -> AllowedProgress:
    found = agent_requests({"agent": _entries(*((0.0, event) for event in events))})
    assert found == {"c1": AgentRequest(_ACTION, found["c1"].progress)}
    return found["c1"].progress


def test_the_progress_of_a_step_counts_from_when_it_was_allowed() -> None:
    assert _progress(_ASKED, _YES) == "unknown"
    assert _progress(_step("in_progress"), _ASKED, _YES, _step("pending")) == "unknown"
    assert _progress(_ASKED, _step("in_progress"), _NO, _step("failed")) == "unknown"
    assert _progress(_ASKED, _YES, _step("in_progress", "something else")) == "unknown"
    assert _progress(_ASKED, _YES, _step("in_progress")) == "running"
    assert _progress(_ASKED, _YES, _step("in_progress", "Make it"), _step("completed", "Make it")) == "done"


def test_a_request_without_content_is_not_among_them() -> None:
    without = PermissionRequested("c1", "claude", "execute", "tool", "d")
    assert agent_requests({"agent": _entries((0.0, without), (1.0, _YES))}) == {}


def test_replies_after_the_last_message_of_an_answer_without_an_end_are_lost() -> None:
    chat = _entries(
        (0, JournalStarted("chat", "claude")),
        (1, MessagesAdded((user("one"),))),
        (3, MessagesAdded((assistant("yes"),))),
        (4, RunEnded("completed")),
        (5, MessagesAdded((user("two"),))),
        # The process was killed here.
        (9, MessagesAdded((user("three"),))),
    )
    said = [TextSaid(number, 0, 2, text) for number, text in ((1, "yes"), (2, "lost"), (3, "now"))]
    requests = [RequestReceived(number, number, "prompt", "prefix", "", "d") for number in (1, 2, 3)]
    agent = _entries(
        (2, requests[0]),
        (2.5, said[0]),
        (6, requests[1]),
        (7, said[1]),
        (7.5, AgentStopped()),
        (10, requests[2]),
        (11, said[2]),
    )
    assert lost_replies(chat, {"agent": agent}) == {
        5: [LostReply("agent", 2, (said[1],))],
        6: [LostReply("agent", 3, (said[2],))],
    }
    ended = [*chat, JournalEntry(7, 12.0, RunEnded("cancelled"))]
    assert list(lost_replies(ended, {"agent": agent})) == [5]
    assert lost_replies([], {"agent": agent}) == {}
