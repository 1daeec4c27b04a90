"""What the shells complete, and that no script knows less than the parsers."""

import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.commands import COMMANDS
from dragoman.cli.shells.words import typed
from dragoman.store import ApprovalStore, Database
from own_home import configure
from stored_journals import CHAT, EDITOR, store

_LIMIT = 60
_SHELLS = ("bash", "zsh", "fish")

# Completes each line of its input as bash would: the last word is what the cursor stands at.
_BASH = """
source script.bash
dragoman() { %s "$@"; }
compopt() { echo -n "(paths)"; }
while IFS= read -r line; do
    eval "COMP_WORDS=($line)"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _dragoman
    echo "${COMPREPLY[*]}"
done
"""

# The same in zsh, whose completion works in a terminal only: all that it would offer, whatever it would then insert.
# A `compadd` with -O, -A or -D only asks what would match.
_ZSH = """
zmodload zsh/zpty
zpty shell zsh -f
zpty -w shell 'PS1=; unsetopt beep; stty -echo
autoload -U compinit && compinit -D -u
source script.zsh
source command.zsh
compadd() {
    local -a hits
    if [[ " $* " != *" -"[OAD]" "* ]]; then
        builtin compadd -A hits "$@"
        found+=($hits)
    fi
    builtin compadd "$@"
}
_found() {
    local -a found
    _main_complete
    print -r -- "<${(u)found}>"
    compstate[insert]= compstate[list]=
}
zle -C found complete-word _found
bindkey "^I" found
print -r "read""y"'
zpty -r -m shell said "*ready*"
while IFS= read -r line; do
    zpty -w -n shell "$line"$'\\t\\x15'
    zpty -r -m shell said "*<*>*"
    said=${said##*<}
    print -r -- "${said%%>*}"
done
"""
# And in fish, which can be asked. What follows a tab is what it says about a word.
_FISH = """
source script.fish
source command.fish
while read line
    echo (complete -C "$line" | string split -f 1 \\t)
end
"""


def _script(shell: str, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", shell]) == 0
    path = Path(f"script.{shell}")
    path.write_text(capsys.readouterr().out)
    return path


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_what_the_parsers_know(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _script("bash", capsys)
    configure('[models.tape]\nkind = "script"\npath = "tape.jsonl"\n')
    with Database.open(home / ".local/state/dragoman") as database:
        ApprovalStore(database).add("run_command", "make", None, datetime.now(UTC))
    store(home / ".local/state/dragoman", workspace=str(Path.cwd()))
    expected = {
        "dragoman ch": "chat check",
        "dragoman --log-level info ser": "serve",
        "dragoman --log-level = de": "debug",
        "dragoman --conf": "--config",
        "dragoman chat --": " ".join(
            name for each in typed() if each.command == "chat" for o in each.options for name in o.names[-1:]
        ),
        "dragoman chat ''": "tape demo",
        "dragoman chat tape ''": "",
        "dragoman chat --prompt hello ta": "tape",
        "dragoman chat --prompt ch": "",
        "dragoman chat --config d": "(paths)",
        "dragoman demo-agent --pace ''": "natural fast instant",
        "dragoman agents re": "remove",
        "dragoman agents add claude-": "claude-node20",
        "dragoman approvals revoke ''": "1",
        "dragoman conversations show ''": f"{EDITOR} {CHAT}",
        "dragoman chat --resume ''": CHAT,
        "dragoman approvals hi": "history",
        "dragoman serve --reasoning-events =": "summary spec openai",
        "dragoman completion ''": "bash zsh fish",
        "dragoman help ''": " ".join(COMMANDS),
        "dragoman help --": "",
    }
    done = subprocess.run(
        ["bash", "-c", _BASH % shlex.join([sys.executable, "-m", "dragoman"])],
        input="\n".join(expected) + "\n",
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=True,
    )
    assert done.stderr == ""
    assert dict(zip(expected, done.stdout.splitlines(), strict=True)) == expected


@pytest.mark.long
@pytest.mark.parametrize(("shell", "program"), [("zsh", _ZSH), ("fish", _FISH)])
def test_zsh_and_fish_complete_what_the_parsers_know(
    shell: str, program: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    _script(shell, capsys)
    configure('[models.tape]\nkind = "script"\npath = "tape.jsonl"\n')
    with Database.open(home / ".local/state/dragoman") as database:
        ApprovalStore(database).add("run_command", "make", None, datetime.now(UTC))
    store(home / ".local/state/dragoman", workspace=str(Path.cwd()))
    expected = {
        "dragoman chat --resume ": {CHAT},
        "dragoman ch": {"chat", "check"},
        "dragoman h": {"help"},
        "dragoman --log-level de": {"debug"},
        "dragoman chat ": {"tape", "demo"},
        "dragoman chat --prompt hello ta": {"tape"},
        "dragoman agents re": {"remove"},
        "dragoman agents add claude-": {"claude-node20"},
        "dragoman approvals revoke ": {"1"},
        "dragoman serve --reasoning-events ": {"summary", "spec", "openai"},
        "dragoman completion ": {"bash", "zsh", "fish"},
        "dragoman help ": set(COMMANDS),
    }
    command = shlex.join([sys.executable, "-m", "dragoman"])
    Path("command.zsh").write_text(f'dragoman() {{ {command} "$@"; }}\n')
    Path("command.fish").write_text(f"function dragoman; {command} $argv; end\n")
    done = subprocess.run(
        [shell, "-c", program],
        input="\n".join(expected) + "\n",
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=True,
    )
    assert done.stderr == ""
    offered = [set(line.split()) for line in done.stdout.splitlines()]
    assert dict(zip(expected, offered, strict=True)) == expected


@pytest.mark.parametrize("shell", _SHELLS)
def test_every_command_and_option_is_in_every_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = _script(shell, capsys).read_text()
    for each in typed():
        assert each.command in script
        for option in each.options:
            name = option.names[-1]
            assert (f"-l {name[2:]} " if shell == "fish" else name) in script


@pytest.mark.parametrize("shell", _SHELLS)
def test_the_shell_can_read_it(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, "-n", _script(shell, capsys)], capture_output=True, timeout=_LIMIT, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_names_that_a_script_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    configure('[models.tape]\nkind = "script"\npath = "tape.jsonl"\n')
    assert main(["completion", "models"]) == 0
    assert capsys.readouterr() == ("tape\ndemo\n", "")
    assert main(["completion", "agents"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["demo", "claude"]


def test_the_ids_that_a_script_asks_for(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = home / ".local/state/dragoman"
    assert main(["completion", "approvals"]) == 0
    assert main(["completion", "conversations"]) == 0
    assert capsys.readouterr() == ("", "")
    assert not folder.exists()
    when = datetime.now(UTC)
    with Database.open(folder) as database:
        ApprovalStore(database).add("run_command", "make", None, when)
    store(folder)
    assert main(["completion", "approvals"]) == 0
    assert main(["completion", "conversations"]) == 0
    assert capsys.readouterr() == (f"1\n{EDITOR}\n{CHAT}\n", "")
    # Those of this folder.
    assert main(["completion", "chats"]) == 0
    assert capsys.readouterr().out == ""
    store(folder, workspace=str(Path.cwd()), suffix="2")
    assert main(["completion", "chats"]) == 0
    assert capsys.readouterr().out == f"{CHAT[:-1]}2\n"
    (folder / "dragoman.db").write_text("no database")
    assert main(["completion", "approvals"]) == 1
    assert capsys.readouterr().err.startswith("dragoman: ")


@pytest.mark.parametrize(
    ("shell", "hint"),
    [("bsh", 'Did you mean "bash"?'), ("powershell", "There is for bash, zsh, fish.")],
)
def test_a_shell_that_we_do_not_know(shell: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 2
    assert capsys.readouterr().err == f'dragoman: completion: there is none for "{shell}". {hint}\n'


def test_every_command_is_offered() -> None:
    assert [each.command for each in typed()] == ["", *COMMANDS, "help"]
