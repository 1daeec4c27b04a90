"""`make mutants`: does a test fail when the core is wrong?

    python tests/mutation/mutants.py [MODULE …] [--only NUMBER …] [--jobs N] [--list] [--quick]

Each mutant is the package with one small change in one place: a comparison turned round, a condition that always holds,
a statement left out. The tests of the core run against it; a mutant that they let pass *survives*. Survivors that change
nothing anybody could see have their reason in `survivors.toml`; any other is a test that is missing, and the exit
status is 1.

`--quick` tries a few mutants of each module against the first of its tests, and asks of each module that one of them is
noticed: so that this program is known to work.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[2]
_FILES = {
    "identify": Path("dragoman/conversations/identify.py"),
    "machine": Path("dragoman/backends/agent/machine/machine.py"),
}
MODULES = tuple(_FILES)
# The quick ones first: most mutants do not get past them.
_TESTS = {
    "identify": (
        ("conversations/test_identify.py",),
        ("conversations/test_identify_properties.py", "conversations/test_records.py"),
    ),
    "machine": (
        ("agent/test_machine_scenarios.py",),
        ("agent/test_machine_table.py",),
        ("agent/test_machine_properties.py",),
    ),
}
_SURVIVORS = Path(__file__).with_name("survivors.toml")
# Of each module, evenly over its file.
_QUICK = 3
# A mutant that runs in circles is noticed, too.
_SECONDS = 300

_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True)
class Mutant:
    module: str
    number: int
    line: int
    change: str
    # The node that is changed, and which of its changes this is.
    place: int
    which: int

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line}: {self.change}"

    def source(self) -> str:
        tree = _tree(self.module)
        target = _places(tree)[self.place]
        _put(tree, target, list(_changes(target))[self.which][1])
        return ast.unparse(ast.fix_missing_locations(tree))


def mutants_of(module: str) -> Iterator[Mutant]:
    tree = _tree(module)
    # How a class is made is not what the core decides.
    made = {id(part) for node in ast.walk(tree) for maker in _decorators(node) for part in ast.walk(maker)}
    number = 0
    for place, node in enumerate(_places(tree)):
        if id(node) in made:
            continue
        for which, (change, _) in enumerate(_changes(node)):
            number += 1
            yield Mutant(module, number, node.lineno, change, place, which)


def _tree(module: str) -> ast.Module:
    return ast.parse((ROOT / "src" / _FILES[module]).read_text())


def _places(tree: ast.Module) -> list[ast.expr | ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)]


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    old = ast.unparse(node)[:90]
    match node:
        case ast.Compare(ops=[op]):
            new = copy.deepcopy(node)
            new.ops = [_OPPOSITES[type(op)]()]
            yield f"{old} → {ast.unparse(new)[:90]}", new
        case ast.BoolOp(op=op, values=values):
            new_op = copy.deepcopy(node)
            new_op.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield f"{old} → {type(new_op.op).__name__.lower()}", new_op
            for place in range(len(values)):
                rest = [copy.deepcopy(value) for number, value in enumerate(values) if number != place]
                yield (
                    f"{old}: without {ast.unparse(values[place])[:60]}",
                    rest[0] if len(rest) == 1 else ast.BoolOp(op, rest),
                )
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"{old} → without not", copy.deepcopy(operand)
        case ast.Constant(value=bool(value)):
            yield f"{value} → {not value}", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield f"{value} → {value + 1}", ast.Constant(value + 1)
        case ast.BinOp(op=ast.Add() | ast.Sub() as op):
            new_sum = copy.deepcopy(node)
            new_sum.op = ast.Sub() if isinstance(op, ast.Add) else ast.Add()
            yield f"{old} → {ast.unparse(new_sum)[:90]}", new_sum
        case ast.IfExp(test=test):
            for value in (True, False):
                new_choice = copy.deepcopy(node)
                new_choice.test = ast.Constant(value)
                yield f"{old}: {ast.unparse(test)[:60]} → {value}", new_choice
        case ast.If(test=test) | ast.While(test=test):
            for value in (True, False):
                if isinstance(node, ast.If) or not value:
                    new_test = copy.deepcopy(node)
                    new_test.test = ast.Constant(value)
                    yield f"if {ast.unparse(test)[:80]} → {value}", new_test
        case ast.Expr(value=ast.Call() | ast.YieldFrom() | ast.Yield()) | ast.AugAssign() | ast.Continue():
            yield f"{old} → left out", ast.Pass()


def _decorators(node: ast.AST) -> list[ast.expr]:
    return node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef) else []


def _put(tree: ast.AST, target: ast.AST, replacement: ast.AST) -> None:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, field, replacement)
                return
            if isinstance(value, list) and any(each is target for each in value):
                value[:] = [replacement if each is target else each for each in value]
                return
    raise AssertionError("a node without a parent")


def _survives(mutant: Mutant, package: Path, *, quick: bool) -> bool:
    file = package / _FILES[mutant.module]
    original = file.read_text()
    file.write_text(mutant.source())
    try:
        return not any(_fails(tests, package) for tests in _tests(mutant.module, quick=quick))
    finally:
        file.write_text(original)


def _tests(module: str, *, quick: bool) -> tuple[tuple[str, ...], ...]:
    return _TESTS[module][:1] if quick else _TESTS[module]


def _fails(tests: tuple[str, ...], package: Path) -> bool:
    files = [f"tests/{name}" for name in tests]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    environment = {**os.environ, "PYTHONPATH": str(package), "CI": "true", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return ran.returncode != 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Which mutants of the core survive its tests?")
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help=f"of {', '.join(MODULES)}; all, if none is named"
    )
    parser.add_argument("--only", type=int, nargs="*", help="the mutants of these numbers")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="print the mutants, and try none")
    parser.add_argument("--quick", action="store_true", help="a few of each module: to see that this works")
    arguments = parser.parse_args()
    # Not by `choices`: argparse in Python 3.11 takes the default of a list for one of its entries.
    if unknown := set(arguments.modules) - set(MODULES):
        parser.error(f"there are no tests for {', '.join(sorted(unknown))}: choose from {', '.join(MODULES)}")
    modules = arguments.modules or MODULES
    mutants = [
        mutant
        for module in modules
        for mutant in _chosen(list(mutants_of(module)), arguments.only, quick=arguments.quick)
    ]
    if arguments.list:
        print(*(f"#{mutant.number} {mutant.name}" for mutant in mutants), sep="\n")
        return 0
    if any(
        _fails(tests, ROOT / "src") for module in modules for tests in _tests(module, quick=arguments.quick)
    ):
        print("The tests fail without any change: mend them first.")
        return 1
    survivors = _tried(mutants, arguments.jobs, quick=arguments.quick)
    if arguments.quick:
        print(f"{len(mutants)} mutants, {len(mutants) - len(survivors)} noticed by the first tests")
        noticed = {mutant.module for mutant in mutants if mutant not in survivors}
        return 0 if noticed == set(modules) else 1
    known = tomllib.loads(_SURVIVORS.read_text()) if _SURVIVORS.exists() else {}
    unexplained = [each for each in survivors if each.change not in known.get(each.module, {})]
    print(f"{len(mutants)} mutants, {len(unexplained)} survivors without a reason")
    print(*(f"#{mutant.number} {mutant.name}" for mutant in unexplained), sep="\n")
    return 1 if unexplained else 0


def _chosen(mutants: list[Mutant], only: list[int] | None, *, quick: bool) -> list[Mutant]:
    if only:
        return [mutant for mutant in mutants if mutant.number in only]
    return mutants[:: max(1, len(mutants) // _QUICK)][:_QUICK] if quick else mutants


def _tried(mutants: list[Mutant], jobs: int, *, quick: bool) -> list[Mutant]:
    """Those that survive, which are printed as they come."""
    survivors = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        free: SimpleQueue[Path] = SimpleQueue()
        for job in range(jobs):
            free.put(Path(shutil.copytree(ROOT / "src", Path(folder, str(job)))))

        def judge(mutant: Mutant) -> bool:
            place = free.get()
            try:
                return _survives(mutant, place, quick=quick)
            finally:
                free.put(place)

        for done, (mutant, survives) in enumerate(zip(mutants, pool.map(judge, mutants), strict=True), 1):
            if survives:
                survivors.append(mutant)
                print(f"[{done}/{len(mutants)}] #{mutant.number} survives: {mutant.name}", flush=True)
    return survivors


if __name__ == "__main__":
    sys.exit(main())
