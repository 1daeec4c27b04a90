"""Pairing, sessions and the page, over a real socket."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from console.kit import ConsoleSite, console_site
from dragoman.config import ClientKey, ConsoleConfig, Serve
from dragoman.frontends.console.access import ConsoleAccess
from dragoman.frontends.console.page_files import PAGE_HEADERS, PageFiles
from dragoman.frontends.console.sessions import ConsoleScope, ConsoleSessions
from http_server.kit import Json, soon

KEYS = (
    ClientKey("alice", "a"),
    ClientKey("bob", "b"),
    ClientKey("root", "r", role="admin"),
)
URL = "https://console.example.org"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[ConsoleSite]:
    async with console_site(tmp_path, keys=KEYS) as made:
        yield made


def error_of(response: httpx2.Response) -> tuple[int, str]:
    body = response.json()
    assert set(body["error"]) == {"code", "message"}
    return response.status_code, body["error"]["code"]


async def test_a_code_makes_a_browser_a_session(site: ConsoleSite) -> None:
    browser = site.browser()
    session = await browser.pair(site.console.new_code("decide", ConsoleScope()).text, "my phone")
    assert session["name"] == "my phone"
    assert (session["role"], session["key"], session["is_self"]) == ("decide", None, True)
    listed = await browser.call("GET", "sessions")
    assert listed.status_code == 200
    assert listed.json() == {"sessions": [{**session, "seen_at": listed.json()["sessions"][0]["seen_at"]}]}
    assert listed.headers["cache-control"] == "no-store"


async def test_a_wrong_and_a_used_code_are_refused_and_too_many_of_them(site: ConsoleSite) -> None:
    code = site.console.new_code("decide", ConsoleScope()).text
    await site.browser().pair(code)
    browser = site.browser()
    assert error_of(await browser.call("POST", "pair", {"code": code})) == (403, "wrong_code")
    statuses = [
        (await browser.call("POST", "pair", {"code": "2222-2222", "name": "x"})).status_code
        for _ in range(40)
    ]
    assert set(statuses) == {403, 429}
    assert browser.cookies == {}


async def test_pairing_needs_the_consoles_own_origin_host_and_header(site: ConsoleSite) -> None:
    code = site.console.new_code("decide", ConsoleScope()).text
    browser = site.browser()
    body = {"code": code, "name": "x"}
    other_port = {"origin": "http://127.0.0.1:3000"}
    for headers, expected in (
        (other_port, "forbidden_origin"),
        ({"origin": ""}, "forbidden_origin"),
        ({"sec_fetch_site": "cross-site"}, "forbidden_origin"),
        ({"x_dragoman_console": ""}, "no_header"),
        ({"host": "192.168.1.5:8427", "origin": "http://192.168.1.5:8427"}, "forbidden_host"),
        ({"host": "rebound.example.org"}, "forbidden_host"),
    ):
        assert error_of(await browser.call("POST", "pair", body, **headers)) == (403, expected)
    # None of them has used the code up.
    await browser.pair(code)


async def test_a_body_that_a_form_can_send_is_refused(site: ConsoleSite) -> None:
    headers = {"origin": site.address.rstrip("/"), "x-dragoman-console": "pair"}
    for content, kind, status in (
        (b'{"code": "x"}', "text/plain", 415),
        (b"code=x", "application/x-www-form-urlencoded", 415),
        (b'{"code": "x"}', "", 415),
        (b"{", "application/json", 400),
        (b"[" * 60_000, "application/json", 400),
        (b'{"code": "\xff"}', "application/json", 400),
        (b'{"code": 1}', "application/json", 400),
        (b'{"code": "%s"}' % (b"x" * 70_000), "application/json", 413),
    ):
        given = {**headers, "content-type": kind} if kind else headers
        response = await soon(site.client.post("/console/api/pair", content=content, headers=given))
        assert response.status_code == status, (content[:20], response.text)


async def test_both_halves_are_needed_and_a_session_that_ended_is_signed_out(site: ConsoleSite) -> None:
    browser = await site.paired()
    assert error_of(await browser.call("GET", "sessions", cookie="")) == (401, "signed_out")
    assert error_of(await browser.call("GET", "sessions", x_dragoman_console="x")) == (401, "signed_out")
    ended = await browser.call("DELETE", "sessions/self")
    assert ended.status_code == 200
    assert browser.cookies == {}
    assert site.console.sessions.all() == ()
    assert error_of(await browser.call("GET", "sessions")) == (401, "signed_out")


async def test_pairing_again_gives_new_secrets_and_ends_the_browsers_earlier_session(
    site: ConsoleSite,
) -> None:
    browser = await site.paired(name="first")
    before = (browser.token, dict(browser.cookies))
    await browser.pair(site.console.new_code("decide", ConsoleScope()).text, "second")
    assert browser.token != before[0]
    assert browser.cookies.keys() == before[1].keys()
    assert browser.cookies != before[1]
    assert [each.name for each in site.console.sessions.all()] == ["second"]


async def test_a_session_that_decides_pairs_another_device(site: ConsoleSite) -> None:
    browser = await site.paired()
    made = (await browser.call("POST", "pairing", {"role": "watch", "key": "alice"})).json()
    assert set(made) == {"code", "url", "qr", "expires_at"}
    assert made["url"] == f"{site.address}#pair={made['code']}"
    assert {len(row) for row in made["qr"]} == {len(made["qr"])}
    assert set("".join(made["qr"])) == {"0", "1"}
    session = await site.browser().pair(made["code"])
    assert (session["role"], session["key"]) == ("watch", "alice")


async def test_a_session_that_watches_makes_no_code_and_ends_no_other_session(site: ConsoleSite) -> None:
    other, watching = await site.paired(name="other"), await site.paired("watch")
    assert error_of(await watching.call("POST", "pairing", {"role": "watch"})) == (403, "watch_only")
    id_ = site.console.sessions.all()[0].id
    assert error_of(await watching.call("DELETE", f"sessions/{id_}")) == (403, "watch_only")
    assert (await other.call("GET", "sessions")).status_code == 200
    assert (await watching.call("DELETE", "sessions/self")).status_code == 200


async def test_a_session_of_one_key_sees_and_gives_no_more_than_that_key(site: ConsoleSite) -> None:
    everything, alice, bob = await site.paired(), await site.paired(key="alice"), await site.paired(key="bob")
    listed = (await alice.call("GET", "sessions")).json()["sessions"]
    assert [each["key"] for each in listed] == ["alice"]
    for key in ("bob", "root"):
        assert error_of(await alice.call("POST", "pairing", {"key": key})) == (403, "other_key")
    assert error_of(await everything.call("POST", "pairing", {"key": "nobody"})) == (404, "no_key")
    # Without a key it is its own.
    code = (await alice.call("POST", "pairing", {"role": "decide"})).json()["code"]
    assert (await site.browser().pair(code))["key"] == "alice"
    other = next(each for each in site.console.sessions.all() if each.scope.key == "bob")
    assert error_of(await alice.call("DELETE", f"sessions/{other.id}")) == (404, "no_session")
    assert (await bob.call("GET", "sessions")).status_code == 200
    assert (await everything.call("DELETE", f"sessions/{other.id}")).status_code == 200
    assert error_of(await bob.call("GET", "sessions")) == (401, "signed_out")


async def test_a_code_for_an_administrators_key_is_for_all_conversations(site: ConsoleSite) -> None:
    browser = await site.paired()
    code = (await browser.call("POST", "pairing", {"key": "root"})).json()["code"]
    assert (await site.browser().pair(code))["key"] is None


async def test_a_name_that_would_act_on_a_terminal_is_shown_instead(site: ConsoleSite) -> None:
    code = site.console.new_code("watch", ConsoleScope()).text
    session: Json = await site.browser().pair(code, "\x1b]0;x\x07\u202e name\nof two lines" + "x" * 100)
    assert session["name"].isprintable()
    assert len(session["name"]) == 60
    assert (await site.browser().pair(site.console.new_code("watch", ConsoleScope()).text, " "))[
        "name"
    ] == "a browser"


async def test_behind_a_proxy_with_tls_the_cookie_is_secure(tmp_path: Path) -> None:
    async with console_site(tmp_path, ConsoleConfig(url=f"{URL}/")) as site:
        assert site.inbox.address == f"{URL}/"
        for host in ("console.example.org", urlsplit(site.address).netloc):
            browser = site.browser()
            browser.origin = URL
            code = site.console.new_code("decide", ConsoleScope())
            assert site.console.link(code) == f"{URL}/#pair={code.text}"
            response = await browser.call("POST", "pair", {"code": code.text, "name": "x"}, host=host)
            assert [each for each in response.headers.get_list("set-cookie") if "Secure" in each]
            assert list(browser.cookies) == ["__Host-dragoman"]
            browser.token = response.json()["token"]
            assert (await browser.call("GET", "sessions", host=host, origin="")).status_code == 200


async def test_an_api_key_neither_opens_the_console_nor_is_needed_for_it(tmp_path: Path) -> None:
    async with console_site(tmp_path, api_keys=(ClientKey("a", "secret"),)) as site:
        key = {"authorization": "Bearer secret"}
        assert (await soon(site.client.get("/v1/models"))).status_code == 401
        assert (await soon(site.client.get("/v1/models", headers=key))).status_code == 200
        assert (await soon(site.client.get("/"))).status_code == 200
        headers = {**key, "x-dragoman-console": "x"}
        assert error_of(await soon(site.client.get("/console/api/sessions", headers=headers))) == (
            401,
            "signed_out",
        )
        # With a key the API is served under any name; the console is not.
        elsewhere = {**key, "host": "rebound.example.org"}
        assert (await soon(site.client.get("/v1/models", headers=elsewhere))).status_code == 200
        for path in ("/", "/console/page/app.js", "/console/api/sessions", "/console/nothing"):
            assert (await soon(site.client.get(path, headers=elsewhere))).status_code == 403


async def test_pages_that_may_use_the_api_may_not_use_the_console(tmp_path: Path) -> None:
    origin = "https://app.example.org"
    async with console_site(tmp_path, settings=Serve(cors_origins=(origin,))) as site:
        browser = await site.paired()
        preflight = {"origin": origin, "access-control-request-method": "GET"}
        api = await soon(site.client.options("/v1/models", headers=preflight))
        assert api.headers["access-control-allow-origin"] == origin
        for path in ("/", "/console/api/sessions", "/console/api/pair", "/console/page/app.js"):
            for method in ("OPTIONS", "GET"):
                response = await soon(site.client.request(method, path, headers=preflight))
                assert not [name for name in response.headers if name.startswith("access-control")]
        assert error_of(await browser.call("GET", "sessions", origin=origin)) == (403, "forbidden_origin")


async def test_a_question_finds_a_person_only_where_one_is_or_a_webhook_is_set(tmp_path: Path) -> None:
    async with console_site(tmp_path, ConsoleConfig(decide_minutes=2)) as site:
        inbox = site.inbox
        assert inbox.question_seconds == 120
        assert inbox.address == site.address
        await site.paired()
        assert not inbox.is_reachable("http:")
        (session,) = site.console.sessions.all()
        stream = site.console.feed.open(session)
        assert inbox.is_reachable("http:")
        site.console.feed.close_stream(stream)
    config = ConsoleConfig(webhook="https://example.org/")
    async with console_site(tmp_path / "other", config, webhook_secret="x") as site:
        assert site.inbox.is_reachable("http:")


# The page.


async def test_the_page_may_load_and_run_only_its_own_files(site: ConsoleSite) -> None:
    response = await soon(site.client.get("/"))
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert {name: response.headers[name] for name in PAGE_HEADERS} == PAGE_HEADERS
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    again = await soon(site.client.get("/", headers={"if-none-match": response.headers["etag"]}))
    assert (again.status_code, again.content) == (304, b"")


async def test_a_person_at_an_address_that_is_not_served_reads_what_to_do(site: ConsoleSite) -> None:
    response = await soon(site.client.get("/", headers={"host": "192.168.1.5:8427"}))
    assert response.status_code == 403
    assert response.headers["content-type"].startswith("text/plain")
    assert "[console]" in response.text


async def test_there_is_no_path_out_of_the_pages_folder(site: ConsoleSite) -> None:
    for name in ("nothing.js", "..%2fconsole.py", "%2e%2e/console.py", "..%5cconsole.py", "index.html", ""):
        response = await soon(site.client.get(f"{site.address}console/page/{name}"))
        assert response.status_code == 404, name


async def test_the_files_of_a_folder_are_served_as_they_were_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "app.js").write_text("1")
    (tmp_path / "sw.js").write_text("2")
    (tmp_path / "notes.txt").write_text("not for the page")
    (tmp_path / "link.js").symlink_to(os.devnull)
    files = PageFiles(ConsoleAccess(ConsoleSessions()), tmp_path)
    (tmp_path / "app.js").write_text("changed")
    (tmp_path / "late.js").write_text("3")
    assert files._document.content == b"<!doctype html>"
    assert {name: file.content for name, file in files._files.items()} == {"app.js": b"1"}
    assert files._service_worker is not None
    assert re.fullmatch(r'"[0-9a-f]{32}"', files._service_worker.tag)
