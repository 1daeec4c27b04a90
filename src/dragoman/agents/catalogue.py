"""The catalogue of agents: what came with us, and on top of it what was fetched from a registry since.

A registry is fetched only at the user's request, from the address they give. What a registry says of an agent that we
know replaces where it is installed from; what we found out about it stays, unless the file has facts of that kind itself.
Only the catalogue that came with us says how a call of our tools is recognised, because such calls need no approval.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec
from msgspec.structs import replace

from dragoman.agents.entry import AgentRegistry, CatalogueEntry, Distribution
from dragoman.regular_file import read_regular
from dragoman.whole_file import write_whole

__all__ = [
    "REFRESHED",
    "CatalogueError",
    "asking_mode",
    "catalogue",
    "read_registry",
    "refresh",
    "shipped",
]

_log = logging.getLogger(__name__)

# In the folder of agents: the registry as it was fetched last, and from where.
REFRESHED = "registry.json"
_SOURCE = "registry.source"
# The public registry has some hundred kilobytes.
MAX_BYTES = 16 * 1024 * 1024
_SECONDS = 30.0
# Of another shape, not UTF-8, nested without end.
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


class CatalogueError(Exception):
    """A registry that cannot be read. The text says why, and what to do."""


@cache
def shipped() -> Mapping[str, CatalogueEntry]:
    """The agents that came with us, in the order of the file."""
    data = resources.files(__package__).joinpath("catalogue.json").read_bytes()
    return _by_id(read_registry(data, "the catalogue"))


def catalogue(folder: Path) -> Mapping[str, CatalogueEntry]:
    """The agents that came with us and those of a fetched registry. `folder` is that of agents."""
    try:
        data = read_regular(folder / REFRESHED, MAX_BYTES)
    except FileNotFoundError:
        return shipped()
    except OSError as error:
        _log.warning("the fetched catalogue cannot be read: %s", error)
        return shipped()
    try:
        return _merged(shipped(), read_registry(data, str(folder / REFRESHED)))
    except CatalogueError as error:
        _log.warning("%s The catalogue that came with us is used.", error)
        return shipped()


def read_registry(data: bytes, name: str) -> tuple[CatalogueEntry, ...]:
    """The agents of a registry's file. One that cannot be read is left out, and logged."""
    try:
        registry = msgspec.json.decode(data, type=AgentRegistry)
    except _UNREADABLE as error:
        raise CatalogueError(f"{name} is no registry of agents: {error}.") from error
    found: list[CatalogueEntry] = []
    for raw in registry.agents:
        try:
            found.append(msgspec.json.decode(raw, type=CatalogueEntry))
        except _UNREADABLE as error:
            _log.warning("%s: an agent is left out, because it cannot be read: %s", name, error)
    return tuple(found)


async def refresh(folder: Path, source: str | None) -> str:
    """Fetch a registry from an address or a file, and use it from now on; returns where it came from.

    Without a source, uses the source of the last refresh.
    """
    if source is None:
        try:
            source = (folder / _SOURCE).read_text("utf-8").strip()
        except OSError:
            raise CatalogueError(
                "No registry is configured yet. Name it once: --refresh ADDRESS, or --refresh FILE."
            ) from None
    if "://" not in source:
        # From wherever we are the next time.
        source = os.path.abspath(source)  # noqa: ASYNC240, PTH100 - it looks at nothing
    data = await _fetched(source)
    if not read_registry(data, source):
        raise CatalogueError(f"{source} has no agent that could be read. The catalogue is unchanged.")
    try:
        _store(folder, data, source)
    except OSError as error:
        raise CatalogueError(f"{folder} cannot be written: {error.strerror}.") from error
    return source


def _store(folder: Path, data: bytes, source: str) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(folder / REFRESHED, data)
    write_whole(folder / _SOURCE, f"{source}\n".encode())


async def _fetched(source: str) -> bytes:
    if "://" not in source:
        return _read(source)
    from dragoman.agents.download import DownloadError, download  # noqa: PLC0415 - HTTP, for those who ask for it

    chunks: list[bytes] = []
    try:
        await download(source, chunks.append, limit=MAX_BYTES, seconds=_SECONDS)
    except DownloadError as error:
        raise CatalogueError(f"{error} The catalogue is unchanged.") from error
    return b"".join(chunks)


def _read(path: str) -> bytes:
    try:
        return read_regular(Path(path), MAX_BYTES)
    except OSError as error:
        raise CatalogueError(
            f"{path} cannot be read: {error.strerror}. The catalogue is unchanged."
        ) from error


def asking_mode(id_: str) -> str | None:
    """The mode in which an agent asks for permission, if its default mode does not.

    It is written into the configuration, so it comes only from the catalogue in Dragoman, and from no registry.
    """
    entry = shipped().get(id_)
    cautions = entry.facts.cautions if entry is not None else ()
    return next((mode for caution in cautions if (mode := caution.unless_mode)), None)


def _merged(
    ours: Mapping[str, CatalogueEntry], theirs: Iterable[CatalogueEntry]
) -> Mapping[str, CatalogueEntry]:
    merged = dict(ours)
    known_as = {alias: id_ for id_, entry in ours.items() for alias in (id_, *entry.facts.aliases)}
    for entry in theirs:
        id_ = known_as.get(entry.id, entry.id)
        merged[id_] = _updated(merged[id_], entry) if id_ in merged else _as_fetched(entry, ())
    return merged


def _updated(ours: CatalogueEntry, theirs: CatalogueEntry) -> CatalogueEntry:
    if ours.facts.built_in:
        return ours
    facts = ours.facts
    if theirs.meta.dragoman is not None:
        facts = theirs.facts
    elif theirs.distribution != ours.distribution:
        # It was of the package that we know.
        facts = replace(facts, integrity=None)
    distribution = Distribution(
        npx=theirs.distribution.npx or ours.distribution.npx,
        uvx=theirs.distribution.uvx or ours.distribution.uvx,
        binary=theirs.distribution.binary or ours.distribution.binary,
    )
    updated = replace(theirs, id=ours.id, distribution=distribution).with_facts(facts)
    # A registry can add warnings, but cannot remove ours.
    warned = replace(facts, cautions=tuple(dict.fromkeys((*ours.facts.cautions, *facts.cautions))))
    return _as_fetched(updated.with_facts(warned), ours.facts.recognised_by)


def _as_fetched(entry: CatalogueEntry, recognised_by: tuple[dict[str, str], ...]) -> CatalogueEntry:
    return entry.with_facts(replace(entry.facts, recognised_by=recognised_by, built_in=False))


def _by_id(entries: Iterable[CatalogueEntry]) -> Mapping[str, CatalogueEntry]:
    return {entry.id: entry for entry in entries}
