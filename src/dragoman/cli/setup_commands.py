"""The commands that set Dragoman up and look at how it is set up: what each is for, and what it takes."""

from __future__ import annotations

from argparse import ArgumentParser

from dragoman.cli.command import CliCommand

__all__ = ["SETUP_COMMANDS"]


def _init(parser: ArgumentParser) -> None:
    parser.add_argument("--agent", metavar="AGENT", help="the agent, by its id in `dragoman agents`")
    parser.add_argument(
        "--name", dest="model_id", metavar="NAME", help="what the model is called; without it, the agent's id"
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="with --agent: install, test and write without asking; needed where there is no terminal",
    )
    parser.add_argument("--no-test", action="store_true", help="send no test prompt")


def _models(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _doctor(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="also start this model, and see what it can do"
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also list the version of every library, for a bug report",
    )


def _config(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="show",
        metavar="path|show|edit",
        help="list the files that apply, show the settings in force (the default), or edit your file",
    )
    parser.add_argument("--all", action="store_true", help="with show: the defaults, too")
    parser.add_argument("--json", action="store_true", help="with path and show: one JSON object a line")


SETUP_COMMANDS: tuple[CliCommand, ...] = (
    CliCommand(
        "init",
        "choose an agent, log in, try it, and write the configuration",
        """\
A short dialogue for the first start: which agent, is it installed, is it
logged in, does it answer. Agents that are installed come first in the list.

An agent that is missing is installed after a yes, as `dragoman agents add` does
it. If the agent requires a login, its own login command is shown and run after a
yes. Then the agent gets one test prompt, and you see its answer.

At the end you see the lines for your configuration file and where they go.
Nothing in the file is replaced. After Ctrl-C, nothing is written.""",
        """\
  dragoman init
      the dialogue
  dragoman init --agent claude
      the same, with the first question answered
  dragoman init --agent codex --name work --yes
      without questions, for a script""",
        _init,
    ),
    CliCommand(
        "models",
        "list the configured models, and whether each can be used",
        """\
List every model: its id, name and kind, whether its program is installed or its
endpoint configured, what decides if a client cannot be asked (`permission`), and
the file and line that define it. Starts nothing and contacts nothing.""",
        """\
  dragoman models
      the list
  dragoman models --json | jq -r 'select(.usable) | .id'
      the ids of those that can be used""",
        _models,
    ),
    CliCommand(
        "config",
        "show the configuration files and the settings in force, and edit them",
        """\
path lists the files that apply, in order, and says which of them was only found
in this folder and whether it is trusted.

show lists the settings in force, each with the file and line that sets it. Keys,
tokens and other secrets are hidden. --all adds the defaults.

edit opens your file in $VISUAL or $EDITOR, and checks it afterwards. A file with
mistakes stays as you saved it; the mistakes are listed with their lines, and you
can edit again.""",
        """\
  dragoman config
      the settings that your files set
  dragoman config show --all
      every setting
  dragoman config path
      which files are read
  dragoman config edit
      change your own""",
        _config,
    ),
    CliCommand(
        "doctor",
        "check the models and the installation, and say what to do next",
        """\
Check the configured models, the configuration, the state folder, the platform
and the libraries. The models come first. Each line says ok, warn or fail,
and what to do about it. The last line is one next step.

With MODEL, start that model and send it a short prompt. An agent is examined
in a scratch folder: its version and capabilities, whether it sees
tools, whether it asks before it runs a command, edits a file, deletes a file and
fetches a page, whether a picture reaches its model, how fast it stops, how much
memory it takes. That takes two to seven prompts, and says beforehand what it does.
What it asks for is refused. Models that cost money cost it here too.""",
        """\
  dragoman doctor
      is everything there?
  dragoman doctor claude
      does this model answer, and what can it do?
  dragoman doctor -v
      with all versions, for a bug report""",
        _doctor,
    ),
)
