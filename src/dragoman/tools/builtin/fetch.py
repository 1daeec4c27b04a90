"""Fetches an address that the user or the settings approve, and converts it to text.

A host that turns out to be local, although its name does not say so, ends the call. The next one for that host says so
to the user, whatever was approved before: an approval of the name does not cover the local address behind it. And it
may lead to the very address that the user was shown, not to another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from dragoman.lm import CancellationToken, DataPart, TextPart, gfm, until_cancelled
from dragoman.lm.parts import ToolResult
from dragoman.permissions.urls import MAX_URL_LENGTH, Url, UrlError
from dragoman.tools.builtin import page as page_reader
from dragoman.tools.builtin.approval_words import this_address
from dragoman.tools.builtin.child import run_module
from dragoman.tools.builtin.download import MAX_BODY_BYTES, LedToLocal, NotFetched, WebPage, download
from dragoman.tools.builtin.files import MAX_IMAGE_BYTES, image_type, text_or_none
from dragoman.tools.builtin.shown import Shown
from dragoman.tools.definition import DefinedTool, tool
from dragoman.tools.tool import Confirmation, Invocation, PreparedInvocation

__all__ = ["MAX_LOCAL_HOSTS", "MAX_TEXT", "PAGE_SECONDS", "fetch_url"]

# Making text of a page takes a second for each megabyte; one that takes longer was written to.
PAGE_SECONDS = 15.0
# At one time: some ten thousand tokens.
MAX_TEXT = 50_000
# Hosts that turned out to be local. A session meets a few.
MAX_LOCAL_HOSTS = 100

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = re.compile(r"text/.*|application/(?:.*\+)?(?:json|xml|javascript|yaml|toml)")
# Those that pages have. Python knows others, some of which take hours.
_CHARSET = re.compile(
    r"utf-?8|utf-16(?:le|be)?|(?:us-)?ascii|iso-8859-(?:[1-9]|1[0134-6])|latin-?1|(?:windows-|cp)125[0-8]"
    r"|koi8-[ru]|gb(?:k|2312|18030)|big5|shift_jis|euc-(?:jp|kr)",
    re.IGNORECASE,
)


def fetch_url() -> DefinedTool:
    # Hosts whose names do not say that they are local, and the address that each led to.
    local: dict[str, str] = {}
    # The local address that the question said the host leads to.
    shown: Shown[str] = Shown()

    @tool(
        name="fetch_url",
        description=(
            "Fetches an http or https address (GET) and returns its text; of web pages what a person would read, with"
            f" links. At most {MAX_TEXT:,} characters at once, beginning at start. Images are returned as images."
        ),
        display_name="Fetch URL",
        user_description="Fetch a web page",
        reference_name="fetchUrl",
        icon="$(globe)",
    )
    async def fetch(
        url: Annotated[str, Meta(description="The address to fetch", max_length=MAX_URL_LENGTH)],
        start: Annotated[
            int, Meta(description="How many characters to skip", ge=0, le=10 * MAX_BODY_BYTES)
        ] = 0,
        *,
        invocation: Invocation,
        token: CancellationToken,
    ) -> ToolResult:
        led_to = shown.take(invocation)
        try:
            address = Url.parse(url)
        except UrlError as error:
            return ToolResult.error(str(error))
        try:
            local_allowed = "any" if address.is_local else led_to
            page = await until_cancelled(download(address, local_allowed=local_allowed), token)
            return await until_cancelled(_result(page, start), token)
        except LedToLocal as found:
            _remember(local, address.host, found.address)
            return ToolResult.error(
                f"{address.host} leads to {found.address}, on this machine or the local network, which was not approved."
                " Nothing was sent. Call again to have the user asked."
            )
        except NotFetched as problem:
            return ToolResult.error(str(problem))

    @fetch.prepare
    def ask(url: str, *, invocation: Invocation) -> PreparedInvocation:
        address = Url.parse(url)
        led_to = local.get(address.host)
        where = ""
        covers, key = this_address(), str(address)
        if led_to is not None:
            shown.note(invocation, led_to)
            covers, key = this_address(led_to), f"{address} at {led_to}"
            where = f"\n\nThis leads to {gfm.code(led_to)}, on this machine or the local network."
        elif address.is_local:
            where = "\n\nThis is on this machine or the local network."
        return PreparedInvocation(
            invocation_message=f"Fetching {address}",
            confirmation=Confirmation("Fetch this address?", f"{gfm.fence(str(address))}{where}"),
            approval_key=key,
            covers=covers,
            # A pattern was written for what the name says. Where it leads, only the person can allow.
            urls=(str(address),) if led_to is None else (),
            always_ask=led_to is not None,
            risk="fetch",
        )

    return fetch


def _remember(local: dict[str, str], host: str, address: str) -> None:
    if len(local) >= MAX_LOCAL_HOSTS:
        del local[next(iter(local))]
    local[host] = address


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice of a text, and the length of the whole."""

    text: str
    total: int


async def _result(page: WebPage, start: int) -> ToolResult:
    mime_type = image_type(page.body)
    if mime_type is not None and not page.is_error:
        if page.is_cut or len(page.body) > MAX_IMAGE_BYTES:
            return ToolResult.error(f"{page.url} is a picture larger than {MAX_IMAGE_BYTES:,} bytes.")
        line = TextPart(f"{page.url}: {mime_type}, {len(page.body):,} bytes.")
        return ToolResult((line, DataPart.image(page.body, mime_type)))
    read = await _text(page, start)
    end = start + len(read.text)
    shown = read.text or "[There is no text.]"
    if start or end < read.total:
        shown += f"\n\n[Characters {start:,} to {end:,} of {read.total:,}.]"
    if end < read.total:
        shown += f" [Go on with start {end}.]"
    elif page.is_cut:
        shown += f"\n\n[What follows the first {MAX_BODY_BYTES:,} bytes was not fetched.]"
    if page.is_error:
        return ToolResult.error(f"{page.url} answered {page.status}.\n\n{shown}")
    return ToolResult.text(shown)


async def _text(page: WebPage, start: int) -> _Slice:
    if page.mime_type in _HTML:
        return await _page_text(page, start)
    text = _decoded(page) if _TEXT.fullmatch(page.mime_type) else text_or_none(page.body)
    if text is None:
        kind = page.mime_type or "of no known type"
        raise NotFetched(f"{page.url} is {kind}, {len(page.body):,} bytes, and cannot be read as text.")
    return _Slice(text[start : start + MAX_TEXT], len(text))


async def _page_text(page: WebPage, start: int) -> _Slice:
    said = bytearray()
    status = await run_module(
        page_reader.__name__,
        str(page.url),
        str(start),
        str(MAX_TEXT),
        given=_decoded(page).encode(errors="replace"),
        seconds=PAGE_SECONDS,
        receive=said.extend,
    )
    if status != 0:
        raise NotFetched(f"{page.url} is a web page that cannot be read.")
    total, _, text = said.decode(errors="replace").partition("\n")
    return _Slice(text, int(total))


def _decoded(page: WebPage) -> str:
    charset = page.charset if page.charset and _CHARSET.fullmatch(page.charset) else "utf-8"
    return page.body.decode(charset, errors="replace")
