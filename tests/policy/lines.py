"""Generates command lines from a seed: what agents write, and everything that could hide a command in it.

A line comes from a grammar or from `line_examples`. Some are then changed at random places, also those that the analysis
understood before: so several changes can come together. `LAB` stands for the laboratory's folder.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from policy.line_examples import EXAMPLES
from policy.line_vocabulary import (
    AFTER_SCRIPT,
    BLANKS,
    BRACES,
    COMPUTED,
    GLOBS,
    METACHARACTERS,
    OPERATORS,
    PIPED,
    PROGRAMS,
    SEPARATORS,
    SHELLS,
    TARGETS,
    TEXTS,
    TILDES,
    VARIABLES,
    WORDS,
    WRAPPER_WORDS,
    WRAPPERS,
)

__all__ = ["LineMaker"]

_Choice = TypeVar("_Choice")

_MOST_CHANGES = 3
_MOST_LEARNT = 2_000
_LONGEST_LEARNT = 300


class LineMaker:
    """Makes lines, one after the other. The same seed makes the same lines if the same ones are `learn`ed."""

    def __init__(self, seed: int | str) -> None:
        self._random = Random(seed)  # noqa: S311 - nothing secret
        # How much in a line is unusual: each unusual thing costs one. So most of a line stays understandable.
        self._oddness = 0
        self._learnt: list[str] = []

    def learn(self, line: str) -> None:
        """Take a line that is worth changing further."""
        if len(line) < _LONGEST_LEARNT:
            if len(self._learnt) < _MOST_LEARNT:
                self._learnt.append(line)
            else:
                self._learnt[self._random.randrange(_MOST_LEARNT)] = line

    def line(self) -> str:
        chosen = self._random.random()
        if chosen < 0.45:
            return self._fresh()
        if chosen < 0.55:
            return self._example()
        if chosen < 0.70:
            return self._changed(self._fresh())
        if chosen < 0.80:
            return self._changed(self._example())
        if chosen < 0.84:
            return self._spliced()
        if chosen < 0.88:
            return self._soup()
        if chosen < 0.91:
            return shlex.join(self._optioned())
        return self._changed(self._pick(self._learnt) if self._learnt else self._fresh())

    def vector(self) -> list[str]:
        """An argument vector: what an agent runs without a shell."""
        self._oddness = self._random.choice((0, 0, 1, 2))
        if self._chance(0.5):
            return self._optioned()
        words: list[str] = []
        while self._chance(0.6):
            words += self._pick(WRAPPERS).replace("'", "").split(" ")
        if self._chance(0.4):
            words += [*self._pick(SHELLS).split(" "), self._script(1)]
        else:
            words += [self._pick(PROGRAMS)]
        while self._chance(0.5):
            words.append(self._pick((*WORDS, *TEXTS, *GLOBS, *COMPUTED)))
        return words

    def _optioned(self) -> list[str]:
        """Wrappers with any of their options in any order."""
        words = []
        for _ in range(self._random.choice((1, 1, 2, 3))):
            wrapper = self._pick(list(WRAPPER_WORDS))
            words += [wrapper, *self._random.choices(WRAPPER_WORDS[wrapper], k=self._random.randint(0, 4))]
        return [
            *words,
            *self._pick((("rm", "x"), ("ls", "-l"), ("./evil",), ("rm", "{}"), ("ls x",), ("",), ())),
        ]

    # --- The grammar. ------------------------------------------------------------------------------------------------

    def _fresh(self) -> str:
        self._oddness = self._random.choice((0, 0, 0, 1, 1, 2, 3, 5))
        line = self._script(3)
        if self._is_odd(0.1):
            line = self._pick(("\n", " ", "#x\n", "\\\n", "\t", "!", ";", "\ufeff", "#!evil\n")) + line
        if self._is_odd(0.1):
            line += self._pick(
                (
                    "\n",
                    " ",
                    " # rm x",
                    "#x",
                    ";",
                    "&",
                    "\\",
                    " \\\n",
                    "'",
                    "\n#",
                    " !",
                    "\r",
                    "|",
                    "\0",
                    "\x1b[1m",
                    ")",
                )
            )
        return line

    def _script(self, depth: int) -> str:
        parts = [self._command(depth)]
        while self._chance(0.35 if depth > 1 else 0.15):
            separator = (
                self._pick(SEPARATORS[:10]) if not self._is_odd(0.2) else self._pick(SEPARATORS + PIPED)
            )
            around = self._pick((" ", " ", ""))
            parts += [around + separator + around, self._command(depth)]
        return "".join(parts)

    def _command(self, depth: int) -> str:
        if depth <= 0:
            return self._simple(depth)
        forms: dict[Callable[[int], str], float] = {
            self._simple: 10,
            self._wrapped: 3,
            self._shell: 1.5,
            self._grouped: 0.5,
            self._odd_command: 0.4 if self._oddness else 0,
        }
        [form] = self._random.choices(list(forms), list(forms.values()))
        return form(depth - 1)

    def _simple(self, depth: int) -> str:
        before = ""
        while self._chance(0.06):
            before += self._pick(VARIABLES[:4] if not self._is_odd(0.5) else VARIABLES) + self._blank()
        if self._is_odd(0.05):
            before += self._redirect() + self._blank()
        program = self._pick(PROGRAMS)
        if self._is_odd(0.1):
            program = self._quoted(program)
        return before + program + self._arguments(depth)

    def _arguments(self, depth: int) -> str:
        text = ""
        while self._chance(0.55):
            text += self._blank() + self._word(depth)
        while self._chance(0.12):
            text += self._blank() + self._redirect()
            while self._is_odd(0.2):
                text += self._blank() + self._word(depth)
        return text

    def _word(self, depth: int) -> str:
        chosen = self._random.random()
        if chosen < 0.6:
            return self._pick(WORDS)
        if chosen < 0.72:
            return self._quoted(self._pick(TEXTS + WORDS))
        if chosen < 0.78:
            return self._pick(GLOBS)
        if chosen < 0.84:
            return self._pick(COMPUTED[:9])
        if chosen < 0.88 and depth > 0:
            return self._pick(("$({})", '"$({})"', "x$({})")).format(self._script(depth - 1))
        if chosen < 0.9:
            return self._pick(TILDES)
        if not self._is_odd(1):
            return self._pick(WORDS)
        if chosen < 0.93:
            return self._pick(COMPUTED)
        if chosen < 0.95:
            return self._pick(BRACES)
        if chosen < 0.97 and depth > 0:
            return self._pick(
                ("`{}`", "<({})", ">({})", "$(({}))", '"`{}`"', "${{A:-$({})}}", "=({})")
            ).format(self._script(0))
        # Two words without a blank between them.
        return self._word(0) + self._word(0)

    def _wrapped(self, depth: int) -> str:
        wrapper = self._pick(WRAPPERS)
        if self._is_odd(0.15):
            wrapper += self._blank() + self._redirect()
        if self._is_odd(0.1):
            wrapper += self._blank() + self._word(0)
        inner = (
            self._command(depth)
            if self._chance(0.2)
            else self._pick((self._simple, self._wrapped, self._shell))(depth - 1)
        )
        if depth < -3:
            inner = self._simple(0)
        return wrapper + self._blank() + inner

    def _shell(self, depth: int) -> str:
        script = self._quoted(self._script(depth - 1))
        if self._is_odd(0.1):
            return f"{self._pick(SHELLS)} <<E\n{self._script(0)}\nE"
        if self._is_odd(0.1):
            return f"{self._pick(SHELLS)} <<<{script}"
        return self._pick(SHELLS) + self._blank() + script + self._pick(AFTER_SCRIPT)

    def _grouped(self, depth: int) -> str:
        inner = self._script(depth - 1)
        form = self._pick(
            (
                "({})",
                "( {} )",
                "{{ {}; }}",
                "{{ {}\n}}",
                "! {}",
                "({})>x",
                "{{ {}; }} 2>&1",
                "{{ {};}}",
                "(({}))",
                "{{{};}}",
            )
        )
        return form.format(inner)

    def _odd_command(self, depth: int) -> str:
        self._oddness -= 1
        return self._filled(self._pick(EXAMPLES), lambda: self._script(depth - 1))

    def _redirect(self) -> str:
        operator = self._pick(OPERATORS[:6]) if not self._is_odd(0.3) else self._pick(OPERATORS)
        target = self._pick(TARGETS[:7]) if not self._is_odd(0.3) else self._pick(TARGETS)
        if self._chance(0.15):
            return "2>&1"
        return operator + self._pick(("", "", " ")) + target

    def _quoted(self, text: str) -> str:
        """The text as one word, in one of the ways to write it."""
        chosen = self._random.random()
        single = "'" + text.replace("'", "'\\''") + "'"
        if chosen < 0.5:
            return single
        double = '"' + "".join(f"\\{each}" if each in '$`"\\' else each for each in text) + '"'
        if chosen < 0.8:
            return double
        if chosen < 0.85:
            # As people write it: what is inside is computed by the outer shell.
            return f'"{text}"'
        if chosen < 0.9:
            return (
                "".join(f"\\{each}" if not each.isalnum() and each != "\n" else each for each in text) or "''"
            )
        if chosen < 0.94:
            return "".join(f"\\{each}" if each != "\n" else "'\n'" for each in text) or '""'
        if chosen < 0.97 or not self._is_odd(1):
            at = self._random.randint(0, len(text))
            return (
                "".join(
                    "'" + part.replace("'", "'\\''") + "'" if part else "" for part in (text[:at], text[at:])
                )
                or "''"
            )
        return "$'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"

    def _blank(self) -> str:
        return self._pick(BLANKS) if self._is_odd(0.03) else " "

    # --- Changes. ----------------------------------------------------------------------------------------------------

    def _example(self) -> str:
        self._oddness = 0
        return self._filled(self._pick(EXAMPLES), lambda: self._simple(0))

    def _filled(self, example: str, command: Callable[[], str]) -> str:
        return re.sub(r"\{\}", lambda _: command(), example)

    def _spliced(self) -> str:
        one, two = (
            self._pick(self._learnt) if self._learnt and self._chance(0.5) else self._fresh()
            for _ in range(2)
        )
        return one[: self._random.randint(0, len(one))] + two[self._random.randint(0, len(two)) :]

    def _soup(self) -> str:
        """Words and signs in any order: short, so that some are no errors."""
        pieces = [self._pick(("ls", "cat", "rm", "A=1", "cd sub", "bash -c", "time", "env", "xargs"))]
        for _ in range(self._random.randint(1, 6)):
            kind = self._pick(
                (METACHARACTERS, METACHARACTERS, WORDS, OPERATORS, TARGETS, BLANKS, SEPARATORS, TEXTS)
            )
            pieces += [self._pick(("", " ")), self._pick(kind)]
        return "".join(pieces)

    def _changed(self, line: str) -> str:
        for _ in range(self._random.randint(1, _MOST_CHANGES)):
            at = self._random.randint(0, len(line))
            end = min(len(line), at + self._random.choice((1, 1, 1, 2, 3, 5)))
            match self._random.randrange(7):
                case 0:
                    line = line[:at] + line[end:]
                case 1:
                    line = line[:at] + line[at:end] * 2 + line[end:]
                case 2:
                    line = line[:at] + line[at:end][::-1] + line[end:]
                case 3:
                    to = self._random.randint(0, len(line))
                    line = line[:to] + line[at:end] + line[to:]
                case _:
                    line = line[:at] + self._pick(METACHARACTERS) + line[at if self._chance(0.7) else end :]
        return line

    # --- Chance. -----------------------------------------------------------------------------------------------------

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _is_odd(self, share: float) -> bool:
        if self._oddness > 0 and self._chance(share):
            self._oddness -= 1
            return True
        return False

    def _pick(self, choices: Sequence[_Choice]) -> _Choice:
        return self._random.choice(choices)
