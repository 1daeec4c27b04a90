"""`dragoman`, told that an agent gives a tool call up sooner than the catalogue says: `hurried.py AGENT SECONDS …`.

Then it gives tickets while a test can wait for them.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from dragoman.backends.agent import catalogue
from dragoman.cli import entry


def main() -> None:
    _, agent, seconds, *words = sys.argv
    hurried = replace(catalogue.traits_of(agent), tool_limit_seconds=float(seconds))
    catalogue.CATALOGUE = {**catalogue.CATALOGUE, agent: hurried}
    sys.argv = ["dragoman", *words]
    entry()


if __name__ == "__main__":
    main()
