"""Which command logs in to an agent, from what real agents say of themselves."""

import sys

import pytest

from dragoman.acp.login import login_commands
from dragoman.acp.messages import AuthMethod

_CLAUDE = AuthMethod(
    "claude-ai-login", "Claude Subscription", type="terminal", args=["--cli", "auth", "login", "--claudeai"]
)
_COPILOT = AuthMethod(
    "copilot-login",
    "Log in with Copilot CLI",
    "Run `copilot login` in the terminal",
    meta={"terminal-auth": {"command": "/tools/copilot", "args": ["login"], "label": "Copilot Login"}},
)
_OPENCODE = AuthMethod("opencode-login", "Login with opencode", "Run `opencode auth login` in the terminal")


@pytest.mark.parametrize(
    ("method", "command", "login"),
    [
        (_CLAUDE, ("node", "/a/index.js"), ("node", "/a/index.js", "--cli", "auth", "login", "--claudeai")),
        (_COPILOT, ("/tools/copilot", "--acp"), ("/tools/copilot", "login")),
        (_OPENCODE, ("/b/opencode", "acp"), ("/b/opencode", "auth", "login")),
        (_OPENCODE, ("node", "/b/opencode.js", "acp"), ("node", "/b/opencode.js", "auth", "login")),
        (AuthMethod("x", description="Run `sh -c true` first"), ("agent",), ("/bin/sh", "-c", "true")),
    ],
)
def test_f9_the_command_of_a_login(
    method: AuthMethod, command: tuple[str, ...], login: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/bin")
    [found] = login_commands((method,), command)
    assert found.command == login


@pytest.mark.parametrize(
    "method",
    [
        AuthMethod("api-key", "API Key", "Use an API key to authenticate"),
        AuthMethod("key", "Use KEY", "Requires setting the `KEY` environment variable.", type="env_var"),
        AuthMethod("x", description="Run `no-such-program login`"),
        AuthMethod("x", description="Run `half 'a quote`"),
    ],
)
def test_f9_a_way_without_a_command(method: AuthMethod) -> None:
    assert login_commands((method,), (sys.executable, "agent")) == ()


def test_f9_what_an_agent_calls_its_way_cannot_act_on_the_terminal() -> None:
    method = AuthMethod("x", "\x1b[2J An\nything", type="terminal", args=["\x1b[2J"])
    [found] = login_commands((method,), ("agent",))
    assert "\x1b" not in found.label + found.text
    assert "\n" not in found.label
