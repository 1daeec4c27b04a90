"""The console of one server. It connects the inbox and the journals with the sessions, the event stream and the webhook."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from urllib.parse import urlsplit

from dragoman.config import ClientKey, ConsoleConfig
from dragoman.frontends.console.access import ConsoleAccess
from dragoman.frontends.console.append_notices import AppendNotices
from dragoman.frontends.console.conversation_list import Conversations
from dragoman.frontends.console.deciding import Decider
from dragoman.frontends.console.feed import Feed
from dragoman.frontends.console.other_processes import OtherProcessQuestions
from dragoman.frontends.console.pairing import NewCode, Pairing, PairingCodes
from dragoman.frontends.console.questions import outcome_json, question_json
from dragoman.frontends.console.sessions import (
    ConsoleRole,
    ConsoleScope,
    ConsoleSession,
    ConsoleSessions,
    NewSession,
    session_json,
)
from dragoman.frontends.console.webhook import Webhook
from dragoman.frontends.rule_offers import RuleOffers
from dragoman.lm import JsonObject
from dragoman.loopback import is_loopback
from dragoman.models import Models
from dragoman.permissions.inbox import InboxOutcome, InboxQuestion, Reach

__all__ = ["Console"]

_log = logging.getLogger(__name__)

# Longer names are cut: they stand in a list, and beside each decision.
_NAME_LENGTH = 60
_NAMELESS = "a browser"
_OPEN_IT = "{who} has the console open. Open {address} in a paired browser, and try again."
_ANY_PERSON = "No person"
# With keys, a browser may be paired for the conversations of one key.
_SUCH_PERSON = "No person who may decide about this conversation"
_NEEDS_TLS = (
    "No browser can use the console here: this address is not of this machine and has no TLS. Set `url` in "
    "[console] of the server's configuration."
)


class Console:
    """All that the console's routes share. Making one connects it to the inbox and the journals, until `close`."""

    def __init__(
        self,
        config: ConsoleConfig,
        keys: Sequence[ClientKey],
        models: Models,
        local_address: str,
        webhook_secret: str | None = None,
    ) -> None:
        """`local_address` is the server's as seen from this machine: `http://127.0.0.1:8427/`.

        `webhook_secret` is the value of `[console] webhook_secret`, which may be in a variable.
        """
        self.config = config
        self.keys = keys
        self.local_address = local_address
        # For people, with a slash at its end.
        self.address = local_address if config.url is None else config.url.rstrip("/") + "/"
        # Whether a browser can use the console there: the address is of this machine, or has TLS.
        self.has_usable_address = config.url is not None or is_loopback(
            urlsplit(local_address).hostname or ""
        )
        # Called with each session that a pairing code was exchanged for.
        self.on_paired: Callable[[ConsoleSession], None] = lambda _session: None
        self._models = models
        self._inbox = models.permissions.inbox
        self._key_names = {key.connection: key.name for key in keys}
        store = models.journals.store
        self.codes = PairingCodes()
        self.decider = Decider(models.permissions, RuleOffers(models))
        self.conversations = Conversations(
            store, models.conversations, self._inbox, self._key_names, other_nodes=models.other_nodes
        )
        self._other_processes = OtherProcessQuestions(store, self._elsewhere_changed, inbox=self._inbox)
        self.feed = Feed(self._hello, on_streams=self._streams_changed)
        self.sessions = ConsoleSessions(
            on_change=partial(self.feed.publish, "sessions", {}), on_end=self._session_ended
        )
        self.access = ConsoleAccess(self.sessions, config.url)
        self._appends = AppendNotices(self._appended)
        self._webhook = (
            None
            if config.webhook is None or webhook_secret is None
            else Webhook(config.webhook, webhook_secret, self.address, has_content=config.webhook_content)
        )
        who = _SUCH_PERSON if keys else _ANY_PERSON
        advice = _OPEN_IT.format(who=who, address=self.address) if self.has_usable_address else _NEEDS_TLS
        address = self.address if self.has_usable_address else ""
        self._inbox.connect(
            self, address, advice, config.decide_minutes * 60, has_webhook=self._webhook is not None
        )
        models.journals.on_append = self._appends.note

    def end_streams(self) -> int:
        """End all streams, so that the server can end: a stream would never end by itself. Returns how many end now."""
        self.feed.close()
        # No one can open the page any more.
        self._inbox.disconnect()
        return self.feed.streams

    async def close(self) -> None:
        """End the streams and the tasks, and leave the inbox and the journals."""
        self.end_streams()
        self._models.journals.on_append = None
        self._appends.close()
        await self._other_processes.close()
        if self._webhook is not None:
            await self._webhook.close()

    # Pairing.

    def link(self, code: NewCode) -> str:
        """An address that fills the code in. What follows `#` is sent to no server and is in no log of a proxy."""
        return f"{self.address}#pair={code.text}"

    def scope(self, key: str | None) -> ConsoleScope | None:
        """What a holder of the key with this name sees; without a key, everything. None if there is no such key."""
        if key is None:
            return ConsoleScope()
        found = next((each for each in self.keys if each.name == key), None)
        if found is None:
            return None
        return ConsoleScope() if found.role == "admin" else ConsoleScope(found.name, found.connection)

    def new_code(self, role: ConsoleRole, scope: ConsoleScope, maker: str | None = None) -> NewCode:
        """Make a code. `maker` is the id of the session that wants it; without one, it is for the server's terminal."""
        return self.codes.new(Pairing(role, scope, maker))

    def pair(self, code: str, name: str) -> NewSession:
        """Exchange a code for a session. Raises `WrongCode` or `TooManyAttempts`."""
        pairing = self.codes.take(code)
        # Characters without a mark of their own are left out: a name is shown in many places.
        shown = "".join(each for each in name if each.isprintable())[:_NAME_LENGTH].strip() or _NAMELESS
        shown = self._unused(shown)
        new = self.sessions.new(shown, pairing.role, pairing.scope)
        _log.info("paired: %s (%s)", shown, pairing.role)
        self.on_paired(new.session)
        return new

    def _unused(self, name: str) -> str:
        """The name with a number, if a session has it already: it stands beside each decision."""
        used = {session.name for session in self.sessions.all()}
        names = (f"{name[: _NAME_LENGTH - 4]} {number}" for number in count(2))
        return name if name not in used else next(each for each in names if each not in used)

    def revoke_all(self) -> int:
        """End every session and every code. Returns how many sessions there were."""
        ended = self.sessions.all()
        for session in ended:
            self.sessions.end(session.id)
        self.codes.clear()
        return len(ended)

    def _session_ended(self, session: ConsoleSession) -> None:
        self.codes.end_codes_of(session.id)
        self.feed.end_session(session)

    # What the inbox needs of it.

    def reach(self) -> Reach:
        """About whose conversations a person can be asked now."""
        if not self.has_usable_address:
            return Reach()
        return self.feed.reach() if self._webhook is None else Reach(everyone=True)

    def _streams_changed(self, streams: int) -> None:
        self._other_processes.watch(streams)
        self._inbox.changed()

    def opened(self, question: InboxQuestion) -> None:
        def waiting(scope: ConsoleScope) -> JsonObject | None:
            # Only if it still waits: the log of events holds no actions, which may be large.
            found = self._inbox.find(id_)
            return None if found is None else self.question(found, scope)

        id_ = question.id
        self.feed.publish("question", waiting, connection=question.connection)
        if self._webhook is not None and question.calls_people:
            self._webhook.asked(question)

    def closed(self, question: InboxQuestion, outcome: InboxOutcome) -> None:
        data: JsonObject = {"id": question.id, "outcome": outcome_json(outcome)}
        self.feed.publish("closed", data, connection=question.connection)
        if self._webhook is not None and question.calls_people:
            self._webhook.closed(question, outcome)

    # What pages are sent.

    def question(self, question: InboxQuestion, scope: ConsoleScope, *, is_whole: bool = False) -> JsonObject:
        """A question as a session of this scope sees it."""
        return question_json(
            question,
            key=self._key_names.get(question.connection),
            available_levels=self.decider.available_levels(question, scope),
            # Rules hold for the clients of all keys.
            may_make_rules=scope.sees_all,
            is_whole=is_whole,
        )

    def _hello(self, session: ConsoleSession) -> JsonObject:
        scope = session.scope
        keys = [key for key in self.keys if scope.sees_all or key.name == scope.key]
        waiting = (each for each in self._inbox if scope.sees(each.connection))
        return {
            "session": session_json(session, session),
            "address": self.address,
            "models": [
                info.id
                for info in self._models.infos()
                if scope.sees_all or any(key.allows(info.id) for key in keys)
            ],
            "keys": [key.name for key in keys],
            "snapshot": {
                "questions": [self.question(each, scope) for each in waiting],
                "elsewhere": self._other_processes.questions if scope.sees_all else [],
            },
        }

    def _elsewhere_changed(self, questions: list[JsonObject]) -> None:
        self.feed.publish("elsewhere", {"questions": questions}, needs_sees_all=True)

    def _appended(self, journal: str, sequence: int, connection: str) -> None:
        self.feed.publish("conversation", {"id": journal, "sequence": sequence}, connection=connection)
