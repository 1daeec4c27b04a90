"""The terminal's own tools in sensitive places (scenario D3): asked about every time, whatever was approved."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.lm import CancellationSource, CancellationToken
from dragoman.permissions.approvals import Approvals
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.tools.builtin import builtin_tools
from dragoman.tools.decision import Approve, Decision, ToolQuestion
from dragoman.tools.registry import ToolRegistry
from dragoman.tools.runtime import ToolRuntime
from tool_calls import text


class _Person:
    def __init__(self) -> None:
        self.asked: list[ToolQuestion] = []

    async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        self.asked.append(question)
        return Approve(question.levels[-1])


@pytest.fixture
def runtime(tmp_path: Path) -> ToolRuntime:
    registry = ToolRegistry()
    registry.context.set("workspaceFolderCount", 1)
    for tool in builtin_tools():
        registry.add(tool)
    (tmp_path / ".env").write_text("TOKEN=secret\n")
    (tmp_path / "plain.txt").write_text("TOKEN=none\n")
    (tmp_path / ".git").mkdir()
    return ToolRuntime(registry, Approvals(), AutoApproval(all=True), session="one", workspace=(tmp_path,))


@pytest.mark.parametrize(
    ("tool", "sensitive", "ordinary"),
    [
        ("read_file", {"path": ".env"}, {"path": "plain.txt"}),
        ("read_file", {"path": "x/../.ENV"}, {"path": "./plain.txt"}),
        ("search_files", {"query": "TOKEN", "path": ".env"}, {"query": "TOKEN"}),
        ("write_file", {"path": ".git/config", "content": "x"}, {"path": "a.txt", "content": "x"}),
        (
            "write_file",
            {"path": ".vscode/tasks.json", "content": "{}"},
            {"path": "b/tasks.json", "content": "{}"},
        ),
        ("run_command", {"command": "cat .env"}, {"command": "echo hello"}),
    ],
)
async def test_d3_permission_requested_every_time_and_only_for_once(
    runtime: ToolRuntime, tool: str, sensitive: dict[str, object], ordinary: dict[str, object]
) -> None:
    person, token = _Person(), CancellationSource().token
    for number in (1, 2):
        await runtime.invoke(tool, sensitive, person, token)
        assert len(person.asked) == number
        assert person.asked[-1].levels == ("once",)
    await runtime.invoke(tool, ordinary, person, token)
    assert len(person.asked) == 2


async def test_d3_a_search_of_everything_leaves_files_with_secrets_out_and_says_so(
    runtime: ToolRuntime,
) -> None:
    found = text(
        await runtime.invoke("search_files", {"query": "TOKEN"}, _Person(), CancellationSource().token)
    )
    assert "plain.txt:1: TOKEN=none" in found
    assert "secret\n" not in found
    assert "Not searched, because they may hold secrets: .env" in found


async def test_q3_white_space_in_a_command_is_shown(runtime: ToolRuntime, tmp_path: Path) -> None:
    person = _Person()
    command = "echo a" + " " * 100 + "; echo b .env"
    await runtime.invoke("run_command", {"command": command}, person, CancellationSource().token)
    message = person.asked[0].confirmation.message
    assert "echo a⟨100 spaces⟩; echo b .env" in message
    assert "Folder:" in message
    assert str(tmp_path) in message
