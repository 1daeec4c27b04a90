"""The mode and the options of a session: what the agent reports, and what requests wish.

A request's wishes hold for its prompt. Before each prompt, those that differ from what the session has are set. An option
that an earlier request changed, and that this one does not name, gets the value back that it had before. A change that
the agent makes itself stands until a request wishes otherwise.

A prompt is sent only in the values that its request wishes: a mode that does not ask may be the one that the user has just
left. So an option that cannot be set fails the turn, and the next prompt tries again. An option that the session does not
have cannot differ: the user gets one line about it, once.

An agent's report wins over its answer: if it answers that a value is set and reports another one, it has the other one. A
value that the user has left, and that the agent reports again, is not a change of its own: it is left again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dragoman.acp.link import AgentLink
from dragoman.acp.messages import OtherUpdate, SessionCreated
from dragoman.backends.agent.profile.offer import MODE, commands_of, options_of
from dragoman.jsonrpc import ConnectionClosed
from dragoman.lm import LanguageModelError
from dragoman.lm.gfm import escape
from dragoman.lm.offering import ModelCommand, ModelOption, OptionValue

__all__ = ["SessionOptions"]


class _ReportedOther(LanguageModelError):
    """The agent answered that a value is set, and reports another one."""

    def __init__(self, message: str) -> None:
        super().__init__("agent_failed", message)


class SessionOptions:
    """Of one session. `name` is that of the agent, for notices."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._state = SessionCreated()
        self.commands: tuple[ModelCommand, ...] = ()
        # What requests have changed, with the values before that.
        self._before: dict[str, OptionValue] = {}
        # Wishes for options that the session does not have: told once, and not tried again.
        self._foreign: set[tuple[str, OptionValue]] = set()
        # Options that the agent did not answer for: it may have changed them or not.
        self._unsure: set[str] = set()
        # Values that requests have left, with the values that were to follow.
        self._left: dict[tuple[str, OptionValue], OptionValue] = {}
        # Options that the agent has reported since the last one was set.
        self._news: set[object] = set()
        # Values that were set of options that the agent does not report.
        self._unreported: dict[str, OptionValue] = {}
        # Those of them that a request has set, with no value to go back to.
        self._without_return: set[str] = set()
        self._configured: dict[str, OptionValue] = {}

    @property
    def offered(self) -> tuple[ModelOption, ...]:
        return options_of(self._state)

    def begin(self, created: SessionCreated) -> None:
        """Take what a session reports at its begin."""
        self._state = created
        for known in (
            self._before,
            self._foreign,
            self._unsure,
            self._left,
            self._news,
            self._unreported,
            self._without_return,
            self._configured,
        ):
            known.clear()

    async def configure(
        self, link: AgentLink, session: str, mode: str | None, options: Mapping[str, OptionValue]
    ) -> None:
        """Set the values of the configuration. Those that the agent already reports are not set again.

        Raises `LanguageModelError` if the agent refuses one, or reports another one.
        """
        self._configured = {**({} if mode is None else {MODE: mode}), **options}
        if mode not in (None, self._state.mode):
            await self._put(link, session, MODE, mode or "", is_mode=True)
        for option, value in options.items():
            if option not in self._state.options or self._state.options[option] != value:
                await self._put(link, session, option, value)

    def take(self, update: OtherUpdate) -> bool:
        """Whether an update is about options or commands, and was taken."""
        content = update.content
        match update.kind:
            case "current_mode_update" if isinstance(mode := content.get("currentModeId"), str):
                modes = {**(self._state.modes or {}), "currentModeId": mode}
                self._state = SessionCreated("", modes, self._reported)
                self._note(self._named(MODE), mode)
                self._news |= {MODE, self._named(MODE)}
                return True
            case "config_option_update":
                return self._take_options(content)
            case "available_commands_update":
                self.commands = commands_of(content.get("availableCommands"))
                return True
        return False

    def differs(self, wishes: Mapping[str, object]) -> bool:
        return any(True for _ in self._changes(wishes)) or bool(self._stuck(wishes))

    async def apply(self, link: AgentLink, session: str, wishes: Mapping[str, object]) -> tuple[str, ...]:
        """Set what differs. Returns a notice about each option that the session does not have.

        Raises `LanguageModelError` if the session is not in the values that the next prompt needs.
        """
        if stuck := self._stuck(wishes):
            raise self._no_return(stuck)
        notices: list[str] = []
        foreign: list[tuple[str, OptionValue]] = []
        problems: list[tuple[str, OptionValue, str]] = []
        for option, value in [*self._changes(wishes)]:
            is_foreign = self._offered(option) is None and option not in self._before
            problem = self._problem(option, value)
            if problem is None:
                try:
                    await self._set(link, session, option, value)
                except LanguageModelError as error:
                    if isinstance(error.__cause__, ConnectionClosed):
                        raise
                    problem = error.message
            if problem is not None and is_foreign:
                said = f"{self._name} did not take “{value}” for {option}: {problem.rstrip('.')}."
                foreign.append((option, value))
                notices.append(escape(_on_one_line(said)))
            elif problem is not None:
                problems.append((option, value, problem))
        if problems:
            raise self._failure(problems)
        self._foreign.update(foreign)
        return tuple(notices)

    def unanswered(self, wishes: Mapping[str, object]) -> LanguageModelError:
        """The error after an `apply` that took too long and was cancelled."""
        late = "it did not answer in time"
        return self._failure([(option, value, late) for option, value in self._changes(wishes)])

    def changed(self, wishes: Mapping[str, object]) -> LanguageModelError:
        """The error for a prompt whose options were set, and that the agent has changed since."""
        if stuck := self._stuck(wishes):
            return self._no_return(stuck)
        since = "it has changed that since"
        return self._failure([(option, value, since) for option, value in self._changes(wishes)])

    def _no_return(self, stuck: Iterable[str]) -> LanguageModelError:
        said = " ".join(
            f"{self._name} is still in “{self._value(option)}” for {option}, and has not said what it had before."
            for option in stuck
        )
        return LanguageModelError(
            "agent_failed",
            f"{_on_one_line(said)} The prompt was not sent.",
            hint="Choose a value, or start a new chat.",
        )

    def _failure(self, problems: Iterable[tuple[str, OptionValue, str]]) -> LanguageModelError:
        said = " ".join(
            f"{self._name} did not take {self._words(option, value)} for {self._title(option)}, "
            f"which {self._state_of(option)}: {problem.rstrip('.')}."
            for option, value, problem in problems
        )
        return LanguageModelError(
            "agent_failed",
            f"{_on_one_line(said)} The prompt was not sent.",
            hint="Send it again, choose another value, or start a new chat.",
        )

    def _state_of(self, option: str) -> str:
        current = self._value(option)
        if option in self._unsure or current is None:
            known = "" if current is None else f"; the last known value is {self._words(option, current)}"
            return f"has an unknown value now{known}"
        return f"is still {self._words(option, current)}"

    def _title(self, option: str) -> str:
        offered = self._offered(option)
        return option if offered is None else offered.name

    def _words(self, option: str, value: OptionValue) -> str:
        """A value, with the name that the agent gives it."""
        offered = self._offered(option)
        names = () if offered is None else (each.name for each in offered.values if each.value == value)
        name = next(iter(names), "")
        return f"“{name}” ({value})" if name and name != str(value) else f"“{value}”"

    def _problem(self, option: str, value: OptionValue) -> str | None:
        offered = self._offered(option)
        if offered is not None:
            is_offered = any(choice.value == value for choice in offered.values)
            return None if is_offered else "it does not offer that value"
        # An agent that reports nothing when it takes a session up may have the option.
        return "it has no such option" if self.offered else None

    async def _set(self, link: AgentLink, session: str, option: str, value: OptionValue) -> None:
        offered, earlier = self._offered(option), self._before.get(option)
        before = self._configured.get(option) if offered is None else offered.current
        was_unsure = option in self._unsure
        # Until the agent answers: this may be cancelled meanwhile, and the agent changes the option all the same.
        self._unsure.add(option)
        if before is not None:
            self._before.setdefault(option, self._left.get((option, before), before))
        self._left.pop((option, value), None)
        try:
            await self._put(link, session, option, value, is_mode=option == MODE and option not in self._ids)
        except LanguageModelError as error:
            if not was_unsure or isinstance(error, _ReportedOther):
                self._unsure.discard(option)
            if earlier is None and self._value(option) == before:
                self._before.pop(option, None)
            raise
        self._unsure.discard(option)
        if before is None and offered is None:
            self._without_return.add(option)
        if before is not None and earlier is not None and before not in (value, earlier):
            self._left[option, before] = earlier
        if self._before.get(option) == value:
            del self._before[option]

    async def _put(
        self, link: AgentLink, session: str, option: str, value: OptionValue, *, is_mode: bool = False
    ) -> None:
        """Set a value, and take what the agent reports meanwhile. Without a report, its answer counts."""
        self._news.clear()
        if is_mode:
            await link.set_mode(session, str(value))
        else:
            self._take_options(await link.set_option(session, option, value))
        if option not in self._news:
            self._note(option, value)
        current = self._value(option)
        if current not in (None, value):
            raise _ReportedOther(f"it answered that this is set, and reports {self._words(option, current)}")

    def _wanted(self, wishes: Mapping[str, object]) -> dict[str, OptionValue]:
        return {
            self._named(option): value
            for option, value in wishes.items()
            if isinstance(value, str | bool | int | float)
        }

    def _stuck(self, wishes: Mapping[str, object]) -> list[str]:
        """The options that a request has set, that this one does not name, and that cannot be set back."""
        return sorted(self._without_return - self._wanted(wishes).keys())

    def _changes(self, wishes: Mapping[str, object]) -> Iterator[tuple[str, OptionValue]]:
        wanted = self._wanted(wishes)
        for option, value in {**self._before, **wanted}.items():
            if (option, value) in self._foreign:
                continue
            if self._value(option) != value or option in self._unsure:
                yield option, value
        for (option, left), value in self._left.items():
            if option not in wanted and option not in self._before and self._value(option) == left:
                yield option, value

    @property
    def _reported(self) -> tuple[dict[str, object], ...] | None:
        return self._state.config_options

    @property
    def _ids(self) -> set[object]:
        return {option.get("id") for option in self._reported or ()}

    def _named(self, option: str) -> str:
        """The id of an option that is given by its id or, where none has that id, by its category."""
        if any(each.id == option for each in self.offered):
            return option
        return next((each.id for each in self.offered if each.category == option), option)

    def _offered(self, option: str) -> ModelOption | None:
        return next((each for each in self.offered if each.id == option), None)

    def _value(self, option: str) -> OptionValue | None:
        offered = self._offered(option)
        return self._unreported.get(option) if offered is None else offered.current

    def _take_options(self, content: Mapping[str, object]) -> bool:
        reported = content.get("configOptions")
        if not isinstance(reported, list):
            return False
        options = tuple(each for each in reported if isinstance(each, dict))
        self._state = SessionCreated("", self._state.modes, options)
        self._news |= self._ids
        return True

    def _note(self, option: str, value: OptionValue) -> None:
        """Note the value that an option has now."""
        modes, options = self._state.modes, self._reported
        if option in self._ids:
            options = tuple(
                {**each, "currentValue": value} if each.get("id") == option else each
                for each in options or ()
            )
        elif option == MODE:
            modes = {**(modes or {}), "currentModeId": value}
        self._state = SessionCreated("", modes, options)
        if self._offered(option) is None:
            self._unreported[option] = value


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
