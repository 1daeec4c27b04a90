"""The API keys of the clients of `dragoman serve`: those with a name in `[keys]`, and the short form in `[serve]`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from dragoman.config.loading import Config
from dragoman.config.positions import KeyPath
from dragoman.config.problem import ConfigError, Problem, dotted, quoted
from dragoman.config.references import unset, value_of, variable_of

__all__ = ["ClientKey", "client_keys", "key_problems", "webhook_secret"]

_CONNECTION_BYTES = 12


@dataclass(frozen=True, slots=True)
class ClientKey:
    """A key that a client sends, and what its holder may use."""

    name: str
    secret: str = field(repr=False)
    role: Literal["user", "admin"] = "user"
    # None: all models.
    models: frozenset[str] | None = None
    # Folders without links and `..`. None: any that the models are configured with.
    workspaces: tuple[Path, ...] | None = None

    @property
    def connection(self) -> str:
        """The name under which the conversations of this key are stored. It does not contain the key."""
        name = blake2b(self.secret.encode(), digest_size=_CONNECTION_BYTES, person=b"dragoman-http")
        return f"http:{name.hexdigest()}"

    def allows(self, model_id: str) -> bool:
        return self.models is None or model_id in self.models

    def folders(self, configured: Path) -> tuple[str, ...]:
        """The folder in which an agent works for this key, if the model is configured with this one. Empty if it is the configured one."""
        if not self.workspaces:
            return ()
        place = configured.resolve()
        is_within = any(place.is_relative_to(each) for each in self.workspaces)
        return (str(configured if is_within else self.workspaces[0]),)


def client_keys(config: Config, environ: Mapping[str, str] = os.environ) -> tuple[ClientKey, ...]:
    """The keys of all clients, each with its value. `ConfigError` if one of them cannot be used."""
    if problems := key_problems(config, environ):
        raise ConfigError(problems)
    short = (
        ClientKey(f"key {number}", value_of(key, environ))
        for number, key in enumerate(config.serve.api_keys, 1)
    )
    named = (
        ClientKey(
            name,
            value_of(each.key, environ),
            each.role,
            None if each.models is None else frozenset(each.models),
            None if each.workspaces is None else tuple(folder.resolve() for folder in each.workspaces),
        )
        for name, each in config.keys.items()
    )
    return (*short, *named)


def webhook_secret(config: Config, environ: Mapping[str, str] = os.environ) -> str | None:
    """The value of `webhook_secret` in `[console]`. `ConfigError` if it has none."""
    secret = config.console.webhook_secret
    if secret is None:
        return None
    if problems := _webhook_problems(config, environ):
        raise ConfigError(problems)
    return value_of(secret, environ)


def key_problems(config: Config, environ: Mapping[str, str] = os.environ) -> tuple[Problem, ...]:
    """What is wrong with the keys of clients and the secret of the webhook, without their values."""
    found = [*unset(config, ("serve",), environ), *unset(config, ("keys",), environ)]
    seen: dict[str, str] = {}
    for place, key in _written(config):
        variable = variable_of(key)
        value = environ.get(variable) if variable is not None else key
        if value is None:
            continue
        subject = f"the environment variable {variable}" if variable is not None else "this API key"
        if wrong := _unusable_key(value):
            found.append(Problem(config.at(place), f"{subject} {wrong}"))
        elif value in seen:
            same = f"{subject} has the same value as the key at {seen[value]}. Give each client its own key."
            found.append(Problem(config.at(place), same))
        else:
            seen[value] = config.at(place)
    return (*found, *_folder_problems(config), *_webhook_problems(config, environ))


def _written(config: Config) -> Iterator[tuple[KeyPath, str]]:
    """Every key as the file has it, and where."""
    yield from ((("serve", "api_keys", number), key) for number, key in enumerate(config.serve.api_keys))
    yield from ((("keys", name, "key"), each.key) for name, each in config.keys.items())


def _folder_problems(config: Config) -> Iterator[Problem]:
    tables: list[tuple[KeyPath, tuple[Path, ...]]] = [(("serve",), config.serve.workspaces)]
    tables += [(("keys", name), each.workspaces or ()) for name, each in config.keys.items()]
    if config.fleet.urls:
        # They may be on the workers only.
        return
    for table, folders in tables:
        for number, folder in enumerate(folders):
            if not folder.is_dir():
                where = config.at((*table, "workspaces", number))
                wrong = f'"workspaces" in [{dotted(table)}]: {quoted(str(folder))} is not a folder.'
                yield Problem(where, f"{wrong} Make it first.")


def _webhook_problems(config: Config, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    if found := unset(config, ("console",), environ):
        return found
    secret = config.console.webhook_secret
    if secret is None or value_of(secret, environ).strip():
        return ()
    where = config.at(("console", "webhook_secret"))
    return (Problem(where, '"webhook_secret" in [console] is blank, so anyone could sign with it.'),)


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
