import os
from pathlib import Path

import pytest

from dragoman.globs import Glob
from dragoman.lm import CancellationError, CancellationSource, DataPart
from dragoman.tools.builtin import builtin_tools, files
from dragoman.tools.builtin.files import (
    MAX_FILE_BYTES,
    MAX_IMAGE_BYTES,
    MAX_LISTED,
    MAX_READ_CHARACTERS,
    MAX_READ_LINES,
    list_files,
    read_file,
)
from dragoman.tools.builtin.shown import MAX_NOTES, Shown
from dragoman.tools.builtin.tree import Walk
from dragoman.tools.builtin.workspace import Workspace
from dragoman.tools.registry import ToolRegistry
from dragoman.tools.tool import Invocation
from tool_calls import Workbench, text

# Joiners, blanks, a variation selector, a combined letter, an override, an escape.
_ODD = "\u200c\u200d\u00a0\u3000\u180b\u0301\u2028\u202e\x1b\t"
_PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def reading(tmp_path: Path) -> Workbench:
    return Workbench(read_file(), tmp_path)


@pytest.fixture
def listing(tmp_path: Path) -> Workbench:
    return Workbench(list_files(), tmp_path)


class TestAllOfThem:
    def test_they_can_be_registered_and_are_offered_with_a_workspace(self) -> None:
        registry = ToolRegistry()
        for tool in builtin_tools():
            registry.add(tool)
        assert [info.name for info in registry.tools()] == ["fetch_url"]
        registry.context.set("workspaceFolderCount", 1)
        infos = {info.name: info for info in registry.tools()}
        assert {name: info.reference_name for name, info in infos.items()} == {
            "read_file": "readFile",
            "list_files": "listFiles",
            "search_files": "searchFiles",
            "write_file": "writeFile",
            "run_command": "runCommand",
            "fetch_url": "fetchUrl",
        }
        assert {name for name, info in infos.items() if info.read_only} == {
            "read_file",
            "list_files",
            "search_files",
        }
        assert all(str(info.icon).startswith("$(") for info in infos.values())

    def test_only_what_reads_runs_in_parallel(self) -> None:
        for tool in builtin_tools():
            assert tool.declaration.runs_in_parallel is tool.declaration.read_only

    def test_each_set_is_its_own(self) -> None:
        assert not set(map(id, builtin_tools())) & set(map(id, builtin_tools()))


class TestReading:
    async def test_a_whole_file(self, reading: Workbench, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes("é\r\nb\n".encode())
        assert await reading.said(path="a.txt") == "é\r\nb\n"
        assert await reading.said(path=str(tmp_path / "a.txt")) == "é\r\nb\n"

    async def test_a_byte_order_mark_is_no_text(self, reading: Workbench, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfa")
        assert await reading.said(path="a.txt") == "a"

    async def test_an_empty_file(self, reading: Workbench, tmp_path: Path) -> None:
        (tmp_path / "a.txt").touch()
        assert await reading.said(path="a.txt") == "[a.txt is empty.]"

    @pytest.mark.parametrize(
        ("lines", "expected"),
        [
            ({"start_line": 2}, "2\n3"),
            ({"start_line": 2, "end_line": 2}, "2\n"),
            ({"end_line": 2}, "1\n2\n"),
            ({"start_line": 3, "end_line": 99}, "3"),
        ],
    )
    async def test_some_lines(
        self, reading: Workbench, tmp_path: Path, lines: dict[str, int], expected: str
    ) -> None:
        (tmp_path / "a.txt").write_text("1\n2\n3")
        assert await reading.said(path="a.txt", **lines) == expected

    async def test_lines_that_are_not_there(self, reading: Workbench, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("1\n2\n")
        assert await reading.complaint(path="a.txt", start_line=3) == (
            "a.txt has 2 lines, so there is no line 3."
        )
        assert "is before the first" in await reading.complaint(path="a.txt", start_line=2, end_line=1)

    async def test_many_lines_are_read_in_turns(self, reading: Workbench, tmp_path: Path) -> None:
        lines = [f"{number}\n" for number in range(1, MAX_READ_LINES + 11)]
        (tmp_path / "a.txt").write_text("".join(lines))
        first = await reading.said(path="a.txt")
        assert (
            first
            == "".join(lines[:MAX_READ_LINES]) + "\n[Lines 1 to 2,000 of 2,010. Go on with start_line 2001.]"
        )
        assert await reading.said(path="a.txt", start_line=2001) == "".join(lines[MAX_READ_LINES:])

    async def test_long_lines_are_read_in_turns(self, reading: Workbench, tmp_path: Path) -> None:
        line = "x" * (MAX_READ_CHARACTERS // 2 - 1) + "\n"
        (tmp_path / "a.txt").write_text(line * 3)
        assert (await reading.said(path="a.txt")).endswith("[Lines 1 to 2 of 3. Go on with start_line 3.]")

    async def test_a_line_that_is_too_long_is_cut(self, reading: Workbench, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("x" * (MAX_READ_CHARACTERS + 1))
        said = await reading.said(path="a.txt")
        assert said.startswith("x" * MAX_READ_CHARACTERS + "\n\n[Line 1 is cut: it has 100,001 characters")

    async def test_a_file_that_is_too_large(self, reading: Workbench, tmp_path: Path) -> None:
        with (tmp_path / "a.txt").open("wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
        assert "at most 10,485,760 can be read" in await reading.complaint(path="a.txt")

    @pytest.mark.parametrize("data", [b"a\0b", b"\xff\xfe\xfd", b"caf\xe9"])
    async def test_what_is_no_text(self, reading: Workbench, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "a.bin").write_bytes(data)
        assert "is not text in UTF-8" in await reading.complaint(path="a.bin")

    @pytest.mark.parametrize(
        ("data", "mime_type"),
        [
            (_PNG, "image/png"),
            (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
            (b"GIF89arest", "image/gif"),
            (b"RIFF\n\0\0\0WEBPrest", "image/webp"),
        ],
    )
    async def test_pictures(self, reading: Workbench, tmp_path: Path, data: bytes, mime_type: str) -> None:
        (tmp_path / "a").write_bytes(data)
        result = await reading.call(path="a")
        assert text(result) == f"a: {mime_type}, {len(data)} bytes."
        assert result.content[1] == DataPart.image(data, mime_type)

    async def test_a_picture_that_is_too_large(self, reading: Workbench, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(_PNG.ljust(MAX_IMAGE_BYTES + 1))
        assert "at most 5,242,880 are taken" in await reading.complaint(path="a.png")

    @pytest.mark.parametrize(
        ("path", "why"),
        [
            ("nowhere.txt", "nowhere.txt: No such file or directory."),
            ("../x", "../x is outside the workspace"),
            (".", "is a folder, not a file"),
        ],
    )
    async def test_what_cannot_be_read(self, reading: Workbench, path: str, why: str) -> None:
        assert why in await reading.complaint(path=path)

    async def test_without_a_workspace(self) -> None:
        assert "No folder is open" in await Workbench(read_file()).complaint(path="a")

    async def test_what_it_says_while_it_runs(self, reading: Workbench) -> None:
        prepared = await reading.ask(path="a\x1b.txt")
        assert prepared.invocation_message == "Reading a␛.txt"
        assert prepared.confirmation is None

    async def test_cancelled(self, reading: Workbench, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("a")
        source = CancellationSource()
        source.cancel()
        with pytest.raises(CancellationError):
            await reading.invoke(reading.invocation(path="a.txt"), source.token)


class TestListing:
    async def test_a_folder(self, listing: Workbench, tmp_path: Path) -> None:
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "c.py").touch()
        (tmp_path / "a.py").touch()
        assert await listing.said() == "a.py\nb/"
        assert await listing.said(path="b") == "b/c.py"
        assert await listing.said(glob="**/*.py") == "a.py\nb/c.py"

    async def test_nothing(self, listing: Workbench) -> None:
        assert await listing.said() == "Nothing matches."

    async def test_trees_that_are_not_entered(self, listing: Workbench, tmp_path: Path) -> None:
        (tmp_path / ".git").mkdir()
        assert await listing.said(glob="**") == (
            ".git/\n[Not entered: .git. To look inside, name one of them as the path.]"
        )

    async def test_more_than_asked_for(self, listing: Workbench, tmp_path: Path) -> None:
        for name in "abc":
            (tmp_path / name).touch()
        assert await listing.said(max_results=2) == (
            f"a\nb\n[There are more than 2: narrow the glob, or ask for up to {MAX_LISTED:,}.]"
        )
        assert await listing.said(max_results=3) == "a\nb\nc"

    async def test_a_name_that_is_not_utf8(self, listing: Workbench, tmp_path: Path) -> None:
        (tmp_path / os.fsdecode(b"\xff")).touch()
        assert await listing.said() == "\ufffd"

    async def test_a_name_of_several_lines_stands_on_one(self, listing: Workbench, tmp_path: Path) -> None:
        (tmp_path / "a\r\nb").mkdir()
        (tmp_path / "a\r\nb" / ".git").mkdir()
        assert await listing.said(glob="**") == (
            "a␍␊b/\na␍␊b/.git/\n[Not entered: a␍␊b/.git. To look inside, name one of them as the path.]"
        )

    async def test_what_is_listed_can_be_read(
        self, reading: Workbench, listing: Workbench, tmp_path: Path
    ) -> None:
        """Whatever a script needs, or a hostile name has in it: what a model is told is what it can use."""
        names = [f"a{odd}b" for odd in _ODD]
        for name in names:
            (tmp_path / name).write_text(ascii(name))
        listed = (await listing.said()).split("\n")
        assert listed == sorted(names)
        assert [await reading.said(path=line) for line in listed] == list(map(ascii, listed))

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ({"path": "nowhere"}, "nowhere: No such file or directory."),
            ({"path": "/etc"}, "/etc is outside the workspace"),
            ({"glob": "../*"}, "does not climb"),
        ],
    )
    async def test_what_cannot_be_listed(self, listing: Workbench, given: dict[str, str], why: str) -> None:
        assert why in await listing.complaint(**given)

    async def test_what_it_says_while_it_runs(self, listing: Workbench) -> None:
        assert (await listing.ask(glob="*.py")).invocation_message == "Listing *.py in ."

    def test_the_walk_itself_ends(self, tmp_path: Path) -> None:
        (tmp_path / "a").touch()
        source = CancellationSource()
        source.cancel()
        walk = Walk(Workspace.of([tmp_path]).place("."), Glob("*"))
        with pytest.raises(CancellationError):
            files._listing(walk, 1, source.token)

    async def test_cancelled(self, listing: Workbench) -> None:
        source = CancellationSource()
        source.cancel()
        with pytest.raises(CancellationError):
            await listing.invoke(listing.invocation(), source.token)


class TestShown:
    def test_a_note_is_for_one_invocation_and_taken_once(self) -> None:
        shown: Shown[int] = Shown()
        shown.note(Invocation({"a": 1, "b": 2}, call_id="1"), 7)
        assert shown.take(Invocation({"a": 1, "b": 2}, call_id="2")) is None
        assert shown.take(Invocation({"a": 1}, call_id="1")) is None
        assert shown.take(Invocation({"b": 2, "a": 1}, call_id="1")) == 7
        assert shown.take(Invocation({"a": 1, "b": 2}, call_id="1")) is None

    def test_the_last_look_counts(self) -> None:
        shown: Shown[int] = Shown()
        invocation = Invocation({})
        shown.note(invocation, 1)
        shown.note(invocation, 2)
        assert shown.take(invocation) == 2

    def test_the_oldest_go_first_when_there_are_too_many(self) -> None:
        shown: Shown[int] = Shown()
        for number in range(MAX_NOTES + 1):
            shown.note(Invocation({}, call_id=str(number)), number)
        assert shown.take(Invocation({}, call_id="0")) is None
        assert shown.take(Invocation({}, call_id="1")) == 1
