"""A configuration of two layers: the user's own file, and a `./dragoman.toml` that was only found.

The found file came with its folder, for example with a cloned repository. Its author is unknown. So it may add and
tighten:

- new models. They stay in `Config.found` and out of `Config.models` until the user trusts the file; code that lists,
  builds or resolves models reads `Config.models` and therefore cannot touch them.
- `permission` of these models, `deny` or `ask`.
- `false` in `tools.eligible` and `tools.urls`. `false` of either layer wins.
- rules that ask or deny.

Every other key of the found file is ignored, also after the user has trusted the file. To honour the whole file, the
user names it with `--config` or `$DRAGOMAN_CONFIG`; then there is only one layer.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator

from msgspec.structs import replace

from dragoman.config.folders import CONFIG_VARIABLE
from dragoman.config.loading import BUILTIN_MODELS, Config, Found
from dragoman.config.positions import KeyPath
from dragoman.config.problem import Problem, dotted, header, quoted
from dragoman.config.references import variables
from dragoman.config.rules import located
from dragoman.config.schema import AcpModel, FleetModel, ModelConfig, ResponsesModel, Tools
from dragoman.logs import one_line

__all__ = ["effects", "ignored", "layered", "trusted"]

# For the rest, the user looks into the file; a hostile file must not fill the screen.
_MAX_NAMED = 12
# The values of `permission` that allow nothing.
_CAREFUL = ("deny", "ask")


def layered(own: Config, found: Config) -> Config:
    """The user's own configuration with what a found file may add to it. The found file is not trusted yet."""
    models = {id_: _careful(model) for id_, model in found.models.items() if _is_new(own, found, id_)}
    refused = tuple(pattern for pattern, value in found.tools.urls.items() if not value)
    return replace(
        own,
        tools=replace(own.tools, eligible=own.tools.eligible | _ineligible(found.tools)),
        refused_urls=refused,
        found_rules=tuple(each for each in located(found) if each.rule.decision != "allow"),
        found=Found(found.source, models),
    )


def trusted(config: Config) -> Config:
    """The same configuration with the models of its found file in use: behind the user's, before the built-in ones."""
    if config.found is None:
        return config
    own = {id_: model for id_, model in config.models.items() if not _is_builtin(id_, model)}
    models = own | config.found.models | config.models
    return replace(config, models=models, found=replace(config.found, is_trusted=True))


def ignored(own: Config, found: Config) -> str | None:
    """One line that names the keys of the found file that are not honoured; None if there are none."""
    keys = tuple(_ignored_keys(own, found))
    if not keys:
        return None
    named = [f"{_named(path)} (line {found.source.line(path)})" for path in keys[:_MAX_NAMED]]
    if len(keys) > _MAX_NAMED:
        named.append(f"and {len(keys) - _MAX_NAMED} more")
    path = one_line(shlex.quote(str(found.source.path)))
    return (
        f"{one_line(str(found.source.path))}: ignored, because the file was only found in this folder: "
        f"{', '.join(named)}. To honour the whole file, name it: dragoman --config {path} …, or {CONFIG_VARIABLE}={path}"
    )


def effects(found: Found) -> dict[str, str]:
    """What each model of a found file starts, reads and sends once the file is trusted: one line by model id."""
    return {
        id_: str(Problem(found.source.at(("models", id_)), _effect(id_, model)))
        for id_, model in found.models.items()
    }


def _is_builtin(id_: str, model: ModelConfig) -> bool:
    return model is BUILTIN_MODELS.get(id_)


def _is_new(own: Config, found: Config, id_: str) -> bool:
    # `own.models` has the built-in models, too.
    return id_ not in own.models and not _is_builtin(id_, found.models[id_])


def _careful(model: ModelConfig) -> ModelConfig:
    """The model, but never with a setting that allows anything."""
    if isinstance(model, AcpModel) and model.permission not in _CAREFUL:
        return replace(model, permission="deny")
    return model


def _ineligible(tools: Tools) -> dict[str, bool]:
    return {name: False for name, value in tools.eligible.items() if not value}


def _ignored_keys(own: Config, found: Config) -> Iterator[KeyPath]:
    """Every key that the file writes and that has no effect, in the file's order."""
    document: dict[str, dict[str, object]] = tomllib.loads(found.source.text)
    for table, values in document.items():
        if table == "policy":
            rules = enumerate(found.policy)
            yield from ((table, number) for number, rule in rules if rule.decision == "allow")
            continue
        for key, value in values.items():
            match table, key, value:
                case "models", _, dict():
                    yield from _ignored_of_model(own, found, key, value)
                case "tools", "eligible" | "urls", dict():
                    yield from ((table, key, name) for name, is_true in value.items() if is_true)
                case _:
                    yield table, key


def _named(path: KeyPath) -> str:
    return f'{header(path)} with decision = "allow"' if isinstance(path[-1], int) else dotted(path)


def _ignored_of_model(own: Config, found: Config, id_: str, table: dict[str, object]) -> Iterator[KeyPath]:
    if not _is_new(own, found, id_):
        yield "models", id_
    elif table.get("permission", "ask") not in _CAREFUL:
        yield "models", id_, "permission"


# What a person reads before they trust a file.


def _effect(id_: str, model: ModelConfig) -> str:
    read = variables(model)
    match model:
        case AcpModel():
            started = shlex.join(model.command) if model.command else f"the agent {model.agent}"
            with_these = f", with {', '.join(changed)}" if (changed := tuple(_settings(model))) else ""
            reads = _and("all environment variables" if model.env_inherit else "", *read)
            text = f"starts: {started}{with_these}" + (f". It gets {reads}" if reads else "")
        case ResponsesModel():
            text = f"sends all that is said to: {model.base_url}" + (f", with {_and(*read)}" if read else "")
        case FleetModel():
            text = f"sends all that is said to your fleet, for the model {model.model or id_}"
        case _:
            text = f"reads the script: {model.path}"
    return f"the model {quoted(id_)} {one_line(text)}"


def _settings(model: AcpModel) -> Iterator[str]:
    yield from (f"{name}={value}" for name, value in model.env.items())
    yield from (f"option {name}={value}" for name, value in model.options.items())
    for name in ("mode", "auth", "cwd"):
        if (value := getattr(model, name)) is not None:
            yield f"{name} {value}"


def _and(*parts: str) -> str:
    *others, last = filter(None, parts) if any(parts) else ("",)
    return f"{', '.join(others)} and {last}" if others else last
