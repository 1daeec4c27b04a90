"""Every setting in force, one by one, with the file and line that sets it.

A setting is a leaf: the value of a key, or of one entry of a table such as `env`. A `[[policy]]` table is one setting,
because its keys mean nothing alone. Secrets are replaced by `HIDDEN`; a reference to a variable (`"$NAME"`) is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from dragoman.config.explain import SECRET_KEYS
from dragoman.config.loading import Config
from dragoman.config.positions import KeyPath
from dragoman.config.references import is_secret_name, variable_of
from dragoman.config.rules import rules_of
from dragoman.config.schema import ModelConfig
from dragoman.config.source import Source
from dragoman.policy.rule_text import in_words

__all__ = ["HIDDEN", "EffectiveSetting", "effective_settings"]

HIDDEN = "(hidden)"
# Tables of the file that hold no tables of the user's own names.
_PLAIN_TABLES = ("conversation", "journal", "tools", "loop", "serve", "console")
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    keys: KeyPath
    # As in the file; None: no value, and no default. A path is absolute.
    value: object
    file: str | None = None
    line: int | None = None
    # What sets it if no file does.
    by: Literal["default", "built in", "installed agent"] = "default"
    # Of a found file that is not trusted: the setting has no effect yet.
    is_waiting: bool = False


def effective_settings(config: Config) -> Iterator[EffectiveSetting]:
    for id_, model in (config.models | config.untrusted).items():
        is_waiting = id_ in config.untrusted
        yield from _of_model(config.source_of(id_), id_, model, is_waiting=is_waiting)
    for name in _PLAIN_TABLES:
        for keys, value in _leaves((name,), _builtins(getattr(config, name))):
            yield _setting(_source(config, keys, value), keys, value)
        if name == "tools" and config.found is not None:
            for pattern in config.refused_urls:
                yield _setting(config.found.source, ("tools", "urls", pattern), value=False)
    for name, key in config.keys.items():
        for keys, value in _leaves(("keys", name), _builtins(key)):
            yield _setting(config.source, keys, value)
    for number, each in enumerate(rules_of(config)):
        yield EffectiveSetting(("policy", number), in_words(each.rule), each.file, each.line)


def _of_model(
    source: Source, id_: str, model: ModelConfig, *, is_waiting: bool
) -> Iterator[EffectiveSetting]:
    is_builtin = not source.writes(("models", id_))
    for keys, value in _leaves(("models", id_), _builtins(model)):
        setting = replace(_setting(source, keys, value), is_waiting=is_waiting)
        if is_builtin:
            setting = replace(setting, by="built in")
        elif keys[2:] == ("command",) and setting.file is None and value is not None:
            setting = replace(setting, by="installed agent")
        yield setting


def _source(config: Config, keys: KeyPath, value: object) -> Source:
    """The file that sets a key: the found one for what only that tightens."""
    found = config.found
    is_tightened = found is not None and keys[:2] == ("tools", "eligible") and value is False
    if found is not None and is_tightened and found.source.writes(keys):
        return found.source
    return config.source


def _setting(source: Source, keys: KeyPath, value: object) -> EffectiveSetting:
    shown = _shown(keys, value)
    if not source.writes(keys):
        return EffectiveSetting(keys, shown)
    return EffectiveSetting(keys, shown, str(source.path), source.line(keys))


def _builtins(table: msgspec.Struct) -> dict[str, object]:
    value: dict[str, object] = msgspec.to_builtins(table, enc_hook=_text_of)
    return value


def _text_of(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError


def _leaves(keys: KeyPath, value: object) -> Iterator[tuple[KeyPath, object]]:
    """The values in a table. An empty table is one, too."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves((*keys, name), inner)
    else:
        yield keys, value


def _shown(keys: KeyPath, value: object) -> object:
    if isinstance(value, list | tuple):
        return [_shown(keys, each) for each in value]
    if not isinstance(value, str):
        return value
    # The names of models and keys are the user's own: `[keys.build]` makes nothing secret.
    names = [str(key) for key in keys if isinstance(key, str)]
    names = names[2:] if names[0] in ("models", "keys") else names[1:]
    is_secret = any(name in SECRET_KEYS or is_secret_name(name) for name in names)
    if is_secret and value and variable_of(value) is None:
        return HIDDEN
    return _USER_IN_URL.sub(f"{HIDDEN}@", value)
