"""What the console shows, and what changes it: the inbox, the journals and the sessions on one side, the feed on the other."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from typing import Protocol

from dragoman.frontends.console.append_notices import AppendNotices
from dragoman.frontends.console.console import Console
from dragoman.frontends.console.conversation_list import Conversations
from dragoman.frontends.console.deciding import Decider
from dragoman.frontends.console.elsewhere import Elsewhere
from dragoman.frontends.console.feed import Feed
from dragoman.frontends.console.questions import outcome_json, question_json
from dragoman.frontends.console.sessions import ConsoleScope, ConsoleSession, session_json
from dragoman.frontends.console.webhook import Webhook
from dragoman.frontends.rule_offers import RuleOffers, RuleStore
from dragoman.journal.writer import Journals
from dragoman.lm import JsonObject, ModelInfo
from dragoman.models import LiveConversation
from dragoman.permissions.inbox import InboxOutcome, InboxQuestion
from dragoman.permissions.pipeline import PermissionServices

__all__ = ["ConsoleData", "ConsoleModels"]

# Conversations whose connections are remembered. More agents than that do not run at once.
_MOST_CONNECTIONS = 1_000


class ConsoleModels(RuleStore, Protocol):
    """The part of `Models` that the console uses."""

    @property
    def permissions(self) -> PermissionServices: ...

    @property
    def journals(self) -> Journals: ...

    def infos(self) -> tuple[ModelInfo, ...]: ...

    def conversations(self) -> Iterable[LiveConversation]: ...


class ConsoleData:
    """All data of the console. Making one connects it to the inbox, the journals and the sessions."""

    def __init__(self, console: Console, models: ConsoleModels, webhook_secret: str | None = None) -> None:
        """`webhook_secret` is the value of `[console] webhook_secret`, which may be in a variable."""
        self._console = console
        self._models = models
        permissions, journals = models.permissions, models.journals
        self._inbox = inbox = permissions.inbox
        self._key_names = {key.connection: key.name for key in console.keys}
        self.decider = Decider(permissions, RuleOffers(models))
        self.conversations = Conversations(journals.store, models.conversations, inbox, self._key_names)
        self.elsewhere = Elsewhere(journals.store, self._elsewhere_changed)
        self.feed = Feed(self._hello, on_streams=self.elsewhere.watch)
        self._connections: OrderedDict[str, str] = OrderedDict()
        self._appends = AppendNotices(self._appended)
        config = console.config
        self._webhook = (
            None
            if config.webhook is None
            else Webhook(config.webhook, webhook_secret, console.address, has_content=config.webhook_content)
        )
        inbox.watcher = self
        journals.on_append = self._appends.note
        console.sessions.on_change = partial(self.feed.publish, "sessions", {})
        console.on_ended = self.feed.end_session

    def end_streams(self) -> int:
        """End all streams, so that the server can end: a stream would never end by itself. Returns how many end now."""
        self.feed.close()
        return self.feed.streams

    async def close(self) -> None:
        """End the streams and the tasks."""
        self.end_streams()
        self._inbox.watcher = None
        self._models.journals.on_append = None
        self._appends.close()
        await self.elsewhere.close()
        if self._webhook is not None:
            await self._webhook.close()

    def question(self, question: InboxQuestion, scope: ConsoleScope, *, is_whole: bool = False) -> JsonObject:
        """A question as a session of this scope sees it."""
        return question_json(
            question,
            key=self._key_names.get(question.connection),
            promised=self.decider.promised(question, scope),
            # Rules hold for the clients of all keys.
            may_make_rules=scope.key is None,
            is_whole=is_whole,
        )

    # The inbox's watcher.

    def opened(self, question: InboxQuestion) -> None:
        self.feed.publish(
            "question", partial(self._waiting_question, question.id), connection=question.connection
        )
        if self._webhook is not None:
            self._webhook.asked(question)

    def closed(self, question: InboxQuestion, outcome: InboxOutcome) -> None:
        self.decider.forget(question)
        data: JsonObject = {"id": question.id, "outcome": outcome_json(outcome)}
        self.feed.publish("closed", data, connection=question.connection)
        if self._webhook is not None:
            self._webhook.closed(question, outcome)

    def _waiting_question(self, id_: str, scope: ConsoleScope) -> JsonObject | None:
        """The question, if it still waits: the log of events holds no actions, which may be large."""
        question = self._inbox.find(id_)
        return None if question is None else self.question(question, scope)

    # What else happens.

    def _hello(self, session: ConsoleSession) -> JsonObject:
        scope = session.scope
        is_admin = scope.key is None
        keys = [key for key in self._console.keys if is_admin or key.name == scope.key]
        models = None if is_admin else next((key.models for key in keys), None)
        return {
            "session": session_json(session, session),
            "address": self._console.address,
            "models": [info.id for info in self._models.infos() if models is None or info.id in models],
            "keys": [key.name for key in keys],
            "snapshot": {
                "questions": [
                    self.question(question, scope)
                    for question in self._inbox
                    if scope.sees(question.connection)
                ],
                "elsewhere": self.elsewhere.questions if is_admin else [],
            },
        }

    def _elsewhere_changed(self, questions: list[JsonObject]) -> None:
        self.feed.publish("elsewhere", {"questions": questions}, is_for_admins=True)

    def _appended(self, journal: str, sequence: int) -> None:
        connection = self._connection_of(journal)
        # Other journals are those of background responses, which no page shows.
        if connection is not None:
            self.feed.publish("conversation", {"id": journal, "sequence": sequence}, connection=connection)

    def _connection_of(self, conversation: str) -> str | None:
        known = self._connections.get(conversation)
        if known is None:
            live = (each for each in self._models.conversations() if each.id == conversation)
            known = next((each.connection for each in live), None)
        if known is not None:
            self._connections[conversation] = known
            self._connections.move_to_end(conversation)
            while len(self._connections) > _MOST_CONNECTIONS:
                self._connections.popitem(last=False)
        return known
