"""What a model has beside its answers, for people to choose from: options, commands and ways to log in.

Agents have them. A request carries the chosen values of options in `RequestOptions.model_configuration`, by their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from dragoman.lm.json import JsonObject

__all__ = [
    "LoginKind",
    "LoginMethod",
    "ModelCommand",
    "ModelOffer",
    "ModelOption",
    "OfferingModel",
    "OptionValue",
    "SelectableValue",
    "TerminalLogin",
    "schema_of",
]

OptionValue: TypeAlias = str | bool | int | float
# agent: the agent does all of it when it is asked to. terminal: a person logs in there. env_var: a variable must be set.
LoginKind: TypeAlias = Literal["agent", "terminal", "env_var"]


class _Form(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class SelectableValue(_Form, frozen=True):
    """A value that an option can have, in the agent's own words."""

    value: OptionValue
    name: str
    description: str = ""


class ModelOption(_Form, frozen=True):
    """An option of a session, such as its mode. `category` is the agent's: `mode`, `model`, `thought_level` or another word."""

    id: str
    name: str
    description: str = ""
    category: str = ""
    current: OptionValue | None = None
    values: tuple[SelectableValue, ...] = ()


class ModelCommand(_Form, frozen=True):
    """A command of the agent. A prompt that begins with `/name` runs it. `hint` says what may follow."""

    name: str
    description: str = ""
    hint: str = ""


class TerminalLogin(_Form, frozen=True):
    """The program that logs in: what it is started with, and the variables that it needs beside those of a terminal."""

    command: tuple[str, ...]
    env: dict[str, str] = {}


class LoginMethod(_Form, frozen=True):
    id: str
    name: str
    kind: LoginKind
    description: str = ""
    terminal: TerminalLogin | None = None


class ModelOffer(_Form, frozen=True):
    """All that is known of it from sessions so far. Nothing is known before the first."""

    options: tuple[ModelOption, ...] = ()
    commands: tuple[ModelCommand, ...] = ()
    logins: tuple[LoginMethod, ...] = ()
    # Of the context window, in tokens.
    context_size: int | None = None


def schema_of(options: Sequence[ModelOption]) -> JsonObject | None:
    """The options as a JSON Schema, in the form that editors draw menus from. None: there are none.

    It names no defaults: an editor would send them with every request, as if a person had chosen them.
    """
    properties: JsonObject = {
        option.id: {
            "type": "boolean" if isinstance(option.values[0].value, bool) else "string",
            "title": option.name,
            "description": option.description,
            "enum": [choice.value for choice in option.values],
            "enumItemLabels": [choice.name for choice in option.values],
            "enumDescriptions": [choice.description for choice in option.values],
        }
        for option in options
        if option.values
    }
    return {"type": "object", "properties": properties} if properties else None


@runtime_checkable
class OfferingModel(Protocol):
    """A model that offers such things."""

    @property
    def offer(self) -> ModelOffer: ...

    def watch_offer(self, on_change: Callable[[], None]) -> None:
        """Call a function when the offer has changed."""
        ...

    async def look(self, folder: str | None = None) -> ModelOffer:
        """Ask for the offer, in a session that ends at once. Raises `LanguageModelError`, for example without a login.

        It takes as long as the start of an agent. The ways to log in are known even if it fails, as a rule.
        """
        ...

    async def log_in(self, method: str) -> None:
        """Log in by a method of the kind `agent`. It has a limit, and can be cancelled. Raises `LanguageModelError`."""
        ...
