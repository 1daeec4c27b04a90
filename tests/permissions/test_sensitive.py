"""Which actions are sensitive (scenario D3): by path, through links, case and `..`, and by the words of a command."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import Any

import pytest

from dragoman.permissions.sensitive import Places
from permissions.actions import HOME, WORKSPACE, action, diff, text

PROTECTED = [
    ".git",
    ".git/config",
    ".git/hooks/pre-commit",
    "vendor/lib/.git/config",
    ".githooks/pre-push",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    "project.code-workspace",
    ".devcontainer/devcontainer.json",
    ".devcontainer.json",
    ".github/workflows/ci.yml",
    "sub/.gitattributes",
    ".yarnrc.yml",
    ".cargo/config.toml",
    ".pre-commit-config.yaml",
    ".bashrc",
    ".zshenv",
    ".profile",
    ".config/fish/config.fish",
    ".env",
    ".env.production",
    "sub/.env",
    ".claude/settings.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".qwen/settings.json",
    ".kimi/config.toml",
    ".kimi-code/config.toml",
    ".opencode/agent.md",
    "opencode.json",
    ".mcp.json",
    "dragoman.toml",
    ".ssh/authorized_keys",
    # What agents take as instructions.
    "AGENTS.md",
    "sub/AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "GEMINI.md",
    "QWEN.md",
    ".cursor/rules/a.mdc",
    ".cursorrules",
    ".clinerules",
    ".clinerules/a.md",
    ".windsurf/rules/a.md",
    ".zed/settings.json",
    ".rules",
    ".agents/skills/a/SKILL.md",
    ".github/copilot-instructions.md",
    ".github/instructions/a.instructions.md",
    ".github/prompts/a.prompt.md",
    ".github/agents/a.agent.md",
    # Case, dots and characters that leave no mark make no difference.
    ".GIT/config",
    "src/../.git/config",
    "./.Env",
    "src/.gi\u200bt/config",
]
ORDINARY = [
    "README.md",
    "src/main.py",
    ".gitignore",
    ".github/CODEOWNERS",
    ".github/ISSUE_TEMPLATE/bug.md",
    "docs/agents-howto.md",
    "claude/notes.md",
    ".cargo/registry.txt",
    "code-workspace.md",
    ".env.example",
    "src/environment.py",
    "git/config",
    "docs/.hidden.md",
]
SECRETS = [
    ".env",
    "sub/.env.local",
    "~/.ssh/id_ed25519",
    "~/.netrc",
    "~/.aws/credentials",
    "server.pem",
    "~/.npmrc",
]


@pytest.mark.parametrize("path", PROTECTED)
@pytest.mark.parametrize("kind", ["edit", "delete", "move", "other"])
def test_d3_a_change_to_a_protected_place_is_sensitive(path: str, kind: str) -> None:
    described = action(kind=kind, locations=[(f"{WORKSPACE}/{path}", None)])
    assert described.sensitive is not None
    assert described.permission_tool == "dragoman-agent-action-sensitive"
    # As a relative path in the input, and as a diff.
    assert action(kind=kind, input={"file_path": path, "content": "x"}).sensitive
    assert action(kind=kind, content=[diff(f"{WORKSPACE}/{path}", "a", "b")]).sensitive


@pytest.mark.parametrize("path", PROTECTED)
@pytest.mark.parametrize("kind", ["edit", "delete", "move", "other", "execute"])
def test_d3_a_path_that_is_the_name_of_a_field_counts(path: str, kind: str) -> None:
    within: list[dict[str, Any]] = [
        {"input": {"changes": {path: {"add": "x"}}}},
        {"input": {"changes": [{f"{WORKSPACE}/{path}": None}]}},
        {"extra": {path: 1}},
        {"meta": {"more": {path: 1}}},
        {"content": [{"type": "else", "of": {path: 1}}]},
    ]
    for fields in within:
        assert action(kind=kind, **fields).sensitive, fields


@pytest.mark.parametrize("path", ["/etc/hosts", "~/notes", "../a", "$HOME", "$HOME/a", "file:///etc/hosts"])
def test_d3_a_path_outside_that_is_the_name_of_a_field_counts(path: str) -> None:
    described = action(kind="edit", input={"changes": {path: {"add": "x"}, "a.txt": {}}})
    assert described.paths == (path, "a.txt")
    assert (described.sensitive is None, described.is_inside) == (False, False)
    reading = action(kind="read", locations=[(f"{WORKSPACE}/a", None)], input={path: True})
    assert (reading.risk, reading.is_inside) == ("other", False)


def test_an_ordinary_name_of_a_field_is_no_path() -> None:
    given = {
        "file_path": f"{WORKSPACE}/a",
        "limit": 2,
        "all": [{"is-on": True, "https://e.example/a": {}, "$ref": {}}],
    }
    described = action(kind="edit", input=given)
    assert (described.paths, described.sensitive) == ((f"{WORKSPACE}/a",), None)


@pytest.mark.parametrize("path", ORDINARY)
def test_an_ordinary_file_is_not_sensitive(path: str) -> None:
    assert action(kind="edit", content=[diff(f"{WORKSPACE}/{path}", "a", "b")]).sensitive is None
    assert action(kind="read", locations=[(f"{WORKSPACE}/{path}", None)]).sensitive is None


@pytest.mark.parametrize(
    "path", ["/etc/hosts", f"{WORKSPACE}/../other/a", "/srv/projector/a", "~/notes", "../a"]
)
def test_d3_any_change_outside_the_workspace_is_sensitive(path: str) -> None:
    described = action(kind="edit", input={"path": path, "content": "x"})
    assert described.sensitive
    assert not described.is_inside


@pytest.mark.parametrize("path", SECRETS)
def test_d3_reading_a_secret_is_sensitive(path: str) -> None:
    absolute = path.replace("~", HOME) if path.startswith("~") else f"{WORKSPACE}/{path}"
    assert action(kind="read", locations=[(absolute, None)]).sensitive
    assert action(kind="read", input={"path": path}).sensitive
    assert action(kind="search", input={"anything": path}).sensitive


def test_reading_elsewhere_is_not_sensitive_and_not_reading() -> None:
    described = action(kind="read", locations=[("/usr/include/stdio.h", None)])
    assert (described.sensitive, described.risk) == (None, "other")


@pytest.mark.parametrize(
    "command",
    [
        "cat .env",
        "echo x >> ~/.bashrc",
        "rm -rf .git",
        "cp a '.vscode/settings.json'",
        "cat<.env",
        "A=.env env",
    ],
)
def test_d3_a_command_that_names_a_sensitive_place_is_sensitive(command: str) -> None:
    assert action(kind="execute", input={"command": command}).sensitive
    assert action(kind="execute", input={"command": ["sh", "-c", command]}).sensitive
    # As an agent shows it that puts the command into its content only.
    assert action(title="Bash", content=[text(f"Running: {command}")]).sensitive


@pytest.mark.parametrize("command", ["git status", "make test", "ls /usr/bin", "grep -r environment src"])
def test_an_ordinary_command_is_not_sensitive(command: str) -> None:
    assert action(kind="execute", input={"command": command}).sensitive is None


def test_d3_a_command_in_a_folder_outside_the_workspace_is_sensitive() -> None:
    assert action(kind="execute", input={"command": "make", "cwd": "/tmp"}).sensitive
    assert action(kind="execute", input={"command": "make", "cwd": f"{WORKSPACE}/sub"}).sensitive is None


def test_d3_paths_are_resolved_through_links(tmp_path: Path) -> None:
    (tmp_path / "ws/.git").mkdir(parents=True)
    (tmp_path / "ws/link").symlink_to(".git")
    (tmp_path / "ws/out").symlink_to(tmp_path)
    places = Places((str(tmp_path / "ws"),), HOME, resolve=os.path.realpath)
    for path in ("link/config", "out/a.txt", "out/ws/.git/config"):
        assert places.why_changing(str(tmp_path / "ws" / path))
    assert places.why_changing(str(tmp_path / "ws/a.txt")) is None
    # The workspace itself may be reached by a link, and the agent may use the other name.
    (tmp_path / "alias").symlink_to("ws")
    by_link = Places((str(tmp_path / "alias"),), HOME, resolve=os.path.realpath)
    assert by_link.why_changing(str(tmp_path / "alias/a.txt")) is None


def test_d3_what_belongs_to_dragoman_is_sensitive() -> None:
    places = Places((HOME,), HOME, (f"{HOME}/.local/state/dragoman/run",))
    assert "Dragoman" in (places.why_reading(f"{HOME}/.local/state/dragoman/run/x.sock") or "")
    assert places.why_changing(f"{HOME}/.local/state/other") is None


def test_work_in_a_checkout_below_a_protected_folder_is_ordinary_work() -> None:
    checkout = f"{HOME}/project/.claude/worktrees/one"
    places = Places((checkout,), HOME)
    assert places.why_changing(f"{checkout}/src/a.py") is None
    assert places.why_changing(f"{checkout}/.claude/settings.json")
    assert places.why_changing(f"{HOME}/project/.claude/settings.json")


def test_a_path_that_no_system_takes_is_outside() -> None:
    places = Places((WORKSPACE,), HOME, resolve=os.path.realpath)
    assert places.why_changing(f"{WORKSPACE}/a\0b")


def test_more_paths_than_can_be_checked_are_sensitive() -> None:
    assert "too many" in (
        action(kind="read", input={"paths": [f"{WORKSPACE}/{n}" for n in range(3_000)]}).sensitive or ""
    )
