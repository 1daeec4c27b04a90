"""What the tests of edits share: an agent's questions about changes, a person's answers, the edits of an answer, and undo."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from vscode.editor import Answer, Chat, Editor

__all__ = ["approved", "asks", "edits_of", "undo"]

_BOTH = ["allow_once", "reject_once"]
_EDITS = "application/vnd.dragoman.edits+json"


def asks(*diffs: tuple[Path, str | None, str], kind: str = "edit", **call: object) -> list[object]:
    content = [
        {"type": "diff", "path": str(path), "oldText": old, "newText": new} for path, old, new in diffs
    ]
    return ["ask", {"toolCallId": "e", "title": "Edit", "kind": kind, "content": content, **call}, _BOTH]


async def approved(chat: Chat, answer: Answer) -> Answer:
    """All questions of a turn are answered with yes."""
    while answer.calls:
        answer = await chat.say(*[await chat.editor.approve(call) for call in answer.calls])
    return answer


def edits_of(answer: Answer) -> dict[str, Any] | None:
    """The edits at the end of an answer."""
    found = [part for part in answer.parts if part.get("mimeType") == _EDITS]
    return json.loads(base64.b64decode(found[-1]["data"])) if found else None


async def undo(editor: Editor, turn: str) -> tuple[list[str], dict[str, str]]:
    outcome = await editor.ask("edits/undo", {"turn": turn})
    names = [Path(path).name for path in outcome["undone"]]
    return names, {Path(left["path"]).name: left["why"] for left in outcome["left"]}
