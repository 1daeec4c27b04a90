"""`docs/reference/configuration.md`: types, limits and defaults from the schema, meanings from `docs/configuration.md`.

That page explains, and a test holds its tables against the schema; here the two stand side by side.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.inspect import Field, StructType, type_info

from dragoman.config.explain import in_words
from dragoman.config.schema import (
    AcpModel,
    ChatConfig,
    ConversationConfig,
    JournalConfig,
    Loop,
    ResponsesModel,
    ScriptModel,
    Serve,
    Tools,
)
from dragoman.policy.rule import PolicyRule
from reference.markdown import WRITTEN, code, page, table

__all__ = ["configuration"]

_PROSE = Path(__file__).parents[2] / "docs" / "configuration.md"
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| (`[a-z_`, ]+`) \| (.*?) \| (.*) \|$", re.MULTILINE)
# Of every kind of model; in its own table, once.
_COMMON = ("name", "reasoning", "reasoning_fallback")

_MODELS: tuple[tuple[str, str, type[msgspec.Struct]], ...] = (
    ("acp", "Agents", AcpModel),
    ("script", "Scripts", ScriptModel),
    ("responses", "Endpoints", ResponsesModel),
)
_TABLES: dict[str, type[msgspec.Struct]] = {
    "[conversation]": ConversationConfig,
    "[journal]": JournalConfig,
    "[tools]": Tools,
    "[chat]": ChatConfig,
    "[[policy]]": PolicyRule,
    "[loop]": Loop,
    "[serve]": Serve,
}


def configuration() -> str:
    prose = _Prose(_PROSE.read_text("utf-8"))
    kinds = ", ".join(f'`"{kind}"`' for kind, _, _ in _MODELS)
    pieces = [
        "## `[models.NAME]`",
        f"`kind` decides which keys there are: {kinds}. NAME has at most 64 letters, digits, dots and dashes. Of every kind:",
        _keys(AcpModel, prose.section("Models"), only=_COMMON),
    ]
    for kind, heading, struct in _MODELS:
        pieces += [f'### `kind = "{kind}"`', _keys(struct, prose.section(heading), but=_COMMON)]
    for name, struct in _TABLES.items():
        pieces += [f"## `{name}`", _keys(struct, prose.section(f"`{name}`"))]
    return page(
        "# Configuration, key by key",
        WRITTEN,
        "What a `dragoman.toml` may say, what each value has to be, and what holds where it is left out. "
        "[Configuration](../configuration.md) has examples, where the file is looked for, and who is trusted with what.",
        *pieces,
    )


class _Prose:
    """The tables of the page that explains, by the heading they stand under."""

    def __init__(self, text: str) -> None:
        found = list(_HEADING.finditer(text))
        ends = [*(heading.start() for heading in found[1:]), len(text)]
        self._sections = {
            heading[1]: text[heading.end() : end] for heading, end in zip(found, ends, strict=True)
        }

    def section(self, beginning: str) -> dict[str, tuple[str, str]]:
        """What its tables say: of each key the default in words, and the meaning."""
        text = next(text for heading, text in self._sections.items() if heading.startswith(beginning))
        rows: dict[str, tuple[str, str]] = {}
        for keys, default, meaning in _ROW.findall(text):
            for key in re.findall(r"`([a-z_]+)`", keys):
                # "the same" as the key before it.
                said = next(reversed(rows.values()))[1] if meaning == "the same" else meaning
                rows[key] = (default, said)
        return rows


def _keys(
    struct: type[msgspec.Struct],
    prose: dict[str, tuple[str, str]],
    *,
    only: tuple[str, ...] = (),
    but: tuple[str, ...] = (),
) -> str:
    return table(("key", "value", "default", "meaning"), _rows(struct, prose, only, but))


def _rows(
    struct: type[msgspec.Struct],
    prose: dict[str, tuple[str, str]],
    only: tuple[str, ...],
    but: tuple[str, ...],
) -> Iterator[tuple[str, ...]]:
    kind = type_info(struct)
    if not isinstance(kind, StructType):
        raise TypeError(struct)
    for field in kind.fields:
        name = field.encode_name
        if name in but or (only and name not in only):
            continue
        in_prose, meaning = prose[name]
        # The prose leads from one page to another; from here they are a folder up.
        meaning = re.sub(r"\]\((?=[\w-]+\.md)", "](../", meaning)
        meaning = meaning.replace("](#", "](../configuration.md#")
        yield code(name), in_words(field.type), _default(field, in_prose), meaning


def _default(field: Field, in_prose: str) -> str:
    """From the schema; where that has none, the words for what holds then."""
    if field.required:
        return "required"
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    match default:
        case None:
            return in_prose
        case bool():
            return code(str(default).lower())
        case str():
            return code(f'"{default}"')
        case tuple():
            return code("[]")
        case dict():
            return code("{}")
        case _:
            return code(str(default))
