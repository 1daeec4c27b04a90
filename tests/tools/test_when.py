"""`when` clauses: what they parse to, what they mean, and what is said about those that are none."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from typing import TypeAlias

import pytest
from hypothesis import given, strategies as st

from dragoman.tools.when import (
    MAX_CLAUSE_LENGTH,
    MAX_NESTING,
    MAX_REGEX_GROUPS,
    MAX_REGEX_LENGTH,
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
    WhenError,
    evaluate,
    parse,
)

A, B, C = ContextKey("a"), ContextKey("b"), ContextKey("c")


def holds(clause: str, /, **context: object) -> bool:
    return evaluate(parse(clause), context)


# --- Parsing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clause", "expression"),
    [
        ("a", A),
        (" \t\r\n\u00a0a\u00a0", A),
        ("true", Constant(value=True)),
        ("false", Constant(value=False)),
        ("!a", Not(A)),
        ("! a", Not(A)),
        ("!true", Not(Constant(value=True))),
        ("!(a)", Not(A)),
        ("!(!a)", Not(Not(A))),
        ("!(a && b)", Not(And((A, B)))),
        ("((a))", A),
        ("a == x", Equals("a", "x")),
        ("a==x", Equals("a", "x")),
        ("a === x", Equals("a", "x")),
        ("a == 'two words'", Equals("a", "two words")),
        ("a == ''", Equals("a", "")),
        (r"a == '\n \ '", Equals("a", r"\n \ ")),
        ("a == 'say \"x\"'", Equals("a", 'say "x"')),
        ("a == in", Equals("a", "in")),
        ("a != x", Not(Equals("a", "x"))),
        ("a!==x", Not(Equals("a", "x"))),
        ("!(a == x)", Not(Equals("a", "x"))),
        # Without quotes, true and false are no text.
        ("a == true", A),
        ("a == false", Not(A)),
        ("a != true", Not(A)),
        ("a != false", A),
        ("a === true", A),
        ("a == 'true'", Equals("a", "true")),
        ("a != 'false'", Not(Equals("a", "false"))),
        ("a < 1", Compare("a", "<", "1")),
        ("a <= -1", Compare("a", "<=", "-1")),
        ("a > 1.5", Compare("a", ">", "1.5")),
        ("a >='1'", Compare("a", ">=", "1")),
        ("a <1", Compare("a", "<", "1")),
        ("a in b", In("a", "b")),
        ("a in 'b c'", In("a", "b c")),
        ("a not in b", Not(In("a", "b"))),
        ("a not  in b", Not(In("a", "b"))),
        ("a =~ /x/", Matches("a", "x")),
        ("a =~ /x/i", Matches("a", "x", "i")),
        ("a =~ /x/usmi", Matches("a", "x", "imsu")),
        ("a =~ /x/ggy", Matches("a", "x")),
        (r"a =~ /^\/usr\/[/)]+ \\/", Matches("a", r"^\/usr\/[/)]+ \\")),
        ("a =~ //", Matches("a", "")),
        ("a=~/x/&&b", And((Matches("a", "x"), B))),
        # Precedence: `!`, comparison, `&&`, `||`.
        ("a && b && c", And((A, B, C))),
        ("a || b || c", Or((A, B, C))),
        ("a && b || c", Or((And((A, B)), C))),
        ("a || b && c", Or((A, And((B, C))))),
        ("(a || b) && c", And((Or((A, B)), C))),
        ("!a && b == x || c", Or((And((Not(A), Equals("b", "x"))), C))),
        ("a && (b && c)", And((A, And((B, C))))),
        ("a&&b||c", Or((And((A, B)), C))),
    ],
)
def test_parse(clause: str, expression: Expression) -> None:
    assert parse(clause) == expression


@pytest.mark.parametrize(
    "word",
    [
        "config.editor.tabSize",
        "cmake:enableFullFeatureSet",
        "vim.use<C-r>",
        "view-item",
        "a/b",
        "a\\b",
        "a*?+[]^,#@;%$_",
        "größe",
        "日本",
        "5",
        "index",
        "nothing",
        "trueish",
    ],
)
def test_words_are_keys_and_values(word: str) -> None:
    assert parse(word) == ContextKey(word)
    assert parse(f"a == {word} && b") == And((Equals("a", word), B))


# --- Errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clause", "column", "message"),
    [
        ("", 0, "the clause is empty"),
        (" \n", 0, "the clause is empty"),
        ("a = b", 2, "write `==` to compare, or `=~` to match"),
        ("=", 0, "write `==`"),
        ("a<=b", 1, "put a space before this operator"),
        ("a>=b", 1, "put a space before this operator"),
        ("a< 5", 3, "a `<` or `>` that compares needs a space before it"),
        ("a & b", 2, "write `&&`"),
        ("a | b", 2, "write `||`"),
        ("a == 'b", 5, "this quote is never closed"),
        ("a == b'", 6, "this quote is never closed"),
        ("a == 'it's'", 9, "expected `&&` or `||`"),
        ('a == "b"', 5, "text stands in single quotes"),
        ("a =~ /b", 5, "this regular expression is never closed"),
        ("a =~ /[/", 5, "this regular expression is never closed"),
        ("a =~ /b\\/", 5, "this regular expression is never closed"),
        ("a == /usr", 5, "a value that begins with a slash needs quotes"),
        ("a == /usr/", 5, "expected a value after `==`"),
        ("a ~ b", 2, "'~' has no meaning here"),
        ("{a}", 0, "'{' has no meaning here"),
        ("a == \x00", 5, "has no meaning here"),
        ("a &&", 4, "the clause stops too early"),
        ("a || ", 5, "the clause stops too early"),
        ("!", 1, "the clause stops too early"),
        ("(", 1, "the clause stops too early"),
        ("&& a", 0, "expected a key, `true`, `false` or `(` instead of `&&`"),
        ("a && || b", 5, "instead of `||`"),
        ("()", 1, "instead of `)`"),
        ("!!a", 1, "instead of `!`"),
        ("in b", 0, "instead of `in`"),
        ("not a", 0, "instead of `not`"),
        ("'a' == b", 0, "a key is written without quotes"),
        ("/a/", 0, "a regular expression stands on the right of `=~`"),
        ("a == ", 5, "expected a value after `==`"),
        ("a === && b", 6, "expected a value after `===`"),
        ("a <", 3, "expected a value after `<`"),
        ("a in", 4, "expected a value after `in`"),
        ("a not in", 8, "expected a value after `in`"),
        ("a == not", 5, "expected a value after `==`"),
        ("a not b", 6, "expected `in` after `not`"),
        ("a =~ b", 5, "expected a regular expression"),
        ("a =~ '/b/'", 5, "expected a regular expression"),
        ("a =~", 4, "expected a regular expression"),
        ("(a", 0, "nothing closes this `(`"),
        ("b && (a && (c)", 5, "nothing closes this `(`"),
        ("(a b)", 3, "expected `&&` or `||`"),
        ("a)", 1, "nothing opens this `)`"),
        ("(a))", 3, "nothing opens this `)`"),
        ("a b", 2, "expected `&&` or `||`"),
        ("a == two words", 9, "a value with spaces in it needs single quotes"),
        ("a !b", 2, "expected `&&` or `||`"),
        ("a == b == c", 7, "on the left of `==` stands a single key"),
        ("(a) == b", 4, "on the left of `==` stands a single key"),
        ("true == a", 5, "on the left of `==` stands a single key"),
        ("!a == b", 3, "`!` negates a key, not a comparison"),
        ("!a in b", 3, "`!` negates a key, not a comparison"),
    ],
)
def test_error_points_at_the_place_and_says_what_to_write(clause: str, column: int, message: str) -> None:
    with pytest.raises(WhenError) as caught:
        parse(clause)
    assert message in caught.value.message
    assert (caught.value.text, caught.value.column) == (clause, column)


@pytest.mark.parametrize(
    ("literal", "message"),
    [
        ("/(/", "missing ), unterminated subpattern"),
        ("/a{99999999999999999999}/", "the repetition number is too large"),
        ("/*/", "nothing to repeat"),
        (r"/\p{L}/u", r"the escape `\p` is not supported"),
        (r"/\A/", r"the escape `\A` is not supported"),
        (r"/[\Z]/", r"the escape `\Z` is not supported"),
        ("/(?i)a/", "after `(?` comes"),
        ("/(?P<n>a)/", "after `(?` comes"),
        ("/a/x", "the flags are `x`"),
        ("/a/ii", "the flags are `ii`"),
        (f"/{'a' * (MAX_REGEX_LENGTH + 1)}/", f"longer than {MAX_REGEX_LENGTH}"),
        (
            f"/{'(a' * (MAX_REGEX_GROUPS + 1)}{')' * (MAX_REGEX_GROUPS + 1)}/",
            f"more than {MAX_REGEX_GROUPS} groups",
        ),
    ],
)
def test_regular_expression_that_cannot_be_used(literal: str, message: str) -> None:
    with pytest.raises(WhenError, match="this regular expression cannot be used") as caught:
        parse(f"a =~ {literal}")
    assert message in caught.value.message
    assert caught.value.column == 5


def test_error_shows_the_clause_with_a_caret() -> None:
    with pytest.raises(WhenError) as caught:
        parse("debugState\t= 'running'")
    assert str(caught.value).splitlines() == [
        "one `=` is no operator: write `==` to compare, or `=~` to match a regular expression",
        "    debugState = 'running'",
        "               ^",
    ]


def test_error_shows_only_the_surroundings_in_a_long_clause() -> None:
    clause = "a && " * 100 + "= " + "&& a" * 100
    with pytest.raises(WhenError) as caught:
        parse(clause)
    _, line, caret = str(caught.value).splitlines()
    assert len(line) < 140
    assert line[caret.index("^")] == "="
    assert line.startswith("    …")
    assert line.endswith("…")


def test_error_survives_a_pickle() -> None:
    error = WhenError("a =", 2, "why")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own bytes


def test_clause_length_is_bounded() -> None:
    longest = "a" * MAX_CLAUSE_LENGTH
    assert parse(longest) == ContextKey(longest)
    with pytest.raises(WhenError, match=f"longer than {MAX_CLAUSE_LENGTH} characters"):
        parse(longest + "a")


def test_nesting_is_bounded() -> None:
    def nested(depth: int) -> str:
        return "!(" * depth + "a" + ")" * depth

    deepest = parse(nested(MAX_NESTING))
    assert evaluate(deepest, {"a": True})
    assert parse(str(deepest)) == deepest
    with pytest.raises(WhenError, match="write it flatter") as caught:
        parse(nested(MAX_NESTING + 1))
    assert caught.value.column == 2 * MAX_NESTING + 1
    # What counts is how deep, not how many.
    assert parse(" && ".join(["(a)"] * (MAX_NESTING + 1))) == And((A,) * (MAX_NESTING + 1))


# --- The tree --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (A, "a"),
        (Constant(value=True), "true"),
        (Constant(value=False), "false"),
        (Not(A), "!a"),
        (Not(Constant(value=False)), "!false"),
        (Not(Not(A)), "!(!a)"),
        (Not(Equals("a", "x")), "a != 'x'"),
        (Not(Not(Equals("a", "x"))), "!(a != 'x')"),
        (Not(In("a", "b")), "a not in b"),
        (Not(Compare("a", "<", "1")), "!(a < 1)"),
        (Not(Matches("a", "x")), "!(a =~ /x/)"),
        (Not(Or((A, B))), "!(a || b)"),
        (Equals("a", "true"), "a == 'true'"),
        (Compare("a", ">=", "-1"), "a >= -1"),
        (Compare("a", "<", "true"), "a < 'true'"),
        (Compare("a", "<", ""), "a < ''"),
        (In("a", "b"), "a in b"),
        (In("a", "b c"), "a in 'b c'"),
        (Matches("a", r"\/[/]", "im"), r"a =~ /\/[/]/im"),
        (And((A, Or((B, C)))), "a && (b || c)"),
        (And((A, And((B, C)))), "a && (b && c)"),
        (Or((A, And((B, C)))), "a || b && c"),
        (Or((A, Or((B, C)))), "a || (b || c)"),
    ],
)
def test_text_of_an_expression(expression: Expression, text: str) -> None:
    assert str(expression) == text
    assert parse(text) == expression


@pytest.mark.parametrize(
    "build",
    [
        lambda: ContextKey(""),
        lambda: ContextKey("two words"),
        lambda: ContextKey("in"),
        lambda: ContextKey("/a"),
        lambda: ContextKey("<a"),
        lambda: ContextKey("a\n"),
        lambda: Equals("not", "x"),
        lambda: Equals("a", "it's"),
        lambda: Compare("true", "<", "1"),
        lambda: Compare("a", "<", "'"),
        lambda: In("", "b"),
        lambda: In("a", "b'c"),
        lambda: Matches("=", "x"),
        lambda: Matches("a", "/"),
        lambda: Matches("a", "["),
        lambda: Matches("a", "\\"),
        lambda: Matches("a", "x", "mi"),
        lambda: And(()),
        lambda: And((A,)),
        lambda: Or((A,)),
    ],
)
def test_an_expression_that_no_clause_can_express_cannot_be_built(build: Callable[[], Expression]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        build()


def test_expressions_are_values() -> None:
    clause = "a && b == x || c =~ /x/i"
    assert {parse(clause), parse(clause)} == {parse(clause)}
    assert copy.deepcopy(parse(clause)) == parse(clause)


# --- Meaning ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "true"),
    [
        (True, True),
        (False, False),
        (1, True),
        (0, False),
        (0.0, False),
        ("x", True),
        ("", False),
        ("false", True),
        ([], True),
        ((), True),
        ({}, True),
        (None, False),
    ],
)
def test_what_counts_as_true(value: object, true: bool) -> None:  # noqa: FBT001 - a column of the table
    assert holds("a", a=value) is true
    assert holds("!a", a=value) is not true
    assert holds("a == true", a=value) is true
    assert holds("a == false", a=value) is not true


def test_a_missing_key_is_false_and_equals_nothing() -> None:
    assert not holds("a")
    assert holds("!a")
    assert not holds("a == ''")
    assert holds("a != ''")
    assert not holds("a < 1 || a >= 1 || a in b || a =~ /undefined/")


@pytest.mark.parametrize(
    ("value", "literal", "equal"),
    [
        ("x", "x", True),
        ("x", "X", False),
        ("5", "5.0", False),
        (5, "5", True),
        (5, "5.0", True),
        (5, " 5 ", True),
        (5, "5x", False),
        (5.5, "5.5", True),
        (1000, "1e3", True),
        (0, "", True),
        (0, "x", False),
        (True, "true", False),
        (True, "1", True),
        (False, "false", False),
        (False, "0", True),
        (float("inf"), "Infinity", True),
        (["x"], "x", True),
        (("x", "y"), "x,y", True),
        ([], "", True),
        ({}, "", False),
        (None, "", False),
    ],
)
def test_equality_is_loose(value: object, literal: str, equal: bool) -> None:  # noqa: FBT001 - a column of the table
    assert holds(f"a == '{literal}'", a=value) is equal
    assert holds(f"a != '{literal}'", a=value) is not equal


@pytest.mark.parametrize(
    ("value", "literal", "order"),
    [
        (1, "2", "<"),
        (2, "2", "="),
        (3, "2", ">"),
        (1.5, "1.25", ">"),
        ("10", "9", ">"),
        (" 10px", "9", ">"),
        (".5", "+0.5", "="),
        ("-1", "-Infinity", ">"),
        ("1e3", "999", ">"),
        (10**400, "5", ">"),
        (5, "'5 apples'", "="),
        (True, "0", None),
        ("x", "0", None),
        ("", "0", None),
        (5, "x", None),
        (5, "''", None),
        ([], "0", None),
        (None, "0", None),
    ],
)
def test_comparisons_are_about_numbers(value: object, literal: str, order: str | None) -> None:
    true = {
        None: [],
        "<": ["<", "<="],
        "=": ["<=", ">="],
        ">": [">", ">="],
    }[order]
    assert [sign for sign in ("<", "<=", ">", ">=") if holds(f"a {sign} {literal}", a=value)] == true


@pytest.mark.parametrize(
    ("item", "source", "contained"),
    [
        ("x", ["x", "y"], True),
        ("x", ("x",), True),
        ("x", ["y"], False),
        ("x", [], False),
        ("x", {"x": False}, True),
        ("x", {"y": "x"}, False),
        ("x", "xyz", False),
        ("x", None, False),
        (None, ["x"], False),
        (5, ["5"], False),
        (["x"], ["x"], False),
    ],
)
def test_in(item: object, source: object, contained: bool) -> None:  # noqa: FBT001 - a column of the table
    assert holds("a in b", a=item, b=source) is contained
    assert holds("a not in b", a=item, b=source) is not contained


@pytest.mark.parametrize(
    ("literal", "value", "matches"),
    [
        ("/b/", "abc", True),
        ("/^b/", "abc", False),
        ("/B/", "abc", False),
        ("/B/i", "abc", True),
        ("/B/gi", "abc", True),
        ("//", "", True),
        (r"/^\/usr/", "/usr/bin", True),
        ("/^[/]usr/", "/usr/bin", True),
        ("/c$/", "abc", True),
        ("/c$/", "abc\n", False),
        ("/^b$/", "a\nb\nc", False),
        ("/^b$/m", "a\nb\nc", True),
        ("/[$]/", "$", True),
        (r"/\$/", "$", True),
        ("/a.b/", "a\nb", False),
        ("/a.b/", "a\rb", False),
        ("/a.b/s", "a\nb", True),
        ("/a.b/u", "a\u00e9b", True),
        ("/^[.]$/", "x", False),
        (r"/^\w$/", "é", False),
        (r"/^\d$/", "\u0663", False),
        (r"/(?<first>.)\k<first>/", "abb", True),
        (r"/(?<first>.)\k<first>/", "aba", False),
        (r"/(.)\1/", "abb", True),
        ("/(?<=a)b/", "ab", True),
        ("/(?<!a)b/", "ab", False),
        ("/(?:a)(?=b)(?!c)/", "ab", True),
        # Character classes as JavaScript reads them.
        ("/[]/", "x", False),
        ("/[^]/", "\n", True),
        ("/^[^a]$/", "b", True),
        ("/^[a^]$/", "^", True),
        ("/^[-a]$/", "-", True),
        ("/^[a-]$/", "-", True),
        ("/^[--/]$/", ".", True),
        ("/^[+--]$/", ",", True),
        ("/^[a-c--]$/", "-", True),
        (r"/^[\w-.]+$/", "a-.b", True),
        (r"/^[.-\w]+$/", "a-.b", True),
        (r"/^[\w-.]+$/", "a/b", False),
        ("/^[[a]$/", "[", True),
        (r"/^[\]]$/", "]", True),
        ("/^[&&||~~]+$/", "&|~", True),
        # Text only.
        ("/1/", 1, False),
        ("/true/", True, False),
        ("/x/", ["x"], False),
    ],
)
def test_regular_expressions_are_javascripts(literal: str, value: object, matches: bool) -> None:  # noqa: FBT001 - a column
    assert holds(f"a =~ {literal}", a=value) is matches


def test_a_value_too_long_to_search_matches_nothing() -> None:
    assert holds("a =~ /x/", a="x" * MAX_SEARCHED_LENGTH)
    assert not holds("a =~ /x/", a="x" * (MAX_SEARCHED_LENGTH + 1))


@pytest.mark.parametrize("a", [True, False])
@pytest.mark.parametrize("b", [True, False])
@pytest.mark.parametrize("c", [True, False])
def test_operators(a: bool, b: bool, c: bool) -> None:  # noqa: FBT001 - a truth table
    assert holds("a && b && c", a=a, b=b, c=c) is (a and b and c)
    assert holds("a || b || c", a=a, b=b, c=c) is (a or b or c)
    assert holds("a || b && c", a=a, b=b, c=c) is (a or (b and c))
    assert holds("(a || b) && c", a=a, b=b, c=c) is ((a or b) and c)
    assert holds("!a && b || !(b && c)", a=a, b=b, c=c) is ((not a and b) or not (b and c))


def test_constants() -> None:
    assert holds("true")
    assert not holds("false || !true")


# --- Properties ------------------------------------------------------------------------------------------------

_NAMES = st.text(st.sampled_from("abtruefalsinot<>-./\\:*?+[]^,#@;%$_0é日"), min_size=1, max_size=8).filter(
    lambda name: name[0] not in "/<>" and name not in {"true", "false", "in", "not"}
)
_TEXTS = st.text(max_size=8).map(lambda text: text.replace("'", ""))
_SOURCES = st.sampled_from(["", "x", r"\/", "[/]", r"(a|b)*$", r"[^\]/]", " && ", "''", "(?<n>.)"])
_FLAGS = st.sets(st.sampled_from("imsu")).map(lambda flags: "".join(sorted(flags)))


def _trees(leaves: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def grown(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        several = st.lists(children, min_size=2, max_size=3).map(tuple)
        return st.builds(Not, children) | st.builds(And, several) | st.builds(Or, several)

    return st.recursive(leaves, grown, max_leaves=12)


_TREES = _trees(
    st.builds(Constant, st.booleans())
    | st.builds(ContextKey, _NAMES)
    | st.builds(Equals, _NAMES, _TEXTS)
    | st.builds(Compare, _NAMES, st.sampled_from(["<", "<=", ">", ">="]), _TEXTS)
    | st.builds(In, _NAMES, _TEXTS)
    | st.builds(Matches, _NAMES, _SOURCES, _FLAGS)
)
_VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.lists(st.text(max_size=2), max_size=2)
    | st.dictionaries(st.text(max_size=2), st.booleans(), max_size=2)
)


@given(_TREES)
def test_what_is_written_is_read_back(tree: Expression) -> None:
    assert parse(str(tree)) == tree


@given(st.text())
def test_any_text_is_a_clause_or_a_when_error(text: str) -> None:
    _parses_or_says_why(text)


_FRAGMENTS = "a b< true in not ' 'x' \" / /x/ /[/ \\ ( ) ! = == =~ != < <= > & && | || é"


@given(
    st.lists(
        st.sampled_from([*_FRAGMENTS.split(" "), " ", "\n", "\x00", "\ud800"]),
        max_size=20,
    ).map("".join)
)
def test_any_jumble_of_tokens_is_a_clause_or_a_when_error(text: str) -> None:
    _parses_or_says_why(text)


@given(
    st.text(st.sampled_from("abkdwpuxAZ01<>()[]{}?:=!^$.*+-&~|\\/,n\n"), max_size=16),
    st.text("gimsuyx", max_size=3),
)
def test_any_regular_expression_is_used_or_a_when_error(source: str, flags: str) -> None:
    # Warnings are errors here, so this also shows that Python's compiler finds nothing to warn of.
    _parses_or_says_why(f"a =~ /{source}/{flags}")


def _parses_or_says_why(text: str) -> None:
    outcome: Expression | WhenError
    try:
        outcome = parse(text)
    except WhenError as error:
        outcome = error
    if isinstance(outcome, WhenError):
        assert 0 <= outcome.column <= len(text)
        assert outcome.message in str(outcome)
    else:
        assert parse(str(outcome)) == outcome


def _keys(expression: Expression) -> frozenset[str]:
    match expression:
        case Constant():
            return frozenset()
        case ContextKey(name):
            return frozenset({name})
        case Not(operand):
            return _keys(operand)
        case And(operands) | Or(operands):
            return frozenset().union(*map(_keys, operands))
        case In(needle, haystack):
            return frozenset({needle, haystack})
        case _:
            return frozenset({expression.key})


@given(_TREES, st.data())
def test_evaluation_depends_on_the_keys_it_names_and_on_nothing_else(
    tree: Expression, data: st.DataObject
) -> None:
    context = data.draw(st.fixed_dictionaries(dict.fromkeys(sorted(_keys(tree)), _VALUES)))
    others = data.draw(st.dictionaries(_NAMES, _VALUES, max_size=3))
    assert evaluate(tree, {**others, **context}) == evaluate(tree, context)


@given(st.lists(_TREES, min_size=2, max_size=3).map(tuple), st.dictionaries(_NAMES, _VALUES, max_size=4))
def test_de_morgan(operands: tuple[Expression, ...], context: dict[str, object]) -> None:
    negated = tuple(Not(operand) for operand in operands)
    assert evaluate(Not(And(operands)), context) == evaluate(Or(negated), context)
    assert evaluate(Not(Or(operands)), context) == evaluate(And(negated), context)


# A tree together with what a Python programmer would have written instead, over keys of known types.
_Naive: TypeAlias = Callable[[Mapping[str, object]], bool]
_Pair: TypeAlias = tuple[Expression, _Naive]

_CONTEXTS = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "name": st.sampled_from(["", "x", "y", "xyz"]),
        "count": st.integers(-3, 3),
        "names": st.lists(st.sampled_from(["x", "y"]), max_size=2),
        "table": st.dictionaries(st.sampled_from(["x", "y"]), st.booleans(), max_size=2),
    }
)


def _number(context: Mapping[str, object]) -> int:
    count = context["count"]
    assert isinstance(count, int)
    return count


def _text(context: Mapping[str, object]) -> str:
    name = context["name"]
    assert isinstance(name, str)
    return name


def _in(context: Mapping[str, object], key: str) -> bool:
    source = context[key]
    assert isinstance(source, list | dict)
    return _text(context) in source


def _threshold(number: int) -> st.SearchStrategy[_Pair]:
    literal = str(number)
    pairs: list[_Pair] = [
        (Compare("count", "<", literal), lambda context: _number(context) < number),
        (Compare("count", "<=", literal), lambda context: _number(context) <= number),
        (Compare("count", ">", literal), lambda context: _number(context) > number),
        (Compare("count", ">=", literal), lambda context: _number(context) >= number),
        (Equals("count", literal), lambda context: _number(context) == number),
    ]
    return st.sampled_from(pairs)


_LEAVES: list[_Pair] = [
    (Constant(value=True), lambda _: True),
    (Constant(value=False), lambda _: False),
    (ContextKey("flag"), lambda context: bool(context["flag"])),
    (ContextKey("name"), lambda context: _text(context) != ""),
    (ContextKey("count"), lambda context: _number(context) != 0),
    (ContextKey("missing"), lambda _: False),
    (Equals("name", "x"), lambda context: _text(context) == "x"),
    (Matches("name", "^x"), lambda context: _text(context).startswith("x")),
    (Matches("name", "Z$", "i"), lambda context: _text(context).endswith("z")),
    (In("name", "names"), lambda context: _in(context, "names")),
    (In("name", "table"), lambda context: _in(context, "table")),
]


def _grown(children: st.SearchStrategy[_Pair]) -> st.SearchStrategy[_Pair]:
    def negated(pair: _Pair) -> _Pair:
        return Not(pair[0]), lambda context: not pair[1](context)

    def joined(pairs: list[_Pair]) -> _Pair:
        return And(tuple(pair[0] for pair in pairs)), lambda context: all(pair[1](context) for pair in pairs)

    def chosen(pairs: list[_Pair]) -> _Pair:
        return Or(tuple(pair[0] for pair in pairs)), lambda context: any(pair[1](context) for pair in pairs)

    several = st.lists(children, min_size=2, max_size=3)
    return children.map(negated) | several.map(joined) | several.map(chosen)


@given(
    st.recursive(st.sampled_from(_LEAVES) | st.integers(-3, 3).flatmap(_threshold), _grown, max_leaves=12),
    _CONTEXTS,
)
def test_evaluation_agrees_with_plain_python(pair: _Pair, context: dict[str, object]) -> None:
    tree, naive = pair
    assert evaluate(tree, context) == naive(context)
    assert evaluate(parse(str(tree)), context) == naive(context)
