"""The gate: both manifests are complete, and nothing in them points nowhere."""

import pytest

from documents import read_documents, scenario_ids
from manifest import (
    ROOT,
    SHARED,
    Scenarios,
    SpecificationItem,
    differences,
    hollow_claims,
    load_scenarios,
    load_specification,
    misfiled_tests,
    missing_facts,
    missing_pages,
    named_tests,
    summary,
    unfit_pending,
    unfit_statuses,
    unfounded_claims,
    unlabelled_scenarios,
    unsettled_scenarios,
    untested_items,
    unusable_tests,
    written_tests,
)
from written_tests import WrittenTest


def compared_with(name: str) -> pytest.MarkDecorator:
    """Marks a comparison with what lies beside the project, and is not there for everybody."""
    absent = not (SHARED / name).exists()
    return pytest.mark.skipif(
        absent, reason=f"nothing to compare the manifest with: ../shared/{name} is absent"
    )


@pytest.fixture(scope="module")
def book(written: dict[str, WrittenTest]) -> Scenarios:
    return load_scenarios(written)


@pytest.fixture(scope="module")
def specification() -> dict[str, SpecificationItem]:
    return load_specification()


@pytest.fixture(scope="module")
def written() -> dict[str, WrittenTest]:
    return written_tests()


def expect_none(complaints: list[str]) -> None:
    assert not complaints, "\n".join(["", *complaints])


class TestScenarios:
    @compared_with("scenarios.md")
    def test_the_manifest_has_the_scenarios_of_the_list_and_no_others(self, book: Scenarios) -> None:
        lists = (SHARED / name for name in ("scenarios.md", "scenarios-2.md"))
        listed = [id_ for each in lists for id_ in scenario_ids(each.read_text("utf-8"))]
        assert set(listed) ^ book.scenarios.keys() == set()
        assert len(listed) == len(set(listed))

    def test_each_is_tested_or_pending(self, book: Scenarios) -> None:
        expect_none(unsettled_scenarios(book))

    def test_each_named_test_exists_and_runs(self, book: Scenarios, written: dict[str, WrittenTest]) -> None:
        named = [(id_, test) for id_, scenario in book.scenarios.items() for test in scenario.tests]
        expect_none(unusable_tests(named, written))

    def test_each_has_a_test_named_after_it(self, book: Scenarios) -> None:
        expect_none(unlabelled_scenarios(book))

    def test_a_test_is_named_after_a_scenario_that_there_is_and_not_listed_twice(
        self, book: Scenarios, written: dict[str, WrittenTest]
    ) -> None:
        expect_none(misfiled_tests(book, written))

    def test_nothing_waits_for_an_unknown_or_finished_milestone(
        self, book: Scenarios, specification: dict[str, SpecificationItem]
    ) -> None:
        expect_none(unfit_pending(book, specification))


class TestSpecification:
    @compared_with("seeds")
    def test_the_manifest_has_the_items_of_the_documents_as_they_are(
        self, specification: dict[str, SpecificationItem]
    ) -> None:
        expect_none(differences(specification, read_documents(SHARED / "seeds")))

    def test_every_status_is_fit(self, specification: dict[str, SpecificationItem]) -> None:
        expect_none(unfit_statuses(specification))

    def test_every_tested_item_names_its_tests(self, specification: dict[str, SpecificationItem]) -> None:
        expect_none(untested_items(specification))

    def test_every_claim_rests_on_a_scenario_or_a_test_that_exists(
        self,
        specification: dict[str, SpecificationItem],
        book: Scenarios,
        written: dict[str, WrittenTest],
    ) -> None:
        expect_none(unfounded_claims(specification, book))
        expect_none(unusable_tests(named_tests(specification), written))
        expect_none(hollow_claims(named_tests(specification)))

    def test_every_page_exists(self, specification: dict[str, SpecificationItem]) -> None:
        expect_none(missing_pages(specification, ROOT))

    @compared_with("facts")
    def test_every_fact_has_its_file(self, specification: dict[str, SpecificationItem]) -> None:
        expect_none(missing_facts(specification, SHARED))


class TestSummary:
    def test_it_counts_everything_once(
        self, book: Scenarios, specification: dict[str, SpecificationItem]
    ) -> None:
        scenarios, _, documents, *_ = summary(book, specification).split("\n\n")
        assert _sum_of_numbers(scenarios) == len(book.scenarios)
        assert _sum_of_numbers(documents) == len(specification)


def _sum_of_numbers(table: str) -> int:
    return sum(int(cell) for row in table.splitlines()[1:] for cell in row.split()[1:])
