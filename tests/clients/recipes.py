"""The setups in docs/http.md work as they stand there. Run by `make test-clients`; `make test` does not look here."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from clients import install
from clients.drivers import OFFLINE
from clients.programs.opencode import OPENCODE_OFFLINE
from clients.serving import WAYS, Way, served
from documents import items_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

_DOCUMENT = Path(__file__).parents[2] / "docs" / "http.md"
_ADDRESS = "http://127.0.0.1:8427/v1"
# What the demo agent says of itself.
_CAN = "I am the demo agent"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A server as it is without a configuration: it has the demo agent."""
    async with served(tmp_path_factory.mktemp("server") / "served", "") as address:
        yield address


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chain_url(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A server in front of that one."""
    settings = f'[models.demo]\nkind = "responses"\nbase_url = "{url}"\nmodel = "demo"\n'
    async with served(tmp_path_factory.mktemp("chain") / "served", settings) as address:
        yield address


class Recipe:
    """The code of one section, with the address of the server here."""

    def __init__(self, url: str, home: Path) -> None:
        self._url = url
        self.home = home
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb"}
        self.env |= OFFLINE | OPENCODE_OFFLINE

    def code(self, section: str) -> list[str]:
        items = items_of("http", _DOCUMENT.read_text("utf-8"))
        found = [item.text for item in items if item.id.startswith(f"http/{section}/code-")]
        assert found, section
        return [text.replace(_ADDRESS, self._url) for text in found]

    def write(self, name: str, text: str) -> Path:
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def command(self, name: str, *words: str) -> None:
        """A command of that name, as an installation of the client makes one."""
        line = " ".join(f"'{word}'" for word in words)
        self.write(f"bin/{name}", f'#!/bin/sh\nexec {line} "$@"\n').chmod(0o755)
        self.env["PATH"] = f"{self.home / 'bin'}{os.pathsep}{self.env['PATH']}"

    def python(self, section: str, given: str = "") -> str:
        """Run the program of a section."""
        [program] = self.code(section)
        return self.run(str(install.python("python")), "-c", program, given=given)

    def shell(self, script: str) -> str:
        return self.run("sh", "-ec", script)

    def run(self, *command: str, given: str = "") -> str:
        done = subprocess.run(
            command, cwd=self.home, env=self.env, input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def recipe(url: str, tmp_path: Path) -> Recipe:
    return Recipe(url, tmp_path)


async def test_codex(recipe: Recipe) -> None:
    settings, script = recipe.code("codex")
    recipe.write(".codex/config.toml", settings)
    recipe.command("codex", str(install.codex()))
    # Codex works in repositories only.
    recipe.shell("git init --quiet")
    assert _CAN in recipe.shell(script)


async def test_opencode(recipe: Recipe) -> None:
    settings, script = recipe.code("opencode")
    recipe.write("opencode.json", settings)
    recipe.command("opencode", str(install.opencode()))
    assert _CAN in recipe.shell(script)


async def test_aider(recipe: Recipe) -> None:
    metadata, script = recipe.code("aider")
    recipe.write(".aider.model.metadata.json", metadata)
    options = ("--no-git", "--no-check-update", "--analytics-disable", "--yes-always")
    recipe.command("aider", str(install.python("aider")), "-m", "aider", *options)
    assert _CAN in recipe.shell(script)


async def test_llm(recipe: Recipe) -> None:
    models, script = recipe.code("llm")
    recipe.env["LLM_USER_PATH"] = str(recipe.home / "llm")
    recipe.write("llm/extra-openai-models.yaml", models)
    recipe.command("llm", str(install.python("python")), "-m", "llm")
    assert _CAN in recipe.shell(script)


async def test_ai_sdk(recipe: Recipe) -> None:
    [program] = recipe.code("ai-sdk")
    recipe.write("weather.mjs", program)
    (recipe.home / "node_modules").symlink_to(install.node_clients() / "node_modules")
    assert "It rains in Oslo." in recipe.run(str(install.node()), "weather.mjs")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("answer", "said"), [("yes", "hello from the demo agent\n"), ("no", "You refused.")])
async def test_agents_sdk(url: str, chain_url: str, tmp_path: Path, way: Way, answer: str, said: str) -> None:
    recipe = Recipe(url if way == "direct" else chain_url, tmp_path)
    question, _, rest = recipe.python("openai-agents-sdk", given=f"{answer}\n").partition("Allow it? ")
    assert '"kind":"execute"' in question
    assert said in rest


async def test_langchain(recipe: Recipe) -> None:
    assert "It rains in Oslo." in recipe.python("langchain")


async def test_pydantic_ai(recipe: Recipe) -> None:
    assert re.fullmatch(r"name='.+' country='.+'\n", recipe.python("pydantic-ai"))
