"""What a request demands of its reply, in words: for the agent, and for a consumer that does not get it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.backends.agent.machine.types import Unmet
from dragoman.backends.agent.prompt.replay import tagged
from dragoman.lm import AnswerForm, LanguageModelError, user
from dragoman.lm.json import encode_text

__all__ = ["Demand"]

_FORM_TAG = "answer-form"
_CALL_TAG = "required-call"
_FORM = (
    "A program reads your answer. Do all the work that the user's message asks for, with your tools as usual. Then the last "
    "message of your turn must be {what}. Write nothing before it and nothing after it in that message, and put it into no "
    "code block."
)
_SCHEMA = "one JSON value that this JSON Schema accepts"
_OBJECT = "one JSON object"
_CALL = (
    "A program reads your answer. Before you end your turn, you must call {which} of the user's program: {names}. Your list "
    "of tools has {them}, perhaps with a prefix before the name. An answer in words alone does not count."
)
_AGAIN_FORM = (
    "Your last message was not accepted: {problems}.\n\nSend it again, in the form that is described above."
)
_AGAIN_CALL = "You ended your turn without the call that is described above. Make it now."
_EARLY_FORM = "Give your answer now, in the form that is described above."
# Of an answer that was not accepted, for the error.
_QUOTED = 300


@dataclass(frozen=True, slots=True)
class Demand:
    """A form of the answer, a call of one of some functions, or both.

    `functions` are the names by which the agent knows the functions. Empty: no call is required. `connection` is the
    consumer's: the checks of one consumer's answers do not hold up those of another's.
    """

    agent: str
    form: AnswerForm | None = None
    functions: tuple[str, ...] = ()
    connection: str = ""

    @property
    def words(self) -> str:
        """The block of the prompt that tells the agent what its answer must be."""
        return "\n\n".join(filter(None, (self._form_words(), self._call_words())))

    def _form_words(self) -> str:
        if self.form is None:
            return ""
        schema = self.form.schema
        lines = [_FORM.format(what=_OBJECT if schema is None else _SCHEMA)]
        lines += [f"Name: {self.form.name}"] if self.form.name else []
        lines += [f"Description: {self.form.description}"] if self.form.description else []
        lines += [] if schema is None else [encode_text(schema)]
        return tagged(_FORM_TAG, "\n".join(lines))

    def _call_words(self) -> str:
        if not self.functions:
            return ""
        is_one = len(self.functions) == 1
        which, them = ("this function", "it") if is_one else ("at least one of these functions", "them")
        names = ", ".join(f"`{name}`" for name in self.functions)
        return tagged(_CALL_TAG, _CALL.format(which=which, names=names, them=them))

    @property
    def unanswered(self) -> Unmet:
        """The reply ended before the agent's turn did, so that nothing was judged."""
        again = _AGAIN_CALL if self.functions else _EARLY_FORM
        what = "the function call" if self.functions else "the form"
        return self._unmet(again, f"The answer ended before it had {what} that the request requires.")

    def without_call(self, said: str) -> Unmet:
        """The agent ended its turn without a call."""
        message = (
            f"A function call is required, but {self.agent} made none, even when it was asked again."
            f"{_quoted(said)}"
        )
        return self._unmet(_AGAIN_CALL, message)

    def misformed(self, problems: Sequence[str], said: str) -> Unmet:
        """The agent ended its turn with an answer that does not have the form."""
        wrong = "; ".join(problems)
        message = (
            f"The answer of {self.agent} does not have the requested form, even when it was asked again: {wrong}."
            f"{_quoted(said)}"
        )
        return self._unmet(_AGAIN_FORM.format(problems="\n".join(problems)), message)

    def _unmet(self, again: str, message: str) -> Unmet:
        return Unmet((user(again),), LanguageModelError("agent_failed", message))


def _quoted(said: str) -> str:
    said = " ".join(said.split())
    if not said:
        return " It said nothing."
    return f" It said: {said[:_QUOTED]}{'…' if len(said) > _QUOTED else ''}"
