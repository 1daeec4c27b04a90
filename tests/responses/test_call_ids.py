"""Call ids: legal and never twice towards the consumer, the endpoint's own towards the endpoint."""

import itertools

import pytest
from hypothesis import given, strategies as st

from dragoman.backends.responses.call_ids import CallIds, wire_ids
from dragoman.lm.rules import CALL_ID, CALL_ID_LIMIT, NAMESPACE


def _is_legal(call_id: str) -> bool:
    return (
        len(call_id) <= CALL_ID_LIMIT
        and CALL_ID.fullmatch(call_id) is not None
        and call_id.startswith(NAMESPACE)
        and "__vscode" not in call_id
    )


_WIRE = st.one_of(
    st.text(max_size=80),
    st.from_regex(r"call_[A-Za-z0-9]{24}", fullmatch=True),
    st.sampled_from(["0", "call_0", "x" * 51, "x" * 52, "a__vscode-1", "chatcmpl-tool-" + "f" * 32]),
)


@pytest.mark.long
@given(st.lists(_WIRE, max_size=10))
def test_r4_every_id_is_legal_leads_back_and_never_comes_twice(originals: list[str]) -> None:
    ids = CallIds()
    issued = [ids.issue(original) for original in originals]
    assert all(map(_is_legal, issued))
    assert len(set(issued)) == len(issued)
    assert [ids.original(each) for each in issued] == originals


def test_r4_an_id_that_fits_needs_no_memory() -> None:
    assert CallIds().original(CallIds().issue("call_abc")) == "call_abc"


def test_r4_one_that_does_not_fit_is_remembered_for_a_while() -> None:
    tags = (f"{number:08}".translate(str.maketrans("0189", "abcd")) for number in itertools.count())
    ids = CallIds(lambda: next(tags))
    first = ids.issue("x" * 100)
    assert ids.original(first) == "x" * 100
    for _ in range(4_096):
        ids.issue("y" * 100)
    assert ids.original(first) is None
    assert wire_ids([first], ids.original) == {first: first}


@given(st.lists(st.one_of(st.text(max_size=70), st.sampled_from(["a", "call_1"])), max_size=8), st.data())
def test_r4_a_history_is_sent_with_legal_ids_no_two_alike(call_ids: list[str], data: st.DataObject) -> None:
    originals = {each: data.draw(st.sampled_from([None, "call_1", "call_2"])) for each in call_ids}
    sent = wire_ids(call_ids, originals.get)
    assert len(set(sent.values())) == len(sent)
    assert all(1 <= len(each) <= CALL_ID_LIMIT and CALL_ID.fullmatch(each) for each in sent.values())
    for length in range(len(call_ids)):
        # As it grows, its beginning stays as it was.
        assert wire_ids(call_ids[:length], originals.get).items() <= sent.items()


def test_r4_ids_that_an_endpoint_gives_twice_are_kept_apart() -> None:
    ids = CallIds()
    one, two = ids.issue("call_0"), ids.issue("call_0")
    sent = wire_ids([one, two], ids.original)
    assert sent[one] == "call_0"
    assert sent[two] == two
