"""The terminal front end: a chat for a person, one prompt for a script, JSON lines for a program."""

from dragoman.frontends.terminal.entry import ChatOptions, NoPrompt, run_chat

__all__ = ["ChatOptions", "NoPrompt", "run_chat"]
