"""The texts that VS Code's chat sends in place of a result when a call was not made, or failed.

The chat sends them as ordinary results: no flag marks them, only the text does, over HTTP as through our extension. This
module is the only place that interprets them. An agent must not take a refusal for the output of its tool, and a user
who was never asked has refused nothing. The texts are those of VS Code 1.139 with Copilot Chat 0.67. Each must be the
whole of a result, because the output of a tool may contain them. A text that is not in the table stays as it is.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from dragoman.lm import Outcome, TextPart, ToolResultPart
from dragoman.lm.parts import is_for_model

__all__ = ["UNASKED", "with_outcome"]

# Outcomes of calls that no person has decided about.
UNASKED: frozenset[Outcome | None] = frozenset({"skipped", "error"})

# The workbench says the first three, agent mode the others. `.` is any text; in several lines where `_ADVICE` follows.
_TABLE: tuple[tuple[str, Outcome], ...] = (
    # Skip and Skip All: a person was asked.
    (r"The user chose to skip the tool call, they want to proceed without running it", "denied"),
    # No person was asked: a program decided, or a hook.
    (
        r"Autopilot skipped this tool call because it was automatically assessed as high-risk: [\s\S]*",
        "skipped",
    ),
    (r"Tool execution denied: .*", "skipped"),
    # No person could be asked: the tool was switched off, or there is none of this name, or the input does not fit it.
    (
        r"(ERROR while calling tool: )?Tool \S+ is currently disabled by the user, and cannot be called\.",
        "error",
    ),
    (r'ERROR: The tool "[^"\n]*" does not exist', "error"),
    (r"ERROR: Your input to the tool was invalid \([\s\S]*\)", "error"),
    (r"ERROR while calling tool: .*", "error"),
    # Stop, while it waited or ran. The turn is over.
    (r"The user cancelled the tool call\.", "interrupted"),
)
_PATTERNS = tuple((re.compile(words), outcome) for words, outcome in _TABLE)
_ADVISED = tuple((re.compile(words, re.DOTALL), outcome) for words, outcome in _TABLE)
# Follows whatever went wrong, also where no other input would help.
_ADVICE = "\nPlease check your input and try again."
# What a user's hooks have to say of a call is put behind its result.
_HOOKS = re.compile(r"\n<(?:Pre|Post)ToolUse-context>\n")


def with_outcome(result: ToolResultPart) -> ToolResultPart:
    """The same result with its outcome set, if its text is one of VS Code's. Parts for the user alone do not change."""
    for_model = [part for part in result.content if is_for_model(part)]
    if result.outcome is not None or not all(isinstance(part, TextPart) for part in for_model):
        return result
    text = "".join(part.value for part in for_model if isinstance(part, TextPart))
    outcome = _outcome_of(text)
    if outcome is None:
        return result
    words, behind = _parted(text)
    others = (part for part in result.content if not is_for_model(part))
    content = (TextPart(words.removesuffix(_ADVICE) + behind), *others)
    return replace(result, content=content, is_error=True, outcome=outcome)


def _outcome_of(text: str) -> Outcome | None:
    """The outcome that the text of a result states. None: the text is probably what the tool returned."""
    words, _ = _parted(text)
    plain = words.removesuffix(_ADVICE)
    patterns = _PATTERNS if plain == words else _ADVISED
    return next((outcome for pattern, outcome in patterns if pattern.fullmatch(plain)), None)


def _parted(text: str) -> tuple[str, str]:
    """The text itself, and what hooks have appended to it."""
    hooks = _HOOKS.search(text)
    behind = text[hooks.start() :] if hooks else ""
    return text.removesuffix(behind).strip(), behind
