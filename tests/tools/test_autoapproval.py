import msgspec
import pytest

from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.urls import UrlPatternError

_GOOD = "https://good.example/page"
_OTHER = "https://other.example/page"


class TestP19Settings:
    def test_by_default_nothing_is_covered(self) -> None:
        auto = AutoApproval()
        assert auto.covers("run") is None
        assert auto.covers("fetch", (_GOOD,)) is None
        assert not auto.must_ask("run")

    def test_all_covers_every_tool(self) -> None:
        auto = AutoApproval(all=True)
        assert auto.covers("run") == "auto-approved"
        assert auto.covers("fetch", (_OTHER, "no address")) == "auto-approved"

    def test_a_tool_that_is_not_eligible_is_asked_even_when_all_is_approved(self) -> None:
        auto = AutoApproval(all=True, eligible={"run": False, "walk": True}, urls={"https://*": True})
        assert auto.must_ask("run")
        assert auto.covers("run") is None
        assert auto.covers("run", (_GOOD,)) is None
        assert auto.covers("walk") == "auto-approved"

    def test_eligible_alone_approves_nothing(self) -> None:
        auto = AutoApproval(eligible={"run": True})
        assert auto.covers("run") is None
        assert not auto.must_ask("run")

    def test_an_address_is_covered_by_its_pattern(self) -> None:
        auto = AutoApproval(urls={"https://good.example/*": True})
        assert auto.covers("fetch", (_GOOD,)) == "auto-approved address"
        assert auto.covers("fetch", (_OTHER,)) is None

    def test_a_tool_without_addresses_is_not_covered_by_patterns(self) -> None:
        assert AutoApproval(urls={"*://*/*": True}).covers("run") is None

    def test_every_address_must_be_covered(self) -> None:
        auto = AutoApproval(urls={"https://good.example/*": True})
        assert auto.covers("fetch", (_GOOD, _GOOD)) is not None
        assert auto.covers("fetch", (_GOOD, _OTHER)) is None

    @pytest.mark.parametrize("address", ["", "no address", "ftp://good.example/", "https://me@good.example/"])
    def test_what_is_no_address_is_not_covered(self, address: str) -> None:
        assert AutoApproval(urls={"*://*:*/*": True}).covers("fetch", (address,)) is None


class TestP19Specificity:
    @pytest.mark.parametrize(
        ("urls", "covered"),
        [
            ({"https://good.example/*": True, "https://good.example/page": False}, False),
            ({"https://good.example/*": False, "https://good.example/page": True}, True),
            ({"https://*.example/*": True, "https://good.example/*": False}, False),
            ({"https://*.example/*": False, "https://good.example/*": True}, True),
            ({"https://*/*": False, "https://*.example/*": True}, True),
            ({"https://*/page": True, "https://good.example/*": False}, False),
            ({"*://good.example/*": True, "https://good.example/*": False}, False),
            ({"https://good.example:*/*": True, "https://good.example/*": False}, False),
            ({"https://good.example/*": True, "https://good.example/other": False}, True),
            ({"https://good.example/pag*": True, "https://good.example/*ge": False}, True),
        ],
    )
    def test_the_most_specific_pattern_decides(self, urls: dict[str, bool], *, covered: bool) -> None:
        for order in (urls, dict(reversed(urls.items()))):
            assert (AutoApproval(urls=order).covers("fetch", (_GOOD,)) is not None) is covered

    def test_of_two_that_are_equally_specific_no_wins(self) -> None:
        for urls in (
            {"https://good.example/p*": True, "https://good.example/*e": False},
            {"https://good.example/p*": False, "https://good.example/*e": True},
        ):
            auto = AutoApproval(urls=urls)
            assert auto.covers("fetch", ("https://good.example/page",)) is None

    @pytest.mark.parametrize(
        "written",
        [
            "https://good.example/private/x",
            "https://GOOD.example./%70rivate/x",
            "https://good.example/a/../private/x",
            "https://good.example//private/x",
            "https://good.example/a/%2e%2E/private/x",
            "https://good.example/private%2fx",
            "https://good.example/a/..%2fprivate/x",
            "https://good.example/a/..;/private/x",
            "https://good.example/%2570rivate/x",
            "https://good.example/\\private\\x",
        ],
    )
    def test_no_spelling_gets_around_a_no(self, written: str) -> None:
        auto = AutoApproval(urls={"https://good.example/*": True, "https://good.example/private/*": False})
        assert auto.covers("fetch", (written,)) is None
        assert auto.covers("fetch", (_GOOD,)) is not None


class TestReading:
    def test_a_pattern_that_is_none_is_refused_when_the_settings_are_read(self) -> None:
        with pytest.raises(UrlPatternError, match=r"'good\.example' is no pattern"):
            AutoApproval(urls={"good.example": True})
        with pytest.raises(msgspec.ValidationError, match=r"'good\.example' is no pattern"):
            msgspec.convert({"urls": {"good.example": True}}, AutoApproval)

    def test_from_configuration(self) -> None:
        auto = msgspec.convert({"all": True, "eligible": {"run": False}}, AutoApproval)
        assert auto == AutoApproval(all=True, eligible={"run": False})

    def test_a_refused_address_is_covered_by_no_setting(self) -> None:
        for auto in (
            AutoApproval(all=True, refused=("https://*.example",)),
            AutoApproval(urls={"https://good.example/a/b": True}, refused=("*://good.example/*",)),
        ):
            assert auto.covers("fetch", ("https://good.example/a/b",)) is None
            assert auto.covers("fetch", ("no address",)) is None
        assert AutoApproval(all=True, refused=("https://bad.example",)).covers("fetch", (_GOOD,)) is not None
        with pytest.raises(UrlPatternError):
            AutoApproval(refused=("good.example",))
