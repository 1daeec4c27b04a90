"""The folder in which an agent works for a request, if the request names one.

A client names a folder in the header `x-dragoman-workspace`. Codex sends none, but says its folder in a message. Either
must lie within the folders of the configuration: `workspaces` in `[serve]`, narrowed by `workspaces` of the client's key.
The header is an order, so a folder outside is an error. What Codex says is a wish: a folder outside is not used.

A path is resolved once, and everything after that uses the result. So changing a link later has no effect. Where an agent
runs on another machine, that machine resolves it, and holds it to the same folders.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.frontends.http.errors import ApiError, bad_request
from dragoman.lm import Message, TextPart
from dragoman.lm.request import FolderChoice
from dragoman.models.folder_choice import folder_within

__all__ = ["WORKSPACE_HEADER", "FolderRoots", "codex_folder", "header_text", "named_folder"]

WORKSPACE_HEADER = "x-dragoman-workspace"

# The whole of a part of a user message, as Codex writes it. Its elements are in indented lines.
_CONTEXT = re.compile(r"<environment_context>\n(?P<body>(?:  .*\n)+)</environment_context>")
# With one environment, its folder is on a line of its own. Older versions know no other form.
_SINGLE = re.compile(r"^  <cwd>([^<>\n]+)</cwd>$", re.MULTILINE)
# Otherwise each has an id, and of several the primary one counts.
_PRIMARY = re.compile(
    r'^    <environment id="[^"\n]*"(?: primary="true")?>\n      <cwd>([^<>\n]+)</cwd>$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class FolderRoots:
    """The folders within which a client may choose. All are resolved."""

    # Of the server. Empty: only the key has some.
    server: tuple[Path, ...] = ()
    # Of the client's key. Empty: all of the server's.
    key: tuple[Path, ...] = ()
    # The file in which they are set, as the client may see it.
    file: str = "the server's configuration"

    @property
    def exist(self) -> bool:
        return bool(self.server or self.key)

    @property
    def _all(self) -> tuple[tuple[Path, ...], ...]:
        return tuple(roots for roots in (self.server, self.key) if roots)

    def find(self, named: str) -> Path | None:
        """The folder at that path, resolved. None if it is no folder within the roots."""
        return folder_within(named, self._all) if self.exist else None

    def choices(self, named: str | None, *, is_order: bool) -> tuple[FolderChoice, ...]:
        """For an agent on another machine: what to try there. `named` is an order, or a wish.

        Without a folder that a client may name, the agent works in that of its model if the key's folders have it, else in
        the first of those.
        """
        key = (tuple(map(str, self.key)),)
        usual = (FolderChoice("", key), FolderChoice(str(self.key[0]), key)) if self.key else ()
        if named is None or not self.exist or not Path(named).is_absolute():
            return usual
        chosen = FolderChoice(named, tuple(tuple(map(str, roots)) for roots in self._all))
        return (chosen,) if is_order else (chosen, *(usual or (FolderChoice(),)))

    def require(self, named: str) -> Path:
        """The folder that the header names. Raise `ApiError` if a client may not choose it."""
        self.check_form(named)
        folder = self.find(named)
        if folder is None:
            # It does not say whether there is such a folder elsewhere.
            raise _refused(
                "It must name a folder that exists, within those that are open to this client: `workspaces` in [serve], "
                f"and that of the client's key, in {self.file}.",
                "workspace_not_allowed",
            )
        return folder

    def check_form(self, named: str) -> None:
        """Raise `ApiError` if a client may choose none, or the header does not name one by its absolute path."""
        if not self.exist:
            raise _refused(
                f'No client may choose a folder here. To allow it, add for example `workspaces = ["~/src"]` to [serve] '
                f"in {self.file}, and start the server again.",
                "no_workspaces",
            )
        if not Path(named).is_absolute():
            raise _refused("It must name a folder by its absolute path.", "invalid_header")


def _refused(why: str, code: str) -> ApiError:
    return bad_request(f"The header {WORKSPACE_HEADER} is refused. {why}", param=WORKSPACE_HEADER, code=code)


def named_folder(headers: Mapping[str, str]) -> str | None:
    """The folder that the header names. HTTP has no encoding for headers: paths are UTF-8, like everywhere else."""
    given = headers.get(WORKSPACE_HEADER)
    return None if given is None else given.encode("latin-1").decode("utf-8", "surrogateescape").strip()


def header_text(folder: str) -> str:
    """A folder as the value of a header. A character that no header can have becomes a question mark."""
    sent = folder.encode("utf-8", "surrogateescape").decode("latin-1")
    return "".join("?" if char < " " or char == "\x7f" else char for char in sent)


def codex_folder(messages: Sequence[Message]) -> str | None:
    """The folder of the last message that has the exact form of Codex's environment context."""
    for message in reversed(messages):
        if message.role != "user":
            continue
        for part in reversed(message.content):
            context = _CONTEXT.fullmatch(part.value.strip()) if isinstance(part, TextPart) else None
            if context is None:
                continue
            named = _SINGLE.findall(context["body"]) or _PRIMARY.findall(context["body"])
            if len(named) == 1:
                return html.unescape(named[0])
    return None
