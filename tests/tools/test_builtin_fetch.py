import asyncio
import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dragoman.lm import CancellationError, CancellationSource, CancellationToken, DataPart
from dragoman.lm.parts import ToolResult
from dragoman.permissions.approvals import Approvals
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.urls import Url, UrlError
from dragoman.store import ApprovalStore, Database
from dragoman.tools.builtin import download as download_module, fetch as fetch_module
from dragoman.tools.builtin.download import (
    FETCH_SECONDS,
    MAX_BODY_BYTES,
    LedToLocal,
    _ConnectionWatch,
    _is_same_address,
)
from dragoman.tools.builtin.fetch import MAX_LOCAL_HOSTS, MAX_TEXT, fetch_url
from dragoman.tools.builtin.page import main, page_text
from dragoman.tools.decision import ApprovalLevel, Approve, Decision, ToolQuestion
from dragoman.tools.registry import ToolRegistry
from dragoman.tools.runtime import ToolRuntime
from tool_calls import DEADLINE, Deadline, Workbench, text

_PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@dataclass
class _Answer:
    body: bytes = b""
    content_type: str | None = "text/plain; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class _Server:
    """A web server on this machine that answers what a test says."""

    def __init__(self) -> None:
        self.answers: dict[str, _Answer] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        # Set when a request for `/silence` has come; it is answered when the test is over.
        self.on_silence: Callable[[], object] = lambda: None
        self._over = threading.Event()
        server = self

        class _Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
                if self.path == "/silence":
                    server.on_silence()
                    server._over.wait()
                answer = server.answers.get(self.path, _Answer(b"not here", status=404))
                self.send_response(answer.status)
                if answer.content_type is not None:
                    self.send_header("Content-Type", answer.content_type)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name the library gives it
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._http.daemon_threads = False
        self.port = self._http.server_address[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    server = _Server()
    yield server
    server.close()


@pytest.fixture
def fetching() -> Workbench:
    return Workbench(fetch_url())


def _runtime(auto: AutoApproval, approvals: Approvals | None = None) -> ToolRuntime:
    registry = ToolRegistry()
    registry.add(fetch_url())
    return ToolRuntime(registry, approvals or Approvals(), auto, session="one")


class _Person:
    """Agrees to everything, as far as can be, and remembers what was asked."""

    def __init__(self, level: ApprovalLevel = "once") -> None:
        self._level: ApprovalLevel = level
        self.asked: list[ToolQuestion] = []

    async def confirm(self, question: ToolQuestion, token: CancellationToken) -> Decision:
        self.asked.append(question)
        return Approve(self._level)

    async def fetch(self, runtime: ToolRuntime, url: str) -> ToolResult:
        async with asyncio.timeout(DEADLINE):
            return await runtime.invoke("fetch_url", {"url": url}, self, CancellationSource().token)


@pytest.fixture
def public_name(monkeypatch: pytest.MonkeyPatch) -> str:
    """A name that looks public and leads to this machine."""
    real = socket.getaddrinfo

    def getaddrinfo(host: str | bytes, *rest: object, **named: object) -> object:
        if host in ("public.example", b"public.example"):
            host = "127.0.0.1"
        return real(host, *rest, **named)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return "public.example"


class TestQuestion:
    async def test_the_address_is_shown_as_it_will_be_fetched(self, fetching: Workbench) -> None:
        prepared = await fetching.ask(url="HTTPS://Bücher.example/a/../b?q=1#top")
        address = "https://xn--bcher-kva.example/b?q=1"
        assert prepared.confirmation is not None
        assert prepared.confirmation.title == "Fetch this address?"
        assert prepared.confirmation.message == f"```\n{address}\n```"
        assert prepared.invocation_message == f"Fetching {address}"
        assert prepared.approval_key == address
        assert prepared.urls == (address,)

    @pytest.mark.parametrize("host", ["localhost:3000", "127.0.0.1", "[::1]", "db.internal", "printer"])
    async def test_a_local_address_says_so_and_is_covered_only_by_name(
        self, fetching: Workbench, host: str
    ) -> None:
        prepared = await fetching.ask(url=f"http://{host}/")
        assert prepared.confirmation is not None
        assert prepared.confirmation.message.endswith("This is on this machine or the local network.")
        assert AutoApproval(urls={"*://*:*/*": True}).covers("fetch_url", prepared.urls) is None
        assert AutoApproval(urls={f"http://{host}/": True}).covers("fetch_url", prepared.urls) is not None

    @pytest.mark.parametrize("url", ["file:///etc/passwd", "https://me:secret@good.example/", "nowhere"])
    async def test_what_is_no_address_is_not_asked(self, fetching: Workbench, url: str) -> None:
        with pytest.raises(UrlError):
            await fetching.ask(url=url)
        assert (await fetching.invoke(fetching.invocation(url=url))).is_error

    async def test_nothing_is_looked_up_before_somebody_agreed(
        self, fetching: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def getaddrinfo(*_arguments: object, **_named: object) -> None:
            pytest.fail("a name that is looked up is a message to whoever owns it")

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        await fetching.ask(url="https://secret.evil.example/")


class TestContent:
    async def test_text(self, fetching: Workbench, server: _Server) -> None:
        server.answers["/a"] = _Answer("é\n".encode())
        assert await fetching.said(url=f"{server.origin}/a") == "é\n"

    @pytest.mark.parametrize(
        ("content_type", "body", "expected"),
        [
            ("application/json", b'{"a": 1}', '{"a": 1}'),
            ("application/problem+json", b"{}", "{}"),
            ("image/svg+xml", b"<svg/>", "<svg/>"),
            ("text/plain; charset=iso-8859-1", b"\xe9", "é"),
            ("text/plain; charset=punycode", b"a-b", "a-b"),
            ("text/plain; charset=zlib", "é".encode(), "é"),
            ("text/plain", b"\xff", "\ufffd"),
            ("application/octet-stream", "é".encode(), "é"),
            (None, b"plain", "plain"),
        ],
    )
    async def test_types(
        self, fetching: Workbench, server: _Server, content_type: str | None, body: bytes, expected: str
    ) -> None:
        server.answers["/a"] = _Answer(body, content_type)
        assert await fetching.said(url=f"{server.origin}/a") == expected

    async def test_a_web_page(self, fetching: Workbench, server: _Server) -> None:
        server.answers["/a/b"] = _Answer(
            '<title>T</title><h1>Hé</h1><p><a href="../c">see</a>'.encode(), "text/html; charset=utf-8"
        )
        assert await fetching.said(url=f"{server.origin}/a/b") == f"T\n\n# Hé\n\n[see]({server.origin}/c)"

    async def test_a_picture(self, fetching: Workbench, server: _Server) -> None:
        server.answers["/a"] = _Answer(_PNG, "image/png")
        result = await fetching.call(url=f"{server.origin}/a")
        assert text(result) == f"{server.origin}/a: image/png, 28 bytes."
        assert result.content[1] == DataPart.image(_PNG, "image/png")

    async def test_a_picture_that_is_too_large(
        self, fetching: Workbench, server: _Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fetch_module, "MAX_IMAGE_BYTES", 10)
        server.answers["/a"] = _Answer(_PNG, "image/png")
        assert "a picture larger than 10 bytes" in await fetching.complaint(url=f"{server.origin}/a")

    @pytest.mark.parametrize("content_type", ["application/pdf", None])
    async def test_what_is_no_text(
        self, fetching: Workbench, server: _Server, content_type: str | None
    ) -> None:
        server.answers["/a"] = _Answer(b"%PDF\0", content_type)
        complaint = await fetching.complaint(url=f"{server.origin}/a")
        assert complaint == (
            f"{server.origin}/a is {content_type or 'of no known type'}, 5 bytes, and cannot be read as text."
        )

    async def test_nothing(self, fetching: Workbench, server: _Server) -> None:
        server.answers["/a"] = _Answer()
        assert await fetching.said(url=f"{server.origin}/a") == "[There is no text.]"

    async def test_an_error_with_its_text(self, fetching: Workbench, server: _Server) -> None:
        complaint = await fetching.complaint(url=f"{server.origin}/nowhere")
        assert complaint == f"{server.origin}/nowhere answered 404 Not Found.\n\nnot here"

    async def test_long_text_is_read_in_turns(self, fetching: Workbench, server: _Server) -> None:
        server.answers["/a"] = _Answer(b"x" * MAX_TEXT + b"end")
        url = f"{server.origin}/a"
        first = await fetching.said(url=url)
        assert first == "x" * MAX_TEXT + "\n\n[Characters 0 to 50,000 of 50,003.] [Go on with start 50000.]"
        assert await fetching.said(url=url, start=50_000) == "end\n\n[Characters 50,000 to 50,003 of 50,003.]"

    async def test_a_long_page_is_read_in_turns(self, fetching: Workbench, server: _Server) -> None:
        server.answers["/a"] = _Answer(b"<p>" + b"x" * MAX_TEXT + b"end", "text/html")
        url = f"{server.origin}/a"
        assert "[Go on with start 50000.]" in await fetching.said(url=url)
        assert (await fetching.said(url=url, start=50_000)).startswith("end\n")

    async def test_a_body_that_does_not_end_is_cut(
        self, fetching: Workbench, server: _Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(download_module, "MAX_BODY_BYTES", 1000)
        server.answers["/a"] = _Answer(b"x" * 100_000)
        said = await fetching.said(url=f"{server.origin}/a")
        assert said == "x" * 1000 + f"\n\n[What follows the first {MAX_BODY_BYTES:,} bytes was not fetched.]"

    async def test_it_asks_for_no_compression_but_understands_it(
        self, fetching: Workbench, server: _Server
    ) -> None:
        server.answers["/a"] = _Answer(gzip.compress(b"small"), headers={"Content-Encoding": "gzip"})
        assert await fetching.said(url=f"{server.origin}/a") == "small"
        [(_, headers)] = server.asked
        assert headers["accept-encoding"] == "identity"
        assert headers["user-agent"].startswith("dragoman/")
        assert not {"cookie", "authorization"} & headers.keys()

    async def test_a_page_that_cannot_be_read_in_time(
        self, fetching: Workbench, server: _Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fetch_module, "PAGE_SECONDS", 0.01)
        server.answers["/a"] = _Answer(b'<a x="' * 100_000, "text/html")
        assert "is a web page that cannot be read" in await fetching.complaint(url=f"{server.origin}/a")


class TestRedirections:
    async def test_to_the_same_address_with_a_slash(self, fetching: Workbench, server: _Server) -> None:
        server.answers["/a"] = _Answer(status=301, headers={"Location": "/a/"})
        server.answers["/a/"] = _Answer(b"here")
        assert await fetching.said(url=f"{server.origin}/a") == "here"

    async def test_a_pattern_for_one_path_does_not_lead_to_another(self, server: _Server) -> None:
        server.answers["/open/x"] = _Answer(status=302, headers={"Location": "/admin/delete?all=1"})
        server.answers["/admin/delete?all=1"] = _Answer(b"deleted")
        auto = AutoApproval(urls={f"{server.origin}/open/*": True, f"{server.origin}/admin/*": False})
        person = _Person()
        result = await person.fetch(_runtime(auto), f"{server.origin}/open/x")
        assert f"redirects to {server.origin}/admin/delete?all=1, which was not approved" in text(result)
        assert [path for path, _ in server.asked] == ["/open/x"]
        assert person.asked == []

    @pytest.mark.parametrize(
        "location",
        [
            "http://other.example/",
            "//other.example/",
            "http://localhost:{port}/",
            "http://127.0.0.1:1/",
            "https://127.0.0.1:{port}/",
            "http://127.0.0.1/",
            "/b",
            "/a?b",
            "/a/b",
            "/a//",
        ],
    )
    async def test_to_another_place(self, fetching: Workbench, server: _Server, location: str) -> None:
        server.answers["/a"] = _Answer(
            status=302, headers={"Location": location.replace("{port}", str(server.port))}
        )
        complaint = await fetching.complaint(url=f"{server.origin}/a")
        assert "which was not approved. To follow it, fetch that address." in complaint
        assert len(server.asked) == 1

    @pytest.mark.parametrize("location", ["file:///etc/passwd", "http://me@127.0.0.1/", "http://[x/"])
    async def test_to_what_is_no_address(self, fetching: Workbench, server: _Server, location: str) -> None:
        server.answers["/a"] = _Answer(status=302, headers={"Location": location})
        assert "is no address to follow" in await fetching.complaint(url=f"{server.origin}/a")

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize(
        "location",
        [
            "http://127.0.0.1:{other}/admin",
            "http://localhost:{other}/admin",
            "http://[::1]:{other}/admin",
            "http://2130706433:{other}/admin",
            "http://0x7f.1:{other}/admin",
            "http://public.example:{other}/admin",
            "//127.0.0.1:{other}/admin",
            "http://169.254.169.254/latest/meta-data/",
            "http://10.0.0.1/",
            "file:///etc/passwd",
            "ftp://127.0.0.1/",
            "javascript:alert(1)",
        ],
    )
    @pytest.mark.usefixtures("public_name")
    async def test_nothing_is_sent_where_a_redirection_leads(
        self, fetching: Workbench, server: _Server, location: str, status: int
    ) -> None:
        """To another server of this machine, under every name it has, to the cloud's own, to a file."""
        other = _Server()
        try:
            target = location.replace("{other}", str(other.port))
            server.answers["/a"] = _Answer(
                b"moved", status=status, headers={"Location": target, "Set-Cookie": "a=b"}
            )
            said = await fetching.complaint(url=f"{server.origin}/a")
            refusals = ("which was not approved", "is no address to follow", "could not be fetched")
            assert any(words in said for words in refusals)
            assert other.asked == []
            assert [path for path, _ in server.asked] == ["/a"]
        finally:
            other.close()

    async def test_a_name_that_leads_elsewhere_at_the_second_look_is_found_out(
        self, fetching: Workbench, server: _Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each connection on the way is looked at: the name may lead to another place from one to the next."""
        server.answers["/a"] = _Answer(status=302, headers={"Location": "/a/", "Connection": "close"})
        server.answers["/a/"] = _Answer(b"secret")
        checked: list[str] = []
        real = _ConnectionWatch._check

        async def check(self: _ConnectionWatch, stream: download_module._Stream) -> None:
            checked.append(self._host)
            if len(checked) > 1:
                self._local_allowed = None
            await real(self, stream)

        monkeypatch.setattr(_ConnectionWatch, "_check", check)
        said = await fetching.complaint(url=f"{server.origin}/a")
        assert "which was not approved. Nothing was sent." in said
        assert [path for path, _ in server.asked] == ["/a"]

    async def test_what_one_fetch_was_given_does_not_go_along_with_the_next(
        self, fetching: Workbench, server: _Server
    ) -> None:
        server.answers["/a"] = _Answer(
            status=302, headers={"Location": "/a/", "Set-Cookie": "session=secret"}
        )
        server.answers["/a/"] = _Answer(b"here")
        for _ in range(2):
            assert await fetching.said(url=f"{server.origin}/a") == "here"
        first, _, second, _ = (headers for _, headers in server.asked)
        assert first == second
        assert not {"cookie", "referer", "authorization"} & second.keys()

    async def test_a_circle_ends(self, fetching: Workbench, server: _Server) -> None:
        server.answers["/a"] = _Answer(status=302, headers={"Location": "/a/"})
        server.answers["/a/"] = _Answer(status=302, headers={"Location": "/a"})
        assert "the last of 5 redirections" in await fetching.complaint(url=f"{server.origin}/a")
        assert len(server.asked) == 6

    async def test_without_end(self, fetching: Workbench, server: _Server) -> None:
        server.answers["/a"] = _Answer(status=302, headers={"Location": "/a"})
        assert "the last of 5 redirections" in await fetching.complaint(url=f"{server.origin}/a")
        assert len(server.asked) == 6

    @pytest.mark.parametrize(
        ("target", "same"),
        [
            ("http://good.example/a?b", True),
            ("https://good.example/a?b", True),
            ("https://good.example/a/?b", True),
            ("https://good.example/a", False),
            ("https://good.example/b?b", False),
            ("http://good.example:8080/a?b", False),
            ("https://good.example:8443/a?b", False),
            ("https://www.good.example/a?b", False),
        ],
    )
    def test_what_is_the_same_address(self, target: str, *, same: bool) -> None:
        assert _is_same_address(Url.parse("http://good.example/a?b"), Url.parse(target)) is same

    def test_the_way_back_to_an_open_line_is_not(self) -> None:
        assert not _is_same_address(Url.parse("https://good.example/"), Url.parse("http://good.example/"))


class TestLocalAddresses:
    async def test_a_public_name_that_leads_here_is_permission_requested_first(
        self, fetching: Workbench, server: _Server, public_name: str
    ) -> None:
        server.answers["/a"] = _Answer(b"here")
        url = f"http://{public_name}:{server.port}/a"
        unaware = await fetching.ask(url=url)
        assert unaware.urls == (url,)
        assert await fetching.complaint(url=url) == (
            "public.example leads to 127.0.0.1, on this machine or the local network, which was not approved."
            " Nothing was sent. Call again to have the user asked."
        )
        assert server.asked == []

        aware = await fetching.ask(url=url)
        assert aware.confirmation is not None
        assert "This leads to `127.0.0.1`, on this machine" in aware.confirmation.message
        assert aware.urls == ()
        assert aware.always_ask
        assert aware.approval_key == f"{url} at 127.0.0.1"
        assert aware.covers == "this address, as long as it leads to 127.0.0.1"
        assert await fetching.said(url=url) == "here"

    @pytest.mark.parametrize("level", ["session", "workspace", "always"])
    async def test_what_was_approved_for_the_name_is_not_for_where_it_leads(
        self, server: _Server, public_name: str, tmp_path: Path, level: ApprovalLevel
    ) -> None:
        server.answers["/a"] = _Answer(b"here")
        url = f"http://{public_name}:{server.port}/a"
        with Database.open(tmp_path / "state") as database:
            runtime = _runtime(AutoApproval(), Approvals(ApprovalStore(database), tmp_path))
            person = _Person(level)
            assert (await person.fetch(runtime, url)).is_error
            assert server.asked == []
            # From now on they are asked about each call, and can agree to no more than that.
            for asked in (2, 3):
                assert text(await person.fetch(runtime, url)) == "here"
                assert len(person.asked) == asked
        assert person.asked[-1].levels == ("once",)
        assert "This leads to `127.0.0.1`" in person.asked[-1].confirmation.message

    @pytest.mark.parametrize("by_pattern", [True, False])
    async def test_no_setting_covers_where_a_name_leads(
        self, server: _Server, public_name: str, *, by_pattern: bool
    ) -> None:
        origin = f"http://{public_name}:{server.port}"
        auto = AutoApproval(urls={f"{origin}/*": True}) if by_pattern else AutoApproval(all=True)
        server.answers["/a"] = _Answer(b"here")
        runtime, person = _runtime(auto), _Person()
        assert (await person.fetch(runtime, f"{origin}/a")).is_error
        assert person.asked == []
        assert text(await person.fetch(runtime, f"{origin}/a")) == "here"
        assert len(person.asked) == 1

    async def test_a_name_may_lead_to_the_address_that_was_shown_and_to_no_other(self) -> None:
        watch = _ConnectionWatch("good.example", local_allowed="127.0.0.1")
        await watch("connection.connect_tcp.started", {"host": "good.example"})
        await watch("connection.connect_tcp.complete", {"return_value": _Stream(("127.0.0.1", 80))})
        other = _Stream(("169.254.169.254", 80))
        with pytest.raises(LedToLocal, match=r"169\.254"):
            await watch("connection.connect_tcp.complete", {"return_value": other})
        assert other.is_closed

    async def test_a_call_that_was_permission_requested_before_is_not_made(
        self, fetching: Workbench, server: _Server, public_name: str
    ) -> None:
        url = f"http://{public_name}:{server.port}/a"
        early = fetching.invocation(url=url)
        await fetching.prepare(early)
        await fetching.complaint(url=url)
        assert (await fetching.invoke(early)).is_error
        assert server.asked == []

    async def test_the_oldest_are_forgotten_when_there_are_too_many(self) -> None:
        local: dict[str, str] = {}
        for number in range(MAX_LOCAL_HOSTS + 1):
            fetch_module._remember(local, f"{number}", "127.0.0.1")
        assert len(local) == MAX_LOCAL_HOSTS
        assert "0" not in local

    async def test_a_proxy_is_not_mistaken_for_the_host(
        self, fetching: Workbench, server: _Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", server.origin)
        server.answers["http://elsewhere.example/a"] = _Answer(b"through the proxy")
        assert await fetching.said(url="http://elsewhere.example/a") == "through the proxy"

    @pytest.mark.parametrize(("peer", "told"), [(None, "None"), (("10.0.0.1", 80), "10.0.0.1")])
    async def test_a_connection_that_leads_to_nobody_knows_where_is_closed(
        self, peer: object, told: str
    ) -> None:
        stream = _Stream(peer)
        watch = _ConnectionWatch("good.example", local_allowed=None)
        await watch("connection.connect_tcp.started", {"host": "good.example"})
        with pytest.raises(LedToLocal, match=told):
            await watch("connection.connect_tcp.complete", {"return_value": stream})
        assert stream.is_closed

    async def test_a_connection_to_the_internet_stays(self) -> None:
        stream = _Stream(("8.8.8.8", 80))
        watch = _ConnectionWatch("good.example", local_allowed=None)
        await watch("connection.connect_tcp.started", {"host": "good.example"})
        await watch("connection.connect_tcp.complete", {"return_value": stream})
        assert not stream.is_closed


class _Stream:
    def __init__(self, peer: object) -> None:
        self._peer = peer
        self.is_closed = False

    def get_extra_info(self, info: str) -> object:
        assert info == "server_addr"
        return self._peer

    async def aclose(self) -> None:
        self.is_closed = True


class TestFailures:
    async def test_nobody_answers(self, fetching: Workbench, server: _Server) -> None:
        server.close()
        assert "could not be fetched" in await fetching.complaint(url=f"{server.origin}/")

    async def test_silence(
        self, fetching: Workbench, server: _Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deadline = Deadline(FETCH_SECONDS, monkeypatch)
        loop = asyncio.get_running_loop()
        server.on_silence = lambda: loop.call_soon_threadsafe(deadline.pass_now)
        assert await fetching.complaint(url=f"{server.origin}/silence") == (
            f"{server.origin} took longer than 30 seconds."
        )

    async def test_cancelled_on_the_way(self, fetching: Workbench, server: _Server) -> None:
        source = CancellationSource()
        loop = asyncio.get_running_loop()
        server.on_silence = lambda: loop.call_soon_threadsafe(source.cancel)
        with pytest.raises(CancellationError):
            await fetching.invoke(fetching.invocation(url=f"{server.origin}/silence"), source.token)


class TestPages:
    @pytest.mark.parametrize(
        ("html", "expected"),
        [
            ("plain", "plain"),
            ("<p>a</p><p>b</p>", "a\n\nb"),
            ("<div>a</div><div>b</div>", "a\n\nb"),
            ("a<br>b", "a\nb"),
            ("<h2>a  \n b</h2>", "## a b"),
            ("<ul><li>a<li>b</ul>", "- a\n- b"),
            ("<table><tr><th>a<th>b<tr><td>c<td>d</table>", "| a | b\n| c | d"),
            ("<pre>a\n  b</pre>", "a\n  b"),
            ("<a href='b'>x</a> y", "[x](https://good.example/a/b) y"),
            ("<a href='#b'>x</a> <a>y</a> <a href='javascript:z'>z</a>", "x y z"),
            ("<a href='http://[x'>x</a>", "x"),
            ("</a></pre></script>x", "x"),
            ("<img alt='a cat'><img>", "a cat"),
            ("<script>x</script><style>y</style>z", "z"),
            ("<svg><script>x</script>a</svg>z", "z"),
            ("<head><title>T &amp; t</title><meta><body>x", "T & t\n\nx"),
            ("<head><title>T</title></head>x", "T\n\nx"),
            ("&lt;b&gt; &#8364; &nbsp;x", "<b> € \xa0x"),
            ("<!-- x -->a<!DOCTYPE html>", "a"),
            ("<b>bold</b> <unknown>x</unknown>", "bold x"),
            ("<p> a </p> <p> b </p>", "a\n\nb"),
        ],
    )
    def test_what_a_person_would_read(self, html: str, expected: str) -> None:
        assert page_text(html, "https://good.example/a/") == expected

    def test_as_a_process(self) -> None:
        assert main("<p>abcdef", "https://good.example/", 2, 3) == "6\ncde"
