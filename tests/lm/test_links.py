"""Links that act are made inert; everything else passes as it came."""

import re
from collections.abc import Iterable
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, strategies as st

from dragoman.lm.links import InertLinks, _next
from lm.rendering import hostile_text, hrefs

_PIECES = [
    *"abcdmno:/\\_<>()[]!&;#@\"' \t\n\r-.x0",
    "command:",
    "COMMAND:",
    "c&#111;mmand:",
    "&colon;",
    "&#58;",
    "&#x3a;",
    "&#58",
    "&Tab;",
    "&NewLine;",
    "\\:",
    "\\_",
    "http://_",
    "https://",
    "http:",
    "//_x",
    "&lowbar;",
    "&sol;&sol;",
    "](",
    "]( <",
    "]:",
    "]:\n> ",
    "[a](",
    "\n[a]: ",
    "\n\n[a]",
    "> ",
    "<command",
    "mmand:",
    "user@_host",
]
link_text = st.one_of(st.lists(st.sampled_from(_PIECES), max_size=16).map("".join), hostile_text)


def _filtered(pieces: Iterable[str]) -> str:
    links = InertLinks()
    return "".join(links.feed(piece) for piece in pieces)


def _acts(href: str) -> bool:
    plain = re.sub(r"[\x00-\x20]", "", href).lower()
    if plain.startswith("command:"):
        return True
    try:
        return (urlsplit(plain).hostname or "").startswith("_")
    except ValueError:
        # No browser opens what is not an address at all.
        return False


@given(link_text, st.data())
def test_s13_pieces_give_the_same_as_the_whole(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    edges = [0, *cuts, len(text)]
    pieces = [text[start:stop] for start, stop in pairwise(edges)]
    assert _filtered(pieces) == _filtered([text]) == _filtered(text)


@given(link_text)
@example("[a](command:x)")
@example("> [a](\n> command:x)")
@example("> [a]:\n> command:x\n\n[a]\n")
@example("[a](\\&#99;ommand:x)")
def test_s13_no_rendered_link_acts(text: str) -> None:
    assert not [href for href in hrefs(_filtered([text])) if _acts(href)]


@given(link_text)
def test_s13_only_breaks_are_added(text: str) -> None:
    """Nothing is lost, changed or held back; without a break it is the same object."""
    out = _filtered([text])
    if "-inert" not in text:
        assert out.replace("-inert", "") == text
    links = InertLinks()
    fed = links.feed(text)
    assert fed is text or "-inert" in fed


_HOSTILE = [
    "[a](command:x)",
    "[a](COMMAND:x)",
    "[a]( command:x)",
    "[a](\ncommand:x)",
    "[a](<command:x>)",
    "[a]( <command:x> )",
    "![a](command:x)",
    "<command:x>",
    "<CoMmAnD:x>",
    "[a]: command:x\n\n[a]",
    "[a]: <command:x>\n\n[a]",
    "[a]:\ncommand:x\n\n[a]",
    "> [a]:\n> command:x\n\n[a]",
    "> [a](\n> command:x)",
    "> > [a](\n> > <command:x>)",
    "- [a](\n  command:x)",
    "[a](c&#111;mmand:x)",
    "[a](&#x63;&#x6F;&#x6d;mand:x)",
    "[a](command&colon;x)",
    "[a](command&#58;x)",
    "[a](command&#x3a;x)",
    "[a](command&#0000058;x)",
    "[a](command\\:x)",
    "[a](<command\\:x>)",
    "[a](command:x 'title')",
    "[a](command:)",
    "[a](http://_vscodecontentref_/1)",
    "[a](HTTP://_vscodecontentref_/1)",
    "[a](https://_chatagent_)",
    "[a](//_vscodedecoration_)",
    "[a](http://&lowbar;vscodecontentref_/1)",
    "[a](http\\://\\_vscodecontentref_/1)",
    "[a](&sol;&sol;_x)",
    "[a](http://user@_vscodecontentref_/1)",
    "[a](http://user:word@_vscodecontentref_/1)",
    "<http://_vscodecontentref_/1>",
    "[a]: //_x\n\n[a]",
    "[![a](x)](command:x)",
    "[b](http://a [a](command:x)",
]


@pytest.mark.parametrize("text", _HOSTILE)
def test_s13_a_link_that_acts_is_broken(text: str) -> None:
    assert any(map(_acts, hrefs(text))), "the renderer makes no link of this: it proves nothing"
    assert not any(map(_acts, hrefs(_filtered([text]))))
    assert not any(map(_acts, hrefs(_filtered(text)))), "one character at a time"


# Not links to the parser in the tests, but to a browser that gets the destination as it is written.
@pytest.mark.parametrize(
    "text",
    [
        "[a](command&#58x)",
        "[a](command\\&colon;x)",
        "[a](\\&#99;ommand:x)",
        f"[a](command&#{'0' * 60}58;x)",
        "[a](<com\tmand:x>)",
        "[a](comm&Tab;and:x)",
        "[a](&#1;command:x)",
        "[a](http:/_vscodecontentref_)",
        "[a](http:\\\\_vscodecontentref_)",
        "[a](http:////_vscodecontentref_)",
        "[a](http:_vscodecontentref_)",
        "[a](/\\\\_vscodecontentref_)",
    ],
)
def test_s13_a_link_that_acts_in_a_browser_is_broken(text: str) -> None:
    assert _filtered([text]) == _filtered(text) != text


def test_s13_a_broken_link_says_so() -> None:
    assert _filtered(["[run](command:workbench.action.quit) me"]) == (
        "[run](command-inert:workbench.action.quit) me"
    )
    assert _filtered(["[ref](http://_vscodecontentref_/1)"]) == "[ref](http://-inert_vscodecontentref_/1)"
    assert _filtered(["<command:a> and <command:b>"]) == "<command-inert:a> and <command-inert:b>"


def test_s13_a_destination_that_hides_its_scheme_is_broken() -> None:
    hidden = f"[a]({' ' * 300}command:x)"
    assert any(map(_acts, hrefs(hidden)))
    out = _filtered([hidden])
    assert out == _filtered(hidden)
    assert not hrefs(out)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain text, no brackets: command:x and http://_x",
        "`command:` is a scheme of the editor's",
        "[docs](https://docs.test/command:x)",
        "[docs](https://docs.test/_x)",
        "[docs](commands.md) [more](commander:x) [x](command)",
        "[home](/_internal/x) [up](../_x) [here](#_x)",
        "[host](http://a_b.test/) [user](http://u@h.test)",
        "a[i](j) < b && c <= d; vector<http> x; cout << command;",
        "<https://docs.test/> and <me@docs.test>",
        "[note]: see below\n\n[note]",
        "array[0]: value\n\ncommand:x",
        "dict[key](\n\ncommand:x)",
        f"[long](http://{'a' * 300}.test/)",
        "[a](&copy;command:x) [b](&#580;x) [c](c&#580;mmand:x)",
        "](",
        "]",
        "<",
        "[x](http",
        "[x](command&",
    ],
)
def test_s13_harmless_text_is_unchanged(text: str) -> None:
    links = InertLinks()
    assert links.feed(text) is text
    assert _filtered(text) == text


@given(st.text(alphabet=st.characters(exclude_characters="]<")))
def test_s13_text_without_brackets_is_unchanged(text: str) -> None:
    assert InertLinks().feed(text) is text


def test_s13_a_stream_of_openers_stays_bounded() -> None:
    """What is remembered does not grow with the stream."""
    links = InertLinks()
    for piece in ["](", "<http:", "]:", " ", "](//", "<", "]", "a@"] * 500:
        links.feed(piece)
        assert sum(length for _, length in links._undecided) < 4_096


_WORST = [
    "<&‹&",
    "<&",
    "](<",
    "](&",
    "<\\",
    "<&CounterClockwiseContourIntegra",
    "<http://&amp;" + "&a;" * 30,
    "<https://" + "a" * 240,
    "](" + " " * 250,
    "<" + "&Tab;" * 50,
    "](<&#x" + "0" * 240,
    "](<http:" + "\\" * 240,
]


@pytest.mark.parametrize("pattern", _WORST)
def test_each_character_is_looked_at_once_for_each_destination_under_way(pattern: str) -> None:
    """A few destinations are under way at a time, and none is read again from its beginning."""

    def steps(length: int) -> int:
        _next.cache_clear()
        InertLinks().feed((pattern * length)[:length])
        counted = _next.cache_info()
        # What had to be worked out is the same however long the text is.
        assert counted.misses <= 4 * (len(pattern) + 300)
        return counted.hits + counted.misses

    few, many = steps(4_000), steps(16_000)
    assert few <= 4 * 4_000
    assert many <= 4 * few + 1_000
