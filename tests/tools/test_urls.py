import ipaddress
import posixpath
from urllib.parse import quote, urlsplit

import httpx2
import pytest
from hypothesis import assume, example, given, strategies as st

from dragoman.permissions.urls import (
    MAX_URL_LENGTH,
    Url,
    UrlError,
    UrlPattern,
    UrlPatternError,
    is_local_address,
)


def _matches(pattern: str, address: str) -> bool:
    try:
        return UrlPattern.parse(pattern).matches(Url.parse(address))
    except UrlError:
        return False


class TestParsing:
    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("https://good.example", "https://good.example/"),
            ("HTTPS://GOOD.Example./", "https://good.example/"),
            ("  https://good.example/a  ", "https://good.example/a"),
            ("https://good.example:443/", "https://good.example/"),
            ("https://good.example:/", "https://good.example/"),
            ("http://good.example:80", "http://good.example/"),
            ("http://good.example:443/", "http://good.example:443/"),
            ("https://good.example:0443/", "https://good.example/"),
            ("https://good.example/a/./b/../c", "https://good.example/a/c"),
            ("https://good.example/../../a", "https://good.example/a"),
            ("https://good.example/a/..", "https://good.example/"),
            ("https://good.example/a/.", "https://good.example/a/"),
            ("https://good.example/a/%2e%2E/b", "https://good.example/b"),
            ("https://good.example/a/.%2e/b", "https://good.example/b"),
            ("https://good.example/a\\..\\b", "https://good.example/b"),
            ("https://good.example/a\tb\r\nc", "https://good.example/abc"),
            ("https://good.example/a/.\t./b", "https://good.example/b"),
            ("https://good.example/a b<>\x01", "https://good.example/a%20b%3C%3E%01"),
            ("https://good.example/é", "https://good.example/%C3%A9"),
            ("https://good.example/a//b", "https://good.example/a//b"),
            ("https://good.example/%2f", "https://good.example/%2f"),
            ("https://good.example?q=1#top", "https://good.example/?q=1"),
            ("https://good.example/a?b/../c?d", "https://good.example/a?b/../c?d"),
            ("https://good.example/?q=é \n\\", "https://good.example/?q=%C3%A9%20%5C"),
            ("https://good.example/?", "https://good.example/?"),
            ("https://good.example/#a?b", "https://good.example/"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
            ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
            ("https://XN--BCHER-KVA.example/", "https://xn--bcher-kva.example/"),
            ("https://good。example/", "https://good.example/"),
            ("http://①②⑦.0.0.1/", "http://127.0.0.1/"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/"),
            ("http://127.0.0.1./", "http://127.0.0.1/"),
            ("http://[::1]:8080/", "http://[::1]:8080/"),
            ("http://[0:0::0:1]/", "http://[::1]/"),
            ("http://[::FFFF:127.0.0.1]/", f"http://[{ipaddress.ip_address('::ffff:127.0.0.1')}]/"),
            ("http://my_host/", "http://my_host/"),
        ],
    )
    def test_one_address_has_one_form(self, written: str, meant: str) -> None:
        assert str(Url.parse(written)) == meant
        assert str(Url.parse(meant)) == meant

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("", "no full address"),
            ("good.example", "no full address"),
            ("//good.example/", "no full address"),
            ("https:/good.example/", "no full address"),
            ("https:good.example", "no full address"),
            ("ftp://good.example/", "neither http nor https"),
            ("file:///etc/passwd", "neither http nor https"),
            ("java\tscript://good.example/", "neither http nor https"),
            ("ht\ntp://good.example/", "neither http nor https"),
            ("https://", "no host name"),
            ("https:///path", "no host name"),
            ("https://me@good.example/", "user name"),
            ("https://me:secret@good.example/", "user name"),
            ("https://good.example@evil.example/", "user name"),
            ("https://good.example%2f@evil.example/", "user name"),
            ("https://good.example\\@evil.example/", "user name"),
            ("https://good.example\\evil/", "no host name"),
            ("https://good\t.example/", "no host name"),
            ("https://good .example/", "no host name"),
            ("https://good%2eexample/", "no host name"),
            ("https://good..example/", "no host name"),
            ("https://good.example../", "no host name"),
            ("https://.good.example/", "no host name"),
            ("https://-good.example/", "no host name"),
            ("https://*.example/", "no host name"),
            ("https://a" + "a" * 63 + ".example/", "no host name"),
            ("https://" + "a." * 127 + "example/", "no host name"),
            ("https://\u202egood.example/", "no host name"),
            ("https://good.example:x/", "no host and port"),
            ("https://good.example:80:80/", "no host and port"),
            ("https://good.example:-1/", "no host and port"),
            ("https://good.example:*/", "not a number"),
            ("https://good.example:0/", "no port"),
            ("https://good.example:65536/", "no port"),
            ("https://good.example:" + "9" * 5000 + "/", "no port"),
            ("https://[::1/", "no host and port"),
            ("https://::1/", "no host and port"),
            ("https://[]/", "no IPv6 address"),
            ("https://[good.example]/", "no IPv6 address"),
            ("https://[fe80::1%eth0]/", "no IPv6 address"),
            ("https://127.1/", "no IPv4 address"),
            ("https://2130706433/", "no IPv4 address"),
            ("https://0x7f.0.0.1/", "no IPv4 address"),
            ("https://0x7f000001/", "no IPv4 address"),
            ("https://0177.0.0.1/", "no IPv4 address"),
            ("https://1.2.3.4.5/", "no IPv4 address"),
            ("https://good.example/\ud800", "cannot be written"),
            ("https://good.example/?\ud800", "cannot be written"),
            ("https://good.example/" + "a" * MAX_URL_LENGTH, "at most 8,192"),
        ],
    )
    def test_what_is_no_address(self, text: str, why: str) -> None:
        with pytest.raises(UrlError, match=why):
            Url.parse(text)

    @given(st.text(max_size=60), st.sampled_from(["https://good.example", "http://[::1]:81", "https://"]))
    @example("good.example\\@evil.example/", "https://")
    @example("/a%", "https://good.example")
    def test_what_is_judged_is_what_is_fetched(self, text: str, start: str) -> None:
        try:
            url = Url.parse(start + text)
        except UrlError:
            return
        assert Url.parse(str(url)) == url
        sent = httpx2.URL(str(url))
        assert (sent.scheme, sent.raw_host.decode(), sent.port or url.port) == (
            url.scheme,
            url.host,
            url.port,
        )
        assert sent.raw_path.decode().partition("?")[0] == url.path
        assert urlsplit(str(url)).hostname == url.host


class TestLocality:
    @pytest.mark.parametrize(
        "host",
        [
            "localhost",
            "api.localhost",
            "printer",
            "printer.local",
            "db.internal",
            "wiki.corp",
            "nas.home.arpa",
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "172.16.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",  # noqa: S104 - an address to refuse, not to bind to
            "255.255.255.255",
            "224.0.0.1",
            "[::]",
            "[::1]",
            "[fe80::1]",
            "[fc00::1]",
            "[ff02::1]",
            "[::ffff:8.8.8.8]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "[2001:0:1::]",
        ],
    )
    def test_hosts_of_this_machine_or_network(self, host: str) -> None:
        assert Url.parse(f"http://{host}/").is_local
        assert not _matches("*://*:*/*", f"http://{host}/")
        assert _matches(f"http://{host}/*", f"http://{host}/")

    @pytest.mark.parametrize("host", ["good.example", "8.8.8.8", "[2606:4700::1111]", "localhost.example"])
    def test_hosts_of_the_internet(self, host: str) -> None:
        assert not Url.parse(f"http://{host}/").is_local
        assert _matches("*://*:*/*", f"http://{host}/")

    def test_a_wildcard_below_a_local_name_does_not_cover_it(self) -> None:
        assert not _matches("http://*.internal/*", "http://db.internal/")
        assert _matches("http://db.internal/*", "http://db.internal/")

    def test_addresses(self) -> None:
        assert is_local_address(ipaddress.ip_address("127.0.0.1"))
        assert not is_local_address(ipaddress.ip_address("8.8.8.8"))


class TestMatching:
    @pytest.mark.parametrize(
        ("pattern", "address"),
        [
            ("https://good.example/*", "https://good.example/"),
            ("https://good.example/*", "https://good.example"),
            ("https://good.example/*", "https://good.example/a/b?q#f"),
            ("https://good.example/*", "https://GOOD.EXAMPLE./a"),
            ("https://GOOD.example./*", "https://good.example:443/a"),
            ("https://good.example", "https://good.example/any/path"),
            ("https://good.example/", "https://good.example"),
            ("https://good.example:8443/*", "https://good.example:8443/"),
            ("https://good.example:*/*", "https://good.example:8443/"),
            ("https://good.example:*", "https://good.example/"),
            ("*://good.example/*", "http://good.example/"),
            ("*://good.example/*", "https://good.example/"),
            ("https://*.good.example/*", "https://www.good.example/"),
            ("https://*.good.example/*", "https://a.b.good.example/"),
            ("https://*/*", "https://good.example/"),
            ("https://bücher.example/*", "https://xn--bcher-kva.example/"),
            ("https://*.bücher.example/*", "https://a.xn--bcher-kva.example/"),
            ("http://[::1]:8080/*", "http://[0:0::1]:8080/x"),
            ("http://localhost:*/*", "http://localhost:3000/x"),
            ("https://good.example/docs/*", "https://good.example/docs/"),
            ("https://good.example/docs/*", "https://good.example/x/../docs/a"),
            ("https://good.example/docs/*", "https://good.example//docs//a"),
            ("https://good.example/docs/*", "https://good.example/%64ocs/a"),
            ("https://good.example/%64ocs/*", "https://good.example/docs/a"),
            ("https://good.example/a b/é", "https://good.example/a%20b/%c3%a9"),
            ("https://good.example/a!/*", "https://good.example/a%21/b"),
            ("https://good.example/a%2Ab", "https://good.example/a*b"),
            ("https://good.example/*/b", "https://good.example/a/b"),
            ("https://good.example/*/b", "https://good.example/a/a/b"),
            ("https://good.example/a*b*c", "https://good.example/abbc"),
            ("https://good.example/*.md", "https://good.example/a/b.md"),
            ("https://good.example/**", "https://good.example/"),
        ],
    )
    def test_a_match(self, pattern: str, address: str) -> None:
        assert _matches(pattern, address)

    @pytest.mark.parametrize(
        ("pattern", "address"),
        [
            ("https://good.example/*", "https://good.example.evil.example/"),
            ("https://good.example/*", "https://good.example@evil.example/"),
            ("https://good.example/*", "https://evil.example/https://good.example/"),
            ("https://good.example/*", "https://evil.example/#https://good.example/"),
            ("https://good.example/*", "https://evil.example?https://good.example/"),
            ("https://good.example/*", "https://notgood.example/"),
            ("https://good.example/*", "https://www.good.example/"),
            ("https://good.example/*", "https://good.example:8443/"),
            ("https://good.example:8443/*", "https://good.example/"),
            ("https://good.example/*", "http://good.example/"),
            ("http://good.example/*", "https://good.example/"),
            ("*://good.example/*", "http://good.example:443/"),
            ("https://good.example/*", "https://good.example\\.evil.example/"),
            ("https://good.example/*", "https://good.example\t.evil.example/"),
            ("https://good.example/*", "https://good.example%2eevil.example/"),
            ("https://good.example/*", "https://gооd.example/"),  # Cyrillic
            ("https://*.good.example/*", "https://good.example/"),
            ("https://*.good.example/*", "https://evilgood.example/"),
            ("https://*.good.example/*", "https://good.example.evil.example/"),
            ("https://*/*", "http://good.example/"),
            ("https://*/*", "https://good.example:8443/"),
            ("https://good.example/", "https://good.example/a"),
            ("https://good.example/docs/*", "https://good.example/docs"),
            ("https://good.example/docs/*", "https://good.example/docs/../private"),
            ("https://good.example/docs/*", "https://good.example/docs/%2e%2e/private"),
            ("https://good.example/docs/*", "https://good.example/docs\\..\\private"),
            ("https://good.example/docs/*", "https://good.example/docs/..%2fprivate"),
            ("https://good.example/docs/*", "https://good.example/docs/%2e%2e%5cprivate"),
            ("https://good.example/docs/*", "https://good.example/docs/%252e%252e/private"),
            ("https://good.example/docs/*", "https://good.example/docs/..;/private"),
            ("https://good.example/docs/*", "https://good.example/docs/%2e%2e%3b/private"),
            ("https://good.example/docs/*", "https://good.example/docs/a%00"),
            ("https://good.example/docs/*", "https://good.example/Docs/a"),
            ("https://good.example/a%2Ab", "https://good.example/acb"),
            ("https://good.example/aba*aba", "https://good.example/aba"),
            ("https://good.example/a*b*c", "https://good.example/acb"),
            ("https://good.example/a*bb*b", "https://good.example/abb"),
        ],
    )
    def test_no_match(self, pattern: str, address: str) -> None:
        assert not _matches(pattern, address)

    def test_many_stars_take_no_time_to_speak_of(self) -> None:
        pattern = UrlPattern.parse("https://good.example/" + "*a" * 500 + "*b")
        assert not pattern.matches(Url.parse("https://good.example/" + "a" * 8000))


class TestPatterns:
    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("", "has no scheme"),
            ("good.example/*", "has no scheme"),
            ("*", "has no scheme"),
            ("ftp://good.example/*", "scheme is http"),
            ("htt*://good.example/*", "scheme is http"),
            ("https://good.example/?q=*", "leave them out"),
            ("https://good.example/#*", "leave them out"),
            ("https://me@good.example/*", "user name"),
            ("https://good.*/*", "no host name"),
            ("https://g*d.example/*", "no host name"),
            ("https://*good.example/*", "no host name"),
            ("https://*.*.example/*", "no host name"),
            ("https://*./*", "no host name"),
            ("https:///*", "no host name"),
            ("https://good.example:80*/*", "no host and port"),
            ("https://good.example:99999/*", "no port"),
            ("https://*.1.2.3.4/*", "no names below"),
            ("https://good.example/a/../*", "'..'"),
            ("https://good.example/./*", "'..'"),
            ("https://good.example/%2e%2e/*", "'..'"),
            ("https://good.example/a\\*", "backslash"),
            ("https://good.example/a%2f*", "different servers"),
            ("https://good.example/..;/*", "different servers"),
            ("https://good.example/\ud800*", "cannot be written"),
        ],
    )
    def test_what_is_no_pattern(self, text: str, why: str) -> None:
        with pytest.raises(UrlPatternError, match="Patterns look like 'https://") as caught:
            UrlPattern.parse(text)
        assert why in str(caught.value)


_labels = st.from_regex(r"[a-z]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True).filter(lambda it: it[2:4] != "--")
_hosts = st.lists(_labels, min_size=1, max_size=4).map(".".join)
_names = st.text(min_size=1, max_size=5).filter(lambda name: "*" not in name)
_separators = st.sampled_from(
    [".", "@", "\\", "/", "%2f", "%2e", "?", "#", ":", "\t", "\n", " ", "\0", "。", "[", "%00", ":80", ""]
)


class TestNoOtherHostEverMatches:
    @given(_hosts, _hosts, _separators, st.text(max_size=20))
    def test_whatever_stands_between_the_good_host_and_the_other(
        self, good: str, other: str, between: str, tail: str
    ) -> None:
        pattern = UrlPattern.parse(f"https://{good}/*")
        for text in (f"https://{good}{between}{other}/{tail}", f"https://{other}{between}{good}/{tail}"):
            try:
                url = Url.parse(text)
            except UrlError:
                continue
            if pattern.matches(url):
                # Not only by our own reading of it: the client that is to fetch it must agree.
                assert url.host == good
                assert httpx2.URL(str(url)).raw_host.decode() == good

    @given(_hosts, _hosts, st.sampled_from(["", "*."]))
    def test_a_name_covers_itself_and_a_wildcard_what_is_below(self, one: str, other: str, star: str) -> None:
        is_below = f"{other}.example".endswith(f".{one}.example")
        expected = is_below if star else one == other
        assert _matches(f"https://{star}{one}.example/*", f"https://{other}.example/") == expected

    @given(st.lists(_names, max_size=5), st.lists(st.text(max_size=5), max_size=5))
    def test_a_folder_covers_nothing_outside_itself(self, folder: list[str], rest: list[str]) -> None:
        written = "".join(f"/{quote(name, safe='')}" for name in folder)
        try:
            pattern = UrlPattern.parse(f"https://good.example{written}/*")
            url = Url.parse(f"https://good.example{written}/" + "/".join(rest))
        except ValueError:
            return
        assume(pattern.matches(url))
        reached = posixpath.normpath(httpx2.URL(str(url)).path)
        assert f"{reached}/".startswith("".join(f"/{name}" for name in folder) + "/")
