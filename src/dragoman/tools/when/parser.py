"""Reading a `when` clause."""

from __future__ import annotations

import re
from typing import NamedTuple

from dragoman.tools.when.expression import (
    KEYWORDS,
    WORD,
    And,
    Compare,
    Constant,
    ContextKey,
    Equals,
    Expression,
    In,
    Matches,
    Not,
    Or,
)
from dragoman.tools.when.regex import REGEX

__all__ = ["MAX_CLAUSE_LENGTH", "MAX_NESTING", "WhenError", "parse"]

# A clause is a line or two of text; what is longer is not a clause.
MAX_CLAUSE_LENGTH = 4096
# Parentheses within parentheses. Parser and evaluation recurse, and must end long before Python's stack does.
MAX_NESTING = 50

# How much of a clause an error shows on either side of the column that it points at.
_EXCERPT = 60


class WhenError(ValueError):
    """An invalid clause: where the error is, and what to write instead. `column` counts from 0."""

    def __init__(self, text: str, column: int, message: str) -> None:
        super().__init__(text, column, message)
        self.text = text
        self.column = column
        self.message = message

    def __str__(self) -> str:
        start = max(0, self.column - _EXCERPT)
        end = self.column + _EXCERPT
        before = ("…" if start else "") + self.text[start : self.column]
        after = self.text[self.column : end] + ("…" if end < len(self.text) else "")
        # A line break or a tab would part the caret from what it points at.
        line = "".join(character if character.isprintable() else " " for character in before + after)
        return f"{self.message}\n    {line}\n    {' ' * len(before)}^"


_SPACE = " \t\r\n\u00a0"
_TOKEN = re.compile(
    rf"""(?P<operator> ===? | !==? | =~ | <=? | >=? | && | \|\| | [!()] )
       | (?P<quoted> '[^']*' )
       | (?P<regex> {REGEX}[A-Za-z]* )
       | (?P<word> {WORD} )""",
    re.VERBOSE | re.DOTALL,
)
_SAME = {"===": "==", "!==": "!="}
_COMPARISONS = frozenset({"==", "!=", "=~", "<", "<=", ">", ">=", "in", "not"})

_NO_TOKEN = {
    "=": "one `=` is no operator: write `==` to compare, or `=~` to match a regular expression",
    "&": "one `&` is no operator: write `&&`",
    "|": "one `|` is no operator: write `||`",
    "'": "this quote is never closed: add a `'` where the text ends; it cannot contain one",
    '"': "text stands in single quotes: write `'` instead of `\"`",
    "/": r"this regular expression is never closed: end it with `/`, and write `\/` for a slash inside; "
    "a value that begins with a slash needs quotes",
}
_NO_OPERAND = {
    "quoted": "a key is written without quotes; quoted text stands on the right of an operator",
    "regex": "a regular expression stands on the right of `=~`: write `key =~ /…/`",
    "end": "the clause stops too early: expected a key, `true`, `false` or `(`",
}


class _Token(NamedTuple):
    # An operator or a keyword is its own kind; the others are word, quoted, regex and end.
    kind: str
    text: str
    column: int
    end: int


def parse(text: str) -> Expression:
    """The expression that `text` stands for, or `WhenError`."""
    if len(text) > MAX_CLAUSE_LENGTH:
        message = f"the clause is longer than {MAX_CLAUSE_LENGTH} characters: shorten it"
        raise WhenError(text, MAX_CLAUSE_LENGTH, message)
    if not text.strip(_SPACE):
        raise WhenError(text, 0, "the clause is empty: leave it out, or write `true`")
    return _Parser(text).clause()


class _Parser:
    """Recursive descent, a method for each rule of the grammar, looking one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._nesting = 0
        self._token = self._scan(0)

    def clause(self) -> Expression:
        expression = self._or()
        if self._token.kind != "end":
            raise self._unexpected()
        return expression

    def _or(self) -> Expression:
        operands = [self._and()]
        while self._take("||"):
            operands.append(self._and())
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def _and(self) -> Expression:
        operands = [self._term()]
        while self._take("&&"):
            operands.append(self._term())
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def _term(self) -> Expression:
        if self._take("!"):
            operand = self._operand()
            if self._token.kind in _COMPARISONS:
                raise self._error("`!` negates a key, not a comparison: put the comparison in parentheses")
            return Not(operand)
        if self._token.kind == "word":
            return self._comparison(self._advance().text)
        return self._operand()

    def _operand(self) -> Expression:
        token = self._token
        if token.kind == "word":
            return ContextKey(self._advance().text)
        if token.kind in {"true", "false"}:
            return Constant(self._advance().kind == "true")
        if token.kind == "(":
            return self._parenthesised()
        expected = f"expected a key, `true`, `false` or `(` instead of `{token.text}`"
        raise self._error(_NO_OPERAND.get(token.kind, expected))

    def _parenthesised(self) -> Expression:
        opening = self._token
        if self._nesting == MAX_NESTING:
            raise self._error(f"more than {MAX_NESTING} parentheses within each other: write it flatter")
        self._nesting += 1
        self._advance()
        expression = self._or()
        self._nesting -= 1
        if self._token.kind == "end":
            raise self._error("nothing closes this `(`: add a `)`", opening)
        if not self._take(")"):
            raise self._unexpected()
        return expression

    def _comparison(self, key: str) -> Expression:
        kind = self._token.kind
        match kind:
            case "==" | "!=":
                return self._equality(key, equal=kind == "==")
            case "<" | "<=" | ">" | ">=":
                return Compare(key, kind, self._value().text)
            case "in":
                return In(key, self._value().text)
            case "not":
                self._advance()
                if self._token.kind != "in":
                    raise self._error("expected `in` after `not`; to negate, write `!` before the key")
                return Not(In(key, self._value().text))
            case "=~":
                return self._match(key)
            case _:
                return ContextKey(key)

    def _equality(self, key: str, *, equal: bool) -> Expression:
        value = self._value()
        if value.kind in {"true", "false"}:
            # Without quotes these are no text: the question is what the key's value counts as.
            return ContextKey(key) if (value.kind == "true") == equal else Not(ContextKey(key))
        return Equals(key, value.text) if equal else Not(Equals(key, value.text))

    def _value(self) -> _Token:
        relation = self._advance().text
        if self._token.kind not in {"word", "quoted", "true", "false", "in"}:
            raise self._error(
                f"expected a value after `{relation}`: a word, or text in single quotes ('' for none)"
            )
        return self._advance()

    def _match(self, key: str) -> Expression:
        self._advance()
        if self._token.kind != "regex":
            raise self._error("expected a regular expression after `=~`: write `key =~ /…/`")
        token = self._advance()
        source, _, flags = token.text[1:].rpartition("/")
        try:
            return Matches(key, source, "".join(sorted(re.sub("[gy]", "", flags))))
        except ValueError as error:
            raise self._error(f"this regular expression cannot be used: {error}", token) from None

    def _take(self, kind: str) -> bool:
        if self._token.kind != kind:
            return False
        self._advance()
        return True

    def _advance(self) -> _Token:
        token = self._token
        self._token = self._scan(token.end)
        return token

    def _scan(self, position: int) -> _Token:
        column = len(self._text) - len(self._text[position:].lstrip(_SPACE))
        if column == len(self._text):
            return _Token("end", "", column, column)
        found = _TOKEN.match(self._text, column)
        if found is None:
            raise self._no_token(column)
        text, end = found[0], found.end()
        match found.lastgroup:
            case "operator":
                return _Token(_SAME.get(text, text), text, column, end)
            case "quoted":
                return _Token("quoted", text[1:-1], column, end)
            case "regex":
                return _Token("regex", text, column, end)
            case _:
                return _Token(text if text in KEYWORDS else "word", text, column, end)

    def _no_token(self, column: int) -> WhenError:
        character = self._text[column]
        if character == "=" and self._text[column - 1 : column] in {"<", ">"}:
            message = "put a space before this operator: `<` and `>` may be part of a word"
            return WhenError(self._text, column - 1, message)
        message = _NO_TOKEN.get(character, f"{character!r} has no meaning here: put text in single quotes")
        return WhenError(self._text, column, message)

    def _unexpected(self) -> WhenError:
        """The error for text after a complete expression."""
        token = self._token
        if token.kind == ")":
            return self._error("nothing opens this `)`: remove it, or add a `(`")
        if token.kind in _COMPARISONS:
            return self._error(
                f"on the left of `{token.text}` stands a single key: write `key {token.text} …`"
            )
        if self._text[: token.column].rstrip().endswith(("<", ">")):
            return self._error(
                "expected `&&` or `||` here; a `<` or `>` that compares needs a space before it"
            )
        return self._error("expected `&&` or `||` here; a value with spaces in it needs single quotes")

    def _error(self, message: str, token: _Token | None = None) -> WhenError:
        return WhenError(self._text, (token or self._token).column, message)
