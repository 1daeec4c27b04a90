"""Pairing codes: single use, expiry, and the limits."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from dragoman.frontends.console.pairing import (
    ALPHABET,
    ATTEMPTS_AT_ONCE,
    ATTEMPTS_PER_SECOND,
    CODE_SECONDS,
    MOST_CODES,
    Pairing,
    PairingCodes,
    TooManyAttempts,
    WrongCode,
)
from dragoman.frontends.console.sessions import ConsoleScope

DECIDE = Pairing("decide", ConsoleScope())
WATCH_ALICE = Pairing("watch", ConsoleScope("alice", "http:a"))


@dataclass
class Clock:
    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Codes:
    clock: Clock = field(default_factory=Clock)
    codes: PairingCodes = field(init=False)

    def __post_init__(self) -> None:
        self.codes = PairingCodes(self.clock)


def test_a_code_is_eight_characters_of_an_alphabet_of_32_without_look_alikes() -> None:
    assert len(set(ALPHABET)) == 32
    assert not set(ALPHABET) & set("01IO")
    text = PairingCodes().new(DECIDE).text
    assert len(text) == 9
    assert text[4] == "-"
    assert set(text) <= {*ALPHABET, "-"}


def test_a_code_gives_the_role_and_scope_that_it_was_made_for() -> None:
    codes = PairingCodes()
    one, other = codes.new(DECIDE), codes.new(WATCH_ALICE)
    assert codes.take(other.text) == WATCH_ALICE
    assert codes.take(one.text) == DECIDE


@given(st.data())
def test_case_blanks_and_dashes_do_not_matter(data: st.DataObject) -> None:
    codes = PairingCodes()
    typed = ""
    for char in codes.new(DECIDE).text.replace("-", ""):
        typed += data.draw(st.sampled_from((char, char.lower())))
        typed += data.draw(st.sampled_from(("", " ", "-", "–", " - ", "\u00a0", "\t")))
    assert codes.take(typed) == DECIDE


def test_a_code_is_valid_once() -> None:
    codes = PairingCodes()
    code = codes.new(DECIDE).text
    codes.take(code)
    with pytest.raises(WrongCode):
        codes.take(code)


@given(st.floats(0, 1000))
def test_a_code_is_valid_for_two_minutes(seconds: float) -> None:
    site = Codes()
    code = site.codes.new(DECIDE).text
    site.clock.at += seconds
    if seconds < CODE_SECONDS:
        assert site.codes.take(code) == DECIDE
    else:
        with pytest.raises(WrongCode):
            site.codes.take(code)


def test_a_code_beyond_the_limit_takes_the_place_of_the_oldest() -> None:
    codes = PairingCodes()
    made = [codes.new(DECIDE).text for _ in range(MOST_CODES + 1)]
    assert len(codes) == MOST_CODES
    with pytest.raises(WrongCode):
        codes.take(made[0])
    for code in made[1:]:
        assert codes.take(code) == DECIDE


def test_too_many_attempts_refuse_a_right_code_as_well_until_time_has_passed() -> None:
    site = Codes()
    code = site.codes.new(DECIDE).text
    for _ in range(ATTEMPTS_AT_ONCE):
        with pytest.raises(WrongCode):
            site.codes.take("2222-2222")
    with pytest.raises(TooManyAttempts) as refused:
        site.codes.take(code)
    assert refused.value.seconds == pytest.approx(1 / ATTEMPTS_PER_SECOND)
    site.clock.at += refused.value.seconds
    assert site.codes.take(code) == DECIDE


@given(st.lists(st.floats(0, 2), min_size=1, max_size=200))
def test_no_pattern_of_attempts_gets_past_the_rate(pauses: list[float]) -> None:
    site = Codes()
    begun, tried = site.clock.at, 0
    for pause in pauses:
        site.clock.at += pause
        try:
            site.codes.take("no code")
        except WrongCode:
            tried += 1
        except TooManyAttempts:
            pass
    assert tried <= ATTEMPTS_AT_ONCE + (site.clock.at - begun) * ATTEMPTS_PER_SECOND + 1e-6


@given(st.text())
def test_whatever_is_typed_is_a_wrong_code(text: str) -> None:
    codes = PairingCodes()
    codes.new(DECIDE)
    with pytest.raises(WrongCode):
        codes.take(text)


def test_neither_a_log_of_the_codes_nor_their_memory_has_a_code() -> None:
    codes = PairingCodes()
    new = codes.new(DECIDE)
    plain = new.text.replace("-", "")
    assert plain not in repr(codes)
    assert new.text not in repr(new)
    assert all(plain.encode() not in each.digest for each in codes._outstanding)
    assert codes._salt not in repr(codes).encode()
    assert PairingCodes()._digest(plain) != codes._digest(plain)


class _AnyOrder(RuleBasedStateMachine):
    """Codes in any order, beside a model that has them in clear."""

    made = Bundle("made")

    def __init__(self) -> None:
        super().__init__()
        self.site = Codes()
        self.valid: dict[str, float] = {}

    def _expire(self) -> None:
        self.valid = {code: until for code, until in self.valid.items() if self.site.clock.at < until}

    @rule(target=made)
    def make(self) -> str:
        self._expire()
        code = self.site.codes.new(DECIDE).text
        self.valid[code] = self.site.clock.at + CODE_SECONDS
        while len(self.valid) > MOST_CODES:
            del self.valid[next(iter(self.valid))]
        return code

    @rule(seconds=st.floats(0, 90))
    def wait(self, seconds: float) -> None:
        self.site.clock.at += seconds

    @rule(code=made)
    def take(self, code: str) -> None:
        # So that no attempt is refused for its number: that has tests of its own.
        self.site.codes._attempts = ATTEMPTS_AT_ONCE
        self._expire()
        if self.valid.pop(code, None) is not None:
            assert self.site.codes.take(code) == DECIDE
        else:
            with pytest.raises(WrongCode):
                self.site.codes.take(code)

    @rule(code=consumes(made))
    def lose(self, code: str) -> None:
        """The person forgets a code."""

    @invariant()
    def as_many_as_are_valid(self) -> None:
        self._expire()
        assert len(self.site.codes) == len(self.valid)


TestAnyOrder = _AnyOrder.TestCase


def test_the_codes_of_a_session_end_with_it() -> None:
    codes = PairingCodes()
    own, other = (codes.new(Pairing("decide", ConsoleScope(), maker)).text for maker in ("s1", "s2"))
    of_terminal = codes.new(Pairing("decide", ConsoleScope())).text
    codes.end_codes_of("s1")
    with pytest.raises(WrongCode):
        codes.take(own)
    assert codes.take(other).maker == "s2"
    assert codes.take(of_terminal).maker is None
