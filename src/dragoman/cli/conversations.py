"""`dragoman conversations`: list, show and delete stored conversations with agents."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from dragoman.cli.actions import check_action
from dragoman.cli.errors import DONE, FAILED, CommandError, complain
from dragoman.cli.layout import say
from dragoman.cli.run import CommandContext
from dragoman.cli.table import cell, table
from dragoman.conversations.history import NormalAnswer, NormalItem, NormalPrompt, NormalResult
from dragoman.conversations.lease import is_free
from dragoman.conversations.saving import SavedError, load_conversation
from dragoman.lm.json import JsonObject, encode_text
from dragoman.logs import one_line
from dragoman.store import ConversationStore, Database, StoredConversation, StoreError

__all__ = ["run"]

_HEADINGS = ("ID", "MODEL", "LAST USED", "WHERE", "BEGINS")


def run(arguments: Namespace, context: CommandContext) -> int:
    action: str = arguments.action
    ids: list[str] = arguments.ids
    check_action("conversations", action, ids, alone=("list",), with_ids=("show", "delete"))
    try:
        with Database.open(context.state_dir) as database:
            store = ConversationStore(database)
            match action:
                case "show":
                    return _show(store, ids)
                case "delete":
                    return _delete(store, ids)
                case _:
                    return _list(store, as_json=arguments.json)
    except StoreError as error:
        raise CommandError(str(error)) from error


def _list(store: ConversationStore, *, as_json: bool) -> int:
    stored = store.all()
    if as_json:
        for conversation in stored:
            print(encode_text(_as_json(conversation)))
    elif stored:
        print(table(_HEADINGS, map(_row, stored)))
    else:
        say(
            "No conversation is stored."
            " Conversations with agents are stored when they come from an editor or through `dragoman serve`."
        )
    return DONE


def _as_json(conversation: StoredConversation) -> JsonObject:
    return {
        "id": conversation.id,
        "model": conversation.model,
        "title": conversation.title,
        "workspace": conversation.workspace,
        "usedAt": conversation.used_at,
    }


def _row(conversation: StoredConversation) -> tuple[str, ...]:
    return (
        conversation.id,
        conversation.model,
        conversation.used_at.astimezone().strftime("%Y-%m-%d %H:%M"),
        conversation.workspace,
        conversation.title,
    )


def _show(store: ConversationStore, ids: Iterable[str]) -> int:
    status = DONE
    for id_ in ids:
        stored = store.find(id_)
        if stored is None:
            complain(_unknown(id_))
            status = FAILED
            continue
        # Without how it begins, which stands below.
        print("  ".join(map(cell, _row(stored)[:-1])))
        try:
            for item in load_conversation(stored.content).record.items:
                # Continuation lines are indented, so that no line in them can pass for another speaker's.
                print("  " + "\n    ".join(_shown_lines(item)))
        except SavedError as error:
            complain(f"Conversation {id_} cannot be read: {one_line(str(error))}")
            status = FAILED
    return status


def _shown_lines(item: NormalItem) -> list[str]:
    """An item as lines. The results of tools are not stored, so they are not shown."""
    match item:
        case NormalPrompt(text=text):
            return _lines("user", text)
        case NormalAnswer(text=text, calls=calls):
            called = [f"[called {name} {arguments}]" for _, name, arguments in calls]
            return _lines("assistant", "\n".join([*filter(None, [text.strip()]), *called]))
        case NormalResult(call_id=call_id):
            return _lines("result", call_id)


def _lines(who: str, text: str) -> list[str]:
    return [one_line(line) for line in f"{who}: {text.strip()}".split("\n")]


def _delete(store: ConversationStore, ids: Iterable[str]) -> int:
    status = DONE
    for id_ in ids:
        holding = store.holding(id_)
        if holding is not None and not is_free(holding):
            pid, _, _ = holding.owner.partition(" ")
            complain(f"Conversation {id_} is under way in process {pid}. Try again when it has ended.")
            status = FAILED
        elif store.delete(id_):
            say(f"Conversation {id_} is deleted.")
        else:
            complain(_unknown(id_))
            status = FAILED
    return status


def _unknown(id_: str) -> str:
    return f'There is no conversation "{one_line(id_)}". `dragoman conversations` lists them.'
