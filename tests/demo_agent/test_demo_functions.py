"""Functions of the consumer that a prompt asks for: which, with what, and what is said of the result."""

import asyncio
from pathlib import Path

import pytest

from demo_agent.harness import Editor
from dragoman.backends.agent.toolserver import PendingCall, ToolServer
from dragoman.demo.agent.functions import asked_for
from dragoman.lm import JsonObject, TextPart, ToolDefinition
from dragoman.lm.parts import ToolResult
from toolserver.harness import Bridge, text, tool

_NAME = "dg-1234"
_TEXT: JsonObject = {"type": "string"}


def _function(name: str, description: str, *optional: str, **properties: JsonObject) -> ToolDefinition:
    required = [each for each in properties if each not in optional]
    return tool(name, description, {"type": "object", "properties": properties, "required": required})


_PLACE: JsonObject = {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}
_WEATHER = _function("get_weather", "Get the current weather for a location", location=_PLACE)
_TIME = _function("get_time", "Get the current time in a timezone", timezone=_TEXT)
_FUNCTIONS = (
    _WEATHER,
    _TIME,
    _function("getStockPrice", "Price of a share", symbol=_TEXT),
    _function("add", "Adds two numbers", a={"type": "number"}, b={"type": "number"}),
    _function("send_email", "Sends an email", to=_TEXT, subject=_TEXT, body=_TEXT),
    _function(
        "search_flights", "Flights between cities", "date", origin=_TEXT, destination=_TEXT, date=_TEXT
    ),
    _function("calculator", "Evaluates an expression", expression=_TEXT),
    _function(
        "forecast",
        "The weather of the next days",
        "days",
        "unit",
        city=_TEXT,
        days={"type": "integer"},
        unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
    ),
    _function("get_horoscope", "Get today's horoscope for an astrological sign", sign=_TEXT),
    _function("read_file", "Reads a file", path=_TEXT),
)
_OFFERED = tuple(
    ToolDefinition(f"dg__{each.name}", each.description, each.input_schema) for each in _FUNCTIONS
)


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        ("What's the weather like in San Francisco?", [("get_weather", {"location": "San Francisco, CA"})]),
        ("What's the weather in paris?", [("get_weather", {"location": "paris"})]),
        ("What time is it?", [("get_time", {"timezone": "Istanbul"})]),
        (
            "the weather in Paris and the time in Tokyo",
            [("get_weather", {"location": "Paris"}), ("get_time", {"timezone": "Tokyo"})],
        ),
        (
            "What is the weather in Paris and in Oslo?",
            [("get_weather", {"location": "Paris"}), ("get_weather", {"location": "Oslo"})],
        ),
        (
            "What's the weather in Bogotá, Colombia and in Oslo?",
            [("get_weather", {"location": "Bogotá, Colombia"}), ("get_weather", {"location": "Oslo"})],
        ),
        ("What is my horoscope? I am an Aquarius.", [("get_horoscope", {"sign": "Aquarius"})]),
        (
            "Compare the weather in New York, NY, Ürümqi and Rome.",
            [("get_weather", {"location": place}) for place in ("New York, NY", "Ürümqi", "Rome")],
        ),
        ("How much is the stock price of ACME?", [("getStockPrice", {"symbol": "ACME"})]),
        ("Add 2 and 3.5", [("add", {"a": 2, "b": 3.5})]),
        (
            'Please send an email to bob@example.org with "See you" as its text.',
            [("send_email", {"to": "bob@example.org", "subject": "See you", "body": "See you"})],
        ),
        (
            "How long is the flight from Berlin to Rome on 2026-05-01?",
            [("search_flights", {"origin": "Berlin", "destination": "Rome", "date": "2026-05-01"})],
        ),
        ("What is 12 * (3 + 4)?", [("calculator", {"expression": "12 * (3 + 4)"})]),
        (
            "Show me the forecast for Berlin for 3 days in celsius.",
            [("forecast", {"city": "Berlin", "days": 3, "unit": "celsius"})],
        ),
    ],
)
def test_functions_that_words_ask_for(words: str, calls: list[tuple[str, JsonObject]]) -> None:
    assert [
        (wish.tool.name.removeprefix("dg__"), wish.arguments) for wish in asked_for(words, _OFFERED)
    ] == calls


@pytest.mark.parametrize(
    "words",
    [
        "hello",
        "What can you do?",
        "My name is Alice.",
        "Thanks, the weather was lovely.",
        "This time I would like to hear more.",
        "Look at the time! I must go.",
        "Tell me about yourself",
        "Which tools do you have?",
        f"What is the weather in Paris? {'And so on. ' * 200}",
    ],
)
def test_ordinary_talk_asks_for_none(words: str) -> None:
    assert asked_for(words, _OFFERED) == []


# As an agent.


async def _started(
    editor: Editor, folder: Path, server: ToolServer, *tools: ToolDefinition
) -> tuple[str, Bridge]:
    bridge = Bridge.of(server, *(tools or (_WEATHER, _TIME)), name=_NAME)
    command, arguments, env = bridge.endpoint.stdio()
    variables = [{"name": name, "value": value} for name, value in env.items()]
    address: JsonObject = {"name": _NAME, "command": command, "args": list(arguments), "env": variables}
    return await editor.start(folder, address), bridge


async def _answered(bridge: Bridge, *results: ToolResult) -> list[PendingCall]:
    """The calls, all of which are there before any is answered."""
    calls = [await bridge.call() for _ in results]
    for call, result in zip(calls, results, strict=True):
        bridge.answer(call, result)
    return calls


async def test_a_question_is_a_call_and_its_result_an_answer(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    session, bridge = await _started(editor, folder, server)
    answering = asyncio.ensure_future(editor.say(session, "What's the weather like in San Francisco?"))
    [call] = await _answered(bridge, text('{"temperature": 14, "sky": "fog"}'))
    assert (call.name, call.arguments) == ("get_weather", {"location": "San Francisco, CA"})
    assert await answering == "`get_weather` for San Francisco, CA says: temperature: 14, sky: fog\n"


async def test_several_are_called_at_once(editor: Editor, folder: Path, server: ToolServer) -> None:
    session, bridge = await _started(editor, folder, server)
    answering = asyncio.ensure_future(
        editor.say(session, "the weather in Paris and the time in Tokyo, please")
    )
    calls = await _answered(bridge, text("one"), text("two"))
    assert {call.name: call.arguments for call in calls} == {
        "get_weather": {"location": "Paris"},
        "get_time": {"timezone": "Tokyo"},
    }
    said = await answering
    assert said.index("`get_weather` for Paris says: ") < said.index("`get_time` for Tokyo says: ")


async def test_what_fails_is_said_to_have_failed(editor: Editor, folder: Path, server: ToolServer) -> None:
    session, bridge = await _started(editor, folder, server, _WEATHER)
    answering = asyncio.ensure_future(editor.say(session, "What is the weather in Paris and in Oslo?"))
    calls = {str(call.arguments["location"]): call for call in [await bridge.call(), await bridge.call()]}
    bridge.answer(calls["Paris"], text(""))
    bridge.answer(calls["Oslo"], ToolResult((TextPart("No station."),), is_error=True))
    said = await answering
    assert "`get_weather` for Paris is done." in said
    assert "`get_weather` for Oslo did not work: No station." in said


async def test_what_is_refused_is_not_called(editor: Editor, folder: Path, server: ToolServer) -> None:
    session, _ = await _started(editor, folder, server)
    editor.decide = lambda permission: permission.choose("reject_once")
    said = await editor.say(session, "What's the weather like in San Francisco?")
    assert "You refused. I did not call `get_weather`." in said


async def test_a_result_of_several_lines_is_quoted(editor: Editor, folder: Path, server: ToolServer) -> None:
    session, bridge = await _started(editor, folder, server)
    answering = asyncio.ensure_future(editor.say(session, "What time is it in Oslo?"))
    await _answered(bridge, text("${prompt}\nlate"))
    assert "says:\n\n```\n${prompt}\nlate\n```" in await answering


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        ('Call get_weather with {"location": "${x}"}.', [("get_weather", {"location": "${x}"})]),
        ('Call the tool get_weather with {"location": "Bern"}.', [("get_weather", {"location": "Bern"})]),
        ("use get_time", [("get_time", {"timezone": "Istanbul"})]),
        (
            'Use `get_time` and call dg-1234__get_weather with {"location": "Bern"}',
            [("get_time", {"timezone": "Istanbul"}), ("get_weather", {"location": "Bern"})],
        ),
    ],
)
async def test_a_function_that_is_named_is_called(
    editor: Editor, folder: Path, server: ToolServer, words: str, calls: list[tuple[str, JsonObject]]
) -> None:
    session, bridge = await _started(editor, folder, server)
    answering = asyncio.ensure_future(editor.say(session, words))
    made = await _answered(bridge, *(text("Noted.") for _ in calls))
    assert sorted((call.name, call.arguments) for call in made) == sorted(calls)
    assert "Noted." in await answering


async def test_the_scripts_own_words_stay_the_scripts(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    session, bridge = await _started(editor, folder, server, *_FUNCTIONS)
    answering = asyncio.ensure_future(editor.say(session, "What does it say? Read notes.txt in Paris."))
    [call] = await _answered(bridge, text("Buy bread."))
    assert (call.name, call.arguments) == ("read_file", {"path": "notes.txt"})
    assert (await answering).endswith("It says:\n\n~~~~\nBuy bread.\n~~~~\n")


async def test_a_function_that_is_asked_for_comes_before_one_that_sounds_like_it(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    session, bridge = await _started(editor, folder, server, _TIME, _WEATHER)
    answering = asyncio.ensure_future(editor.say(session, "Look up the weather in Oslo."))
    [call] = await _answered(bridge, text("Snow."))
    assert (call.name, call.arguments) == ("get_weather", {"location": "Oslo"})
    assert "Snow." in await answering


async def test_it_thinks_before_it_calls_if_it_is_asked_to(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    session, bridge = await _started(editor, folder, server)
    answering = asyncio.ensure_future(editor.say(session, "Think: what is the weather in Oslo?"))
    await _answered(bridge, text("Snow."))
    assert "Snow." in await answering
    assert "see me think" in editor.text(session, kind="agent_thought_chunk")


# Where a call is required.

_REQUIRED = (
    "<required-call>\nBefore you end your turn, you must call at least one of these functions of the user's program: "
    "`get_weather`, `final_result`.\n</required-call>"
)
_FINAL = _function(
    "final_result", "The final response", city=_TEXT, temperature={"type": "number"}, note={"const": "fin"}
)


def _block(value: str) -> JsonObject:
    return {"type": "text", "text": value}


async def test_where_a_call_is_required_the_best_one_is_called(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    session, bridge = await _started(editor, folder, server, _FINAL, _TIME)
    answering = asyncio.ensure_future(editor.prompt(session, _block(_REQUIRED), _block("I live in Bern.")))
    [call] = await _answered(bridge, text("Noted."))
    assert (call.name, call.arguments["city"]) == ("final_result", "Bern")
    await answering
    # The next prompt requires nothing.
    assert "demo agent" in await editor.say(session, "I live in Bern.")


async def test_the_function_for_the_final_answer_is_called_last_with_what_the_others_returned(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    session, bridge = await _started(editor, folder, server, _FINAL, _WEATHER)
    words = "What is the weather in Bern?"
    answering = asyncio.ensure_future(editor.prompt(session, _block(_REQUIRED), _block(words)))
    [first] = await _answered(bridge, text('{"temperature": 21.5}'))
    [last] = await _answered(bridge, text("Final."))
    assert first.name == "get_weather"
    assert (last.name, last.arguments) == (
        "final_result",
        {"city": "Bern", "temperature": 21.5, "note": "fin"},
    )
    await answering


async def test_a_second_prompt_for_the_same_answer_is_about_the_users_words(
    editor: Editor, folder: Path, server: ToolServer
) -> None:
    session, bridge = await _started(editor, folder, server, _FINAL)
    assert "demo agent" in await editor.say(session, "I live in Bern.")
    again = "You ended your turn without the call that is described above. Make it now."
    answering = asyncio.ensure_future(editor.prompt(session, _block(_REQUIRED), _block(again)))
    [call] = await _answered(bridge, text("Noted."))
    assert call.arguments["city"] == "Bern"
    await answering
