"""The tree of a `when` clause, what it means, and how it is written.

Nodes check themselves, so that each can be written down and read back as the same.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dragoman.tools.when.regex import compile_regex

__all__ = [
    "KEYWORDS",
    "MAX_SEARCHED_LENGTH",
    "WORD",
    "And",
    "Compare",
    "Constant",
    "ContextKey",
    "Equals",
    "Expression",
    "In",
    "Matches",
    "Not",
    "Or",
    "Ordering",
    "evaluate",
]

# As long as a path may be; longer values match nothing. So an expression that takes quadratic time takes little.
# One made to take exponential time still can, but it comes from a declaration, which also says what code to run.
MAX_SEARCHED_LENGTH = 4096


KEYWORDS = frozenset({"true", "false", "in", "not"})
WORD = r"(?![/<>])[\w<>\-./\\:*?+\[\]^,\#@;%$]+"

Ordering: TypeAlias = Literal["<", "<=", ">", ">="]
_HOLDS: dict[Ordering, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True, slots=True)
class ContextKey:
    """The key's value counts as true."""

    name: str

    def __post_init__(self) -> None:
        _check_key(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression

    def __str__(self) -> str:
        match self.operand:
            case Equals(key, value):
                return f"{key} != '{value}'"
            case In(needle, haystack):
                return f"{needle} not in {_written(haystack)}"
            case ContextKey() | Constant():
                return f"!{self.operand}"
            case _:
                return f"!({self.operand})"


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _check_operands(self.operands)

    def __str__(self) -> str:
        return " && ".join(f"({each})" if isinstance(each, And | Or) else str(each) for each in self.operands)


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _check_operands(self.operands)

    def __str__(self) -> str:
        return " || ".join(f"({each})" if isinstance(each, Or) else str(each) for each in self.operands)


@dataclass(frozen=True, slots=True)
class Equals:
    key: str
    value: str

    def __post_init__(self) -> None:
        _check_key(self.key)
        _check_text(self.value)

    def __str__(self) -> str:
        return f"{self.key} == '{self.value}'"


@dataclass(frozen=True, slots=True)
class Compare:
    key: str
    ordering: Ordering
    value: str

    def __post_init__(self) -> None:
        _check_key(self.key)
        _check_text(self.value)

    def __str__(self) -> str:
        return f"{self.key} {self.ordering} {_written(self.value)}"


@dataclass(frozen=True, slots=True)
class In:
    """The text under the key `needle` is in the list, or a name in the object, under the key `haystack`."""

    needle: str
    haystack: str

    def __post_init__(self) -> None:
        _check_key(self.needle)
        _check_text(self.haystack)

    def __str__(self) -> str:
        return f"{self.needle} in {_written(self.haystack)}"


@dataclass(frozen=True, slots=True)
class Matches:
    """`source` is JavaScript's; `flags` are among i, m, s and u, in that order."""

    key: str
    source: str
    flags: str = ""
    compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_key(self.key)
        object.__setattr__(self, "compiled", compile_regex(self.source, self.flags))

    def __str__(self) -> str:
        return f"{self.key} =~ /{self.source}/{self.flags}"


Expression: TypeAlias = Constant | ContextKey | Not | And | Or | Equals | Compare | In | Matches


def _is_key(text: str) -> bool:
    return re.fullmatch(WORD, text) is not None and text not in KEYWORDS


def _check_key(name: str) -> None:
    if not _is_key(name):
        raise ValueError(f"{name!r} cannot be written as a key")


def _check_text(text: str) -> None:
    if "'" in text:
        raise ValueError(f"{text!r} contains a single quote, which no clause can express")


def _check_operands(operands: tuple[Expression, ...]) -> None:
    if len(operands) < 2:  # noqa: PLR2004 - what stands on either side of an operator
        raise ValueError("`&&` and `||` join two operands or more")


def _written(value: str) -> str:
    return value if _is_key(value) else f"'{value}'"


# --- Meaning. -----------------------------------------------------------------------------------------------


def evaluate(expression: Expression, context: Mapping[str, object]) -> bool:
    """Whether `expression` holds for these values: booleans, numbers, text, lists of text, objects."""
    match expression:
        case Constant(value):
            return value
        case ContextKey(name):
            return _counts_as_true(context.get(name))
        case Not(operand):
            return not evaluate(operand, context)
        case And(operands):
            return all(evaluate(operand, context) for operand in operands)
        case Or(operands):
            return any(evaluate(operand, context) for operand in operands)
        case Equals(key, literal):
            return _equals(context.get(key), literal)
        case Compare(key, ordering, literal):
            return _HOLDS[ordering](_leading_number(context.get(key)), _leading_number(literal))
        case In(needle, haystack):
            item, source = context.get(needle), context.get(haystack)
            return isinstance(item, str) and isinstance(source, list | tuple | Mapping) and item in source
        case _:
            searched = context.get(expression.key)
            if not isinstance(searched, str) or len(searched) > MAX_SEARCHED_LENGTH:
                return False
            return expression.compiled.search(searched) is not None


_DECIMAL = r"[+-]?(?:Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_NUMBER = re.compile(rf"\s*({_DECIMAL})")


def _counts_as_true(value: object) -> bool:
    # Lists and objects are true in JavaScript even when they are empty.
    return isinstance(value, list | tuple | Mapping) or bool(value)


def _equals(value: object, literal: str) -> bool:
    match value:
        case str():
            return value == literal
        case int() | float():
            # Booleans too: JavaScript turns both sides into numbers, and text that is none into NaN.
            return value == _whole_number(literal)
        case list() | tuple():
            return ",".join(map(str, value)) == literal
        case _:
            return False


def _whole_number(text: str) -> float:
    text = text.strip()
    return float(text or 0) if re.fullmatch(f"(?:{_DECIMAL})?", text) else math.nan


def _leading_number(value: object) -> float:
    # NaN stands for "none": no comparison with it holds.
    match value:
        case bool():
            return math.nan
        case int() | float():
            return value
        case str():
            number = _NUMBER.match(value)
            return float(number[1]) if number else math.nan
        case _:
            return math.nan
