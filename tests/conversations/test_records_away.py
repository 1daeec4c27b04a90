"""Records that are not in memory: found all the same, and asked for."""

import pytest

from agent.timeline import Timeline
from dragoman.conversations.history import NormalAnswer, NormalHistory, NormalPrompt, chain, item_key
from dragoman.conversations.records import ConversationRecord, RecordNotLoaded, Records, Scope

_SCOPE = Scope("model", ("/folder",))


def _telling(*texts: str) -> NormalHistory:
    items = tuple(
        NormalPrompt(text) if place % 2 == 0 else NormalAnswer(text, ()) for place, text in enumerate(texts)
    )
    keys = tuple(map(item_key, items))
    return NormalHistory(items=items, keys=keys, links=tuple(chain(keys)))


def _record(id_: str, *texts: str, consumer_id: str | None = None) -> ConversationRecord:
    """One that was told all but the last, and said that."""
    *told, answer = texts
    timeline = Timeline(id_, _SCOPE, consumer_id)
    timeline.request(_telling(*told))
    return timeline.end(NormalAnswer(answer, ()))


@pytest.fixture
def records() -> Records:
    records = Records()
    records.put(_record("away", "a question", "its answer", consumer_id=None))
    records.put_away("away")
    records.put(_record("here", "another question", "another answer"))
    return records


def test_what_is_away_is_asked_for_by_every_way_to_find_it(records: Records) -> None:
    records.put(_record("theirs", "a third", "answer", consumer_id="an id"))
    records.put_away("theirs")
    with pytest.raises(RecordNotLoaded) as by_name:
        records.get("away", _SCOPE)
    with pytest.raises(RecordNotLoaded) as by_words:
        records.beginning_like(_SCOPE, None, _telling("a question", "its answer", "more"))
    with pytest.raises(RecordNotLoaded) as by_consumer:
        records.with_consumer_id(_SCOPE, "an id")
    asked = [caught.value.conversation for caught in (by_name, by_words, by_consumer)]
    assert asked == ["away", "away", "theirs"]


def test_nobody_asks_for_what_cannot_be_meant(records: Records) -> None:
    assert records.get("away", Scope("model", ("/elsewhere",))) is None
    assert records.get("unknown", _SCOPE) is None
    assert records.beginning_like(_SCOPE, "an id", _telling("a question")) == (0, ())
    length, found = records.beginning_like(
        _SCOPE, None, _telling("another question", "another answer", "more")
    )
    assert (length, [record.id for record in found]) == (2, ["here"])


def test_what_is_brought_back_is_found_and_what_is_gone_is_not(records: Records) -> None:
    back = _record("away", "a question", "its answer")
    records.put(back)
    assert records.get("away", _SCOPE) == back
    records.put_away("away")
    records.remove("away")
    assert records.get("away", _SCOPE) is None
    assert records.beginning_like(_SCOPE, None, _telling("a question", "its answer")) == (0, ())
    assert len(records) == 1
    # Nothing of it is left behind.
    only = Records()
    only.put(_record("here", "another question", "another answer"))
    assert records._prefixes._shelves == only._prefixes._shelves
