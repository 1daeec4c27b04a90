"""Every target of the Makefile runs somewhere, so that none breaks unseen; and `make everything` tells what failed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

import everything
from everything import QUICK, ROOT, WHOLE, Ran, table

_MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
_CI = (ROOT / ".ci" / "run").read_text("utf-8")
_VENV = Path(sys.executable).parents[1]
# Why a target runs neither in CI nor in a test.
_EXCEPTIONS = {
    "vsix": "it makes what test-vscode makes first, and no more",
    "pictures-vscode": "it is test-vscode with another folder for the pictures, which that takes as well",
    "pictures-console": "it is one test of test-console with another folder for its pictures, which that takes as well",
    "pictures-openwebui": "it is one test of test-openwebui with another folder for its picture, which that takes as well",
    "everything": "CI runs its quick form",
    "pins": "it needs uv and the package index; what it writes is checked by tests/security/test_dependencies.py",
}


def _venv(folder: Path) -> str:
    """This environment, by a name without spaces: make takes a space for the end of a name."""
    if folder == ROOT and _VENV.is_relative_to(ROOT):
        return str(_VENV.relative_to(ROOT))
    link = folder / ".venv"
    if folder != ROOT and not link.exists():
        link.symlink_to(_VENV)
    return str(_VENV) if folder == ROOT else link.name


def _make(target: str, *more: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """With this environment, which is taken as it is: nothing is installed."""
    venv = _venv(folder)
    stamps = (f"-o{venv}/{name}.stamp" for name in ("run", "dev"))
    command = ("make", "-s", *stamps, f"VENV={venv}", *more, target)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def _targets() -> set[str]:
    [declared] = re.findall(r"^\.PHONY: (help .+)$", _MAKEFILE, re.MULTILINE)
    return set(declared.split())


def _run_here() -> set[str]:
    return set(re.findall(r'(?:_make\(|"make", )"([a-z-]+)"', Path(__file__).read_text("utf-8")))


def _in_ci() -> set[str]:
    stages = re.findall(r"^(?:stage|retry|beside) ([a-z -]+)$", _CI, re.MULTILINE)
    return {target for each in stages for target in each.split()}


def test_every_target_is_run_by_ci_or_by_a_test() -> None:
    in_ci = _in_ci()
    assert in_ci <= _targets()
    assert "everything-quick" in in_ci
    run = in_ci | set(QUICK) | _run_here()
    assert _targets() - run == set(_EXCEPTIONS)


@pytest.mark.parametrize(
    ("broken", "ran"),
    [
        ("", "passed"),
        ("lint", "FAILED"),
        ("test-vscode", "passed at second run"),
        ("test-openwebui", "passed at second run"),
    ],
)
def test_ci_runs_every_stage_and_says_how_each_ended(tmp_path: Path, broken: str, ran: str) -> None:
    """With a Makefile whose targets do nothing but count; the broken one fails the first time."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    (tmp_path / "Makefile").write_text(
        f".venv/dev.stamp:\n%:\n\t@echo $@ >> order; "
        f"[ $@ != '{broken}' ] || [ $$(grep -cx -- $@ order) = 2 ]\n"
    )
    done = subprocess.run((tmp_path / ".ci" / "run",), capture_output=True, text=True, check=False)
    table = dict(re.findall(r"^  ([a-z-]+) +(\S.*?) +\d+s$", done.stdout, re.MULTILINE))
    assert table == {target: ran if target == broken else "passed" for target in _in_ci()}, done
    assert done.returncode == (ran == "FAILED")
    runs = (tmp_path / "order").read_text().split()
    assert runs.count(broken) == (2 if "second" in ran else 1 if broken else 0)


def test_what_takes_long_has_a_quick_form() -> None:
    assert set(WHOLE) <= set(QUICK) <= _targets()


def test_every_target_is_declared_and_explained() -> None:
    done = _make("help")
    assert done.returncode == 0, done.stderr
    explained = set(re.findall(r"^  make ([a-z-]+) +\S", done.stdout, re.MULTILINE))
    assert explained == _targets()
    assert explained == set(re.findall(r"^([a-z-]+):(?!=)", _MAKEFILE, re.MULTILINE))


def test_format_puts_the_layout_right(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    file = tmp_path / "src" / "some.py"
    file.parent.mkdir()
    file.write_text("import sys\nimport os\nprint( os,sys )\n")
    done = _make("format", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert file.read_text() == "import os\nimport sys\n\nprint(os, sys)\n"


def test_clean_removes_what_was_made_and_nothing_else(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    made = (".venv", "dist", "editors/vscode/node_modules", ".mypy_cache", ".hypothesis")
    for name in (*made, "src"):
        (tmp_path / name).mkdir(parents=True)
    done = subprocess.run(("make", "clean"), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not any((tmp_path / name).exists() for name in made)
    assert (tmp_path / "src").is_dir()


def test_the_model_server_serves_until_it_is_interrupted() -> None:
    venv = _venv(ROOT)
    command = ("make", "model-server", "-s", f"-o{venv}/dev.stamp", f"VENV={venv}", "ARGS=--port 0")
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert address is not None
            tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
            said = {"role": "user", "content": "[[say Hello.]]"}
            body = json.dumps({"model": "any", "messages": [said], "tools": [tool]}).encode()
            with urlopen(f"{address[0]}/v1/chat/completions", body) as answer:  # noqa: S310 - ours
                assert json.load(answer)["choices"][0]["message"]["content"] == "Hello."
        finally:
            os.killpg(process.pid, signal.SIGINT)


def test_one_that_fails_does_not_keep_the_others_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Makefile").write_text(
        "good:\n\t@touch ran-$(WHAT)\nbad:\n\t@false\nlast:\n\t@echo $(ARGS) > arguments\n"
    )
    targets = {"good": {"WHAT": "good"}, "bad": {}, "last": {"ARGS": "one two"}}
    monkeypatch.setattr(everything, "ROOT", tmp_path)
    monkeypatch.setattr(everything, "WHOLE", targets)
    assert everything.main([]) == 1
    assert (tmp_path / "ran-good").exists()
    assert (tmp_path / "arguments").read_text() == "one two\n"
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert [line.split()[:2] for line in lines] == [["good", "passed"], ["bad", "FAILED"], ["last", "passed"]]
    assert everything.main(["good", "last"]) == 0


def test_a_quick_run_that_changes_the_repository_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Makefile").write_text("same:\n\t@true\nother:\n\t@echo other > kept\n")
    (tmp_path / "kept").write_text("as it was\n")
    git = ("git", "-c", "user.name=any", "-c", "user.email=any@localhost")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "Begin")):
        subprocess.run((*git, *command), cwd=tmp_path, check=True)
    monkeypatch.setattr(everything, "ROOT", tmp_path)
    monkeypatch.setattr(everything, "QUICK", {"same": {}, "other": {}})
    assert everything.main(["--quick", "same"]) == 0
    assert everything.main(["--quick", "other"]) == 1


def test_the_table_tells_why() -> None:
    told = table([Ran("soak", None, 600.2), Ran("bench", "exit status 2", 7.0)])
    assert told.splitlines()[1:] == [
        "soak          passed        600",
        "bench         FAILED          7  exit status 2",
    ]
