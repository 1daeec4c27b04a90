"""The chat in a real terminal: somebody types, decides, and looks at the screen."""

import re
import signal
import stat

from terminal_screen import READY, Folder, Terminal

_ECHO = {"do": [{"say": "You said **${prompt}**."}]}
_WRITE = {"call": "write_file", "input": {"path": "new.txt", "content": "hello\n"}}
_KEYS = r"y once +s session +w workspace +a always\s+(r make a rule\s+)?(Shift-Tab accept edits here\s+)?n deny, with a reason +Esc deny"


def test_an_answer_is_laid_out_as_it_streams(folder: Folder) -> None:
    folder.script(
        {
            "do": [
                {"think": "Let me see."},
                {"say": "# Title\n\nSome **bold** text:\n\n- one\n- two\n\n```python\nx = 1\n```\n"},
            ]
        }
    )
    chat = folder.chat()
    chat.enter("hello")
    chat.wait_for(READY, times=1)
    chat.wait_for(r"^    x = 1$")
    chat.wait_for(READY)
    assert (
        "❯ hello\n\n✻ thought\n\n  Title\n\n  Some bold text:\n\n  • one\n  • two\n\n    x = 1\n\n❯"
        in chat.text
    )
    chat.type("\x04")
    assert chat.wait_end() == 0


def test_a_long_answer_is_in_the_scrollback_once(folder: Folder) -> None:
    text = "\n\n".join(
        f"Paragraph {number} of the answer, which is long enough to be broken." for number in range(60)
    )
    folder.script({"do": [{"say": text}]})
    chat = folder.chat(columns=50, rows=12)
    chat.enter("go")
    chat.wait_for(r"Paragraph 59.*\n.*broken\.\n\n❯ *$")
    assert [line.split()[1] for line in chat.text.splitlines() if "Paragraph" in line] == [
        str(n) for n in range(60)
    ]


def test_approving_once(folder: Folder) -> None:
    folder.script({"when": {"round": 1}, "do": [{"say": "Done."}]}, {"do": [_WRITE]})
    chat = folder.chat()
    chat.enter("write it")
    chat.wait_for(_KEYS)
    assert "? Make new.txt?" in chat.text
    assert "+hello" in chat.text
    assert not (folder.path / "new.txt").exists()
    chat.type("y")
    chat.wait_for("→ allowed once")
    chat.wait_for("✓ Writing new.txt")
    chat.wait_for("^  Done.")
    assert (folder.path / "new.txt").read_text() == "hello\n"


def test_denying_with_a_reason(folder: Folder) -> None:
    folder.script(
        {"when": {"outcome": "denied"}, "do": [{"say": "I see: ${reason}"}]},
        {"do": [_WRITE, {"call": "run_command", "input": {"command": "touch second"}}]},
    )
    chat = folder.chat()
    chat.enter("write it")
    chat.wait_for(_KEYS)
    chat.type("n")
    chat.wait_for("Why not")
    chat.enter("the disk is full")
    chat.wait_for("^⊘ Make new.txt · denied · the disk is full")
    chat.wait_for("^⊘ run_command · skipped")
    chat.wait_for("^  I see: the disk is full")
    chat.wait_for(READY)
    assert not (folder.path / "new.txt").exists()
    assert not (folder.path / "second").exists()


def test_denying_without_a_reason_ends_the_turn(folder: Folder) -> None:
    folder.script({"when": {"prompt": "again"}, "do": [{"say": "Another answer."}]}, {"do": [_WRITE]})
    chat = folder.chat()
    chat.enter("write it")
    chat.wait_for(_KEYS)
    chat.type("n")
    chat.wait_for("Why not")
    chat.type("\r")
    chat.wait_for("^⊘ Make new.txt · denied$")
    chat.wait_for("^⊘ Stopped")
    chat.enter("write it")
    chat.wait_for(_KEYS)
    chat.type("\r")
    chat.wait_for("Press one of these keys.")
    chat.type("\x1b")
    chat.wait_for("^⊘ Make new.txt · denied$", times=2)
    chat.enter("again")
    chat.wait_for("^  Another answer.")
    assert not (folder.path / "new.txt").exists()


def test_an_approval_for_the_session_spares_the_next_question(folder: Folder) -> None:
    run = {"call": "run_command", "input": {"command": "echo run >> runs"}}
    folder.script({"when": {"round": 1}, "do": [{"say": "Round over."}]}, {"do": [run]})
    chat = folder.chat()
    chat.enter("go")
    chat.wait_for(_KEYS)
    chat.type("s")
    chat.wait_for("→ allowed for this session")
    chat.wait_for("Round over.")
    chat.wait_for(READY)
    chat.enter("go")
    chat.wait_for("Round over.", times=2)
    assert "✓ Running echo run >> runs · approved for this session" in chat.text
    assert chat.text.count("? Run this command?") == 1
    chat.enter("/approvals")
    chat.wait_for(r"s1 +this command in this folder: echo run >> runs\n +any model · this session · 20")
    for key, answer in (("\x1b", "Nothing was taken back"), ("y", "All approvals are taken back")):
        chat.enter("/approvals reset")
        chat.wait_for(r"Take back 1 approval, here and in every other folder\? +y yes   Esc no")
        chat.type(key)
        chat.wait_for(answer)
        chat.wait_for(READY)
    chat.enter("/approvals reset")
    chat.wait_for("Nothing is approved")
    chat.enter("go")
    chat.wait_for("Run this command?", times=2)
    assert (folder.path / "runs").read_text() == "run\nrun\n"


def test_what_was_typed_before_a_question_does_not_answer_it(folder: Folder) -> None:
    folder.script(
        {"when": {"round": 1}, "do": [{"say": "Done."}]}, {"do": [{"say": "Now\n\n"}, {"wait": 1.0}, _WRITE]}
    )
    chat = folder.chat()
    chat.enter("write it")
    chat.wait_for("^  Now")
    chat.type("yyyaaa\r")
    chat.wait_for(_KEYS)
    # Escape is read after everything that was typed before it.
    chat.type("\x1b")
    chat.wait_for("^⊘ Make new.txt · denied")
    assert not (folder.path / "new.txt").exists()


def test_what_is_typed_before_the_chat_is_up_is_the_first_prompt(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.terminal(*folder.command())
    # Nothing reads the terminal yet, and it has its usual modes: it makes a line feed of Enter.
    chat.enter("hello")
    chat.wait_for("^  You said hello.")
    chat.enter("again")
    chat.wait_for("^  You said again.")
    assert "❯ hello\n\n  You said hello.\n\n❯ again\n\n  You said again." in chat.text


def test_all_that_is_typed_before_the_chat_is_up_counts(folder: Folder) -> None:
    folder.script(_ECHO)
    with Terminal(*folder.command(), cwd=folder.path, from_scratch=True) as chat:
        chat.type("one\rtwo\rthr")
        chat.wait_for("^❯ thr$")
        chat.enter("ee")
        chat.wait_for("^  You said three.")
        assert "  You said one.\n\n❯ two\n\n  You said two.\n\n❯ three\n\n  You said three." in chat.text


def test_what_is_typed_during_an_answer_is_the_next_prompt(folder: Folder) -> None:
    folder.script(
        {"when": {"prompt": "first"}, "do": [{"say": "Listen.\n\n"}, {"wait": 0.5}, {"say": "The end."}]},
        _ECHO,
    )
    chat = folder.chat()
    chat.enter("first")
    chat.wait_for("^  Listen.")
    chat.enter("second")
    chat.wait_for("^  You said second.")
    assert "  Listen.\n\n  The end.\n\n❯ second\n\n  You said second." in chat.text


def test_i6_cancelling_a_slow_answer_and_asking_again(folder: Folder) -> None:
    folder.script(
        {
            "when": {"prompt": "slow"},
            "do": [{"say": "It began "}, {"wait": "forever"}, {"say": "and ended."}],
        },
        _ECHO,
    )
    chat = folder.chat()
    chat.enter("slow")
    chat.wait_for("^  It began")
    chat.type("\x03")
    chat.wait_for("^⊘ Cancelled.")
    chat.enter("again")
    chat.wait_for("^  You said again.")
    assert "  It began\n\n⊘ Cancelled.\n\n❯ again" in chat.text
    assert "and ended" not in chat.text


def test_c10_cancelling_while_a_question_is_open(folder: Folder) -> None:
    folder.script({"when": {"prompt": "write"}, "do": [_WRITE]}, _ECHO)
    chat = folder.chat()
    chat.enter("write")
    chat.wait_for(_KEYS)
    chat.type("\x03")
    chat.wait_for("^⊘ Make new.txt · interrupted")
    chat.wait_for("^⊘ Cancelled.")
    chat.wait_for(READY)
    chat.enter("y")
    chat.wait_for("^  You said y.")
    assert not (folder.path / "new.txt").exists()


def test_interrupting_twice_leaves(folder: Folder) -> None:
    folder.script({"do": [{"say": "It began "}, {"wait": "forever"}]})
    chat = folder.chat()
    chat.enter("go")
    chat.wait_for("^  It began")
    chat.type("\x03")
    chat.wait_for("^⊘ Cancelled.")
    chat.wait_for(READY)
    chat.type("\x03")
    assert chat.wait_end() == 130


def test_interrupting_at_the_prompt_clears_it_first(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.chat()
    chat.type("never sent")
    chat.wait_for("^❯ never sent")
    chat.type("\x03")
    chat.wait_for("Ctrl-C again leaves")
    chat.wait_for(READY)
    assert "never sent" not in chat.text
    chat.type("\x03")
    assert chat.wait_end() == 130


def test_being_told_to_end_restores_the_terminal(folder: Folder) -> None:
    folder.script({"do": [{"say": "It began "}, {"wait": "forever"}]})
    chat = folder.chat()
    chat.enter("go")
    chat.wait_for("^  It began")
    chat.signal(signal.SIGTERM)
    assert chat.wait_end() == 130
    assert chat.modes == chat.modes_before
    assert "Traceback" not in chat.text


def test_commands_at_the_prompt(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.chat()
    chat.type("/to")
    chat.wait_for("/tools +list the tools")
    chat.type("\t\r")
    chat.wait_for("● +write_file +#writeFile +asks first +Make or replace a file of the")
    chat.enter("/tools off write_file")
    chat.wait_for("write_file is not offered any more")
    chat.enter("/tools")
    chat.wait_for("○ +write_file")
    chat.enter("/modle")
    chat.wait_for("Did you mean /model")
    chat.enter("/model demo")
    chat.wait_for("Going on with Demo agent.")
    chat.enter("/quit")
    assert chat.wait_end() == 0


def test_several_lines_are_one_prompt(folder: Folder) -> None:
    folder.script(_ECHO)
    chat = folder.chat()
    chat.type("one\x1b\rtwo")
    chat.wait_for("^… two")
    chat.type("\x1b[200~, pasted\nthree\x1b[201~")
    chat.wait_for("^… three")
    chat.type("\r")
    chat.wait_for("^  You said one two, pasted three.")


def test_with_a_folder_in_the_place_of_the_file_no_prompt_is_stored(folder: Folder) -> None:
    folder.script(_ECHO)
    place = folder.path / "state" / "prompts"
    place.mkdir(parents=True)
    chat = folder.chat()
    chat.enter("hello")
    chat.wait_for("You said hello")
    chat.wait_for(READY)
    chat.type("\x04")
    assert chat.wait_end() == 0
    assert list(place.iterdir()) == []


def test_prompts_are_remembered_and_private(folder: Folder) -> None:
    folder.script(_ECHO)
    first = folder.chat()
    first.enter("remember me")
    first.wait_for("^  You said remember me.")
    first.wait_for(READY)
    first.type("\x04")
    assert first.wait_end() == 0
    history = folder.path / "state" / "prompts"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    second = folder.chat()
    second.type("\x1b[A")
    second.wait_for("^❯ remember me")


def test_a_narrow_terminal(folder: Folder) -> None:
    folder.script(
        {
            "when": {"round": 1},
            "do": [{"say": "That is done now, and this sentence is longer than the line."}],
        },
        {
            "do": [
                {
                    "call": "run_command",
                    "input": {"command": "echo a command that is longer than forty columns"},
                }
            ]
        },
    )
    chat = folder.chat(columns=40)
    chat.enter("go")
    chat.wait_for("Esc deny")
    assert "    echo a command that is longer than\n    ↪ forty columns" in chat.text
    chat.type("y")
    chat.wait_for("^  That is done now, and this sentence is\n  longer than the line.")
    assert "✓ Running echo a command that is longer…" in chat.text


def test_the_width_may_change_while_something_is_live(folder: Folder) -> None:
    command = "while [ ! -e gate ]; do sleep 0.05; done"
    folder.script(
        {"when": {"round": 1}, "do": [{"say": "Through the gate."}]},
        {"do": [{"say": "Before."}, {"call": "run_command", "input": {"command": command}}]},
        settings="[tools]\nauto_approve = true",
    )
    # The screen of the test cuts lines off instead of breaking them, as xterm does.
    chat = folder.chat(columns=60, XTERM_VERSION="test")
    chat.enter("go")
    chat.wait_for(r"^\S Running while .* done · [\d.]+ s$")
    chat.resize(40, 30)
    chat.wait_for(r"^\S Running while .*…$")
    (folder.path / "gate").touch()
    chat.wait_for("^  Through the gate.")
    chat.wait_for(READY)
    assert chat.text.count("Running while") == 1
    assert "❯ go\n\n  Before.\n\n✓ Running while" in chat.text


def test_a_hostile_model_draws_nothing_but_text(folder: Folder) -> None:
    hostile = "\x1b[2J\x1b[H\x9b2J\x1b]0;owned\x07\r? Read a harmless file?\n\n\u202eevil"
    folder.script(
        {
            "do": [
                {"think": hostile},
                {"say": f"{hostile}\n\n```\n{hostile}\n```\n\n"},
                {"call": "run_command", "input": {"command": hostile}},
            ]
        }
    )
    chat = folder.chat()
    chat.enter("go")
    chat.wait_for(_KEYS)
    chat.type("n")
    chat.wait_for("Why not")
    chat.type("\x1b")
    chat.wait_for("^⊘ Run this command · denied")
    assert "owned" in chat.text
    assert chat.title == ""
    for sequence in (b"\x1b[H", b"\xc2\x9b", b"\x1b]0;", "\u202e".encode()):
        assert sequence not in chat.raw
    # The first columns are ours: the only question is the real one.
    assert [line for line in chat.text.splitlines() if line.startswith("?")] == ["? Run this command?"]


def test_the_user_sees_the_error_and_what_to_do(folder: Folder) -> None:
    folder.script(
        {
            "when": {"prompt": "bad"},
            "do": [
                {"say": "Half an "},
                {"fail": "auth_required", "message": "The key is wrong.", "hint": "Set TAPE_KEY."},
            ],
        },
        _ECHO,
    )
    chat = folder.chat()
    chat.enter("bad")
    chat.wait_for("^✗ The key is wrong. Set TAPE_KEY.")
    assert "  Half an" in chat.text
    chat.enter("good")
    chat.wait_for("^  You said good.")


def test_data_is_a_line(folder: Folder) -> None:
    folder.script({"do": [{"say": "Look:"}, {"image": "iVBORw0KGgo=", "mimeType": "image/png"}]})
    chat = folder.chat()
    chat.enter("show me")
    chat.wait_for("^  Image: image/png, 8 bytes")
    chat.wait_for(READY)
    assert b"\x1b_G" not in chat.raw


def test_what_decides_is_not_drawn_dim(folder: Folder) -> None:
    chat = folder.chat("demo", rows=50)
    chat.enter("write `one` into `a.txt`")
    chat.wait_for("^  s, w, a: for exactly this request")
    chat.type("y")
    chat.wait_for(r"✓ Write a\.txt · \+1")
    chat.wait_for(READY)
    # Dim until the next sequence: some terminals draw that so faintly that it cannot be read.
    dim = [words.decode() for words in re.findall(rb"\x1b\[2(?:;\d+)*m([^\x1b]*)", chat.raw)]
    assert any("session" in words for words in dim)
    assert [words for words in dim if "s, w, a: for" in words or "+1" in words] == []
