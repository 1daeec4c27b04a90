"""`"$NAME"`: values that come from our environment and not from the file.

They are looked up when the model that needs them is used, so that a key which is not set for one model does not
break another.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from dragoman.config.loading import Config
from dragoman.config.positions import KeyPath
from dragoman.config.problem import ConfigError, Problem
from dragoman.config.schema import AcpModel, ModelConfig, ResponsesModel

__all__ = ["api_keys", "inherited", "key_problems", "resolved", "secrets", "variables"]

_REFERENCE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_SECRET_NAME = re.compile(r"key|token|secret|password|authorization|headers", re.IGNORECASE)
# The command that means ourselves, whatever PATH says.
_OURSELVES = "dragoman"


def resolved(config: Config, model_id: str, environ: Mapping[str, str] = os.environ) -> ModelConfig:
    """A model of `config` ready to be started: with the values of its variables, and a command that can be run."""
    if problems := _unset(config, ("models", model_id), environ):
        raise ConfigError(problems)
    model = config.models[model_id]
    match model:
        case AcpModel():
            env = {name: _value(value, environ) for name, value in model.env.items()}
            command = _command(model.command, config.source_of(model_id).folder)
            return msgspec.structs.replace(model, env=env, command=command)
        case ResponsesModel(api_key=key):
            headers = {name: _value(value, environ) for name, value in model.headers.items()}
            key = key if key is None else _value(key, environ)
            return msgspec.structs.replace(model, api_key=key, headers=headers)
        case _:
            return model


def api_keys(config: Config, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The keys of `[serve]`, each with its value. `ConfigError` if a client cannot send one of them."""
    if problems := key_problems(config, environ):
        raise ConfigError(problems)
    return tuple(_value(key, environ) for key in config.serve.api_keys)


def key_problems(config: Config, environ: Mapping[str, str] = os.environ) -> tuple[Problem, ...]:
    """What is wrong with the keys of `[serve]`, without the keys."""
    found = list(_unset(config, ("serve",), environ))
    for number, key in enumerate(config.serve.api_keys):
        variable = _variable(key)
        value = environ.get(variable) if variable is not None else key
        if value is not None and (wrong := _unusable_key(value)):
            subject = f"the environment variable {variable}" if variable is not None else "this API key"
            found.append(Problem(config.at(("serve", "api_keys", number)), f"{subject} {wrong}"))
    return tuple(found)


def _unusable_key(key: str) -> str | None:
    """Why no client can send this key as `Authorization: Bearer KEY`."""
    if not key.strip():
        return "is empty or blank. Any client could send that: set a key, for example the output of `openssl rand -hex 32`."
    if key != key.strip():
        return "begins or ends with white space. HTTP removes that from a header, so no client can send this key."
    if not (key.isascii() and key.isprintable()):
        return (
            "has a character that cannot be sent in an Authorization header."
            " Use ASCII letters, digits and punctuation."
        )
    return None


def inherited(config: Config, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Our environment as an agent gets it, without the keys of `[serve]`: a client with a key decides for the user."""
    keys = {_variable(key) for key in config.serve.api_keys}
    return {name: value for name, value in environ.items() if name not in keys}


def _unset(config: Config, within: KeyPath, environ: Mapping[str, str] = os.environ) -> tuple[Problem, ...]:
    """The variables that this part of the configuration needs and that are not set."""
    return tuple(
        Problem(
            config.at(keys),
            f"the environment variable {variable} is not set. Set it first, or write the value here.",
        )
        for keys, value in _values(config)
        if keys[: len(within)] == within
        and (variable := _variable(value)) is not None
        and variable not in environ
    )


def secrets(config: Config, environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The values to redact in logs: values of variables, and of whatever is called a key, a token or a secret."""
    found = set()
    for keys, value in _values(config):
        variable = _variable(value)
        if variable is not None:
            found.add(environ.get(variable, ""))
        elif any(_SECRET_NAME.search(str(key)) for key in keys):
            found.add(value)
    return frozenset(found - {""})


def _values(config: Config) -> Iterator[tuple[KeyPath, str]]:
    """Every value that may name a variable, and where it stands."""
    for model_id, model in config.models.items():
        yield from ((("models", model_id, *keys), value) for keys, value in _values_of(model))
    yield from ((("serve", "api_keys", number), key) for number, key in enumerate(config.serve.api_keys))


def _values_of(model: ModelConfig) -> Iterator[tuple[KeyPath, str]]:
    match model:
        case AcpModel(env=env):
            yield from ((("env", name), value) for name, value in env.items())
        case ResponsesModel(api_key=key, headers=headers):
            if key is not None:
                yield ("api_key",), key
            yield from ((("headers", name), value) for name, value in headers.items())
        case _:
            pass


def variables(model: ModelConfig) -> tuple[str, ...]:
    """The environment variables that a model reads, as they are written: `$NAME`."""
    found = (value for _, value in _values_of(model) if _variable(value) is not None)
    return tuple(dict.fromkeys(found))


def _variable(value: str) -> str | None:
    reference = _REFERENCE.fullmatch(value)
    return reference[1] if reference else None


def _value(value: str, environ: Mapping[str, str]) -> str:
    variable = _variable(value)
    return value if variable is None else environ[variable]


def _command(command: tuple[str, ...] | None, folder: Path) -> tuple[str, ...] | None:
    if command is None:
        return None
    program, *arguments = command
    if program == _OURSELVES:
        return (sys.executable, "-m", "dragoman", *arguments)
    # A bare name is looked for in PATH; a path is relative to the file, like every other.
    return (str(folder / program) if "/" in program else program, *arguments)
