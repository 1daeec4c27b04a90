"""The catalogue that came with us, and what a registry makes of it."""

import asyncio
import json
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from importlib import resources
from pathlib import Path
from threading import Thread
from typing import Any

import jsonschema
import msgspec
import pytest

from agents_command import packages
from dragoman.agents import catalogue as module
from dragoman.agents.catalogue import CatalogueError, catalogue, read_registry, shipped
from dragoman.agents.entry import CatalogueEntry, Facts
from dragoman.backends.agent.profile.traits import CATALOGUE, UNKNOWN, Traits, traits_of

_DATA = resources.files("dragoman.agents").joinpath("catalogue.json").read_bytes()

# The public registry's schema of an agent, as far as it restricts anything.
_PACKAGE = {
    "type": "object",
    "required": ["package"],
    "properties": {
        "package": {"type": "string", "minLength": 1},
        "args": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": False,
}
_SCHEMA = {
    "type": "object",
    "required": ["version", "agents", "extensions"],
    "additionalProperties": False,
    "properties": {
        "version": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+"},
        "extensions": {"type": "array"},
        "agents": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "name", "version", "description", "distribution"],
                "properties": {
                    "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
                    "name": {"type": "string", "minLength": 1},
                    "version": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+"},
                    "description": {"type": "string", "minLength": 1},
                    "license": {"type": "string"},
                    "distribution": {
                        "type": "object",
                        "minProperties": 1,
                        "properties": {"npx": _PACKAGE, "uvx": _PACKAGE, "binary": {"type": "object"}},
                        "additionalProperties": False,
                    },
                },
            },
        },
    },
}


def test_the_file_is_a_registry() -> None:
    jsonschema.validate(json.loads(_DATA), _SCHEMA)


def _known(kind: type, value: dict[str, Any], where: str) -> None:
    """No key that nobody reads: a slip of the pen would be a fact that does not hold."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    assert value.keys() <= fields.keys(), where


def test_every_fact_is_one_that_is_read() -> None:
    for agent in json.loads(_DATA)["agents"]:
        _known(CatalogueEntry, agent, agent["id"])
        facts = agent["_meta"]["dragoman"]
        _known(Facts, facts, agent["id"])
        for name in ("needs", "toolLimit"):
            field = {each.encode_name: each.type for each in msgspec.structs.fields(Facts)}[name]
            for kind in getattr(field, "__args__", (field,)):
                if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                    _known(kind, facts.get(name, {}), agent["id"])


def test_every_agent_could_be_read_and_names_the_version_that_it_installs() -> None:
    assert list(shipped()) == [agent["id"] for agent in json.loads(_DATA)["agents"]]
    for entry in shipped().values():
        package = entry.distribution.npx or entry.distribution.uvx
        assert package is not None
        assert entry.facts.built_in or package.package.endswith(entry.version), entry.id
        assert entry.facts.built_in or entry.facts.integrity, entry.id


def test_no_alias_is_anothers_name() -> None:
    names = [name for entry in shipped().values() for name in (entry.id, *entry.facts.aliases)]
    assert len(names) == len(set(names))


def test_the_bridge_reads_the_facts() -> None:
    assert CATALOGUE["codex"].tool_limit_seconds == 300
    # Progress keeps it waiting.
    assert shipped()["opencode"].facts.tool_limit is not None
    assert CATALOGUE["opencode"].tool_limit_seconds is None
    assert dict(CATALOGUE["claude"].env) == {"ENABLE_TOOL_SEARCH": "false"}
    assert traits_of("unknown") == UNKNOWN == traits_of(None, {})
    # Nor is an agent known of which a registry says only where it comes from.
    assert traits_of("other", {"other": Facts()}) == UNKNOWN
    assert traits_of("other", {"other": Facts(lists_again=False)}) == Traits(lists_again=False)


# What a registry says.


def refresh(folder: Path, source: str | None) -> str:
    return asyncio.run(module.refresh(folder, source))


def fetched(folder: Path, *entries: dict[str, Any]) -> dict[str, CatalogueEntry]:
    refresh(folder, str(packages.registry(folder / "source.json", *entries)))
    return dict(catalogue(folder))


def test_a_registry_replaces_where_an_agent_comes_from_and_not_what_we_know(tmp_path: Path) -> None:
    package = "@agentclientprotocol/claude-agent-acp@1.5.0"
    theirs = {**packages.entry("1.5.0", {"npx": {"package": package}}), "id": "claude-acp", "unknown": [1]}
    claude = fetched(tmp_path, theirs)["claude"]
    assert (claude.id, claude.version) == ("claude", "1.5.0")
    assert claude.distribution.npx is not None
    assert claude.distribution.npx.package == package
    ours = shipped()["claude"].facts
    # The hash was that of the package that we know.
    assert claude.facts == msgspec.structs.replace(ours, integrity=None)
    assert "claude-acp" not in catalogue(tmp_path)


def test_an_agent_that_nobody_knows_gets_the_careful_defaults(tmp_path: Path) -> None:
    new = fetched(tmp_path, packages.entry("1.0.0", {"npx": {"package": "x@1.0.0"}}))["packaged"]
    assert new.facts == Facts()
    assert traits_of("packaged", {"packaged": new.facts}) == UNKNOWN


def test_facts_are_taken_but_for_what_spares_a_question(tmp_path: Path) -> None:
    facts = {
        "toolLimit": {"seconds": 5},
        "listsAgain": False,
        "recognisedBy": [{"title": "{tool}"}],
        "builtIn": True,
    }
    distribution = {"npx": {"package": "x@1.0.0"}}
    ours = {**packages.entry("9.0.0", distribution, **facts), "id": "codex"}
    found = fetched(tmp_path, packages.entry("1.0.0", distribution, **facts), ours)
    assert found["packaged"].facts.recognised_by == ()
    assert not found["packaged"].facts.built_in
    traits = traits_of("codex", {id_: entry.facts for id_, entry in found.items()})
    assert traits.tool_limit_seconds == 5
    assert traits.recognised_by == CATALOGUE["codex"].recognised_by


def test_what_cannot_be_read_is_left_out_and_the_rest_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = packages.entry("1.0.0", {"npx": {"package": "x@1.0.0"}})
    bad = [{**good, "id": "../x"}, {**good, "version": "new"}, {"id": "y"}, {**good, "id": "A"}]
    assert [
        entry.id for entry in read_registry(packages.registry(tmp_path / "r", *bad, good).read_bytes(), "r")
    ] == ["packaged"]
    assert caplog.text.count("an agent is left out") == len(bad)


def test_a_file_that_was_spoilt_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / module.REFRESHED).write_text("{")
    assert catalogue(tmp_path) == shipped()
    assert "The catalogue that came with us is used." in caplog.text


@pytest.mark.parametrize(
    "source", ["ftp://example.invalid/r", "http://example.invalid/r", "file:///no/such/file"]
)
def test_addresses_that_are_not_fetched_from(source: str, tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="The catalogue is unchanged"):
        refresh(tmp_path / "agents", source)
    assert not (tmp_path / "agents").exists()


def test_a_registry_is_fetched_from_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = tmp_path / "served"
    served.mkdir()
    packages.registry(served / "registry.json", packages.entry("1.0.0", {"npx": {"package": "x@1.0.0"}}))
    (served / "large.json").write_bytes(b" " * 5_000)
    with HTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=served)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        try:
            assert refresh(tmp_path, f"{address}/registry.json") == f"{address}/registry.json"
            with pytest.raises(CatalogueError, match="answered 404"):
                refresh(tmp_path, f"{address}/none.json")
            monkeypatch.setattr(module, "MAX_BYTES", 4_000)
            with pytest.raises(CatalogueError, match="more than 4,000 bytes"):
                refresh(tmp_path, f"{address}/large.json")
        finally:
            server.shutdown()
            thread.join()
    with pytest.raises(CatalogueError, match="cannot be fetched"):
        refresh(tmp_path, None)
    assert catalogue(tmp_path)["packaged"].version == "1.0.0"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        pass
