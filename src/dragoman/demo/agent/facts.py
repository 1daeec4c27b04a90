"""Finds what the words of a prompt plainly say: places, people, days, numbers, quotations.

It is a handful of patterns and no understanding. They cover the questions that people ask when they try out a client.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter

from dragoman.lm import JsonObject

__all__ = ["SMALL_WORDS", "PromptFacts", "tokens"]


def _words(text: str) -> list[str]:
    return text.split()


# A word that begins with a capital: with a letter that is not a small one of Latin-1. So small letters of other alphabets
# count as capitals. Several such words in a row are one name.
_NAME = r"(?:[^\W\d_a-zß-ÿ][\w'’-]*)(?: [^\W\d_a-zß-ÿ][\w'’-]*)*"
_NUMBER = r"-?\d+(?:\.\d+)?"

_PLACE = re.compile(rf"\b(?:in|at|of|for|to|from|near|about|around) ({_NAME}(?:, {_NAME})?)")
_PART_OF_LIST = re.compile(rf"^\W*(?:or |in |at |for |of |to )?({_NAME})\W*$")
_SMALL_PLACE = re.compile(r"\b(?:in|at|for) ([^\W\d_]+)\W*$")
_AFTER = {
    "from": re.compile(rf"\bfrom ({_NAME})"),
    "to": re.compile(rf"\bto ({_NAME})"),
}
# A name at the beginning of a sentence is one if it does something.
_DOES = r"(?:and|is|are|was|were|has|have|will|wants?|lives?|likes?|said|says|goes|went|works?|bought|paid)"
_BEGINS = re.compile(rf"(?:^|[.!?:]\s+|\n)({_NAME})(?=,? {_DOES}\b)")
_WITHIN = re.compile(rf"(?<=[\w,] )({_NAME})")
_DAYS = _words("monday tuesday wednesday thursday friday saturday sunday today tomorrow tonight yesterday")
_MONTHS = _words("january february march april may june july august september october november december")
_MONTH = "|".join(month.capitalize() for month in _MONTHS)
_DATE = re.compile(
    rf"\b(\d{{4}}-\d\d-\d\d|(?:{_MONTH}) \d{{1,2}}(?:, \d{{4}})?|\d{{1,2}} (?:{_MONTH})(?: \d{{4}})?|{'|'.join(_DAYS)})\b",
    re.IGNORECASE,
)
_ISO_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_AGE = re.compile(rf"\b({_NUMBER})[ -]years?\b|\baged? (?:is )?({_NUMBER})\b|\bis ({_NUMBER})\b(?! ?[%°€$])")
_EMAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_URL = re.compile(r"\bhttps?://[^\s`\"'<>)]+")
_QUOTED = re.compile(r"[\"“`]([^\"”`\n]+)[\"”`]|(?<!\w)['‘]([^'’\n]+)['’](?!\w)")
_EXPRESSION = re.compile(r"[\d(][\d\s().]*(?:[-+*/^×÷][\d\s().]+)+")
# What happens: "a science fair on Friday".
_EVENT = re.compile(r"\b(?:a|an|the) ((?:[a-zß-ÿ-]+ ){0,3}?[a-zß-ÿ-]+)(?= on\b| at\b| in\b|[.,;!?]|$)")
# Words that begin with a capital and are no names of people.
_NO_PEOPLE = frozenset(
    [day.capitalize() for day in _DAYS]
    + [month.capitalize() for month in _MONTHS]
    + _words(
        "A An And Are As At Answer Call Can Celsius Could Count Do Does Event Extract Fahrenheit Find For From Get Give Go"
        " He Hello Help Hi How I I'd I'll I'm If In Is It JSON Let Look Make Me My No Note Of On Or Our Please Reply Return"
        " Say She Show So Start Summarise Summarize Tell Thanks That The Their Then There They Think This To Use User We"
        " Were What What's When Where Where's Which Who Who's Why Will With Would Yes You Your"
    )
)
# Words that carry no meaning of their own.
SMALL_WORDS = frozenset(
    _words(
        "a an and are as at be by can do for from had has have he how i if in is it like may me must my of on or our shall"
        " she should so such than that the their them then there these they this those to was we were what when where which"
        " who will with would you your"
    )
)


def tokens(text: str) -> list[str]:
    """The words of a text in small letters: `getWeather`, `get_weather` and "get weather" have the same."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return [word.lower() for word in re.findall(r"[^\W_]+", parted)]


@dataclass(frozen=True)
class PromptFacts:
    """The facts of `words`. `known` has values that a tool has returned, by their names."""

    words: str
    known: JsonObject = field(default_factory=dict)

    @cached_property
    def places(self) -> list[str]:
        """The names after a word that points at a place."""
        found = [match[1] for match in _PLACE.finditer(self.words) if not _is_time(match[1])]
        return list(dict.fromkeys(found))

    def place(self, direction: str | None = None) -> str | None:
        """The first place; with a direction (`from`, `to`), the one after that word."""
        if direction is not None and (match := _AFTER[direction].search(self.words)):
            return match[1]
        if self.places:
            return self.places[0]
        # A part of a list ("… and Oslo"), or a place in small letters at the end.
        match = _PART_OF_LIST.match(self.words) or _SMALL_PLACE.search(self.words)
        return match[1] if match and match[1].lower() not in SMALL_WORDS else None

    @cached_property
    def people(self) -> list[str]:
        names = [(match.start(1), match[1]) for match in _BEGINS.finditer(self.words)]
        names += [(match.start(1), match[1]) for match in _WITHIN.finditer(self.words)]
        found = [name for _, name in sorted(names) if not any(name in place for place in self.places)]
        return list(dict.fromkeys(name for name in found if name.split()[0] not in _NO_PEOPLE))

    @cached_property
    def date(self) -> str | None:
        match = _DATE.search(self.words)
        return match[1] if match else None

    @cached_property
    def iso_date(self) -> str | None:
        match = _ISO_DATE.search(self.words)
        return match[0] if match else None

    @cached_property
    def age(self) -> float | None:
        match = _AGE.search(self.words)
        return _number(next(filter(None, match.groups()))) if match else None

    @cached_property
    def numbers(self) -> list[float]:
        without_dates = _ISO_DATE.sub(" ", self.words)
        found = re.findall(rf"(?<![\w.]){_NUMBER}(?![\w]*@)", without_dates)
        return [_number(each) for each in found]

    @cached_property
    def codes(self) -> list[str]:
        """Abbreviations in capitals, such as those of currencies and shares."""
        return re.findall(r"\b[A-Z]{2,5}\b", self.words)

    @cached_property
    def expression(self) -> str | None:
        """Something to calculate."""
        match = _EXPRESSION.search(self.words)
        return match[0].strip() if match else None

    def amount(self, name: str) -> float | None:
        """The number of things that a property is called after: "3 days"."""
        for word in tokens(name):
            if match := re.search(
                rf"\b({_NUMBER}) {re.escape(word.removesuffix('s'))}s?\b", self.words, re.IGNORECASE
            ):
                return _number(match[1])
        return None

    @cached_property
    def event(self) -> str | None:
        found = [(self.words[match.end() :][:1] != " ", match[1]) for match in _EVENT.finditer(self.words)]
        # What happens somewhere or some day comes before any other thing.
        return min(found, key=itemgetter(0))[1] if found else None

    @cached_property
    def quoted(self) -> str | None:
        match = _QUOTED.search(self.words)
        return (match[1] or match[2]) if match else None

    @cached_property
    def email(self) -> str | None:
        match = _EMAIL.search(self.words)
        return match[0] if match else None

    @cached_property
    def url(self) -> str | None:
        match = _URL.search(self.words)
        return match[0] if match else None

    def stated(self, name: str) -> str | None:
        """What the words say a property is: "with the word ping", "the title is Ulysses", "title: Ulysses"."""
        spoken = re.escape(" ".join(tokens(name)))
        match = re.search(
            rf"\b{spoken}(?:\s+is|\s+of|\s*[:=])\s+(?:{_QUOTED.pattern}|({_NAME}|\w[\w-]*))",
            self.words,
            re.IGNORECASE,
        ) or re.search(rf"\bthe {spoken}()()\s+(\w[\w-]*)", self.words, re.IGNORECASE)
        if match is None:
            return None
        value = next(filter(None, match.groups()), "")
        return value if value.lower() not in SMALL_WORDS else None


def _is_time(name: str) -> bool:
    return name.split(maxsplit=1)[0].lower() in (*_DAYS, *_MONTHS)


def _number(text: str) -> float:
    """A whole number as one, so that it is written as one."""
    value = float(text)
    return int(value) if value.is_integer() else value
