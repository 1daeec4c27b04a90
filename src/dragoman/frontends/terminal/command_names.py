"""The names that people know from other tools, and the commands of the chat that they stand for. Pure."""

from __future__ import annotations

__all__ = ["ALIASES", "is_leaving", "meant"]

ALIASES = {
    "exit": "quit",
    "q": "quit",
    "bye": "quit",
    "clear": "new",
    "reset": "new",
    "models": "model",
    "cost": "usage",
    "tokens": "usage",
    "context": "usage",
    "stats": "usage",
    "status": "usage",
    "sessions": "resume",
    "continue": "resume",
    "history": "resume",
    "permissions": "approvals",
    "allowed-tools": "approvals",
    "rules": "policy",
    "reasoning": "thinking",
    "details": "thinking",
    "editor": "edit",
    "save": "export",
    "share": "export",
    "compress": "compact",
    "summarize": "compact",
    "?": "help",
    "commands": "help",
}

_LEAVING = "quit"
# What other programs take without a slash. Nobody asks a model that.
_BARE_LEAVING = frozenset({"exit", "quit", ":q"})


def meant(name: str) -> str:
    """The command that a name stands for; the name itself if it is no other name of one."""
    return ALIASES.get(name, name)


def is_leaving(prompt: str) -> bool:
    """Whether a prompt leaves the chat. The arrow keys do not recall it."""
    words = prompt.split()
    if len(words) != 1:
        return False
    return words[0] in _BARE_LEAVING or (words[0].startswith("/") and meant(words[0][1:]) == _LEAVING)
