"""One word of a command line: what bash, dash and zsh make of it, or nothing."""

from __future__ import annotations

import re

import pytest

from dragoman.policy.words import NotUnderstood, Word, read_word

READ = [
    ("git", Word("git")),
    ("--format=%h", Word("--format=%h")),
    ("HEAD~1", Word("HEAD~1")),
    ("HEAD^", Word("HEAD^")),
    ("@{u}", Word("@{u}")),
    ("@{u}..HEAD", Word("@{u}..HEAD")),
    ("{}", Word("{}")),
    ("a#b", Word("a#b")),
    ("Grüße", Word("Grüße")),
    ("'à'", Word("à")),
    ("r'm'", Word("rm")),
    (r"\rm", Word("rm")),
    ('"r"m', Word("rm")),
    (r"a\ b", Word("a b")),
    ("'a b'", Word("a b")),
    ("'$x `y` !z'", Word("$x `y` !z")),
    (r'"a \"b\" \$x \\ \n"', Word(r'a "b" $x \ \n')),
    ('"costs 5$"', Word("costs 5$")),
    ('"a\nb\tc"', Word("a\nb\tc")),
    ("''", Word("")),
    ("done!", Word("done!")),
    ("!=", Word("!=")),
    ('"wait! now"', Word("wait! now")),
    # Names of files stand in their place.
    ("src/*.py", Word("src/*.py", "glob")),
    ("[ab]?", Word("[ab]?", "glob")),
    ("'*'", Word("*")),
    (r"\*", Word("*")),
    # The home.
    ("~", Word("~", "home")),
    ("~/x", Word("~/x", "home")),
    ("'~'/x", Word("~/x")),
    ('""~/x', Word("~/x", "unknown")),
    ("''=ls", Word("=ls", "unknown")),
    ("a=''~", Word("a=~", "unknown")),
    # The shells compute these, or do not agree on them.
    ("~user", Word("~user", "unknown")),
    ("~+", Word("~+", "unknown")),
    ("~/*", Word("~/*", "unknown")),
    ("a=~/x", Word("a=~/x", "unknown")),
    ("a:~/x", Word("a:~/x", "unknown")),
    ("{a,b}", Word("{a,b}", "unknown")),
    ("{1..3}", Word("{1..3}", "unknown")),
    ("{a{b},c}", Word("{a{b},c}", "unknown")),
    ("=ls", Word("=ls", "unknown")),
    ("{a','b}", Word("{a,b}")),
]

NOT_UNDERSTOOD = [
    ("$x", "'$'"),
    ("$'rm'", "'$'"),
    ('"$x"', "dollar"),
    ('"a`b`"', "backquote"),
    ("a;b", "';'"),
    ("a b", "' '"),
    ("a\u00a0b", "U+00A0"),
    ("aàb", "'à'"),
    ("a\rb", "U+000D"),
    ("a\x1bb", "U+001B"),
    ("'a\x1bb'", "U+001B"),
    ('"a\u202eb"', "U+202E"),
    ("a\\", "backslash at the end"),
    ("a\\\nb", "backslash before U+000A"),
    ('"a\\\nb"', "goes on inside quotes"),
    ("'a", "quote without"),
    ('"a', "quote without"),
    ('"a\\', "quote without"),
    # In fish the quote would go on behind the backslash.
    (r"'a\'", "backslash before a single quote"),
    ("!x", "exclamation mark"),
    ('"!x"', "exclamation mark"),
    ('"x!"', "exclamation mark"),
]


@pytest.mark.parametrize(("text", "word"), READ, ids=[text for text, _ in READ])
def test_a_word_is_read_as_every_shell_reads_it(text: str, word: Word) -> None:
    assert read_word(text) == word


@pytest.mark.parametrize(("text", "why"), NOT_UNDERSTOOD, ids=[ascii(text) for text, _ in NOT_UNDERSTOOD])
def test_what_the_shells_do_not_agree_on_is_not_understood(text: str, why: str) -> None:
    with pytest.raises(NotUnderstood, match=re.escape(why)):
        read_word(text)
