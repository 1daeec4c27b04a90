"""Agents from npm and from pip, installed for real: from packages made here, without a network."""

import base64
import hashlib
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agents_command import packages
from dragoman.agents.installed import InstalledAgents
from dragoman.cli import main

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def no_network(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_offline", "true")
    monkeypatch.setenv("npm_config_userconfig", str(home / "npmrc"))
    monkeypatch.setenv("npm_config_cache", str(home / "npm-cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(home))


def offer(home: Path, version: str, distribution: dict[str, Any], **facts: Any) -> None:
    file = packages.registry(home / "registry.json", packages.entry(version, distribution, **facts))
    assert main(["agents", "list", "--refresh", str(file)]) == 0


def add(*words: str) -> int:
    return main(["agents", "add", "packaged", "--yes", *words])


def npx(package: object) -> dict[str, Any]:
    return {"npx": {"package": str(package), "env": {"PACKAGED": "yes"}}}


def said_by(home: Path) -> str:
    """What the version in use says of itself."""
    found = InstalledAgents(home / ".local/state/dragoman").find("packaged")
    assert found is not None
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    done = subprocess.run(
        found.command, input=f"{json.dumps(request)}\n", capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout.splitlines()[0])
    version = answer["result"]["agentInfo"]["version"]
    assert isinstance(version, str)
    return version


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_an_npm_package_is_installed_replaced_and_kept_when_the_next_is_broken(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(home, "1.0.0", npx(packages.npm_package(home, "1.0.0")))
    assert add() == 0
    assert said_by(home) == "1.0.0"
    found = InstalledAgents(home / ".local/state/dragoman").find("packaged")
    assert found is not None
    assert found.integrity is not None
    assert found.integrity.startswith("sha512-")
    assert found.env == {"PACKAGED": "yes"}
    # No script of the package has run.
    assert not list((home / ".local/state/dragoman/agents").rglob("script-has-run"))

    offer(home, "2.0.0", npx(packages.npm_package(home, "2.0.0")), integrity=found.integrity)
    capsys.readouterr()
    assert add() == 1
    assert "is not the package that the catalogue knows" in capsys.readouterr().err
    assert said_by(home) == "1.0.0"

    offer(home, "2.0.0", npx(packages.npm_package(home, "2.0.0")), scripts=True)
    monkeypatch.setenv("SERVER_KEY", "sk-of-the-server")
    file = home / ".config/dragoman/dragoman.toml"
    file.write_text(f'{file.read_text()}\n[serve]\napi_keys = ["$SERVER_KEY"]\n')
    assert add() == 0
    assert said_by(home) == "2.0.0"
    [left] = (home / ".local/state/dragoman/agents").rglob("script-has-run")
    assert left.read_text() == ""

    offer(home, "3.0.0", npx(packages.npm_package(home, "3.0.0", works=False)))
    assert add() == 1
    assert (
        "does not start: Packaged agent ended unexpectedly: it exited with code 4." in capsys.readouterr().err
    )
    offer(home, "4.0.0", npx("@packaged/nowhere@4.0.0"))
    assert add() == 1
    assert (
        "npm failed: the network, or the place that packages come from, cannot be reached."
        in capsys.readouterr().err
    )
    assert said_by(home) == "2.0.0"


class _Registry(ThreadingHTTPServer):
    """A registry of npm with the packages in a folder. `cut` are the versions that break off in the middle, `others` those
    whose bytes are not the ones that were announced.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.folder = folder
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.cut: set[str] = set()
        self.others: set[str] = set()
        self.fetched: list[str] = []


class _Answering(BaseHTTPRequestHandler):
    server: _Registry

    def do_GET(self) -> None:
        if not self.path.endswith(".tgz"):
            self._send(json.dumps(self._document()).encode())
            return
        version = self.path.removeprefix("/agent-").removesuffix(".tgz")
        self.server.fetched.append(version)
        data = (self.server.folder / f"packaged-agent-{version}.tgz").read_bytes()
        if version in self.server.others:
            data = data[:-9] + b"x" * 9
        self._send(data, len(data) // 2 if version in self.server.cut else len(data))

    def _document(self) -> dict[str, Any]:
        versions = {}
        for file in self.server.folder.glob("packaged-agent-*.tgz"):
            version = file.stem.removeprefix("packaged-agent-")
            digest = base64.b64encode(hashlib.sha512(file.read_bytes()).digest()).decode()
            tarball = f"{self.server.url}/agent-{version}.tgz"
            versions[version] = {
                "name": "@packaged/agent",
                "version": version,
                "bin": {"agent": "main.js"},
                "dist": {"tarball": tarball, "integrity": f"sha512-{digest}"},
            }
        return {"name": "@packaged/agent", "dist-tags": {"latest": max(versions)}, "versions": versions}

    def _send(self, data: bytes, given: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:given])
        self.close_connection = True

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def npm_registry(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Registry]:
    with _Registry(home) as registry:
        monkeypatch.setenv("npm_config_offline", "false")
        monkeypatch.setenv("npm_config_registry", registry.url)
        monkeypatch.setenv("npm_config_fetch_retries", "0")
        serving = threading.Thread(target=registry.serve_forever)
        serving.start()
        yield registry
        registry.shutdown()
        serving.join()


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_a_download_from_a_registry_that_breaks_off_or_is_another_leaves_the_old_version_in_use(
    home: Path, npm_registry: _Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        packages.npm_package(home, version)
    offer(home, "1.0.0", npx("@packaged/agent@1.0.0"))
    assert add() == 0
    assert said_by(home) == "1.0.0"
    npm_registry.cut.add("2.0.0")
    npm_registry.others.add("3.0.0")
    for version in ("2.0.0", "3.0.0"):
        assert add("--version", version) == 1
        assert "npm failed: " in capsys.readouterr().err
        assert version in npm_registry.fetched
        assert said_by(home) == "1.0.0"
        assert len(list((home / ".local/state/dragoman/agents/packaged").iterdir())) == 2
    npm_registry.cut.clear()
    assert add("--version", "2.0.0") == 0
    assert said_by(home) == "2.0.0"


def test_a_wheel_is_installed_replaced_and_kept_when_the_next_is_broken(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [json.dumps({"version": "told"})]
    known = packages.sha256(packages.wheel(home, "1.0.0"))

    def uvx(version: str) -> dict[str, Any]:
        return {"uvx": {"package": f"packaged-agent=={version}", "args": arguments}}

    offer(home, "1.0.0", uvx("1.0.0"), integrity=f"sha256:{known}")
    assert add() == 0
    assert said_by(home) == "told"

    packages.wheel(home, "2.0.0", works=False)
    assert add("--version", "2.0.0") == 1
    assert "does not start: Packaged agent ended unexpectedly" in capsys.readouterr().err
    assert add("--version", "9.0.0") == 1
    assert "pip failed: there is no such package or version" in capsys.readouterr().err
    found = InstalledAgents(home / ".local/state/dragoman").find("packaged")
    assert found is not None
    assert found.version == "1.0.0"
    assert said_by(home) == "told"


def test_a_python_that_is_not_there(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(home))
    monkeypatch.setenv("PYENV_ROOT", str(home))
    offer(home, "1.0.0", {"uvx": {"package": "packaged-agent==1.0.0"}}, needs={"python": "3.99"})
    assert add() == 1
    assert "it needs Python 3.99 or newer, and none is found." in capsys.readouterr().err
