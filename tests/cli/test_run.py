"""Whatever a command does, a user sees sentences and an exit status."""

import errno
import logging
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.cli import chat, demo, entry, main
from dragoman.config import BUILTIN_MODELS
from dragoman.frontends.terminal.entry import ChatOptions
from dragoman.lm import LanguageModelError
from dragoman.tools.declaration import DeclarationError
from dragoman.tools.registry import RegistryError

_ADDED = "`dragoman agents add claude` installs the agent of that name, and makes it a model."

Starts = Callable[[Callable[[ChatOptions], int]], None]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    """Puts something else in the place of the chat."""

    def put(instead: Callable[[ChatOptions], int]) -> None:
        monkeypatch.setattr(chat, "run_chat", instead)
        monkeypatch.setattr(demo, "run_demo", instead)

    return put


def _keeps(seen: list[ChatOptions]) -> Callable[[ChatOptions], int]:
    def run(options: ChatOptions) -> int:
        seen.append(options)
        return 0

    return run


def _raises(error: BaseException) -> Callable[[ChatOptions], int]:
    def run(_options: ChatOptions) -> int:
        raise error

    return run


def test_chat_gets_what_the_line_says(starts: Starts, home: Path) -> None:
    seen: list[ChatOptions] = []
    starts(_keeps(seen))
    Path("mine.toml").write_text('[models.tape]\nkind = "script"\npath = "tape.jsonl"\n')
    assert main(["chat", "--config", "mine.toml", "--state-dir", "s", "-p", "hello", "--json"]) == 0
    assert main(["chat", "demo"]) == 0
    tape, built_in = seen
    assert (tape.model, tape.prompt, tape.json) == ("tape", "hello", True)
    assert tape.state_dir == home / "work" / "s"
    assert tape.workspace == (home / "work",)
    assert list(tape.config.models) == ["tape", "demo"]
    assert (built_in.model, built_in.prompt, built_in.json) == ("demo", None, False)
    assert built_in.state_dir == home / ".local/state/dragoman"


def test_json_needs_a_prompt_because_answers_come_on_standard_input(
    starts: Starts, capsys: pytest.CaptureFixture[str]
) -> None:
    starts(_keeps([]))
    assert main(["chat", "--json"]) == 2
    assert "--json needs a prompt: -p PROMPT" in capsys.readouterr().err


def test_the_status_of_a_chat_is_ours(starts: Starts) -> None:
    starts(lambda _options: 1)
    assert main(["chat"]) == 1


def test_demo_is_the_built_in_one_whatever_the_configuration_says(starts: Starts) -> None:
    seen: list[ChatOptions] = []
    starts(_keeps(seen))
    Path("dragoman.toml").write_text(
        '[models.demo]\nkind = "script"\npath = "other.jsonl"\n[loop]\nturns = 3\n'
    )
    assert main(["demo", "--config", "dragoman.toml"]) == 0
    [options] = seen
    assert options.model == "demo"
    assert options.config.loop.turns == 3
    assert options.config.models["demo"] == BUILTIN_MODELS["demo"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("chat dmeo", 'dragoman: There is no model "dmeo". Did you mean "demo"?\n'),
        ("check dmeo", 'dragoman: There is no model "dmeo". Did you mean "demo"?\n'),
        (
            "chat cluade",
            f'dragoman: There is no model "cluade". Did you mean "claude"? {_ADDED}\n',
        ),
        (
            "chat --config none.toml",
            "none.toml: the configuration cannot be read: No such file or directory.\n",
        ),
    ],
)
def test_a_wrong_name_is_wrong_usage(line: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert capsys.readouterr().err == problem


def test_a_name_like_no_other_is_told_how_to_add_a_model(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", "xyzzy"]) == 2
    assert capsys.readouterr().err == (
        'dragoman: There is no model "xyzzy". Configured: "demo". To add one: `dragoman agents` lists those that are '
        'known; for any other agent put [models.NAME] with kind = "acp" and its command into '
        f"{home}/.config/dragoman/dragoman.toml.\n"
    )
    Path("mine.toml").write_text("")
    assert main(["chat", "xyzzy", "--config", "mine.toml"]) == 2
    assert capsys.readouterr().err.endswith(" into mine.toml.\n")


def test_a_wrong_configuration_is_told_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("dragoman.toml").write_text("[loop]\nturn = 3\ndeadline_minutes = 'x'\n")
    assert main(["chat"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        'dragoman.toml:2: unknown key "turn" in [loop]. Did you mean "turns"?',
        'dragoman.toml:3: "deadline_minutes" in [loop]: expected a number above 0 up to 10080, found "x".',
    ]


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (LanguageModelError("unavailable", "It is away", hint="Try again."), 1, "It is away. Try again."),
        (DeclarationError("no name", where="tools.json"), 2, "tools.json: no name"),
        (RegistryError("read_file is declared twice."), 2, "read_file is declared twice."),
        (KeyboardInterrupt(), 130, None),
    ],
)
def test_how_a_chat_may_end(
    error: BaseException, status: int, told: str | None, starts: Starts, capsys: pytest.CaptureFixture[str]
) -> None:
    starts(_raises(error))
    assert main(["chat"]) == status
    assert capsys.readouterr().err == ("" if told is None else f"dragoman: {told}\n")


def test_what_nobody_expected_is_one_line(starts: Starts, capsys: pytest.CaptureFixture[str]) -> None:
    starts(_raises(ZeroDivisionError("by zero")))
    assert main(["chat"]) == 1
    assert capsys.readouterr().err == (
        "dragoman: this should not have happened: ZeroDivisionError: by zero. "
        "Run it again with --log-level debug to see where.\n"
    )


def test_what_nobody_expected_is_told_in_full_to_who_asks(
    starts: Starts, capsys: pytest.CaptureFixture[str]
) -> None:
    starts(_raises(ZeroDivisionError("by zero")))
    assert main(["chat", "--log-level", "debug"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last)" in shown
    assert "test_run.py" in shown


def test_what_nobody_expected_is_kept_in_the_log_file(
    starts: Starts, capsys: pytest.CaptureFixture[str]
) -> None:
    starts(_raises(ZeroDivisionError("by zero")))
    assert main(["chat", "--log-file", "run.log"]) == 1
    assert capsys.readouterr().err.endswith("The details are in run.log.\n")
    assert "Traceback (most recent call last)" in Path("run.log").read_text()
    assert stat.S_IMODE(Path("run.log").stat().st_mode) == 0o600


def test_a_pipe_that_broke_inside_is_not_taken_for_our_output(
    starts: Starts, capfd: pytest.CaptureFixture[str]
) -> None:
    starts(_raises(BrokenPipeError(32, "Broken pipe")))
    assert main(["chat"]) == 1
    assert "this should not have happened: BrokenPipeError" in capfd.readouterr().err


def test_that_there_is_no_room_is_nobodys_mistake(starts: Starts, capsys: pytest.CaptureFixture[str]) -> None:
    starts(_raises(OSError(errno.ENOSPC, "No space left on device", "kept.json")))
    assert main(["chat"]) == 1
    assert capsys.readouterr().err == (
        "dragoman: kept.json could not be written: No space left on device. Make room for it.\n"
    )


# One writes when it ends, the other line by line.
@pytest.mark.parametrize("command", ["approvals", "doctor"])
def test_output_that_nobody_reads_ends_quietly(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        assert main([command]) == 1
    assert capsys.readouterr().err == ""


def test_the_program_exits_with_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["dragoman", "chta"])
    handler = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as ended:
            entry()
        assert ended.value.code == 2
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, handler)


def test_a_log_file_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--log-file", "none/run.log"]) == 2
    assert capsys.readouterr().err == (
        "dragoman: the log file none/run.log cannot be written: No such file or directory.\n"
    )


def test_keys_of_the_configuration_are_not_logged(starts: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    def leak(_options: ChatOptions) -> int:
        logging.getLogger("test").error("the key is %s", "hunter2-hunter2")
        return 0

    starts(leak)
    monkeypatch.setenv("GATEWAY_KEY", "hunter2-hunter2")
    Path("dragoman.toml").write_text(
        '[models.a]\nkind = "script"\npath = "x"\n'
        '[models.gateway]\nkind = "responses"\nbase_url = "http://a"\nmodel = "m"\napi_key = "$GATEWAY_KEY"\n'
    )
    assert main(["chat", "--log-file", "run.log", "--config", "dragoman.toml"]) == 0
    assert "the key is [redacted]" in Path("run.log").read_text()


def test_a_file_that_was_only_found_spares_no_question_until_it_is_named(
    starts: Starts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[ChatOptions] = []
    starts(_keeps(seen))
    Path("dragoman.toml").write_text("[tools]\nauto_approve = true\n")
    assert main(["chat"]) == 0
    assert "only found in this folder: tools.auto_approve (line 2). To honour" in capsys.readouterr().err
    assert main(["chat", "--config", "dragoman.toml"]) == 0
    monkeypatch.setenv("DRAGOMAN_CONFIG", "dragoman.toml")
    assert main(["chat"]) == 0
    assert [options.config.tools.auto_approve for options in seen] == [False, True, True]
    assert capsys.readouterr().err == ""
