"""Scripts in files: one JSON object a line.

    // Comments and blank lines are skipped.
    {"model": {"name": "Demo"}, "pace": 30}
    {"when": {"prompt": "notes", "round": 0}, "do": [{"say": "Let me look."}, {"call": "read_file", "input": {"path": "notes.txt"}}]}
    {"do": [{"say": "You said: ${prompt}"}]}

The first line may hold settings: what the model says of itself, and the pace in words a second. Every other line is a
reply. A file that is not right is refused with the line, what is wrong there, and the nearest name that would be right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar, get_args

import msgspec

from dragoman.backends.scripted.scene import unknown_name
from dragoman.backends.scripted.script import (
    DEFAULT_INFO,
    STEPS,
    Call,
    Fail,
    Say,
    Script,
    ScriptedReply,
    ScriptStep,
    Think,
    When,
)
from dragoman.lm import ErrorKind, ModelInfo, Outcome
from dragoman.lm.json import decode
from dragoman.nearest import nearest
from dragoman.regular_file import read_regular

__all__ = ["MAX_SCRIPT_BYTES", "ScriptError", "load_script", "parse_script"]

_T = TypeVar("_T")

# A script is written by hand, or recorded from an answer. Pictures in it take a few megabytes.
MAX_SCRIPT_BYTES = 32 * 1024 * 1024
# A person reads along at about this many words a second.
_DEFAULT_PACE = 30.0

_MODEL_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(ModelInfo))
_PLACES = ("prompt", "result", "reason")


class ScriptError(Exception):
    """A script file that cannot be played. The message names file and line, the fault, and what to do."""


class _Settings(msgspec.Struct, frozen=True):
    model: dict[str, object] = {}
    pace: float = _DEFAULT_PACE


def load_script(path: Path, *, id: str | None = None) -> Script:  # noqa: A002 - as in ModelInfo
    """The script in a file. The model's id is the one given here, else the file's own, else the file's name."""
    try:
        text = read_regular(path, MAX_SCRIPT_BYTES).decode()
    except OSError as error:
        raise ScriptError(
            f"{path}: the script cannot be read: {error.strerror}. Give the path of a file of JSON lines."
        ) from error
    except UnicodeDecodeError as error:
        raise ScriptError(f"{path}: the script is not UTF-8 text ({error}). Save it as UTF-8.") from error
    return parse_script(text, source=str(path), id=id)


def parse_script(text: str, *, source: str = "script", id: str | None = None) -> Script:  # noqa: A002 - as in ModelInfo
    """The script in a text. `source` is where it came from, for messages about it."""
    settings: _Settings | None = None
    info = DEFAULT_INFO
    replies: list[ScriptedReply] = []
    # Only a line feed ends a line: other separators may stand inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("//"):
            continue
        where = f"{source}:{number}"
        value = _object(line, where)
        if "model" in value or "pace" in value:
            if replies or settings is not None:
                raise ScriptError(
                    f"{where}: settings stand once, before every reply. Move them to the first line."
                )
            settings = _settings(value, where)
            info = _info(settings.model, where)
            continue
        made = _reply(value, where)
        covering = next((earlier for earlier in replies if earlier.when in (None, When())), None)
        if covering is not None:
            raise ScriptError(
                f"{where}: this reply never answers, because {covering.where} has no conditions and stands before it. "
                "Put the reply without conditions last."
            )
        replies.append(made)
    if not replies:
        raise ScriptError(
            f'{source}: there is no reply in the script. Add one: {{"do": [{{"say": "Hello."}}]}}'
        )
    settings = settings or _Settings()
    info = msgspec.structs.replace(info, id=id or settings.model.get("id", Path(source).stem))
    return Script(tuple(replies), info, settings.pace)


def _object(line: str, where: str) -> dict[str, object]:
    try:
        value = decode(line)
    except msgspec.DecodeError as error:
        raise ScriptError(
            f"{where}: not valid JSON: {error}. Write one JSON object on each line; comments begin with `//`."
        ) from error
    if not isinstance(value, dict):
        raise ScriptError(f'{where}: a line is a JSON object like {{"do": [{{"say": "Hello."}}]}}.')
    return value


def _settings(value: dict[str, object], where: str) -> _Settings:
    _known(value, ("model", "pace"), where, "a setting")
    settings = _converted(value, _Settings, where)
    if not settings.pace > 0:
        raise ScriptError(f"{where}: `pace` is words a second, so more than 0; not {settings.pace:g}.")
    return settings


def _info(given: Mapping[str, object], where: str) -> ModelInfo:
    _known(given, _MODEL_FIELDS, f"{where}: `model`", "a field of a model")
    return _converted({**msgspec.to_builtins(DEFAULT_INFO), **given}, ModelInfo, f"{where}: `model`")


def _reply(value: dict[str, object], where: str) -> ScriptedReply:
    _known(value, ("when", "do"), where, "a part of a reply")
    conditions, steps = value.get("when"), value.get("do")
    if not isinstance(steps, list) or not steps:
        raise ScriptError(f'{where}: a reply has steps: "do": [{{"say": "…"}}, …].')
    when = None
    if conditions is not None:
        if not isinstance(conditions, dict):
            raise ScriptError(f'{where}: `when` is an object of conditions, like {{"prompt": "hello"}}.')
        _known(conditions, When.__struct_encode_fields__, f"{where}: `when`", "a condition")
        _one_of(conditions, "outcome", get_args(Outcome), f"{where}: `when`")
        when = _converted(conditions, When, f"{where}: `when`")
    return ScriptedReply(
        tuple(_step(step, f"{where}: step {n}") for n, step in enumerate(steps, start=1)), when, where
    )


def _step(value: object, where: str) -> ScriptStep:
    if not isinstance(value, dict):
        raise ScriptError(f'{where}: a step is an object like {{"say": "…"}}.')
    kinds = [key for key in value if key in STEPS]
    if len(kinds) != 1:
        # A misspelt key is the usual cause, and the first key is usually the one that says what the step is.
        if not kinds and value:
            _known(dict.fromkeys([next(iter(value))]), STEPS, where, "a step")
        raise ScriptError(f"{where}: a step has exactly one of {_listed(STEPS)}.")
    kind = STEPS[kinds[0]]
    _known(value, kind.__struct_encode_fields__, where, f"a part of a `{kinds[0]}` step")
    _one_of(value, "fail", get_args(ErrorKind), where)
    step: ScriptStep = _converted(value, kind, where)  # type: ignore[assignment]  # STEPS holds the kinds of Step
    for text in _texts(step):
        name = unknown_name(text)
        if name is not None:
            raise ScriptError(
                f"{where}: `${{{name}}}` is nothing that can be filled in.{_nearest(name, _PLACES)} "
                f"There are {_listed(_PLACES)}; write `$${{{name}}}` to say it as it stands."
            )
    return step


def _texts(step: ScriptStep) -> Iterable[str]:
    """The strings of a step in which places are filled."""
    match step:
        case Say(text) | Think(text) | Fail(message=text):
            yield text
        case Call(input=arguments):
            yield from _strings(arguments)
        case _:
            pass


def _strings(value: object) -> Iterable[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from _strings(inner)
        case list():
            for inner in value:
                yield from _strings(inner)
        case _:
            pass


def _converted(value: object, kind: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ScriptError(f"{where}: {error}.") from error


def _known(given: Iterable[str], names: Collection[str], where: str, what: str) -> None:
    for name in given:
        if name not in names:
            raise ScriptError(
                f"{where}: `{name}` is not {what}.{_nearest(name, names)} There are {_listed(sorted(names))}."
            )


def _one_of(given: Mapping[str, object], key: str, values: Collection[str], where: str) -> None:
    value = given.get(key)
    if isinstance(value, str):
        _known([value], values, where, f"a value of `{key}`")


def _nearest(name: str, names: Iterable[str]) -> str:
    meant = nearest(name, names)
    return f" Did you mean `{meant}`?" if meant else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
