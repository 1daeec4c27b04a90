"""Identification, searched: editors and plain clients that send their histories in any form.

Each chat knows the truth about itself: what its user said, which answers it has, which calls are open. What it sends is
a history of that: text merged and trimmed, thinking dropped, markers kept or lost, user messages rendered anew, results
shortened. Behind the bridge each conversation has an agent that remembers what it heard. Whatever the chats do, an agent
has heard what the user of its chat said, all of it, once and in order; it knows of no answer that was thrown away; and
it never hears of another chat. A piece of an answer is repeated only to a client that proves its retry, and only if its
agent has acted. A request that is sent again, unchanged and with its key, gets the reply to it, also of a fork.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from agent.bridge import Bridge, result
from dragoman.conversations.identify import Identified
from dragoman.conversations.records import ReplyStatus
from dragoman.journal.agent_events import StepTaken
from dragoman.lm import (
    ActivityPart,
    DataPart,
    JsonObject,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    assistant,
    system,
    user,
)
from dragoman.lm.parts import CACHE_CONTROL
from searching import examples

GOES_ON = ("prompt", "results", "results_and_prompt", "refusal")
# Few words, so that chats begin alike.
WORDS = st.sampled_from(["hello", "yes", "go on", "why?"])
CACHE = DataPart(CACHE_CONTROL, b"{}")
STOPPED = "The user cancelled the tool call."
STEP = StepTaken(1, ActivityPart("a", "Run", "execute", "completed"))
RETRY: JsonObject = {"_isRetry": True}
_KEY = "_idempotencyKey"


@dataclass(frozen=True)
class Said:
    text: str


@dataclass(frozen=True)
class Answered:
    """An answer as the chat has it; `source` is the conversation and the number of the reply, or None for another model's."""

    text: str
    calls: tuple[ToolCallPart, ...] = ()
    marker: DataPart | None = None
    source: tuple[str, int] | None = None


@dataclass(frozen=True)
class Given:
    call_id: str
    text: str


Entry = Said | Answered | Given


@dataclass
class Chat:
    family: int
    markers: Literal["all", "some", "none"]
    consumer_id: str | None
    rerenders: bool
    entries: list[Entry] = field(default_factory=list)
    open_calls: tuple[str, ...] = ()
    # What its client names the last request, if it does.
    key: JsonObject = field(default_factory=dict)
    # That request, and the conversation and the number of the reply to it.
    sent: tuple[Message, ...] = ()
    reply: tuple[str, int] = ("", 0)

    @property
    def words(self) -> list[str]:
        return [entry.text for entry in self.entries if isinstance(entry, Said)]

    @property
    def answers(self) -> list[str]:
        return [entry.text for entry in self.entries if isinstance(entry, Answered)]

    @property
    def last_answer(self) -> Answered | None:
        return next((entry for entry in reversed(self.entries) if isinstance(entry, Answered)), None)


@dataclass
class Agent:
    family: int
    heard: list[str]
    said: list[str] = field(default_factory=list)
    # Whether it has taken a step in its last turn.
    has_acted: bool = False


def words_in(messages: tuple[Message, ...]) -> list[str]:
    return [
        found
        for message in messages
        if message.role == "user"
        for found in re.findall(r"\[\[(.*?)\]\]", message.text)
    ]


class Consumers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bridge = Bridge()
        self.numbers = count(1)
        self.chats: list[Chat] = []
        self.agents: dict[str, Agent] = {}

    # Sending a history.

    def render(self, chat: Chat, data: st.DataObject) -> tuple[Message, ...]:
        messages: list[Message] = [system(f"It is {data.draw(st.integers(0, 3))} o'clock.")]
        for entry in chat.entries:
            match entry:
                case Said(text=text):
                    frame = f"<{chat.family} at {data.draw(st.integers(0, 2))}>" if chat.rerenders else ""
                    noise: list[Part] = [CACHE] if data.draw(st.booleans()) else []
                    messages.append(user(f"{frame}[[{text}]]", *noise, ""))
                case Given(call_id=call_id, text=text):
                    cut = text if text == STOPPED else text[: data.draw(st.integers(0, 9))]
                    messages.append(
                        user(result(call_id, cut), *([CACHE] if data.draw(st.booleans()) else []))
                    )
                case Answered():
                    messages += self.render_answer(chat, entry, data)
            if data.draw(st.integers(0, 9)) == 0:
                messages.append(
                    data.draw(st.sampled_from([user(""), system("x"), assistant(ThinkingPart("hm"))]))
                )
        return tuple(messages)

    def render_answer(self, chat: Chat, entry: Answered, data: st.DataObject) -> list[Message]:
        keeps = chat.markers == "all" or (chat.markers == "some" and data.draw(st.booleans()))
        parts: list[Part] = [entry.marker] if entry.marker is not None and keeps else []
        if data.draw(st.booleans()):
            parts.append(ThinkingPart("so"))
        text = entry.text.rstrip("\n") if data.draw(st.booleans()) else entry.text
        middle = data.draw(st.integers(0, len(text)))
        parts += [TextPart(text[:middle]), TextPart(""), TextPart(text[middle:])]
        calls = [replace_input(call) if data.draw(st.booleans()) else call for call in entry.calls]
        is_split = data.draw(st.booleans())
        if calls and is_split:
            return [assistant(*parts), assistant(*calls)]
        return [assistant(*parts, *calls)]

    # One request.

    def send(
        self,
        chat: Chat,
        data: st.DataObject,
        *,
        expects: tuple[str, ...] = (),
        proof: JsonObject | None = None,
    ) -> Identified:
        """`proof` is what the client says about a request that it repeats."""
        messages = self.render(chat, data)
        before = self.last_known(chat, messages)
        key: JsonObject = {_KEY: f"{next(self.numbers)}"}
        options = data.draw(st.sampled_from([{}, key])) if proof is None else proof
        found = self.bridge.identify(messages, consumer_id=chat.consumer_id, model_options=options)
        if found.conversation is not None and found.kind in (*GOES_ON, "retry"):
            agent = self.agents[found.conversation]
            if agent.family != chat.family:
                # Only where no difference can be seen: from now on it is the agent of this chat.
                assert found.kind in ("prompt", "retry"), "joined somebody else's conversation"
                assert agent.heard == chat.words[: len(agent.heard)]
                assert agent.said[: len(chat.answers)] == chat.answers
                agent.family = chat.family
        if before is not None and before[1]:
            assert found.conversation == before[0], f"{found.kind}: {found.reason}"
            assert found.kind in GOES_ON, f"{found.kind}: {found.reason}"
        if expects:
            assert found.kind in expects, f"{found.kind}: {found.reason}"
        if found.kind == "retry":
            assert found.conversation is not None
            repeated = self.bridge.record(found.conversation).last
            assert repeated is not None
            if repeated.status == "cut":
                assert proof, "a piece is no answer"
                assert self.agents[found.conversation].has_acted, "it could have been asked again"
            return found
        self.hear(chat, found, messages)
        assert self.current.last is not None
        chat.key, chat.sent, chat.reply = options, messages, (self.current.id, self.current.last.number)
        self.answer(chat, found, data)
        return found

    def last_known(self, chat: Chat, messages: tuple[Message, ...]) -> tuple[str, bool] | None:
        """Whose last answer the chat has, and whether its name is in what is sent and nothing of ours came after it."""
        last = chat.last_answer
        if last is None or last.source is None:
            return None
        conversation, number = last.source
        reply = self.bridge.record(conversation).last
        names = {part.data for message in messages for part in message.content if isinstance(part, DataPart)}
        ids = {call.call_id for message in messages for call in message.calls}
        named = (last.marker is not None and last.marker.data in names) or any(
            call.call_id in ids for call in last.calls
        )
        return conversation, named and reply is not None and reply.number == number

    def hear(self, chat: Chat, found: Identified, messages: tuple[Message, ...]) -> None:
        record = self.bridge.take(found, consumer_id=chat.consumer_id)
        agent = self.agents.get(record.id)
        if agent is None:
            said = [entry.text for entry in chat.entries if isinstance(entry, Answered)]
            agent = self.agents[record.id] = Agent(chat.family, words_in(messages), said)
        else:
            agent.heard += words_in((*found.meanwhile, *found.prompt))
            agent.said += [message.text for message in found.meanwhile if message.role == "assistant"]
        self.current = record
        agent.has_acted = agent.has_acted and found.kind in ("results", "results_and_prompt")
        assert agent.heard == chat.words, f"{found.kind} by {found.evidence}: {found.reason}"
        open_calls = {given.call_id for given in found.results}
        assert open_calls <= set(chat.open_calls)
        chat.open_calls = ()

    def answer(self, chat: Chat, found: Identified, data: st.DataObject) -> None:
        number = next(self.numbers)
        text = data.draw(
            st.sampled_from(["", "OK.", f"Answer {number}.\n", f"A long answer {number} in words."])
        )
        calls = data.draw(st.integers(0, 2))
        status: ReplyStatus | None = data.draw(
            st.sampled_from(["complete", "complete", "complete", "cut", "failed", None])
        )
        if status != "complete":
            calls = 0
        if data.draw(st.integers(0, 3)) == 0:
            self.current = self.bridge.timeline(self.current.id).do(STEP)
            self.agents[self.current.id].has_acted = True
        record, parts = self.bridge.say(self.current, text, calls, status)
        self.agents[record.id].said.append(text)
        last = record.last
        assert last is not None
        made = tuple(part for part in parts if isinstance(part, ToolCallPart))
        marker = parts[0]
        assert isinstance(marker, DataPart)
        is_lost = status == "complete" and data.draw(st.integers(0, 7)) == 0
        if status is not None and data.draw(st.booleans()):
            whole = not is_lost if status == "complete" else data.draw(st.booleans())
            self.bridge.deliver(record.id, whole=whole)
        if is_lost:
            # The chat has got nothing of it.
            return
        if status == "failed" and data.draw(st.booleans()):
            # An editor throws away what it has of a response that failed.
            return
        retained = text if status == "complete" else text[: data.draw(st.integers(0, len(text)))]
        if retained.strip() or made or (chat.markers != "none" and data.draw(st.booleans())):
            chat.entries.append(Answered(retained, made, marker, (record.id, last.number)))
            chat.open_calls = tuple(call.call_id for call in made)

    # What people do.

    @rule(
        markers=st.sampled_from(["all", "some", "none"]),
        has_id=st.booleans(),
        rerenders=st.booleans(),
        word=WORDS,
        data=st.data(),
    )
    def begin(
        self,
        markers: Literal["all", "some", "none"],
        has_id: bool,  # noqa: FBT001
        rerenders: bool,  # noqa: FBT001
        word: str,
        data: st.DataObject,
    ) -> None:
        family = next(self.numbers)
        chat = Chat(family, markers, f"chat {family}" if has_id else None, rerenders and markers == "all")
        self.chats.append(chat)
        chat.entries.append(Said(word))
        self.send(chat, data, expects=("fresh",))

    @precondition(lambda self: self.chats)
    @rule(word=WORDS, data=st.data())
    def say(self, word: str, data: st.DataObject) -> None:
        """A new message: where calls are open, they are refused by it."""
        chat = self.pick(data)
        chat.entries.append(Said(word))
        self.send(chat, data)

    @precondition(lambda self: any(chat.open_calls for chat in self.chats))
    @rule(steers=st.booleans(), word=WORDS, stops=st.booleans(), data=st.data())
    def give(self, steers: bool, word: str, stops: bool, data: st.DataObject) -> None:  # noqa: FBT001
        chat = data.draw(st.sampled_from([chat for chat in self.chats if chat.open_calls]))
        given = data.draw(st.lists(st.sampled_from(chat.open_calls), min_size=1, unique=True))
        chat.entries += [Given(call_id, STOPPED if stops else "a long result") for call_id in given]
        if steers or stops:
            chat.entries.append(Said(word))
        kinds = ("refusal",) if stops else ("results_and_prompt",) if steers else ("results",)
        last = chat.last_answer
        assert last is not None
        assert last.source is not None
        conversation, number = last.source
        # A copy of this chat may have gone on before it.
        reply = self.bridge.record(conversation).last
        is_last = reply is not None and reply.number == number
        self.send(chat, data, expects=kinds if is_last else ())

    @precondition(lambda self: self.chats)
    @rule(word=WORDS, data=st.data())
    def edit(self, word: str, data: st.DataObject) -> None:
        chat = self.pick(data)
        said = [index for index, entry in enumerate(chat.entries) if isinstance(entry, Said)]
        index = data.draw(st.sampled_from(said))
        edited = Said(f"{word} (edited {next(self.numbers)})")
        self.throw_away(chat, index, data, edited)

    @precondition(lambda self: any(chat.answers for chat in self.chats))
    @rule(data=st.data())
    def regenerate(self, data: st.DataObject) -> None:
        chat = data.draw(st.sampled_from([chat for chat in self.chats if chat.answers]))
        last = max(index for index, entry in enumerate(chat.entries) if isinstance(entry, Said))
        self.throw_away(chat, last + 1, data)

    def throw_away(self, chat: Chat, start: int, data: st.DataObject, *instead: Entry) -> None:
        """All from there on: none of the agents that said it may go on."""
        gone = [
            entry.source for entry in chat.entries[start:] if isinstance(entry, Answered) and entry.source
        ]
        chat.entries[start:] = instead
        chat.open_calls = ()
        # No reply streams any more, and no request is repeated, unless it is known that the chat has no answer to it.
        self.bridge.now += 60
        for record in list(self.bridge.records):
            if record.last is not None and record.last.ended_at is None:
                self.bridge.cut(record.id)
        self.send(chat, data)
        assert self.current.id not in {conversation for conversation, _ in gone}

    @precondition(lambda self: any(isinstance(chat.entries[-1], Said) for chat in self.chats))
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """The very same again, at once: joined, answered alike, or asked anew, but never said twice to one agent."""
        chat = data.draw(st.sampled_from([chat for chat in self.chats if isinstance(chat.entries[-1], Said)]))
        proofs: list[JsonObject] = [{}, RETRY, chat.key, {**chat.key, **RETRY}]
        self.send(chat, data, proof=data.draw(st.sampled_from(proofs)))

    @precondition(lambda self: any(_KEY in chat.key for chat in self.chats))
    @rule(data=st.data(), counts=st.booleans())
    def send_again(self, data: st.DataObject, counts: bool) -> None:  # noqa: FBT001
        """A client's library sends the very same bytes: none is asked twice for what it has answered, or done."""
        chat = data.draw(st.sampled_from([chat for chat in self.chats if _KEY in chat.key]))
        conversation, number = chat.reply
        last = self.bridge.record(conversation).last
        assert last is not None
        options = {**chat.key, **RETRY} if counts else chat.key
        found = self.bridge.identify(chat.sent, consumer_id=chat.consumer_id, model_options=options)
        is_answer = last.status == "streaming" or (last.status != "cut" and last.ends > last.starts)
        if last.number == number and (is_answer or (last.status == "cut" and last.has_acted)):
            assert (found.kind, found.conversation) == ("retry", conversation), found.reason

    @precondition(lambda self: any(chat.open_calls for chat in self.chats))
    @rule(word=WORDS, whole=st.booleans(), data=st.data())
    def vanish(self, word: str, whole: bool, data: st.DataObject) -> None:  # noqa: FBT001
        """An old editor forgets a refused turn: its rounds, or all of it with the words that opened it."""
        chat = data.draw(st.sampled_from([chat for chat in self.chats if chat.open_calls]))
        last = max(index for index, entry in enumerate(chat.entries) if isinstance(entry, Said))
        rounds = [
            index for index in range(last, len(chat.entries)) if isinstance(chat.entries[index], Answered)
        ]
        instead = Said(f"{word} (instead {next(self.numbers)})")
        if whole:
            self.throw_away(chat, last, data, instead)
            return
        del chat.entries[data.draw(st.sampled_from(rounds)) :]
        chat.open_calls = ()
        chat.entries.append(instead)
        self.send(chat, data)

    @precondition(lambda self: self.chats)
    @rule(word=WORDS, data=st.data())
    def summarise(self, word: str, data: st.DataObject) -> None:
        """Nothing is left of the history but a summary, and what is said after it."""
        chat = self.pick(data)
        summary = Said(f"<conversation-summary>{next(self.numbers)}</conversation-summary>")
        self.throw_away(chat, 0, data, summary, Said(word))

    @precondition(lambda self: self.chats)
    @rule(word=WORDS, calls=st.booleans(), data=st.data())
    def another_model(self, word: str, calls: bool, data: st.DataObject) -> None:  # noqa: FBT001
        chat = self.pick(data)
        number = next(self.numbers)
        chat.entries.append(Said(word))
        if calls:
            call = ToolCallPart(f"call_{number}", "look", {})
            chat.entries += [Answered(f"B looks {number}", (call,)), Given(call.call_id, "seen by B")]
        chat.entries.append(Answered(f"B says {number}"))
        chat.open_calls = ()

    @precondition(lambda self: 0 < len(self.chats) < 6)
    @rule(data=st.data())
    def duplicate(self, data: st.DataObject) -> None:
        """The same history in a second chat: both may go on."""
        chat = self.pick(data)
        other = f"copy {next(self.numbers)}" if chat.consumer_id is not None else None
        # It has sent no request of its own yet, which it could send again.
        self.chats.append(replace(chat, entries=list(chat.entries), consumer_id=other, key={}))

    def pick(self, data: st.DataObject) -> Chat:
        return data.draw(st.sampled_from(self.chats))


def replace_input(call: ToolCallPart) -> ToolCallPart:
    """As a consumer in JavaScript writes the arguments."""
    return ToolCallPart(
        call.call_id, call.name, {key: float(str(value)) for key, value in call.input.items()}
    )


Consumers.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=25, deadline=None)
TestI3IdentitySearched = Consumers.TestCase


@pytest.mark.long
class TestI3IdentitySearchedAtLength(Consumers.TestCase):  # type: ignore[misc,valid-type]  # made at run time
    """Ten thousand steps and more."""

    settings = settings(max_examples=420, stateful_step_count=25, deadline=None)
