"""The schema of the configuration file, with the defaults.

Each table is a frozen type, each key a field with its default and its limits. Numbers have a range, because a
duration of `inf` or a limit of -1 is a mistake. `explain` turns these types into words, so a
field that is added here is documented in every error message.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

from dragoman.lm.presentation import Reasoning, ReasoningFallback, Style
from dragoman.policy.rule import PolicyRule

__all__ = [
    "AcpModel",
    "ChatConfig",
    "ConsoleConfig",
    "ConversationConfig",
    "FleetConfig",
    "FleetModel",
    "JournalConfig",
    "KeyConfig",
    "Loop",
    "ModelConfig",
    "ResponsesModel",
    "ScriptModel",
    "Serve",
    "Tables",
    "Tools",
    "is_model_id",
    "is_path",
]

# A week of minutes: longer than any weekend, and short enough that a typo does not keep an agent for a year.
_Minutes: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=10_080)]
_Days: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=3_650)]
# Waits inside a request. Consumers give up after some minutes.
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=600)]
# More than any model takes today, by a factor of ten.
_Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=100_000_000)]
# Ten times the limit of the strictest consumer is more than any model chooses well from.
_ToolCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_280)]
_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
# Ids travel in markers, URLs and command lines: no spaces, no backslash, nothing that looks like an option.
_MODEL_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"
_ModelId: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=_MODEL_ID,
        description="a name of at most 64 letters, digits, dots and dashes",
    ),
]
_KeyName: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}\Z",
        description="a name of at most 32 letters, digits, dots and dashes",
    ),
]
_NodeName: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z",
        description="a name of at most 64 letters, digits and dashes",
    ),
]
_NatsUrl: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(nats|tls)://[^\s/@]+\Z",
        description='a nats:// or tls:// address without a password, like "tls://nats.example:4222"',
    ),
]
_Variable: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z", description="the name of a variable")
]
_MEMORY_UNITS = {"MB": 1_000_000, "GB": 1_000_000_000}
_Memory: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(?=[0-9.]*[1-9])[0-9]{1,7}(\.[0-9]{1,3})? ?(MB|GB)\Z",
        description='an amount of memory in quotes, like "8GB" or "500MB"',
    ),
]


def is_model_id(text: str) -> bool:
    return re.match(_MODEL_ID, text) is not None


def is_path(text: str) -> bool:
    """Whether a text can be the path of anything: the system takes neither an empty one nor a NUL."""
    return text != "" and "\0" not in text


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class _Model(_Table, frozen=True, tag_field="kind"):
    # What a model picker shows.
    name: _Text | None = None
    reasoning: Reasoning = "thinking"
    # For consumers without thinking parts.
    reasoning_fallback: ReasoningFallback = "text"

    @property
    def style(self) -> Style:
        return Style(self.reasoning, self.reasoning_fallback)


class AcpModel(_Model, frozen=True, kw_only=True, tag="acp"):
    """An agent that speaks the Agent Client Protocol."""

    # An entry of the catalogue of agents, or a command of one's own; one of them at least.
    agent: _Text | None = None
    command: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)] | None = None
    env: dict[_Variable, str] = {}
    env_inherit: bool = True
    # Where the agent works when the consumer names no folder; without it, where we are.
    cwd: Path | None = None
    # By the agent's own ids.
    mode: _Text | None = None
    options: dict[str, str | bool | int | float] = {}
    # After so many seconds the agent gives a tool call up, so it is given a ticket before. Left out: what is known or was
    # learnt about the agent, and 60 for one of which nothing is known. Give a large number to one that waits for hours.
    tool_limit_seconds: Annotated[float, msgspec.Meta(ge=1, le=86_400)] | None = None
    # How the agent logs in when it says that it must: one of its own methods, by its id.
    auth: _Text | None = None
    # Offer the agent file access through us. Left out: where the editor offers its documents, and the agent can use that.
    fs: bool | None = None
    # When the request offers no permission tool. ask: the console of `dragoman serve`, if a person is there; else refused.
    permission: Literal["deny", "allow-reads", "allow", "ask"] = "ask"
    max_input_tokens: _Tokens = 1_000_000
    max_output_tokens: _Tokens = 64_000


class ResponsesModel(_Model, frozen=True, kw_only=True, tag="responses"):
    """An endpoint that speaks Open Responses."""

    base_url: Annotated[
        str, msgspec.Meta(pattern=r"^https?://[^\s/]+", description="an http:// or https:// address")
    ]
    model: _Text
    api_key: _Text | None = None
    # Sent along with every request.
    headers: dict[_Text, str] = {}
    # Fields of a request, for every one that does not have them itself.
    options: dict[str, object] = {}
    # Left out, this and the limits are what the endpoint says of the model, if it does.
    image_input: bool | None = None
    # Without a single byte for so long, an answer has failed. A local model may have to be loaded first.
    silence_seconds: Annotated[float, msgspec.Meta(gt=0, le=3_600)] = 120
    max_input_tokens: _Tokens | None = None
    max_output_tokens: _Tokens | None = None

    def __repr__(self) -> str:
        """Without the key and the headers, which are secret."""
        return f"ResponsesModel(base_url={self.base_url!r}, model={self.model!r})"


class ScriptModel(_Model, frozen=True, kw_only=True, tag="script"):
    """A script. By default, the name and the limits are those of the script."""

    path: Path
    max_input_tokens: _Tokens | None = None
    max_output_tokens: _Tokens | None = None


class FleetModel(_Model, frozen=True, kw_only=True, tag="fleet"):
    """A model of another machine, which a worker of the fleet offers."""

    # Its id there; left out: the same as here.
    model: _ModelId | None = None
    # Only workers that have all of these labels.
    labels: tuple[_Text, ...] = ()


ModelConfig: TypeAlias = AcpModel | ResponsesModel | ScriptModel | FleetModel


class ConversationConfig(_Table, frozen=True):
    # An agent is parked after this much idleness.
    idle_minutes: _Minutes = 30
    # How long a person may take to decide.
    human_minutes: _Minutes = 240
    cancel_grace_seconds: _Seconds = 10
    # After the last arrival of a call; a second in all.
    gather_milliseconds: Annotated[float, msgspec.Meta(ge=0, le=1_000)] = 150
    retry_seconds: _Seconds = 10
    replay_tokens: _Tokens = 100_000
    # With more agents than this running, those that are idle are parked, the longest unused first.
    max_agents: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 32
    # The former place of `keep_days` in [journal], which wins.
    keep_days: _Days | None = None


class JournalConfig(_Table, frozen=True):
    # full: everything that happens. metadata: digests and decisions, nothing that was said. off: nothing is stored.
    content: Literal["full", "metadata", "off"] = "full"
    # What was not used for so long is deleted. 30 days, unless [conversation] says otherwise.
    keep_days: _Days | None = None


class Tools(_Table, frozen=True):
    # Files in the form of a `languageModelTools` contribution.
    declarations: tuple[Path, ...] = ()
    # The editor's chat.tools.global.autoApprove, chat.tools.eligibleForAutoApproval and chat.tools.urls.autoApprove.
    auto_approve: bool = False
    eligible: dict[str, bool] = {}
    urls: dict[str, bool] = {}
    limit: _ToolCount = 128
    virtual_threshold: _ToolCount = 128


class ChatConfig(_Table, frozen=True):
    """What `dragoman chat` begins with. `/model NAME --save` and `/tools off NAME --save` write it."""

    # Left out: the first model of the file.
    model: _ModelId | None = None
    # Tools that are not offered, unless a prompt names them.
    tools_off: tuple[_Text, ...] = ()


class Loop(_Table, frozen=True):
    turns: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 50
    on_denial: Literal["skip-rest", "ask-each"] = "skip-rest"
    deadline_minutes: _Minutes = 240


class Serve(_Table, frozen=True):
    host: _Text = "127.0.0.1"
    # 0: one that is free.
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8427
    # Required when the host is not loopback.
    api_keys: tuple[_Text, ...] = ()
    # Keep responses for clients that come back to them by their id.
    store: bool = True
    # Folders in which clients may choose the one that an agent works in. None: no client may choose.
    workspaces: tuple[Path, ...] = ()
    # Pages of these origins may ask from a browser. None: no page may.
    cors_origins: tuple[_Text, ...] = ()
    # Thinking as a summary, which most clients know; or as content, by the specification's names or by OpenAI's.
    reasoning_events: Literal["summary", "spec", "openai"] = "summary"
    # A request may bring this much; it may have images in it.
    max_body_megabytes: Annotated[float, msgspec.Meta(gt=0, le=1_024)] = 64
    # Answers under way at once. Each may have an agent of its own.
    max_responses: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 64
    # All agents together may take this much memory. Above it, idle ones are parked, and no further one starts. Left out:
    # half of the machine's.
    max_memory: _Memory | None = None
    # An agent is parked after this much idleness while its conversation has had one turn only: most have no second.
    one_turn_seconds: _Seconds = 60
    # How long answers that are under way may go on after the server gets a signal to end.
    drain_seconds: _Seconds = 30

    @property
    def max_body_bytes(self) -> int:
        return int(self.max_body_megabytes * 1_000_000)

    def __repr__(self) -> str:
        """Without the keys."""
        return f"Serve(host={self.host!r}, port={self.port!r}, {len(self.api_keys)} keys)"

    @property
    def max_memory_bytes(self) -> int | None:
        if self.max_memory is None:
            return None
        number, unit = self.max_memory[:-2], self.max_memory[-2:]
        return int(float(number) * _MEMORY_UNITS[unit])


class ConsoleConfig(_Table, frozen=True):
    """The page of `dragoman serve`, on which people decide."""

    enabled: bool = True
    # How people reach it from elsewhere: the address of a proxy that speaks TLS.
    url: (
        Annotated[
            str,
            msgspec.Meta(
                pattern=r"^https://[^\s/?#@]+/?\Z", description="an https:// address without a path"
            ),
        ]
        | None
    ) = None
    # How long a question waits for a person.
    decide_minutes: _Minutes = 60
    # How long a request that does not stream is held open meanwhile.
    decide_seconds: _Seconds = 55
    # An address that gets a signed message about each question.
    webhook: (
        Annotated[
            str, msgspec.Meta(pattern=r"^https?://[^\s/]+", description="an http:// or https:// address")
        ]
        | None
    ) = None
    webhook_secret: _Text | None = None
    # Whether the message says what the agent wants to do.
    webhook_content: bool = False

    def __repr__(self) -> str:
        """Without the secret, and without the webhook, whose address may be one."""
        return f"ConsoleConfig(enabled={self.enabled!r}, url={self.url!r})"


class KeyConfig(_Table, frozen=True):
    """An API key with a name, and what its holder may use."""

    key: _Text
    # user: sees the key's own conversations in the console. admin: sees all.
    role: Literal["user", "admin"] = "user"
    # Left out: all models.
    models: tuple[_ModelId, ...] | None = None
    # Folders that its agents may work in. Left out: any that the models are configured with.
    workspaces: Annotated[tuple[Path, ...], msgspec.Meta(min_length=1)] | None = None

    def __repr__(self) -> str:
        """Without the key."""
        return f"KeyConfig(role={self.role!r}, models={self.models!r}, workspaces={self.workspaces!r})"


class FleetConfig(_Table, frozen=True):
    """Several machines as one: gateways and workers on NATS. Without `url` there is no fleet."""

    # One server of NATS, or several of a cluster. `tls://` for TLS.
    url: _NatsUrl | tuple[_NatsUrl, ...] = ()
    # A `.creds` file with the credentials of this node's role.
    credentials: Path | None = None
    # Certificates that sign the servers' certificates, if the system does not know them.
    tls_ca: Path | None = None
    # Of this node. Left out: the machine's name and the role.
    name: _NodeName | None = None
    # For models that want a worker with certain labels.
    labels: tuple[_Text, ...] = ()
    # A folder that all workers reach, with workspaces and the agents' own files in it. Then a conversation that moves to
    # another worker resumes the agent's session; without it, the agent gets a transcript.
    shared: Path | None = None

    @property
    def urls(self) -> tuple[str, ...]:
        return (self.url,) if isinstance(self.url, str) else self.url


class Tables(_Table, frozen=True):
    """A whole file."""

    models: dict[_ModelId, ModelConfig] = {}
    conversation: ConversationConfig = ConversationConfig()
    journal: JournalConfig = JournalConfig()
    tools: Tools = Tools()
    chat: ChatConfig = ChatConfig()
    policy: tuple[PolicyRule, ...] = ()
    loop: Loop = Loop()
    serve: Serve = Serve()
    console: ConsoleConfig = ConsoleConfig()
    keys: dict[_KeyName, KeyConfig] = {}
    fleet: FleetConfig = FleetConfig()
