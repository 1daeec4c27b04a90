"""Compares `docs/architecture.md` with the code: packages, imports, cycles, names, and modules without I/O."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[1]
_SOURCE = _ROOT / "src" / "dragoman"
_DOCUMENT = (_ROOT / "docs" / "architecture.md").read_text("utf-8")

# What waits, looks at the world, or changes it. `os.path` only looks at names, and so does a pure path.
_IO = frozenset(
    {
        "asyncio", "h11", "httpx2", "io", "os", "pathlib.Path", "select", "shutil", "signal", "socket", "sqlite3",
        "starlette", "subprocess", "tempfile", "time", "uvicorn", "uvloop", "websockets",
    }
)  # fmt: skip
# Folders whose parts are drawn, too; of the last only its packages.
_DRAWN = ("backends", "frontends", "backends/agent")
# Their folders have rows of their own.
_SPLIT = ("backends.", "frontends.")
_FROM = re.compile(r"^ *from ([\w.]+) import (\([^)]*\)|[^(\n]*?)(?:  #.*)?$", re.MULTILINE)
_IMPORT = re.compile(r"^ *import ([\w.]+)", re.MULTILINE)
_WAITS = re.compile(r"^ *async def ", re.MULTILINE)


def _tree() -> dict[str, str]:
    """The folders and files that the document draws, each with what is said of it."""
    (drawn,) = re.findall(r"^```\nsrc/dragoman/\n(.*?)^```", _DOCUMENT, re.DOTALL | re.MULTILINE)
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in drawn.splitlines():
        entry = re.match(r"( *)((?:[\w/]+(?:/|\.py)(?:, |(?= |$)))+) *(.*)", line)
        if entry is None or not line.startswith("  "):
            # The rest of what is said, or something beside the package.
            if found and line.startswith("   "):
                found[next(reversed(found))] += f" {line.strip()}"
            continue
        depth, names, words = len(entry[1]), entry[2], entry[3]
        above = [(at, name) for at, name in above if at < depth]
        for name in names.split(", "):
            path = "".join((*(folder for _, folder in above), name.strip()))
            found[path] = words
        above.append((depth, names.strip()))
    return found


@cache
def _modules() -> dict[str, frozenset[str]]:
    """Each of ours, with whatever it imports anywhere, by its full name."""
    return {
        ".".join(path.relative_to(_SOURCE).with_suffix("").parts): frozenset(_imported(path))
        for path in _SOURCE.rglob("*.py")
    }


def _imported(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    for module, names in _FROM.findall(text):
        yield from (f"{module}.{name}" for name in re.findall(r"(\w+)(?: as \w+)?", names))
    yield from _IMPORT.findall(text)
    if _WAITS.search(text):
        yield "asyncio"


@cache
def _package(module: str) -> str:
    """The package that has a row in the table: `lm`, `backends.agent.session`, `frontends` for what front ends share."""
    for depth in (3, 2):
        name = ".".join(module.split(".")[:depth])
        if name.startswith(_SPLIT) and (_SOURCE / name.replace(".", "/")).is_dir():
            return name
    return module.partition(".")[0]


def _known() -> Iterator[tuple[str, str]]:
    """Of two modules of ours, that the one imports the other."""
    for module, imported in _modules().items():
        for name in imported:
            if name.startswith("dragoman.") and name != "dragoman.__version__":
                yield module, name.removeprefix("dragoman.")


def _table() -> dict[str, frozenset[str]]:
    rows = re.findall(r"^\| (`.*?) \|(.*)\|$", _DOCUMENT, re.MULTILINE)
    return {
        package: frozenset(re.findall(r"`([\w.]+)`", known))
        for packages, known in rows
        for package in re.findall(r"`([\w.]+)`", packages)
    }


def test_everything_that_is_drawn_is_there() -> None:
    missing = [path for path in _tree() if not (_SOURCE / path).exists()]
    assert missing == []


def test_every_package_and_what_lies_beside_them_is_drawn() -> None:
    places = chain(_SOURCE.iterdir(), *(folder.iterdir() for folder in map(_SOURCE.joinpath, _DRAWN)))
    there = {
        f"{path.relative_to(_SOURCE)}/" if path.is_dir() else str(path.relative_to(_SOURCE))
        for path in places
        if (path.suffix == ".py" or (path / "__init__.py").exists())
        and not path.name.startswith("__")
        and (path.is_dir() or path.parent.name != "agent")
    }
    assert there - _tree().keys() == set()


def test_every_package_has_a_row() -> None:
    packages = {_package(module) for module in _modules() if not module.endswith(("__main__", "__init__"))}
    assert packages - _table().keys() == set()
    assert _table().keys() - packages == set()


@pytest.mark.parametrize("package", sorted(_table()))
def test_a_package_imports_what_its_row_says(package: str) -> None:
    allowed = _table()[package] | {"lm", package}
    imported = {
        _package(known)
        for module, known in _known()
        if _package(module) == package and module.rpartition(".")[2] != "__main__"
    }
    assert imported - allowed == set()
    assert allowed - imported - {"lm", package} == set(), "a row names what is not imported"


def test_no_packages_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for module, known in _known():
        if _package(module) != _package(known):
            graph.setdefault(_package(module), set()).add(_package(known))
    assert _circles(graph) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {name.removesuffix(".__init__") for name in _modules()}
    graph: dict[str, set[str]] = {}
    for module, known in _known():
        target = known if known in modules else known.rpartition(".")[0]
        if target in modules and target != module.removesuffix(".__init__"):
            graph.setdefault(module.removesuffix(".__init__"), set()).add(target)
    assert _circles(graph) == []


def _circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The groups of nodes in which each can be reached from each."""
    reach: dict[str, set[str]] = {}
    for start, direct in graph.items():
        seen: set[str] = set()
        left = [*direct]
        while left:
            node = left.pop()
            if node not in seen:
                seen.add(node)
                left.extend(graph.get(node, ()))
        reach[start] = seen
    groups = {
        frozenset(other for other in reach[node] if node in reach.get(other, ()))
        for node in graph
        if node in reach[node]
    }
    return [set(group) for group in groups]


def test_circles_are_found() -> None:
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
    assert _circles({"a": {"b", "c"}, "b": {"c"}}) == []


def test_no_two_public_classes_have_the_same_name() -> None:
    found: dict[str, list[str]] = {}
    for path in _SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
                name = ast.unparse(node.target)
            else:
                continue
            if not name.startswith("_"):
                found.setdefault(name, []).append(str(path.relative_to(_SOURCE)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_front_ends_and_commands_are_known_to_nobody_else() -> None:
    too_much = [
        f"{module} knows {known}"
        for module, known in _known()
        if (known.startswith("frontends.") and module.partition(".")[0] not in ("frontends", "cli", "demo"))
        or (_package(known) == "cli" and module.partition(".")[0] not in ("cli", "__main__"))
    ]
    assert too_much == []


def _said_to_do_without() -> Iterator[str]:
    for path, words in _tree().items():
        for sentence in re.findall(r"Without I/O: (.*?)\.(?: |$)", words):
            for name in re.split(r",| and ", re.sub(r"\([^)]*\)", "", sentence)):
                yield f"{path}{name.strip()}".replace("/", ".")
    (decide,) = re.findall(
        r"^The parts that decide do no I/O(.*?)The parts that act", _DOCUMENT, re.DOTALL | re.MULTILINE
    )
    yield from re.findall(r"`([\w.]+)`", decide)


@pytest.mark.parametrize("decides", sorted(_said_to_do_without()))
def test_what_decides_does_no_io(decides: str) -> None:
    modules = [name for name in _modules() if name == decides or name.startswith(f"{decides}.")]
    assert modules
    done = [
        f"{module} uses {name}"
        for module in modules
        for name in _modules()[module]
        if (name in _IO or name.partition(".")[0] in _IO) and not name.startswith("os.path")
    ]
    assert done == []
