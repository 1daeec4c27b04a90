"""What a person is shown (scenarios Q): everything the agent sent, with a mark for everything that hides."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dragoman.permissions.action import Action
from dragoman.permissions.question import ActionQuestion, in_one_line, question_about
from dragoman.visible import hides
from lm.rendering import hostile_text, hrefs, inline_tokens, tokens
from permissions.actions import WORKSPACE, action, diff, text

A = f"{WORKSPACE}/a.txt"


def unbroken(message: str) -> str:
    return message.replace("↩\n", "")


def shown(**fields: Any) -> str:
    return unbroken(question_about(action(**fields)).message)


def test_q1_the_form_of_a_question() -> None:
    question = question_about(
        action(
            title="Bash",
            kind="execute",
            tool="Bash",
            input={"command": "git", "args": ["push", "a b"], "cwd": "sub", "env": {"A": "1"}, "stdin": "x"},
        )
    )
    assert question.title == "Claude Code wants to run a command"
    assert question.message == (
        "Command:\n```sh\ngit push 'a b'\n```\n\n"
        'Environment:\n```json\n{\n  "A": "1"\n}\n```\n\n'
        'Input:\n```json\n{\n  "cwd": "sub",\n  "stdin": "x"\n}\n```\n\n'
        f"Folder: `{WORKSPACE}/sub` · Agent: `Claude Code (claude)` · Tool: `Bash`"
    )
    assert question.plain == (
        "Command:\n    git push 'a b'\n\n"
        'Environment:\n    {\n      "A": "1"\n    }\n\n'
        'Input:\n    {\n      "cwd": "sub",\n      "stdin": "x"\n    }\n\n'
        f"Folder:\n    {WORKSPACE}/sub\n\nAgent:\n    Claude Code (claude)\n\nTool:\n    Bash"
    )
    assert not question.is_cut
    assert question.covers == f"exactly this request of Claude Code: run git push 'a b', in {WORKSPACE}/sub"


def test_q3_where_it_is_narrow_every_text_stands_in_a_block_that_wraps() -> None:
    asked = action(title="Bash", kind="execute", tool="Bash", input={"command": "make"})
    # Behind each block an empty line: VS Code's modal joins what follows to the last line.
    assert question_about(asked, spaced=True).message == (
        "Command:\n```sh\nmake\n\n```\n\n"
        f"```text\nFolder: {WORKSPACE}\nAgent: Claude Code (claude)\nTool: Bash\n\n```"
    )


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"title": "Read a", "kind": "read", "locations": [(A, 3)]}, "Claude Code wants to read: Read a"),
        ({"title": "Edit a", "content": [diff(A, "1", "2")]}, "Claude Code wants to change files: Edit a"),
        (
            {"title": "Rm", "kind": "delete", "locations": [(A, None)]},
            "Claude Code wants to delete or move files: Rm",
        ),
        (
            {"title": "Look", "kind": "fetch", "input": {"url": "https://e.example"}},
            "Claude Code wants to fetch from the network: Look",
        ),
        ({"title": "Dance", "input": {"a": 1}}, "Claude Code wants to do this: Dance"),
        (
            {"title": "Tidy", "kind": "delete", "locations": [(f"{WORKSPACE}/.git", None)]},
            f"Claude Code wants to delete or move files (sensitive: {WORKSPACE}/.git is protected)",
        ),
    ],
)
def test_q1_the_title_says_who_wants_what(fields: dict[str, Any], title: str) -> None:
    assert question_about(action(**fields)).title == title


def test_q1_the_command_is_shown_whatever_the_agent_calls_it() -> None:
    asked = action(title="Read a file", kind="read", input={"command": "rm -rf ."})
    assert question_about(asked).title == "Claude Code wants to run a command"
    assert question_about(asked).message.startswith("Command:\n```sh\nrm -rf .\n```")
    assert "Title by the agent: `Read a file`" in question_about(asked).message
    assert "Kind, says the agent: `read`" in question_about(asked).message
    assert in_one_line(asked) == "Claude Code wants to run: rm -rf ."
    assert in_one_line(asked, "may") == "Claude Code may run: rm -rf ."


def test_q2_beside_a_diff_what_it_does_not_show() -> None:
    raw = {"file_path": A, "old_string": "one", "new_string": "two", "replace_all": True, "more": ["x"]}
    message = shown(kind="edit", content=[diff(A, "one", "two")], input=raw)
    assert '{\n  "more": [\n    "x"\n  ],\n  "replace_all": true\n}' in message
    assert "old_string" not in message
    assert '"new_string": "three"' in shown(
        content=[diff(A, "one", "two")], input={**raw, "new_string": "three"}
    )


def test_q1_every_block_and_every_field_is_shown() -> None:
    message = shown(
        content=[
            text("Read this."),
            {"type": "terminal", "terminalId": "t-1"},
            {"type": "content", "content": {"type": "image"}},
        ],
        extra={"arguments": ["--force"]},
        input=["a", "list"],
    )
    for words in ("Read this.", '"terminalId": "t-1"', '"type": "image"', "--force", '"a",', '"list"'):
        assert words in message


def test_q4_several_files_each_and_an_empty_change_is_said() -> None:
    message = shown(
        content=[diff(A, None, ""), diff(f"{WORKSPACE}/b", "x", "x"), diff(f"{WORKSPACE}/c", "1", "2")]
    )
    assert f"New file: `{A}` It would be empty." in message
    assert f"Change to: `{WORKSPACE}/b` Nothing in it would change." in message
    assert f"Change to: `{WORKSPACE}/c`\n\n```diff\n@@ -1 +1 @@\n-1\n+2\n```" in message


def test_q4_hundreds_of_files_are_counted_and_listed() -> None:
    paths = [f"{WORKSPACE}/{number}" for number in range(300)]
    question = question_about(action(kind="read", input={"paths": paths}))
    assert "300 files:" in question.message
    assert question.is_cut
    assert all(path in question.whole for path in paths)


def test_q3_what_is_too_long_is_shown_from_both_ends() -> None:
    command = f"echo {'a' * 9_000}; rm -rf x"
    question = question_about(action(input={"command": command}))
    assert "; rm -rf x" in question.message
    assert f"⟨{len(command) - 4_000:,} characters left out⟩" in question.message
    assert question.is_cut
    assert command in unbroken(question.whole)
    assert "left out" not in question.whole
    assert "; rm -rf x" in question.plain


def test_q3_a_change_is_shown_from_both_ends() -> None:
    new = "\n".join(f"line {number}" for number in range(5_000))
    question = question_about(action(content=[diff(A, None, new)]))
    assert "+line 0" in question.message
    assert "+line 4999" in question.message
    assert "characters left out⟩" in question.message
    assert "+line 2500" in question.whole


def test_q5_only_a_title() -> None:
    for bare in (
        action(title="Bash", kind="execute"),
        action(title="Bash", input={}, content=[text(" Bash ")]),
    ):
        question = question_about(bare)
        assert question.covers is None
        assert "does not say what it would do" in question.message


def test_a_sensitive_action_has_no_lasting_yes() -> None:
    question = question_about(action(input={"command": "cat .env"}))
    assert question.covers is None
    assert question.message.startswith(
        "Sensitive, so asked about every time:\n```text\nit names .env\n```\n\nCommand:"
    )


def test_a_path_cannot_pass_for_a_line_of_the_diff() -> None:
    question = question_about(action(content=[diff(f"{WORKSPACE}/a\n+harmless", "x", "y")]))
    fences = [token for token in tokens(question.message) if token.type == "fence"]
    assert next(token.content for token in fences) == "@@ -1 +1 @@\n-x\n+y\n"
    assert "a␊+harmless" in question.message


def test_q3_nothing_leaves_no_mark() -> None:
    hidden = "\u202egnp.\u200bexe\x1b[2K"
    asked = action(
        title=f"List {hidden}",
        tool=hidden,
        agent_name=f"Agent {hidden}",
        input={
            "command": f"rm {hidden}",
            "path": f"/x/{hidden}",
            "url": f"https://e.test/{hidden}",
            "x": hidden,
        },
        content=[diff(f"/{hidden}", hidden, "x"), text(hidden), {"type": hidden}],
        extra={hidden: hidden},
    )
    for words in _all(question_about(asked)):
        assert "<U+202E>" in words
        assert not any(hides(each) for each in words if each != "\n")


def _all(question: ActionQuestion) -> tuple[str, ...]:
    return question.title, question.message, question.plain, question.whole


@given(hostile_text, hostile_text, hostile_text, hostile_text)
def test_what_is_shown_does_nothing_else(title: str, command: str, path: str, value: str) -> None:
    for asked in (
        action(title=title, input={"command": command, "path": path, "url": value, title: value}),
        action(title=title, content=[diff(path, command, value), text(value)], tool=path),
        action(title=title, extra={title: value}, agent_name=command),
    ):
        message = question_about(asked).message
        assert hrefs(message) == []
        assert {token.type for token in inline_tokens(message)} <= {
            "text",
            "code_inline",
            "softbreak",
            "hardbreak",
            "text_special",
        }
        assert not any(
            token.type.startswith(("html", "heading", "table", "list")) for token in tokens(message)
        )


WORDS = st.text("ab \n⟨·↩", min_size=1, max_size=30)


@given(WORDS, WORDS)
def test_q3_two_commands_that_differ_look_different(one: str, other: str) -> None:
    """Whatever is done to make a text visible, two texts never become one."""

    def asked(command: str) -> Action:
        return action(title="Bash", input={"command": command})

    # White space around a command is not part of it; the key counts it all the same.
    same = question_about(asked(one)).whole == question_about(asked(other)).whole
    assert same == (one == other) or one.strip() == other.strip()


@given(st.dictionaries(st.text(max_size=4), st.text("xyz", min_size=1, max_size=200), max_size=6))
def test_q1_every_text_of_the_input_is_in_the_question(raw: dict[str, str]) -> None:
    message = unbroken(question_about(action(title="t", input=raw)).whole)
    assert all(value in message for value in raw.values())


def _unindented(text: str) -> str:
    """Texts of several lines are indented in the plain text, whatever they begin with."""
    return re.sub("\n +", "\n", text)


@given(
    command=hostile_text,
    words=hostile_text,
    path=st.text(min_size=1, max_size=30).filter(lambda each: each.strip() and "\0" not in each),
)
def test_q2_the_sections_as_data_say_what_the_plain_text_says(command: str, words: str, path: str) -> None:
    question = question_about(
        action(
            title="Bash",
            kind="execute",
            input={"command": f"run {command}", "path": path},
            content=[text(f"I will {words}")],
        )
    )
    plain = unbroken(_unindented(question.plain))
    for section in question.sections(cut=True):
        label = f"{section.label}:" if section.label else ""
        head = " ".join(filter(None, (label, section.note)))
        assert "\n".join(filter(None, (head, _unindented(section.text)))) in plain
        assert not any(hides(character) for character in section.text if character != "\n")
        assert not (section.is_inline and "\n" in section.text)


def test_q2_the_sections_are_whole_where_nothing_may_be_cut() -> None:
    question = question_about(action(title="Bash", kind="execute", input={"command": "x" * 10_000}))
    cut, whole = (question.sections(cut=is_cut)[0] for is_cut in (True, False))
    assert (cut.label, cut.language, question.is_cut) == ("Command", "sh", True)
    assert "⟨6,000 characters left out⟩" in cut.text
    assert whole.text == "x" * 10_000
