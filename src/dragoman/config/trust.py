"""What a configuration may say that only lies in the folder one is in.

Such a file came with the folder: with a repository that was cloned, an archive that was unpacked. Whoever wrote it need
not be the person who runs Dragoman there. So it may add models and may tighten, but it cannot decide that nobody is
asked; and what it starts is said before it is started. Naming the file is how a person says that they trust it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from msgspec.structs import replace

from dragoman.config.folders import CONFIG_VARIABLE
from dragoman.config.loading import BUILTIN_MODELS, Config
from dragoman.config.positions import KeyPath
from dragoman.config.problem import Problem, dotted, quoted
from dragoman.config.schema import AcpModel, ModelConfig, ResponsesModel, Serve, Tools
from dragoman.logs import one_line

__all__ = ["narrowed", "unopened"]

# What lets others in: a server is opened by whoever runs it.
_OPENING = ("host", "api_keys", "cors_origins")


def narrowed(config: Config) -> tuple[Config, tuple[str, ...]]:
    """The configuration without what would spare a question, and what to tell the person, a line each."""
    lines = _told(config, tuple(_loosening(config)))
    models = {id_: _asking(model) for id_, model in config.models.items()}
    narrow = replace(
        config,
        tools=_asking_tools(config.tools),
        models=models,
        announcements={
            id_: str(Problem(config.source.at(("models", id_)), text)) for id_, text in _programs(config)
        },
    )
    return narrow, lines


def unopened(config: Config) -> tuple[Config, tuple[str, ...]]:
    """The configuration without what would let others into a server, and what to tell the person."""
    closed = Serve()
    opening = tuple(name for name in _OPENING if getattr(config.serve, name) != getattr(closed, name))
    serve = replace(config.serve, **{name: getattr(closed, name) for name in opening})
    return replace(config, serve=serve), _told(config, tuple(("serve", name) for name in opening))


def _told(config: Config, dropped: tuple[KeyPath, ...]) -> tuple[str, ...]:
    why = "is not honoured, because the file was not named but only found here."
    lines = [str(Problem(config.source.at(keys), f"{_named(keys)} {why}")) for keys in dropped]
    if dropped:
        path = shlex.quote(str(config.source.path))
        lines.append(f"To honour it, name the file: dragoman --config {path} …, or {CONFIG_VARIABLE}={path}")
    return tuple(lines)


def _loosening(config: Config) -> Iterator[KeyPath]:
    if config.tools.auto_approve:
        yield "tools", "auto_approve"
    for pattern, value in config.tools.urls.items():
        if value:
            yield "tools", "urls", pattern
    for id_, model in config.models.items():
        if model != _asking(model):
            yield "models", id_, "permission"


def _asking_tools(tools: Tools) -> Tools:
    # Addresses that are always asked about may stay.
    urls = {pattern: value for pattern, value in tools.urls.items() if not value}
    return replace(tools, auto_approve=False, urls=urls)


def _asking(model: ModelConfig) -> ModelConfig:
    return replace(model, permission="deny") if isinstance(model, AcpModel) else model


def _programs(config: Config) -> Iterator[tuple[str, str]]:
    """What would be started, or started differently, because this file says so: a model and a sentence."""
    for id_, model in config.models.items():
        if model is BUILTIN_MODELS.get(id_):
            continue
        if isinstance(model, AcpModel) and (model.command or model.env or model.mode or model.options):
            started = shlex.join(model.command) if model.command else str(model.agent)
            changed = [*model.env, *model.options, *([f"mode {model.mode}"] if model.mode else [])]
            with_these = f", with {', '.join(changed)}" if changed else ""
            yield id_, f"the model {quoted(id_)} starts: {one_line(started + with_these)}"
        elif isinstance(model, ResponsesModel):
            values = filter(None, (model.api_key, *model.headers.values()))
            sent = [value for value in values if value.startswith("$")]
            with_these = f", with {', '.join(sent)}" if sent else ""
            address = one_line(model.base_url + with_these)
            yield id_, f"the model {quoted(id_)} sends all that is said to: {address}"


def _named(keys: KeyPath) -> str:
    *table, key = keys
    return f"{quoted(str(key))} in [{dotted(tuple(table))}]"
