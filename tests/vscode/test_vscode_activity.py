"""Activities, plans and usage as parts, for an editor that declares the feature and a request that takes them."""

import json
from pathlib import Path
from typing import Any

from vscode.editor import Answer, Chat, editor_here

_STEPS = json.dumps(
    [
        ["say", "I look."],
        [
            "update",
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "t1",
                "title": "Read notes",
                "kind": "read",
                "status": "in_progress",
                "locations": [{"path": "/notes.txt", "line": 3}],
            },
        ],
        ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed"}],
        [
            "update",
            {
                "sessionUpdate": "plan",
                "entries": [{"content": "Write it down", "priority": "high", "status": "pending"}],
            },
        ],
        ["update", {"sessionUpdate": "usage_update", "used": 1200, "size": 200000}],
        ["say", " Done."],
    ]
)
_STRUCTURE = {"activity", "plan", "usage"}


def _of_type(answer: Answer, kind: str) -> list[dict[str, Any]]:
    return [part for part in answer.parts if part["type"] == kind]


def _types(answer: Answer) -> set[str]:
    return {part["type"] for part in answer.parts}


async def test_an_editor_that_declares_activity_gets_steps_plans_and_usage_as_parts(tmp_path: Path) -> None:
    async with editor_here(tmp_path, initialized=False) as editor:
        await editor.initialize(tmp_path, activity=True)
        answer = await Chat(editor, "fake").say(_STEPS)
        activities = _of_type(answer, "activity")
        assert [(part["title"], part["kind"], part["status"]) for part in activities] == [
            ("Read notes", "read", "in_progress"),
            ("Read notes", "read", "completed"),
        ]
        assert len({part["id"] for part in activities}) == 1
        assert activities[-1]["locations"] == [{"path": "/notes.txt", "line": 3}]
        [plan] = _of_type(answer, "plan")
        assert plan["entries"] == [{"text": "Write it down", "priority": "high", "status": "pending"}]
        assert _of_type(answer, "usage")[-1] == {"type": "usage", "contextUsed": 1200, "contextSize": 200000}
        assert "thinking" not in _types(answer), "each is told once"
        assert answer.text == "I look. Done."


async def test_an_editor_that_does_not_declare_activity_gets_it_as_thinking(tmp_path: Path) -> None:
    async with editor_here(tmp_path) as editor:
        answer = await Chat(editor, "fake").say(_STEPS)
        assert not _types(answer) & _STRUCTURE
        thought = "".join(part["value"] for part in _of_type(answer, "thinking"))
        assert "✓ Read notes" in thought
        assert "Write it down" in thought


async def test_each_request_of_one_chat_says_whether_it_takes_activities(tmp_path: Path) -> None:
    """VS Code's own chat and the extension's participant ask through one connection."""
    async with editor_here(tmp_path, initialized=False) as editor:
        await editor.initialize(tmp_path, activity=True)
        chat = Chat(editor, "fake", options={"modelOptions": {"_dragomanActivity": False}})
        built_in = await chat.say(_STEPS)
        assert not _types(built_in) & _STRUCTURE
        assert "✓ Read notes" in "".join(part["value"] for part in _of_type(built_in, "thinking"))
        chat.options = {"modelOptions": {"_dragomanActivity": True}}
        participant = await chat.say(_STEPS)
        assert [part["status"] for part in _of_type(participant, "activity")] == ["in_progress", "completed"]
        assert "thinking" not in _types(participant)


async def test_a_mark_without_the_feature_changes_nothing(tmp_path: Path) -> None:
    async with editor_here(tmp_path) as editor:
        chat = Chat(editor, "fake", options={"modelOptions": {"_dragomanActivity": True}})
        assert not _types(await chat.say(_STEPS)) & _STRUCTURE


async def test_data_parts_of_activities_in_a_history_are_not_looked_at(tmp_path: Path) -> None:
    async with editor_here(tmp_path) as editor:
        chat = Chat(editor)
        await chat.say("hello")
        # Without its marker the history alone identifies the chat.
        said = [part for part in chat.history[-1]["content"] if part["type"] == "text"]
        internal = {"type": "data", "mimeType": "application/vnd.dragoman.activity+json", "data": "e30="}
        chat.history[-1]["content"] = [internal, *said, internal]
        chat.history[0]["content"].append(internal)
        history = (await chat.say("!history")).text
        assert history.count("- user: `hello") == 1
        assert "conversation-so-far" not in history, "the same session goes on"
        assert "vnd.dragoman" not in history


async def test_the_tags_of_a_model_name_what_it_can_do(tmp_path: Path) -> None:
    async with editor_here(tmp_path) as editor:
        models = (await editor.ask("lm/provideLanguageModelChatInformation", {"silent": True}))["models"]
        tags = {model["id"]: set(model["tags"]) for model in models}
        assert tags["demo"] == {"agent", "permissions", "thinking", "tools", "images"}
