"""The mode and the options of a session: what the agent reports, and what requests wish.

A request's wishes hold for its prompt. Before each prompt, those that differ from what the session has are set. An option
that an earlier request changed, and that this one does not name, gets the value back that it had before. A change that
the agent makes itself stands until a request wishes otherwise. A value that the agent refuses does not fail the turn: the
user gets one line about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dragoman.acp.link import AgentLink
from dragoman.acp.messages import OtherUpdate, SessionCreated
from dragoman.backends.agent.profile.offer import MODE, commands_of, options_of
from dragoman.jsonrpc import ConnectionClosed
from dragoman.lm import LanguageModelError
from dragoman.lm.gfm import escape
from dragoman.lm.offering import ModelCommand, ModelOption, OptionValue

__all__ = ["SessionOptions"]


class SessionOptions:
    """Of one session. `name` is that of the agent, for notices."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._state = SessionCreated()
        self.commands: tuple[ModelCommand, ...] = ()
        # What requests have changed, with the values before that.
        self._before: dict[str, OptionValue] = {}
        # Wishes that the agent refused: told once, and not tried again.
        self._refused: set[tuple[str, OptionValue]] = set()

    @property
    def offered(self) -> tuple[ModelOption, ...]:
        return options_of(self._state)

    def begin(self, created: SessionCreated, mode: str | None, options: Mapping[str, OptionValue]) -> None:
        """Take what a session reports at its begin, and the values of the configuration, which it has now."""
        self._state = created
        self._before.clear()
        self._refused.clear()
        if mode is not None:
            self._note(MODE, mode)
        for option, value in options.items():
            self._note(option, value)

    def take(self, update: OtherUpdate) -> bool:
        """Whether an update is about options or commands, and was taken."""
        content = update.content
        match update.kind:
            case "current_mode_update" if isinstance(mode := content.get("currentModeId"), str):
                modes = {**(self._state.modes or {}), "currentModeId": mode}
                self._state = SessionCreated("", modes, self._reported)
                self._note(self._named(MODE), mode)
                return True
            case "config_option_update":
                return self._take_options(content)
            case "available_commands_update":
                self.commands = commands_of(content.get("availableCommands"))
                return True
        return False

    def differs(self, wishes: Mapping[str, object]) -> bool:
        return any(True for _ in self._changes(wishes))

    async def apply(self, link: AgentLink, session: str, wishes: Mapping[str, object]) -> tuple[str, ...]:
        """Set what differs. Returns a notice about each value that the agent does not take."""
        notices: list[str] = []
        for option, value in [*self._changes(wishes)]:
            offered = self._offered(option)
            problem = self._problem(offered, value)
            if problem is None:
                try:
                    await self._set(link, session, option, value)
                except LanguageModelError as error:
                    if isinstance(error.__cause__, ConnectionClosed):
                        raise
                    problem = error.message
            if problem is not None:
                self._refused.add((option, value))
                name = option if offered is None else offered.name
                said = f"{self._name} did not take “{value}” for {name}: {problem.rstrip('.')}."
                notices.append(escape(" ".join(said.split())))
        return tuple(notices)

    def _problem(self, offered: ModelOption | None, value: OptionValue) -> str | None:
        if offered is not None:
            is_offered = any(choice.value == value for choice in offered.values)
            return None if is_offered else "it does not offer that value"
        # An agent that reports nothing when it takes a session up may have the option.
        return "it has no such option" if self.offered else None

    async def _set(self, link: AgentLink, session: str, option: str, value: OptionValue) -> None:
        before = self._value(option)
        if option != MODE or option in self._ids:
            self._take_options(await link.set_option(session, option, value))
        else:
            await link.set_mode(session, str(value))
        self._note(option, value)
        if before is not None:
            self._before.setdefault(option, before)
        if self._before.get(option) == value:
            del self._before[option]

    def _changes(self, wishes: Mapping[str, object]) -> Iterator[tuple[str, OptionValue]]:
        wanted = {
            self._named(option): value
            for option, value in wishes.items()
            if isinstance(value, str | bool | int | float)
        }
        for option, value in {**self._before, **wanted}.items():
            if (option, value) not in self._refused and self._value(option) != value:
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
        return None if offered is None else offered.current

    def _take_options(self, content: Mapping[str, object]) -> bool:
        reported = content.get("configOptions")
        if not isinstance(reported, list):
            return False
        options = tuple(each for each in reported if isinstance(each, dict))
        self._state = SessionCreated("", self._state.modes, options)
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
