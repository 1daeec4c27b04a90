"""Builds a language model from its configuration. A back end has one case in `_made`, and nothing else here knows of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dragoman.backends.scripted import ScriptedModel, ScriptError, load_script
from dragoman.config import (
    AcpModel,
    Config,
    ConfigError,
    FleetModel,
    ModelConfig,
    ResponsesModel,
    ScriptModel,
    inherited,
    quoted,
    resolved,
    user_config_file,
)
from dragoman.lm import Capabilities, ErrorKind, GuardedModel, LanguageModel, LanguageModelError, ModelInfo
from dragoman.lm.client_services import ClientRegistry
from dragoman.nearest import nearest

if TYPE_CHECKING:
    from dragoman.backends.agent.model import AgentModel
    from dragoman.backends.agent.profile.memory_limit import MemoryLimit
    from dragoman.backends.remote.fleet import Fleet
    from dragoman.backends.remote.model import RemoteModel
    from dragoman.backends.responses.model import EndpointModel
    from dragoman.journal.writer import Journals
    from dragoman.permissions.pipeline import PermissionServices
    from dragoman.process import Ledger
    from dragoman.store import AgentStore

__all__ = ["ModelNotUsable", "SharedServices", "build", "build_unguarded", "find", "folder_of"]

_ADDED = "`dragoman agents add {}` installs the agent of that name, and makes it a model."
# For clients: the message may name files and commands of the operator.
_UNUSABLE = (
    "This model cannot be used as it is configured. Ask the operator of this server, whose log says why."
)


class ModelNotUsable(LanguageModelError):
    """A model that cannot even be started, because there is none of that name or its configuration is not right."""

    def __init__(self, kind: ErrorKind, message: str, *, hint: str | None = None) -> None:
        super().__init__(kind, message, hint=hint, public=_UNUSABLE)


def find(config: Config, model_id: str) -> ModelConfig:
    """The model of that name, as it is configured."""
    if model_id in config.models:
        return config.models[model_id]
    if model_id in config.untrusted:
        # Clients of the HTTP front end see this, so it does not say where the file is.
        raise ModelNotUsable(
            "no_permissions",
            f"The model {quoted(model_id)} is defined by a dragoman.toml that came with the folder and is not trusted.",
            hint="Run `dragoman trust` in that folder. Or name the file: --config, in VS Code dragoman.configuration.",
        )
    from dragoman.agents.catalogue import shipped  # noqa: PLC0415 - only for an unknown name

    catalogue = shipped()
    if model_id in catalogue:
        hint = _ADDED.format(model_id)
    elif meant := nearest(model_id, config.models):
        hint = f"Did you mean {quoted(meant)}?"
    elif meant := nearest(model_id, catalogue):
        hint = f"Did you mean {quoted(meant)}? {_ADDED.format(meant)}"
    else:
        known = ", ".join(quoted(each) for each in config.models)
        file = config.source.path or user_config_file()
        hint = (
            f"Configured: {known}. To add one: `dragoman agents` lists those that are known; for any other agent put"
            f' [models.NAME] with kind = "acp" and its command into {file}.'
        )
    raise ModelNotUsable("not_found", f"There is no model {quoted(model_id)}.", hint=hint)


@dataclass(frozen=True, slots=True)
class SharedServices:
    """What the models of one process share."""

    permissions: PermissionServices | None = None
    journals: Journals | None = None
    # What authenticates markers and call ids, and names clients to endpoints, in every process that uses the state folder.
    key: bytes | None = None
    ledger: Ledger | None = None
    # The store of what was learnt about agents.
    learnt: AgentStore | None = None
    memory: MemoryLimit | None = None
    # The services of connected clients.
    clients: ClientRegistry | None = None
    # The workers of a fleet. None: one that is connected to when a model of it is first used.
    fleet: Fleet | None = None


def build(config: Config, model_id: str) -> GuardedModel:
    """The model of that name, behind the guard. The one to use, except in the checker."""
    style = find(config, model_id).style
    return GuardedModel(build_unguarded(config, model_id), style)


def build_unguarded(config: Config, model_id: str, shared: SharedServices | None = None) -> LanguageModel:
    """The model as its back end made it, without the guard, so that the checker sees which rules it breaks."""
    find(config, model_id)
    try:
        return _made(model_id, resolved(config, model_id), config, shared or SharedServices())
    except (ConfigError, ScriptError) as error:
        raise ModelNotUsable("bad_request", str(error)) from error


def _made(model_id: str, model: ModelConfig, config: Config, shared: SharedServices) -> LanguageModel:
    match model:
        case ScriptModel():
            return _scripted(model_id, model)
        case AcpModel():
            return _agent(model_id, model, config, shared)
        case ResponsesModel():
            return _endpoint(model_id, model, config, shared.key)
        case FleetModel():
            return _remote(model_id, model, config, shared)


def folder_of(model: AcpModel) -> Path:
    return (model.cwd or Path.cwd()).absolute()


def _agent(model_id: str, model: AcpModel, config: Config, shared: SharedServices) -> AgentModel:
    from dragoman.backends.agent.model import AgentModel  # noqa: PLC0415
    from dragoman.backends.agent.profile.observations import Observations  # noqa: PLC0415
    from dragoman.backends.agent.profile.offer import RememberedOffer  # noqa: PLC0415
    from dragoman.backends.agent.profile.settings import AgentSettings, Timing  # noqa: PLC0415
    from dragoman.backends.agent.profile.traits import traits_of  # noqa: PLC0415 - only agents need it

    if model.command is None:
        raise ModelNotUsable(
            "bad_request",
            f"{quoted(model_id)} names the agent {quoted(model.agent or '')}, which is not installed.",
            hint=f"Install it: dragoman agents add {model.agent}. Or add `command`: how the agent is started.",
        )
    traits = traits_of(model.agent, config.facts)
    conversation = config.conversation
    own_env = {**dict(traits.env), **model.env}
    settings = AgentSettings(
        model_id,
        model.name or model_id,
        model.command,
        {**(inherited(config) if model.env_inherit else {}), **own_env},
        folder_of(model),
        traits,
        Timing(
            idle=conversation.idle_minutes * 60,
            human=conversation.human_minutes * 60,
            grace=conversation.cancel_grace_seconds,
            gather=conversation.gather_milliseconds / 1_000,
            retry=conversation.retry_seconds,
            one_turn=config.serve.one_turn_seconds,
        ),
        model.mode,
        model.options,
        model.permission,
        model.style,
        conversation.replay_tokens,
        model.fs,
        model.tool_limit_seconds,
        model.auth,
        own_env=own_env,
        config_file=(config.source_of(model_id).path or user_config_file()).absolute(),
        ledger=shared.ledger,
        max_agents=conversation.max_agents,
        memory=shared.memory,
    )
    info = ModelInfo(
        id=model_id,
        name=model.name or model_id,
        family=model.agent or model_id,
        version="1",
        max_input_tokens=model.max_input_tokens,
        max_output_tokens=model.max_output_tokens,
        capabilities=Capabilities(tool_calling=True, image_input=True),
        required_calls=True,
        takes_forms=True,
        detail="An agent, through Dragoman.",
        tags=("agent", "permissions", "thinking"),
        is_byok=True,
        is_user_selectable=True,
    )
    return AgentModel(
        info,
        settings,
        permissions=shared.permissions,
        journals=shared.journals,
        key=shared.key,
        observations=Observations(shared.learnt),
        offer=RememberedOffer(model_id, model.command, shared.learnt),
        clients=shared.clients,
    )


def _endpoint(model_id: str, model: ResponsesModel, config: Config, secret: bytes | None) -> EndpointModel:
    from dragoman.backends.responses.listing import Listed  # noqa: PLC0415 - only endpoints need it
    from dragoman.backends.responses.model import EndpointModel  # noqa: PLC0415
    from dragoman.backends.responses.settings import EndpointSettings  # noqa: PLC0415

    key = getattr(config.models[model_id], "api_key", None)
    of_model = f"`api_key` of {quoted(model_id)}"
    settings = EndpointSettings(
        model_id,
        model.name or model_id,
        model.base_url,
        model.model,
        model.api_key,
        model.headers,
        None
        if key is None
        else f"the environment variable {key[1:]} ({of_model})"
        if key.startswith("$")
        else of_model,
        model.options,
        model.silence_seconds,
    )
    if secret is not None:
        settings = replace(settings, secret=secret)
    configured = Listed(
        model.model, model.max_input_tokens, model.max_output_tokens, image_input=model.image_input
    )
    info = ModelInfo(
        id=model_id,
        name=model.name or model_id,
        family=model.model,
        version="1",
        max_input_tokens=1_000_000,
        max_output_tokens=64_000,
        capabilities=Capabilities(tool_calling=True, image_input=True),
        required_calls=True,
        takes_options=True,
        detail=f"{model.model}, through Dragoman.",
        is_byok=True,
        is_user_selectable=True,
    )
    return EndpointModel(info, settings, configured)


def _scripted(model_id: str, model: ScriptModel) -> ScriptedModel:
    script = load_script(model.path, id=model_id)
    info = script.info
    return ScriptedModel(
        script,
        info=msgspec.structs.replace(
            info,
            name=model.name or info.name,
            max_input_tokens=model.max_input_tokens or info.max_input_tokens,
            max_output_tokens=model.max_output_tokens or info.max_output_tokens,
        ),
    )


def _remote(model_id: str, model: FleetModel, config: Config, shared: SharedServices) -> RemoteModel:
    from dragoman.backends.remote.fleet import Fleet  # noqa: PLC0415 - NATS, for those who have a fleet
    from dragoman.backends.remote.model import RemoteModel  # noqa: PLC0415

    if shared.fleet is None and not config.fleet.urls:
        raise ModelNotUsable(
            "bad_request",
            f"{quoted(model_id)} is a model of a fleet, and there is none.",
            hint="Add `url`, the address of NATS, to [fleet] of the configuration.",
        )
    fleet = shared.fleet or Fleet.of_config(config.fleet)
    return RemoteModel(
        fleet, model_id, model.model, model.labels, name=model.name, permissions=shared.permissions
    )
