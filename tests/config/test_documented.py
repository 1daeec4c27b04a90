"""docs/configuration.md against the schema: every key, in its section, with its default."""

import re
from pathlib import Path

import msgspec
import pytest

from dragoman.backends.agent.profile.traits import CATALOGUE
from dragoman.config import (
    AcpModel,
    ChatConfig,
    ConsoleConfig,
    ConversationConfig,
    FleetConfig,
    FleetModel,
    JournalConfig,
    KeyConfig,
    Loop,
    ResponsesModel,
    ScriptModel,
    Serve,
    Tools,
)
from dragoman.config.schema import Tables
from dragoman.policy.rule import PolicyRule

_DOCUMENT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text("utf-8")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| (`[a-z_`, ]+`) \| (.*?) \| .* \|$", re.MULTILINE)
# What all kinds of models have stands once.
_OF_EVERY_MODEL = {"name", "reasoning", "reasoning_fallback"}


def _section(beginning: str) -> str:
    headings = list(_HEADING.finditer(_DOCUMENT))
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        if heading[1].startswith(beginning):
            return _DOCUMENT[heading.end() : after.start() if after else None]
    raise AssertionError(f"no section begins with {beginning!r}")


def _documented(beginning: str) -> dict[str, str]:
    """The keys of a section, and what it says of their defaults."""
    found: dict[str, str] = {}
    for keys, default in _ROW.findall(_section(beginning)):
        names = re.findall(r"`([a-z_]+)`", keys)
        values = default.split(", ") if len(names) > 1 and "," in default else [default] * len(names)
        found |= dict(zip(names, values, strict=True))
    return found


def _default(field: msgspec.structs.FieldInfo) -> str | None:
    """As the document writes it; None where it needs words."""
    if field.required:
        return "required"
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    match default:
        case None:
            return None
        case bool():
            return f"`{str(default).lower()}`"
        case tuple():
            return "`[]`"
        case str():
            return f'`"{default}"`'
        case _:
            return f"`{default}`"


@pytest.mark.parametrize(
    ("section", "table"),
    [
        ("Agents", AcpModel),
        ("Scripts", ScriptModel),
        ("Endpoints", ResponsesModel),
        ("Models of a fleet", FleetModel),
        ("`[conversation]`", ConversationConfig),
        ("`[journal]`", JournalConfig),
        ("`[tools]`", Tools),
        ("`[chat]`", ChatConfig),
        ("`[[policy]]`", PolicyRule),
        ("`[loop]`", Loop),
        ("`[serve]`", Serve),
        ("`[console]`", ConsoleConfig),
        ("`[keys.NAME]`", KeyConfig),
        ("`[fleet]`", FleetConfig),
    ],
)
def test_every_key_is_documented_with_its_default(section: str, table: type[msgspec.Struct]) -> None:
    documented = _documented(section)
    fields = {field.name: field for field in msgspec.structs.fields(table)}
    elsewhere = _OF_EVERY_MODEL if fields.keys() >= _OF_EVERY_MODEL else set()
    own = {name: field for name, field in fields.items() if name not in elsewhere}
    assert documented.keys() == own.keys()
    for name, field in own.items():
        default = _default(field)
        assert default in (None, documented[name]), name


def test_what_every_model_has_is_documented_once() -> None:
    documented = _documented("Models")
    assert documented.keys() == {"kind", *_OF_EVERY_MODEL}
    fields = {field.name: field for field in msgspec.structs.fields(AcpModel)}
    for name in ("reasoning", "reasoning_fallback"):
        assert documented[name] == _default(fields[name])


def test_every_table_has_a_section() -> None:
    headings = {"models": "Models", "policy": "`[[policy]]`", "keys": "`[keys.NAME]`"}
    for field in msgspec.structs.fields(Tables):
        assert _section(headings.get(field.name, f"`[{field.name}]`"))


def test_every_agent_of_the_catalogue_is_named() -> None:
    row = next(line for line in _section("Agents").splitlines() if line.startswith("| `agent`"))
    assert [name for name in re.findall(r"`([a-z0-9-]+)`", row) if name != "agent"] == list(CATALOGUE)
