"""The prompt in the user's editor."""

import shlex
import sys
from pathlib import Path

import pytest

from dragoman.frontends.terminal.editor import CannotEdit, edited
from terminal_screen import READY, Folder

_ECHO = {"do": [{"say": "You said **${prompt}**."}]}


def _editor(folder: Path, program: str) -> str:
    file = folder / "editor.py"
    file.write_text(f"import sys\nfrom pathlib import Path\nfile = Path(sys.argv[1])\n{program}\n")
    return shlex.join([sys.executable, str(file)])


def test_what_comes_back_is_in_the_line_and_not_sent(folder: Folder) -> None:
    folder.script(_ECHO)
    command = _editor(folder.path, "file.write_text(file.read_text().strip() + ' two\\nthree\\n')")
    chat = folder.chat(EDITOR="false", VISUAL=command)
    chat.type("one")
    chat.wait_for("^❯ one$")
    chat.type("\x07")
    chat.wait_for("^… three")
    assert "You said" not in chat.text
    chat.type("\r")
    chat.wait_for("You said one two")
    chat.wait_for(READY)
    chat.type("four\x18\x05")
    chat.wait_for("^❯ four two\n… three")
    chat.type("\x03")
    chat.wait_for(READY)
    chat.enter("/edit five")
    chat.wait_for("^❯ five two\n… three")


def test_an_editor_that_fails_leaves_the_prompt_as_it_was(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.chat(EDITOR="no-such-editor")
    chat.type("kept\x07")
    chat.wait_for("no-such-editor cannot be started")
    chat.wait_for("^❯ kept")
    chat.enter("!")
    chat.wait_for("You said kept!")


def test_ctrl_c_in_the_editor_does_not_leave_the_chat(folder: Folder) -> None:
    folder.script(_ECHO)
    program = (
        "import signal\n"
        "def stop(*_):\n    file.write_text('stopped')\n    sys.exit(0)\n"
        "signal.signal(signal.SIGINT, stop)\n"
        "print('EDITOR IS UP', flush=True)\nwhile True: signal.pause()"
    )
    chat = folder.chat(EDITOR=_editor(folder.path, program))
    chat.type("\x07")
    chat.wait_for("EDITOR IS UP")
    chat.type("\x03")
    # The terminal itself has written the first two characters.
    chat.wait_for(r"^\^C❯ stopped")
    chat.enter("!")
    chat.wait_for("You said stopped!")


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CannotEdit, match="exit status 3"):
        edited("x", {"EDITOR": _editor(tmp_path, "sys.exit(3)")})
    with pytest.raises(CannotEdit, match=r"\$EDITOR is no command"):
        edited("x", {"EDITOR": "vi 'unclosed"})
    with pytest.raises(CannotEdit, match="cannot be read"):
        edited("x", {"EDITOR": _editor(tmp_path, "file.write_bytes(b'\\xff')")})
    assert edited("", {"EDITOR": _editor(tmp_path, "pass")}) == ""
