"""What the fuzzers have found, each as the smallest case of it."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from devtools.traces.reading import TraceError, parse_trace

from dragoman.acp.messages import ReadTextFile
from dragoman.agents.catalogue import REFRESHED, CatalogueError, catalogue, read_registry, shipped
from dragoman.agents.installed import InstalledAgents
from dragoman.backends.agent.session.approved_edits import read_text, wanted_lines
from dragoman.backends.responses.retries import retry_after_seconds
from dragoman.cleaning import Cleaning
from dragoman.frontends.http.auth import AccessCheck
from dragoman.frontends.http.errors import ApiError
from dragoman.journal.events import UnreadableJournal, decode_events
from dragoman.journal.fold import ConversationFold
from dragoman.jsonrpc.messages import Malformed, parse
from dragoman.jsonrpc.text import Decoder, encode
from dragoman.lm import JsonObject
from dragoman.logs import Redaction
from dragoman.permissions.urls import Url, UrlError
from dragoman.process import Ledger
from dragoman.tools.builtin.page import page_text
from dragoman.tools.schema import SchemaError, check_schema
from fuzz.targets import TARGETS

# Around the limit of Python's own stack, which C code counts against as well: what is read at one depth of the stack
# may be too deep at the next.
_DEPTHS = [*range(940, 1_010), 3_000, 100_000]


def _nested(depth: int, inside: bytes = b"") -> bytes:
    return b"[" * depth + inside + b"]" * depth


@pytest.mark.parametrize("text", [b'{"a":"\xff"}', b'{"\xff":1}', b'{"a":' + _nested(3_000) + b"}"])
def test_what_is_no_json_is_no_accident(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        Decoder(dict).decode(text)


@pytest.mark.parametrize("field", [b"error", b"result", b"params"])
def test_a_line_is_read_or_malformed_however_deep_it_is_nested(field: bytes) -> None:
    for depth in _DEPTHS:
        parse(b'{"id":1,"%s":%s}' % (field, _nested(depth)))
        parse(b'{"id":1,"x":"\\ud83d","%s":%s}' % (field, _nested(depth)))
    assert isinstance(parse(b'{"id":1,"error":' + _nested(100_000) + b"}"), Malformed)


def test_half_a_character_is_mended_however_deep_it_lies() -> None:
    assert encode(msgspec.Raw(_nested(600, b'"\\ud83d"'))) == _nested(600, b'"\\ufffd"')


@pytest.mark.parametrize(
    "events",
    [
        # Without digests, and with places that no history has.
        b'[[1,{"type":"conversation_imported","keys":[""],"replies":[]}]]',
        b'[[1,{"type":"conversation_imported","keys":[],"replies":[[1,1,0,1,"complete"]]}]]',
        (
            b'[[1,{"type":"request_received","number":1,"turn":1,"kind":"fresh","evidence":"none","reason":"","digest":"",'
            b'"keys":[""]}]]'
        ),
        (
            b'[[1,{"type":"request_received","number":1,"turn":1,"kind":"fresh","evidence":"none","reason":"","digest":"",'
            b'"keeps":-1}]]'
        ),
    ],
)
def test_events_that_do_not_fit_together_are_refused(events: bytes) -> None:
    with pytest.raises(UnreadableJournal):
        ConversationFold("c").apply_all(event for _, event in decode_events(events))


@pytest.mark.parametrize(
    "snapshot",
    [
        # A model that is no text, and a reply beyond the history.
        b"\x9b\x01\xa1\xff\x90\xa0\xc0\x90\x90\x90\xc0\xc0\x00",
        b"\x9b\x01\xa1m\x90\xa0\xc0\x90\x91\x95\x01\x01\x00\x01\xa8complete\x90\xc0\xc0\x00",
        b"\x9b\x01\xa1m\x90\xa0\xc0\x91\xc4\x00\x90\x90\xc0\xc0\x00",
    ],
)
def test_a_snapshot_that_is_damaged_is_ignored(snapshot: bytes) -> None:
    with TARGETS["stored_journals"]() as check:
        check(b"1" + snapshot)


@pytest.mark.parametrize(
    "row", [b"\x80 2026-01-01T00:00:00+00:00\n{}", b"title yesterday\n{}", b"t 0001-01-01T00:00:00"]
)
def test_one_row_of_0_1_that_cannot_be_read_does_not_keep_the_database_closed(row: bytes) -> None:
    with TARGETS["stored_conversations"]() as check:
        check(row)


@pytest.mark.parametrize("data", [b'{"version":"\xff"}', b'{"version":"1","x":' + _nested(3_000) + b"}"])
def test_a_registry_that_cannot_be_read_is_told_as_such(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(CatalogueError):
        read_registry(data, "registry.json")
    (tmp_path / REFRESHED).write_bytes(data)
    assert catalogue(tmp_path) == shipped()


def test_an_agent_that_cannot_be_read_does_not_spoil_the_others() -> None:
    good = b'{"id":"a","name":"A","version":"1.0.0","description":""}'
    data = b'{"version":"1","agents":[{"id":"\xff"},' + good + b"]}"
    assert [entry.id for entry in read_registry(data, "registry.json")] == ["a"]


@pytest.mark.parametrize("data", [b'{"command":["\xff"]}', b'{"x":' + _nested(3_000) + b"}"])
def test_a_small_file_that_is_spoilt_counts_as_none(tmp_path: Path, data: bytes) -> None:
    version = tmp_path / "agents" / "goose" / "1.0.0"
    version.mkdir(parents=True)
    (version.parent / "current").symlink_to(version.name)
    (version / "installation.json").write_bytes(data)
    assert InstalledAgents(tmp_path).all() == {}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "7.json").write_bytes(data)
    assert Ledger(tmp_path / "run").entries() == []


def test_a_trace_that_is_nested_too_deeply_is_no_trace() -> None:
    with pytest.raises(TraceError):
        parse_trace(b'{"message":' + _nested(3_000) + b"}\n")


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//]"])
def test_an_origin_that_is_no_address_is_a_foreign_one(origin: str) -> None:
    with pytest.raises(ApiError) as refused:
        AccessCheck().check_host_and_origin({"host": "localhost", "origin": origin})
    assert refused.value.code == "forbidden_origin"


def test_a_query_that_is_no_text_is_no_accident() -> None:
    with TARGETS["http_requests"]() as check:
        check(b"GET /v1/nothing?\x97\nhost: localhost\n\n")


@pytest.mark.parametrize("schema", [{"$schema": "http://["}, {"$id": "http://[", "$ref": "#/a"}])
def test_a_schema_whose_address_is_none_is_no_schema(schema: JsonObject) -> None:
    with pytest.raises(SchemaError):
        check_schema(schema)


def test_a_file_is_read_however_many_lines_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    asked = ReadTextFile("s", str(tmp_path / "a"), line=2, limit=2**64)
    _, text = read_text((str(tmp_path),), asked.path)
    assert wanted_lines(text, asked) == "two\n"


def test_a_message_with_an_address_that_is_none_is_cleaned() -> None:
    servers = [{"url": "http://[/0123456789abcdef", "headers": [{"name": "A", "value": "Bearer 123456"}]}]
    cleaned = Cleaning(Redaction()).message({"params": {"mcpServers": servers}})
    assert "0123456789abcdef" not in str(cleaned)


def test_a_page_with_a_section_that_is_none_is_read() -> None:
    assert page_text("<p>one <![odd[ x]]> two <![<", "https://example.com/") == "one  two <![<"


def test_an_address_is_as_long_as_it_is_when_it_is_fetched() -> None:
    with pytest.raises(UrlError, match="at most 8,192"):
        Url.parse("https://example.com/" + "[" * 3_000)


@pytest.mark.parametrize(
    "header", [f"Mon, 01 Jan {'9' * 20} 00:00:00", "Mon, 01 Jan 2020 00:00:00 +9999999999999"]
)
def test_a_date_beyond_all_calendars_is_none(header: str) -> None:
    assert retry_after_seconds(header, datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_a_pause_of_hundreds_of_digits_is_none() -> None:
    assert retry_after_seconds("9" * 400) is None
    assert retry_after_seconds("9" * 20) == float("9" * 20)
