"""The end of a command's help: what it reads and writes, what it looks at in the environment, and how it ends.

Texts only. They are longer than a line of the terminal and are laid out by `layout`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from dragoman.cli.errors import DONE, FAILED, INTERRUPTED, WRONG_USAGE

__all__ = ["ALWAYS", "MANUAL", "STATE", "ManualPage", "listed", "sections"]

_Entries: TypeAlias = tuple[tuple[str, str], ...]

_CONFIG = ("dragoman.toml", "the configuration; `dragoman --help` says where it is looked for")
_DATABASE = "STATE/dragoman.db"
_INSTALLED = ("STATE/agents/", "agents that were installed with `dragoman agents add`")
_RUNNING = ("STATE/run/", "what is running: sockets, and processes to end after a crash")
STATE = (
    "STATE is --state-dir, else $DRAGOMAN_STATE_DIR, else ~/.local/state/dragoman (on macOS in ~/Library)."
)

# Every command looks at these.
ALWAYS: _Entries = (
    ("DRAGOMAN_CONFIG", "the configuration file"),
    ("DRAGOMAN_STATE_DIR", "the folder for state"),
    ("DRAGOMAN_LOG", "the log level"),
)
_KEYS = ("$NAME in the file", "the configuration may take keys and values from the environment")
_COLOUR = ("NO_COLOR", "no colours")


@dataclass(frozen=True, slots=True)
class ManualPage:
    # What the exit statuses 0 and 1 mean. The others mean the same for every command.
    done: str
    failed: str
    files: _Entries = ()
    environment: _Entries = ()


MANUAL: dict[str, ManualPage] = {
    "chat": ManualPage(
        "the user left, or the one prompt was answered",
        "there is no such chat to continue, or the one prompt was not answered: the model failed or stopped before it was done, or something was denied, or there was no terminal to ask at",
        (
            _CONFIG,
            (_DATABASE, "chats, and approvals for a workspace or for always"),
            ("STATE/prompts", "what was typed, for the arrow keys"),
            _INSTALLED,
        ),
        (_KEYS, _COLOUR),
    ),
    "demo": ManualPage(
        "the user left, or the tour is over",
        "the demo agent did not answer",
        (("a temporary folder", "the phrasebook it works on; it is removed at the end"),),
        (_COLOUR,),
    ),
    "init": ManualPage(
        "the configuration is written, or has the model already",
        "an answer was no, or the agent could not be installed or did not answer; the file is as it was",
        (
            (
                "your own dragoman.toml",
                "where [models.NAME] is written: yours, or the one that --config names",
            ),
            _INSTALLED,
        ),
        (_KEYS, ("PATH", "where node, npm and python3 are looked for")),
    ),
    "models": ManualPage(
        "the list was shown",
        "the list could not be written",
        (_CONFIG, _INSTALLED),
        (_KEYS, ("PATH", "where the commands of agents are looked for")),
    ),
    "config": ManualPage(
        "the files or the settings were shown, or the edited file is right",
        "there is no editor, or it failed",
        (_CONFIG, ("STATE/agreed/", "the files that you trust")),
        (_KEYS, ("VISUAL, EDITOR", "with edit: the editor; the first that is set")),
    ),
    "doctor": ManualPage(
        "nothing failed; there may be warnings",
        "a line begins with fail",
        (_CONFIG, (_DATABASE, "opened, to see whether that works"), _INSTALLED),
        (_KEYS, ("PATH", "where agents, Node and Python are looked for")),
    ),
    "agents": ManualPage(
        "the list was shown, the agent is installed, or it is removed",
        "it could not be installed or removed, or the answer was no; what was there before is still in use",
        (
            ("dragoman.toml", "where add writes [models.ID]: your own, or the one that --config names"),
            _INSTALLED,
            ("STATE/agents/registry.json", "the catalogue that --refresh has read"),
        ),
        (("PATH", "where node, npm and python3 are looked for"),),
    ),
    "approvals": ManualPage(
        "the list or the history was shown, or all of it was taken back",
        "there is no approval with that number, or the state cannot be read",
        ((_DATABASE, "what has been approved, and all decisions"),),
    ),
    "policy": ManualPage(
        "the rules, the explanation or the dry run was shown, or the rules are written",
        "the answer was no, or the state cannot be read",
        (
            _CONFIG,
            ("your own dragoman.toml", "where init and suggest write: yours, or the one that --config names"),
            (_DATABASE, "all decisions, for test and suggest"),
        ),
        (_KEYS,),
    ),
    "conversations": ManualPage(
        "the list or the conversation was shown, or all of it was deleted",
        "there is no such conversation, it is under way, or the state cannot be read",
        ((_DATABASE, "chats, and conversations with agents"),),
    ),
    "serve": ManualPage(
        "it was ended by SIGTERM",
        "it cannot listen: the port is taken, or may not be used",
        (
            _CONFIG,
            (_DATABASE, "responses that a client stores, and conversations with agents"),
            _RUNNING,
            _INSTALLED,
        ),
        (_KEYS,),
    ),
    "worker": ManualPage(
        "it was drained: by SIGTERM, or by `dragoman fleet drain`",
        "NATS cannot be reached or refuses, or another node has this name",
        (_CONFIG, (_DATABASE, "approvals, and what is known of agents"), _RUNNING, _INSTALLED),
        (_KEYS,),
    ),
    "fleet": ManualPage(
        "the fleet was shown, or what was asked for is done",
        "NATS cannot be reached or refuses, or there is no such worker",
        (
            _CONFIG,
            ("STATE/fleet/keys", "the keys of the fleet: who reads them owns it"),
            ("STATE/fleet/NAME.creds", "the credentials of a node, and of the operator (admin.creds)"),
            ("STATE/fleet/accounts.conf", "for the configuration of NATS servers"),
            ("STATE/fleet/jetstream/", "with up: what NATS stores"),
        ),
        (("PATH", "where nats-server is looked for, after the folder of this Python"),),
    ),
    "vscode": ManualPage(
        "the editor said `shutdown`, or closed our standard input",
        "there is no editor to talk to",
        (_CONFIG, (_DATABASE, "conversations with agents"), _RUNNING, _INSTALLED),
        (_KEYS,),
    ),
    "demo-agent": ManualPage(
        "the client closed our standard input",
        "there is no client to talk to",
        (("STATE/demo-agent/", "its sessions, unless --sessions names another folder"),),
    ),
    "check": ManualPage(
        "every rule that was exercised has passed",
        "a rule is broken, or the model does not answer",
        (_CONFIG, _INSTALLED),
        (_KEYS, ("VARIABLE", "the key of an endpoint, where --key-variable names it")),
    ),
    "trust": ManualPage(
        "the file is trusted, or there was nothing to ask",
        "the answer was no",
        (("./dragoman.toml", "the file to trust"), ("STATE/agreed/", "the files that you trust")),
    ),
    "completion": ManualPage(
        "the script was printed, or the names that it asks for",
        "the stored names cannot be read",
        (_CONFIG, _INSTALLED, (_DATABASE, "the ids of approvals and conversations")),
    ),
}


def sections(name: str) -> Iterator[tuple[str, str]]:
    """Headings and texts, in the order of a manual page."""
    page = MANUAL[name]
    if page.files:
        note = f"\n\n{STATE}" if any("STATE" in name for name, _ in page.files) else ""
        yield "files", listed(page.files) + note
    yield "environment", listed(ALWAYS + page.environment)
    statuses = (
        (str(DONE), page.done),
        (str(FAILED), page.failed),
        (str(WRONG_USAGE), "wrong usage or configuration; standard error says what and where"),
        (str(INTERRUPTED), "interrupted with Ctrl-C"),
    )
    yield "exit status", listed(statuses)


def listed(entries: _Entries) -> str:
    """A list as `layout` takes it."""
    widest = max(len(name) for name, _ in entries)
    return "\n".join(f"  {name:<{widest}}  {text}" for name, text in entries)
