"""`dragoman doctor`: what is there, what is missing, and the next step."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

from dragoman.cli import doctor, main
from own_home import configure


def _lines(shown: str) -> dict[str, str]:
    """Each finding by the words that follow its level, with its level and next steps."""
    found: dict[str, str] = {}
    what = ""
    for line in shown.splitlines():
        if line.startswith("      "):
            found[what] += "\n" + line.strip()
        else:
            level, _, what = line.partition(" ")
            what = what.strip()
            found[what] = level
    return found


def test_a_fresh_installation_is_fine(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    found = _lines(capsys.readouterr().out)
    assert {text.partition("\n")[0] for text in found.values()} == {"ok"}
    assert f"state in {home}/.local/state/dragoman/dragoman.db" in found
    version = ".".join(map(str, sys.version_info[:3]))
    assert f"Python {version} ({sys.executable})" in found
    assert found["no configuration file: everything as it comes"] == (
        "ok\n→ For an agent that is known: dragoman agents"
        f"\n→ For any other, or an endpoint: write {home}/.config/dragoman/dragoman.toml"
    )
    assert any(what.startswith("model demo (kind acp): ") for what in found)


def test_every_dependency_of_the_package_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requirements = ["msgspec >=0.19", "rich>=14 ; sys_platform != 'win32'", "pytest ; extra == 'dev'"]
    monkeypatch.setattr(metadata, "requires", lambda _name: requirements)
    assert main(["doctor"]) == 0
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
    found = _lines(capsys.readouterr().out)
    unset = "the environment variable NOT_SET is not set. Set it first, or write the value here."
    nowhere = f'"workspaces" in [keys.build]: "{Path.cwd()}/nowhere" is not a folder. Make it first.'
    problems = f"dragoman.toml:20: {unset}\n→ dragoman.toml:23: {nowhere}"
    assert found["configuration in dragoman.toml"] == f"warn\n→ {problems}"
    assert found["model tape (kind script): The Tape"] == "ok"
    assert found["model gateway (kind responses)"] == f"warn\n→ dragoman.toml:15: {unset}"
    assert found["model agent (kind acp): agent"].startswith(
        "warn\n→ The command no-such-program-anywhere is not found. Install it, or give its full path."
    )
    assert found["model self (kind acp): self"] == "ok"
    lost = found["model lost (kind script)"]
    assert lost.startswith(f"warn\n→ {Path.cwd()}/none.jsonl: the script cannot be read")


@pytest.mark.usefixtures("home")
def test_i4_an_agent_that_is_started_so_that_it_does_not_ask_is_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    entry = 'kind = "acp"\nagent = "fast-agent"\ncommand = ["dragoman", "demo-agent"'
    configure(f'[models.bold]\n{entry}]\n[models.careful]\n{entry}, "--no-shell"]\nfs = true\n')
    assert main(["doctor"]) == 0
    found = _lines(capsys.readouterr().out)
    assert found["model careful (kind acp): careful"] == "ok"
    bold = found["model bold (kind acp): bold"]
    assert bold.startswith("warn\n→ It runs commands without asking.")
    assert "Set fs = true." in bold


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("line", ["doctor", "doctor asks", "chat asks -p hello"])
def test_i4_a_caution_is_printed_once(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure('[models.asks]\nkind = "acp"\nagent = "qwen"\ncommand = ["dragoman", "demo-agent"]\n')
    assert main(line.split()) == 0
    shown = capsys.readouterr()
    assert (shown.out + shown.err).count("A model approves what it does") == 1


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
        "→ dragoman.toml:3: unknown table [x]. Known here: [models], [conversation], [journal], [tools], [[policy]], "
        "[loop], [serve], [console], [keys]."
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
    assert doctor.python((3, 11, 0)).level == "ok"
    assert doctor.python((4, 0, 0)).level == "ok"
    old = doctor.python((3, 10, 9))
    assert (old.level, old.next_step) == ("fail", "Install Python 3.11 or newer.")


def test_platforms() -> None:
    assert doctor.system("linux").level == "ok"
    assert doctor.system("darwin").level == "ok"
    assert "WSL" in doctor.system("win32").next_step
    assert doctor.system("win32").level == "fail"
    assert doctor.system("freebsd14").level == "warn"


# --- With a model. ---------------------------------------------------------------------------------------------------


def _script(*steps: str) -> None:
    Path("tape.jsonl").write_text('{"do": [' + ", ".join(steps) + "]}\n")
    configure('[models.tape]\nkind = "script"\npath = "tape.jsonl"\n')


def test_a_model_that_answers(capsys: pytest.CaptureFixture[str]) -> None:
    _script('{"say": "Hello,\\n' + "a" * 100 + '."}')
    assert main(["doctor", "tape"]) == 0
    *_, model, answer = capsys.readouterr().out.splitlines()
    assert model.startswith("ok    model tape (kind script)")
    assert answer.startswith("ok    tape answered in 0.")
    assert answer.endswith(" s: Hello,\\n" + "a" * 53 + "…")


def test_only_that_model_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    _script('{"say": "Hello."}')
    assert main(["doctor", "tape"]) == 0
    assert "model demo" not in capsys.readouterr().out


@pytest.mark.parametrize("hint", ["", ', "hint": "Log in first."'])
def test_a_model_that_fails(hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    _script('{"fail": "auth_required", "message": "Nobody is logged in."' + hint + "}")
    assert main(["doctor", "tape"]) == 1
    text = _lines(capsys.readouterr().out)["tape does not answer: Nobody is logged in."]
    assert text == ("fail\n→ Log in first." if hint else "fail")


def test_a_model_that_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_ANSWER_SECONDS", 0.01)
    _script('{"wait": "forever"}')
    assert main(["doctor", "tape"]) == 1
    found = _lines(capsys.readouterr().out)
    assert found["tape has not answered in 0.01 seconds"].startswith("fail\n→ ")


def test_a_model_that_cannot_be_started(capsys: pytest.CaptureFixture[str]) -> None:
    configure('[models.tape]\nkind = "script"\npath = "none.jsonl"\n')
    assert main(["doctor", "tape"]) == 1
    assert "fail  tape does not answer: " in capsys.readouterr().out


def test_a_model_that_does_not_exist_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "dmeo"]) == 2
    assert capsys.readouterr().err == 'dragoman: There is no model "dmeo". Did you mean "demo"?\n'
