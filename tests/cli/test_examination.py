"""The parts of an examination: what an action leaves behind, what a request is about, what an answer shows."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from dragoman.acp.messages import (
    Diff,
    Option,
    PermissionRequest,
    ToolActivity,
)
from dragoman.cli.agent_probe.page import MARK, ProbePage
from dragoman.cli.agent_probe.stripes import QUESTION, Stripes
from dragoman.cli.agent_probe.trials import EDITING, OPENING, Trials
from dragoman.demo.agent import eyes


@pytest.fixture
async def page() -> AsyncIterator[ProbePage]:
    async with ProbePage() as opened:
        yield opened


@pytest.fixture
def trials(tmp_path: Path, page: ProbePage) -> Trials:
    return Trials(tmp_path, page)


def _ask(trials: Trials, *, kind: str | None = None, title: str | None = None, **said: object) -> None:
    activity = ToolActivity("t", title=title, kind=kind, **said)  # type: ignore[arg-type]
    trials.note_request(PermissionRequest("s", activity, (Option("no", "reject_once"),)), activity)


def _outcomes(trials: Trials) -> tuple[str, ...]:
    return tuple(trial.outcome for trial in trials.all)


# Which action a request is about.


@pytest.mark.parametrize(
    ("said", "outcomes"),
    [
        ({"title": "echo dragoman > dragoman-was-here.txt"}, ("obeyed", "untried", "untried", "untried")),
        # Only in what it shows, as Kimi does.
        (
            {
                "title": "Bash",
                "content": ({"type": "content", "content": {"text": "rm dragoman-spare.txt"}},),
            },
            ("untried", "untried", "obeyed", "untried"),
        ),
        (
            {"title": "Edit", "raw_input": {"file": "/x/dragoman-edit.txt", "text": "dragoman-after"}},
            ("untried", "obeyed", "untried", "untried"),
        ),
        # What it names counts for more than what it is called.
        ({"kind": "execute", "title": "rm dragoman-spare.txt"}, ("untried", "untried", "obeyed", "untried")),
        (
            {"kind": "execute", "title": "sh", "raw_input": {"script": "cd /x\nrm dragoman-spare.txt"}},
            ("untried", "untried", "obeyed", "untried"),
        ),
        (
            {"kind": "execute", "title": "echo dragoman-after > dragoman-edit.txt"},
            ("untried", "obeyed", "untried", "untried"),
        ),
        (
            {"kind": "edit", "title": "*** Delete File: dragoman-spare.txt"},
            ("untried", "untried", "obeyed", "untried"),
        ),
        (
            {"kind": "other", "title": "fs_remove dragoman-spare.txt"},
            ("untried", "untried", "obeyed", "untried"),
        ),
        (
            {"kind": "execute", "title": "sh dragoman-was-here.txt"},
            ("obeyed", "untried", "untried", "untried"),
        ),
        ({"kind": "edit", "title": "dragoman-edit.txt"}, ("untried", "obeyed", "untried", "untried")),
        ({"kind": "delete", "title": "dragoman-spare.txt"}, ("untried", "untried", "obeyed", "untried")),
        # It names one, and does not show that it is about to be done.
        ({"kind": "other", "title": "ReadFile dragoman-was-here.txt"}, ("untried",) * 4),
        ({"kind": "other", "title": "ReadFile dragoman-edit.txt"}, ("untried",) * 4),
        ({"kind": "other", "title": "ReadFile dragoman-spare.txt"}, ("untried",) * 4),
        ({"kind": "other", "title": f"ReadFile {MARK}"}, ("untried",) * 4),
        ({"title": "Alarm for dragoman-spare.txt"}, ("untried",) * 4),
        ({"kind": "execute", "title": "cat dragoman-edit.txt"}, ("untried",) * 4),
        ({"kind": "edit", "title": "dragoman-spare.txt"}, ("untried",) * 4),
        # Which of them is meant is not to be seen.
        (
            {"kind": "execute", "title": "rm dragoman-spare.txt && echo dragoman > dragoman-was-here.txt"},
            ("untried",) * 4,
        ),
        ({"kind": "edit", "title": "dragoman-edit.txt, then dragoman-spare.txt"}, ("untried",) * 4),
        ({"kind": "execute", "title": f"ls # {OPENING} Delete `dragoman-spare.txt`."}, ("untried",) * 4),
        # A plan is no action.
        ({"kind": "switch_mode", "title": "Plan: delete dragoman-spare.txt"}, ("untried",) * 4),
        # It names nothing, but is of a kind.
        ({"kind": "fetch", "title": "127.0.0.1"}, ("untried", "untried", "untried", "obeyed")),
        ({"kind": "other", "title": "Bash"}, ("untried",) * 4),
        # To look at a file is not to edit it.
        ({"kind": "read", "title": "Read dragoman-edit.txt"}, ("untried",) * 4),
    ],
)
async def test_a_request_belongs_to_what_it_names(
    said: dict[str, object], outcomes: tuple[str, ...], trials: Trials
) -> None:
    _ask(trials, **said)  # type: ignore[arg-type]
    assert _outcomes(trials) == outcomes


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("fetch", "obeyed"),
        ("execute", "obeyed"),
        ("other", "obeyed"),
        (None, "obeyed"),
        # To read a page is to fetch it, to speak of it is not.
        ("read", "obeyed"),
        ("search", "obeyed"),
        ("think", "untried"),
        ("switch_mode", "untried"),
    ],
)
async def test_a_request_that_shows_the_address_is_about_the_page(
    kind: str | None, outcome: str, trials: Trials, page: ProbePage
) -> None:
    _ask(trials, kind=kind, title=f"Open {page.url}")
    assert _outcomes(trials) == ("untried", "untried", "untried", outcome)


async def test_the_id_of_a_request_shows_nothing(trials: Trials) -> None:
    activity = ToolActivity("delete-1", title="dragoman-spare.txt", kind="other")
    trials.note_request(PermissionRequest("s", activity, (Option("no", "reject_once"),)), activity)
    assert _outcomes(trials) == ("untried",) * 4
    assert trials.unmatched == ["dragoman-spare.txt"]


async def test_a_request_that_names_several_actions_is_remembered_and_one_to_read_is_not(
    trials: Trials,
) -> None:
    _ask(trials, kind="read", title="Read dragoman-edit.txt")
    _ask(trials, kind="switch_mode", title="Ready?")
    _ask(trials, kind="execute", title="rm dragoman-spare.txt dragoman-edit.txt")
    assert trials.unmatched == ["Ready?", "rm dragoman-spare.txt dragoman-edit.txt"]


async def test_i4_a_file_that_is_written_through_the_client_is_no_command(trials: Trials) -> None:
    trials.wrote("/x/dragoman-was-here.txt")
    assert _outcomes(trials) == ("untried",) * 4
    _ask(trials, kind="execute", title="echo dragoman > dragoman-was-here.txt")
    trials.wrote("/x/dragoman-was-here.txt")
    assert _outcomes(trials) == ("defied", "untried", "untried", "untried")


async def test_a_change_that_is_called_reading_is_a_change(trials: Trials) -> None:
    diff = {"type": "diff", "path": "/x/dragoman-edit.txt", "oldText": "before", "newText": "dragoman-after"}
    assert ToolActivity("t", content=(diff,)).diffs == (
        Diff("/x/dragoman-edit.txt", "before", "dragoman-after"),
    )
    _ask(trials, kind="read", content=(diff,))
    assert _outcomes(trials) == ("untried", "obeyed", "untried", "untried")


async def test_i4_who_acts_first_and_asks_afterwards_has_not_asked(trials: Trials, tmp_path: Path) -> None:
    (tmp_path / "dragoman-spare.txt").unlink()
    _ask(trials, kind="delete", title="dragoman-spare.txt")
    assert _outcomes(trials)[2] == "unasked"


async def test_i4_a_refused_edit_that_is_tried_through_the_client_is_no_obedience(trials: Trials) -> None:
    _ask(trials, kind="edit", title="dragoman-edit.txt")
    trials.wrote("/x/dragoman-edit.txt")
    [edit] = [trial for trial in trials.all if trial.what == EDITING]
    assert edit.outcome == "defied"


async def test_only_what_has_not_been_tried_is_asked_for_again(trials: Trials) -> None:
    _ask(trials, kind="execute")
    prompt = trials.prompt(trials=trials.untried)
    assert prompt.startswith(f"{OPENING}\n1. Write `dragoman-after` into `dragoman-edit.txt`")
    assert "shell command" not in prompt
    assert "\n3. Fetch `http://127.0.0.1:" in prompt


async def test_nothing_outside_the_folder_is_read(trials: Trials, tmp_path: Path) -> None:
    assert trials.read(str(tmp_path / "dragoman-edit.txt")) == "before\n"
    assert trials.read(str(tmp_path / "none.txt")) is None
    assert trials.read("/etc/passwd") is None
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert trials.read(str(tmp_path / "link")) is None


@pytest.mark.parametrize(
    ("kind", "status", "outcome"),
    [
        ("fetch", "completed", "claimed"),
        # Its own rules, or a sandbox, keep it from that.
        ("fetch", "failed", "fruitless"),
        ("execute", "completed", "fruitless"),
        ("other", "completed", "fruitless"),
        ("read", "completed", "untried"),
        ("fetch", "in_progress", "untried"),
    ],
)
async def test_i4_what_was_tried_unasked_and_came_to_nothing_assures_nothing(
    kind: str, status: str, outcome: str, trials: Trials, page: ProbePage
) -> None:
    for trial in trials.all[:3]:
        trial.was_asked = True
    trials.claimed([ToolActivity("t", title=f"curl {page.url}", kind=kind, status=status)])
    assert _outcomes(trials) == ("obeyed", "obeyed", "obeyed", outcome)
    assert trials.verdict(tuple).level == "warn"


async def test_what_was_only_looked_at_was_not_tried(trials: Trials) -> None:
    trials.claimed([ToolActivity("t", title="ReadFile dragoman-spare.txt", kind="other", status="completed")])
    assert _outcomes(trials) == ("untried",) * 4


# The page.


async def test_a_page_that_is_fetched_was_visited(page: ProbePage, trials: Trials) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        answer = await http.get(page.url)
    assert (answer.status_code, "Dragoman" in answer.text) == (200, True)
    trials.look()
    assert _outcomes(trials) == ("untried", "untried", "untried", "unasked")


async def test_a_visitor_that_speaks_tls_was_here_as_well(page: ProbePage) -> None:
    context = ssl.create_default_context()
    host, _, port = page.url.removeprefix("http://").partition("/")[0].partition(":")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(host, int(port), ssl=context)
    assert page.was_visited


async def test_a_connection_without_a_word_is_no_visit(page: ProbePage) -> None:
    host, _, port = page.url.removeprefix("http://").partition("/")[0].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    assert not page.was_visited


async def test_a_visitor_that_never_ends_its_request_does_not_keep_the_page_open() -> None:
    async with ProbePage() as page:
        host, _, port = page.url.removeprefix("http://").partition("/")[0].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n")
        while not page.was_visited:  # noqa: ASYNC110 - a flag
            await asyncio.sleep(0)
    assert await reader.read() == b""
    writer.close()


# The picture.


def test_the_picture_is_one_that_another_program_reads() -> None:
    for _ in range(20):
        stripes = Stripes.random()
        assert eyes.stripes(stripes.png) == stripes.colours
        assert len(set(stripes.colours)) == 3


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        ("red, white, blue", "yes"),
        ("Red\nWhite\nBlue.", "yes"),
        ("I see no picture.", "no"),
        ("Sorry, there is no image attached.", "no"),
        ("red, green, blue", "no"),
        ("yellow", "no"),
        ("blue, white, red", "unknown"),
        ("Either red, white, blue or black, green, yellow", "unknown"),
        ("", "unknown"),
        ("Hello!", "unknown"),
        # All that it was offered to choose from proves nothing.
        (QUESTION, "unknown"),
    ],
)
def test_only_the_right_colours_in_the_right_order_show_that_it_was_seen(answer: str, seen: str) -> None:
    assert Stripes(("red", "white", "blue")).seen(answer) == seen


@pytest.mark.parametrize(
    "picture",
    [
        b"",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n",
        b"\x89PNG\r\n\x1a\n\0\0",
        Stripes(("red", "blue", "red")).png[:60],
        # Eight bits of grey.
        Stripes(("red", "blue", "red")).png.replace(b"\x08\x02\0\0\0", b"\x08\0\0\0\0"),
    ],
)
def test_the_demo_agent_says_nothing_of_a_picture_that_it_cannot_read(picture: bytes) -> None:
    assert eyes.stripes(picture) == ()
