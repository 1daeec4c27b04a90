"""Chooses the functions of the consumer that a prompt asks for, and says what they returned.

A function is asked for by its name ("call get_weather", "use get_weather"), or by words: those that the prompt shares with
its name, its description and its parameters. A prompt that asks for several gets several calls at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from dragoman.backends.scripted import ScriptStep, call, say
from dragoman.demo.agent.acts import literal
from dragoman.demo.agent.casting import bare_name, consumers
from dragoman.demo.agent.demands import PromptDemands, json_texts
from dragoman.demo.agent.facts import SMALL_WORDS, PromptFacts, tokens
from dragoman.demo.agent.filling import Filler
from dragoman.lm import JsonObject, Message, ToolCallPart, ToolDefinition, ToolResultPart
from dragoman.lm.gfm import fence
from dragoman.lm.json import decode

__all__ = ["FunctionWish", "asked_for", "awaits_final", "by_name", "known_from", "report", "required"]

# Words that say nothing about what a function does.
_EMPTY = SMALL_WORDS | frozenset(
    tokens(
        "get set fetch retrieve look lookup up find search list show tell give make do run current currently now given"
        " specified function tool api data info information value result results input return returns provide provided"
        " name please"
    )
)
# A question, or a wish.
_ASKS = re.compile(
    r"\?|\b(?:please|can you|could you|would you|i want|i need|i'd like|tell me|give me|show me|what|what's|how|which|when|where|who)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"\b(?:what|what's|how|which|when|where|who|can you|could you|please)\b", re.IGNORECASE
)
_CALCULATES = frozenset({"calculat", "comput", "evaluat", "math"})
_SENTENCES = re.compile(r"(?<=[.?!])\s+|\n+")
_CLAUSES = re.compile(r"\s*(?:;|&|\band\b|\bplus\b|\bas well as\b)\s*", re.IGNORECASE)
_PART_OF_LIST = re.compile(r"^\W*(?:also |or )?(?:(?:in|at|for|of|to|near) )?[^\W\d_a-zß-ÿ][\w' ’-]*\W*$")
_REPEATS = re.compile(r"^\W*(?:in|at|for|of|to|near) ", re.IGNORECASE)
# What plainly asks for a function is short. A long text is one to work on.
_MAX_WORDS = 1_500
_MAX_CALLS = 8
_SHORTEST_STEM = 3
# Functions by which a client takes the final answer.
_FINAL = re.compile(r"final|answer|respond|output|result|structured", re.IGNORECASE)
_MAX_LINE = 300


@dataclass(frozen=True, slots=True)
class FunctionWish:
    tool: ToolDefinition
    arguments: JsonObject
    # Whether the prompt has all words of its name, and says what it is called with.
    is_certain: bool = True

    @property
    def step(self) -> ScriptStep:
        return call(self.tool.name, {name: literal(value) for name, value in self.arguments.items()})


@dataclass(frozen=True, slots=True)
class _Match:
    tool: ToolDefinition
    score: int
    is_enough: bool
    is_certain: bool


def by_name(demands: PromptDemands, offered: Sequence[ToolDefinition]) -> list[FunctionWish]:
    """The functions that the prompt names: "call NAME with {…}", "use NAME"."""
    spoken = demands.spoken
    found: list[tuple[int, FunctionWish]] = []
    for tool in consumers(offered):
        names = "|".join(re.escape(name) for name in (tool.name, bare_name(tool)))
        pattern = rf"\b(?:use|call|invoke)\s+(?:the\s+|my\s+)?(?:function\s+)?[`\"“]?(?:{names})(?![\w-])"
        for match in re.finditer(pattern, spoken, re.IGNORECASE):
            rest = spoken[match.end() :]
            given = next(json_texts(rest), None)
            is_next = given is not None and not re.search(r"\b(?:use|call|invoke)\b", rest[: given.start])
            if given is not None and is_next and isinstance(given.value, dict):
                arguments: JsonObject = given.value
            else:
                arguments = _arguments(tool, PromptFacts(demands.words))
            found.append((match.start(), FunctionWish(tool, arguments)))
    return [wish for _, wish in sorted(found, key=lambda each: each[0])][:_MAX_CALLS]


def asked_for(words: str, offered: Sequence[ToolDefinition]) -> list[FunctionWish]:
    """The functions that the words plainly ask for, each with its arguments. Ordinary talk asks for none."""
    tools = consumers(offered)
    if not tools or len(words) > _MAX_WORDS:
        return []
    parts = [*_parts(words, tools)]
    if len(parts) == 1:
        [(match, _)] = parts
        return [FunctionWish(match.tool, _arguments(match.tool, PromptFacts(words)), match.is_certain)]
    wishes: list[FunctionWish] = []
    for match, clause in parts[:_MAX_CALLS]:
        arguments = _arguments(match.tool, PromptFacts(clause), PromptFacts(words))
        if all((match.tool, arguments) != (each.tool, each.arguments) for each in wishes):
            wishes.append(FunctionWish(match.tool, arguments, match.is_certain))
    return wishes


def required(
    demands: PromptDemands, messages: Sequence[Message], offered: Sequence[ToolDefinition]
) -> list[FunctionWish]:
    """The functions to call where one must be called: those that are asked for, else the one that fits best."""
    tools = consumers(offered)
    named = [tool for tool in tools if re.search(rf"\b{re.escape(bare_name(tool))}\b", demands.call_text)]
    candidates = tuple(named or tools)
    called = {made.name for message in messages[demands.at :] for made in message.calls}
    fresh = tuple(tool for tool in candidates if tool.name not in called)
    # What has been called is not called again, if there is another.
    pool = fresh or candidates
    if not pool:
        return []
    if asked := asked_for(demands.words, pool):
        return asked
    facts = PromptFacts(demands.words, known_from(messages[demands.at :]))
    is_final = bool(called) and len(candidates) > len(fresh)
    ordered = sorted(pool, key=lambda tool: not _FINAL.search(bare_name(tool))) if is_final else pool
    best = max(ordered, key=lambda tool: _match(tool, demands.words).score)
    return [FunctionWish(best, _arguments(best, facts))]


def awaits_final(
    demands: PromptDemands, messages: Sequence[Message], offered: Sequence[ToolDefinition]
) -> bool:
    """Whether the client takes the final answer by a function that has not been called yet."""
    called = {made.name for message in messages[demands.at :] for made in message.calls}
    return demands.must_call and any(
        _FINAL.search(bare_name(tool)) and tool.name not in called for tool in consumers(offered)
    )


def _parts(words: str, tools: Sequence[ToolDefinition]) -> Iterator[tuple[_Match, str]]:
    """The clauses that ask for a function, each with it."""
    last: _Match | None = None
    for sentence in _SENTENCES.split(words):
        clauses = _CLAUSES.split(sentence)
        if len(clauses) > 1 and not _REPEATS.match(clauses[-1]):
            # "in Paris, Oslo and Rome" is a list; in "in Bogotá, Colombia and in Rome" the comma is within a place.
            clauses = [part for clause in clauses for part in re.split(r",\s+(?![A-Z]{2}\b)", clause)]
        for clause in clauses:
            match = _best(clause, tools, asks=bool(_ASKS.search(sentence)))
            if match is not None:
                last = match
                yield match, clause
            elif last is not None and _PART_OF_LIST.match(clause):
                # "the weather in Paris and in Oslo": the same again.
                yield last, clause
        last = None


def _best(clause: str, tools: Sequence[ToolDefinition], *, asks: bool) -> _Match | None:
    matches = [match for tool in tools if (match := _match(tool, clause, asks=asks)).is_enough]
    return max(matches, key=lambda match: match.score, default=None)


def _match(tool: ToolDefinition, words: str, *, asks: bool = True) -> _Match:
    said = {_stem(word) for word in tokens(words)}
    all_of_name = tokens(bare_name(tool))
    name = {_stem(word) for word in all_of_name if word not in _EMPTY} or {
        _stem(word) for word in all_of_name
    }
    described = {_stem(word) for word in tokens(tool.description) if word not in _EMPTY} - name
    in_name, in_description = len(name & said), len(described & said)
    schema = tool.input_schema or {}
    properties = schema.get("properties")
    filler = Filler(schema, PromptFacts(words))
    plain = (
        sum(filler.plain(each, inner) for each, inner in properties.items())
        if isinstance(properties, dict)
        else 0
    )
    is_named = 2 * in_name >= len(name) and in_name > 0
    # A verb at the beginning is a wish: "send an email". Without anything to call it with, it takes a plain question.
    wishes = (bool(all_of_name) and tokens(words)[:1] == all_of_name[:1]) or (
        asks and not schema.get("required")
    )
    calculates = PromptFacts(words).expression is not None and bool(_CALCULATES & (name | described))
    is_enough = (
        (is_named and (wishes or plain > 0 or (asks and _QUESTION.search(words) is not None)))
        or (in_description > 1 and plain > 0 and asks)
        or calculates
    )
    is_certain = is_named and in_name == len(name) and plain > 0
    return _Match(tool, 4 * in_name + in_description + 2 * min(plain, 1), is_enough, is_certain)


def _stem(word: str) -> str:
    for ending in ("ing", "ied", "ies", "ed", "es", "or", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word


def _arguments(tool: ToolDefinition, facts: PromptFacts, whole: PromptFacts | None = None) -> JsonObject:
    """Arguments for a call, from the words about it and, where those are silent, from the whole prompt."""
    schema = tool.input_schema or {}
    arguments = Filler(schema, whole or facts).object_of(schema)
    if whole is None:
        return arguments
    properties = schema.get("properties")
    own = Filler(schema, facts)
    known = properties if isinstance(properties, dict) else {}
    return arguments | {
        name: own.value(name, inner) for name, inner in known.items() if own.plain(name, inner)
    }


# What came back.


def known_from(messages: Sequence[Message]) -> JsonObject:
    """What functions have returned as JSON objects, by its names."""
    known: JsonObject = {}
    for message in messages:
        for result in message.results:
            try:
                value = decode(result.text)
            except msgspec.DecodeError:
                continue
            if isinstance(value, dict) and not result.is_error:
                known |= value
    return known


def report(messages: Sequence[Message]) -> list[ScriptStep]:
    """What the last calls returned, in a sentence each."""
    calls = next((message.calls for message in reversed(messages) if message.role == "assistant"), ())
    results = {result.call_id: result for message in messages[-1:] for result in message.results}
    said = [_sentence(made, results[made.call_id]) for made in calls if made.call_id in results]
    return [say(str(literal("\n\n".join(said) + "\n")))] if said else []


def _sentence(made: ToolCallPart, result: ToolResultPart) -> str:
    name = made.name.partition("__")[2] or made.name
    given = ", ".join(str(value) for value in made.input.values() if isinstance(value, (str, int, float)))
    about = f"`{name}` for {given}" if given and len(given) <= _MAX_LINE else f"`{name}`"
    text = _spoken(result.text)
    if result.is_error or result.outcome == "error":
        return f"{about} did not work: {text}"
    if not text:
        return f"{about} is done."
    return (
        f"{about} says:\n\n{fence(text)}"
        if "\n" in text or len(text) > _MAX_LINE
        else f"{about} says: {text}"
    )


def _spoken(text: str) -> str:
    """A result as words: a flat JSON object by its names and values."""
    try:
        value = decode(text)
    except msgspec.DecodeError:
        return text.strip()
    if (
        isinstance(value, dict)
        and value
        and not any(isinstance(each, (dict, list)) for each in value.values())
    ):
        return ", ".join(f"{name}: {each}" for name, each in value.items())
    return str(value) if isinstance(value, (str, int, float)) else text.strip()
