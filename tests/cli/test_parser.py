"""What a command line means, and what is said to one that means nothing."""

from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.cli import main
from dragoman.cli.commands import COMMANDS
from dragoman.cli.errors import UsageError
from dragoman.cli.layout import laid_out
from dragoman.cli.manual import MANUAL
from dragoman.cli.parser import parse, parsers


def test_without_arguments_the_four_most_useful_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr()
    assert [line.split()[1] for line in shown.out.splitlines() if line.startswith("  dragoman")] == [
        "demo",
        "init",
        "chat",
        "doctor",
    ]
    assert shown.err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dragoman {__version__}\n"


def test_help_names_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    words = " ".join(shown.split())
    for command in COMMANDS.values():
        assert f"  {command.name} " in shown
        assert command.summary in words
    assert "0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted" in shown


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_may_be_a_word(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    expected = capsys.readouterr()
    assert main(["help", *name.split()]) == 0
    assert capsys.readouterr() == expected


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_has_examples_and_fits_the_screen(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    headings = ["examples:", "environment:", "exit status:"]
    assert [line for line in shown.splitlines() if line in headings] == headings
    assert "global options:" in shown
    assert shown.startswith(f"usage: dragoman {name} ")
    assert shown.partition("\n")[0].endswith(" [options]")
    assert f"examples:\n  dragoman {name}" in shown
    # Unbroken: a command is there to be copied.
    assert COMMANDS[name].examples in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_every_command_has_a_page_in_the_manual_and_every_option_says_what_it_is_for() -> None:
    assert list(COMMANDS) == list(MANUAL)
    for command, parser in parsers():
        for action in parser._actions:
            assert action.help, f"{command}: {action.option_strings or action.dest}"


@pytest.mark.parametrize("columns", [20, 40, 200])
def test_help_fits_any_terminal_and_keeps_its_words(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main([]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= columns
    assert main(["agents", "--help"]) == 0
    shown = capsys.readouterr().out
    # What cannot be broken may stand out: an option with its value, the name of a file.
    wide = [line for line in shown.splitlines() if len(line) > min(columns, 80) and " " in line.strip()]
    assert [line for line in wide if not line.lstrip().startswith(("-", "["))] == []
    assert "dragoman agents list --refresh registry.json" in " ".join(shown.split())


def test_layout_keeps_lists_and_fills_paragraphs() -> None:
    text = "Words that go\non.\n\nlist:\n  one  what there is to say of it\n  two  more"
    assert laid_out(text, 30) == (
        "Words that go on.\n\nlist:\n  one  what there is to say of\n       it\n  two  more"
    )
    assert laid_out("  one  what there is to say", 24) == "  one\n      what there is to\n      say"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("chta", 'unknown command "chta". Did you mean "chat"?\nTry: dragoman --help'),
        ("--config x.toml docter", 'unknown command "docter". Did you mean "doctor"?\nTry: dragoman --help'),
        ("xyzzy", 'unknown command "xyzzy".\nTry: dragoman --help'),
        ("help agnets", 'unknown command "agnets". Did you mean "agents"?\nTry: dragoman --help'),
        ("--confg x chat", 'unknown option --confg. Did you mean "--config"?\nTry: dragoman --help'),
        ("chat --jsno", 'unknown option --jsno. Did you mean "--json"?\nTry: dragoman chat --help'),
        (
            "chat --promt=hello",
            'unknown option --promt=hello. Did you mean "--prompt"?\nTry: dragoman chat --help',
        ),
        ("chat --js", 'unknown option --js. Did you mean "--json"?\nTry: dragoman chat --help'),
        (
            "policy explain git log",
            (
                '"git" is one argument too many. A command is given in quotes: --command "git log -3".\n'
                "Try: dragoman policy --help"
            ),
        ),
        ("chat a b", '"b" is one argument too many.\nTry: dragoman chat --help'),
        ("chat -p", "-p/--prompt: expected one argument\nTry: dragoman chat --help"),
        ("check", "the following arguments are required: TARGET\nTry: dragoman check --help"),
        (
            "serve --port x",
            '--port: "x" is no port: a whole number from 0 to 65535.\nTry: dragoman serve --help',
        ),
        (
            "serve --port 65536",
            '--port: "65536" is no port: a whole number from 0 to 65535.\nTry: dragoman serve --help',
        ),
        (
            "serve --reasoning-events opena",
            '--reasoning-events: there is no "opena"; there are summary, spec, openai. Did you mean "openai"?\nTry: dragoman serve --help',
        ),
        ("-x", "unknown option -x.\nTry: dragoman --help"),
        (
            "--log-level inof demo",
            '--log-level: "inof" is no log level; there are error, warning, info, debug. Did you mean "info"?',
        ),
    ],
)
def test_a_mistake_is_told_with_what_was_probably_meant(
    line: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"dragoman: {problem}\n"


def test_global_options_may_stand_before_the_command_and_after_it() -> None:
    _, before = parse(
        ["--config", "a", "--state-dir", "b", "--log-level", "info", "--log-file", "c", "chat", "m"], {}
    )
    _, after = parse(
        ["chat", "--config", "a", "--state-dir", "b", "m", "--log-level", "info", "--log-file", "c"], {}
    )
    for said in (before, after):
        assert said.config == Path("a")
        assert said.state_dir == Path("b")
        assert said.log_level == "info"
        assert said.log_file == Path("c")
        assert said.model == "m"


def test_an_option_given_twice_holds_as_it_was_given_last() -> None:
    _, said = parse(["--config", "a", "chat", "--config", "b"], {})
    assert said.config == Path("b")


def test_without_options_nothing_is_set() -> None:
    command, said = parse(["chat"], {})
    assert command is COMMANDS["chat"]
    assert (said.config, said.state_dir, said.log_file, said.log_level) == (None, None, None, "warning")
    assert (said.model, said.prompt, said.json) == (None, None, False)


def test_the_log_level_may_stand_in_the_environment() -> None:
    assert parse(["demo"], {"DRAGOMAN_LOG": "DEBUG"})[1].log_level == "debug"
    assert parse(["demo"], {"DRAGOMAN_LOG": ""})[1].log_level == "warning"
    assert parse(["demo", "--log-level", "Error"], {"DRAGOMAN_LOG": "debug"})[1].log_level == "error"
    with pytest.raises(UsageError, match=r'^\$DRAGOMAN_LOG: "loud" is no log level'):
        parse(["demo"], {"DRAGOMAN_LOG": "loud"})


def test_a_prompt_may_begin_with_a_dash_when_it_is_joined_to_its_option() -> None:
    _, said = parse(["chat", "--prompt=-v what does it mean?"], {})
    assert said.prompt == "-v what does it mean?"
