"""Configuration: the schema of the file, reading it, and the paths of the file and the state folder."""

from dragoman.config.agreed import TrustedFiles
from dragoman.config.folders import config_file, found_file, named_file, state_folder, user_config_file
from dragoman.config.keys import ClientKey, client_keys, key_problems, webhook_secret
from dragoman.config.layers import effects, ignored, layered, trusted
from dragoman.config.loading import BUILTIN_MODELS, DEMO, Config, Found, load
from dragoman.config.problem import ConfigError, Problem, quoted
from dragoman.config.references import inherited, resolved, secrets
from dragoman.config.rules import rules_of
from dragoman.config.schema import (
    AcpModel,
    ChatConfig,
    ConsoleConfig,
    ConversationConfig,
    FleetConfig,
    FleetModel,
    JournalConfig,
    KeyConfig,
    Loop,
    ModelConfig,
    ResponsesModel,
    ScriptModel,
    Serve,
    Tools,
)

__all__ = [
    "BUILTIN_MODELS",
    "DEMO",
    "AcpModel",
    "ChatConfig",
    "ClientKey",
    "Config",
    "ConfigError",
    "ConsoleConfig",
    "ConversationConfig",
    "FleetConfig",
    "FleetModel",
    "Found",
    "JournalConfig",
    "KeyConfig",
    "Loop",
    "ModelConfig",
    "Problem",
    "ResponsesModel",
    "ScriptModel",
    "Serve",
    "Tools",
    "TrustedFiles",
    "client_keys",
    "config_file",
    "effects",
    "found_file",
    "ignored",
    "inherited",
    "key_problems",
    "layered",
    "load",
    "named_file",
    "quoted",
    "resolved",
    "rules_of",
    "secrets",
    "state_folder",
    "trusted",
    "user_config_file",
    "webhook_secret",
]
