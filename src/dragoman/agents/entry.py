"""An entry of the catalogue, in the format of the public ACP registry.

What a registry does not say, and we found out, stands in `_meta.dragoman` of an entry: the registry's schema leaves room
for it there, and every other reader steps over it. Fields that we do not know are ignored, so that a newer registry can
be read.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

__all__ = [
    "AgentRegistry",
    "BinaryTarget",
    "CatalogueEntry",
    "Caution",
    "Distribution",
    "DistributionKind",
    "Facts",
    "Needs",
    "Package",
    "ToolLimit",
]

DistributionKind: TypeAlias = Literal["npx", "uvx", "binary"]

# As the registry's schema has it. It becomes the name of a folder.
_Id: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]{0,63}\Z")]
_Version: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9.+-]*\Z")]
_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class _Read(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class Package(_Read, frozen=True):
    """A package of npm or PyPI, with its version: `name@1.2.3`, `name==1.2.3`."""

    package: _Text
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


class BinaryTarget(_Read, frozen=True):
    archive: _Text
    # Inside the archive.
    cmd: _Text
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None


class Distribution(_Read, frozen=True):
    npx: Package | None = None
    uvx: Package | None = None
    # By platform: `linux-x86_64`, `darwin-aarch64`.
    binary: dict[str, BinaryTarget] = {}


class Needs(_Read, frozen=True):
    """The oldest versions of programs that an agent needs on the machine."""

    node: int | None = None
    python: Annotated[str, msgspec.Meta(pattern=r"^3\.[0-9]+\Z")] | None = None


class ToolLimit(_Read, frozen=True):
    """How long an agent waits for a tool."""

    seconds: float
    # Whether progress notifications make it wait longer.
    progress_extends: bool = False


class Caution(_Read, frozen=True):
    """Where an agent acts without a permission request, and how to start it so that it asks."""

    text: _Text
    unless_argument: str | None = None
    # Unless it is offered file access through us.
    unless_fs: bool = False
    # Unless its sessions are set to this mode.
    unless_mode: str | None = None


class Facts(_Read, frozen=True):
    """What we found out about an agent. Without such facts, the agent is treated as unknown."""

    # It comes with us: there is nothing to install.
    built_in: bool = False
    # What the public registry calls it.
    aliases: tuple[str, ...] = ()
    needs: Needs = Needs()
    # Whether its package has to run an installation script of its own.
    scripts: bool = False
    # Of the package in the version that the entry names, as npm and pip write it: `sha512-…`, `sha256:…`.
    integrity: str | None = None
    # Without these it acts without asking, or hides our tools.
    env: dict[str, str] = {}
    # For a start before the user has configured it. Only for the first start, which shows that it works.
    trial_env: dict[str, str] = {}
    # How it can be offered tools. What it says in `initialize` wins.
    tool_transports: tuple[Literal["http", "stdio"], ...] = ("http", "stdio")
    tool_limit: ToolLimit | None = None
    # Whether it lists tools again after a notification that they changed.
    lists_again: bool = True
    # Whether a session it had can be taken up. What it says in `initialize` wins, as far as it is true.
    resumes: bool = False
    loads: bool = False
    # Ways to recognise that a tool call is one of a server's tools: each is a set of fields that must all agree.
    recognised_by: tuple[dict[str, str], ...] = ()
    # What cannot work with it, by the name of the scenario in `tests/agents`, and why.
    cannot: dict[str, str] = {}
    # Whether it works with file access through its client. If not, that is offered only where `fs = true` says so.
    takes_client_files: bool = True
    cautions: tuple[Caution, ...] = ()
    # What a person can do when the agent lists no tools, or its model does not see them.
    when_no_tools: str | None = None
    # For people.
    quirks: tuple[str, ...] = ()


class _Meta(_Read, frozen=True):
    dragoman: Facts | None = None


class CatalogueEntry(_Read, frozen=True):
    id: _Id
    name: _Text
    version: _Version
    description: str
    distribution: Distribution = Distribution()
    license: str | None = None
    meta: _Meta = msgspec.field(default=_Meta(), name="_meta")

    @property
    def facts(self) -> Facts:
        return self.meta.dragoman or Facts()

    def with_facts(self, facts: Facts) -> CatalogueEntry:
        return msgspec.structs.replace(self, meta=_Meta(facts))


class AgentRegistry(_Read, frozen=True):
    """A whole file, as far as it is about agents."""

    version: str
    # Each is read separately: one that cannot be read does not affect the others.
    agents: tuple[msgspec.Raw, ...] = ()
