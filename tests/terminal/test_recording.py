"""What a chat leaves in its journal, and when."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.backends.scripted import Script, ScriptedModel, When, call, reply
from dragoman.clock import SystemClock
from dragoman.config import Config, JournalConfig
from dragoman.conversations.ids import CONVERSATION_ID
from dragoman.frontends.terminal.recording import ChatRecorder, RecordingHooks
from dragoman.frontends.terminal.session import ChatSession
from dragoman.frontends.terminal.stored_chats import CannotResume
from dragoman.journal.agent_events import PermissionDecided, PermissionRequested
from dragoman.journal.chat_events import MessagesAdded, ModelChosen, RunEnded
from dragoman.journal.chat_fold import fold_chat
from dragoman.journal.event import JournalStarted
from dragoman.journal.events import AnyEvent
from dragoman.journal.sqlite.journals import SqliteJournals
from dragoman.journal.writer import Journals
from dragoman.lm import (
    CancellationToken,
    LanguageModel,
    Message,
    ModelInfo,
    Request,
    Sink,
    ToolCallPart,
    assistant,
    user,
)
from dragoman.logs import Redaction
from dragoman.loop.events import CallDecided
from dragoman.loop.history import gaps
from dragoman.loop.hooks import Hooks
from dragoman.permissions.action import PERMISSION_TOOLS
from dragoman.store import Database
from dragoman.tools.decision import Approve, Decision, Deny, ToolQuestion
from dragoman.tools.definition import tool


@tool()
def touch(path: str = "a") -> str:
    """Changes something."""
    return f"touched {path}"


@tool(read_only=True)
def look() -> str:
    """Reads something."""
    return "seen"


class _Deciding(Hooks):
    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        return self._decision


def _script() -> ScriptedModel:
    return ScriptedModel(
        Script(
            (
                reply("done", when=When(round=1)),
                reply(call("touch", {"path": "b"}), when=When(prompt="touch")),
                reply(call("look"), when=When(prompt="look")),
                reply("You said ${prompt}"),
            )
        )
    )


def _session(
    folder: Path,
    model: LanguageModel | None = None,
    *,
    config: Config | None = None,
    named: str = "demo",
    redaction: Redaction | None = None,
    build: Callable[[Config, str], LanguageModel] | None = None,
) -> ChatSession:
    used = model or _script()
    return ChatSession(
        config or Config(),
        named,
        state_dir=folder / "state",
        workspace=(folder,),
        tools=(touch, look),
        clock=SystemClock(),
        build_model=build or (lambda _config, _name: used),
        redaction=redaction,
    )


async def _stored(folder: Path, id_: str) -> list[AnyEvent]:
    """As another process reads it."""
    with Database.open(folder / "state") as database:
        return [entry.event for entry in await SqliteJournals(database, "1 other").read(id_)]


class _Looking:
    """A model that looks at what is stored whenever it is asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._model = _script()
        self.id = ""
        self.seen: list[tuple[Message, ...]] = []
        self.requests: list[tuple[Message, ...]] = []

    @property
    def info(self) -> ModelInfo:
        return self._model.info

    def count_tokens(self, text: str | Message) -> int:
        return self._model.count_tokens(text)

    async def respond(self, request: Request, sink: Sink, token: CancellationToken) -> None:
        self.seen.append(fold_chat(await _stored(self._folder, self.id)).messages)
        self.requests.append(request.messages)
        await self._model.respond(request, sink, token)


async def test_j5_everything_is_stored_before_the_model_gets_it(tmp_path: Path) -> None:
    model = _Looking(tmp_path)
    with _session(tmp_path, model) as chat:
        model.id = chat.id
        await chat.answer("touch", _Deciding(Approve()), CancellationToken())
        assert len(model.seen) == 2
        assert model.seen == model.requests
        stored = fold_chat(await _stored(tmp_path, chat.id))
        assert stored.messages == chat.messages
        await chat.close()


async def test_a_chat_without_a_prompt_leaves_nothing_and_ids_are_those_of_conversations(
    tmp_path: Path,
) -> None:
    with _session(tmp_path) as chat:
        assert CONVERSATION_ID.fullmatch(chat.id)
        before = chat.id
        chat.start_over()
        assert chat.id != before
        chat.use("other")
        await chat.answer("one\nmore", Hooks(), CancellationToken())
        await chat.close()
    with Database.open(tmp_path / "state") as database:
        [info] = await SqliteJournals(database).journals("chat")
    assert (info.id, info.model, info.workspace, info.title, info.owner) == (
        chat.id,
        "other",
        str(tmp_path),
        "one\nmore",
        "",
    )


@pytest.mark.parametrize(
    ("prompt", "decision", "expected"),
    [
        ("touch", Approve(), (True, "person", "once")),
        ("touch", Deny("not that"), (False, "person", "not that")),
        ("look", Deny(), (True, "read-only", "read-only")),
    ],
)
async def test_decisions_about_the_terminals_own_tools_are_recorded(
    prompt: str, decision: Decision, expected: tuple[object, ...], tmp_path: Path
) -> None:
    with _session(tmp_path) as chat:
        await chat.answer(prompt, _Deciding(decision), CancellationToken())
        events = await _stored(tmp_path, chat.id)
        await chat.close()
    [asked] = [event for event in events if isinstance(event, PermissionRequested)]
    [decided] = [event for event in events if isinstance(event, PermissionDecided)]
    assert (decided.is_allowed, decided.by, decided.why) == expected
    assert (decided.id, decided.where) == (asked.id, "terminal")
    assert asked.action is not None
    assert (asked.agent, asked.tool) == ("demo", prompt)
    assert asked.action.input == ({"path": "b"} if prompt == "touch" else {})
    # What a tool of a program does, nobody knows.
    assert asked.risk == "other"
    # The call is stored before the decision, and the result after it.
    kinds = [type(event) for event in events]
    assert kinds[:5] == [JournalStarted, MessagesAdded, MessagesAdded, PermissionRequested, PermissionDecided]


@pytest.mark.parametrize(
    ("path", "is_inside"), [("b", True), ("sub/b", True), ("../b", False), ("/b", False)]
)
async def test_where_the_paths_of_a_call_lie_is_recorded(
    path: str, *, is_inside: bool, tmp_path: Path
) -> None:
    model = ScriptedModel(Script((reply("done", when=When(round=1)), reply(call("touch", {"path": path})))))
    with _session(tmp_path, model) as chat:
        await chat.answer("go", _Deciding(Deny()), CancellationToken())
        events = await _stored(tmp_path, chat.id)
        await chat.close()
    [asked] = [event for event in events if isinstance(event, PermissionRequested)]
    assert asked.action is not None
    assert (asked.action.paths, asked.action.is_inside) == ((path,), is_inside)
    assert (asked.action.folder, asked.action.kind, asked.risk) == (str(tmp_path), "tool", "other")


async def test_j5_a_continued_chat_sends_the_whole_history_under_the_same_id(tmp_path: Path) -> None:
    with _session(tmp_path) as chat:
        id_ = chat.id
        await chat.answer("one", Hooks(), CancellationToken())
        await chat.answer("touch", _Deciding(Approve()), CancellationToken())
        said = chat.messages
        await chat.close()
    model = _script()
    with _session(tmp_path, model) as again:
        stored = await again.resume(id_)
        assert (again.id, again.messages, stored.state.messages) == (id_, said, said)
        await again.answer("two", Hooks(), CancellationToken())
        [request] = model.requests
        assert request.messages == (*said, user("two"))
        assert (request.consumer.connection, request.consumer.session) == (id_, id_)
        await again.close()
    assert fold_chat(await _stored(tmp_path, id_)).messages == (*said, user("two"), assistant("You said two"))


async def test_j5_a_chat_keeps_its_last_model_unless_another_is_named(tmp_path: Path) -> None:
    models = {name: ScriptedModel.of(name, name) for name in ("demo", "other", "third")}

    def build(_config: Config, name: str) -> LanguageModel:
        return models[name]

    with _session(tmp_path, build=build) as chat:
        await chat.answer("one", Hooks(), CancellationToken())
        chat.use("other")
        await chat.answer("two", Hooks(), CancellationToken())
        await chat.close()
    with _session(tmp_path, build=build) as again:
        await again.answer("another chat", Hooks(), CancellationToken())
        left = again.id
        await again.resume(chat.id)
        assert again.model_name == "other"
        await again.close()
    # The chat that was left has still its own model.
    assert fold_chat(await _stored(tmp_path, left)).model == "demo"
    with _session(tmp_path, build=build, named="third") as third:
        await third.resume(chat.id, model="third")
        await third.close()
    events = await _stored(tmp_path, chat.id)
    assert [event.model for event in events if isinstance(event, ModelChosen)] == ["other", "third"]


async def test_a_chat_whose_model_is_gone_stays_free(tmp_path: Path) -> None:
    def build(_config: Config, name: str) -> LanguageModel:
        if name == "gone":
            raise CannotResume("There is no such model.")
        return _script()

    with _session(tmp_path, named="gone", build=lambda _config, _name: _script()) as chat:
        await chat.answer("one", Hooks(), CancellationToken())
        await chat.close()
    with _session(tmp_path, build=build) as again:
        before = again.id
        with pytest.raises(CannotResume):
            await again.resume(chat.id)
        assert again.id == before
        with Database.open(tmp_path / "state") as database:
            info = await SqliteJournals(database).find(chat.id)
        assert info is not None
        assert info.owner == ""


async def test_j5_calls_that_a_killed_process_left_open_get_a_result(tmp_path: Path) -> None:
    reached = asyncio.Event()

    class Hanging(Hooks):
        async def approve(self, question: ToolQuestion, token: CancellationToken) -> Decision:
            reached.set()
            await asyncio.Event().wait()
            return Approve()

    chat = _session(tmp_path)
    task = asyncio.create_task(chat.answer("touch", Hanging(), CancellationToken()))
    await reached.wait()
    # What a process has stored that is killed here.
    left = await _stored(tmp_path, chat.id)
    assert gaps(fold_chat(left).messages)
    with _session(tmp_path) as again:
        # In the test it is the same process, so the chat may be continued.
        await again.resume(chat.id)
        assert gaps(again.messages) == []
        assert again.messages[-1].results[0].outcome == "interrupted"
        await again.answer("hello", Hooks(), CancellationToken())
        stored = fold_chat(await _stored(tmp_path, chat.id)).messages
        assert stored == again.messages
        await again.close()
    task.cancel()
    await asyncio.wait({task})


async def test_how_a_run_ended_is_recorded(tmp_path: Path) -> None:
    with _session(tmp_path) as chat:
        await chat.answer("hello", Hooks(), CancellationToken())
        await chat.answer("touch", _Deciding(Deny()), CancellationToken())
        await chat.close()
    ends = [event for event in await _stored(tmp_path, chat.id) if isinstance(event, RunEnded)]
    assert [event.reason for event in ends] == ["completed", "tool_denied"]


async def test_secrets_are_masked(tmp_path: Path) -> None:
    redaction = Redaction()
    redaction.add(["hunter2-and-more"])
    with _session(tmp_path, redaction=redaction) as chat:
        await chat.answer("my password is hunter2-and-more", Hooks(), CancellationToken())
        await chat.close()
    files = (tmp_path / "state").glob("dragoman.db*")
    assert not any(b"hunter2" in path.read_bytes() for path in files)


async def test_without_content_only_names_and_decisions_are_stored(tmp_path: Path) -> None:
    config = Config(journal=JournalConfig(content="metadata"))
    with _session(tmp_path, config=config) as chat:
        await chat.answer("touch", _Deciding(Deny("a private reason")), CancellationToken())
        await chat.close()
    events = await _stored(tmp_path, chat.id)
    state = fold_chat(events)
    assert not state.is_whole
    assert [message.role for message in state.messages[:3]] == ["user", "assistant", "user"]
    assert state.messages[1].calls[0].name == "touch"
    assert state.messages[2].results[0].outcome == "denied"
    [asked] = [event for event in events if isinstance(event, PermissionRequested)]
    assert (asked.action, asked.tool) == (None, "touch")
    files = [path.read_bytes() for path in (tmp_path / "state").glob("dragoman.db*")]
    assert not any(b"private" in data or b'"path"' in data for data in files)


async def test_an_open_chat_keeps_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = asyncio.Event()
    renew = SqliteJournals.renew

    async def noticed(store: SqliteJournals) -> None:
        await renew(store)
        renewed.set()

    monkeypatch.setattr("dragoman.frontends.terminal.recording.RENEW_SECONDS", 0)
    monkeypatch.setattr(SqliteJournals, "renew", noticed)
    with _session(tmp_path) as chat:
        await chat.answer("one", Hooks(), CancellationToken())
        await renewed.wait()
        with Database.open(tmp_path / "state") as database:
            other = SqliteJournals(database, "1 other")
            entries = await other.read(chat.id)
            assert await other.claim(chat.id, entries[-1].sequence) == "held"
            await chat.close()
            assert await other.claim(chat.id, entries[-1].sequence) == "ours"


async def test_a_chat_that_another_process_continues_or_deletes_goes_on_without_being_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _session(tmp_path) as chat:
        await chat.answer("one", Hooks(), CancellationToken())
        before = await _stored(tmp_path, chat.id)
        with Database.open(tmp_path / "state") as database:
            with database.writing():
                database.execute("UPDATE journal_heads SET owner = '', leased_until = 0")
            other = SqliteJournals(database, "1 other")
            assert await other.claim(chat.id, len(before)) == "ours"
            with database.writing():
                database.execute("UPDATE journal_heads SET owner = ?, sequence = sequence + 1", "1 other")
        assert await chat.answer("two", Hooks(), CancellationToken()) == "completed"
        assert await chat.answer("three", Hooks(), CancellationToken()) == "completed"
        await chat.close()
    assert await _stored(tmp_path, chat.id) == before
    assert "another process has continued" in caplog.text


async def test_what_a_person_decides_about_an_agents_request_is_recorded_at_once(tmp_path: Path) -> None:
    """The agent gets it with the next prompt, and there may be none."""
    with Database.open(tmp_path) as database:
        store = SqliteJournals(database)
        recorder = ChatRecorder(Journals(store), "chat")
        await recorder.begin("hello", "claude", ())
        hooks = RecordingHooks(Hooks(), recorder)
        asked = ToolCallPart("dg_x_1_y", PERMISSION_TOOLS["execute"], {"nonce": "n"})
        hooks.on_event(CallDecided(asked, "run it", allowed=False, by="person", why="not now", seconds=1.5))
        await recorder.close()
        _, decided = [entry.event for entry in await store.read("chat")]
    assert decided == PermissionDecided(
        "dg_x_1_y", is_allowed=False, by="person", where="terminal", seconds=1.5, why="not now"
    )
