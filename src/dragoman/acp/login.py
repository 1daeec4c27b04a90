"""How a user logs in to an agent with the agent's own program, in a terminal.

Agents name their ways to log in when they start. Three forms lead to a command:

- `type: "terminal"`: the agent's command with further arguments. The Claude adapter does this.
- `_meta["terminal-auth"]`: a whole command. GitHub Copilot does this.
- a description that names a command of the agent's own program: "Run `opencode auth login` in the terminal".

The command comes from the agent, and is shown to the user before it runs.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.acp.messages import AuthMethod
from dragoman.visible import visible_line

__all__ = ["LoginCommand", "login_commands"]

_NAMED_COMMAND = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class LoginCommand:
    # What the agent calls this way to log in.
    label: str
    command: tuple[str, ...]
    # Added to the agent's environment.
    env: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The command as a user would type it."""
        return visible_line(shlex.join(self.command))


def login_commands(methods: Iterable[AuthMethod], command: Sequence[str]) -> tuple[LoginCommand, ...]:
    """The commands that log in to an agent which is started as `command`."""
    found = (_command_of(method, tuple(command)) for method in methods)
    return tuple(each for each in found if each is not None)


def _command_of(method: AuthMethod, command: tuple[str, ...]) -> LoginCommand | None:
    label = visible_line(method.name or method.id)
    if (login := method.terminal_login(command)) is not None:
        return LoginCommand(label, *login)
    named = _NAMED_COMMAND.search(method.description or "")
    words = _words(named[1]) if named and method.type != "env_var" else ()
    program = _program(words[0], command) if words else None
    return None if program is None else LoginCommand(label, (*program, *words[1:]))


def _program(name: str, command: tuple[str, ...]) -> tuple[str, ...] | None:
    """The agent's own program if it is called that, also where an interpreter runs it; else one in PATH."""
    for number, word in enumerate(command[:2]):
        if Path(word).stem == name:
            return command[: number + 1]
    found = shutil.which(name)
    return None if found is None else (found,)


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return ()
