"""The mode that accepts edits, in a real terminal: with the terminal's own tools, and with a real agent process."""

import re

import pytest

from dragoman.cli import main
from terminal_screen import READY, Folder

_SHIFT_TAB = "\x1b[Z"
_STATUS = r"^accepting edits \(Shift-Tab\) · "


def _writing(path: str, content: str = "one\ntwo\n") -> dict[str, object]:
    return {"call": "write_file", "input": {"path": path, "content": content}}


def _tape(folder: Folder, *calls: dict[str, object]) -> None:
    folder.script({"when": {"round": 1}, "do": [{"say": "Done."}]}, {"do": [*calls]})


def test_shift_tab_switches_it_on_and_off_and_the_status_line_says_so(folder: Folder) -> None:
    _tape(folder, _writing("new.txt"))
    chat = folder.chat()
    assert "accepting edits" not in chat.text
    chat.type(_SHIFT_TAB)
    chat.wait_for(_STATUS)
    chat.enter("write it")
    chat.wait_for("^  Done.")
    chat.wait_for(READY)
    assert "?" not in chat.text.partition("write it")[2].partition("Done.")[0]
    assert (
        "→ Writing new.txt · accepted\n"
        "    --- /dev/null\n"
        "    +++ b/new.txt\n"
        "    @@ -0,0 +1,2 @@\n"
        "    +one\n"
        "    +two\n"
        "✓ Writing new.txt\n"
    ) in chat.text
    assert (folder.path / "new.txt").read_text() == "one\ntwo\n"
    chat.type(_SHIFT_TAB)
    chat.wait_gone("accepting edits")
    (folder.path / "new.txt").unlink()
    chat.enter("write it")
    chat.wait_for(r"\? Make new.txt\?")
    chat.wait_for("Esc deny")
    chat.type("\x1b")
    chat.wait_for("denied")
    assert not (folder.path / "new.txt").exists()


def test_d3_sensitive_files_commands_and_emptied_files_are_asked_about(folder: Folder) -> None:
    (folder.path / "full.txt").write_text("full\n")
    _tape(
        folder,
        _writing(".git/hooks/pre-commit"),
        _writing("dragoman.toml"),
        _writing("full.txt", ""),
        {"call": "run_command", "input": {"command": "echo > ran"}},
        _writing("plain.txt"),
    )
    (folder.path / "dragoman.toml").write_text(
        (folder.path / "dragoman.toml").read_text() + '[loop]\non_denial = "ask-each"\n'
    )
    before = (folder.path / "dragoman.toml").read_text()
    chat = folder.chat(rows=50)
    chat.enter("/accept-edits on")
    chat.wait_for(r"asked about commands, deletions")
    chat.enter("write them")
    questions = (
        r"\? Make .git/hooks/pre-commit\?",
        r"\? Change dragoman.toml\?",
        r"\? Change full.txt\?",
        r"\? Run this command\?",
    )
    for number, question in enumerate(questions, start=1):
        chat.wait_for(question)
        chat.wait_for("Esc deny")
        chat.type("\x1b")
        # The next question may be there at once, so the keys need not be seen to go.
        chat.wait_for("^⊘ .*denied", times=number)
    chat.wait_for("→ Writing plain.txt · accepted")
    chat.wait_for("^  Done.")
    assert (folder.path / "plain.txt").exists()
    assert (folder.path / "full.txt").read_text() == "full\n"
    assert (folder.path / "dragoman.toml").read_text() == before
    assert not (folder.path / ".git").exists()
    assert not (folder.path / "ran").exists()


def test_a_rule_goes_before_the_mode(folder: Folder) -> None:
    _tape(folder, _writing("kept/a.txt"), _writing("asked/b.txt"))
    rules = (
        '[[policy]]\ndecision = "deny"\nkind = "edit"\npaths = ["kept/**"]\nreason = "Kept as it is."\n'
        '[[policy]]\ndecision = "ask"\nkind = "edit"\npaths = ["asked/**"]\nreason = "Look at it."\n'
    )
    config = folder.path / "dragoman.toml"
    config.write_text(f"{config.read_text()}\n{rules}")
    chat = folder.chat()
    chat.type(_SHIFT_TAB)
    chat.wait_for(_STATUS)
    chat.enter("write them")
    chat.wait_for("Kept as it is.")
    chat.wait_for(r"\? Make asked/b.txt\?")
    chat.wait_for("Esc deny")
    # Where a rule asks, the mode is not offered.
    assert "Shift-Tab accept" not in chat.text
    chat.type("\x1b")
    chat.wait_for("^⊘ Make asked/b.txt · denied")
    assert not (folder.path / "kept").exists()
    assert not (folder.path / "asked").exists()


def test_the_mode_begins_at_a_question_and_ends_with_the_chat(folder: Folder) -> None:
    _tape(folder, _writing("a.txt"), _writing("b.txt"))
    chat = folder.chat()
    chat.enter("write them")
    chat.wait_for("Shift-Tab accept edits here")
    chat.type(_SHIFT_TAB)
    chat.wait_for("→ allowed once; edits in this folder are accepted from now on")
    chat.wait_for("→ Writing b.txt · accepted")
    chat.wait_for("^  Done.")
    chat.wait_for(_STATUS)
    assert (folder.path / "a.txt").exists()
    assert (folder.path / "b.txt").exists()
    chat.enter("/new")
    chat.wait_for("A new conversation")
    chat.wait_gone("accepting edits")
    chat.enter("/accept-edits")
    chat.wait_for("You are asked about every edit.")


def test_another_model_is_asked_about_its_edits_again(folder: Folder) -> None:
    _tape(folder, _writing("a.txt"))
    chat = folder.chat()
    first, second = "tape", "demo"
    chat.enter("/accept-edits on")
    chat.wait_for(_STATUS)
    # The same model again changes nothing.
    chat.enter(f"/model {first}")
    chat.wait_for("Going on with")
    chat.wait_for(_STATUS)
    assert "asked about every edit again" not in chat.text
    chat.enter(f"/model {second}")
    chat.wait_for("You are asked about every edit again.")
    chat.wait_gone(r"accepting edits \(Shift-Tab\)")
    chat.enter(f"/model {first}")
    chat.wait_for(READY)
    chat.enter("write it")
    chat.wait_for(r"\? Make a.txt\?")
    chat.wait_for("Esc deny")
    assert not (folder.path / "a.txt").exists()
    chat.type("\x1b")
    chat.wait_for("denied")


def test_an_agents_edit_is_accepted_shown_and_recorded(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = folder.chat("demo", rows=50)
    chat.enter("/accept-edits on")
    chat.wait_for("Edits in this folder are made without a question")
    chat.enter("write `one line` to `notes.txt`, then run `echo hello`")
    # A command is asked about.
    chat.wait_for("Esc deny")
    assert "→ Demo agent may" in chat.text
    assert "+one line" in chat.text
    assert "Shift-Tab accept" not in chat.text
    chat.type("\x1b")
    chat.wait_for(READY)
    assert (folder.path / "notes.txt").read_text().strip() == "one line"
    chat.enter("/quit")
    chat.wait_end()
    capsys.readouterr()
    assert main(["approvals", "history", "--state-dir", str(folder.path / "state")]) == 0
    assert "mode: edits are accepted in this chat" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_a_dumb_terminal_shows_the_mode_before_the_prompt_and_breaks_no_word(
    folder: Folder, columns: int
) -> None:
    _tape(folder, _writing("new.txt", f"{'word ' * 50}\n"))
    chat = folder.terminal(*folder.command(), columns=columns, TERM="dumb", NO_COLOR="1")
    chat.wait_for(READY)
    chat.enter("/accept-edits on")
    chat.wait_for(r"^accepting edits \(Shift-Tab\) ❯")
    chat.enter("write it")
    chat.wait_for("^  Done.")
    assert "→ Writing new.txt · accepted" in chat.text
    assert b"\x1b[" not in chat.raw
    sentence = chat.text.partition("● ")[2].partition("accepting edits (Shift-Tab) ❯")[0]
    assert " ".join(sentence.split()).endswith("Shift-Tab, ends it; so do /new and another /model.")
    assert all(len(line) <= columns for line in chat.text.splitlines())
    assert (folder.path / "new.txt").exists()


def test_no_color_leaves_colours_out_and_nothing_else(folder: Folder) -> None:
    _tape(folder, _writing("new.txt", "word\n"))
    chat = folder.terminal(*folder.command(), columns=100, NO_COLOR="1")
    chat.wait_for(READY)
    chat.enter("/accept-edits on")
    chat.enter("write it")
    chat.wait_for("Done.")
    colours = re.findall(rb"\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9]+)*m", chat.raw)
    assert colours == []
    assert b"\x1b[" in chat.raw, "it is an ordinary terminal"
