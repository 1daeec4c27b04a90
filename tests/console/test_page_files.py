"""The files of the page: how large they are, and that they lead nowhere else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[2] / "src" / "dragoman" / "frontends" / "console" / "page"
_FILES = sorted(path for path in _PAGE.iterdir() if path.is_file())
# What a phone loads over a slow connection before a person can decide.
_MOST_BYTES = 100_000
_SVG_NAMESPACE = "http://www.w3.org/2000/svg"
_STATIC_IMPORT = re.compile(r"^(?:import|export)\b[^;]*?\bfrom '\./([\w.-]+)';", re.MULTILINE)
_LINKED = re.compile(r'(?:src|href)="/console/page/([\w.-]+)"')
# Places where text could become markup or code.
_SINKS = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|eval|new Function"
    r"|createContextualFragment|setHTMLUnsafe)\b"
)


def _first_view() -> set[str]:
    """The document, what it links, and all that these import before anything is pressed."""
    found = {"index.html"}
    waiting = _LINKED.findall((_PAGE / "index.html").read_text())
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _STATIC_IMPORT.findall((_PAGE / name).read_text())
    return found


def test_the_first_view_is_small() -> None:
    files = _first_view()
    assert {"index.html", "app.css", "app.js", "inbox.js", "pair.js", "texts.js"} <= files
    assert sum((_PAGE / name).stat().st_size for name in files) < _MOST_BYTES


def test_the_other_views_are_loaded_when_they_are_shown() -> None:
    assert _first_view().isdisjoint(
        {"conversations.js", "conversation.js", "devices.js", "types.js", "sw.js"}
    )


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_no_file_leads_to_another_origin(path: Path) -> None:
    text = path.read_text().replace(_SVG_NAMESPACE, "")
    assert not re.search(r"https?://|wss?://|(?:src|href)=\"//|url\(", text)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_no_text_becomes_markup_or_code(path: Path) -> None:
    assert not _SINKS.search(path.read_text())


def test_the_document_has_no_inline_script_or_style() -> None:
    text = (_PAGE / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text)


def test_the_manifest_starts_the_page_in_a_window_of_its_own() -> None:
    manifest = json.loads((_PAGE / "manifest.webmanifest").read_text())
    assert (manifest["start_url"], manifest["display"]) == ("/", "standalone")
    for icon in manifest["icons"]:
        assert (_PAGE / Path(icon["src"]).name).is_file()
