"""What VS Code's chat makes of a user's words, and the words again."""

from __future__ import annotations

from dragoman.conversations.context import news
from dragoman.frontends.vscode.rendered import unrendered_messages
from dragoman.lm import DataPart, Message, TextPart, ToolResultPart
from dragoman.lm.messages import assistant, system, user

_AROUND = (
    "<context>\nThe current date is 2026-11-16.\n</context>\n"
    "<reminderInstructions>\nPrefer `this` tool.\n</reminderInstructions>"
)
_WORKSPACE = "<environment_info>\nThe user's current OS is: Linux\n</environment_info>\n"


def _rendered(words: str, around: str = _AROUND) -> str:
    return f"{around}\n<userRequest>\n{words}\n</userRequest>\n"


def _context(messages: tuple[Message, ...]) -> str:
    return "\n\n".join(message.text for message in messages if message.role == "system")


def test_the_words_are_the_users_and_what_stands_around_them_is_told_once() -> None:
    history = (
        system("You are an expert."),
        user(_WORKSPACE),
        user(_rendered("count the files")),
        assistant("There are two."),
        user(_rendered("and the folders?")),
    )
    assert unrendered_messages(history) == (
        system("You are an expert."),
        system(_WORKSPACE.strip()),
        user("count the files"),
        assistant("There are two."),
        system(_AROUND),
        user("and the folders?"),
    )


def test_attachments_and_pictures_stay_with_the_words() -> None:
    attached = '<attachments>\n<attachment id="a.txt">\nsix\n</attachment>\n</attachments>\n'
    picture = DataPart("image/png", b"png")
    (context, message) = unrendered_messages(
        (user(picture, _rendered("what is it?", f"{attached}{_AROUND}")),)
    )
    assert context == system(_AROUND)
    assert message == Message("user", (picture, TextPart(attached), TextPart("what is it?")))


def test_words_with_the_tags_in_them_and_words_of_many_lines_stay_whole() -> None:
    for words in (
        "what does\n\n`<userRequest>` mean?",
        "a </userRequest> b",
        "<context>\nmine\n</context>",
        "",
    ):
        assert unrendered_messages((user(_rendered(words)),))[-1] == user(words)


def test_what_was_not_rendered_is_left_alone() -> None:
    result = Message("user", (ToolResultPart("dg_1", (TextPart(_rendered("no words")),)),))
    for history in ((user("hello"), user(_WORKSPACE)), (user(f"{_rendered('early')}and more"),), (result,)):
        assert unrendered_messages(history) == history


def test_a_summary_stays_part_of_the_conversation() -> None:
    summary = user("<conversation-summary>\nWe counted.\n</conversation-summary>")
    assert unrendered_messages((summary, user(_rendered("go on")))) == (
        summary,
        system(_AROUND),
        user("go on"),
    )


def _file(name: str) -> str:
    return f"<editorContext>\nThe user's current file is {name}.\n</editorContext>"


def test_what_stood_around_the_words_of_an_earlier_turn_holds_no_more() -> None:
    turns = [user(_rendered(name, f"{_file(name)}\n{_AROUND}")) for name in ("a.py", "b.py")]
    assert unrendered_messages((*turns, user(_rendered("no file")))) == (
        user("a.py"),
        user("b.py"),
        system(_AROUND),
        user("no file"),
    )


def test_a_section_that_is_gone_is_told_as_gone() -> None:
    rules = system(f"<instructions>\n{'Be careful. ' * 100}\n</instructions>")
    turns = (rules, user(_rendered("one", f"{_AROUND}\n{_file('secret.py')}")), user(_rendered("two")))
    before, now = (_context(unrendered_messages(turns[:end])) for end in (2, 3))
    assert "secret.py" in before
    assert "secret.py" not in now
    assert news(before, now).endswith("No longer valid: the section <editorContext>.")


def test_a_section_with_blank_lines_stays_whole() -> None:
    reminder = "<reminder>\nNever touch these files:\n\n- {}\n</reminder>"
    rules = system(f"<instructions>\n{'Be careful. ' * 100}\n</instructions>")
    turns = (rules, *(user(_rendered(name, reminder.format(name))) for name in ("a.py", "b.py")))
    assert unrendered_messages(turns)[-2] == system(reminder.format("b.py"))
    before, now = (_context(unrendered_messages(turns[:end])) for end in (2, 3))
    assert "a.py" not in now
    replaced = "This replaces the earlier section <reminder>:"
    assert news(before, now).endswith(f"{replaced}\n\n{reminder.format('b.py')}")


def test_a_last_message_that_stays_part_of_the_conversation_takes_nothing_back() -> None:
    summary = user(_rendered("go on", "<conversation-summary>\nWe counted.\n</conversation-summary>"))
    history = (user(_rendered("one")), summary)
    assert unrendered_messages(history) == (system(_AROUND), user("one"), summary)
