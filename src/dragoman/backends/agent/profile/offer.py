"""What an agent offers people to choose from, as it reports it in its sessions, and what is remembered of that.

ACP has modes and configuration options. Where an agent has an option of the category `mode`, its modes are the same thing
in an older form, and are left out. What is remembered is stored by the model's id and the agent's command, because an
editor shows it before a session has begun. It is only shown: what holds is what a session reports.
"""

from __future__ import annotations

import hashlib
import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from dragoman.acp.messages import AuthMethod, SessionCreated
from dragoman.backends.agent.profile.observations import ObservationStore
from dragoman.lm.json import JsonObject
from dragoman.lm.offering import (
    LoginKind,
    LoginMethod,
    ModelCommand,
    ModelOffer,
    ModelOption,
    SelectableValue,
    TerminalLogin,
)

__all__ = ["MODE", "RememberedOffer", "commands_of", "logins_of", "options_of"]

_log = logging.getLogger(__name__)

# The option that stands for the modes of an agent that has no option for them.
MODE = "mode"
# All of it comes from the agent, and is stored and shown: more is of no use to a person.
_MAX_OPTIONS = 50
_MAX_VALUES = 500
_MAX_COMMANDS = 500
_MAX_LETTERS = 500


def options_of(created: SessionCreated) -> tuple[ModelOption, ...]:
    """The options of a session, its modes among them."""
    options = [*_each(created.config_options or ())][:_MAX_OPTIONS]
    modes = created.modes or {}
    if modes and not any(MODE in (option.category, option.id) for option in options):
        values = tuple(_values(modes.get("availableModes"), "id"))
        current = modes.get("currentModeId")
        if values:
            mode = current if isinstance(current, str) else None
            options.insert(0, ModelOption(MODE, "Mode", "", MODE, mode, values))
    return tuple(options)


def _each(reported: Sequence[JsonObject]) -> Iterator[ModelOption]:
    for option in reported:
        id_, current = option.get("id"), option.get("currentValue")
        if not isinstance(id_, str):
            continue
        values = tuple(_values(option.get("options"), "value"))
        if option.get("type") == "boolean":
            values = (SelectableValue(value=True, name="On"), SelectableValue(value=False, name="Off"))
        if values:
            yield ModelOption(
                id_,
                _text(option.get("name")) or id_,
                _text(option.get("description")),
                _text(option.get("category")),
                current if isinstance(current, str | bool | int | float) else None,
                values[:_MAX_VALUES],
            )


def _values(reported: object, key: str) -> Iterator[SelectableValue]:
    for each in _objects(reported):
        if "options" in each:
            # A group of values.
            yield from _values(each["options"], key)
        elif isinstance(value := each.get(key), str | bool | int | float):
            name = _text(each.get("name")) or str(value)
            yield SelectableValue(value, name, _text(each.get("description")))


def commands_of(reported: object) -> tuple[ModelCommand, ...]:
    """The commands in an `available_commands_update`. A name with white space could not be typed."""
    found: list[ModelCommand] = []
    for each in _objects(reported):
        name, about = each.get("name"), each.get("input")
        if isinstance(name, str) and name and not any(map(str.isspace, name)):
            hint = _text(about.get("hint")) if isinstance(about, dict) else ""
            found.append(ModelCommand(name[:_MAX_LETTERS], _text(each.get("description")), hint))
    return tuple(found[:_MAX_COMMANDS])


def logins_of(
    methods: Sequence[AuthMethod], command: Sequence[str], env: Mapping[str, str]
) -> tuple[LoginMethod, ...]:
    """The ways to log in. `env` has the variables that the agent gets beside those of this process."""
    found: list[LoginMethod] = []
    for method in methods:
        name, about = _text(method.name) or method.id, _text(method.description)
        login = method.terminal_login(command)
        if login is not None:
            words, more = login
            terminal = TerminalLogin(words, {**env, **more})
            found.append(LoginMethod(method.id, name, "terminal", about, terminal))
        else:
            kind: LoginKind = "env_var" if method.type == "env_var" else "agent"
            found.append(LoginMethod(method.id, name, kind, about))
    return tuple(found)


def _text(value: object) -> str:
    """On one line: it stands in lists."""
    return " ".join(value.split())[:_MAX_LETTERS] if isinstance(value, str) else ""


def _objects(values: object) -> Iterator[JsonObject]:
    for value in values if isinstance(values, list | tuple) else ():
        if isinstance(value, dict):
            yield value


class RememberedOffer:
    """The offer of one model. What cannot be stored is known while this process runs."""

    def __init__(self, model_id: str, command: Sequence[str], store: ObservationStore | None = None) -> None:
        digest = hashlib.sha256(shlex.join(command).encode("utf-8", "surrogatepass")).hexdigest()
        self._key = (f"offer of {model_id} #{digest[:16]}", "")
        self._store = store
        self._known: ModelOffer | None = None
        # Called when it has changed.
        self.on_change: Callable[[], None] | None = None

    @property
    def known(self) -> ModelOffer:
        if self._known is None:
            self._known = self._read()
        return self._known

    def note(self, **seen: object) -> None:
        """Remember what a session reports. It replaces what was known."""
        after = msgspec.structs.replace(self.known, **seen)
        if after == self.known:
            return
        self._known = after
        try:
            if self._store is not None:
                # Logins may contain variables that are secret: they are learnt anew with each start of the agent.
                stored = msgspec.structs.replace(after, logins=())
                self._store.update(*self._key, lambda _: msgspec.json.encode(stored))
        except Exception as error:
            _log.warning("the %s is not stored: %s", self._key[0], error)
        if self.on_change is not None:
            self.on_change()

    def _read(self) -> ModelOffer:
        try:
            stored = self._store.read(*self._key) if self._store is not None else None
            return ModelOffer() if stored is None else msgspec.json.decode(stored, type=ModelOffer)
        except Exception as error:
            _log.info("%s cannot be read: %s", self._key[0], error)
            return ModelOffer()
