"""Settings under which an agent may ask: its own modes and options, as it announced them, and what the catalogue knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.acp.messages import SessionCreated
from dragoman.backends.agent.profile.settings import AgentSettings
from dragoman.backends.agent.profile.traits import cautions_for
from dragoman.config import quoted
from dragoman.lm import JsonObject

__all__ = ["about_pictures", "remedies"]

# What an agent says of a mode: shown as far as a person reads it.
_MAX_ABOUT = 160
# Modes and values that are listed: agents have a handful.
_MAX_CHOICES = 12
_ASKS = re.compile(r"\b(?:asks?|prompts?|approv\w+|confirm\w*|permissions?)\b", re.IGNORECASE)
# In the id of a mode as well: `acceptEdits`, `dontAsk`, `full-access`.
_DOES_NOT_ASK = re.compile(r"auto|accept|bypass|skip|yolo|full|never|don.?t|without|\bno\b", re.IGNORECASE)
# An option that is no mode by its category, but decides the same.
_DECIDES = re.compile(r"approv|permission", re.IGNORECASE)
# Of what the catalogue knows: what makes an agent ask, and not how it asks.
_OF_ASKING = re.compile(r"approv|permission|without asking|asks about nothing", re.IGNORECASE)
_OF_PICTURES = re.compile(r"pictur|image|vision|modalit", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A mode, or a value of an option."""

    id: str
    about: str

    @property
    def asks(self) -> bool:
        """Whether the description says that the agent asks. A mode `default` without one counts too."""
        if not self.about:
            return self.id == "default"
        return bool(_ASKS.search(self.about)) and not _DOES_NOT_ASK.search(f"{self.id} {self.about}")

    def __str__(self) -> str:
        return f"{quoted(self.id)}{f' ({self.about})' if self.about else ''}"


def remedies(
    settings: AgentSettings, created: SessionCreated, mode: object, *, edits: bool = False
) -> Iterator[str]:
    """What to try, a line each, for an agent that acts without asking in `mode`. `edits`: it edited a file so."""
    where = f"[models.{settings.model_id}]"
    modes = _choices((created.modes or {}).get("availableModes"), "id")
    if modes:
        yield from _advice("mode", mode, modes, where, "mode = {}")
    options = [*_mode_options(created, modes)]
    for option in options:
        line = f"options = {{ {_key(option)} = {{}} }}"
        values = _choices(option.get("options"), "value")
        yield from _advice(f"option {option['id']}", option.get("currentValue"), values, where, line)
    if edits and not settings.fs:
        yield (
            f"Write into {where}: fs = true. Dragoman then asks you about what the agent writes through it;"
            " run this again to see whether it does."
        )
    if cautions_for(settings.traits, settings.command, fs=bool(settings.fs)):
        yield f"See the caution at model {settings.model_id} above."
    yield from (f"Known of it: {quirk}" for quirk in settings.traits.quirks if _OF_ASKING.search(quirk))
    none = "" if modes or options else "It announces no modes. "
    yield f"{none}Its own settings may allow this: look there for what makes it ask."


def about_pictures(settings: AgentSettings) -> Iterator[str]:
    """What the catalogue says about pictures with this agent."""
    yield from (f"Known of it: {quirk}" for quirk in settings.traits.quirks if _OF_PICTURES.search(quirk))


def _advice(what: str, current: object, choices: list[_Choice], where: str, line: str) -> Iterator[str]:
    here = next((choice for choice in choices if choice.id == current), None)
    if here is not None:
        yield f"It is in {what} {here}." if what == "mode" else f"Its {what} is {here}."
    others = [choice for choice in choices if choice.id != current]
    asking = [choice for choice in others if choice.asks]
    for choice in asking:
        yield (
            f"By its own description it asks with {what} {choice}. Write into {where}: {_filled(line, choice)}"
        )
    if others and not asking:
        named = ", ".join(map(str, others))
        yield f"It also has {what} {named}. To try one, write into {where}: {_filled(line, others[0])}"


def _filled(line: str, choice: _Choice) -> str:
    return line.replace("{}", quoted(choice.id))


def _key(option: JsonObject) -> str:
    name = str(option["id"])
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def _mode_options(created: SessionCreated, modes: list[_Choice]) -> Iterator[JsonObject]:
    """Options that decide what it does without asking. Newer agents announce their modes in both ways: one is enough."""
    known = {choice.id for choice in modes}
    for option in created.config_options or ():
        values = {choice.id for choice in _choices(option.get("options"), "value")}
        id_ = option.get("id")
        decides = option.get("category") == "mode" or _DECIDES.search(f"{id_} {option.get('name')}")
        if isinstance(id_, str) and decides and values and values != known:
            yield option


def _choices(listed: object, key: str) -> list[_Choice]:
    return [*_each_choice(listed, key)][:_MAX_CHOICES]


def _each_choice(listed: object, key: str) -> Iterator[_Choice]:
    for each in listed if isinstance(listed, list | tuple) else ():
        match each:
            case {"options": inner}:
                # Values come in groups, too.
                yield from _each_choice(inner, key)
            case dict() if isinstance(id_ := each.get(key), str):
                about = each.get("description")
                yield _Choice(id_, _short(about) if isinstance(about, str) else "")


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _MAX_ABOUT else f"{line[:_MAX_ABOUT]}…"
