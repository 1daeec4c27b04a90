"""The words of a line, read by the analysis and by a reader that knows no grammar."""

from __future__ import annotations

import pytest

from dragoman.policy import command_line
from dragoman.policy.command_line import CommandLine, read_line
from policy.line_examples import EXAMPLES
from policy.lines import LineMaker
from policy.plain_words import compare_words, words_of

_LINES = 4_000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("git log -1", ["git", "log", "-1"]),
        ("ls 2>&1 2>x >y|cat<z&&a;b&c", ["ls", "x", "y", "cat", "z", "a", "b", "c"]),
        ("ls a2>x -1>y 2 >z >&2 x", ["ls", "a2", "x", "-1", "y", "2", "z", "x"]),
        (r"a\ b 'c d'\''e' ''" + ' "f \\" \\x"', ["a b", "c d'e", "", 'f " \\x']),
        ("a \\\n b\tc\nd", ["a", "b", "c", "d"]),
        (r"A=\  rm ls", ["A= ", "rm", "ls"]),
        ("{ls;}", ["{ls", "}"]),
    ],
)
def test_the_plain_reader_splits_as_shells_do(line: str, words: list[str]) -> None:
    assert words_of(line) == words


def test_d6_the_analysis_has_the_words_that_a_plain_reader_finds() -> None:
    maker, understood = LineMaker(0), 0
    for example in EXAMPLES:
        compare_words(example)
    for _ in range(_LINES):
        line = maker.line()
        if not read_line(line, "/workspace").unsure:
            understood += 1
            maker.learn(line)
        compare_words(line)
    assert understood > _LINES * 0.3


@pytest.mark.parametrize(
    ("line", "misread"), [("ls -1 >x", "ls >x"), ("A=1 rm ls", "A=rm ls"), ("ls", "ls x")]
)
def test_a_line_that_is_misread_is_found(line: str, misread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def misreading(text: str, folder: str) -> CommandLine:
        return command_line.read_line(misread, folder)

    monkeypatch.setattr("policy.plain_words.read_line", misreading)
    with pytest.raises(AssertionError):
        compare_words(line)
