"""What Markdown looks like in a terminal."""

import io
import re

import pytest
from hypothesis import given, settings, strategies as st
from rich.console import Console

from dragoman.frontends.terminal.blocks import Blocks, Code
from dragoman.frontends.terminal.layout import column
from dragoman.frontends.terminal.markdown import render
from dragoman.frontends.terminal.screen import Screen
from searching import examples


def shown(markdown: str, width: int = 60) -> str:
    screen = Screen(Console(file=io.StringIO(), width=width), live=False)
    blocks = Blocks()
    for index, block in enumerate([*blocks.feed(markdown), *blocks.close()]):
        if index and block.gap:
            screen.print()
        screen.print(column(render(block)))
    output = screen.console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def styled(markdown: str) -> str:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="standard")
    [block] = Blocks().feed(markdown)
    with console.capture() as captured:
        console.print(render(block))
    return captured.get()


def test_emphasis_is_shown_by_style_and_not_by_stars() -> None:
    text = styled("a *b* **c** ~~d~~ `e`\n\n")
    assert text == "a \x1b[3mb\x1b[0m \x1b[1mc\x1b[0m \x1b[9md\x1b[0m \x1b[36me\x1b[0m\n"


def test_lists_hang_and_nest() -> None:
    assert shown("- one that is longer than the line\n- two\n  1. inner\n", 24) == (
        "  • one that is longer\n    than the line\n  • two\n    1. inner\n"
    )


def test_a_loose_list_has_room() -> None:
    assert shown("1. one\n\n   more\n\n2. two\n") == "  1. one\n\n     more\n\n  2. two\n"


def test_the_address_of_a_link_is_seen() -> None:
    assert shown("[your bank](http://evil.test)") == "  your bank (http://evil.test)\n"
    assert shown("<http://plain.test>") == "  http://plain.test\n"


def test_images_html_and_references_are_seen() -> None:
    assert shown("![a cat](cat.png) <script>x</script> [r]") == "  ▣ a cat (cat.png) <script>x</script> [r]\n"


def test_code_is_whole_in_the_narrowest_terminal() -> None:
    code = "def function(first, second):\n    return first + second"
    drawn = shown(f"```python\n{code}\n```", 16)
    assert "".join(drawn.replace("↪", "").split()) == "".join(code.split())


def test_the_rest_of_a_long_line_of_code_cannot_pass_for_a_line() -> None:
    drawn = shown("```diff\n+one two three four five six\n-seven\n```", 22)
    assert drawn.splitlines() == ["    +one two three", "    ↪ four five six", "    -seven"]
    wide = shown("```diff\n+日本語日本語日本語日本語\n```", 20)
    assert wide.splitlines() == ["    +日本語日本語", "    ↪ 日本語日本語"]


@pytest.mark.parametrize("language", ["python", "diff", "json", "sh", "html"])
def test_code_has_no_colour_that_cannot_be_read_on_white_or_on_black(language: str) -> None:
    code = "@x\nclass A(B): # c\n    def f(self): return None if 1.5 else 'text'\n+a\n-b\n@@ -1 +1 @@\n<p a='b'>$x</p>"
    output = io.StringIO()
    console = Console(file=output, width=80, force_terminal=True, color_system="standard")
    console.print(render(Code(tuple(code.split("\n")), language)))
    used = {
        number for codes in re.findall(r"\x1b\[([0-9;]*)m", output.getvalue()) for number in codes.split(";")
    }
    yellow, blue, white, bright = "33", "34", "37", {str(number) for number in range(90, 98)}
    assert not used & {yellow, blue, white, *bright}
    assert used & {"31", "32", "35", "36"}


def test_code_is_coloured_in_the_light_of_the_lines_before() -> None:
    inside = Code(("still text",), "python", ('"""begins',))
    outside = Code(("still text",), "python")
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="standard")
    with console.capture() as first:
        console.print(render(inside))
    with console.capture() as second:
        console.print(render(outside))
    assert first.get() != second.get()


def test_a_diff_is_coloured_as_one() -> None:
    [code] = Blocks().feed("```diff\n-old\n+new\n```\n")
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="standard")
    with console.capture() as captured:
        console.print(render(code))
    removed, added = captured.get().splitlines()
    assert re.search(r"\x1b\[[39]1[;m]", removed), "red"
    assert re.search(r"\x1b\[[39]2[;m]", added), "green"


def test_a_table_is_one() -> None:
    assert shown("| a | b |\n|---|--:|\n| long cell | 1 |\n") == (
        "  a           b\n  ─────────────\n  long cell   1\n"
    )


def test_quotes_and_rules() -> None:
    assert shown("> said\n> - point\n\n---\n", 20) == f"  ▌ said\n  ▌\n  ▌ • point\n\n  {'─' * 18}\n"


@pytest.mark.parametrize("entity", ["&#27;[2J", "&#x9b;2J", "&#x202e;", "&#0;"])
def test_entities_do_not_act(entity: str) -> None:
    drawn = shown(f"text {entity} text")
    assert not {"\x1b", "\x9b", "\u202e", "\x00"} & set(drawn)


@settings(max_examples=examples(200))
@given(st.text(), st.integers(4, 60))
def test_any_text_can_be_shown_in_any_width(text: str, width: int) -> None:
    drawn = shown(text, width)
    assert all(line.startswith("  ") or not line for line in drawn.split("\n"))


_MARKUP = st.text(st.sampled_from('*_`[]()!<>#-+|~\n\t 1.\\"&;:='), max_size=12)


@settings(max_examples=examples(300))
@given(st.lists(_MARKUP, max_size=20))
def test_any_markup_can_be_shown_and_hides_no_word(markup: list[str]) -> None:
    text = "".join(f"{piece}W{number}E" for number, piece in enumerate(markup))
    drawn = "".join(shown(text, 200).split())
    languages = re.findall(r"^.*(?:```|~~~).*$", text, re.MULTILINE)
    for number in range(len(markup)):
        assert f"W{number}E" in drawn or any(f"W{number}E" in line for line in languages)


@pytest.mark.parametrize("depth", [9, 12, 20, 40, 200])
@pytest.mark.parametrize("mark", ["> ", "- ", "1. ", "> - ", "* > "])
def test_nothing_is_too_deep_to_be_seen(mark: str, depth: int) -> None:
    drawn = shown(f"{mark * depth}WORD\n\nafter\n", 40)
    assert "WORD" in "".join(part.strip("▌•◦▪ ") for part in drawn.split())
    assert drawn.endswith("  after\n")


def test_emphasis_is_never_too_deep_to_be_seen() -> None:
    assert "WORD" in shown("*a **b " * 300 + "WORD" + "** *" * 300)
    assert "WORD" in shown("*a **b " * 300 + "WORD" + "c** d*" * 300)


def test_nested_bullets_are_all_there() -> None:
    drawn = shown("".join(f"{'  ' * depth}- L{depth}E\n" for depth in range(40)) + "\nafter\n", 200)
    assert all(f"L{depth}E" in drawn for depth in range(40))
    assert drawn.endswith("  after\n")


def test_cells_beyond_the_last_column_are_seen() -> None:
    drawn = shown("| a | b |\n|---|---|\n| 1 | 2 | three | four |\n5 | 6 | 7\n")
    assert "2 | three | four" in drawn
    assert "6 | 7" in drawn


def test_the_title_of_a_link_is_seen() -> None:
    assert shown("[a](/b \"said\") ![c](d 'shown')") == '  a (/b "said") ▣ c (d "shown")\n'
