"""Finds the tests in the source of the test files, without importing them.

A test is named as pytest names it: `tests/lm/test_guard.py::test_s1_order_is_kept`, with the class between where
there is one. A class stands for all tests in it, and a Hypothesis state machine for its `TestCase`:
`tests/loop/test_machine.py::TestLoop` for `TestLoop = LoopMachine.TestCase`. A test of Node's runner is named by its
file and its words: `tests/vscode_browser/chat.test.mjs::two chats side by side do not mix`.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["WrittenTest", "find_node_tests", "find_tests", "find_tests_below", "ids_in_name"]

_FUNCTION_IDS = re.compile(r"test_((?:[a-z]\d+_)*[a-z]\d+)(?:_|$)")
_CLASS_IDS = re.compile(r"Test((?:[A-Z]\d+)+)")
_ONE_ID = re.compile(r"[A-Z]\d+")
_NODE_TEST = re.compile(r"^\s*test(\.skip|\.todo)?\('([^']+)', ", re.MULTILINE)


@dataclass(frozen=True)
class WrittenTest:
    node: str
    # The mark or call that keeps this test from ever counting: "skip", "xfail"; None for a test that runs.
    disabled_by: str | None = None


def ids_in_name(node: str) -> set[str]:
    """The scenarios a test is named after: `test_p10_…`, `test_p10_p11_…`, or a class `TestP10…` around it."""
    ids: set[str] = set()
    for name in node.split("::")[1:]:
        if match := _FUNCTION_IDS.match(name) or _CLASS_IDS.match(name):
            ids.update(_ONE_ID.findall(match[1].upper()))
    return ids


def find_tests_below(folder: Path, root: Path) -> dict[str, WrittenTest]:
    """Every test in the test files below `folder`, by its name relative to `root`."""
    return {
        test.node: test
        for path in sorted(folder.rglob("test_*.py"))
        for test in find_tests(path.read_text("utf-8"), path.relative_to(root).as_posix())
    }


def find_node_tests(folder: Path, root: Path) -> dict[str, WrittenTest]:
    """The same for the tests of Node's runner."""
    return {
        (node := f"{path.relative_to(root).as_posix()}::{words}"): WrittenTest(node, mark[1:] or None)
        for path in sorted(folder.glob("*.test.*"))
        for mark, words in _NODE_TEST.findall(path.read_text("utf-8"))
    }


def find_tests(source: str, path: str) -> Iterator[WrittenTest]:
    body = ast.parse(source, path).body
    yield from _tests_of(body, path, _disabled_in(body))


def _tests_of(body: Sequence[ast.stmt], prefix: str, disabled_by: str | None) -> Iterator[WrittenTest]:
    for statement in _with_branches(body):
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test"):
                reason = _disabled_by_marks(statement.decorator_list) or _disabled_in(statement.body)
                yield WrittenTest(f"{prefix}::{name}", disabled_by or reason)
            case ast.ClassDef(name=name) if name.startswith("Test"):
                reason = (
                    disabled_by
                    or _disabled_by_marks(statement.decorator_list)
                    or _disabled_in(statement.body)
                )
                inner = list(_tests_of(statement.body, f"{prefix}::{name}", reason))
                if inner:
                    yield WrittenTest(f"{prefix}::{name}", reason)
                yield from inner
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr="TestCase"))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Attribute(attr="TestCase"))
            ) if name.startswith("Test"):
                yield WrittenTest(f"{prefix}::{name}", disabled_by)


def _with_branches(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, and those in its branches: a test may be defined for one platform only."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            branches = [statement.body, getattr(statement, "orelse", []), getattr(statement, "finalbody", [])]
            for branch in branches:
                yield from _with_branches(branch)


def _disabled_in(body: Sequence[ast.stmt]) -> str | None:
    """What disables a whole body, whatever happens: `pytest.skip()` among its statements, or a `pytestmark`."""
    for statement in body:
        match statement:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name("pytest"), attr="skip" | "xfail" as name))
            ):
                return name
            case ast.Assign(targets=[ast.Name("pytestmark")], value=marks):
                listed = marks.elts if isinstance(marks, ast.List | ast.Tuple) else [marks]
                if reason := _disabled_by_marks(listed):
                    return reason
    return None


def _disabled_by_marks(marks: Sequence[ast.expr]) -> str | None:
    return next((reason for mark in marks if (reason := _disabled_by_mark(mark))), None)


def _disabled_by_mark(mark: ast.expr) -> str | None:
    """`skip` always disables; `skipif` and `xfail` do unless they have a condition to evaluate."""
    called = mark if isinstance(mark, ast.Call) else None
    match called.func if called else mark:
        case ast.Attribute(attr="skip" | "expectedFailure" as name):
            return name
        case ast.Attribute(attr="skipif" | "xfail" as name):
            condition = _condition(called) if called else None
            always = condition is None or (isinstance(condition, ast.Constant) and bool(condition.value))
            return name if always else None
    return None


def _condition(call: ast.Call) -> ast.expr | None:
    named = [keyword.value for keyword in call.keywords if keyword.arg == "condition"]
    return next(iter([*call.args, *named]), None)
