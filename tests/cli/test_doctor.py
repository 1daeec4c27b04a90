"""`dragoman doctor`: what is there, what is missing, and the next step."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.cli import installation, main, trial
from own_home import configure


def _lines(shown: str) -> dict[str, str]:
    """Each finding by the words that follow its level, with its level and next steps."""
    found: dict[str, str] = {}
    what = ""
    findings, _, _ = shown.partition("\n\n")
    for line in findings.splitlines():
        if line.startswith("      "):
            found[what] += "\n" + line.strip()
        else:
            level, _, what = line.partition(" ")
            what = what.strip()
            found[what] = level
    return found


def _next(shown: str) -> str:
    """The one next step: the last line."""
    _, _, last = shown.partition("\n\n")
    assert last.startswith("Next: ")
    assert last.endswith("\n")
    return last.removeprefix("Next: ").removesuffix("\n")


def test_a_fresh_installation_begins_with_the_model_and_ends_with_the_next_step(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    version = ".".join(map(str, sys.version_info[:3]))
    system = {"linux": "Linux", "darwin": "macOS"}[sys.platform]
    assert shown.splitlines() == [
        "ok    demo (Demo agent): built in",
        "ok    no configuration file; using defaults",
        f"ok    state in {home}/.local/state/dragoman/dragoman.db",
        f"ok    Dragoman {__version__}, Python {version}, {system}",
        "",
        "Next: dragoman init, to choose an agent and try it",
    ]


def test_verbose_lists_every_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "-v"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("ok    demo (Demo agent): built in\n")
    found = _lines(shown)
    version = ".".join(map(str, sys.version_info[:3]))
    assert found[f"Python {version} ({sys.executable})"] == "ok"
    assert found[f"msgspec {metadata.version('msgspec')}"] == "ok"


def test_every_dependency_of_the_package_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requirements = ["msgspec >=0.19", "rich>=14 ; sys_platform != 'win32'", "pytest ; extra == 'dev'"]
    monkeypatch.setattr(metadata, "requires", lambda _name: requirements)
    assert main(["doctor", "--verbose"]) == 0
    found = _lines(capsys.readouterr().out)
    assert found[f"msgspec {metadata.version('msgspec')}"] == "ok"
    assert found[f"rich {metadata.version('rich')}"] == "ok"
    assert not any(what.startswith("pytest") for what in found)


def test_a_source_that_is_not_installed_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def requires(_name: str) -> list[str]:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", requires)
    assert main(["doctor"]) == 0
    what = "Dragoman runs from its source and is not installed"
    assert _lines(capsys.readouterr().out)[what].startswith("warn\n→ Install it")


def test_models_are_listed_with_what_they_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    Path("tape.jsonl").write_text('{"do": [{"say": "Hello."}]}\n')
    configure(
        '[models.tape]\nkind = "script"\npath = "tape.jsonl"\nname = "The Tape"\n'
        '[models.agent]\nkind = "acp"\ncommand = ["no-such-program-anywhere"]\n'
        '[models.self]\nkind = "acp"\ncommand = ["dragoman", "demo-agent"]\n'
        '[models.gateway]\nkind = "responses"\nbase_url = "http://a"\nmodel = "m"\napi_key = "$NOT_SET"\n'
        '[models.lost]\nkind = "script"\npath = "none.jsonl"\n'
        '[serve]\napi_keys = ["$NOT_SET"]\n'
        '[keys.build]\nkey = "build-key"\nworkspaces = ["nowhere"]\n'
    )
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    found = _lines(shown)
    unset = "the environment variable NOT_SET is not set. Set it first, or write the value here."
    nowhere = f'"workspaces" in [keys.build]: "{Path.cwd()}/nowhere" is not a folder. Make it first.'
    problems = f"dragoman.toml:20: {unset}\n→ dragoman.toml:23: {nowhere}"
    assert found["configuration in dragoman.toml"] == f"warn\n→ {problems}"
    assert found["tape (The Tape): ready"] == "ok"
    assert found["gateway: variable not set"] == f"warn\n→ dragoman.toml:15: {unset}"
    assert found["agent: command not found"].startswith(
        "warn\n→ The command no-such-program-anywhere is not found. Install it, or give its full path."
    )
    assert found["self: built in"] == "ok"
    lost = found["lost: not usable"]
    assert lost.startswith(f"warn\n→ {Path.cwd()}/none.jsonl: the script cannot be read")
    step = "The command no-such-program-anywhere is not found. Install it, or give its full path."
    assert _next(shown) == f"{step} (agent: command not found)"


@pytest.mark.usefixtures("home")
def test_i4_an_agent_that_is_started_so_that_it_does_not_ask_is_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    entry = 'kind = "acp"\nagent = "fast-agent"\ncommand = ["dragoman", "demo-agent"'
    configure(f'[models.bold]\n{entry}]\n[models.careful]\n{entry}, "--no-shell"]\nfs = true\n')
    assert main(["doctor"]) == 0
    found = _lines(capsys.readouterr().out)
    assert found["careful: installed"] == "ok"
    bold = found["bold: built in"]
    assert bold.startswith("warn\n→ It runs commands without asking.")
    assert "Set fs = true." in bold


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("line", ["doctor", "doctor asks", "chat asks -p hello"])
def test_i4_a_caution_is_printed_once(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure(
        '[models.asks]\nkind = "acp"\nagent = "qwen"\ncommand = ["dragoman", "demo-agent", "--pace", "instant"]\n'
    )
    assert main(line.split()) == 0
    shown = capsys.readouterr()
    findings, _, _ = (shown.out + shown.err).partition("\n\nNext: ")
    assert findings.count("A model approves what it does") == 1


def test_declarations_that_make_no_tool_usable_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    configure('[tools]\ndeclarations = ["tools.json"]\n')
    assert main(["doctor"]) == 0
    found = _lines(capsys.readouterr().out)
    assert found["dragoman.toml:2: `declarations` makes no tool usable"].startswith(
        "warn\n→ It only describes"
    )


def test_a_file_without_problems_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    configure("[loop]\nturns = 3\n")
    assert main(["doctor"]) == 0
    assert _lines(capsys.readouterr().out)["configuration in dragoman.toml"] == "ok"


def test_a_wrong_configuration_fails_with_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure("[loop]\nturn = 3\n[x]\n")
    assert main(["doctor"]) == 1
    shown = capsys.readouterr()
    assert shown.err == ""
    assert _lines(shown.out)["the configuration cannot be used"] == (
        'fail\n→ dragoman.toml:2: unknown key "turn" in [loop]. Did you mean "turns"?\n'
        "→ dragoman.toml:3: unknown table [x]. Known here: [models], [conversation], [journal], [tools], [chat], [[policy]], "
        "[loop], [serve], [console], [keys], [fleet]."
    )


def test_a_state_folder_that_cannot_be_used_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["doctor", "--state-dir", str(tmp_path / "file")]) == 1
    [(what, text)] = [item for item in _lines(capsys.readouterr().out).items() if item[1].startswith("fail")]
    assert what.startswith(f"{tmp_path}/file/dragoman.db: The state folder cannot be used")
    assert text == "fail\n→ Choose another with --state-dir."


def test_a_library_that_is_missing_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _name: ["no_such_library_anywhere"])
    assert main(["doctor"]) == 1
    found = _lines(capsys.readouterr().out)
    what = "no_such_library_anywhere cannot be loaded: ModuleNotFoundError: No module named 'no_such_library_anywhere'"
    assert found[what] == "fail\n→ Install Dragoman again: pip install --force-reinstall dragoman"


def test_versions_of_python() -> None:
    assert installation.python((3, 11, 0)).level == "ok"
    assert installation.python((4, 0, 0)).level == "ok"
    old = installation.python((3, 10, 9))
    assert (old.level, old.next_step) == ("fail", "Install Python 3.11 or newer.")


def test_platforms() -> None:
    assert installation.system("linux").level == "ok"
    assert installation.system("darwin").level == "ok"
    assert "WSL" in installation.system("win32").next_step
    assert installation.system("win32").level == "fail"
    assert installation.system("freebsd14").level == "warn"


# --- With a model. ---------------------------------------------------------------------------------------------------


def _script(*steps: str) -> None:
    Path("tape.jsonl").write_text('{"do": [' + ", ".join(steps) + "]}\n")
    configure('[models.tape]\nkind = "script"\npath = "tape.jsonl"\n')


def test_a_model_that_answers(capsys: pytest.CaptureFixture[str]) -> None:
    _script('{"say": "Hello,\\n' + "a" * 100 + '."}')
    assert main(["doctor", "tape"]) == 0
    shown = capsys.readouterr().out
    model, answer, *_ = shown.splitlines()
    assert model == "ok    tape (Script): ready"
    assert answer.startswith("ok    tape answered in 0.")
    assert answer.endswith(" s: Hello,\\n" + "a" * 53 + "…")
    assert _next(shown) == "dragoman chat tape"


def test_only_that_model_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    _script('{"say": "Hello."}')
    assert main(["doctor", "tape"]) == 0
    assert "demo" not in capsys.readouterr().out


@pytest.mark.parametrize("hint", ["", ', "hint": "Log in first."'])
def test_a_model_that_fails(hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    _script('{"fail": "auth_required", "message": "Nobody is logged in."' + hint + "}")
    assert main(["doctor", "tape"]) == 1
    shown = capsys.readouterr().out
    text = _lines(shown)["tape does not answer: Nobody is logged in."]
    assert text == ("fail\n→ Log in first." if hint else "fail")
    assert not hint or _next(shown) == "Log in first."


def test_a_model_that_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trial, "_ANSWER_SECONDS", 0.01)
    _script('{"wait": "forever"}')
    assert main(["doctor", "tape"]) == 1
    found = _lines(capsys.readouterr().out)
    assert found["tape does not answer: It has said nothing for 0.01 seconds."].startswith("fail\n→ ")


def test_a_model_that_cannot_be_started(capsys: pytest.CaptureFixture[str]) -> None:
    configure('[models.tape]\nkind = "script"\npath = "none.jsonl"\n')
    assert main(["doctor", "tape"]) == 1
    assert "fail  tape does not answer: " in capsys.readouterr().out


def test_a_model_that_does_not_exist_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "dmeo"]) == 2
    assert capsys.readouterr().err == 'dragoman: There is no model "dmeo". Did you mean "demo"?\n'
