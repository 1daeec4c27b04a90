"""The gate bites: each complaint about a manifest is made, on small made-up ones, and the reading is right."""

from pathlib import Path
from textwrap import dedent

import pytest

from documents import Item, heading_anchors, items_of, read_documents, scenario_ids
from manifest import (
    Milestone,
    Scenario,
    Scenarios,
    SpecificationItem,
    differences,
    hollow_claims,
    misfiled_tests,
    missing_facts,
    missing_pages,
    named_tests,
    unfit_pending,
    unfit_statuses,
    unfounded_claims,
    unlabelled_scenarios,
    unsettled_scenarios,
    untested_items,
    unusable_tests,
    with_named_tests,
)
from written_tests import WrittenTest, find_node_tests, find_tests, find_tests_below, ids_in_name

MILESTONES = {
    "now": Milestone("open", "in work"),
    "later": Milestone("planned", "to come"),
    "past": Milestone("done", "finished"),
}


def a_book(**scenarios: Scenario) -> Scenarios:
    return Scenarios(MILESTONES, scenarios)


def an_item(
    *, tested: tuple[str, ...] | None = None, want: str | None = None, corrected: str | None = None,
    informational: str | None = None, pending: str | None = None, gist: str = "What it says.",
) -> SpecificationItem:  # fmt: skip
    return SpecificationItem("0123456789", gist, tested, want, corrected, informational, pending)


class TestComplaintsAboutScenarios:
    def test_neither_tested_nor_pending(self) -> None:
        book = a_book(
            S1=Scenario("lost"), S2=Scenario("waits", pending="now"), S3=Scenario("has", tests=("a::b",))
        )
        assert unsettled_scenarios(book) == ["S1 has no tests and waits for no milestone"]

    def test_waits_for_what_is_no_milestone_or_done(self) -> None:
        book = a_book(S1=Scenario("a", pending="nowhere"), S2=Scenario("b", pending="past"))
        complaints = unfit_pending(book, {"004/1": an_item(pending="past"), "004/2": an_item(pending="now")})
        assert complaints == [
            "S1 waits for 'nowhere', which is no milestone",
            "S2 waits for 'past', which is done",
            "004/1 waits for 'past', which is done",
        ]

    def test_names_a_test_that_is_missing_or_never_runs(self) -> None:
        written = {
            "t.py::test_on": WrittenTest("t.py::test_on"),
            "t.py::test_off": WrittenTest("t.py::test_off", "skip"),
        }
        names = [("S1", "t.py::test_on"), ("S1", "t.py::test_off"), ("S2", "t.py::test_gone")]
        assert unusable_tests(names, written) == [
            "S1 names a test that never counts (skip): t.py::test_off",
            "S2 names a test that does not exist: t.py::test_gone",
        ]

    def test_no_test_bears_its_id(self) -> None:
        book = a_book(
            S1=Scenario("a", tests=("t.py::test_s13_safe", "t.py::test_order")),
            S2=Scenario("b", tests=("t.py::test_order", "t.py::test_s2_whole")),
        )
        assert unlabelled_scenarios(book) == ["S1 has no test named after it"]

    def test_a_test_that_bears_an_id_is_one_of_its_tests(self) -> None:
        book = a_book(S1=Scenario("a", also=("t.py::test_order",)), S2=Scenario("b", pending="now"))
        written = ["t.py::test_s1_a", "t.py::test_s1_s2_b", "t.py::TestS1All::test_c", "t.py::test_order"]
        found = with_named_tests(book, written).scenarios
        assert found["S1"].tests == (
            "t.py::test_s1_a",
            "t.py::test_s1_s2_b",
            "t.py::TestS1All::test_c",
            "t.py::test_order",
        )
        assert found["S2"].tests == ("t.py::test_s1_s2_b",)

    def test_a_test_is_listed_although_its_name_says_it_and_another_has_no_scenario(self) -> None:
        book = a_book(S1=Scenario("a", also=("t.py::test_s1_a", "t.py::test_order")))
        written = ["t.py::test_s1_a", "t.py::test_s9_d", "t.py::test_z1_of_another_list"]
        assert misfiled_tests(book, written) == [
            "S1 need not name t.py::test_s1_a, which bears its id",
            "t.py::test_s9_d is named after S9, which is no scenario",
        ]


class TestComplaintsAboutTheSpecification:
    def test_the_documents_say_something_else(self) -> None:
        same, changed, gone = (Item(f"000/{name}", name) for name in ("same", "changed", "gone"))
        entries = {
            same.id: SpecificationItem(same.digest, "as it was"),
            changed.id: SpecificationItem("0123456789", "as it was once"),
            "000/ours": an_item(),
        }
        assert differences(entries, {item.id: item for item in (same, changed, gone)}) == [
            f"not in the manifest: 000/gone (digest {gone.digest})",
            "not in the documents: 000/ours",
            f"changed: 000/changed (digest {changed.digest}, not 0123456789)",
        ]

    @pytest.mark.parametrize(
        ("item", "fault"),
        [
            (an_item(), "has no status"),
            (an_item(informational="docs/a.md", pending="now"), "informational and something else"),
            (an_item(tested=("S1",), want="tests/lm/"), "wants a test"),
            (an_item(pending="now", want="tests/lm/"), "wants a test"),
            (an_item(corrected="because we say so"), "corrected by no fact"),
            (an_item(pending="now", gist="two\nlines"), "a gist of one line"),
        ],
    )
    def test_unfit_status(self, item: SpecificationItem, fault: str) -> None:
        [complaint] = unfit_statuses({"000/a": item})
        assert fault in complaint

    @pytest.mark.parametrize(
        "item",
        [
            an_item(tested=("S1",)),
            an_item(tested=(), want="tests/lm/"),
            an_item(tested=("S1",), pending="now"),
            an_item(corrected="facts/vscode.md: it is otherwise", tested=("S1",)),
            an_item(informational="docs/a.md"),
        ],
    )
    def test_fit_status(self, item: SpecificationItem) -> None:
        assert unfit_statuses({"000/a": item}) == []

    def test_a_test_is_still_wanted(self) -> None:
        entries = {"000/a": an_item(tested=(), want="tests/lm/"), "000/b": an_item(tested=("S1",))}
        assert untested_items(entries) == ["000/a (tests/lm/): What it says."]

    def test_a_claim_without_foundation(self) -> None:
        book = a_book(
            S1=Scenario("has tests", tests=("t.py::test_s1",)),
            S2=Scenario("in work", pending="now"),
            S3=Scenario("to come", pending="later"),
        )
        entries = {
            "000/tested": an_item(tested=("S1", "t.py::test_a")),
            "000/in-work": an_item(tested=("S2",)),
            "000/to-come": an_item(tested=("S3",)),
            "000/to-come-and-says-so": an_item(tested=("S3",), pending="later"),
            "000/unknown": an_item(tested=("S4",)),
        }
        assert unfounded_claims(entries, book) == [
            "000/to-come counts on S3, which has no tests: say what it waits for",
            "000/unknown names a scenario that does not exist: S4",
        ]
        assert named_tests(entries) == [("000/tested", "t.py::test_a")]

    def test_a_claim_that_rests_on_a_value_made_by_hand(self) -> None:
        named = [("000/a", "tests/lm/test_parts.py::test_a"), ("000/b", "tests/lm/test_guard.py::test_b")]
        assert hollow_claims(named) == ["000/a rests on a value made by hand: tests/lm/test_parts.py::test_a"]

    def test_a_page_or_its_heading_is_missing(self, tmp_path: Path) -> None:
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs/a.md").write_text("# A page\n\n## Its heading\n", "utf-8")
        (tmp_path / "README.md").write_text("# Read me\n", "utf-8")
        pages = ["docs/a.md", "docs/a.md#its-heading", "docs/a.md#another", "docs/b.md#a", "README.md"]
        entries = {page: an_item(informational=page) for page in pages}
        assert missing_pages(entries, tmp_path) == [
            "docs/a.md#another points to a heading that does not exist: docs/a.md#another",
            "docs/b.md#a points to a page that does not exist: docs/b.md",
            "README.md points to a page that does not exist: README.md",
        ]

    def test_a_fact_without_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "facts").mkdir()
        (tmp_path / "facts/acp.md").touch()
        entries = {
            "000/a": an_item(corrected="facts/acp.md: so"),
            "000/b": an_item(corrected="facts/x.md: so"),
        }
        assert missing_facts(entries, tmp_path) == [
            "000/b is corrected by a file that does not exist: facts/x.md"
        ]


# How documents and tests are read.

DOCUMENT = dedent("""\
    # The title
    It begins.

    ---

    ## 1.1 Stream Model
    Parts are many. A part MUST be whole. It has **no end.** You never wait.

    | Property | Value |
    | -------- | ----- |
    | **Order** | kept \\| always |
    | `Order` | again |

    ### Steps (of two)

    1. First
       goes on
       - inner
       - other

    2. Second

    Between lists.

    - Third

    ```text
    1. Fourth
       - inner
    ```

    ```python
    # Not a heading
    code()
    ```
    """)


class TestDocuments:
    def test_every_line_becomes_an_item_with_a_stable_id(self) -> None:
        assert {item.id: item.text for item in items_of("007", DOCUMENT)} == {
            "007": "The title It begins.",
            "007/1.1": "1.1 Stream Model Parts are many. It has **no end.** | Property | Value |",
            "007/1.1/rule-1": "A part MUST be whole.",
            "007/1.1/rule-2": "You never wait.",
            "007/1.1/Order": "**Order** | kept \\| always",
            "007/1.1/Order (2)": "`Order` | again",
            "007/steps": "Steps (of two) Between lists.",
            "007/steps/1": "First goes on",
            "007/steps/1/1": "inner",
            "007/steps/1/2": "other",
            "007/steps/2": "Second",
            "007/steps/3": "Third",
            "007/steps/4": "Fourth",
            "007/steps/4/1": "inner",
            "007/steps/code-1": "# Not a heading\ncode()",
        }

    def test_the_digest_sees_words_and_not_layout(self) -> None:
        assert Item("a", "one  two\n").digest == Item("b", "one two").digest
        assert Item("a", "one two").digest != Item("a", "one Two").digest

    def test_two_sections_of_one_name_are_refused(self) -> None:
        with pytest.raises(ValueError, match="several items named 007/a"):
            items_of("007", "# Title\n## A\n## A\n")

    def test_text_before_the_first_heading_is_refused(self) -> None:
        with pytest.raises(ValueError, match="does not begin with a heading"):
            items_of("007", "Text.\n")

    def test_documents_are_named_by_their_number(self, tmp_path: Path) -> None:
        (tmp_path / "001_abc.txt").write_text("# One\n", "utf-8")
        (tmp_path / "002_def.txt").write_text("# Two\n- entry\n", "utf-8")
        (tmp_path / "README.md").write_text("# Not one of them\n", "utf-8")
        assert list(read_documents(tmp_path)) == ["001", "002", "002/1"]

    def test_anchors_are_those_of_github(self) -> None:
        page = "# It's `this`: one\n````sh\n```\n# no heading\n````\n## Twice\n## Twice\n```\n# open to the end\n"
        assert heading_anchors(page) == {"its-this-one", "twice", "twice-1"}

    def test_scenarios_stand_alone_or_several_in_one_entry(self) -> None:
        text = "- **I1** settles;\n\n## H: one\n- H1 a · b → H2\n- S1 c · S2 d ·\n  S3 e, see S9\n"
        assert scenario_ids(text) == ["I1", "H1", "S1", "S2", "S3"]


SOURCE = dedent("""\
    import sys
    import pytest

    def helper(): ...

    def test_plain() -> None: ...

    async def test_awaited(): ...

    if sys.platform == "linux":
        def test_on_linux(): ...

    class TestGroup:
        def test_inside(self): ...
        def not_one(self): ...
        class TestInner:
            def test_deep(self): ...

    class TestEmpty:
        pass

    class Machine:
        def test_not_collected(self): ...

    TestMachine = Machine.TestCase
    TestTyped: type = Machine.TestCase

    @pytest.mark.skip(reason="not now")
    def test_skipped() -> None: ...

    @pytest.mark.xfail
    def test_failing() -> None: ...

    @pytest.mark.skipif(True, reason="always")
    def test_skipped_by_constant() -> None: ...

    @pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
    def test_skipped_somewhere() -> None: ...

    @pytest.mark.xfail(condition=sys.platform == "win32", reason="known")
    def test_failing_somewhere() -> None: ...

    def test_gives_up() -> None:
        pytest.skip("nothing to do")

    def test_gives_up_sometimes() -> None:
        if sys.platform == "win32":
            pytest.skip("no signals there")

    class TestMarked:
        pytestmark = [pytest.mark.asyncio, pytest.mark.skip]
        def test_in_marked(self): ...
    """)


class TestWrittenTests:
    def test_all_tests_are_found_and_those_that_never_run_are_known(self) -> None:
        assert {test.node: test.disabled_by for test in find_tests(SOURCE, "t.py")} == {
            "t.py::test_plain": None,
            "t.py::test_awaited": None,
            "t.py::test_on_linux": None,
            "t.py::TestGroup": None,
            "t.py::TestGroup::test_inside": None,
            "t.py::TestGroup::TestInner": None,
            "t.py::TestGroup::TestInner::test_deep": None,
            "t.py::TestMachine": None,
            "t.py::TestTyped": None,
            "t.py::test_skipped": "skip",
            "t.py::test_failing": "xfail",
            "t.py::test_skipped_by_constant": "skipif",
            "t.py::test_skipped_somewhere": None,
            "t.py::test_failing_somewhere": None,
            "t.py::test_gives_up": "skip",
            "t.py::test_gives_up_sometimes": None,
            "t.py::TestMarked": "skip",
            "t.py::TestMarked::test_in_marked": "skip",
        }

    @pytest.mark.parametrize(
        "marked", ["pytestmark = pytest.mark.skip", "pytest.skip('no', allow_module_level=True)"]
    )
    def test_a_whole_file_can_be_disabled(self, marked: str) -> None:
        source = f"import pytest\n{marked}\ndef test_a(): ...\nTestB = Machine.TestCase\n"
        assert [test.disabled_by for test in find_tests(source, "t.py")] == ["skip", "skip"]

    def test_files_below_a_folder_are_named_from_the_root(self, tmp_path: Path) -> None:
        (tmp_path / "tests/lm").mkdir(parents=True)
        (tmp_path / "tests/lm/test_guard.py").write_text("def test_a(): ...\n", "utf-8")
        (tmp_path / "tests/lm/shared.py").write_text("def test_b(): ...\n", "utf-8")
        assert list(find_tests_below(tmp_path / "tests", tmp_path)) == ["tests/lm/test_guard.py::test_a"]

    def test_tests_of_node_are_named_by_their_words(self, tmp_path: Path) -> None:
        (tmp_path / "one.test.mjs").write_text(
            "test('it does', async () => {});\n  test.skip('it may', () => {});\n// test('it did', x)\n"
        )
        (tmp_path / "helper.mjs").write_text("test('not one', () => {});\n")
        found = find_node_tests(tmp_path, tmp_path)
        assert {node: test.disabled_by for node, test in found.items()} == {
            "one.test.mjs::it does": None,
            "one.test.mjs::it may": "skip",
        }

    @pytest.mark.parametrize(
        ("node", "ids"),
        [
            ("t.py::test_s1_order", {"S1"}),
            ("t.py::test_s13_safe", {"S13"}),
            ("t.py::test_p10_p11_denied", {"P10", "P11"}),
            ("t.py::test_i2", {"I2"}),
            ("t.py::TestS1Order::test_kept", {"S1"}),
            ("t.py::TestS1::test_s2_whole", {"S1", "S2"}),
            ("t.py::TestP10P11::test_a", {"P10", "P11"}),
            ("t.py::test_utf8_text", set()),
            ("t.py::test_the_s1_rule", set()),
            ("tests/s1/test_s1.py::test_a", set()),
        ],
    )
    def test_the_ids_in_a_name(self, node: str, ids: set[str]) -> None:
        assert ids_in_name(node) == ids
