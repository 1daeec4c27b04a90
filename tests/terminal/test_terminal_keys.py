"""Ctrl-C, Escape, Ctrl-Z and Ctrl-D, as they work in other programs: in a real terminal, under a real shell."""

import shlex
import sys

import pytest

from terminal_screen import READY, Folder, Terminal

_SLOW = {
    "when": {"prompt": "slow"},
    "do": [{"say": "It began "}, {"wait": "forever"}, {"say": "and ended."}],
}
# Its prompt, with nothing typed yet.
_SHELL = r"^SHELL>$"
_ECHO = {"do": [{"say": "You said **${prompt}**."}]}
_WRITE = {
    "when": {"prompt": "write"},
    "do": [{"call": "write_file", "input": {"path": "new.txt", "content": "hello\n"}}],
}


def _in_shell(folder: Folder) -> Terminal:
    """The chat as a job of a shell that does not put the terminal in order itself."""
    shell = folder.terminal("-c", "import os; os.execvp('sh', ['sh', '-i'])", PS1="SHELL> ", ENV="")
    shell.wait_for(_SHELL)
    shell.enter(shlex.join([sys.executable, *folder.command()]))
    shell.wait_for(READY)
    return shell


def test_ctrl_c_after_typing_is_a_first_one_again(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.chat()
    chat.type("one")
    chat.wait_for("^❯ one")
    chat.type("\x03")
    chat.wait_for("Ctrl-C again leaves")
    chat.type("two")
    chat.wait_gone("Ctrl-C again leaves")
    chat.type("\x03")
    chat.wait_for("Ctrl-C again leaves")
    chat.enter("three")
    chat.wait_for("^  You said three.")
    chat.wait_for(READY)
    chat.type("\x03")
    chat.wait_for("Ctrl-C again leaves")
    chat.type("\x03")
    assert chat.wait_end() == 130
    # What was said is not lost.
    assert "Continue: dragoman chat -c" in chat.text


def test_escape_stops_an_answer_and_does_not_leave(folder: Folder) -> None:
    folder.script(_SLOW, _ECHO)
    chat = folder.chat()
    chat.enter("slow")
    chat.wait_for("^  It began")
    chat.type("\x1b")
    chat.wait_for("^⊘ Cancelled.")
    chat.enter("again")
    chat.wait_for("^  You said again.")
    assert "and ended" not in chat.text


def test_keys_that_begin_like_escape_do_not_stop_an_answer(folder: Folder) -> None:
    folder.script(
        {"when": {"prompt": "first"}, "do": [{"say": "Listen.\n\n"}, {"wait": 0.5}, {"say": "The end."}]},
        _ECHO,
    )
    chat = folder.chat()
    chat.enter("first")
    chat.wait_for("^  Listen.")
    # Arrow keys, Alt-Enter and text: all of it is for the next prompt.
    chat.type("bx\x1b[D\x1b[C\x7fc\x1b[Da\x1b[H!\x1b[F\x1b\rd\r")
    chat.wait_for("^  You said !bac", times=1)
    chat.wait_for("The end.")
    assert "Cancelled" not in chat.text
    assert "❯ !bac\n… d\n" in chat.text


def test_what_is_typed_during_an_answer_does_not_answer_a_question(folder: Folder) -> None:
    write = {"call": "write_file", "input": {"path": "new.txt", "content": "hello\n"}}
    folder.script(
        {"when": {"round": 1}, "do": [{"say": "Done."}]}, {"do": [{"say": "Now\n\n"}, {"wait": 0.5}, write]}
    )
    chat = folder.chat()
    chat.enter("write it")
    chat.wait_for("^  Now")
    chat.type("y")
    chat.wait_for("Esc deny")
    # It was typing: an approval counts after a pause only.
    chat.type("y")
    chat.wait_for("Take a moment")
    chat.type("n")
    chat.wait_for("Why not")
    chat.enter("no")
    chat.wait_for("denied · no$")
    assert not (folder.path / "new.txt").exists()


def test_ctrl_z_at_the_prompt_gives_the_terminal_back_to_the_shell(folder: Folder) -> None:
    folder.script(_ECHO)
    shell = _in_shell(folder)
    shell.type("half a prom")
    shell.wait_for("^❯ half a prom")
    shell.type("\x1a")
    shell.wait_for(_SHELL)
    # The shell has its echo and its lines back.
    shell.enter("echo sum $((40 + 2))")
    shell.wait_for("^sum 42")
    assert "SHELL> echo sum" in shell.text
    shell.enter("fg")
    shell.wait_for("^❯ half a prom", times=1)
    shell.enter("pt")
    shell.wait_for("^  You said half a prompt.")
    shell.wait_for(READY)
    shell.type("\x1a")
    shell.wait_for(_SHELL)
    shell.enter("fg")
    shell.wait_for(READY)
    # After Ctrl-Z, Ctrl-D leaves as before.
    shell.type("\x04")
    shell.wait_for("Continue: dragoman chat -c")
    shell.wait_for(_SHELL)
    assert "^Z" not in shell.text


def test_ctrl_z_during_an_answer_and_at_a_question(folder: Folder) -> None:
    folder.script(_SLOW, _WRITE, _ECHO)
    shell = _in_shell(folder)
    shell.enter("slow")
    shell.wait_for("^  It began")
    shell.type("\x1a")
    shell.wait_for(_SHELL)
    shell.enter("echo sum $((40 + 2))")
    shell.wait_for("^sum 42")
    assert "SHELL> echo sum" in shell.text
    shell.enter("fg")
    shell.type("\x1b")
    shell.wait_for("^⊘ Cancelled.")
    shell.wait_for(READY)
    shell.enter("write")
    shell.wait_for("Esc deny")
    shell.type("\x1a")
    shell.wait_for(_SHELL)
    shell.enter("echo sum $((50 + 2))")
    shell.wait_for("^sum 52")
    shell.enter("fg")
    shell.wait_for("Esc deny")
    shell.type("y")
    shell.wait_for("→ allowed once")


@pytest.mark.long
def test_the_arrow_does_not_recall_leaving(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.chat()
    chat.enter("remember me")
    chat.wait_for("^  You said remember me.")
    chat.wait_for(READY)
    chat.enter("/exit")
    assert chat.wait_end() == 0
    chat = folder.chat()
    chat.enter("/quit")
    assert chat.wait_end() == 0
    stored = (folder.path / "state" / "prompts").read_text()
    assert "/quit" not in stored
    assert "/exit" not in stored
    chat = folder.chat()
    chat.type("\x1b[A")
    chat.wait_for("^❯ remember me")


@pytest.mark.parametrize("word", ["exit", "quit", ":q"])
def test_the_bare_word_of_other_tools_leaves_too(folder: Folder, word: str) -> None:
    folder.script(_ECHO)
    chat = folder.chat()
    chat.enter(f"{word} the loop")
    chat.wait_for(f"You said {word} the loop.")
    chat.wait_for(READY)
    chat.enter(word)
    assert chat.wait_end() == 0
    assert f"You said {word}." not in chat.text
    chat = folder.chat()
    chat.type("\x1b[A")
    chat.wait_for(f"^❯ {word} the loop")
