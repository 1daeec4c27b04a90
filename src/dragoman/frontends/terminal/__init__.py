"""The terminal front end: a chat for a person, one prompt for a script, JSON lines for a program."""

from dragoman.frontends.terminal.entry import ChatOptions, run_chat

__all__ = ["ChatOptions", "run_chat"]
