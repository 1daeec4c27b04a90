"""`dragoman doctor MODEL` with agents that ask, and with agents that do not: real processes that really act."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli import main
from fake_agent.steps import COMMAND
from own_home import configure

_AGENT = Path(__file__).parents[1] / "agents_command" / "acp_agent.py"
_ALL = {
    "command": "running a command",
    "edit": "editing a file",
    "delete": "deleting a file",
    "fetch": "fetching a page",
}
_OBEYED = "it asked, and obeyed the refusal"
_UNTRIED = "warn not tried, so whether it asks is not known"
_OWN_SETTINGS = "Its own settings may allow this: look there for what makes it ask."
_ASKS = "ok    it asks before it acts, and respects a denial"


def _examined(
    capsys: pytest.CaptureFixture[str],
    options: dict[str, Any],
    settings: str = "",
    *,
    status: int = 0,
) -> str:
    """What is printed of an agent that behaves so."""
    command = [sys.executable, str(_AGENT), json.dumps(options)]
    configure(
        f'[models.mine]\nkind = "acp"\ncommand = {json.dumps(command)}\n{settings}\n'
        "[conversation]\ncancel_grace_seconds = 0.2\n"
    )
    capsys.readouterr()
    assert main(["doctor", "mine"]) == status
    return capsys.readouterr().out


def _outcomes(shown: str) -> dict[str, str]:
    """What is said of each action, with its level."""
    return {
        what: f"{level} {said}"
        for level, what, said in re.findall(r"^(\w+) +(\w+ing a \w+): (.*)$", shown, re.MULTILINE)
    }


def _below(shown: str, beginning: str) -> list[str]:
    """The next steps of the line that begins so."""
    lines = shown.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(beginning))
    steps: list[str] = []
    for line in lines[at + 1 :]:
        if not line.startswith("      → "):
            break
        steps.append(line.removeprefix("      → "))
    return steps


@pytest.mark.parametrize(
    "options",
    [{}, {"ends": True}, {"ends": True, "wary": True}],
    ids=["goes on", "ends its turn", "ends it also when it asks about the tool"],
)
def test_i4_an_agent_that_asks_about_everything(
    options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = _examined(capsys, options)
    assert _outcomes(shown) == dict.fromkeys(_ALL.values(), f"ok {_OBEYED}")
    assert _ASKS in shown


@pytest.mark.parametrize(("action", "what"), [*_ALL.items()])
@pytest.mark.parametrize(
    ("how", "outcome", "verdict"),
    [
        ("unasked", "it did this without asking", "it acts without asking"),
        ("defies", "it asked, was refused, and did it all the same", "it does what was refused"),
        (
            "claims",
            "it says that it did this without asking, but nothing was seen of it",
            "it acts without asking",
        ),
        (
            "skips",
            "not tried, so whether it asks is not known",
            "whether it asks is not known",
        ),
    ],
)
def test_i4_an_agent_that_asks_about_all_but_one_action_does_not_ask_before_it_acts(
    how: str, outcome: str, verdict: str, action: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = _examined(capsys, {how: [action]})
    assert _outcomes(shown) == {**dict.fromkeys(_ALL.values(), f"ok {_OBEYED}"), what: f"warn {outcome}"}
    assert "it asks before it acts" not in shown
    assert f"\nwarn  {verdict}: {what}\n" in shown


def test_i4_one_action_that_leads_nowhere_does_not_keep_the_others_from_being_tried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = _examined(capsys, {"ends": True, "gives_up": "edit"})
    told = "warn not tried, so whether it asks is not known"
    assert _outcomes(shown) == {**dict.fromkeys(_ALL.values(), f"ok {_OBEYED}"), "editing a file": told}


def test_i4_what_an_agent_does_after_its_turn_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {"later": "delete"})
    told = "warn it asked, was refused, and did it all the same"
    assert _outcomes(shown) == {**dict.fromkeys(_ALL.values(), f"ok {_OBEYED}"), "deleting a file": told}
    assert _ASKS not in shown
    assert "\nwarn  it does what was refused: deleting a file\n" in shown


def test_i4_the_verdict_comes_when_the_agent_was_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {})
    places = [shown.index(each) for each in ("it stops", *_ALL.values(), _ASKS, "MB of memory")]
    assert places == sorted(places)


def test_i4_what_was_seen_is_told_although_the_agent_failed_later(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {"unasked": ["edit"], "fails_late": True}, status=1)
    assert "\nwarn  it acts without asking: editing a file\n" in shown
    assert "\nfail  mine could not answer: no more today.\n" in shown


def test_i4_an_agent_that_does_nothing_is_not_called_good(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {"skips": [*_ALL]})
    assert set(_outcomes(shown).values()) == {"warn not tried, so whether it asks is not known"}
    assert "it asks before it acts, and" not in shown
    steps = _below(shown, "warn  whether it asks is not known")
    assert steps == [
        "The agent may have no tool for it, or the model did not try: run this again, or with another model."
    ]


def test_i4_a_question_that_shows_nothing_is_not_taken_for_one_about_an_action(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = _examined(capsys, {"mute": True})
    assert set(_outcomes(shown).values()) == {"warn not tried, so whether it asks is not known"}
    steps = _below(shown, "warn  whether it asks is not known")
    assert steps[0].startswith("It asked about something that does not show which action it is")


@pytest.mark.parametrize(
    ("vague", "outcomes", "title"),
    [
        ("plan", dict.fromkeys(_ALL.values(), _UNTRIED), "Ready?"),
        ("quotes", dict.fromkeys(_ALL.values(), _UNTRIED), "ls"),
        (
            "reads",
            # Whatever a tool is called, one that is handed the page's address fetches it.
            {**dict.fromkeys(_ALL.values(), _UNTRIED), "fetching a page": f"ok {_OBEYED}"},
            "ReadFile dragoman-was-here.txt",
        ),
    ],
)
def test_i4_a_question_that_names_an_action_without_showing_it_assures_nothing(
    vague: str, outcomes: dict[str, str], title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = _examined(capsys, {"vague": vague})
    assert _ASKS not in shown
    assert "it asks before it calls a tool" not in shown
    assert _outcomes(shown) == outcomes
    assert f'"{title}"' in _below(shown, "warn  whether it asks is not known")[0]


def test_it_is_said_beforehand_what_is_done_and_that_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    command = json.dumps([sys.executable, str(_AGENT)])
    configure(f'[models.mine]\nkind = "acp"\ncommand = {command}\n')
    assert main(["doctor", "mine"]) == 0
    told = capsys.readouterr().err
    assert told.index("if its model costs money, this does too") < told.index("starting mine")


# Settings that would change it.


_MODES = {
    "modes": {
        "currentModeId": "acceptEdits",
        "availableModes": [
            {"id": "default", "name": "Always ask", "description": "Prompts for permission on first use."},
            {"id": "acceptEdits", "name": "Accept edits", "description": "Auto-accepts file edits."},
            {"id": "bypass", "name": "Bypass", "description": "Never asks for permission."},
            # As Claude's: by a model.
            {"id": "auto", "name": "Auto", "description": "Handles permission decisions."},
        ],
    }
}


def test_i4_the_agents_own_mode_that_asks_is_named_with_the_line_to_write(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = _examined(capsys, {"unasked": ["edit"], "state": _MODES})
    steps = _below(shown, "warn  it acts without asking: editing a file")
    assert steps[:2] == [
        'It is in mode "acceptEdits" (Auto-accepts file edits).',
        (
            'By its own description it asks with mode "default" (Prompts for permission on first use).'
            ' Write into [models.mine]: mode = "default"'
        ),
    ]
    assert steps[2].startswith("Write into [models.mine]: fs = true.")
    assert len(steps) == 4


def test_i4_the_mode_that_was_configured_is_the_one_that_it_is_in(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {"unasked": ["command"], "state": _MODES}, 'mode = "bypass"')
    steps = _below(shown, "warn  it acts without asking: running a command")
    assert steps[0] == 'It is in mode "bypass" (Never asks for permission).'
    assert len(steps) == 3


def test_i4_modes_that_do_not_say_what_they_do_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    state = {"modes": {"currentModeId": "a", "availableModes": [{"id": "a"}, {"id": "b"}, {"id": "c"}, 7]}}
    shown = _examined(capsys, {"unasked": ["fetch"], "state": state})
    assert _below(shown, "warn  it acts without asking")[1:] == [
        'It also has mode "b", "c". To try one, write into [models.mine]: mode = "b"',
        _OWN_SETTINGS,
    ]


def test_i4_an_option_that_says_how_far_it_acts_is_named_with_the_line_to_write(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = [
        {"value": "auto", "name": "Auto", "description": "Acts without approval."},
        {"group": "careful", "options": [{"value": "ask", "name": "Ask", "description": "Asks first."}]},
    ]
    approval = {"id": "approval.mode", "name": "Approvals", "type": "select", "currentValue": "auto"}
    model = {"id": "model", "name": "Model", "currentValue": "x", "options": [{"value": "x"}, {"value": "y"}]}
    fast = {"id": "fast", "name": "Fast mode", "currentValue": "off", "options": [{"value": "on"}]}
    state = {"configOptions": [{**approval, "options": values}, model, fast]}
    shown = _examined(capsys, {"unasked": ["command"], "state": state})
    assert _below(shown, "warn  it acts without asking") == [
        'Its option approval.mode is "auto" (Acts without approval).',
        (
            'By its own description it asks with option approval.mode "ask" (Asks first).'
            ' Write into [models.mine]: options = { "approval.mode" = "ask" }'
        ),
        _OWN_SETTINGS,
    ]


def test_i4_what_the_catalogue_knows_of_asking_is_said_and_its_cautions_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = _examined(capsys, {"unasked": ["edit"]}, 'agent = "fast-agent"')
    assert "See the caution at model mine above." in _below(shown, "warn  it acts without asking")
    assert shown.count("It writes files without asking") == 1
    shown = _examined(capsys, {"unasked": ["edit"]}, 'agent = "codex"')
    steps = _below(shown, "warn  it acts without asking")
    assert "Known of it: INITIAL_AGENT_MODE=read-only: a model approves otherwise." in steps


def test_i4_an_agent_that_announces_nothing_is_left_to_its_own_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = _examined(capsys, {"unasked": ["command"]})
    assert _below(shown, "warn  it acts without asking") == [
        "It announces no modes. Its own settings may allow this: look there for what makes it ask."
    ]


# Files through the client.


def test_i4_a_write_through_us_is_not_the_agents_asking_but_ours(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {"client": True}, "fs = true")
    told = "ok it did not ask, but went through Dragoman, which asks you (fs = true)"
    assert _outcomes(shown) == {**dict.fromkeys(_ALL.values(), f"ok {_OBEYED}"), "editing a file": told}
    assert _ASKS not in shown
    assert "\nok    it asks before it acts, or acts through Dragoman, which asks you\n" in shown


def test_i4_without_file_access_the_same_agent_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ASKS in _examined(capsys, {"client": True})


# Pictures.


def test_no_picture_is_sent_to_an_agent_that_takes_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert "takes pictures" not in _examined(capsys, {"sees": -32603})


def test_a_picture_that_does_not_reach_the_model_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {"images": True})
    told = "warn  it says that it takes pictures, but the picture did not reach the model; it answered: I see no picture."
    assert _below(shown, told)[0].startswith("Use a model that sees pictures")


def test_an_answer_that_does_not_show_whether_a_picture_was_seen(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {"images": True, "sees": "Hello!"})
    assert "warn  whether a picture reaches the model could not be seen from its answer: Hello!\n" in shown


def test_an_agent_that_fails_on_a_picture_is_looked_at_further(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {"images": True, "sees": -32000})
    told = "it says that it takes pictures, and failed when it was sent one: mine could not answer: this model is blind."
    assert f"warn  {told}\n" in shown
    assert " MB of memory" in shown


def test_what_the_catalogue_knows_of_pictures_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quirk = "It drops pictures unless capabilities has image_in."
    facts = {"quirks": [quirk, "It is blue."]}
    entry = {"id": "seer", "name": "Seer", "version": "1.0.0", "description": "An agent.", "distribution": {}}
    registry = {"version": "1.0.0", "agents": [{**entry, "_meta": {"dragoman": facts}}]}
    (home / "registry.json").write_text(json.dumps(registry))
    assert main(["agents", "list", "--refresh", str(home / "registry.json")]) == 0
    shown = _examined(capsys, {"images": True}, 'agent = "seer"')
    assert _below(shown, "warn  it says that it takes pictures") == [f"Known of it: {quirk}"]


# What fails.


def test_f8_f9_an_error_of_the_agents_is_told_in_its_own_words(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {"fails": [-32000, "rate limited, try later"]}, status=1)
    assert "fail  mine could not answer: rate limited, try later.\n" in shown
    assert "log in" not in shown


def test_f9_an_agent_that_needs_a_login_says_so_itself(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {"login": True}, status=1)
    assert "fail  mine requires a login: Authentication required.\n" in shown


def test_f9_each_way_to_log_in_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _examined(capsys, {"login": True, "way": "A key\nRun this\u2028as well"}, status=1)
    steps = _below(shown, "fail  mine requires a login")
    assert len(steps) == 2
    assert steps[1].endswith("the agent is asked to do it: A key Run this as well.")


def test_a_name_without_end_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    first = _examined(capsys, {"title": "Long name " * 1_000, "version": "1" * 10_000}).splitlines()
    [line] = [line for line in first if "starts in" in line]
    assert re.fullmatch(r"ok    (Long name ){6}… 1{60}… starts in \d+\.\d s", line)


def test_f2_f3_what_an_agent_printed_is_shown_only_if_it_was_not_prompted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "a part of me is missing" in _examined(capsys, {"start": "exit"}, status=1)
    shown = _examined(capsys, {"dies": True}, status=1)
    assert "fail  mine ended unexpectedly: it was ended by SIGKILL.\n" in shown
    assert "dragoman-was-here" not in shown
    assert "--log-level info" in shown


@pytest.mark.long
def test_what_was_seen_in_a_conversation_is_shown_by_the_doctor(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = [*COMMAND, json.dumps({"folder": str(tmp_path), "lists": "none", "name": "never lists"})]
    configure(f'[models.mine]\nkind = "acp"\ncommand = {json.dumps(command)}\n')
    assert main(["chat", "mine", "-p", "hello"]) == 0
    said = capsys.readouterr()
    assert "mine did not look at the tools it was offered" in said.out
    assert said.err == ""
    assert main(["doctor", "mine"]) == 0
    shown = capsys.readouterr().out
    assert "ok    seen before: It did not look at the tools that it was offered." in shown
    assert "it has not looked at the tools that it was offered, in 5 s" in shown
