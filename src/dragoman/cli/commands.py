"""The commands: what each is for, and what it takes. Texts and arguments only; each runs in a module of its own."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["COMMANDS", "Command"]


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    # In the list of commands.
    summary: str
    # In its own help.
    description: str
    examples: str
    add_arguments: Callable[[ArgumentParser], object]

    @property
    def module(self) -> str:
        """Where its function `run` is. Imported when the command is used, so that no command pays for another."""
        return f"dragoman.cli.{self.name.replace('-', '_')}"


def _chat(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="a model of the configuration; without it, the first there"
    )
    parser.add_argument(
        "-p",
        "--prompt",
        metavar="PROMPT",
        help="run this one prompt and exit; - reads it from standard input",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="with -p: print events as JSON, one object a line; questions are answered on standard input",
    )


def _check(parser: ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="a model of the configuration")


def _approvals(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        metavar="list|revoke|reset",
        help="show what is approved (the default), take back some of it, or all of it",
    )
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="with revoke: the approvals to take back, as list shows them"
    )
    parser.add_argument("--json", action="store_true", help="with list: one JSON object a line")


def _conversations(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        metavar="list|show|delete",
        help="list what is kept (the default), show what was said, or delete it",
    )
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="with show and delete: which, as list shows them"
    )
    parser.add_argument("--json", action="store_true", help="with list: one JSON object a line")


def _doctor(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="also start this model and send it one short prompt"
    )


def _demo_agent(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--sessions",
        type=Path,
        metavar="DIR",
        help="where its sessions are kept; without it, in the state folder",
    )
    parser.add_argument(
        "--pace",
        default="natural",
        metavar="PACE",
        help="how fast it talks: natural (the default), fast or instant",
    )


def _no_arguments(_parser: ArgumentParser) -> None:
    pass


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command(
            "chat",
            "talk to a model in the terminal, with tools that ask before they act",
            """\
Talk to a model in the terminal. The model may read and change files, run
commands and fetch pages, in the folder you are in; it asks before it acts,
unless the tool only reads or you have approved the same thing before.

Ctrl-C stops the answer, twice in a row ends the chat. /help lists what else
can be typed.

With -p there is one prompt and one answer, and an exit status that says
whether it worked. Where nobody can be asked, what needs an approval is not
done.

A dragoman.toml that only lies in the folder you are in spares no question;
one that you name with --config may.""",
            """\
  dragoman chat
      talk to the first model of the configuration, or to the demo
  dragoman chat claude
      talk to the model in [models.claude]
  dragoman chat -p "What does this folder contain?"
      one question, the answer on standard output
  git diff | dragoman chat -p -
      the prompt from another command
  dragoman chat -p "Summarise README.md" --json | jq .event
      everything that happens, as JSON lines""",
            _chat,
        ),
        Command(
            "demo",
            "a chat with the built-in demo agent: no account, no network",
            """\
Talk to the built-in demo agent: a real agent in a process of its own, which
thinks, calls your tools, asks for permission and takes no for an answer,
without any account or network. It works on a copy of a small phrasebook, and
leaves nothing behind.

When standard input is not a terminal it plays its tour by itself and exits.""",
            """\
  dragoman demo
      try it out
  dragoman demo < /dev/null
      watch the tour""",
            _no_arguments,
        ),
        Command(
            "doctor",
            "check the installation, or whether a model answers",
            """\
Check what Dragoman needs: Python, the platform, the libraries, the
configuration, the state folder and the configured models. Each line says ok,
warn or fail, and what to do next.

With MODEL that model is started and sent one short prompt. Models that cost
money cost it here too.""",
            """\
  dragoman doctor
      is everything there?
  dragoman doctor claude
      does this model answer?""",
            _doctor,
        ),
        Command(
            "approvals",
            "what has been approved, and taking it back",
            """\
Show what has been approved for a workspace or for always, and take it back.
An approval that is taken back is asked for again, also in chats that are
running. reset takes back everything, the approvals of running sessions too.""",
            """\
  dragoman approvals
      the list, with a number for each
  dragoman approvals revoke 3 4
      ask again for these two
  dragoman approvals reset
      ask again for everything""",
            _approvals,
        ),
        Command(
            "conversations",
            "what is kept of conversations with agents, and getting rid of it",
            """\
Show what is kept of conversations with agents, so that they go on after a
restart: what was said and called, never what a tool returned. What nobody has
used for `keep_days` is forgotten by itself.""",
            """\
  dragoman conversations
      the list, the latest first
  dragoman conversations show abcdefghijklmnop
      what was said in one of them
  dragoman conversations delete abcdefghijklmnop
      forget it""",
            _conversations,
        ),
        Command(
            "vscode",
            "the other end of the VS Code extension, on standard input and output",
            """\
Serve the VS Code extension: JSON-RPC 2.0, one JSON value a line, on standard
input and output. The extension starts it; by hand it is of use to whoever
writes another editor's. Logs go to standard error or to --log-file.

It ends with its input, or after the request `shutdown`, and every agent it
started ends with it, however it ends.""",
            """\
  dragoman vscode --log-level debug --log-file dragoman.log
      what the extension runs, with everything written down""",
            _no_arguments,
        ),
        Command(
            "demo-agent",
            "the built-in demo agent, speaking ACP on standard input and output",
            """\
A small agent that speaks the Agent Client Protocol: it thinks, calls the tools
it is offered, asks for permission before it acts, and takes no for an answer.
For any client of that protocol, and to see how an agent works.""",
            """\
  dragoman demo-agent
      what a client starts; it ends with its input""",
            _demo_agent,
        ),
        Command(
            "check",
            "hold a model against the stream rules",
            """\
Run a model through a set of probes and print which of the stream rules it
keeps and which it breaks, with the part that broke it. For those who write
models: the rules are what a consumer of a response may rely on.

Exits with 1 when a rule is broken.""",
            """\
  dragoman check demo
      check the built-in demo
  dragoman check tape
      check the model in [models.tape]""",
            _check,
        ),
    )
}
