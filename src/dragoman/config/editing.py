"""Adds or removes one table or value of a file that a user has written, and leaves everything else unchanged.

The change is made in the text, so that comments and order stay. Then both texts are read, and what they say must differ
in exactly that: whatever form the file has, it is changed rightly or not at all.
"""

from __future__ import annotations

import fcntl
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dragoman.config.loading import read_tables, read_text
from dragoman.config.problem import ConfigError, Problem, dotted, quoted
from dragoman.config.source import Source
from dragoman.policy.rule import PolicyRule
from dragoman.whole_file import write_whole

__all__ = [
    "add_rules",
    "model_table",
    "set_chat_value",
    "with_chat_value",
    "with_model",
    "with_rule",
    "without_model",
    "write",
]

_HEADER = re.compile(r"\s*\[")
_NOT_OF_TABLE = re.compile(r"\s*(#.*)?")


def model_table(model_id: str, values: Mapping[str, str | bool]) -> str:
    """A model's table as it stands in a file."""
    lines = [f"{key} = {_written(value)}" for key, value in values.items()]
    return "\n".join([f"[{dotted(('models', model_id))}]", *lines]) + "\n"


def _written(value: str | bool) -> str:  # noqa: FBT001 - a value of TOML
    return str(value).lower() if isinstance(value, bool) else quoted(value)


def with_model(path: Path, text: str, model_id: str, values: Mapping[str, str | bool]) -> str:
    """The file with that model behind everything else; where there is a model of that name, in its place."""
    before = tomllib.loads(text)
    table = model_table(model_id, values)
    if model_id in _models(before):
        start, end = _span(path, text, model_id)
        lines = text.splitlines(keepends=True)
        changed = "".join([*lines[:start], table, *lines[end:]])
    else:
        changed = _appended(text, table)
    wanted = before | {"models": {**_models(before), model_id: dict(values)}}
    return _checked(path, changed, wanted, f"Add it by hand:\n{table}")


def with_rule(path: Path, text: str, table: str) -> str:
    """The file with a `[[policy]]` table behind everything else. `ConfigError` if the rule is not right."""
    before = tomllib.loads(text)
    changed = _appended(text, table)
    rules = before.get("policy", [])
    added = tomllib.loads(table)["policy"]
    wanted = before | {"policy": [*(rules if isinstance(rules, list) else []), *added]}
    text = _checked(path, changed, wanted, f"Add it by hand:\n{table}")
    # The rest of the file was right before; only those who load it know all agents that its models may name.
    read_tables(Source(path, text), ignored=("models",))
    return text


def add_rules(path: Path, tables: str) -> tuple[Source, tuple[PolicyRule, ...]]:
    """Write `[[policy]]` tables to the end of a file, and return the file as it is then with all its rules.

    `ConfigError` if the file has faults or cannot be changed; then it is as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _only_writer(path.parent):
            source = Source(path, read_text(path) if path.exists() else "")
            # A fault that is there already is reported with its line.
            read_tables(source, ignored=("models",))
            after = Source(path, with_rule(path, source.text, tables))
            write(path, after.text)
    except OSError as error:
        raise ConfigError([Problem(str(path), f"the file cannot be written: {error.strerror}.")]) from error
    return after, read_tables(after, ignored=("models",)).policy


def with_chat_value(path: Path, text: str, key: str, value: str | tuple[str, ...] | None) -> str:
    """The file with that value in `[chat]`; without the key if it is None or empty."""
    before = tomllib.loads(text)
    table = before.get("chat", {})
    lines = text.splitlines(keepends=True)
    headers = [(number, _header(line)) for number, line in enumerate(lines) if _HEADER.match(line)]
    start = next((number for number, keys in headers if keys == ("chat",)), None)
    end = next((number for number, _ in headers if start is not None and number > start), len(lines))
    written = f"{key} = {_written_value(value)}\n" if value else ""
    if start is None:
        changed = _appended(text, f"[chat]\n{written}") if written else text
    else:
        if not lines[start].endswith("\n"):
            lines[start] += "\n"
        own = [number for number in range(start + 1, end) if re.match(rf"\s*{key}\s*=", lines[number])]
        kept = [line for number, line in enumerate(lines) if number not in own]
        place = own[0] if own else start + 1
        changed = "".join([*kept[:place], written, *kept[place:]])
    others = {name: each for name, each in (table if isinstance(table, dict) else {}).items() if name != key}
    after = others | ({key: list(value) if isinstance(value, tuple) else value} if value else {})
    wanted = {name: each for name, each in before.items() if name != "chat"}
    if after or start is not None:
        wanted["chat"] = after
    return _checked(path, changed, wanted, f"Write it by hand:\n[chat]\n{written}")


def _written_value(value: str | tuple[str, ...]) -> str:
    return quoted(value) if isinstance(value, str) else f"[{', '.join(map(quoted, value))}]"


def set_chat_value(path: Path, key: str, value: str | tuple[str, ...] | None) -> None:
    """Write a value of `[chat]` to a file. `ConfigError` if the file has faults or cannot be changed; then it is as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _only_writer(path.parent):
            source = Source(path, read_text(path) if path.exists() else "")
            read_tables(source, ignored=("models",))
            after = with_chat_value(path, source.text, key, value)
            read_tables(Source(path, after), ignored=("models",))
            write(path, after)
    except OSError as error:
        raise ConfigError([Problem(str(path), f"the file cannot be written: {error.strerror}.")]) from error


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Wait for other processes that add rules: each would write the file as it was before the other's."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def without_model(path: Path, text: str, model_id: str) -> str:
    """The file without that model's table. Comments in front of the table stay.

    A chat that begins with this model begins with the first of the file again.
    """
    before = tomllib.loads(text)
    match before.get("chat"):
        case {"model": str(chosen)} if chosen == model_id:
            text = with_chat_value(path, text, "model", None)
            before = tomllib.loads(text)
    start, end = _span(path, text, model_id)
    lines = text.splitlines(keepends=True)
    while start and not lines[start - 1].strip() and (end == len(lines) or not lines[end].strip()):
        # The empty line that set it apart.
        start -= 1
    models = {id_: table for id_, table in _models(before).items() if id_ != model_id}
    wanted = before | {"models": models}
    return _checked(
        path, "".join([*lines[:start], *lines[end:]]), wanted, f"Remove [models.{model_id}] by hand."
    )


def write(path: Path, text: str) -> None:
    """Write the file whole or not at all. `OSError` if it cannot be written."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


def _appended(text: str, table: str) -> str:
    """On lines of its own, whatever the file ends with."""
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return text + gap + table


def _models(document: dict[str, object]) -> dict[str, object]:
    models = document.get("models", {})
    return models if isinstance(models, dict) else {}


def _span(path: Path, text: str, model_id: str) -> tuple[int, int]:
    """The lines of a table with its sub-tables: from its header to the next, without what belongs to that one."""
    lines = text.splitlines(keepends=True)
    headers = [(number, _header(line)) for number, line in enumerate(lines) if _HEADER.match(line)]
    own = [number for number, keys in headers if keys[:2] == ("models", model_id)]
    if not own:
        raise ConfigError(
            [Problem(str(path), f"[models.{model_id}] has no header of its own. Change it by hand.")]
        )
    start = own[0]
    end = next(
        (number for number, keys in headers if number > start and keys[:2] != ("models", model_id)),
        len(lines),
    )
    while end > start + 1 and _NOT_OF_TABLE.fullmatch(lines[end - 1].rstrip("\r\n")):
        end -= 1
    return start, end


def _header(line: str) -> tuple[str, ...]:
    """The keys of a header; none where it is something else that begins with a bracket."""
    try:
        value: object = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    keys: list[str] = []
    while isinstance(value, dict) and value:
        [(name, value)] = value.items()
        keys.append(name)
    return tuple(keys)


def _checked(path: Path, text: str, wanted: dict[str, object], otherwise: str) -> str:
    try:
        says: dict[str, object] | None = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        says = None
    # A table without anything in it is as good as none.
    if says is None or {"models": {}, **says} != {"models": {}, **wanted}:
        problem = f"the file has a form that cannot be changed without knowing it. {otherwise}"
        raise ConfigError([Problem(str(path), problem)])
    return text
