"""Pairing codes in the terminal of `dragoman serve`: a real process on a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from console.asking import models_in
from dragoman.cli.console_codes import local_address, open_browser
from dragoman.cli.console_dialogue import CodeDialogue
from dragoman.cli.key_presses import KeyPresses
from dragoman.config import ClientKey, ConsoleConfig
from dragoman.frontends.console.console import Console
from dragoman.frontends.console.qr_code import qr_rows, terminal_qr
from dragoman.frontends.console.sessions import ConsoleScope
from terminal_screen import DEADLINE, Folder, Terminal

CODE = re.compile(r"[2-9A-HJ-NP-Z]{4}-[2-9A-HJ-NP-Z]{4}")
SHOWN = r"pairing code: [2-9A-HJ-NP-Z]{4}-[2-9A-HJ-NP-Z]{4} \(valid once, until"
HELP = r"Press p for a new code"

# Runs a program as a shell does: in a group of its own, which has the terminal, until Ctrl-Z gives it back.
_SHELL = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = subprocess.Popen(sys.argv[1:], process_group=0)
os.tcsetpgrp(0, job.pid)
while True:
    status = os.waitpid(job.pid, os.WUNTRACED)[1]
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    print("stopped", flush=True)
    if sys.stdin.readline().strip() == "bg":
        os.killpg(job.pid, signal.SIGCONT)
        print("in the background", flush=True)
        sys.stdin.readline()
        # A shell sends no signal to a job that runs already.
        os.tcsetpgrp(0, job.pid)
    else:
        os.tcsetpgrp(0, job.pid)
        os.killpg(job.pid, signal.SIGCONT)
    print("resumed", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with ExitStack() as opened:
        folder = Folder(tmp_path, opened)
        folder.script({"do": [{"say": "Yes."}]})
        yield folder


def serve(folder: Folder, *more: str) -> list[str]:
    named = ["--config", "dragoman.toml", "--state-dir", str(folder.path / "state")]
    return ["-m", "dragoman", "serve", *named, "--port", "0", *more]


def codes(terminal: Terminal) -> list[str]:
    return re.findall(r"code(?: for [^:]+)?: (\S{9}) ", terminal.text)


def paired(text: str, code: str, name: str = "my phone") -> int:
    """Pair as a browser would, with the address that the terminal shows."""
    found = re.search(r"console is at http://(127\.0\.0\.1:[0-9]+)/", text)
    assert found is not None
    connection = http.client.HTTPConnection(found[1], timeout=DEADLINE)
    headers = {
        "origin": f"http://{found[1]}",
        "x-dragoman-console": "pair",
        "content-type": "application/json",
    }
    connection.request("POST", "/console/api/pair", json.dumps({"code": code, "name": name}), headers)
    status = connection.getresponse().status
    connection.close()
    return status


def is_cooked(terminal: Terminal) -> bool:
    local = terminal.modes[3]
    assert isinstance(local, int)
    return bool(local & termios.ECHO and local & termios.ICANON)


def until(terminal: Terminal, *, cooked: bool) -> None:
    deadline = time.monotonic() + DEADLINE
    while is_cooked(terminal) != cooked:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_terminal_shows_a_code_a_key_makes_another_and_ctrl_c_ends_it(folder: Folder) -> None:
    terminal = folder.terminal(*serve(folder))
    terminal.wait_for(HELP)
    (first,) = codes(terminal)
    assert f"#pair={first}" in terminal.text
    # A phone that reads an address of loopback looks for the console on itself.
    assert "▀" not in terminal.text
    terminal.type("p")
    terminal.wait_for(SHOWN, times=2)
    second = codes(terminal)[1]
    assert second != first
    assert paired(terminal.text, second) == 200
    terminal.wait_for(r"paired: my phone \(decide, all conversations\)")
    assert paired(terminal.text, second) == 403
    assert not is_cooked(terminal)
    terminal.type("\x03")
    assert terminal.wait_end() == 130
    assert terminal.modes == terminal.modes_before
    assert "Traceback" not in terminal.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_gives_the_terminal_back(folder: Folder, number: signal.Signals) -> None:
    terminal = folder.terminal(*serve(folder))
    terminal.wait_for(HELP)
    assert not is_cooked(terminal)
    terminal.signal(number)
    assert terminal.wait_end() == (0 if number == signal.SIGTERM else -signal.SIGQUIT)
    assert terminal.modes == terminal.modes_before


def test_all_browsers_are_signed_out_after_a_question(folder: Folder) -> None:
    terminal = folder.terminal(*serve(folder))
    terminal.wait_for(HELP)
    (code,) = codes(terminal)
    assert paired(terminal.text, code) == 200
    terminal.type("r")
    terminal.wait_for(r"sign out all paired browsers \(1\)")
    terminal.type("n")
    terminal.wait_for("nothing was done")
    terminal.type("r")
    terminal.wait_for("sign out all paired", times=2)
    terminal.type("y")
    terminal.wait_for("signed out: 1")


async def test_what_is_pasted_and_keys_with_arrows_do_nothing() -> None:
    master, slave = os.openpty()
    pressed: list[str] = []
    keys = KeyPresses(slave, pressed.append)
    assert keys.start()
    try:
        for typed in (b"ppp", b"\x1b[A", b"\x1bOP"):
            os.write(master, typed)
        async with asyncio.timeout(DEADLINE):
            # One that comes in the same piece as what was written before is part of the paste.
            while not pressed:
                os.write(master, b"x")
                await asyncio.sleep(0.05)
        assert set(pressed) == {"x"}
        # The files of a terminal are shared with the shell, which does not expect them to be non-blocking.
        assert os.get_blocking(slave)
    finally:
        keys.stop()
        os.close(slave)
        os.close(master)


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(folder: Folder) -> None:
    terminal = folder.terminal("-c", _SHELL, sys.executable, *serve(folder))
    terminal.wait_for(HELP)
    until(terminal, cooked=False)
    terminal.type("\x1a")
    terminal.wait_for("^stopped")
    assert is_cooked(terminal)
    terminal.enter("fg")
    terminal.wait_for("^resumed")
    until(terminal, cooked=False)
    terminal.type("p")
    terminal.wait_for(SHOWN, times=2)
    terminal.type("\x03")
    assert terminal.wait_end() == 130
    assert terminal.modes == terminal.modes_before


def test_in_the_background_the_terminal_is_left_alone(folder: Folder) -> None:
    terminal = folder.terminal("-c", _SHELL, sys.executable, *serve(folder))
    terminal.wait_for(HELP)
    until(terminal, cooked=False)
    terminal.type("\x1a")
    terminal.wait_for("^stopped")
    terminal.enter("bg")
    terminal.wait_for("^in the background")
    # The server works, and neither reads what is typed nor is stopped for trying.
    assert paired(terminal.text, codes(terminal)[0]) == 200
    assert is_cooked(terminal)
    terminal.enter("p")
    terminal.wait_for("^resumed")
    assert len(codes(terminal)) == 1
    until(terminal, cooked=False)
    terminal.type("p")
    terminal.wait_for(SHOWN, times=2)
    terminal.type("\x03")
    assert terminal.wait_end() == 130


def _run(folder: Folder, *more: str) -> tuple[str, str]:
    """Standard output and error of a server that answers once and then ends, without a terminal."""
    command = [sys.executable, *serve(folder, *more)]
    with subprocess.Popen(
        command,
        cwd=folder.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        # It answers only after it has printed what it has to say.
        asking = http.client.HTTPConnection(first.split("/")[2], timeout=DEADLINE)
        asking.request("GET", "/healthz")
        assert asking.getresponse().status == 200
        asking.close()
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=DEADLINE)
    return output, first + errors


def test_without_a_terminal_there_is_no_code(folder: Folder) -> None:
    output, errors = _run(folder)
    assert "serving at" in errors
    assert output == ""
    assert not CODE.search(errors)


def test_without_a_terminal_there_is_one_code_on_demand(folder: Folder) -> None:
    command = [sys.executable, *serve(folder, "--pairing-code")]
    with subprocess.Popen(
        command, cwd=folder.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline() for _ in range(3)]
            found = CODE.search(lines[1])
            assert found is not None
            assert paired(lines[0], found[0]) == 200
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""


def test_open_opens_the_page_without_a_code(folder: Folder) -> None:
    opened = folder.path / "opened"
    browser = folder.path / "browser.py"
    # The address appears as a whole.
    browser.write_text(
        "import pathlib, sys\n"
        f"part = pathlib.Path({str(opened)!r} + '.part')\n"
        "part.write_text(sys.argv[1])\n"
        f"part.rename({str(opened)!r})\n"
    )
    with subprocess.Popen(
        [sys.executable, *serve(folder, "--open", "--pairing-code")],
        cwd=folder.path,
        env={**os.environ, "BROWSER": f"{shlex.quote(sys.executable)} {shlex.quote(str(browser))} %s"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().split()[-1]
            deadline = time.monotonic() + DEADLINE
            while not opened.exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            # The end of the block waits for it.
            process.send_signal(signal.SIGTERM)
    assert opened.read_text() == address


def test_without_a_desktop_open_says_so_in_a_line_like_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    open_browser("http://127.0.0.1:1/")
    shown = capsys.readouterr().err
    assert shown.startswith("dragoman: there is no desktop")
    assert "http://127.0.0.1:1/" in shown


def test_without_a_console_there_is_nothing_to_pair(folder: Folder) -> None:
    folder.script({"do": [{"say": "Yes."}]}, settings="[console]\nenabled = false")
    output, errors = _run(folder)
    assert output == ""
    assert "serving at" in errors
    for option in ("--open", "--pairing-code"):
        command = [sys.executable, *serve(folder, option)]
        refused = subprocess.run(
            command, cwd=folder.path, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        assert refused.returncode == 2
        assert "`enabled = false`" in refused.stderr


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:1/"),
        ("::1", "http://[::1]:1/"),
        ("localhost", "http://localhost:1/"),
        ("0.0.0.0", "http://127.0.0.1:1/"),  # noqa: S104 - only its name
        ("::", "http://[::1]:1/"),
        ("192.168.1.5", "http://192.168.1.5:1/"),
    ],
)
def test_the_address_is_the_one_of_this_machine_and_usable_only_on_loopback(
    host: str, address: str, tmp_path: Path
) -> None:
    assert local_address(host, 1) == address
    models = models_in(tmp_path)
    assert Console(ConsoleConfig(), (), models, address).has_usable_address == (host != "192.168.1.5")
    assert Console(ConsoleConfig(url="https://x.example"), (), models, address).has_usable_address


# The dialogue, without a process.


class Dialogue:
    def __init__(self, folder: Path, url: str | None = None, keys: int = 0) -> None:
        named = [ClientKey(f"key{number}", f"secret{number}") for number in range(1, keys + 1)]
        self.console = Console(ConsoleConfig(url=url), named, models_in(folder), "http://127.0.0.1:8427/")
        self.shown: list[str] = []
        self.terminal = CodeDialogue(self.console, self.shown.append)
        self.terminal.begin()
        self.begun = tuple(self.shown)
        self.shown.clear()

    def press(self, keys: str) -> str:
        for key in keys:
            self.terminal.press(key)
        return "\n".join(self.shown)


def test_with_a_url_the_address_on_this_machine_is_named_as_well(tmp_path: Path) -> None:
    assert Dialogue(tmp_path).begun[0] == "the console is at http://127.0.0.1:8427/"
    both = "the console is at https://x.example/, and on this machine at http://127.0.0.1:8427/"
    assert Dialogue(tmp_path, url="https://x.example").begun[0] == both


def test_a_second_browser_of_the_same_name_gets_a_number(tmp_path: Path) -> None:
    console = Dialogue(tmp_path).console
    long = "n" * 60

    def paired_as(name: str) -> str:
        return console.pair(console.new_code("decide", ConsoleScope()).text, name).session.name

    names = [paired_as(name) for name in ("Chrome on Linux",) * 3 + (long, long)]
    assert names == ["Chrome on Linux", "Chrome on Linux 2", "Chrome on Linux 3", long, f"{long[:56]} 2"]


def test_with_keys_a_person_chooses_for_whom_a_code_is(tmp_path: Path) -> None:
    dialogue = Dialogue(tmp_path, keys=12)
    asked = dialogue.press("p")
    assert "0  administrator (all conversations)" in asked
    assert "1  key1\n" in asked
    assert "c  key12" in asked
    for key, scope in (
        ("0", ConsoleScope()),
        ("1", dialogue.console.scope("key1")),
        ("C", dialogue.console.scope("key12")),
    ):
        dialogue.shown.clear()
        text = dialogue.press(key if dialogue.terminal._state == "choosing" else f"p{key}")
        found = CODE.search(text)
        assert found is not None
        assert dialogue.console.codes.take(found[0]).scope == scope


def test_any_other_key_makes_no_code(tmp_path: Path) -> None:
    dialogue = Dialogue(tmp_path, keys=2)
    for key in ("3", "z", "\x1b", "p", "\r"):
        dialogue.shown.clear()
        assert not CODE.search(dialogue.press(f"p{key}"))
        assert "nothing was done." in dialogue.shown


def test_with_an_address_for_other_devices_there_is_a_qr_code_for_it(tmp_path: Path) -> None:
    dialogue = Dialogue(tmp_path, "https://console.example.org")
    picture, words = dialogue.press("p").rsplit("\x1b[0m\n", 1)
    found = CODE.search(words)
    assert found is not None
    assert picture + "\x1b[0m" == terminal_qr(f"https://console.example.org/#pair={found[0]}")


def test_a_qr_code_in_a_terminal_is_its_rows_in_a_light_frame() -> None:
    text = "https://console.example.org/#pair=K7QF-3MPT"
    light = {" ": (0, 0), "▀": (1, 0), "▄": (0, 1), "█": (1, 1)}
    rows: list[str] = []
    for line in terminal_qr(text).split("\n"):
        blocks = [light[each] for each in re.sub(r"^\x1b\[97;40m|\x1b\[0m$", "", line)]
        rows += ["".join("01"[not each[half]] for each in blocks) for half in (0, 1)]
    bare = qr_rows(text)
    width = len(bare) + 4
    framed = ["0" * width] * 2 + [f"00{row}00" for row in bare] + ["0" * width] * 2
    assert rows[:width] == framed
