"""The names we give: call ids and markers."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given, strategies as st

from dragoman.conversations.ids import (
    CONVERSATION_ID,
    KEY_BYTES,
    CallName,
    IdSigner,
    MarkerName,
    new_conversation_id,
)
from dragoman.lm import DataPart
from dragoman.lm.parts import STATEFUL_MARKER

TOKENS = IdSigner(b"k" * KEY_BYTES)
CONVERSATIONS = st.from_regex(CONVERSATION_ID, fullmatch=True)
NUMBERS = st.integers(0, 999_999_999)


def test_a_conversation_has_a_name_that_fits_into_others_and_is_its_own() -> None:
    names = {new_conversation_id() for _ in range(100)}
    assert len(names) == 100
    assert all(map(CONVERSATION_ID.fullmatch, names))


@given(CONVERSATIONS, NUMBERS)
def test_t8_call_ids_are_legal_and_name_their_conversation(conversation: str, number: int) -> None:
    call_id = TOKENS.call_id(CallName(conversation, number))
    assert re.fullmatch(r"dg_[A-Za-z0-9_-]+", call_id)
    assert len(call_id) <= 64
    assert "__vscode" not in call_id
    assert TOKENS.read_call_id(call_id) == CallName(conversation, number)


@given(CONVERSATIONS, NUMBERS, NUMBERS)
def test_markers_name_a_place_in_a_conversation(conversation: str, turn: int, response: int) -> None:
    name = MarkerName(conversation, turn, response)
    marker = TOKENS.marker("claude", name)
    assert marker.mime_type == STATEFUL_MARKER
    assert re.fullmatch(rb"claude\\[A-Za-z0-9_-]+", marker.data)
    assert TOKENS.read_marker(marker) == name
    # Whatever model it was given to.
    assert TOKENS.read_marker(DataPart(STATEFUL_MARKER, b"other" + marker.data)) == name


def test_h23_what_we_did_not_issue_is_not_ours() -> None:
    name = CallName("a" * 16, 7)
    genuine = TOKENS.call_id(name)
    for forged in (
        genuine[:-1] + ("a" if genuine[-1] != "a" else "b"),
        genuine.replace("_7_", "_8_"),
        genuine.replace("_7_", "_07_"),
        genuine.replace("a" * 16, "b" * 16),
        f" {genuine}",
        f"{genuine}\n",
        genuine.upper(),
        IdSigner(b"x" * KEY_BYTES).call_id(name),
        "",
        "call_1",
    ):
        assert TOKENS.read_call_id(forged) is None, forged


def test_h23_a_marker_that_we_did_not_sign_is_not_ours() -> None:
    name = MarkerName("a" * 16, 1, 2)
    marker = TOKENS.marker("m", name)
    token = marker.data.partition(b"\\")[2]
    for data in (
        token,
        b"m\\",
        b"m\\" + token[:-4],
        b"m\\" + token[:-1] + (b"A" if token[-1:] != b"A" else b"E"),
        b"m\\" + b"A" * 300,
        b"m\\A",
        b"m\\\xff",
        b"",
        IdSigner(b"x" * KEY_BYTES).marker("m", name).data,
    ):
        assert TOKENS.read_marker(DataPart(STATEFUL_MARKER, data)) is None, data
    assert TOKENS.read_marker(DataPart("image/png", marker.data)) is None


def test_h23_a_signed_payload_of_another_form_is_not_ours() -> None:
    class Careless(IdSigner):
        def sign(self, payload: bytes) -> DataPart:
            signed = payload + self._mac(b"marker", payload)[:16]
            return DataPart(STATEFUL_MARKER, b"m\\" + base64.urlsafe_b64encode(signed).rstrip(b"="))

    tokens = Careless(b"k" * KEY_BYTES)
    assert tokens.read_marker(tokens.sign(b"a" * 16 + b".1.2")) == MarkerName("a" * 16, 1, 2)
    for payload in (b"", b"a.1.2", b"a" * 16 + b".1", b"\xff" * 20):
        assert tokens.read_marker(tokens.sign(payload)) is None


@given(st.binary(max_size=80))
def test_any_bytes_may_come_back(data: bytes) -> None:
    assert TOKENS.read_marker(DataPart(STATEFUL_MARKER, data)) is None


@given(st.text(max_size=70))
def test_any_text_may_come_back(text: str) -> None:
    assert TOKENS.read_call_id(text) is None


@pytest.mark.parametrize("size", [0, KEY_BYTES - 1, KEY_BYTES + 1])
def test_a_key_has_its_size(size: int) -> None:
    with pytest.raises(ValueError, match=f"{KEY_BYTES} bytes"):
        IdSigner(b"k" * size)
