"""Reads a file into a valid configuration, or lists everything that is wrong with it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Iterable
from datetime import timedelta
from pathlib import Path

import msgspec

from dragoman.agents.entry import Facts
from dragoman.config.contradictions import contradictions
from dragoman.config.positions import KeyPath
from dragoman.config.problem import Complaint, ConfigError, Problem
from dragoman.config.schema import AcpModel, ModelConfig, Tables, is_path
from dragoman.config.source import Source
from dragoman.policy.rule import LocatedRule
from dragoman.regular_file import read_regular

__all__ = ["BUILTIN_MODELS", "DEMO", "MAX_FILE_BYTES", "Config", "Found", "load", "read_tables", "read_text"]

# A configuration is written by hand; what is larger is some other file.
MAX_FILE_BYTES = 1024 * 1024

# How many days what was not used is kept.
_KEEP_DAYS = 30.0

DEMO = "demo"
# Models that exist without any file. A file may define them anew, or change some of their settings.
BUILTIN_MODELS: dict[str, ModelConfig] = {
    DEMO: AcpModel(agent="demo", command=("dragoman", "demo-agent"), name="Demo agent"),
}

# Keys that say what a model is. The others are settings of it.
_DEFINING = frozenset({"kind", "agent", "command"})

# Tables that count only in the user's own file.
_OWN_ONLY = ("chat", "serve", "console", "keys", "fleet")

_SYNTAX_ERROR = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL
)


class Found(msgspec.Struct, frozen=True):
    """A file that was only found in the current folder, and the models that it adds."""

    source: Source
    models: dict[str, ModelConfig]
    is_trusted: bool = False


class Config(Tables, frozen=True, kw_only=True):
    """The configuration of this run.

    `models` has those that may be used: the user's first, in the order of the file, then those of a found file that is
    trusted, then the built-in ones.
    """

    models: dict[str, ModelConfig] = msgspec.field(default_factory=BUILTIN_MODELS.copy)
    source: Source = Source()
    # The second layer, if there is one. `layers` says what it may add.
    found: Found | None = None
    # Patterns of the second layer: no setting approves an address that one of them matches.
    refused_urls: tuple[str, ...] = ()
    # Rules of the second layer that are in force.
    found_rules: tuple[LocatedRule, ...] = ()
    # What is known of agents beyond what came with us, by their ids in the catalogue.
    facts: dict[str, Facts] = msgspec.field(default_factory=dict)

    @property
    def default_model(self) -> str:
        """The first model of the user's file, else of the found file, trusted or not; the demo when there is none."""
        first = next(iter(self.models))
        is_own = self.models[first] is not BUILTIN_MODELS.get(first)
        return first if is_own else next(iter(self.untrusted), first)

    @property
    def chat_model(self) -> str:
        """The model of a chat for which none is named."""
        return self.chat.model or self.default_model

    @property
    def untrusted(self) -> dict[str, ModelConfig]:
        """The models of a found file that the user has not trusted. Nothing of them may be read, sent or started."""
        return {} if self.found is None or self.found.is_trusted else self.found.models

    @property
    def keep(self) -> timedelta:
        """How long what was not used is kept."""
        days = self.journal.keep_days
        days = self.conversation.keep_days if days is None else days
        return timedelta(days=_KEEP_DAYS if days is None else days)

    def source_of(self, model_id: str) -> Source:
        """The file that defines a model."""
        found = self.found
        return self.source if found is None or model_id not in found.models else found.source

    def at(self, keys: KeyPath) -> str:
        """File and line of a key."""
        match keys:
            case ("models", str() as model_id, *_):
                return self.source_of(model_id).at(keys)
            case _:
                return self.source.at(keys)


def load(path: Path | None, agents: Collection[str] = (), *, only_found: bool = False) -> Config:
    """The configuration in a file, or the defaults without one; `ConfigError` if it cannot be used.

    `agents` are the ids of those that are known beyond the catalogue that came with us.
    """
    if path is None:
        return Config()
    source = Source(path, read_text(path))
    try:
        tables = read_tables(source, agents, ignored=_OWN_ONLY if only_found else ())
    except RecursionError:
        raise ConfigError([Problem(str(path), "the values are nested too deeply.")]) from None
    models = tables.models | {id_: model for id_, model in BUILTIN_MODELS.items() if id_ not in tables.models}
    return Config(
        models=models,
        conversation=tables.conversation,
        journal=tables.journal,
        tools=tables.tools,
        chat=tables.chat,
        policy=tables.policy,
        loop=tables.loop,
        serve=tables.serve,
        console=tables.console,
        keys=tables.keys,
        fleet=tables.fleet,
        source=source,
    )


def read_text(path: Path) -> str:
    """The text of a file; `ConfigError` if it cannot be read."""
    try:
        data = read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        problem = f"the configuration cannot be read: {error.strerror}."
        raise ConfigError([Problem(str(path), problem)]) from error
    try:
        # Some editors begin a file with a byte order mark.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 text (byte 0x{error.object[error.start]:02x}). Save the file as UTF-8."
        raise ConfigError([Problem(f"{path}:{line}", what)]) from error


def read_tables(source: Source, agents: Collection[str] = (), *, ignored: Collection[str] = ()) -> Tables:
    """What a file says; `ConfigError` if it is not right. Contradictions in the tables of `ignored` do not matter."""
    value = _with_builtin(_parsed(source))
    try:
        tables = msgspec.convert(value, Tables, dec_hook=lambda _type, text: _path(source.folder, text))
    except msgspec.ValidationError as error:
        from dragoman.config.explain import complaints  # noqa: PLC0415 - a file that is right need not pay for it

        found = tuple(complaints(value))
        # Should the walk through the types ever miss what msgspec has seen, its own words are better than none.
        raise _refusal(source, found or [((), str(error))]) from error
    # What does not count in a file that was only found need not be right either.
    if found := tuple(
        each for each in contradictions(tables, agents, BUILTIN_MODELS) if each[0][0] not in ignored
    ):
        raise _refusal(source, found)
    return tables


def _parsed(source: Source) -> dict[str, object]:
    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_syntax_problem(source, str(error))]) from error
    except ValueError as error:
        # Python refuses to read a number of thousands of digits.
        raise ConfigError([Problem(str(source.path), f"not valid TOML: {error}.")]) from error


def _with_builtin(value: dict[str, object]) -> dict[str, object]:
    """The values of a file, with the rest of each built-in model of which the file changes settings.

    A table that says what the model is (`kind`, `agent` or `command`) defines the model anew.
    """
    models = value.get("models")
    if not isinstance(models, dict):
        return value
    changed = {
        id_: {**_as_table(model), **models[id_]}
        for id_, model in BUILTIN_MODELS.items()
        if isinstance(models.get(id_), dict) and _DEFINING.isdisjoint(models[id_])
    }
    return {**value, "models": {**models, **changed}}


def _as_table(model: ModelConfig) -> dict[str, object]:
    """A model as the table that defines it. There is no null in TOML, and no tuple."""
    table = msgspec.json.decode(msgspec.json.encode(model), type=dict[str, object])
    return {key: value for key, value in table.items() if value is not None}


def _syntax_problem(source: Source, message: str) -> Problem:
    located = _SYNTAX_ERROR.fullmatch(message)
    if located is None:
        return Problem(str(source.path), f"not valid TOML: {message}.")
    if located["line"] is None:
        line = source.text.count("\n") + 1
        return Problem(f"{source.path}:{line}", f"not valid TOML: {located['what']} at the end of the file.")
    where = f"{source.path}:{located['line']}:{located['column']}"
    return Problem(where, f"not valid TOML: {located['what']}.")


def _path(folder: Path, text: object) -> Path:
    if not isinstance(text, str) or not is_path(text):
        raise ValueError("not a path")
    # Path's own expansion fails for a user that does not exist.
    return folder / os.path.expanduser(text)  # noqa: PTH111


def _refusal(source: Source, found: Iterable[Complaint]) -> ConfigError:
    in_order = sorted(found, key=lambda complaint: source.line(complaint[0]))
    return ConfigError(Problem(source.at(keys), text) for keys, text in in_order)
