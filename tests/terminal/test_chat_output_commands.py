"""`/export`, `/copy`, `/compact`, and choices that outlast the session."""

import base64
import json
import re
import sys
from pathlib import Path

import pytest

from dragoman.clock import SystemClock
from dragoman.config import Config, ResponsesModel, load
from dragoman.frontends.terminal.chat import Turns
from dragoman.frontends.terminal.commands import Commands, Compact
from dragoman.frontends.terminal.export_text import ChatDecisions, as_markdown
from dragoman.frontends.terminal.exporting import CannotExport, clipboard_sequence
from dragoman.frontends.terminal.interrupts import Interrupts
from dragoman.frontends.terminal.session import ChatSession
from dragoman.lm import CancellationToken, DataPart, ToolCallPart, ToolResultPart, assistant, user
from dragoman.loop.hooks import Hooks
from responses.endpoint import endpoint, json_reply, said
from terminal_screen import READY, Folder

_ECHO = {"do": [{"say": "You said **${prompt}**."}]}
_FAKE = Path(__file__).parents[1] / "fake_agent" / "agent.py"


def _agent(folder: Folder, **options: object) -> Path:
    """The fake agent as the only model. Returns its journal."""
    place = folder.path / "agent"
    place.mkdir()
    given = json.dumps({"folder": str(place), **options})
    command = json.dumps([sys.executable, str(_FAKE), given])
    (folder.path / "dragoman.toml").write_text(f'[models.fake]\nkind = "acp"\ncommand = {command}\n')
    return place / "journal"


def _prompts(journal: Path) -> list[list[dict[str, str]]]:
    lines = map(json.loads, journal.read_text().splitlines())
    return [line["params"]["prompt"] for line in lines if line["method"] == "session/prompt"]


def test_export_writes_markdown_and_never_over_a_file_unasked(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.chat()
    chat.enter("/export")
    chat.wait_for("Nothing has been said yet.")
    chat.enter("hello there")
    chat.wait_for("^  You said hello there.")
    chat.wait_for(READY)
    chat.enter("/export my notes.md")
    chat.wait_for(r"Written to ~/my notes\.md")
    text = (folder.path / "my notes.md").read_text()
    assert text == "# hello there\n\n## You\n\nhello there\n\n## Model\n\nYou said **hello there**.\n"
    (folder.path / "my notes.md").write_text("mine")
    chat.enter("/export my notes.md")
    chat.wait_for("To replace it: /export --overwrite my notes.md")
    assert (folder.path / "my notes.md").read_text() == "mine"
    chat.enter("/export --overwrite my notes.md")
    chat.wait_for(r"Written to ~/my notes\.md", times=2)
    assert (folder.path / "my notes.md").read_text() == text
    chat.enter("/export")
    chat.wait_for(r"Written to ~/dragoman-\d{4}-\d\d-\d\d-\w{4}\.md")


def test_an_export_has_calls_and_their_results() -> None:
    call = ToolCallPart("1", "run_command", {"command": "ls"})
    result = ToolResultPart("1", name="run_command", outcome="ok", content=())
    text = as_markdown(
        (
            user("go", DataPart("image/png", b"123", name="a.png")),
            assistant(call),
            user(result),
            assistant("Done."),
        ),
        "go <b>",
        ChatDecisions(),
    )
    assert "*a.png, 3 bytes*" in text
    assert '**run_command** `{"command":"ls"}`' in text
    assert "<summary>run_command: ok</summary>" in text
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        r"# go \<b\>",
        "## You",
        "## Model",
    ]


def test_an_export_has_steps_plans_and_who_allowed_or_refused_what(folder: Folder) -> None:
    chat = folder.chat("demo", rows=50)
    chat.enter("write `one` into `a.txt`")
    chat.wait_for("Esc deny")
    chat.type("y")
    chat.wait_for("ok: Made a.txt")
    chat.wait_for(READY)
    chat.enter("run `exit 3`")
    chat.wait_for("Esc deny")
    chat.type("n")
    chat.wait_for("Why not")
    chat.enter("not *now*")
    chat.wait_for("denied: ")
    chat.wait_for(READY)
    chat.enter("/accept-edits on")
    chat.wait_for("accepting edits")
    chat.enter("write `two` into `b.txt`")
    chat.wait_for("ok: Made b.txt")
    chat.wait_for(READY)
    chat.enter("make a plan")
    chat.wait_for("^  That was the plan")
    chat.wait_for(READY)
    chat.type("\x04")
    assert chat.wait_end() == 0
    # What was decided before the chat was continued is there, too.
    chat = folder.chat("-c")
    chat.enter("/export out.md")
    chat.wait_for("Written to")
    _, first, second, third, fourth = re.split(
        "^## You$", (folder.path / "out.md").read_text(), flags=re.MULTILINE
    )
    said = (
        r"wants to change files: Write a.txt\*\*: allowed by a person: once, at the terminal, after [\d.]+ s"
    )
    assert re.search(rf"permission.\n\n\*\*Demo agent {said}\n\n<details>", first)
    assert first.count("<summary>Write a.txt (edit, completed)</summary>") == 1
    assert "```diff\n--- /dev/null\n" in first
    assert "\n+one\n```\n" in first
    assert "Made a.txt, 4 bytes." in first
    assert "pending" not in first
    assert (
        "**Demo agent wants to run: exit 3**: refused by a person: not \\*now\\*, at the terminal" in second
    )
    assert "<summary>exit 3 (execute, failed)</summary>" in second
    by_mode = third.index("Write b.txt**: allowed by a mode of the chat: edits are accepted in this chat")
    assert by_mode < third.index("<summary>Write b.txt (edit, completed)</summary>")
    assert fourth.count("- [x] ") == fourth.count("- [") > 1
    assert "dragoman-agent-action" not in first + second + third


def test_an_export_says_who_allowed_a_tool_of_the_terminal(folder: Folder) -> None:
    folder.script(
        {"when": {"round": 1}, "do": [{"say": "Done."}]},
        {"do": [{"call": "run_command", "input": {"command": "echo hello"}}]},
    )
    chat = folder.chat()
    chat.enter("go")
    chat.wait_for("Esc deny")
    chat.type("s")
    chat.wait_for("^  Done.")
    chat.wait_for(READY)
    chat.enter("/export out.md")
    chat.wait_for("Written to")
    call, result = r"\*\*run_command\*\* `.*echo hello.*`", "<details><summary>run_command: ok</summary>"
    decision = r"\*\*run_command: .*\*\*: allowed by a person: session, at the terminal, after [\d.]+ s"
    assert re.search(f"{call}\n\n{decision}\n\n{result}", (folder.path / "out.md").read_text())


def test_an_export_says_that_decisions_were_not_kept(folder: Folder) -> None:
    folder.script(_ECHO, settings='[journal]\ncontent = "off"\n')
    chat = folder.chat()
    chat.enter("hello")
    chat.wait_for("^  You said hello.")
    chat.wait_for(READY)
    chat.enter("/export out.md")
    chat.wait_for("Written to")
    text = (folder.path / "out.md").read_text()
    assert text.endswith(
        "You said **hello**.\n\n*Who allowed or refused what is not in this file: the journal is off.*\n"
    )


def test_copy_sends_the_last_answer_to_the_terminals_clipboard(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.chat()
    chat.enter("/copy")
    chat.wait_for("There is no answer to copy yet.")
    chat.enter("grüße")
    chat.wait_for("^  You said grüße.")
    chat.wait_for(READY)
    chat.enter("/copy")
    chat.wait_for("to the clipboard")
    [sent] = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", chat.raw)
    assert base64.b64decode(sent).decode() == "You said **grüße**."


def test_what_no_terminal_takes_is_not_sent() -> None:
    with pytest.raises(CannotExport, match="/export"):
        clipboard_sequence("x" * 100_000)


def test_an_agent_that_lists_a_command_gets_it(folder: Folder) -> None:
    journal = _agent(
        folder, commands=[{"name": "compact", "description": "c"}, {"name": "review", "description": "r"}]
    )
    chat = folder.chat()
    chat.enter("hello")
    chat.wait_for("echo: .*hello")
    chat.wait_for(READY)
    chat.enter("/compact keep the names")
    chat.wait_for(r"echo: .*/compact keep the names")
    chat.wait_for(READY)
    # Any other command of the agent, too. It is completed, and one of ours wins.
    chat.type("/rev")
    chat.wait_for("/review +r")
    chat.type("\t")
    chat.wait_for("^❯ /review")
    chat.enter(" all")
    chat.wait_for(r"echo: .*/review all")
    assert [prompt[0]["text"] for prompt in _prompts(journal)][1:] == [
        "/compact keep the names",
        "/review all",
    ]


def test_an_agent_without_such_a_command_and_a_script_say_what_to_do(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.chat()
    chat.enter("hello")
    chat.wait_for("You said hello.")
    chat.wait_for(READY)
    chat.enter("/compact")
    chat.wait_for("Tape cannot make its context shorter.")
    chat.wait_for(r"/new")
    chat.wait_for(READY)
    _agent(folder)
    chat = folder.chat()
    chat.enter("hello")
    chat.wait_for("echo: .*hello")
    chat.wait_for(READY)
    chat.enter("/compress")
    chat.wait_for("cannot make its context shorter.")


def test_a_file_reaches_an_agent_as_a_link(folder: Folder) -> None:
    journal = _agent(folder, images=True)
    (folder.path / "my notes.md").write_text("private")
    (folder.path / "shot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(16))
    chat = folder.chat()
    chat.type("read @my")
    chat.wait_for("^ +my notes.md")
    chat.type("\t")
    chat.wait_for('^❯ read @"my notes.md"')
    chat.enter(" and shot.png and @nothing")
    chat.wait_for(r"^\+ my notes\.md$")
    chat.wait_for(r"^\+ shot\.png, a picture of 24 bytes$")
    chat.wait_for("^○ There is no file nothing: @nothing stays text.")
    chat.wait_for("echo: ")
    chat.wait_for(READY)
    [prompt] = _prompts(journal)
    kinds = [(block["type"], block.get("uri")) for block in prompt[-3:]]
    address = (folder.path / "my notes.md").as_uri()
    assert kinds == [("text", None), ("resource_link", address), ("image", None)]
    assert "private" not in json.dumps(prompt)


async def test_an_endpoint_with_compaction_gets_the_short_form_from_then_on(tmp_path: Path) -> None:
    async with endpoint() as served:
        config = Config(models={"gate": ResponsesModel(base_url=served.url, model="m")})
        with ChatSession(
            config, "gate", state_dir=tmp_path / "state", workspace=(tmp_path,), tools=(), clock=SystemClock()
        ) as session:
            packed = {"type": "compaction", "id": "cmp_1", "encrypted_content": "short"}
            served.will(
                said("One."), json_reply({"object": "response.compaction", "output": [packed]}), said("Two.")
            )
            turns = Turns(session, Interrupts(SystemClock()))
            await session.answer("first", Hooks(), CancellationToken())
            with pytest.raises(Compact):
                Commands(session, toggle_thinking=lambda: False).run("/compact")
            await turns.compact()
            await session.answer("second", Hooks(), CancellationToken())
            targets = [asked.target for asked in served.posts]
            assert targets == ["/v1/responses", "/v1/responses/compact", "/v1/responses"]
            assert [item["role"] for item in served.posts[1].json["input"]] == ["user", "assistant"]
            assert served.posts[2].json["input"] == [
                packed,
                {"type": "message", "role": "user", "content": "second"},
            ]
            # The chat has everything, for other models and the journal.
            assert [message.text for message in session.messages] == ["first", "One.", "second", "Two."]
            served.will(json_reply({"error": {"message": "no"}}, 404))
            shown = await turns.compact()
            assert "cannot make its context shorter" in str(getattr(shown, "body", shown))
            await session.close()


def _own(folder: Folder) -> Path:
    """The user's own configuration, with two scripts as models, and no file that is named."""
    for name in ("first", "second"):
        lines = [{"model": {"name": name.title()}}, _ECHO]
        (folder.path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    file = folder.path / ".config" / "dragoman" / "dragoman.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "# mine\n"
        + "".join(
            f'[models.{name}]\nkind = "script"\npath = "{folder.path}/{name}.jsonl"\n'
            for name in ("first", "second")
        )
    )
    return file


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has another folder for configurations")
@pytest.mark.long
def test_a_choice_that_is_saved_outlasts_the_session(folder: Folder) -> None:
    file = _own(folder)
    before = file.read_text()
    # It came with the folder: nothing may be written to it.
    (folder.path / "dragoman.toml").write_text("[loop]\nturns = 3\n")
    command = ["-m", "dragoman", "chat", "--state-dir", str(folder.path / "state")]
    chat = folder.terminal(*command)
    chat.wait_for("dragoman · First")
    chat.wait_for(READY)
    chat.enter("/model second")
    chat.wait_for("Going on with Second.")
    assert file.read_text() == before
    chat.enter("/model second --save")
    chat.wait_for(r"Saved for later chats in\s+~/\.config/dragoman/dragoman\.toml")
    chat.wait_for(READY)
    chat.enter("/tools off run_command --save")
    chat.wait_for(r"run_command is not offered any more[^❯]*Saved")
    chat.wait_for(READY)
    chat.type("\x04")
    assert chat.wait_end() == 0
    assert file.read_text() == f'{before}\n[chat]\ntools_off = ["run_command"]\nmodel = "second"\n'
    assert (folder.path / "dragoman.toml").read_text() == "[loop]\nturns = 3\n"
    chat = folder.terminal(*command)
    chat.wait_for("dragoman · Second")
    chat.wait_for(READY)
    chat.enter("/tools")
    chat.wait_for("○  run_command")
    chat.enter("/tools on run_command --save")
    chat.wait_for("run_command is offered. Saved")
    chat.type("\x04")
    assert chat.wait_end() == 0
    assert load(file).chat.tools_off == ()
    assert load(file).chat.model == "second"
