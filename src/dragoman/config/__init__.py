"""Configuration: what a file may say, reading it, and where it and the state folder are."""

from dragoman.config.agreed import Agreed
from dragoman.config.folders import config_file, is_only_found, state_folder, user_config_file
from dragoman.config.loading import BUILTIN_MODELS, DEMO, Config, load
from dragoman.config.problem import ConfigError, Problem, quoted
from dragoman.config.references import api_keys, inherited, resolved, secrets, unset
from dragoman.config.schema import (
    AcpModel,
    Conversation,
    Loop,
    ModelConfig,
    ResponsesModel,
    ScriptModel,
    Serve,
    Tools,
)
from dragoman.config.trust import narrowed, unopened

__all__ = [
    "BUILTIN_MODELS",
    "DEMO",
    "AcpModel",
    "Agreed",
    "Config",
    "ConfigError",
    "Conversation",
    "Loop",
    "ModelConfig",
    "Problem",
    "ResponsesModel",
    "ScriptModel",
    "Serve",
    "Tools",
    "api_keys",
    "config_file",
    "inherited",
    "is_only_found",
    "load",
    "narrowed",
    "quoted",
    "resolved",
    "secrets",
    "state_folder",
    "unopened",
    "unset",
    "user_config_file",
]
