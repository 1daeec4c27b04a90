"""What is known of a model without starting it: for `dragoman models`, `dragoman doctor` and `dragoman init`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.config import (
    BUILTIN_MODELS,
    AcpModel,
    Config,
    ConfigError,
    ModelConfig,
    ResponsesModel,
    resolved,
)
from dragoman.models import ModelNotUsable, build_unguarded, cautions_of

__all__ = ["BUILT_IN", "ModelStatus", "model_status", "model_statuses"]

BUILT_IN = "built in"
_TO_TRUST = "It is not trusted. To look at what it starts and to trust it: dragoman trust"


@dataclass(frozen=True, slots=True)
class ModelStatus:
    id: str
    name: str
    kind: str
    # In a few words, such as "installed" or "variable not set".
    state: str
    is_usable: bool
    # What to do, and what to be careful about: one sentence each.
    steps: tuple[str, ...] = ()
    # Of an agent: the setting for requests whose client cannot be asked.
    permission: str | None = None
    # The catalogue's id of an agent.
    agent: str | None = None
    # The file and line that define it. None: it is built in.
    file: str | None = None
    line: int | None = None

    @property
    def origin(self) -> str:
        return BUILT_IN if self.file is None else f"{self.file}:{self.line}"


def model_statuses(config: Config) -> Iterator[ModelStatus]:
    """Every model: those that may be used, then those of a found file that is not trusted."""
    yield from (model_status(config, id_) for id_ in config.models)
    # Nothing of these is read, looked for or started.
    yield from (
        _status(config, id_, model, "not trusted", steps=(_TO_TRUST,), is_usable=False)
        for id_, model in config.untrusted.items()
    )


def model_status(config: Config, model_id: str) -> ModelStatus:
    model = config.models[model_id]
    try:
        ready = resolved(config, model_id)
    except ConfigError as error:
        steps = tuple(str(error).splitlines())
        return _status(config, model_id, model, "variable not set", steps=steps, is_usable=False)
    cautions = cautions_of(config, model_id)
    if isinstance(ready, AcpModel) and ready.command is not None and not shutil.which(ready.command[0]):
        step = f"The command {ready.command[0]} is not found. Install it, or give its full path."
        return _status(config, model_id, model, "command not found", steps=(step, *cautions), is_usable=False)
    try:
        name = build_unguarded(config, model_id).info.name
    except ModelNotUsable as error:
        is_missing = isinstance(ready, AcpModel) and ready.command is None
        state = "not installed" if is_missing else "not usable"
        return _status(config, model_id, model, state, steps=(error.sentence, *cautions), is_usable=False)
    return _status(config, model_id, model, _ready_state(model), steps=cautions, name=name)


def _ready_state(model: ModelConfig) -> str:
    match model:
        case AcpModel() if model.command == _demo_command():
            return BUILT_IN
        case AcpModel():
            return "installed"
        case ResponsesModel():
            return "configured"
        case _:
            return "ready"


def _demo_command() -> tuple[str, ...] | None:
    [demo] = BUILTIN_MODELS.values()
    return demo.command if isinstance(demo, AcpModel) else None


def _status(
    config: Config,
    id_: str,
    model: ModelConfig,
    state: str,
    *,
    steps: tuple[str, ...] = (),
    is_usable: bool = True,
    name: str | None = None,
) -> ModelStatus:
    source = config.source_of(id_)
    is_written = source.writes(("models", id_))
    return ModelStatus(
        id_,
        name or model.name or id_,
        str(model.__struct_config__.tag),
        state,
        is_usable,
        steps,
        model.permission if isinstance(model, AcpModel) else None,
        model.agent if isinstance(model, AcpModel) else None,
        str(source.path) if is_written else None,
        source.line(("models", id_)) if is_written else None,
    )
