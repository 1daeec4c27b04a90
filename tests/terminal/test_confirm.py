"""How a person is asked, and which keys answer."""

import asyncio
import io
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from rich.console import Console

from dragoman.clock import Clock
from dragoman.frontends.rule_offers import CannotAddRule, RuleOffer
from dragoman.frontends.terminal.confirm import Asker, choose
from dragoman.frontends.terminal.keys import BURST, END, ESCAPE, INTERRUPT
from dragoman.frontends.terminal.prompt import PromptInterrupted
from dragoman.frontends.terminal.rule_making import RuleMaker
from dragoman.frontends.terminal.screen import Screen
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.lm import CancellationToken
from dragoman.policy.rule import PolicyRule
from dragoman.tools.decision import LEVELS, ApprovalLevel, Approve, CannotAsk, Decision, Deny, ToolQuestion
from dragoman.tools.tool import Confirmation
from virtual_clock import Stuck, VirtualTimeLoop, run


class _Keys:
    """Presses keys, each after so many seconds."""

    def __init__(
        self, clock: Clock, presses: tuple[str | tuple[float, str], ...], *, typed_before: bool
    ) -> None:
        self._clock = clock
        self._presses = deque(press if isinstance(press, tuple) else (1.0, press) for press in presses)
        self._typed_before = typed_before
        self._last = clock.now()
        self.is_listening = False

    @contextmanager
    def listening(self) -> Iterator[bool]:
        self.is_listening = True
        try:
            yield self._typed_before
        finally:
            self.is_listening = False

    async def key(self) -> str:
        if not self._presses:
            raise Stuck("the question is still open, and nobody presses anything any more")
        seconds, key = self._presses[0]
        due = self._last + seconds
        await self._clock.sleep(max(0.0, due - self._clock.now()))
        # Whoever stops waiting for a key gets it the next time.
        self._presses.popleft()
        self._last = due
        return key


@dataclass
class _Asked:
    decision: Decision
    printed: str
    interrupts: int


_RULE = PolicyRule(decision="allow", command=("git", "log"))
_WIDE_RULE = PolicyRule(decision="allow", command=("git", "log"), args="any")


class _Rules:
    """Offers these rules for every question, and keeps what was added."""

    file = "/home/her/dragoman.toml"

    def __init__(self, *offered: tuple[PolicyRule, ...], problem: str = "") -> None:
        self._offered = offered or ((_RULE,), (_WIDE_RULE,))
        self._problem = problem
        self.added: list[str] = []

    def offers(self, question: ToolQuestion) -> tuple[RuleOffer, ...]:
        return tuple(
            RuleOffer(f"always allow number {number}", rules) for number, rules in enumerate(self._offered)
        )

    def add(self, offer: RuleOffer) -> str:
        if self._problem:
            raise CannotAddRule(self._problem)
        self.added.append(offer.toml)
        return f"{self.file}:7"


def asked(
    *presses: str | tuple[float, str],
    reason: str | PromptInterrupted | None = None,
    typed_before: bool = False,
    message: str = "Really.",
    levels: tuple[ApprovalLevel, ...] = LEVELS,
    covers: str = "exactly this input",
    height: int = 40,
    whole: str = "",
    rules: RuleMaker | None = None,
) -> _Asked:
    """What comes of a question to which somebody presses these keys, a second apart unless said otherwise."""
    output = io.StringIO()
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1

    async def ask() -> Decision:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        screen = Screen(Console(file=output, width=80, height=height), live=False)
        keys = _Keys(loop.clock, presses, typed_before=typed_before)

        async def read_reason() -> str | None:
            assert not keys.is_listening, "two readers of one terminal"
            if isinstance(reason, PromptInterrupted):
                raise reason
            return reason

        transcript = Transcript(screen, loop.clock, model=lambda: "Demo")
        asker = Asker(
            screen, transcript, keys, loop.clock, read_reason=read_reason, interrupt=interrupt, rules=rules
        )
        confirmation = Confirmation("Write it?", message, whole)
        question = ToolQuestion("1", "write_file", "Write file", {}, confirmation, levels, covers)
        return await asker.confirm(question, CancellationToken())

    return _Asked(run(ask()), output.getvalue(), interrupts)


@pytest.mark.parametrize(
    ("key", "level"), [("y", "once"), ("s", "session"), ("w", "workspace"), ("a", "always")]
)
def test_each_level_has_its_key(key: str, level: ApprovalLevel) -> None:
    assert asked(key).decision == Approve(level)


def test_a_level_that_is_not_offered_has_no_key() -> None:
    result = asked("w", "a", "s", "y", levels=("once",))
    assert result.decision == Approve("once")
    assert "session" not in result.printed
    assert "always" not in result.printed
    assert "exactly this input" not in result.printed


def test_show_prints_the_whole_question_and_its_letters_answer_nothing() -> None:
    """`s`, `w` and `a` are keys of the question: typed as part of `/show` they are letters."""
    result = asked(*"/show", "c-m", "y", message="Cut.", whole="All of it, to the end.")
    assert result.decision == Approve("once")
    assert "All of it, to the end." in result.printed
    assert "/show all of it" in result.printed
    other = asked(*"/was", "c-h", BURST, "c-m", "y", message="Cut.", whole="All of it.")
    assert other.decision == Approve("once")
    assert "All of it." not in other.printed


@pytest.mark.parametrize("leaving", [("c-h",), (ESCAPE,), (*"sa", "c-c"), (END,)])
def test_a_command_can_be_left_and_the_question_is_still_open(leaving: tuple[str, ...]) -> None:
    assert asked("/", *leaving, "y").decision == Approve("once")


def test_nothing_is_approved_right_after_a_command() -> None:
    result = asked(*"/show", "c-m", (0.1, "a"), "n", reason="no", whole="All.")
    assert result.decision == Deny("no")


def test_denying_asks_for_a_reason() -> None:
    assert asked("n", reason="Not today.").decision == Deny("Not today.")


def test_denying_needs_no_reason() -> None:
    assert asked("n", reason=None).decision == Deny()


def test_escape_denies_at_once() -> None:
    assert asked(ESCAPE, reason="never asked for").decision == Deny()


def test_a_terminal_that_is_gone_is_nobodys_denial() -> None:
    with pytest.raises(CannotAsk):
        asked(END)


@pytest.mark.parametrize(
    "key", ["enter", "c-m", " ", "c-j", "Y", "A", "o", "up", "<bracketed-paste>", BURST, "tab"]
)
def test_other_keys_decide_nothing(key: str) -> None:
    assert choose(key, LEVELS) is None
    assert asked(key, ESCAPE).decision == Deny()


def test_interrupting_cancels_the_turn_and_decides_nothing() -> None:
    result = asked(INTERRUPT, ESCAPE)
    assert result.interrupts == 1
    assert result.decision == Deny()


def test_interrupting_the_reason_cancels_the_turn() -> None:
    result = asked("n", reason=PromptInterrupted())
    assert result.interrupts == 1
    assert result.decision == Deny()


def test_somebody_who_was_typing_must_pause_before_an_approval_counts() -> None:
    hurried = asked((0.1, "a"), (0.1, "y"), (1.0, ESCAPE), typed_before=True)
    assert hurried.decision == Deny()
    assert asked((1.0, "y"), typed_before=True).decision == Approve("once")


def test_an_approval_in_the_midst_of_other_keys_does_not_count() -> None:
    assert asked("m", (0.1, "a"), (0.1, "y"), (1.0, ESCAPE)).decision == Deny()
    assert asked("m", (1.0, "y")).decision == Approve("once")


def test_a_denial_counts_at_once() -> None:
    assert asked((0.0, ESCAPE), typed_before=True).decision == Deny()
    assert asked((0.0, "n"), typed_before=True, reason="no").decision == Deny("no")


def test_p9_the_question_shows_title_and_what_is_to_be_done() -> None:
    printed = asked("y", message="In `here`:\n\n```diff\n-old\n+new\n```\n").printed
    assert printed == (
        "? Write it?\n  In here:\n\n    -old\n    +new\n\n"
        "  y once   s session   w workspace   a always   n deny, with a reason   Esc deny\n"
        "  s, w, a: for exactly this input\n"
        "→ allowed once\n"
    )


def test_the_question_and_the_answer_say_what_a_lasting_approval_is_for() -> None:
    printed = asked("s", covers="any file\nin src\x1b[2J").printed
    assert "s, w, a: for any file in src␛[2J\n" in printed
    assert "→ allowed for this session: any file in src␛[2J\n" in printed


def test_p9_the_question_is_escaped() -> None:
    printed = asked(ESCAPE, message="```sh\nrm -rf /\x1b[2K\r# harmless \u202etxt\n```").printed
    assert "rm -rf /␛[2K␍# harmless <U+202E>txt" in printed


def test_nothing_in_a_question_is_out_of_sight() -> None:
    printed = asked(ESCAPE, message="`rm\u3164x` &#x200b;&#8203;\n\n```sh\nrm \u2800\u00a0x\n```").printed
    assert "rm<U+3164>x <U+200B><U+200B>" in printed
    assert "rm <U+2800><U+00A0>x" in printed


def test_a_long_message_is_shown_page_by_page() -> None:
    diff = "\n".join(f"+line {number}" for number in range(100))
    first = asked(ESCAPE, message=f"```diff\n{diff}\n```", height=20).printed
    assert "+line 11\n" in first
    assert "+line 12\n" not in first
    assert "d 88 more lines" in first
    second = asked("d", ESCAPE, message=f"```diff\n{diff}\n```", height=20).printed
    assert "+line 23\n" in second
    assert "+line 24\n" not in second
    pages = asked(*["d"] * 8, ESCAPE, message=f"```diff\n{diff}\n```", height=20).printed
    assert [line.strip() for line in pages.splitlines() if "+line" in line] == diff.split("\n")


def test_asking_for_more_does_not_count_as_typing() -> None:
    assert asked("d", (0.0, "y")).decision == Approve("once")


def test_a_rule_is_picked_shown_and_confirmed() -> None:
    rules = _Rules()
    result = asked("r", "2", "y", rules=rules)
    assert result.decision == Approve("once", new_rule=f"{rules.file}:7")
    assert rules.added == ['[[policy]]\ndecision = "allow"\ncommand = ["git", "log"]\nargs = "any"\n']
    in_order = (
        "r make a rule",
        "  1 always allow number 0\n  2 always allow number 1\n  Esc back to the question\n",
        f"This goes to the end of {rules.file}:\n\n    [[policy]]\n",
        '    decision = "allow"\n    command = ["git", "log"]\n    args = "any"\n\n',
        "  y write it, and allow this once   Esc back to the question\n",
        f"→ allowed once, and from now on by the rule at {rules.file}:7\n",
    )
    position = 0
    for text in in_order:
        position = result.printed.find(text, position)
        assert position >= 0, f"{text!r} is missing, or not in its place, in:\n{result.printed}"


def test_there_is_no_key_where_no_rule_can_be_made() -> None:
    class _None(_Rules):
        def offers(self, question: ToolQuestion) -> tuple[RuleOffer, ...]:
            return ()

    for rules in (None, _None()):
        result = asked("r", "1", ESCAPE, rules=rules)
        assert result.decision == Deny()
        assert "make a rule" not in result.printed


@pytest.mark.parametrize("leaving", [(ESCAPE,), ("1", ESCAPE), ("3", "x", ESCAPE), ("2", "n", "a", ESCAPE)])
def test_the_way_back_leads_to_the_question_and_writes_nothing(leaving: tuple[str, ...]) -> None:
    rules = _Rules()
    assert asked("r", *leaving, "s", rules=rules).decision == Approve("session")
    assert rules.added == []


@pytest.mark.parametrize(
    "hurried",
    [
        ("r", "1", (0.1, "y"), (1.0, ESCAPE), ESCAPE),
        ("r", "1", (0.1, "y"), (0.1, "y"), (1.0, ESCAPE), ESCAPE),
        ("r", "1", "m", (0.1, "y"), (1.0, ESCAPE), ESCAPE),
        ("r", "1", "c-m", BURST, "<bracketed-paste>", ESCAPE, ESCAPE),
        ((0.1, "r"), (0.1, "1"), (0.1, "y"), (1.0, ESCAPE)),
        ("r", "1", ESCAPE, (0.1, "y"), (1.0, ESCAPE)),
    ],
)
def test_a_rule_is_not_confirmed_in_the_midst_of_other_keys(
    hurried: tuple[str | tuple[float, str], ...],
) -> None:
    rules = _Rules()
    assert asked(*hurried, rules=rules, typed_before=True).decision == Deny()
    assert rules.added == []


def test_a_rule_that_is_longer_than_the_screen_is_confirmed_after_all_of_it_was_shown() -> None:
    rules = _Rules((_RULE,) * 8)
    result = asked("r", "1", "y", "d", "d", "y", rules=rules, height=20)
    assert result.decision == Approve("once", new_rule=f"{rules.file}:7")
    assert result.printed.count("[[policy]]") == 8
    assert "  d 21 more lines   Esc back to the question" in result.printed
    assert asked("r", "1", "y", "y", ESCAPE, ESCAPE, rules=rules, height=20).decision == Deny()


def test_a_rule_is_shown_with_everything_that_hides_in_it() -> None:
    rules = _Rules((PolicyRule(decision="allow", reason="\u202etxt\x1b[2K ```"),))
    printed = asked("r", "1", ESCAPE, ESCAPE, rules=rules).printed
    assert '    reason = "\\U0000202etxt\\U0000001b[2K ```"\n' in printed


def test_a_rule_that_cannot_be_written_leaves_the_question_open() -> None:
    rules = _Rules(problem="/home/her/dragoman.toml: the disk is full.")
    result = asked("r", "1", "y", "y", rules=rules)
    assert result.decision == Approve("once")
    assert (
        "✗ The rule was not written. /home/her/dragoman.toml: the disk is full. The\n  question is still open.\n"
        in result.printed
    )


@pytest.mark.parametrize("before", [("r",), ("r", "1")])
def test_making_a_rule_can_be_interrupted(before: tuple[str, ...]) -> None:
    result = asked(*before, INTERRUPT, ESCAPE, rules=_Rules())
    assert result.interrupts == 1
    assert result.decision == Deny()
    with pytest.raises(CannotAsk):
        asked(*before, END, rules=_Rules())
