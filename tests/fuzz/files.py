"""Checks of what stands in files: what people and packages wrote, and what only we should have written."""

from __future__ import annotations

import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import msgspec
from devtools.traces.reading import TraceError, parse_trace

from dragoman.agents.archive import _unpack
from dragoman.agents.catalogue import REFRESHED, catalogue, shipped
from dragoman.agents.entry import BinaryTarget
from dragoman.agents.failure import InstallError
from dragoman.agents.installed import InstalledAgents
from dragoman.backends.scripted.load import ScriptError, parse_script
from dragoman.backends.tool_shapes import MAX_SCHEMA_DEPTH, is_deeper_than, legal_schema
from dragoman.cleaning import Cleaning
from dragoman.config import (
    BUILTIN_MODELS,
    DEMO,
    Config,
    ConfigError,
    effects,
    ignored,
    layered,
    load,
    trusted,
)
from dragoman.config.editing import with_model, without_model
from dragoman.config.references import resolved, secrets
from dragoman.conversations.ids import CallName, IdSigner, MarkerName
from dragoman.globs import Glob, GlobError
from dragoman.lm import DataPart, JsonObject
from dragoman.lm.json import decode, encode
from dragoman.lm.parts import STATEFUL_MARKER
from dragoman.logs import REDACTED, Redaction
from dragoman.loop.state import StateError, dump, load as load_run
from dragoman.process import Ledger
from dragoman.tools.declaration import DeclarationError, declarations_from
from dragoman.tools.schema import MAX_PROBLEMS, SchemaError, SchemaProblem, check_schema, complete
from dragoman.tools.when import WhenError, evaluate, parse as parse_when
from dragoman.traces.frames import encode_frame
from dragoman.visible import hides
from fuzz.check import Check

__all__ = [
    "archives",
    "configuration",
    "configuration_edits",
    "declarations",
    "globs",
    "kept_files",
    "markers",
    "recorded_messages",
    "registries",
    "saved_runs",
    "scripts",
    "tool_inputs",
    "traces",
    "when_clauses",
]

_KEY = bytes(range(32))


# --- The configuration. ----------------------------------------------------------------------------------------------


@contextmanager
def configuration() -> Iterator[Check]:
    """It is read or refused in words that can be seen; and what only lies there spares nobody a question."""
    with tempfile.TemporaryDirectory(prefix="dragoman-fuzz-") as folder:
        path = Path(folder) / "dragoman.toml"

        def check(data: bytes) -> None:
            path.write_bytes(data)
            try:
                config = load(path)
            except ConfigError as error:
                _shows_all_of_itself(str(error).split("\n"))
                return
            own = Config()
            layers = trusted(layered(own, config))
            assert layers.found is not None
            tables = ("conversation", "loop", "serve", "console", "keys")
            assert [getattr(layers, name) for name in tables] == [getattr(own, name) for name in tables]
            assert layers.tools == msgspec.structs.replace(own.tools, eligible=layers.tools.eligible)
            assert not any(layers.tools.eligible.values())
            assert layers.models[DEMO] is BUILTIN_MODELS[DEMO]
            assert {getattr(model, "permission", "deny") for model in layers.models.values()} <= {
                "deny",
                "ask",
            }
            _shows_all_of_itself((ignored(own, config) or "", *effects(layers.found).values()))
            for model_id in config.models:
                try:
                    resolved(config, model_id, {})
                except ConfigError as error:
                    _shows_all_of_itself(str(error).split("\n"))
            assert "" not in secrets(config, {})

        yield check


def _shows_all_of_itself(lines: Iterable[str]) -> None:
    assert not any(hides(character) for line in lines for character in line)


def configuration_edits(data: bytes) -> None:
    """A model more, and a model less: the rest says what it said, in the same words, or nothing is changed."""
    path = Path("dragoman.toml")
    text = data.decode("utf-8", "replace")
    try:
        before = tomllib.loads(text)
    except (ValueError, RecursionError):
        # Whoever changes a file has read it first.
        return
    values: dict[str, str | bool] = {"kind": "acp", "agent": text[:20], "hidden": True}
    for id_ in ("new", *list(before["models"] if isinstance(before.get("models"), dict) else ())[:2]):
        try:
            more = with_model(path, text, id_, values)
            assert tomllib.loads(more)["models"][id_] == values
            assert without_model(path, more, id_) is not None
        except ConfigError as error:
            str(error)
            continue
        if id_ == "new":
            assert more.startswith(text)


def when_clauses(data: bytes) -> None:
    try:
        expression = parse_when(data.decode("utf-8", "surrogateescape"))
    except WhenError as error:
        str(error)
        return
    assert parse_when(str(expression)) == expression
    for context in ({}, {"a": "text", "b": 5, "c": True, "list": ["a", "b"]}):
        assert isinstance(evaluate(expression, context), bool)


# --- Tools. ----------------------------------------------------------------------------------------------------------


def declarations(data: bytes) -> None:
    try:
        declared = declarations_from(decode(data), where="tools.json")
    except (msgspec.DecodeError, DeclarationError) as error:
        str(error)
        return
    assert len({each.name for each in declared}) == len(declared)


def tool_inputs(data: bytes) -> None:
    """A schema, and on the next line what a model makes of it. Patterns are left out: they are trusted like code."""
    first, _, second = data.replace(b"attern", b"utter").partition(b"\n")
    try:
        schema, value = decode(first), decode(second)
    except msgspec.DecodeError:
        return
    if not isinstance(schema, dict):
        return
    offered, _ = legal_schema(schema)
    assert offered["type"] == "object"
    assert isinstance(offered["properties"], dict)
    assert not is_deeper_than(MAX_SCHEMA_DEPTH + 3, offered)
    assert b'"x-mcp-header"' not in encode({**offered, "properties": {}})
    try:
        check_schema(schema)
    except SchemaError as error:
        str(error)
        return
    completed, problems = _completed(schema, value)
    assert len(problems) <= MAX_PROBLEMS + 1
    assert all(len(each) < 2_000 for each in problems)
    if completed is not None:
        # What fits, fits: nothing more is to be filled in.
        assert _completed(schema, completed) == (completed, ())


def _completed(schema: JsonObject, value: object) -> tuple[JsonObject | None, tuple[str, ...]]:
    try:
        return complete(schema, value), ()
    except SchemaProblem as problem:
        return None, problem.problems


def globs(data: bytes) -> None:
    """A glob, and on the next line a path: what it matches, it may match below every folder on the way."""
    text, _, path = data.decode("utf-8", "replace").partition("\n")
    names = tuple(filter(None, path.split("/")))[:20]
    try:
        glob = Glob(text)
    except GlobError as error:
        str(error)
        return
    if names and glob.matches(names):
        assert all(glob.may_match_below(above) for above in accumulate((name,) for name in names[:-1]))


# --- Agents. ---------------------------------------------------------------------------------------------------------


@contextmanager
def registries() -> Iterator[Check]:
    """Whatever was fetched: what came with us is there, warns of as much, and nobody else is recognised or built in."""
    with tempfile.TemporaryDirectory(prefix="dragoman-fuzz-") as name:
        folder = Path(name)

        def check(data: bytes) -> None:
            (folder / REFRESHED).write_bytes(data)
            known = catalogue(folder)
            for id_, ours in shipped().items():
                assert set(ours.facts.cautions) <= set(known[id_].facts.cautions)
                assert known[id_].facts.recognised_by == ours.facts.recognised_by
                assert known[id_].facts.built_in == ours.facts.built_in
            for id_ in known.keys() - shipped().keys():
                assert not known[id_].facts.recognised_by
                assert not known[id_].facts.built_in
                assert Path(id_).name == id_

        yield check


@contextmanager
def archives() -> Iterator[Check]:
    """What is in an archive lands in its folder, and nothing is changed beside it."""
    with tempfile.TemporaryDirectory(prefix="dragoman-fuzz-") as name:
        folder = Path(name)
        (folder / "beside").write_text("untouched")
        target = BinaryTarget("https://example.com/agent.tar.gz", "bin/agent")

        def check(data: bytes) -> None:
            (folder / "archive").write_bytes(data)
            try:
                program = _unpack(folder / "archive", target, folder / "files")
                assert program.resolve().is_relative_to(folder / "files")
            except (InstallError, OSError) as error:
                str(error)
            assert (folder / "beside").read_text() == "untouched"
            assert {path.name for path in folder.iterdir()} <= {"beside", "archive", "files"}
            shutil.rmtree(folder / "files", ignore_errors=True)

        yield check


# --- Runs and traces. ------------------------------------------------------------------------------------------------


def scripts(data: bytes) -> None:
    try:
        parse_script(data.decode("utf-8", "replace"))
    except ScriptError as error:
        str(error)


def traces(data: bytes) -> None:
    try:
        frames = parse_trace(data)
    except TraceError:
        return
    assert parse_trace(b"".join(map(encode_frame, frames))) == frames


_SECRET = "3141592653-a-secret"


def recorded_messages(data: bytes) -> None:
    """A message for a recording, with a secret wherever it says SECRET: it is in there nowhere."""
    redaction = Redaction()
    redaction.add([_SECRET])
    cleaning = Cleaning(redaction)
    try:
        message = decode(data.replace(b"SECRET", _SECRET.encode()))
    except msgspec.DecodeError:
        return
    if not isinstance(message, dict):
        return
    cleaned = encode(cleaning.message(message))
    assert _SECRET.encode() not in cleaned
    assert encode(cleaning.message(decode(cleaned))) == cleaned or REDACTED.encode() in cleaned  # type: ignore[arg-type]


def saved_runs(data: bytes) -> None:
    try:
        state = load_run(data)
    except StateError as error:
        str(error)
        return
    assert load_run(dump(state)) == state


# --- What only we should have written. -------------------------------------------------------------------------------

_tokens = IdSigner(_KEY)
_MARKER = MarkerName("conversationabcd", 3, 5)
_CALL = CallName("conversationabcd", 7)
_issued = (_tokens.marker("model", _MARKER).data, _tokens.call_id(_CALL))


def markers(data: bytes) -> None:
    """Whatever is made of a marker or a call id of ours: it names what we named with it, or nothing."""
    for given in (data, _spliced(_issued[0], data)):
        assert _tokens.read_marker(DataPart(STATEFUL_MARKER, given)) in (None, _MARKER)
    text = data.decode("utf-8", "surrogateescape")
    assert _tokens.read_call_id(text) in (None, _CALL)
    changed = _spliced(_issued[1].encode(), data).decode("utf-8", "surrogateescape")
    assert _tokens.read_call_id(changed) == (_CALL if changed == _issued[1] else None)


def _spliced(issued: bytes, data: bytes) -> bytes:
    place = data[0] % len(issued) if data else 0
    return issued[:place] + data[1:] + issued[place + len(data[1:]) :]


@contextmanager
def kept_files() -> Iterator[Check]:
    """Small files in the state folder that a crash, a disk or somebody's editor has spoilt: they count as none."""
    with tempfile.TemporaryDirectory(prefix="dragoman-fuzz-") as name:
        state = Path(name)
        version = state / "agents" / "goose" / "1.0.0-abc"
        version.mkdir(parents=True)
        (version.parent / "current").symlink_to(version.name)
        (state / "run").mkdir()

        def check(data: bytes) -> None:
            (state / "run" / "7.json").write_bytes(data)
            (version / "installation.json").write_bytes(data)
            assert len(Ledger(state / "run").entries()) <= 1
            assert InstalledAgents(state).all().keys() <= {"goose"}

        yield check
