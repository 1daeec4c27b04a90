"""The built-in tools with everything around them: settings, a person, and approvals that outlive the process."""

import asyncio
from pathlib import Path

import pytest

from dragoman.lm import CancellationError, CancellationSource, CancellationToken
from dragoman.permissions.approvals import Approvals
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.store import ApprovalStore, Database
from dragoman.tools.builtin import builtin_tools
from dragoman.tools.decision import ApprovalLevel, Approve, Decision, Deny, ToolQuestion
from dragoman.tools.registry import ToolRegistry
from dragoman.tools.runtime import ToolRuntime
from tool_calls import DEADLINE, text


class _Person:
    """Says the same to everything, and remembers what was asked."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.asked: list[ToolQuestion] = []

    async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        self.asked.append(question)
        return self.decision


class _Process:
    """One run of the program, in a folder."""

    def __init__(self, database: Database, folder: Path, auto: AutoApproval | None = None) -> None:
        registry = ToolRegistry()
        registry.context.set("workspaceFolderCount", 1)
        for tool in builtin_tools():
            registry.add(tool)
        self._registry = registry
        self._folder = folder
        self._auto = auto or AutoApproval()
        self.approvals = Approvals(ApprovalStore(database), folder)

    async def is_asked(
        self, tool: str, *, level: ApprovalLevel = "once", session: str = "one", **given: object
    ) -> bool:
        """Whether a person is asked about this; they agree."""
        person = _Person(Approve(level))
        runtime = ToolRuntime(
            self._registry, self.approvals, self._auto, session=session, workspace=(self._folder,)
        )
        async with asyncio.timeout(DEADLINE):
            result = await runtime.invoke(tool, given, person, CancellationSource().token)
        assert not result.is_error, text(result)
        return bool(person.asked)

    async def refuse(self, tool: str, **given: object) -> ToolQuestion:
        """What a person is asked who refuses."""
        person = _Person(Deny())
        runtime = ToolRuntime(
            self._registry, self.approvals, self._auto, session="one", workspace=(self._folder,)
        )
        with pytest.raises(CancellationError):
            await runtime.invoke(tool, given, person, CancellationSource().token)
        return person.asked[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def other_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "other"
    folder.mkdir()
    return folder


async def test_what_only_reads_is_not_asked(tmp_path: Path, folder: Path) -> None:
    with Database.open(tmp_path / "state") as database:
        process = _Process(database, folder)
        assert not await process.is_asked("list_files")
        assert await process.is_asked("run_command", command="true")


async def test_nothing_is_written_that_was_refused(tmp_path: Path, folder: Path) -> None:
    with Database.open(tmp_path / "state") as database:
        question = await _Process(database, folder).refuse("write_file", path="a.txt", content="one\n")
    assert "+one" in question.confirmation.message
    assert not (folder / "a.txt").exists()


async def test_p17_a_command_allowed_in_one_session_is_asked_in_another(tmp_path: Path, folder: Path) -> None:
    with Database.open(tmp_path / "state") as database:
        process = _Process(database, folder)
        assert await process.is_asked("run_command", command="true", level="session")
        assert not await process.is_asked("run_command", command="true")
        assert await process.is_asked("run_command", command="true ")
        assert await process.is_asked("run_command", command="true", session="two")
        process.approvals.reset()
        assert await process.is_asked("run_command", command="true")


async def test_a_command_that_is_always_approved_is_so_in_its_folder_only(
    tmp_path: Path, folder: Path, other_folder: Path
) -> None:
    (folder / "check.sh").write_text("true\n")
    (other_folder / "check.sh").write_text("echo something else\n")
    with Database.open(tmp_path / "state") as database:
        process = _Process(database, folder)
        assert await process.is_asked("run_command", command="sh check.sh", level="always")
        assert not await process.is_asked("run_command", command="sh check.sh")
        assert await _Process(database, other_folder).is_asked("run_command", command="sh check.sh")


@pytest.mark.parametrize("level", ["workspace", "always"])
async def test_p18_a_path_approved_for_longer_is_not_asked_again(
    tmp_path: Path, folder: Path, other_folder: Path, level: ApprovalLevel
) -> None:
    with Database.open(tmp_path / "state") as database:
        assert await _Process(database, folder).is_asked("write_file", path="a.txt", content="1", level=level)
    with Database.open(tmp_path / "state") as database:
        process = _Process(database, folder)
        assert not await process.is_asked("write_file", path="./a.txt", content="2")
        assert await process.is_asked("write_file", path="b.txt", content="2")
        # Another workspace has another a.txt.
        assert await _Process(database, other_folder).is_asked("write_file", path="a.txt", content="2")
        [approval] = process.approvals.list()
        process.approvals.revoke(approval.id)
        assert await process.is_asked("write_file", path="a.txt", content="3")
    assert (folder / "a.txt").read_text() == "3"


async def test_p19_what_is_not_eligible_is_asked_whatever_else_is_approved(
    tmp_path: Path, folder: Path
) -> None:
    auto = AutoApproval(all=True, eligible={"run_command": False})
    with Database.open(tmp_path / "state") as database:
        process = _Process(database, folder, auto)
        assert not await process.is_asked("write_file", path="a.txt", content="1")
        for _ in range(2):
            assert await process.is_asked("run_command", command="true", level="always")
        assert process.approvals.list() == ()
