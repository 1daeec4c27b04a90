"""Git is not allowed by a rule where it would take files of the workspace for its repository."""

import subprocess
from pathlib import Path

import pytest

from dragoman.permissions.describe import describe
from dragoman.permissions.sensitive import Places
from dragoman.policy.policy import Policy
from dragoman.policy.rule import LocatedRule, PolicyRule

_RULES = (
    PolicyRule(decision="allow", command=("git", "status")),
    PolicyRule(decision="allow", command=("cd",), args="any"),
)


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=False, capture_output=True, timeout=20)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository with a folder that looks like one, as a clone can have it, and with one that is one."""
    folder = tmp_path / "workspace"
    (folder / "src").mkdir(parents=True)
    _git(folder, "init", "-q")
    _git(folder, "init", "-q", "--bare", "like")
    (folder / "like" / "inside").mkdir()
    _git(folder, "init", "-q", "nested")
    for key, value in (
        ("core.bare", "false"),
        ("core.worktree", "."),
        ("core.fsmonitor", f"touch {tmp_path / 'ran'}; false"),
    ):
        _git(folder / "like", "config", key, value)
    return folder


def _decision(workspace: Path, command: str, cwd: str = ".") -> str | None:
    places = Places.around((workspace,))
    given = {"command": command, "cwd": str(workspace / cwd)}
    action = describe(agent="a", agent_name="a", places=places, kind="execute", input=given)
    rules = [LocatedRule(rule, "file", number) for number, rule in enumerate(_RULES)]
    return Policy(rules).judge(action, places).decision


def test_such_a_folder_makes_git_run_what_it_says(workspace: Path) -> None:
    _git(workspace / "like", "status")
    assert (workspace.parent / "ran").exists()


@pytest.mark.parametrize(("command", "cwd"), [("git status", "like"), ("git status", "like/inside")])
def test_a_folder_that_looks_like_a_repository(workspace: Path, command: str, cwd: str) -> None:
    assert _decision(workspace, command, cwd) is None
    assert _decision(workspace, f"cd {cwd} && {command}") is None
    assert _decision(workspace, f"cd {cwd}; timeout 5 {command}") is None


def test_a_link_to_such_a_folder(workspace: Path) -> None:
    (workspace / "link").symlink_to("like")
    assert _decision(workspace, "git status", "link") is None
    assert _decision(workspace, "cd link && git status") is None


@pytest.mark.parametrize("cwd", [".", "src", "nested"])
def test_other_folders(workspace: Path, cwd: str) -> None:
    assert _decision(workspace, "git status", cwd) == "allow"
    assert _decision(workspace, f"cd {cwd} && git status") == "allow"


def test_a_workspace_that_is_such_a_folder(workspace: Path) -> None:
    assert _decision(workspace / "like", "git status") is None
