"""Compares the analysis of command lines with what real shells do.

For a line that the analysis understands, every call and every written file that the laboratory records must be one that
the analysis saw. Commands that it saw and that did not run are fine: `false && rm x`.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dragoman.policy.command_line import CommandLine, read_line, read_vector
from dragoman.policy.simple_command import SimpleCommand
from dragoman.policy.words import Word
from policy.lines import LineMaker
from policy.shell_lab import FILE_SCRIPT, WRAPPERS, Call, Run, ShellLab, shells

__all__ = ["Comparison", "Finding", "arguments_match"]

_SHELL_NAMES = frozenset({"bash", "sh", "dash", "zsh"})
# Variables that make a program run something else. A rule has to name them, and then everything may happen.
_RUNNING_VARIABLES = frozenset(
    {"BASH_ENV", "ENV", "PS4", "SHELLOPTS", "PROMPT_COMMAND", "path", "FPATH", "fpath"}
)
# Of lines, one is an argument vector.
_VECTOR_EVERY = 12
_MOST_SHRINKING = 150


@dataclass(frozen=True, slots=True)
class Finding:
    """A call or a write that the analysis did not see."""

    line: str | tuple[str, ...]
    shell: str
    what: str
    seen: str

    def __str__(self) -> str:
        return f"{self.line!r}\n  in {self.shell}: {self.what}\n  seen: {self.seen}"


@dataclass
class Comparison:
    """Runs lines and counts."""

    lab: ShellLab
    lines: int = 0
    understood: int = 0
    runs: int = 0
    calls: int = 0
    findings: list[Finding] = field(default_factory=list)

    def generated(self, maker: LineMaker) -> list[Finding]:
        """Try one generated line or vector."""
        if self.lines % _VECTOR_EVERY == 0:
            return self.vector([self.lab.fill(word) for word in maker.vector()])
        line = maker.line()
        before = self.understood
        found = self.line(self.lab.fill(line))
        if self.understood > before:
            maker.learn(line)
        return found

    def line(self, line: str) -> list[Finding]:
        """What a line does that its analysis does not show."""
        self.lines += 1
        found = list(self._compare_line(line))
        self.findings += found
        return found

    def vector(self, argv: Sequence[str]) -> list[Finding]:
        """The same for an argument vector, which runs without a shell."""
        self.lines += 1
        seen = read_vector(argv, self.lab.folder)
        if seen.unsure or not self.lab.is_safe(" ".join(argv)) or "\0" in "".join(argv):
            return []
        self.understood += 1
        run = self._run(argv)
        found = [
            Finding(tuple(map(self.lab.hide, argv)), "execvp", what, self._shown(seen))
            for what in unaccounted(self.lab, seen, run)
        ]
        self.findings += found
        return found

    def shrunk(self, finding: Finding) -> Finding:
        """A shorter line with a finding in the same shell."""
        if isinstance(finding.line, tuple):
            return finding
        best, tries = finding, 0
        size = max(1, len(finding.line) // 2)
        while size and tries < _MOST_SHRINKING:
            at, line = 0, str(best.line)
            while at < len(line) and tries < _MOST_SHRINKING:
                tries += 1
                shorter = line[:at] + line[at + size :]
                found = next(self._compare_line(self.lab.fill(shorter), only=finding.shell), None)
                if found is None:
                    at += size
                else:
                    best, line = found, shorter
            size //= 2
        return best

    def _compare_line(self, line: str, only: str | None = None) -> Iterator[Finding]:
        seen = read_line(line, self.lab.folder)
        if seen.unsure or not self.lab.is_safe(line):
            return
        self.understood += 1
        for name, beginning in shells().items():
            if only in (None, name):
                run = self._run((*beginning, line))
                for what in unaccounted(self.lab, seen, run):
                    yield Finding(self.lab.hide(line), name, what, self._shown(seen))

    def _run(self, argv: Sequence[str]) -> Run:
        run = self.lab.run(argv)
        self.runs += 1
        self.calls += len(run.calls)
        return run

    def _shown(self, seen: CommandLine) -> str:
        return self.lab.hide(repr(seen.commands))


def unaccounted(lab: ShellLab, seen: CommandLine, run: Run) -> Iterator[str]:
    """Calls and writes of a run that are in none of the simple commands."""
    if any(_runs_anything(command) for command in seen.commands):
        return
    for call in run.calls:
        if not any(_is_call(lab, command, call) for command in seen.commands):
            yield lab.hide(f"called {call}")
    for path in run.written:
        if not any(_is_write(lab, command, path) for command in seen.commands):
            yield lab.hide(f"wrote {path}")


def _runs_anything(command: SimpleCommand) -> bool:
    if any(name in _RUNNING_VARIABLES for name, _ in command.assignments):
        return True
    # `bash env …` finds the laboratory's `env`, a script, and runs it. A real one is no script.
    return _is_shell(command) and any(word.text in WRAPPERS for word in command.words[1:])


def _is_shell(command: SimpleCommand) -> bool:
    """Whether a shell runs a file."""
    return bool(command.words) and command.words[0].text in _SHELL_NAMES and not command.is_wrapper


def _is_call(lab: ShellLab, command: SimpleCommand, call: Call) -> bool:
    return (
        _runs(lab, command, call)
        and _has_folder(lab, command, call.folder)
        and all(_has_variable(command, name, value) for name, value in call.variables.items())
    )


def _runs(lab: ShellLab, command: SimpleCommand, call: Call) -> bool:
    if not command.words:
        return False
    program, *arguments = command.words
    if _is_program(lab, command, program, call.program):
        return arguments_match(lab.home, arguments, call.arguments, has_more=command.has_more)
    if _is_shell(command):
        # The files of the laboratory are scripts, too.
        return (call.program, *call.arguments) == FILE_SCRIPT or any(
            script.is_exact
            and os.path.normpath(script.text.removeprefix(f"{lab.root}/bin/"))
            == os.path.normpath(call.program)
            and arguments_match(lab.home, arguments[at + 1 :], call.arguments, has_more=command.has_more)
            for at, script in enumerate(arguments)
        )
    return False


def _is_program(lab: ShellLab, command: SimpleCommand, word: Word, program: str) -> bool:
    text = _expanded(lab, word).removeprefix(f"{lab.root}/bin/")
    if word.kind not in ("exact", "home"):
        return False
    if any(name == "PATH" for name, _ in command.assignments) and "/" not in text:
        return program.rpartition("/")[2] == text
    return program == text


def _has_folder(lab: ShellLab, command: SimpleCommand, folder: str) -> bool:
    return command.folders is None or any(folder in _ways(lab, each) for each in command.folders)


def _ways(lab: ShellLab, path: str) -> set[str]:
    """Where a path may lead: `cd` takes `..` for a part of the path, all else follows links first."""
    path = lab.home + path[1:] if path.startswith("~") else path
    return {os.path.normpath(path), os.path.realpath(path), os.path.realpath(os.path.normpath(path))}


def _has_variable(command: SimpleCommand, name: str, value: str | None) -> bool:
    given = [word for each, word in command.assignments if each == name]
    return bool(given) and (not given[-1].is_exact or given[-1].text == value)


def _is_write(lab: ShellLab, command: SimpleCommand, path: str) -> bool:
    if command.is_wrapper:
        # No rule sees its redirects: what it runs has to carry them.
        return False
    for redirect in command.redirects:
        target = _expanded(lab, redirect.path)
        if redirect.is_write:
            if redirect.path.kind == "unknown":
                return True
            if command.folders is None and os.path.basename(target) == os.path.basename(path):  # noqa: PTH119
                # Somewhere: no rule allows that.
                return True
            for folder in command.folders or (lab.folder,):
                for way in _ways(lab, folder):
                    ways = _ways(lab, os.path.join(way, target))  # noqa: PTH118
                    if path in ways:
                        return True
                    if redirect.path.kind == "glob" and _is_behind_pattern(lab, way, target, path):
                        return True
    return False


def _is_behind_pattern(lab: ShellLab, folder: str, pattern: str, path: str) -> bool:
    """Whether a pattern stands for this file, or for a link that leads to it."""
    if _pattern(pattern).search(path):
        return True
    return any(
        path in _ways(lab, entry.path) for entry in os.scandir(folder) if _pattern(pattern).search(entry.path)
    )


def _expanded(lab: ShellLab, word: Word) -> str:
    return lab.home + word.text[1:] if word.kind == "home" else word.text


def arguments_match(home: str, words: Sequence[Word], arguments: Sequence[str], *, has_more: bool) -> bool:
    """Whether a shell can make these arguments of these words."""
    places = {0}
    for word in words:
        places = {after for place in places for after in _after(home, word, arguments, place)}
    return (has_more and bool(places)) or len(arguments) in places


def _after(home: str, word: Word, arguments: Sequence[str], place: int) -> Iterable[int]:
    """The places in the arguments up to which a word can reach."""
    match word.kind:
        case "unknown":
            yield from range(place, len(arguments) + 1)
        case "glob":
            pattern = _pattern(word.text)
            while place < len(arguments) and (
                arguments[place] == word.text or pattern.fullmatch(arguments[place])
            ):
                place += 1
                yield place
        case kind:
            text = home + word.text[1:] if kind == "home" else word.text
            if place < len(arguments) and arguments[place] == text:
                yield place + 1


def _pattern(glob: str) -> re.Pattern[str]:
    """Matches at least what the glob matches. zsh's `**/` may be no folder at all, and sets may hold quoted characters."""
    glob, is_set, _ = glob.partition("[")
    pieces = re.split(r"(\*+/|[*?])", glob)
    return re.compile("".join(map(_any_of, pieces)) + (".*" if is_set else ""), re.DOTALL)


def _any_of(piece: str) -> str:
    if piece.startswith("*"):
        return "(?:.*/)?" if piece.endswith("/") else ".*"
    return "." if piece == "?" else re.escape(piece)
