"""The line of every key, also where a scan for `key =` would be fooled."""

import tomllib
from collections.abc import Iterator

import pytest
from hypothesis import given, settings, strategies as st

from dragoman.config.positions import KeyPath, positions

_DOCUMENT = '''\
# [not.a.table]
top = 1

[models.demo]   # a comment = here
kind = "acp"  # kind = "script"
command = [
    "dragoman",   # first
    'demo-agent',
]
env = { A = "x", "B.C" = "= }" , D.e = 1 }
text = """
kind = "not a key"
[neither.a.table]
""\\""" ""
"""
raw = \'\'\'
it''s = 1
\'\'\'\'

["quoted \\u00e9".'x y' . bare]
deep.er.key = [[1, 2], [
  3]]
when = 1979-05-27 07:32:00Z

[[list]]
name = "a"
[[list]]
name = "b"
[list.inner]
x = -inf
[[list.inner.rows]]
[ list.inner.rows.deep ]
y = {}
'''

_LINES: dict[KeyPath, int] = {
    (): 1,
    ("top",): 2,
    ("models",): 4,
    ("models", "demo"): 4,
    ("models", "demo", "kind"): 5,
    ("models", "demo", "command"): 6,
    ("models", "demo", "command", 0): 7,
    ("models", "demo", "command", 1): 8,
    ("models", "demo", "env"): 10,
    ("models", "demo", "env", "A"): 10,
    ("models", "demo", "env", "B.C"): 10,
    ("models", "demo", "env", "D"): 10,
    ("models", "demo", "env", "D", "e"): 10,
    ("models", "demo", "text"): 11,
    ("models", "demo", "raw"): 16,
    ("quoted é",): 20,
    ("quoted é", "x y"): 20,
    ("quoted é", "x y", "bare"): 20,
    ("quoted é", "x y", "bare", "deep"): 21,
    ("quoted é", "x y", "bare", "deep", "er"): 21,
    ("quoted é", "x y", "bare", "deep", "er", "key"): 21,
    ("quoted é", "x y", "bare", "deep", "er", "key", 0): 21,
    ("quoted é", "x y", "bare", "deep", "er", "key", 0, 0): 21,
    ("quoted é", "x y", "bare", "deep", "er", "key", 0, 1): 21,
    ("quoted é", "x y", "bare", "deep", "er", "key", 1): 21,
    ("quoted é", "x y", "bare", "deep", "er", "key", 1, 0): 22,
    ("quoted é", "x y", "bare", "when"): 23,
    ("list",): 25,
    ("list", 0): 25,
    ("list", 0, "name"): 26,
    ("list", 1): 27,
    ("list", 1, "name"): 28,
    ("list", 1, "inner"): 29,
    ("list", 1, "inner", "x"): 30,
    ("list", 1, "inner", "rows"): 31,
    ("list", 1, "inner", "rows", 0): 31,
    ("list", 1, "inner", "rows", 0, "deep"): 32,
    ("list", 1, "inner", "rows", 0, "deep", "y"): 33,
}


def _paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _paths(inner, (*path, number))


def test_every_kind_of_key_in_one_document() -> None:
    assert positions(_DOCUMENT) == _LINES
    assert set(_paths(tomllib.loads(_DOCUMENT))) == set(_LINES)


def test_windows_line_ends_count_once() -> None:
    assert positions(_DOCUMENT.replace("\n", "\r\n")) == _LINES


def test_a_table_stands_at_its_own_header_not_at_that_of_one_inside_it() -> None:
    found = positions("[a.b]\n[c]\n[a]\nx = 1\n")
    assert found["a",] == 3
    assert found["a", "b"] == 1


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ('""', 1),
        ("''", 1),
        ('""""""', 1),
        ("''''''", 1),
        (r'"\\"', 1),
        (r'"a\"b = 1"', 1),
        ('"""a""""', 1),
        ('"""a"""""', 1),
        ('"""\nb = 1\n"""', 3),
        ('"""\\\n  b = 1"""', 2),
        ("'''\n'b' = 1'''''", 2),
        ("[]", 1),
        ("[ # b = 1 ]\n]", 2),
        ('[ "]", \'[\', "}" ]', 1),
        ("{ b = [ { c = 1 }, { c = '}' } ] }", 1),
        ("0xdead_beef", 1),
        ("07:32:00", 1),
    ],
)
def test_what_follows_a_value_is_found(value: str, lines: int) -> None:
    document = f"a = {value}\nz = 1\n"
    tomllib.loads(document)
    assert positions(document)["z",] == lines + 1


def test_what_is_no_document_ends_and_does_not_hang() -> None:
    for broken in ("a = ", "a = [", "a = [1", "a = {", "[", "=", "a = ]"):
        with pytest.raises(ValueError, match=r"no valid TOML|unpack|Invalid"):
            positions(broken)


# --- Documents made up of everything, whose lines are known because they were counted while they were written. -------

_names = st.text("abcXYZ019_-", min_size=1, max_size=4) | st.sampled_from(
    ["key = 1", "a.b", "[x]", "#no", "é", "", "'", "\t"]
)
# Traps: lines that look like keys and tables, inside strings and comments.
_traps = st.sampled_from(["b = 1", "[t]", "[[t]]", "# c", "'''x = 2"])
_scalars = st.sampled_from(
    ["1", "-0.5", "true", "nan", '"s"', "'[a]'", '"k = \\"1"', "1979-05-27", "[1, 2]", "{}"]
)


def _written(name: str) -> str:
    if name.replace("_", "").replace("-", "").isalnum() and name.isascii():
        return name
    return "'" + name + "'" if "'" not in name and "\t" not in name else f'"{name}"'


@st.composite
def _values(draw: st.DrawFn) -> str:
    match draw(st.sampled_from(["scalar", "string", "array", "inline"])):
        case "string":
            return '"""\n' + "\n".join(draw(st.lists(_traps, max_size=3))) + '"""'
        case "array":
            items = draw(st.lists(_scalars, max_size=3))
            return "[" + "".join(f"\n  {item}, # x = [" for item in items) + "\n]"
        case "inline":
            pairs = dict(draw(st.lists(st.tuples(_names, _scalars), max_size=3)))
            return "{ " + ", ".join(f"{_written(key)} = {value}" for key, value in pairs.items()) + " }"
        case _:
            return draw(_scalars)


@st.composite
def _documents(draw: st.DrawFn) -> tuple[str, dict[KeyPath, int]]:
    text = ""
    lines: dict[KeyPath, int] = {}
    lengths: dict[str, int] = {}
    names = draw(st.lists(_names, unique=True, max_size=4))
    for name in names:
        is_array = draw(st.booleans())
        for _ in range(draw(st.integers(1, 3)) if is_array else 1):
            text += draw(st.sampled_from(["", "\n", "# b = 1\n"]))
            path: KeyPath = (name,)
            lines.setdefault(path, text.count("\n") + 1)
            if is_array:
                path = (name, lengths.get(name, 0))
                lengths[name] = lengths.get(name, 0) + 1
                lines[path] = text.count("\n") + 1
            text += f"[[ {_written(name)} ]]\n" if is_array else f"[{_written(name)}]\n"
            for key in draw(st.lists(_names, unique=True, max_size=3)):
                inner = draw(st.lists(_names, max_size=2))
                line = text.count("\n") + 1
                written = [key, *inner]
                for depth in range(1, len(written) + 1):
                    lines[(*path, *written[:depth])] = line
                text += f"{' . '.join(map(_written, written))} = {draw(_values())}\n"
    return text, lines


@settings(deadline=None)
@given(_documents())
def test_the_lines_of_documents_that_were_counted_while_they_were_written(
    document: tuple[str, dict[KeyPath, int]],
) -> None:
    text, lines = document
    value = tomllib.loads(text)
    found = positions(text)
    assert {path: found.get(path) for path in lines} == lines
    # Nothing else is found than what is there, and all of that.
    assert set(found) == set(_paths(value))
