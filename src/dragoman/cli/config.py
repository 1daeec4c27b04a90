"""`dragoman config`: the files that apply, the settings in force, and an editor for the user's file."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman.cli.actions import check_action
from dragoman.cli.config_edit import edit
from dragoman.cli.errors import DONE, UsageError
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.cli.table import LONGEST_PATH, table
from dragoman.config import ConfigError, user_config_file
from dragoman.config.effective import EffectiveSetting, effective_settings
from dragoman.config.folders import CONFIG_VARIABLE, FILE_NAME
from dragoman.config.problem import dotted
from dragoman.lm.json import encode_text
from dragoman.logs import one_line

__all__ = ["run"]

_OPTIONS = {"path": ("json",), "show": ("json", "all"), "edit": ()}
_HEADINGS = ("SETTING", "VALUE", "SET IN")
_NOT_SET = "(not set)"


def run(arguments: Namespace, context: CommandContext) -> int:
    action: str = arguments.action
    check_action("config", action, (), alone=tuple(_OPTIONS), with_ids=())
    for name in ("all", "json"):
        if getattr(arguments, name) and name not in _OPTIONS[action]:
            takers = " and ".join(each for each, names in _OPTIONS.items() if name in names)
            raise UsageError(f"config {action}: --{name} is for {takers}.")
    match action:
        case "path":
            return _path(context, as_json=arguments.json)
        case "edit":
            return edit(context)
        case _:
            return _show(context, with_defaults=arguments.all, as_json=arguments.json)


# Path.


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    role: Literal["named", "own", "found"]
    # For a person.
    about: str
    # Whether any of it is in force.
    is_read: bool = True
    # Of a found file; None where its models need no trust.
    is_trusted: bool | None = None


def _path(context: CommandContext, *, as_json: bool) -> int:
    for each in _files(context):
        if as_json:
            print(
                encode_text(
                    {
                        "file": str(each.path),
                        "role": each.role,
                        "exists": each.path.is_file(),
                        "read": each.is_read,
                        "trusted": each.is_trusted,
                    }
                )
            )
        else:
            # On its own line: a path can be copied, and may be long.
            print(one_line(str(each.path)))
            say(f"    {each.about}")
    return DONE


def _files(context: CommandContext) -> list[_File]:
    """The files that apply or could, the strongest first."""
    own, found, named = user_config_file(), Path(FILE_NAME).absolute(), context.named_file
    if named is not None:
        by = "--config" if context.option is not None else f"${CONFIG_VARIABLE}"
        gone = "" if named.is_file() else "; there is no such file"
        files = [_File(named.absolute(), "named", f"named by {by}{gone}", named.is_file())]
        roles: tuple[Literal["own", "found"], ...] = ("own", "found")
        files += [
            _File(path, role, f"not read, because {by} names another file", is_read=False)
            for path, role in zip((own, found), roles, strict=True)
            if path.is_file() and path.resolve() != named.resolve()
        ]
        return files
    is_there = own.is_file()
    files = [_File(own, "own", "your own" if is_there else "your own; there is none yet", is_there)]
    if context.found_file is not None:
        files.append(_found(context, found))
    return files


def _found(context: CommandContext, path: Path) -> _File:
    here = "only found in this folder"
    try:
        layer = context.config().found
    except ConfigError:
        about = f"{here}; one of the files has mistakes: dragoman doctor"
        return _File(path, "found", about, is_read=False)
    if layer is None or not layer.models:
        return _File(path, "found", f"{here}; it adds no models, so there is nothing to trust")
    if layer.is_trusted:
        return _File(path, "found", f"{here}, and trusted: its models are used", is_trusted=True)
    about = f"{here}, and not trusted: its models are not used. To look at them: dragoman trust"
    return _File(path, "found", about, is_trusted=False)


# Show.


def _show(context: CommandContext, *, with_defaults: bool, as_json: bool) -> int:
    config = context.config()
    settings = tuple(effective_settings(config))
    shown = tuple(each for each in settings if with_defaults or each.file is not None)
    if as_json:
        for each in shown:
            line = encode_text(
                {
                    "key": _named(each),
                    "value": each.value,
                    "file": each.file,
                    "line": each.line,
                    "by": None if each.file else each.by,
                    "waiting": each.is_waiting,
                }
            )
            print(context.redaction.redacted(line))
        return DONE
    if shown:
        rows = ((_named(each), _value(each), _origin(each)) for each in shown)
        print(context.redaction.redacted(table(_HEADINGS, rows, longest=LONGEST_PATH)))
    if not with_defaults:
        left = len(settings) - len(shown)
        nothing = "" if shown else "No file sets anything. "
        say(f"{nothing}{left} settings have their defaults: dragoman config show --all")
    return DONE


def _named(setting: EffectiveSetting) -> str:
    *above, last = setting.keys
    return f"policy {last + 1}" if isinstance(last, int) else dotted((*above, last))


def _value(setting: EffectiveSetting) -> str:
    if setting.value is None:
        return _NOT_SET
    # A rule is told in words; every other value as it could stand in the file.
    return str(setting.value) if setting.keys[0] == "policy" else encode_text(setting.value)


def _origin(setting: EffectiveSetting) -> str:
    where = setting.by if setting.file is None else f"{setting.file}:{setting.line}"
    return f"{where} (not trusted)" if setting.is_waiting else where
