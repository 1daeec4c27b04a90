"""The commands: what each is for, and what it takes. Texts and arguments only; each runs in a module of its own."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from dragoman.cli.command import CliCommand
from dragoman.cli.fleet_commands import FLEET_COMMANDS, node_name, port
from dragoman.cli.setup_commands import SETUP_COMMANDS

__all__ = ["COMMANDS"]


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
        "-c",
        "--continue",
        action="store_true",
        dest="continues",
        help="continue the last chat in this folder",
    )
    parser.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="ID",
        help="continue the chat with this id, or one that you choose; the beginning of an id suffices",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="with -p: print events as JSON, one object a line; questions are answered on standard input",
    )


def _check(parser: ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="TARGET", help="a model of the configuration, or the address of an endpoint"
    )
    parser.add_argument(
        "--model", metavar="NAME", help="with an address: which of its models; without it, the first it lists"
    )
    parser.add_argument(
        "--key-variable",
        metavar="VARIABLE",
        help="with an address: the environment variable with the endpoint's key",
    )


def _approvals(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        metavar="list|revoke|reset|history",
        help="show what is approved (the default), take back some of it or all of it, or show all decisions",
    )
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="with revoke: the approvals to take back, as list shows them"
    )
    parser.add_argument(
        "--since", metavar="TIME", help="with history: from then on; 30m, 12h, 7d, 2w ago, or a date"
    )
    parser.add_argument("--yes", action="store_true", help="with reset: do not ask")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="with list: also the tool and the key of each"
    )
    parser.add_argument("--json", action="store_true", help="with list and history: one JSON object a line")


def _policy(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="check",
        metavar="init|check|explain|test|suggest",
        help="list the rules in force (check, the default), add a first set, explain one decision, judge what was decided in the past, or suggest rules",
    )
    parser.add_argument(
        "--command",
        dest="line",
        metavar="CMD",
        help="with explain: this command line, as a shell would run it",
    )
    parser.add_argument(
        "--kind",
        metavar="read|edit|delete|other",
        help="with explain and --path: what would be done with the file",
    )
    parser.add_argument("--path", metavar="FILE", help="with explain and --kind: this file or folder")
    parser.add_argument("--url", metavar="URL", help="with explain: fetching this address")
    parser.add_argument("--tool", metavar="NAME", help="with explain: this tool")
    parser.add_argument("--agent", metavar="ID", help="with explain: the model that asks")
    parser.add_argument(
        "--cwd", metavar="DIR", help="with explain: the workspace; without it, the current folder"
    )
    parser.add_argument(
        "--since", metavar="TIME", help="with test and suggest: from then on; 30m, 12h, 7d, 2w ago, or a date"
    )
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="with test: judge by the rules in FILE, not by those in force",
    )
    parser.add_argument("--yes", action="store_true", help="with init: write the first set without asking")
    parser.add_argument(
        "--print", action="store_true", help="with init: print the first set, and write nothing"
    )
    parser.add_argument("--json", action="store_true", help="with explain and test: one JSON object")


def _conversations(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        metavar="list|show|export|delete",
        help="list what is stored (the default), show what happened, print all of it as JSON, or delete it",
    )
    parser.add_argument(
        "ids",
        nargs="*",
        metavar="ID",
        help="with show, export and delete: which, as list shows them; the beginning of an id suffices",
    )
    parser.add_argument(
        "--at",
        metavar="N",
        help="with show: up to the event with this number (12, or y6jk:3), and what it comes to",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="with list: also background responses, items, and the conversations of agents in chats",
    )
    parser.add_argument("--json", action="store_true", help="with list and show: one JSON object a line")


def _agents(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        metavar="list|add|remove",
        help="show the catalogue (the default), install an agent, or remove one",
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="with add and remove: which, as list shows them")
    parser.add_argument(
        "--version",
        dest="agent_version",
        metavar="VERSION",
        help="with add: another version than the catalogue's",
    )
    parser.add_argument(
        "--name", dest="model_id", metavar="NAME", help="with add: what the model is called; without it, ID"
    )
    parser.add_argument(
        "--replace", action="store_true", help="with add: replace a model of that name in the configuration"
    )
    parser.add_argument("--yes", action="store_true", help="with add and remove: do it without asking")
    parser.add_argument("--json", action="store_true", help="with list: one JSON object a line")
    parser.add_argument(
        "--refresh",
        nargs="?",
        const="",
        metavar="SOURCE",
        help="with list: first read the catalogue anew, from an address or a file; without one, from the last",
    )


def _serve(parser: ArgumentParser) -> None:
    parser.add_argument("--host", metavar="HOST", help="where to listen; 127.0.0.1 unless it is configured")
    parser.add_argument(
        "--port", type=port, metavar="PORT", help="8427 unless it is configured; 0 takes one that is free"
    )
    parser.add_argument(
        "--reasoning-events",
        choices=("summary", "spec", "openai"),
        metavar="NAMES",
        help="how thinking is sent: as a summary (the default), or as content, by the names of spec or of openai",
    )
    parser.add_argument(
        "--name", type=node_name, metavar="NAME", help="with [fleet]: what this gateway is called"
    )
    parser.add_argument(
        "--open", action="store_true", help="open the console in a browser; it asks for a pairing code"
    )
    parser.add_argument(
        "--pairing-code",
        action="store_true",
        help="print one pairing code on standard output also where that is not a terminal; "
        "who can read the output can use the code",
    )


def _demo_agent(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--sessions",
        type=Path,
        metavar="DIR",
        help="where its sessions are stored; without it, in the state folder",
    )
    parser.add_argument(
        "--pace",
        default="natural",
        metavar="natural|fast|instant",
        help="how fast it talks; natural by default",
    )


def _trust(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="agree without being asked")
    parser.add_argument("--forget", action="store_true", help="take it back: ask again")


def _completion(parser: ArgumentParser) -> None:
    parser.add_argument(
        "shell",
        metavar="bash|zsh|fish",
        help="which script to print; models, agents, approvals, conversations and chats print the names that it asks for",
    )


def _no_arguments(_parser: ArgumentParser) -> None:
    pass


COMMANDS: dict[str, CliCommand] = {
    command.name: command
    for command in (
        CliCommand(
            "chat",
            "talk to a model in the terminal, with tools that ask before they act",
            """\
Talk to a model in the terminal. The model may read and change files, run
commands and fetch pages, in the folder you are in; it asks before it acts,
unless the tool only reads or you have approved the same thing before.

Ctrl-C stops the answer, twice in a row ends the chat. /help lists what else
can be typed.

With -p there is one prompt and one answer, and an exit status that says
whether it worked. Without a terminal to ask at, what needs an approval is not
done.

Chats are kept, so that they can be continued: -c continues the last one in
this folder, --resume another one. A chat keeps its model, unless MODEL is
another. `dragoman conversations` shows and deletes what is kept.

A dragoman.toml that is only found in the current folder approves nothing;
one that you name with --config may.""",
            """\
  dragoman chat
      talk to the first model of the configuration, or to the demo
  dragoman chat claude
      talk to the model in [models.claude]
  dragoman chat -p "What does this folder contain?"
      one question, the answer on standard output
  dragoman chat -c
      go on with the last chat in this folder
  dragoman chat -c -p "And the other folder?"
      one more question in it
  dragoman chat --resume
      choose one of the last chats in this folder
  git diff | dragoman chat -p -
      the prompt from another command
  dragoman chat -p "Summarise README.md" --json | jq .event
      everything that happens, as JSON lines""",
            _chat,
        ),
        CliCommand(
            "demo",
            "a chat with the built-in demo agent: no account, no network",
            """\
Talk to the built-in demo agent: a real agent, in a separate process, that
thinks, calls your tools, asks for permission and respects a denial, without
any account or network. It works on a copy of a small phrasebook, which is
deleted at the end.

When standard input is not a terminal, it plays a tour and exits.""",
            """\
  dragoman demo
      try it out
  dragoman demo < /dev/null
      watch the tour""",
            _no_arguments,
        ),
        *SETUP_COMMANDS,
        CliCommand(
            "agents",
            "list the known agents, install and remove them",
            """\
Show the catalogue of agents: which there are, which are installed, and which
models of the configuration use them.

add installs an agent into the state folder, after asking, starts it once to
see that it works, and writes [models.ID] into your configuration. An agent that
is installed already is replaced when the new version works, and not before.
npm and pip take packages from the registries in their own settings. remove
removes the agent and its models.

Nothing is fetched unless you ask for it. The catalogue came with Dragoman;
--refresh reads a registry in the format of the public ACP registry.""",
            """\
  dragoman agents
      the catalogue
  dragoman agents add claude
      install Claude Code, and make it a model
  dragoman agents add claude --version 1.0.0
      install another version of it
  dragoman agents add codex --name work --yes
      as the model "work", without questions
  dragoman agents remove claude
      take it away again
  dragoman agents list --refresh registry.json
      read what a registry says""",
            _agents,
        ),
        CliCommand(
            "approvals",
            "list approvals, take them back, and show the history of decisions",
            """\
Show what has been approved for a workspace or for always, and take it back.
An approval that is taken back is asked for again, also in chats that are
running. reset takes back everything, the approvals of running sessions too,
after a question.

history shows every decision about an action of an agent or a tool of the
terminal: when, where, what, whether it was allowed, by whom or by which
approval, rule or setting, and how long that took.""",
            """\
  dragoman approvals
      the list, with a number for each
  dragoman approvals revoke 3 4
      ask again for these two
  dragoman approvals reset
      ask again for everything
  dragoman approvals history --since 7d
      who allowed what in the last week""",
            _approvals,
        ),
        CliCommand(
            "policy",
            "list, explain, try out and suggest rules that decide before you are asked",
            """\
Rules in dragoman.toml ([[policy]] tables) allow, ask about or deny actions
before a person is asked. The strictest rule that matches decides.

check lists the rules in force, each with its file and line, and says what to be
careful about in them. init adds a first set to your own file, after asking: reading
version control, listing and searching in the workspace. It also offers the test command of
this folder.

explain says what the rules decide about one action, and why: which rules match,
which commands a line consists of, what in it is not understood. It does not
look at approvals, nor at settings other than `eligible`.

test is a dry run: it judges all recorded actions by the rules in force, or by
those in another file. First it lists what a person refused and the rules would
allow, and what a person allowed and the rules would deny. suggest finds rules
that would have saved questions, and adds each to your own file only after a yes.""",
            """\
  dragoman policy
      the rules in force
  dragoman policy init
      add a first set
  dragoman policy explain --command "git log | head" --agent claude
      is this asked, and why?
  dragoman policy explain --kind edit --path src/main.py --json
      the same for a file, for a program
  dragoman policy test --since 7d
      what the rules would have decided in the last week
  dragoman policy test --policy draft.toml
      what other rules would have decided
  dragoman policy suggest
      rules for what you allow again and again""",
            _policy,
        ),
        CliCommand(
            "conversations",
            "list, show, export and delete stored chats and conversations",
            """\
List, show, export and delete what is stored: chats of `dragoman chat`, and
conversations with agents. They are stored so that they go on after a restart.
What was not used for `keep_days` is deleted.

show says what happened, with times: what was said, called and returned, each
permission and who decided, when the agent started and ended, and why each
request was taken for part of this conversation. --at N shows it as it was
after the event N, a number or `y6jk:3` as show prints it. export prints everything that is stored as one JSON document.

delete removes what was said from the disk. The decisions stay, without content.

These commands read no configuration file.""",
            """\
  dragoman conversations
      the list, the latest first
  dragoman conversations list --all
      also what `dragoman serve` keeps: background responses, and items
  dragoman conversations show abcdefghijklmnop
      what happened in one of them
  dragoman conversations show abcd --at 12
      the same, up to its event 12
  dragoman conversations export abcd > chat.json
      all of it, for a program
  dragoman conversations delete abcdefghijklmnop
      delete it""",
            _conversations,
        ),
        CliCommand(
            "serve",
            "serve the models over HTTP, for any OpenAI or Open Responses client",
            """\
Serve the configured models as an Open Responses endpoint, with chat
completions for older clients, until Ctrl-C or SIGTERM. Without API keys only
programs on this machine can use it; what an agent may do is then up to the
model's `permission` setting, to a client that answers its questions, or to a
person at the console.

The console is the page at the server's address. A browser is paired with a
code that is shown in this terminal; p makes a new one, r signs all browsers out.
Without a terminal there is no code, unless --pairing-code is given.

Answers that are under way when it ends may finish, for `drain_seconds`.""",
            """\
  dragoman serve
      at http://127.0.0.1:8427/v1
  dragoman serve --port 0
      at a port that is free; standard error says which
  dragoman serve --open
      with the console in a browser
  OPENAI_BASE_URL=http://127.0.0.1:8427/v1 OPENAI_API_KEY=none my-program
      use it from a program that knows OpenAI's API""",
            _serve,
        ),
        *FLEET_COMMANDS,
        CliCommand(
            "vscode",
            "the server for the VS Code extension, on standard input and output",
            """\
Serve the VS Code extension: JSON-RPC 2.0, one JSON value a line, on standard
input and output. The extension starts it; by hand it is of use to authors of
extensions for other editors. Logs go to standard error or to --log-file.

It ends with its input, or after the request `shutdown`, and every agent it
started ends with it, however it ends.""",
            """\
  dragoman vscode --log-level debug --log-file dragoman.log
      what the extension runs, with a log of everything""",
            _no_arguments,
        ),
        CliCommand(
            "demo-agent",
            "the built-in demo agent, speaking ACP on standard input and output",
            """\
A small agent that speaks the Agent Client Protocol: it thinks, calls the tools
it is offered, asks for permission before it acts, and respects a denial.
For any client of that protocol, and to see how an agent works.""",
            """\
  dragoman demo-agent
      what a client starts; it ends with its input""",
            _demo_agent,
        ),
        CliCommand(
            "check",
            "check a model against the stream rules",
            """\
Send a set of probes to a model, and print which of the stream rules pass and
which are broken, with the part that broke them. For authors of models: a
consumer of a response may rely on these rules.

Exits with 1 when a rule is broken.""",
            """\
  dragoman check demo
      check the built-in demo
  dragoman check tape
      check the model in [models.tape]
  dragoman check http://127.0.0.1:8427/v1 --model demo
      check an Open Responses endpoint, Dragoman's own or another""",
            _check,
        ),
        CliCommand(
            "trust",
            "trust a dragoman.toml that came with this folder, so that its models can be used",
            """\
Show which programs the dragoman.toml in this folder starts, where it sends
messages and which environment variables it gets, and trust the file with that.
Such a file comes with the folder, and its author is unknown. Before you trust
it, none of its models is used. In a terminal, dragoman chat MODEL asks the same
question. When the file changes, you are asked again.

The other settings of the file are ignored, except those that tighten. To honour
the whole file, name it with --config.""",
            """\
  dragoman trust
      look at it, and agree or not
  dragoman trust --yes
      agree without a terminal to ask at
  dragoman trust --forget
      take the trust back""",
            _trust,
        ),
        CliCommand(
            "completion",
            "completion of this command line, for bash, zsh and fish",
            """\
Print a script that lets your shell complete commands, options, files, the
names of models and agents, and the ids of approvals and conversations. It is
made from the commands that this version has.""",
            """\
  dragoman completion bash >> ~/.bash_completion
      bash, in every shell from now on, where bash-completion is installed
  source <(dragoman completion bash)
      bash, in this shell only
  dragoman completion zsh > "${fpath[1]}/_dragoman"
      zsh, in every shell from now on
  dragoman completion fish > ~/.config/fish/completions/dragoman.fish
      fish, in every shell from now on""",
            _completion,
        ),
    )
}
