"""Automatic approval by settings.

Three settings, as the editor has them: everything (`all`), which tools may be approved this way at all (`eligible`),
and which addresses (`urls`). A tool that is set to false in `eligible` is asked about every time, whatever else is
said; true is what every tool has anyway.

The addresses count only for a call that names them. It is covered when each of its addresses is, and an address is
covered when the most specific pattern that matches it (`urls` says which that is) has the value true; where two are
equally specific, false wins.

`refused` are patterns of a file that may only tighten, such as one that was found in the workspace. They win over
everything: no setting approves a call with an address that one of them matches, however specific another pattern is.
"""

from __future__ import annotations

import msgspec

from dragoman.permissions.urls import Url, UrlError, UrlPattern

__all__ = ["AutoApproval"]


class AutoApproval(msgspec.Struct, frozen=True):
    all: bool = False
    eligible: dict[str, bool] = {}
    urls: dict[str, bool] = {}
    # Patterns of a layer that may only tighten.
    refused: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # A pattern that is none must not wait for the call it was meant to hold back.
        for pattern in (*self.urls, *self.refused):
            UrlPattern.parse(pattern)

    def must_ask(self, tool: str) -> bool:
        """Whether a person decides about each call of this tool, with no exception of any kind."""
        return self.eligible.get(tool) is False

    def covers(self, tool: str, urls: tuple[str, ...] = ()) -> str | None:
        """Why this call needs no question, in a word or two; None if a person must decide."""
        if self.must_ask(tool) or any(map(self._refuses, urls)):
            return None
        if self.all:
            return "auto-approved"
        if urls and all(map(self._allows, urls)):
            return "auto-approved address"
        return None

    def _refuses(self, address: str) -> bool:
        if not self.refused:
            return False
        try:
            url = Url.parse(address)
        except UrlError:
            return True
        return any(UrlPattern.parse(text).matches(url) for text in self.refused)

    def _allows(self, address: str) -> bool:
        try:
            url = Url.parse(address)
        except UrlError:
            return False
        judged = [(UrlPattern.parse(text), value) for text, value in self.urls.items()]
        matching = [(pattern.specificity, not value) for pattern, value in judged if pattern.matches(url)]
        if not matching:
            return False
        _, is_refused = max(matching)
        return not is_refused
