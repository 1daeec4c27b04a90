"""Single keys, as they arrive."""

import asyncio

from prompt_toolkit.input import PipeInput, create_pipe_input

from dragoman.frontends.terminal.keys import BURST, END, ESCAPE, INTERRUPT, TerminalKeys

_DEADLINE = 20


async def pressed(source: PipeInput, keys: TerminalKeys, text: str) -> str:
    source.send_text(text)
    return await asyncio.wait_for(keys.key(), _DEADLINE)


async def test_a_key_is_named() -> None:
    with create_pipe_input() as source:
        keys = TerminalKeys(source)
        with keys.listening():
            assert await pressed(source, keys, "y") == "y"
            assert await pressed(source, keys, "\x03") == INTERRUPT
            assert await pressed(source, keys, "\r") == "c-m"
            assert await pressed(source, keys, "é") == "é"


async def test_escape_is_told_from_the_keys_that_begin_like_it() -> None:
    with create_pipe_input() as source:
        keys = TerminalKeys(source)
        with keys.listening():
            assert await pressed(source, keys, "\x1b[A") == "up"
            assert await pressed(source, keys, "\x1b") == ESCAPE


async def test_several_keys_at_once_are_none() -> None:
    with create_pipe_input() as source:
        keys = TerminalKeys(source)
        with keys.listening():
            assert await pressed(source, keys, "yes") == BURST
            assert await pressed(source, keys, "\x1by") == BURST


async def test_a_paste_is_one_thing() -> None:
    with create_pipe_input() as source:
        keys = TerminalKeys(source)
        with keys.listening():
            assert await pressed(source, keys, "\x1b[200~y\x1b[201~") == "<bracketed-paste>"


async def test_what_was_typed_before_is_forgotten() -> None:
    with create_pipe_input() as source:
        keys = TerminalKeys(source)
        source.send_text("yyy\x1b")
        with keys.listening() as forgotten:
            assert forgotten
            assert await pressed(source, keys, "n") == "n"
        with keys.listening() as forgotten:
            assert not forgotten


async def test_the_end_of_input_is_told() -> None:
    with create_pipe_input() as source:
        keys = TerminalKeys(source)
        with keys.listening():
            source.close()
            assert await asyncio.wait_for(keys.key(), _DEADLINE) == END
