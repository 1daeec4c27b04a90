"""What VS Code's chat makes of a user's words, and the words again."""

from __future__ import annotations

from dragoman.frontends.vscode.rendered import spoken
from dragoman.lm import DataPart, Message, TextPart, ToolResultPart
from dragoman.lm.messages import assistant, system, user

_AROUND = (
    "<context>\nThe current date is 2026-11-16.\n</context>\n"
    "<reminderInstructions>\nPrefer `this` tool.\n</reminderInstructions>"
)
_WORKSPACE = "<environment_info>\nThe user's current OS is: Linux\n</environment_info>\n"


def _rendered(words: str, around: str = _AROUND) -> str:
    return f"{around}\n<userRequest>\n{words}\n</userRequest>\n"


def test_the_words_are_the_users_and_what_stands_around_them_is_told_once() -> None:
    history = (
        system("You are an expert."),
        user(_WORKSPACE),
        user(_rendered("count the files")),
        assistant("There are two."),
        user(_rendered("and the folders?")),
    )
    assert spoken(history) == (
        system("You are an expert."),
        system(_WORKSPACE.strip()),
        system(_AROUND),
        user("count the files"),
        assistant("There are two."),
        user("and the folders?"),
    )


def test_attachments_and_pictures_stay_with_the_words() -> None:
    attached = '<attachments>\n<attachment id="a.txt">\nsix\n</attachment>\n</attachments>\n'
    picture = DataPart("image/png", b"png")
    (context, message) = spoken((user(picture, _rendered("what is it?", f"{attached}{_AROUND}")),))
    assert context == system(_AROUND)
    assert message == Message("user", (picture, TextPart(attached), TextPart("what is it?")))


def test_words_with_the_tags_in_them_and_words_of_many_lines_stay_whole() -> None:
    for words in (
        "what does\n\n`<userRequest>` mean?",
        "a </userRequest> b",
        "<context>\nmine\n</context>",
        "",
    ):
        assert spoken((user(_rendered(words)),))[-1] == user(words)


def test_what_was_not_rendered_is_left_alone() -> None:
    result = Message("user", (ToolResultPart("dg_1", (TextPart(_rendered("no words")),)),))
    for history in ((user("hello"), user(_WORKSPACE)), (user(f"{_rendered('early')}and more"),), (result,)):
        assert spoken(history) == history


def test_a_summary_stays_part_of_the_conversation() -> None:
    summary = user("<conversation-summary>\nWe counted.\n</conversation-summary>")
    assert spoken((summary, user(_rendered("go on")))) == (summary, system(_AROUND), user("go on"))


def _file(name: str) -> str:
    return f"<editorContext>\nThe user's current file is {name}.\n</editorContext>"


def test_of_a_later_turn_only_the_sections_that_are_others_are_told() -> None:
    turns = (user(_rendered(name, f"{_file(name)}\n{_AROUND}")) for name in ("a.py", "b.py", "b.py", "a.py"))
    assert spoken(tuple(turns)) == (
        system(f"{_file('a.py')}\n{_AROUND}"),
        user("a.py"),
        system(_file("b.py")),
        user("b.py"),
        user("b.py"),
        system(_file("a.py")),
        user("a.py"),
    )


def test_sections_of_the_same_name_are_told_together() -> None:
    first, second = ("<skill>\none\n</skill>", "<skill>\ntwo\n</skill>")
    turns = (user(_rendered("x", around)) for around in (f"{first}\n{second}", f"{first}\n{second}", first))
    assert spoken(tuple(turns)) == (
        system(f"{first}\n{second}"),
        user("x"),
        user("x"),
        system(first),
        user("x"),
    )
