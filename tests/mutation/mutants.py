"""`make mutants`: does a test fail when the core is wrong?

    python tests/mutation/mutants.py [MODULE …] [--only NUMBER …] [--jobs N]

Each mutant is the package with one small change in one place: a comparison turned round, a condition that always holds,
a statement left out. The tests of the core run against it; a mutant that they let pass *survives*. Survivors that change
nothing anybody could see have their reason in `survivors.toml`; any other is a test that is missing, and the exit
status is 1.
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
MODULES = ("identify", "machine")
_FOLDER = Path("src/dragoman/backends/agent")
# The quick ones first: most mutants do not get past them.
_TESTS = {
    "identify": (("test_identify.py",), ("test_identify_properties.py", "test_conversation_records.py")),
    "machine": (("test_machine_scenarios.py",), ("test_machine_table.py",), ("test_machine_properties.py",)),
}
_SURVIVORS = Path(__file__).with_name("survivors.toml")
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
    source: str

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line}: {self.change}"


def mutants_of(module: str) -> Iterator[Mutant]:
    source = (ROOT / _FOLDER / f"{module}.py").read_text()
    tree = ast.parse(source)
    # How a class is made is not what the core decides.
    made = {id(part) for node in ast.walk(tree) for maker in _decorators(node) for part in ast.walk(maker)}
    places = [node for node in ast.walk(tree) if hasattr(node, "lineno")]
    number = 0
    for index, node in enumerate(places):
        if id(node) in made:
            continue
        for change, replacement in _changes(node):
            mutated = copy.deepcopy(tree)
            target = [each for each in ast.walk(mutated) if hasattr(each, "lineno")][index]
            _put(mutated, target, replacement)
            number += 1
            text = ast.unparse(ast.fix_missing_locations(mutated))
            yield Mutant(module, number, node.lineno, change, text)


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


def _survives(mutant: Mutant, package: Path) -> bool:
    file = package / "dragoman/backends/agent" / f"{mutant.module}.py"
    original = file.read_text()
    file.write_text(mutant.source)
    try:
        return not any(_fails(tests, package) for tests in _TESTS[mutant.module])
    finally:
        file.write_text(original)


def _fails(tests: tuple[str, ...], package: Path) -> bool:
    files = [f"tests/agent/{name}" for name in tests]
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
    parser.add_argument("modules", nargs="*", default=MODULES, choices=[*MODULES, []])
    parser.add_argument("--only", type=int, nargs="*", help="the mutants of these numbers")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    known = tomllib.loads(_SURVIVORS.read_text()) if _SURVIVORS.exists() else {}
    mutants = [
        mutant
        for module in arguments.modules
        for mutant in mutants_of(module)
        if not arguments.only or mutant.number in arguments.only
    ]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        free: SimpleQueue[Path] = SimpleQueue()
        for job in range(arguments.jobs):
            free.put(Path(shutil.copytree(ROOT / "src", Path(folder, str(job)))))
        if any(_fails(tests, ROOT / "src") for module in arguments.modules for tests in _TESTS[module]):
            print("The tests fail without any change: mend them first.")
            return 1

        def judge(mutant: Mutant) -> bool:
            place = free.get()
            try:
                return _survives(mutant, place)
            finally:
                free.put(place)

        unexplained = 0
        for done, (mutant, survives) in enumerate(zip(mutants, pool.map(judge, mutants), strict=True), 1):
            if survives:
                reason = known.get(mutant.module, {}).get(mutant.change)
                unexplained += reason is None
                print(
                    f"[{done}/{len(mutants)}] #{mutant.number} survives: {mutant.name} ({reason or 'NO REASON'})"
                )
            sys.stdout.flush()
    print(f"{len(mutants)} mutants, {unexplained} survivors without a reason")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
