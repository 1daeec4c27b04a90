"""The two manifests: what must hold, and where it is shown.

`scenarios.toml` has every scenario of the project; its tests are known by their names. `specification.toml` has every item of the
documents the project is built from (`documents.py` says what an item is), and what became of it: tested, corrected,
informational or pending. `docs/specification.md` explains both to a reader.

The checks return complaints, one line each, and `test_manifests.py` asks for none. Run as a program, this prints how
far things are and which tests are still wanted.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec

from documents import Item, heading_anchors
from written_tests import WrittenTest, find_node_tests, find_tests_below, ids_in_name

__all__ = [
    "ROOT",
    "SHARED",
    "Milestone",
    "Scenario",
    "Scenarios",
    "SpecificationItem",
    "differences",
    "hollow_claims",
    "load_scenarios",
    "load_specification",
    "misfiled_tests",
    "missing_facts",
    "missing_pages",
    "named_tests",
    "summary",
    "unfit_pending",
    "unfit_statuses",
    "unfounded_claims",
    "unlabelled_scenarios",
    "unsettled_scenarios",
    "untested_items",
    "unusable_tests",
    "with_named_tests",
    "written_tests",
]

ROOT = Path(__file__).resolve().parents[1]
# The documents lie beside the project, not in it. Without them the manifests are still checked in themselves.
SHARED = ROOT.parent / "shared"

# Tests of values that they make themselves: that a type can hold something does not show that anything says it.
_VALUES = ("tests/lm/test_parts.py::",)
_SCENARIO_ID = re.compile(r"[A-Z]\d+")
_CORRECTION = re.compile(r"(facts/[a-z-]+\.md): \S.*")


class Milestone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of work. What still waits for one that is done is a gap."""

    state: Literal["planned", "open", "done"]
    about: str


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Has tests, or waits for a milestone; both where a part of it cannot be tested yet."""

    title: str
    # Tests that show it beside those that are named after it.
    also: tuple[str, ...] = ()
    pending: str | None = None
    # All that are named after it, and those.
    tests: tuple[str, ...] = ()


class Scenarios(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    milestones: dict[str, Milestone]
    scenarios: dict[str, Scenario]


class SpecificationItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of one item of the documents, with its gist in our own words.

    `tested` names scenarios and tests. While it is empty, `want` is the file or folder where the test is expected.
    `corrected` names the fact that wins over the document, `informational` the page that tells a reader about it.
    """

    digest: str
    gist: str
    tested: tuple[str, ...] | None = None
    want: str | None = None
    corrected: str | None = None
    informational: str | None = None
    pending: str | None = None


Specification = Mapping[str, SpecificationItem]


def written_tests() -> dict[str, WrittenTest]:
    """Every test of the project, by its name."""
    return {
        **find_tests_below(ROOT / "tests", ROOT),
        **find_node_tests(ROOT / "tests" / "console_browser", ROOT),
        **find_node_tests(ROOT / "tests" / "vscode_browser", ROOT),
        **find_node_tests(ROOT / "editors" / "vscode" / "test", ROOT),
    }


def load_scenarios(written: Collection[str]) -> Scenarios:
    book = msgspec.toml.decode((ROOT / "tests/scenarios.toml").read_bytes(), type=Scenarios)
    return with_named_tests(book, written)


def with_named_tests(book: Scenarios, written: Collection[str]) -> Scenarios:
    """With the tests of each scenario: those that bear its id, and the others that it names."""
    named: defaultdict[str, list[str]] = defaultdict(list)
    for test in written:
        for id_ in ids_in_name(test):
            named[id_].append(test)
    scenarios = {
        id_: msgspec.structs.replace(scenario, tests=(*named[id_], *scenario.also))
        for id_, scenario in book.scenarios.items()
    }
    return msgspec.structs.replace(book, scenarios=scenarios)


def load_specification() -> dict[str, SpecificationItem]:
    text = (ROOT / "tests/specification.toml").read_bytes()
    return msgspec.toml.decode(text, type=dict[str, SpecificationItem])


def unsettled_scenarios(book: Scenarios) -> list[str]:
    """Scenarios that are neither tested nor waiting for anything."""
    return [
        f"{id_} has no tests and waits for no milestone"
        for id_, scenario in book.scenarios.items()
        if not scenario.tests and scenario.pending is None
    ]


def unfit_pending(book: Scenarios, specification: Specification) -> list[str]:
    """Whatever waits for a milestone that nobody has declared, or that is done."""
    waiting = chain(
        ((id_, scenario.pending) for id_, scenario in book.scenarios.items()),
        ((id_, item.pending) for id_, item in specification.items()),
    )
    return [
        f"{id_} waits for {name!r}, which is {'done' if name in book.milestones else 'no milestone'}"
        for id_, name in waiting
        if name is not None and (name not in book.milestones or book.milestones[name].state == "done")
    ]


def unusable_tests(names: Iterable[tuple[str, str]], written: Mapping[str, WrittenTest]) -> list[str]:
    """Of pairs of an id and a test it names: tests that do not exist, and those that never run."""
    complaints = []
    for id_, name in names:
        test = written.get(name)
        if test is None:
            complaints.append(f"{id_} names a test that does not exist: {name}")
        elif test.disabled_by is not None:
            complaints.append(f"{id_} names a test that never counts ({test.disabled_by}): {name}")
    return complaints


def unlabelled_scenarios(book: Scenarios) -> list[str]:
    """Scenarios with tests of which none bears their id, so that a reader could not find them by it."""
    return [
        f"{id_} has no test named after it"
        for id_, scenario in book.scenarios.items()
        if scenario.tests and not any(id_ in ids_in_name(test) for test in scenario.tests)
    ]


def misfiled_tests(book: Scenarios, written: Collection[str]) -> list[str]:
    """Tests that a scenario names although they bear its id, and tests that bear an id of no scenario."""
    groups = {id_[0] for id_ in book.scenarios}
    return [
        *(
            f"{id_} need not name {test}, which bears its id"
            for id_, scenario in book.scenarios.items()
            for test in scenario.also
            if id_ in ids_in_name(test)
        ),
        *(
            f"{test} is named after {id_}, which is no scenario"
            for test in written
            for id_ in sorted(ids_in_name(test) - book.scenarios.keys())
            if id_[0] in groups
        ),
    ]


def differences(specification: Specification, documents: Mapping[str, Item]) -> list[str]:
    """Items the manifest does not have, items only the manifest has, and items whose text has changed."""
    return [
        *(
            f"not in the manifest: {id_} (digest {item.digest})"
            for id_, item in documents.items()
            if id_ not in specification
        ),
        *(f"not in the documents: {id_}" for id_ in specification if id_ not in documents),
        *(
            f"changed: {id_} (digest {documents[id_].digest}, not {entry.digest})"
            for id_, entry in specification.items()
            if id_ in documents and documents[id_].digest != entry.digest
        ),
    ]


def unfit_statuses(specification: Specification) -> list[str]:
    return [f"{id_}: {fault}" for id_, item in specification.items() for fault in _faults(item)]


def _faults(item: SpecificationItem) -> Iterator[str]:
    is_claimed = item.tested is not None or item.corrected is not None or item.pending is not None
    if not is_claimed and item.informational is None:
        yield "has no status"
    if is_claimed and item.informational is not None:
        yield "is informational and something else as well"
    if item.want is not None and item.tested != ():
        yield "wants a test, which is for items whose list of tests is there and empty"
    if item.corrected is not None and not _CORRECTION.fullmatch(item.corrected):
        yield "is corrected by no fact; the form is 'facts/vscode.md: what holds instead'"
    if not item.gist.strip() or "\n" in item.gist:
        yield "needs a gist of one line"


def untested_items(specification: Specification) -> list[str]:
    """Items that are to be tested and name no test yet."""
    return [
        f"{id_} ({item.want or 'no file named'}): {item.gist}"
        for id_, item in specification.items()
        if item.tested == ()
    ]


def unfounded_claims(specification: Specification, book: Scenarios) -> list[str]:
    """Items that count as tested by a scenario which is not there, or has no tests and is not being worked on."""
    complaints = []
    for id_, item in specification.items():
        for name in filter(_SCENARIO_ID.fullmatch, item.tested or ()):
            scenario = book.scenarios.get(name)
            if scenario is None:
                complaints.append(f"{id_} names a scenario that does not exist: {name}")
            elif not scenario.tests and item.pending is None and not _in_work(scenario, book):
                complaints.append(f"{id_} counts on {name}, which has no tests: say what it waits for")
    return complaints


def _in_work(scenario: Scenario, book: Scenarios) -> bool:
    milestone = book.milestones.get(scenario.pending or "")
    return milestone is not None and milestone.state == "open"


def named_tests(specification: Specification) -> list[tuple[str, str]]:
    """Each item with each test it names itself, not through a scenario."""
    return [
        (id_, name)
        for id_, item in specification.items()
        for name in item.tested or ()
        if not _SCENARIO_ID.fullmatch(name)
    ]


def hollow_claims(named: Iterable[tuple[str, str]]) -> list[str]:
    """Of pairs of an id and a test it names: tests that show nothing of the product."""
    return [f"{id_} rests on a value made by hand: {test}" for id_, test in named if test.startswith(_VALUES)]


def missing_pages(specification: Specification, root: Path) -> list[str]:
    """Items whose page, or the heading in it, is not there."""
    anchors: dict[Path, set[str]] = {}
    complaints = []
    for id_, item in specification.items():
        if item.informational is None:
            continue
        name, _, anchor = item.informational.partition("#")
        page = root / name
        if not name.startswith("docs/") or not page.is_file():
            complaints.append(f"{id_} points to a page that does not exist: {name}")
            continue
        if page not in anchors:
            anchors[page] = heading_anchors(page.read_text("utf-8"))
        if anchor and anchor not in anchors[page]:
            complaints.append(f"{id_} points to a heading that does not exist: {item.informational}")
    return complaints


def missing_facts(specification: Specification, shared: Path) -> list[str]:
    named = [(id_, _CORRECTION.fullmatch(item.corrected or "")) for id_, item in specification.items()]
    return [
        f"{id_} is corrected by a file that does not exist: {fact[1]}"
        for id_, fact in named
        if fact and not (shared / fact[1]).is_file()
    ]


def summary(book: Scenarios, specification: Specification) -> str:
    """Both manifests in numbers, then the tests still wanted, by the file they are expected in."""
    lines = [f"{'scenarios':<12}{'tested':>8}{'in part':>9}{'pending':>9}"]
    for group in dict.fromkeys(id_[0] for id_ in book.scenarios):
        states = Counter(
            ("in part" if it.pending else "tested") if it.tests else "pending"
            for id_, it in book.scenarios.items()
            if id_[0] == group
        )
        lines.append(f"{group:<12}{states['tested']:>8}{states['in part']:>9}{states['pending']:>9}")
    waiting = Counter(it.pending for it in book.scenarios.values() if it.pending)
    lines += [
        "",
        "waiting for  " + ", ".join(f"{name} {waiting[name]}" for name in book.milestones if waiting[name]),
    ]

    columns = ("tested", "corrected", "informational", "pending", "test wanted")
    lines += ["", f"{'document':<12}" + "".join(f"{name:>15}" for name in columns)]
    for document in dict.fromkeys(id_[:3] for id_ in specification):
        states = Counter(_state(item) for id_, item in specification.items() if id_[:3] == document)
        lines.append(f"{document:<12}" + "".join(f"{states[name]:>15}" for name in columns))

    wanted: defaultdict[str, list[str]] = defaultdict(list)
    for id_, item in specification.items():
        if item.tested == ():
            wanted[item.want or "somewhere"].append(f"  {id_}: {item.gist}")
    for place in sorted(wanted):
        lines += ["", f"wanted in {place}", *wanted[place]]
    return "\n".join(lines)


def _state(item: SpecificationItem) -> str:
    if item.tested == ():
        return "test wanted"
    if item.pending is not None:
        return "pending"
    if item.corrected is not None:
        return "corrected"
    return "tested" if item.tested is not None else "informational"


if __name__ == "__main__":
    print(summary(load_scenarios(written_tests()), load_specification()))
