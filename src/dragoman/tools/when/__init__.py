r"""`when` clauses: the expressions that say in which context a tool is offered.

The language is VS Code's, so that a declaration means here what it means there:

    expression = and { "||" and }
    and        = term { "&&" term }
    term       = [ "!" ] ( key | "true" | "false" | "(" expression ")" )
               | key ( "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not" "in" ) value
               | key "=~" "/" regular expression "/" [ flags ]
    value      = word | "'" text "'" | "true" | "false" | "in"

`===` and `!==` are other spellings of `==` and `!=`. Keys are words, and words may contain `<`, `>`, `/`, `-`,
`:` and more: `vim.use<C-r>` is one key, so an operator that begins with `<` or `>` needs a space before it.
There is no escape inside quotes. `needle in haystack` names two keys.

Evaluation is JavaScript's. A missing key is false, and so are `0` and `''`; an empty list is not. `key == true`
asks whether the value counts as true, `key == 'true'` compares with that text, and comparing is loose: the
number 5 equals `'5'`, but the boolean true equals `'1'` and not `'true'`. `<` and its kin read the number at the
beginning of both sides, and are false where there is none.

Where VS Code guesses or stays silent, we say what is wrong instead: a value left out (`key ==`), text in double
quotes (there a part of the word), a character of no meaning, a regular expression in quotes. Two things are
plainer here: `=~` looks at text only, while VS Code finds "undefined" in a missing key; and `!(…)` is always the
opposite of `…`, while VS Code turns `!(n < 1)` into `n >= 1`, so that neither holds where `n` is missing.
"""

from dragoman.tools.when.expression import (
    MAX_SEARCHED_LENGTH,
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
    Ordering,
    evaluate,
)
from dragoman.tools.when.parser import MAX_CLAUSE_LENGTH, MAX_NESTING, WhenError, parse
from dragoman.tools.when.regex import MAX_REGEX_GROUPS, MAX_REGEX_LENGTH

__all__ = [
    "MAX_CLAUSE_LENGTH",
    "MAX_NESTING",
    "MAX_REGEX_GROUPS",
    "MAX_REGEX_LENGTH",
    "MAX_SEARCHED_LENGTH",
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
    "WhenError",
    "evaluate",
    "parse",
]
