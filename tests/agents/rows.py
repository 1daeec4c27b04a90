"""The agents of the matrix: how each is started, and pointed at a model on this machine.

Everything an agent reads or keeps is in a home of its own. What every user of an agent needs (`Traits.env`) is in the
catalogue; here is only what makes it use our model, stay off the network and say nothing to its maker.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agents import install

__all__ = ["ROWS", "Row", "Started"]

MODEL = "scripted"


@dataclass(frozen=True)
class Started:
    """How an agent is started, once it is installed."""

    command: tuple[str, ...]
    # In front of the system's own folders for programs.
    path: Path | None = None


@dataclass(frozen=True)
class Row:
    name: str
    # Its entry in the catalogue; none for an agent outside the catalogue.
    agent: str | None
    installed: Callable[[], Started]
    # `{url}` stands for the model server, `{home}` for the agent's home.
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    # Of the model in our own configuration.
    settings: Mapping[str, object] = field(default_factory=dict)
    # What it says of itself before the model's words, as a regular expression.
    preface: str = ""
    # What the agent asks a person about: a command of its own, or a file it writes.
    asks_about: Literal["run", "write"] = "run"
    # How long a person takes, and what that is against the agent's limit: more, where it can be borne or lowered.
    slow_seconds: float = 20.0
    slow_note: str = ""
    # So long it must rest before a session can be loaded: it overwrites one that it began in the same minute.
    rest_seconds: float = 0.0
    # What our own configuration says of the agent's limit, so that it is given a ticket while a test can wait for it.
    limit_seconds: float | None = None

    @property
    def gets_ticket(self) -> bool:
        """Whether a slow person's answer reaches it by a ticket: so it is with every agent that was never tried."""
        return self.agent is None or self.limit_seconds is not None

    def environment(self, home: Path, url: str, path: Path | None) -> dict[str, str]:
        """Writes the agent's own configuration, and says what it needs to be told."""
        values = {"{url}": url, "{home}": str(home)}
        for name, text in self.files.items():
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_filled(text, values))
        programs = os.environ["PATH"] if path is None else f"{path}{os.pathsep}{os.environ['PATH']}"
        common = {
            "HOME": str(home),
            "PATH": programs,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local" / "share"),
            "XDG_STATE_HOME": str(home / ".local" / "state"),
            "XDG_CACHE_HOME": str(home / ".cache"),
        }
        return common | {name: _filled(value, values) for name, value in self.env.items()}


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _on_node(major: int, package: str, module: str, *arguments: str) -> Callable[[], Started]:
    def installed() -> Started:
        on = install.node(major)
        program = install.npm_package(package, on) / module
        return Started((str(on / "node"), str(program), *arguments), on)

    return installed


def _opencode() -> Started:
    folder = install.npm_package("opencode", install.node(24))
    return Started((str(folder / "opencode-linux-x64-baseline" / "bin" / "opencode"), "acp"))


_CARELESS = Path(__file__).parents[1] / "careless_agent" / "agent.py"


# fast-agent gives pictures only to models of which it knows that they see.
_SEEING = "openai.gpt-4o"


def _fast_agent() -> Started:
    start = "from fast_agent.cli.commands.acp import main; main()"
    return Started((str(install.fast_agent()), "-c", start, "--model", _SEEING, "--no-shell"))


_CLAUDE_ENV = {
    "ANTHROPIC_BASE_URL": "{url}",
    "ANTHROPIC_API_KEY": "sk-ant-test",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}
_CLAUDE = "@agentclientprotocol/claude-agent-acp/dist/index.js"

_OPENCODE_SETTINGS = {
    "autoupdate": False,
    "share": "disabled",
    "model": f"local/{MODEL}",
    "small_model": f"local/{MODEL}",
    "provider": {
        "local": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Local",
            "options": {"baseURL": "{url}/v1", "apiKey": "any"},
            "models": {
                MODEL: {
                    "name": "Scripted",
                    "tool_call": True,
                    "attachment": True,
                    "modalities": {"input": ["text", "image"], "output": ["text"]},
                    "limit": {"context": 200_000, "output": 8_000},
                }
            },
        }
    },
}

_CODEX_SETTINGS = f"""\
model = "{MODEL}"
model_provider = "local"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[model_providers.local]
name = "Local"
base_url = "{{url}}/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[features]
apps = false
plugins = false
"""

_FAST_AGENT_SETTINGS = f"""\
default_model: {_SEEING}
openai:
  api_key: any
  base_url: {{url}}/v1
logger:
  type: none
"""

_GEMINI_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "model": {"name": "gemini-2.5-pro"},
}

_QWEN_SETTINGS = {
    "tools": {"approvalMode": "default", "toolSearch": {"enabled": False}},
    "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
    # It would ask the model beside each turn what to remember, with the turn's words.
    "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False, "enableAutoSkill": False},
    "model": {"name": MODEL, "generationConfig": {"modalities": {"image": True}}},
}

_KIMI_SETTINGS = f"""\
default_model = "local"
telemetry = false
[providers.local]
type = "openai"
base_url = "{{url}}/v1"
api_key = "any"
[models.local]
provider = "local"
model = "{MODEL}"
max_context_size = 200000
capabilities = ["image_in", "tool_use"]
"""

ROWS = {
    row.name: row
    for row in (
        Row(
            "claude",
            "claude",
            _on_node(24, "claude", _CLAUDE),
            {**_CLAUDE_ENV, "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": "25000"},
            slow_seconds=40.0,
            slow_note="40 s, with its limit of 300 s without progress lowered to 25",
        ),
        Row(
            "claude-node20",
            "claude-node20",
            _on_node(20, "claude-node20", _CLAUDE),
            {**_CLAUDE_ENV, "MCP_TOOL_TIMEOUT": "25000"},
            slow_seconds=30.0,
            slow_note="30 s by a ticket, with a limit of 25 set",
            limit_seconds=25.0,
        ),
        Row(
            "opencode",
            "opencode",
            _opencode,
            {
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            },
            {".config/opencode/opencode.json": json.dumps(_OPENCODE_SETTINGS)},
            slow_seconds=75.0,
            slow_note="75 s, with its own limit of 60 without progress",
        ),
        Row(
            "fast-agent",
            "fast-agent",
            _fast_agent,
            {
                "OPENAI_API_KEY": "any",
                "OPENAI_BASE_URL": "{url}/v1",
                "FAST_AGENT_CONFIG": "{home}/fastagent.config.yaml",
            },
            {"fastagent.config.yaml": _FAST_AGENT_SETTINGS},
            # It asks about files that it writes through us, and about nothing that it does by itself.
            settings={"fs": True},
            asks_about="write",
            slow_note="20 s; it has no limit",
        ),
        Row(
            "codex",
            "codex",
            _on_node(24, "codex", "@agentclientprotocol/codex-acp/dist/index.js"),
            {
                "LOCAL_KEY": "any",
                "MODEL_PROVIDER": "local",
                "NO_BROWSER": "1",
                "CODEX_HOME": "{home}/.codex",
            },
            {".codex/config.toml": _CODEX_SETTINGS},
            preface=rf"Warning: Model metadata for `{MODEL}` not found\.[^\n]*\n+",
            # The limit of a server that a client brings cannot be set.
            slow_seconds=30.0,
            slow_note="30 s by a ticket, as if its limit of 300 s were 25",
            limit_seconds=25.0,
        ),
        Row(
            "copilot",
            "copilot",
            _on_node(24, "copilot", "@github/copilot/npm-loader.js", "--acp"),
            {
                "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
                "COPILOT_PROVIDER_API_KEY": "any",
                "COPILOT_MODEL": MODEL,
                "COPILOT_OFFLINE": "true",
                "COPILOT_AUTO_UPDATE": "false",
            },
            slow_note="20 s; its limit of 180 s without progress cannot be lowered",
        ),
        Row(
            "gemini",
            "gemini",
            _on_node(24, "gemini", "@google/gemini-cli/bundle/gemini.js", "--acp"),
            {
                "GEMINI_API_KEY": "any",
                "GOOGLE_GEMINI_BASE_URL": "{url}",
                # Without it there are no tools. Dragoman never sets it: to trust a folder is a person's decision.
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
            },
            {".gemini/settings.json": json.dumps(_GEMINI_SETTINGS)},
            rest_seconds=61.0,
            slow_seconds=15.0,
            slow_note="15 s by a ticket, as if its limit of 600 s were 12",
            limit_seconds=12.0,
        ),
        Row(
            "qwen",
            "qwen",
            _on_node(24, "qwen", "@qwen-code/qwen-code/cli-entry.js", "--acp"),
            {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": MODEL},
            {".qwen/settings.json": json.dumps(_QWEN_SETTINGS)},
            slow_seconds=15.0,
            slow_note="15 s by a ticket, as if its limit of 600 s were 12",
            limit_seconds=12.0,
        ),
        Row(
            "kimi",
            "kimi",
            _on_node(24, "kimi", "@moonshot-ai/kimi-code/dist/main.mjs", "acp"),
            {
                "KIMI_CODE_NO_AUTO_UPDATE": "1",
                "KIMI_DISABLE_TELEMETRY": "1",
                "KIMI_MCP_TOOL_TIMEOUT_MS": "25000",
            },
            {".kimi-code/config.toml": _KIMI_SETTINGS},
            slow_seconds=30.0,
            slow_note="30 s by a ticket, with its limit of 60 s lowered to 25",
            limit_seconds=25.0,
        ),
        Row(
            "careless",
            None,
            lambda: Started((sys.executable, str(_CARELESS))),
            {"CARELESS_URL": "{url}", "CARELESS_SECONDS": "60"},
            slow_seconds=50.0,
            slow_note="50 s by a ticket after 45, with a limit of 60 of which it says nothing",
        ),
    )
}
