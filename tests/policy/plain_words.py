"""A third reader of command lines: it knows only blanks, quotes and operators, and no grammar.

The analysis takes from tree-sitter where words begin and end. Whatever is a word for this reader must be one of the
analysis, and the other way round. It runs no shell, so it reads hundreds of thousands of lines in the time of a few runs.
"""

from __future__ import annotations

import re

from dragoman.policy.command_line import read_line

__all__ = ["compare_words", "words_of"]

_QUOTED = re.compile(r"'([^']*)'|\\(?!\n)(.)|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_ESCAPED = re.compile(r'\\([$`"\\])')
# A copy of a descriptor names no file.
_COPY = re.compile(r"[0-9]?[<>]&(?:[ \t]|\\\n)*(?:[0-9]+|-)")
_OPERATOR = re.compile(r"(?<![^\s;&|()<>])[0-9](?=[<>])|[<>]+[|&]?|[;&|()]")
_BLANK = re.compile(r"[ \t\n]+|\\\n")
_SHELLS = frozenset({"bash", "dash", "sh", "zsh"})
# Words by themselves, and signs where a command begins.
_SIGNS = frozenset({"{", "}", "!"})


def compare_words(line: str) -> None:
    """Raises if the analysis understands a line and has other words than this reader."""
    seen = read_line(line, "/workspace")
    has_script = any(command.is_wrapper and command.words[0].text in _SHELLS for command in seen.commands)
    if seen.unsure or has_script or "$" in line or "`" in line:
        return
    found = set(words_of(line)) - _SIGNS
    programs_and_arguments = {word.text for command in seen.commands for word in command.words} - _SIGNS
    # xargs runs echo if nothing else is given.
    assert programs_and_arguments <= found | {"echo"}, (line, programs_and_arguments - found)
    others = {f"{name}={word.text}" for command in seen.commands for name, word in command.assignments}
    others |= {redirect.path.text for command in seen.commands for redirect in command.redirects}
    assert found <= programs_and_arguments | others | {"/dev/null"}, (
        line,
        found - programs_and_arguments - others,
    )


def words_of(line: str) -> list[str]:
    """All words of a line without substitutions, in their order."""
    words: list[str] = []
    word: str | None = None
    at = 0
    while at < len(line):
        if blank := _BLANK.match(line, at):
            at = blank.end()
            if blank[0] != "\\\n" and word is not None:
                words.append(word)
                word = None
        elif quoted := _QUOTED.match(line, at):
            at = quoted.end()
            single, escaped, double = quoted.groups()
            word = (word or "") + (single or escaped or _ESCAPED.sub(r"\1", double or ""))
        elif sign := (_COPY.match(line, at) if word is None or line[at] in "<>" else None) or _OPERATOR.match(
            line, at
        ):
            at = sign.end()
            if word is not None:
                words.append(word)
                word = None
        else:
            word = (word or "") + line[at]
            at += 1
    return words if word is None else [*words, word]
