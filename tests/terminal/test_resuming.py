"""Chats that are continued: after their end, after `kill -9`, by another process, and from within another chat."""

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.store import Database
from dragoman.store.journal_rows import SPACE
from terminal_screen import DEADLINE, READY, Folder, Terminal

_ECHO = {"do": [{"say": "You said **${prompt}**."}]}
_WRITE = {"call": "write_file", "input": {"path": "new.txt", "content": "hello\n"}}
_WRITING = (
    {"when": {"round": 1}, "do": [{"say": "It is written."}]},
    {"when": {"prompt": "write"}, "do": [{"think": "Hm."}, _WRITE]},
)
_KEYS = r"y once +s session"
# Between two looks at what is stored.
_LOOK_SECONDS = 0.02
_CONTINUED = r"^● continued from \d{4}-\d\d-\d\d \d\d:\d\d$"


def _dragoman(folder: Folder, *arguments: str) -> str:
    """What a command prints about what is stored. In this process: the chats are processes of their own."""
    printed = StringIO()
    with chdir(folder.path), redirect_stdout(printed):
        assert main([*arguments, "--state-dir", str(folder.path / "state")]) == 0
    return printed.getvalue()


def _ids(folder: Folder) -> list[str]:
    listed = _dragoman(folder, "conversations", "--json").splitlines()
    return [json.loads(line)["id"] for line in listed]


def _shown(folder: Folder) -> str:
    """All that is stored of chats."""
    ids = _ids(folder)
    return _dragoman(folder, "conversations", "show", *ids) if ids else ""


def _said(folder: Folder, id_: str) -> list[str]:
    shown = _dragoman(folder, "conversations", "show", id_)
    return re.findall(r"(?:user|assistant): .*", shown)


def _kill(chat: Terminal) -> None:
    chat.signal(signal.SIGKILL)
    chat.wait_end()


def _leave(chat: Terminal) -> None:
    chat.wait_for(READY)
    chat.type("\x04")
    assert chat.wait_end() == 0


def test_j5_a_chat_is_continued_after_kill_9_and_shows_what_was_said(folder: Folder) -> None:
    folder.script(*_WRITING, _ECHO)
    chat = folder.chat()
    chat.enter("hello")
    chat.wait_for(r"You said hello\.")
    chat.wait_for(READY)
    chat.enter("write")
    chat.wait_for(_KEYS)
    chat.type("y")
    chat.wait_for("It is written.")
    chat.wait_for(READY)
    _kill(chat)

    again = folder.chat("-c")
    again.wait_for(_CONTINUED)
    assert (
        "❯ hello\n\n  You said hello.\n\n❯ write\n\n✻ thought\n\n→ allowed once\n✓ Writing new.txt\n\n"
        "  It is written.\n\n● continued from"
    ) in again.text
    again.enter("and now")
    again.wait_for("You said and now.")
    _leave(again)
    [id_] = _ids(folder)
    assert _said(folder, id_) == [
        "user: hello",
        "assistant: You said **hello**.",
        "user: write",
        "assistant: It is written.",
        "user: and now",
        "assistant: You said **and now**.",
    ]


@pytest.mark.long
def test_j5_killed_at_a_question_the_chat_goes_on_and_nothing_was_done(folder: Folder) -> None:
    folder.script(*_WRITING, _ECHO)
    chat = folder.chat()
    chat.enter("write")
    chat.wait_for(_KEYS)
    _kill(chat)
    history = _dragoman(folder, "approvals", "history")
    assert re.search(r"write_file: Writing new\.txt +undecided", history)

    again = folder.chat("-c")
    again.wait_for(_CONTINUED)
    assert "❯ write\n\n✻ thought" in again.text
    assert "⊘ The chat ended here, before the answer was complete." in again.text
    again.enter("hello")
    again.wait_for("You said hello.")
    _leave(again)
    third = folder.chat("-c")
    third.wait_for(_CONTINUED)
    assert "⊘ write_file · interrupted" in third.text
    assert not (folder.path / "new.txt").exists()


def test_j5_what_was_approved_for_the_session_is_asked_again_after_a_restart(folder: Folder) -> None:
    folder.script(*_WRITING, _ECHO)
    chat = folder.chat()
    chat.enter("write")
    chat.wait_for(_KEYS)
    chat.type("s")
    chat.wait_for("It is written.")
    _leave(chat)
    again = folder.chat("-c")
    assert "→ allowed for that session" in again.text
    again.enter("write")
    again.wait_for(_KEYS)


def test_one_prompt_after_the_other_is_one_chat(folder: Folder) -> None:
    folder.script(_ECHO)
    assert folder.run("-p", "one").stdout == "You said **one**.\n"
    assert folder.run("-c", "-p", "two").stdout == "You said **two**.\n"
    [id_] = _ids(folder)
    events = folder.run("--resume", id_[:4], "-p", "three", "--json").stdout.splitlines()
    assert json.loads(events[-1]) == {"event": "ended", "reason": "completed"}
    assert [line for line in _said(folder, id_) if line.startswith("user")] == [
        "user: one",
        "user: two",
        "user: three",
    ]


@pytest.mark.long
def test_a_chat_to_continue_is_chosen_by_arrow_keys_or_number(folder: Folder) -> None:
    folder.script(_ECHO)
    for prompt in ("first", "second", "third"):
        folder.run("-p", prompt)
    chat = folder.terminal(*folder.command("--resume"))
    chat.wait_for(r"^❯ 1  .*  tape  third$")
    chat.type("\x1b[B")
    chat.wait_for(r"^❯ 2  .*  tape  second$")
    chat.type("\r")
    chat.wait_for(_CONTINUED)
    chat.wait_for(READY)
    assert "You said second." in chat.text
    assert "You said third." not in chat.text
    # The one that is open is not offered.
    chat.enter("/resume")
    chat.wait_for(r"^  2  .*  tape  first$")
    chat.type("2")
    chat.wait_for(_CONTINUED, times=2)
    chat.wait_for(READY)
    assert "You said first." in chat.text
    # A line sets it apart from what was on the screen.
    assert len(re.findall(r"^─+$", chat.text, re.MULTILINE)) == 1
    chat.enter("/resume")
    chat.wait_for("Esc for none")
    chat.type("\x1b")
    chat.wait_gone("Esc for none")
    chat.enter("again")
    chat.wait_for("You said again.")
    _leave(chat)
    first = next(id_ for id_ in _ids(folder) if "user: first" in _said(folder, id_))
    assert "user: again" in _said(folder, first)


def test_a_chat_that_is_open_elsewhere_is_not_continued(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.chat()
    chat.enter("hello")
    chat.wait_for("You said hello.")
    chat.wait_for(READY)
    refused = folder.run("-c", "-p", "me too")
    assert refused.returncode == 1
    assert re.search(r"The chat [a-z2-7]{16} is open in process \d+\. Continue it there", refused.stderr)
    chat.enter("/new")
    chat.wait_for("A new conversation.")
    chat.wait_for(READY)
    assert folder.run("-c", "-p", "me too").returncode == 0
    assert len(_ids(folder)) == 1


@pytest.mark.long
def test_without_a_terminal_the_ids_are_listed(folder: Folder) -> None:
    folder.script(_ECHO)
    nothing = folder.run("-c", "-p", "two")
    assert (nothing.returncode, nothing.stderr) == (
        1,
        "dragoman: There is no chat of this folder to continue. `dragoman chat` begins one.\n",
    )
    folder.run("-p", "one")
    [id_] = _ids(folder)
    unnamed = folder.run("--resume", "-p", "two")
    assert unnamed.returncode == 2
    assert re.search(rf"Name one: --resume ID\n  {id_}  .*  tape  one\n", unnamed.stderr)
    unknown = folder.run("--resume", "nosuch", "-p", "two")
    assert (unknown.returncode, "There is no chat" in unknown.stderr) == (1, True)
    both = folder.run("-c", "--resume", id_, "-p", "two")
    assert both.returncode == 2


def test_a_chat_of_another_folder_is_named_and_not_continued_here(folder: Folder) -> None:
    folder.script(_ECHO)
    folder.run("-p", "one")
    [id_] = _ids(folder)
    other = folder.path / "other"
    other.mkdir()
    command = folder.command("--resume", id_, "-p", "two")
    command[command.index("dragoman.toml")] = str(folder.path / "dragoman.toml")
    done = subprocess.run(
        [sys.executable, *command], cwd=other, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert done.returncode == 1
    assert f"is of the folder {folder.path}. Continue it there." in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "listed", "sentence"),
    [("metadata", 1, "in the chats of this folder was not kept"), ("off", 0, 'is "off"')],
)
def test_without_content_a_chat_is_not_continued(
    folder: Folder, content: str, listed: int, sentence: str
) -> None:
    folder.script(_ECHO, settings=f'[journal]\ncontent = "{content}"')
    assert folder.run("-p", "a secret word").returncode == 0
    refused = folder.run("-c", "-p", "two")
    assert refused.returncode == 1
    assert sentence in refused.stderr
    assert '"full"' in refused.stderr
    assert len(_ids(folder)) == listed
    stored = b"".join(path.read_bytes() for path in (folder.path / "state").glob("dragoman.db*"))
    assert b"secret word" not in stored
    # What was not kept does not come back.
    folder.script(_ECHO)
    later = folder.run("-c", "-p", "two")
    assert later.returncode == 1
    assert ("was not kept" if listed else "no chat of this folder") in later.stderr
    unnamed = folder.run("--resume", "-p", "two")
    assert unnamed.returncode == 1
    assert ("was not kept" if listed else "no chat of this folder") in unnamed.stderr


_METADATA = '[journal]\ncontent = "metadata"'


@pytest.mark.long
def test_the_last_chat_that_was_kept_is_continued_and_others_are_not_offered(folder: Folder) -> None:
    folder.script(_ECHO)
    folder.run("-p", "kept")
    folder.script(_ECHO, settings=_METADATA)
    folder.run("-p", "not kept")
    folder.script(_ECHO)
    assert folder.run("-c", "-p", "again").returncode == 0
    last, not_kept = _ids(folder)
    assert [line for line in _said(folder, last) if line.startswith("user")] == ["user: kept", "user: again"]
    listed = folder.run("--resume", "-p", "two").stderr
    assert last in listed
    assert not_kept not in listed
    named = folder.run("--resume", not_kept, "-p", "two")
    assert "What was said in this chat was not kept" in named.stderr


@pytest.mark.long
def test_with_metadata_a_chat_that_was_kept_is_continued_for_the_last_time(folder: Folder) -> None:
    folder.script(_ECHO)
    folder.run("-p", "kept")
    folder.script(_ECHO, settings=_METADATA)
    again = folder.run("-c", "-p", "more")
    assert (again.returncode, again.stdout) == (0, "You said **more**.\n")
    assert "So this chat cannot be continued again." in again.stderr
    third = folder.run("-c", "-p", "more")
    assert third.returncode == 1
    assert "was not kept" in third.stderr
    assert folder.run("--resume", "-p", "more").returncode == 1


def test_leaving_a_chat_says_how_to_continue_it(folder: Folder) -> None:
    folder.script(_ECHO)
    silent = folder.chat()
    _leave(silent)
    assert "Continue:" not in silent.text
    chat = folder.chat()
    chat.enter("hello")
    chat.wait_for("You said hello.")
    _leave(chat)
    [id_] = _ids(folder)
    assert chat.text.endswith(f"Continue: dragoman chat -c, or --resume {id_[:4]}")
    assert "Continue:" not in folder.run("-c", "-p", "hello").stderr


def test_the_list_to_choose_from_marks_what_is_open_and_ends_with_ctrl_c(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.chat()
    chat.enter("hello")
    chat.wait_for("You said hello.")
    chat.wait_for(READY)
    other = folder.terminal(*folder.command("--resume"))
    other.wait_for(r"tape  hello  \(open in process \d+\)$")
    other.type("\x03")
    assert other.wait_end() == 130


@pytest.mark.long
def test_an_agents_journal_that_cannot_be_read_does_not_prevent_continuing(folder: Folder) -> None:
    _agent(folder)
    folder.run("-p", "!history")
    with Database.open(folder.path / "state") as database, database.writing():
        changed = database.execute(
            "UPDATE journal_entries SET content = X'7b' WHERE key / ? = "
            "(SELECT number FROM journals WHERE kind = 'agent')",
            SPACE,
        )
    assert changed
    chat = folder.chat("-c")
    chat.wait_for(_CONTINUED)
    assert "❯ !history" in chat.text
    chat.wait_for(READY)
    chat.enter("/export out.md")
    chat.wait_for("Written to")
    last = (folder.path / "out.md").read_text().splitlines()[-1]
    assert last.startswith("*Who allowed or refused what is not in this file: its journal cannot be read (")


def _agent(folder: Folder) -> None:
    """The demo agent with prompts for tests, as the only model."""
    program = Path(__file__).parents[1] / "fake_agent" / "demo.py"
    command = json.dumps([sys.executable, str(program), "--sessions", str(folder.path / "sessions")])
    (folder.path / "dragoman.toml").write_text(f'[models.agent]\nkind = "acp"\ncommand = {command}\n')


def _wait_stored(folder: Folder, pattern: str) -> None:
    """Until what is stored of the last chat has this. Nobody tells when a file of another process has changed."""
    deadline = time.monotonic() + DEADLINE
    while not re.search(pattern, shown := _shown(folder)):
        assert time.monotonic() < deadline, shown
        time.sleep(_LOOK_SECONDS)


@pytest.mark.long
def test_j5_killed_while_an_allowed_command_runs_it_does_not_say_that_it_is_not_done(folder: Folder) -> None:
    _agent(folder)
    chat = folder.chat()
    chat.enter("!run touch begun; exec sleep 600")
    chat.wait_for(_KEYS)
    chat.type("y")
    _wait_stored(folder, r"step: .*in_progress")
    _kill(chat)
    again = folder.chat("-c")
    again.wait_for(_CONTINUED)
    assert "It was running when the chat ended; it may have taken effect." in again.text.replace("\n  ", " ")
    assert "not done yet" not in again.text


def test_j5_killed_in_an_answer_what_was_said_of_it_is_shown_as_incomplete(folder: Folder) -> None:
    _agent(folder)
    chat = folder.chat()
    chat.enter("!slow 600")
    _wait_stored(folder, r"assistant \(incomplete\): \S+")
    _kill(chat)
    [words] = re.findall(r"assistant \(incomplete\): (.*)", _shown(folder))
    again = folder.chat("-c")
    again.wait_for(_CONTINUED)
    # Below the prompt, which has words of its own.
    shown = again.text.partition("❯ !slow 600\n")[2].partition("⊘ The chat ended here")
    assert shown[0].split()[:3] == words.split()[:3] != []
    assert shown[1]
