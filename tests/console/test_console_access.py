"""Who may call the console: the checks of headers, one by one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from starlette.datastructures import Headers

from dragoman.frontends.console.access import COOKIE_SECONDS, ConsoleAccess, is_console_path
from dragoman.frontends.console.sessions import ConsoleRole, ConsoleScope, ConsoleSessions, NewSession
from dragoman.frontends.console.wire import ConsoleError

URL = "https://console.example.org/"
LOCAL = "127.0.0.1:8427"


def of(*pairs: tuple[str, str], **named: str) -> Headers:
    """Headers; those without a name of Python's as pairs, also repeated."""
    given = [*pairs, *((name.replace("_", "-"), value) for name, value in named.items())]
    return Headers(raw=[(name.encode(), value.encode("latin-1")) for name, value in given])


def access(url: str | None = URL) -> ConsoleAccess:
    return ConsoleAccess(ConsoleSessions(), url)


def code_of(check: pytest.ExceptionInfo[ConsoleError]) -> tuple[int, str]:
    return check.value.status, check.value.code


@pytest.mark.parametrize("path", ["/", "/console", "/console/", "/console/api/pair", "/console/page/x.js"])
def test_these_paths_are_the_consoles(path: str) -> None:
    assert is_console_path(path)


@pytest.mark.parametrize("path", ["/v1/models", "/consoles", "/metrics", "", "//", "/v1/console/"])
def test_all_other_paths_have_the_checks_of_the_api(path: str) -> None:
    assert not is_console_path(path)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8427",
        "LOCALHOST:9",
        "127.0.0.1",
        "127.0.0.1:65535",
        "[::1]:8427",
        "console.example.org",
        "Console.Example.org:8443",
    ],
)
def test_a_loopback_name_and_the_host_of_the_url_are_served(host: str) -> None:
    access().check_host(of(host=host))


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "evil.console.example.org",
        "console.example.org.evil.org",
        "localhost.evil.org",
        "127.0.0.1.evil.org",
        "192.168.1.5:8427",
        "0.0.0.0:8427",
        "user@localhost",
        "localhost:0",
        "localhost:99999",
        "localhost:8427/",
        "localhost:",
        "",
    ],
)
def test_any_other_host_is_refused_and_the_sentence_says_what_to_do(host: str) -> None:
    with pytest.raises(ConsoleError) as refused:
        access().check_host(of(host=host))
    assert code_of(refused) == (403, "forbidden_host")
    assert "[console]" in refused.value.message
    assert "https://" in refused.value.message


def test_a_request_without_a_host_or_with_two_is_refused() -> None:
    for headers in (of(), of(("host", LOCAL), ("host", LOCAL))):
        with pytest.raises(ConsoleError):
            access().check_host(headers)


def test_without_a_url_only_loopback_is_served() -> None:
    with pytest.raises(ConsoleError):
        access(None).check_host(of(host="console.example.org"))


def call(method: str = "POST", at: ConsoleAccess | None = None, **headers: str) -> str:
    given = {"x_dragoman_console": "token", "host": LOCAL, **headers}
    return (at or access()).check_call(method, of(**given))


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (LOCAL, f"http://{LOCAL}"),
        ("localhost", "http://localhost"),
        ("[::1]:8427", "http://[::1]:8427"),
        ("console.example.org", "https://console.example.org"),
        # nginx's $host leaves the port out; and a proxy may call the server by its own name.
        ("console.example.org:443", "https://console.example.org"),
        (LOCAL, "https://console.example.org"),
    ],
)
def test_a_change_comes_from_the_consoles_own_origin(host: str, origin: str) -> None:
    assert call(host=host, origin=origin) == "token"


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (LOCAL, "http://127.0.0.1:3000"),
        (LOCAL, "http://localhost:8427"),
        (LOCAL, f"https://{LOCAL}"),
        (LOCAL, "null"),
        (LOCAL, ""),
        (LOCAL, "https://evil.org"),
        ("console.example.org", "http://console.example.org"),
        ("console.example.org", "https://console.example.org:8443"),
        ("console.example.org", "https://console.example.org.evil.org"),
        ("console.example.org", "https://console.example.org/"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_any_other_origin_is_refused_for_every_method(host: str, origin: str, method: str) -> None:
    with pytest.raises(ConsoleError) as refused:
        call(method, host=host, origin=origin)
    assert code_of(refused) == (403, "forbidden_origin")


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH", "anything"])
def test_a_change_without_an_origin_is_refused(method: str) -> None:
    with pytest.raises(ConsoleError) as refused:
        call(method)
    assert code_of(refused) == (403, "forbidden_origin")


def test_reading_needs_no_origin() -> None:
    assert call("GET") == "token"


def test_two_origins_are_refused() -> None:
    origin = ("origin", f"http://{LOCAL}")
    with pytest.raises(ConsoleError):
        access().check_call("POST", of(origin, origin, host=LOCAL, x_dragoman_console="token"))


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Console.Example.ORG", "https://console.example.org"),
        ("https://console.example.org:443/", "https://console.example.org"),
        ("https://console.example.org:8443", "https://console.example.org:8443"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
        ("https://[fd00::1]:8443/", "https://[fd00::1]:8443"),
    ],
)
def test_the_url_is_compared_as_browsers_write_it(url: str, origin: str) -> None:
    host = origin.removeprefix("https://")
    assert call(at=access(url), host=host, origin=origin) == "token"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "anything"])
def test_a_call_that_the_browser_says_is_of_another_site_is_refused(site: str) -> None:
    with pytest.raises(ConsoleError) as refused:
        call(origin=f"http://{LOCAL}", sec_fetch_site=site)
    assert code_of(refused) == (403, "forbidden_origin")


def test_a_call_of_the_same_origin_passes() -> None:
    assert call(origin=f"http://{LOCAL}", sec_fetch_site="same-origin") == "token"


def test_a_call_without_the_header_that_no_form_can_send_is_refused() -> None:
    for given in ((), (("x-dragoman-console", ""),), (("x-dragoman-console", "a"),) * 2):
        with pytest.raises(ConsoleError) as refused:
            access().check_call("GET", of(*given, host=LOCAL))
        assert code_of(refused) == (403, "no_header")


def test_a_link_from_anywhere_leads_to_the_page_but_its_files_are_for_itself() -> None:
    page = access()
    page.check_page(of(host=LOCAL), is_document=True)
    page.check_page(of(host=LOCAL, sec_fetch_site="none", sec_fetch_mode="navigate"), is_document=True)
    page.check_page(of(host=LOCAL, sec_fetch_site="cross-site", sec_fetch_mode="navigate"), is_document=True)
    page.check_page(of(host=LOCAL, sec_fetch_site="same-origin"), is_document=False)
    refused: list[tuple[Mapping[str, str], bool]] = [
        (of(host=LOCAL, sec_fetch_site="cross-site", sec_fetch_mode="cors"), True),
        (of(host=LOCAL, sec_fetch_site="cross-site", sec_fetch_mode="navigate"), False),
        (of(host=LOCAL, sec_fetch_site="same-site"), False),
        (of(host="evil.org"), True),
    ]
    for headers, is_document in refused:
        with pytest.raises(ConsoleError):
            page.check_page(headers, is_document=is_document)


# Sessions.


class Paired:
    """A server with one session, and requests of the browser that has it."""

    def __init__(self, role: ConsoleRole = "decide", host: str = LOCAL, origin: str | None = None) -> None:
        self.access = access()
        self.host = host
        self.origin = origin or f"http://{host}"
        self.new: NewSession = self.access.sessions.new("phone", role, ConsoleScope())
        self.set = self.access.cookie_headers(of(host=host, origin=self.origin), self.new.cookie)
        self.name = next(each.partition("=")[0] for each in self.set if f"={self.new.cookie};" in each)

    def call(self, *cookies: str, token: str | None = None, method: str = "GET", change: bool = False) -> str:
        headers = of(
            *(("cookie", each) for each in cookies or (f"{self.name}={self.new.cookie}",)),
            host=self.host,
            origin=self.origin,
            x_dragoman_console=token or self.new.token,
        )
        return self.access.session(method, headers, change=change).name


def test_cookie_and_token_together_are_the_session() -> None:
    assert Paired().call() == "phone"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_cookie_among_others_is_found(method: str) -> None:
    paired = Paired()
    assert paired.call(f"theme=dark; {paired.name}={paired.new.cookie};x=y", method=method) == "phone"


def test_one_half_of_the_session_is_not_enough() -> None:
    paired = Paired()
    other = paired.access.sessions.new("other", "decide", ConsoleScope())
    for cookies, token in (
        (("theme=dark",), paired.new.token),
        ((f"{paired.name}={paired.new.cookie}",), "wrong"),
        ((f"{paired.name}={paired.new.cookie}",), paired.new.cookie),
        ((f"{paired.name}={paired.new.token}",), paired.new.token),
        # The halves of two sessions.
        ((f"{paired.name}={paired.new.cookie}",), other.token),
    ):
        with pytest.raises(ConsoleError) as refused:
            paired.call(*cookies, token=token)
        assert code_of(refused) == (401, "signed_out")


@pytest.mark.parametrize(
    "cookies",
    [
        ("{name}={value}; {name}=other",),
        ("{name}=other; {name}={value}",),
        ("{name}={value}", "{name}={value}"),
        ("{name}={value}; __Host-dragoman={value}",),
    ],
)
def test_of_several_cookies_none_is_believed(cookies: tuple[str, ...]) -> None:
    paired = Paired()
    sent = [each.format(name=paired.name, value=paired.new.cookie) for each in cookies]
    with pytest.raises(ConsoleError) as refused:
        paired.call(*sent)
    assert code_of(refused) == (401, "signed_out")
    headers = of(
        *(("cookie", each) for each in sent), host=LOCAL, origin=paired.origin, x_dragoman_console="p"
    )
    with pytest.raises(ConsoleError) as told:
        paired.access.check_pairing("POST", headers)
    assert code_of(told) == (409, "many_cookies")


def test_cookies_of_a_server_on_another_port_do_not_matter() -> None:
    paired = Paired()
    own = f"{paired.name}={paired.new.cookie}"
    assert paired.call(f"dragoman-console-8428=other; {own}; dragoman-console=x") == "phone"


def test_a_session_that_ended_is_signed_out() -> None:
    paired = Paired()
    paired.access.sessions.end(paired.new.session.id)
    with pytest.raises(ConsoleError) as refused:
        paired.call()
    assert code_of(refused) == (401, "signed_out")


def test_a_session_that_watches_changes_nothing() -> None:
    paired = Paired("watch")
    assert paired.call(method="POST") == "phone"
    with pytest.raises(ConsoleError) as refused:
        paired.call(method="POST", change=True)
    assert code_of(refused) == (403, "watch_only")


def test_on_this_machine_the_cookie_is_strict_and_not_for_scripts() -> None:
    paired = Paired()
    assert paired.set == [f"dragoman-console-8427={paired.new.cookie}; Path=/; HttpOnly; SameSite=Strict"]


@pytest.mark.parametrize("host", ["console.example.org", LOCAL])
def test_over_tls_the_cookie_is_secure_and_bound_to_the_host(host: str) -> None:
    paired = Paired(host=host, origin="https://console.example.org")
    removed, secure = paired.set
    assert secure == (
        f"__Host-dragoman={paired.new.cookie}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Strict; Secure"
    )
    # A cookie of the other name would make two of them.
    assert removed.startswith("dragoman-console-")
    assert "Max-Age=0" in removed
    assert paired.call() == "phone"


def test_signing_out_removes_the_cookie_under_both_names() -> None:
    paired = Paired()
    removed = paired.access.cookie_headers(of(host=LOCAL, origin=paired.origin), None)
    assert [each.partition("=")[0] for each in removed] == ["dragoman-console-8427", "__Host-dragoman"]
    assert all("Max-Age=0" in each and "Domain" not in each for each in removed)
