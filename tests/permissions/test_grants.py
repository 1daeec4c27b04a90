"""An approval is proved by a token that was made for it, and used once."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dragoman.permissions.action import PERMISSION_TOOLS, Action, RiskClass
from dragoman.permissions.grants import GRANT_PREFIX, Grants, PendingPermission

EXECUTE = PERMISSION_TOOLS["execute"]


def pending(call_id: str = "dg_1", risk: RiskClass = "execute") -> PendingPermission:
    return PendingPermission(
        call_id,
        Action(agent="a", agent_name="Agent", risk=risk, kind=risk, title="Do it", folder="/w"),
        "conversation",
    )


def approved(grants: Grants, call_id: str = "dg_1") -> str:
    token = grants.issue(grants.open(pending(call_id)), EXECUTE)
    assert token is not None
    assert token.startswith(GRANT_PREFIX)
    return token


def test_p1_the_token_in_the_result_of_its_call_grants_once() -> None:
    grants = Grants()
    token = approved(grants)
    assert grants.redeem("dg_1", token)
    assert not grants.redeem("dg_1", token)
    assert len(grants) == 0


@pytest.mark.parametrize(
    "form", ["{}", "  {}\n", "Hook says: {}.", '{{"result": "{}"}}', "<b>{}</b>", "a\n\n{}\n\nb"]
)
def test_p1_text_that_hooks_put_around_it_is_tolerated(form: str) -> None:
    grants = Grants()
    assert grants.redeem("dg_1", form.format(approved(grants)))


@pytest.mark.parametrize(
    "text",
    [
        "The user chose to skip the tool call, they want to proceed without running it",
        "Autopilot skipped this tool call because it was automatically assessed as high-risk: rm",
        "The tool executed but the user chose not to share the results",
        "ERROR while calling tool: no",
        "The user cancelled the tool call.",
        "proceed",
        "allowed",
        GRANT_PREFIX,
        "",
    ],
)
def test_p2_p3_any_other_result_is_a_refusal(text: str) -> None:
    grants = Grants()
    approved(grants)
    assert not grants.redeem("dg_1", text)
    # And the person has decided: it cannot be tried again.
    assert len(grants) == 0


@given(st.integers(1, 40), st.booleans())
def test_p3_a_truncated_token_is_a_refusal(cut: int, at_the_end: bool) -> None:  # noqa: FBT001
    grants = Grants()
    token = approved(grants)
    assert not grants.redeem("dg_1", token[:-cut] if at_the_end else token[cut:])


@pytest.mark.parametrize("form", ["x{}", "{}x", "{}_", "{}{}", "-{}"])
def test_p3_a_token_within_a_longer_word_is_a_refusal(form: str) -> None:
    grants = Grants()
    token = approved(grants)
    assert not grants.redeem("dg_1", form.format(token, token))


def test_p3_a_token_of_another_call_is_a_refusal() -> None:
    grants = Grants()
    first, second = approved(grants, "dg_1"), approved(grants, "dg_2")
    assert not grants.redeem("dg_1", second)
    assert not grants.redeem("dg_2", first)


def test_p3_nobody_approved() -> None:
    grants = Grants()
    nonce = grants.open(pending())
    assert not grants.redeem("dg_1", nonce)
    assert not grants.redeem("dg_2", "x")


def test_p3_approved_anew_the_first_token_is_stale() -> None:
    grants = Grants()
    nonce = grants.open(pending())
    first, second = grants.issue(nonce, EXECUTE), grants.issue(nonce, EXECUTE)
    assert first != second
    assert not grants.redeem("dg_1", str(first))
    nonce = grants.open(pending())
    grants.issue(nonce, EXECUTE)
    assert grants.redeem("dg_1", str(grants.issue(nonce, EXECUTE)))


@pytest.mark.parametrize("nonce", ["", "guessed", None, 7, ["x"], {"a": 1}])
def test_p3_an_edited_input_selects_nothing(nonce: object) -> None:
    grants = Grants()
    grants.open(pending())
    assert grants.issue(nonce, EXECUTE) is None
    assert grants.pending(nonce) is None


@pytest.mark.parametrize(
    "tool", [name for name in PERMISSION_TOOLS.values() if name != EXECUTE] + ["look", ""]
)
def test_p3_the_tool_of_another_class_grants_nothing(tool: str) -> None:
    """An editor's approval of reading for a whole session is none of executing."""
    grants = Grants()
    assert grants.issue(grants.open(pending()), tool) is None


def test_p24_closed_is_closed() -> None:
    grants = Grants()
    nonce = grants.open(pending())
    token = str(grants.issue(nonce, EXECUTE))
    grants.close("dg_1")
    grants.close("dg_1")
    assert grants.issue(nonce, EXECUTE) is None
    assert grants.pending(nonce) is None
    assert not grants.redeem("dg_1", token)
    assert grants.of_call("dg_1") is None


def test_a_nonce_selects_what_waits() -> None:
    grants = Grants()
    one, two = pending("dg_1"), pending("dg_2", "read")
    first, second = grants.open(one), grants.open(two)
    assert (grants.pending(first), grants.pending(second)) == (one, two)
    assert len(grants) == 2


def test_a_call_selects_what_waits_under_it() -> None:
    grants = Grants()
    one = pending("dg_1")
    nonce = grants.open(one)
    grants.open(pending("dg_2"))
    assert grants.of_call("dg_1") == (nonce, one)
    assert grants.of_call("dg_3") is None
    # Once decided it is no longer selected, and waits until it is answered.
    assert not grants.redeem("dg_1", "no proof")
    assert (grants.of_call("dg_1"), grants.waiting("dg_1"), grants.waiting("dg_3")) == (None, one, None)


def test_tokens_and_nonces_are_never_the_same_twice() -> None:
    grants = Grants()
    nonces = [grants.open(pending(f"dg_{number}")) for number in range(200)]
    tokens = [grants.issue(nonce, EXECUTE) for nonce in nonces]
    assert len({*nonces, *tokens}) == 400


def test_what_waits_in_a_conversation_is_listed_until_it_is_closed() -> None:
    grants = Grants()
    token = approved(grants)
    assert grants.of_conversation("another") == ()
    assert grants.of_conversation("conversation") == (pending(),)
    # Redeemed, it is decided; it stays until its request is answered.
    assert grants.redeem("dg_1", token)
    assert grants.of_call("dg_1") is None
    assert grants.of_conversation("conversation") == (pending(),)
    assert grants.close("dg_1") == pending()
    assert grants.of_conversation("conversation") == ()
    assert grants.close("dg_1") is None


def test_p1_only_a_request_that_was_shown_as_an_item_is_one() -> None:
    grants = Grants()
    nonce = grants.open(pending("dg_1"))
    grants.open(pending("dg_2"))
    for other in ("made up", None):
        grants.show_as_item(other)
    assert not grants.is_item("dg_1")
    grants.show_as_item(nonce)
    assert [grants.is_item(call_id) for call_id in ("dg_1", "dg_2", "dg_3")] == [True, False, False]


def test_n6_a_copy_is_approved_like_a_request_of_this_process() -> None:
    """What it proves is proved here. The node that has the request issues a grant of its own."""
    owner, copies = Grants(), Grants()
    nonce = owner.open(pending())
    copies.mirror(pending(), nonce)
    token = copies.issue(nonce, EXECUTE)
    assert token is not None
    # A message that comes twice changes nothing.
    copies.mirror(pending(), nonce)
    copies.mirror(pending(), "another nonce")
    assert not owner.redeem("dg_1", token)
    assert [copies.redeem("dg_1", token) for _ in range(2)] == [True, False]
    assert copies.close("dg_1") is not None
    copies.mirror(pending(), nonce, is_item=True)
    assert copies.is_item("dg_1")


def test_who_wants_to_know_learns_once_that_a_client_has_an_item() -> None:
    grants = Grants()
    nonce = grants.open(pending())
    shown: list[str] = []
    grants.on_item = shown.append
    for _ in range(2):
        grants.show_as_item(nonce)
    grants.show_as_item("unknown")
    assert shown == ["dg_1"]
