"""Installing an agent: made in a folder of its own, verified, started once, and only then switched to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from dragoman.acp.launch import RunningAgent, launch
from dragoman.acp.messages import Initialized
from dragoman.agents import archive, npm, pip
from dragoman.agents.entry import BinaryTarget, CatalogueEntry, DistributionKind, Package
from dragoman.agents.failure import InstallError, of_system
from dragoman.agents.installed import Installation, InstalledAgents, ready
from dragoman.agents.programs import newer_node
from dragoman.lm import LanguageModelError

__all__ = ["InstallPlan", "InstallProgress", "install", "plan"]

# Its first start may have to unpack and compile things.
_START_SECONDS = 120.0


class InstallProgress(Protocol):
    """Receives the progress of an installation."""

    def step(self, what: str) -> None: ...

    def bytes(self, taken: int, total: int | None) -> None: ...


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """What would be installed: to be shown before anything is done."""

    entry: CatalogueEntry
    kind: DistributionKind
    what: Package | BinaryTarget
    version: str
    # The expected checksum of the package; None if none was published.
    integrity: str | None

    @property
    def source(self) -> str:
        match self.what:
            case Package(package=package):
                return package
            case BinaryTarget(archive=address):
                return address


async def plan(
    entry: CatalogueEntry, version: str | None, others: Mapping[str, CatalogueEntry] | None = None
) -> InstallPlan:
    """How this agent is installed here. `InstallError` if it cannot be, with what would help.

    Packages come first: their package managers verify them. `others` may have a version that runs here.
    """
    if entry.facts.built_in:
        raise InstallError(
            f"{entry.name} is built in: there is nothing to install. Try: dragoman chat {entry.id}"
        )
    found = _distribution(entry)
    if found is None:
        raise InstallError(
            f"{entry.name} cannot be installed on this machine: the catalogue knows no package for it."
            f' Install it by hand, and give its command: [models.{entry.id}] with kind = "acp" and command = […].'
        )
    kind, what = found
    if kind != "binary" and (lacks := await _lacking(entry, kind)):
        instead = await _instead(entry, kind, what, others or {})
        if not instead and kind == "npx":
            instead = newer_node(entry.facts.needs.node)
        raise InstallError(f"{entry.name} cannot be installed here: {lacks}{instead}")
    integrity = entry.facts.integrity
    if isinstance(what, BinaryTarget):
        if version not in (None, entry.version):
            raise InstallError(
                f"{entry.name} is an archive, and the catalogue has only {entry.version} of it."
            )
        integrity = f"sha256:{what.sha256}" if what.sha256 else None
    elif version is not None and version != entry.version:
        module = npm if kind == "npx" else pip
        what = msgspec.structs.replace(what, package=module.with_version(what.package, version))
        integrity = None
    return InstallPlan(entry, kind, what, version or entry.version, integrity)


async def install(
    planned: InstallPlan, agents: InstalledAgents, env: Mapping[str, str], progress: InstallProgress
) -> Initialized:
    """Install an agent. Returns its `initialize` response. After a failure the previous version stays in use.

    `env` is what the agent and scripts of its own get of our environment.
    """
    entry = planned.entry
    with agents.locked():
        try:
            folder = agents.new_folder(entry.id, planned.version.replace("/", "-"))
        except OSError as error:
            raise of_system(error, f"{agents.folder} cannot be used") from error
        try:
            progress.step(f"fetching {planned.source}")
            installation = await _made(planned, folder, env, progress.bytes)
            progress.step("verifying")
            _verify(planned, installation)
            progress.step("starting it once")
            started = await _started(entry, installation, folder, env)
            progress.step("switching to it")
            agents.switch(installation, folder)
        except OSError as error:
            agents.discard(folder)
            raise of_system(error, f"{entry.name} cannot be installed") from error
        except BaseException:
            agents.discard(folder)
            raise
    return started


def _distribution(entry: CatalogueEntry) -> tuple[DistributionKind, Package | BinaryTarget] | None:
    distribution = entry.distribution
    if distribution.npx is not None:
        return "npx", distribution.npx
    if distribution.uvx is not None:
        return "uvx", distribution.uvx
    target = archive.target_of(entry)
    return None if target is None else ("binary", target)


async def _lacking(entry: CatalogueEntry, kind: DistributionKind) -> str | None:
    needs = entry.facts.needs
    return await npm.missing(needs) if kind == "npx" else await pip.missing(needs)


async def _instead(
    entry: CatalogueEntry,
    kind: DistributionKind,
    what: Package | BinaryTarget,
    others: Mapping[str, CatalogueEntry],
) -> str:
    """Another entry of the same package whose needs are met, as a sentence."""
    if isinstance(what, BinaryTarget) or kind != "npx":
        return ""
    name = npm.with_version(what.package, "")
    for other in others.values():
        package = other.distribution.npx
        if other.id == entry.id or package is None or npm.with_version(package.package, "") != name:
            continue
        if not await _lacking(other, kind):
            return f" {other.name} runs on it: dragoman agents add {other.id}"
    return ""


async def _made(
    planned: InstallPlan, folder: Path, env: Mapping[str, str], on_bytes: Callable[[int, int | None], object]
) -> Installation:
    match planned.kind, planned.what:
        case "npx", Package() as package:
            return await npm.install(planned.entry, package, folder, env)
        case "uvx", Package() as package:
            return await pip.install(planned.entry, package, folder)
        case _, BinaryTarget() as target:
            return await archive.install(planned.entry, target, folder, on_bytes)
        case kind, _:
            raise AssertionError(kind)


def _verify(planned: InstallPlan, installation: Installation) -> None:
    if planned.integrity in (None, installation.integrity):
        return
    raise InstallError(
        f"{planned.source} is not the package that the catalogue knows: its hash is {installation.integrity}, and not"
        f" {planned.integrity}. Do not use it; or, if you know better, refresh the catalogue: dragoman agents list --refresh"
    )


async def _started(
    entry: CatalogueEntry, installation: Installation, folder: Path, env: Mapping[str, str]
) -> Initialized:
    """Start the agent once, and return its `initialize` response. An agent that does not speak ACP is not installed."""
    env = {**env, **entry.facts.env, **installation.env, **entry.facts.trial_env}
    try:
        async with asyncio.timeout(_START_SECONDS):
            agent = await launch(
                entry.name, ready(installation, folder).command, env, str(folder), lambda: None
            )
            try:
                return await _introduced(agent)
            finally:
                await agent.stop()
    except TimeoutError:
        raise InstallError(
            f"{entry.name} was installed, and has not answered in {_START_SECONDS:g} seconds. The previous version stays."
        ) from None
    except LanguageModelError as error:
        raise InstallError(f"{entry.name} was installed, and does not start: {error.sentence}") from error


async def _introduced(agent: RunningAgent) -> Initialized:
    try:
        return await agent.link.initialize()
    except LanguageModelError as error:
        why = (await agent.explain_exit()).message if agent.gone.cancelled() else error.message
        raise LanguageModelError(error.kind, why, hint=agent.last_words) from error
