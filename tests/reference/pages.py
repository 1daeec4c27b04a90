"""The pages of `docs/reference`, each made from the code that it is about."""

from collections.abc import Callable
from pathlib import Path

from reference.commands import commands
from reference.configuration import configuration
from reference.modules import modules
from reference.protocol import protocol
from reference.rules import rules

__all__ = ["FOLDER", "PAGES"]

FOLDER = Path(__file__).parents[2] / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "configuration.md": configuration,
    "modules.md": modules,
    "protocol.md": protocol,
    "rules.md": rules,
}
