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

__all__ = [
    "inherited",
    "is_secret_name",
    "resolved",
    "secrets",
    "unset",
    "value_of",
    "variable_of",
    "variables",
]

_REFERENCE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_SECRET_NAME = re.compile(r"key|token|secret|password|authorization|headers|webhook", re.IGNORECASE)
# Set by VS Code for its extensions and in its terminals. The first makes every Electron program behave as Node.
_RUN_AS_NODE = "ELECTRON_RUN_AS_NODE"
_OF_VSCODE = "VSCODE_"
_VSCODE_ASKPASS = "VSCODE_GIT_ASKPASS_MAIN"
# The command that means ourselves, whatever PATH says.
_OURSELVES = "dragoman"


def resolved(config: Config, model_id: str, environ: Mapping[str, str] = os.environ) -> ModelConfig:
    """A model of `config` ready to be started: with the values of its variables, and a command that can be run."""
    if problems := unset(config, ("models", model_id), environ):
        raise ConfigError(problems)
    model = config.models[model_id]
    match model:
        case AcpModel():
            env = {name: value_of(value, environ) for name, value in model.env.items()}
            command = _command(model.command, config.source_of(model_id).folder)
            return msgspec.structs.replace(model, env=env, command=command)
        case ResponsesModel(api_key=key):
            headers = {name: value_of(value, environ) for name, value in model.headers.items()}
            key = key if key is None else value_of(key, environ)
            return msgspec.structs.replace(model, api_key=key, headers=headers)
        case _:
            return model


def inherited(config: Config, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Our environment as an agent gets it, without the keys of clients, the secret of the webhook, and an editor's variables.

    A client with a key decides for the user. VS Code's own variables change what `node`, `code` and `git` do.
    """
    left_out = {variable_of(value) for keys, value in _values(config) if keys[0] != "models"}
    left_out.add(_RUN_AS_NODE)
    if _VSCODE_ASKPASS in environ:
        # A script of VS Code's, which fails without the variables below.
        left_out.add("GIT_ASKPASS")
    return {
        name: value
        for name, value in environ.items()
        if name not in left_out and not name.startswith(_OF_VSCODE)
    }


def unset(config: Config, within: KeyPath, environ: Mapping[str, str] = os.environ) -> tuple[Problem, ...]:
    """The variables that this part of the configuration needs and that are not set."""
    return tuple(
        Problem(
            config.at(keys),
            f"the environment variable {variable} is not set. Set it first, or write the value here.",
        )
        for keys, value in _values(config)
        if keys[: len(within)] == within
        and (variable := variable_of(value)) is not None
        and variable not in environ
    )


def secrets(config: Config, environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The values to redact in logs: values of variables, and of whatever is called a key, a token or a secret."""
    found = set()
    for keys, value in _values(config):
        variable = variable_of(value)
        if variable is not None:
            found.add(environ.get(variable, ""))
        elif any(is_secret_name(str(key)) for key in keys):
            found.add(value)
    return frozenset(found - {""})


def is_secret_name(name: str) -> bool:
    """Whether a key of this name has a value that is not shown."""
    return _SECRET_NAME.search(name) is not None


def _values(config: Config) -> Iterator[tuple[KeyPath, str]]:
    """Every value that may name a variable, and where it stands."""
    for model_id, model in config.models.items():
        yield from ((("models", model_id, *keys), value) for keys, value in _values_of(model))
    yield from ((("serve", "api_keys", number), key) for number, key in enumerate(config.serve.api_keys))
    yield from ((("keys", name, "key"), each.key) for name, each in config.keys.items())
    for name in ("webhook", "webhook_secret"):
        value = getattr(config.console, name)
        if value is not None:
            yield ("console", name), value


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
    found = (value for _, value in _values_of(model) if variable_of(value) is not None)
    return tuple(dict.fromkeys(found))


def variable_of(value: str) -> str | None:
    """The environment variable that a value names, if it does."""
    reference = _REFERENCE.fullmatch(value)
    return reference[1] if reference else None


def value_of(value: str, environ: Mapping[str, str]) -> str:
    """A value, or that of the variable which it names. The variable must be set."""
    variable = variable_of(value)
    return value if variable is None else environ[variable]


def _command(command: tuple[str, ...] | None, folder: Path) -> tuple[str, ...] | None:
    if command is None:
        return None
    program, *arguments = command
    if program == _OURSELVES:
        return (sys.executable, "-m", "dragoman", *arguments)
    # A bare name is looked for in PATH; a path is relative to the file, like every other.
    return (str(folder / program) if "/" in program else program, *arguments)
