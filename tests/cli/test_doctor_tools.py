"""`dragoman doctor MODEL` with an agent whose model does not see the tools: what helps is in the catalogue."""

import json
import sys
from pathlib import Path

import pytest

from dragoman.agents.catalogue import shipped
from dragoman.cli import main
from own_home import configure

pytestmark = pytest.mark.long

_AGENT = Path(__file__).parents[1] / "agents_command" / "acp_agent.py"


@pytest.mark.usefixtures("home")
def test_what_to_do_about_tools_that_are_not_used_is_what_is_known_of_the_agent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = json.dumps([sys.executable, str(_AGENT), "{}"])
    configure(f'[models.mine]\nkind = "acp"\nagent = "qwen"\ncommand = {command}\n')
    main(["doctor", "mine"])
    shown = " ".join(capsys.readouterr().out.split())
    hint = shipped()["qwen"].facts.when_no_tools
    assert hint is not None
    assert f"it was asked to call a tool that it was offered, and did not → {hint}" in shown
