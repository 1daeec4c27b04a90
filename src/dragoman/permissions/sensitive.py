"""Which paths are sensitive: places where a change takes effect later and elsewhere, and files that hold secrets.

A path is judged by its words and by where it leads (`resolve`), each without regard to case, because some file systems
have none. A component counts wherever it stands, so a repository inside a repository is covered too. All of this can
only add questions: a path that is not listed here is asked about like any other.
"""

from __future__ import annotations

import os.path
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from dragoman.visible import hides

__all__ = ["Places"]

# Folders in which a change alters what programs do: hooks, editor tasks, start-up files, agents' own settings.
_FOLDERS = frozenset(
    {
        ".git", ".githooks", ".husky", ".vscode", ".ssh", ".gnupg",
        ".claude", ".codex", ".copilot", ".cursor", ".fast-agent", ".gemini", ".opencode", ".qwen",
    }
)  # fmt: skip
_FOLDER_BEGINNINGS = (".kimi",)
_FILES = frozenset(
    {
        # Shells read these when they start.
        ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
        ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".logout", "config.fish",
        # Agents and Dragoman read these.
        ".mcp.json", ".claude.json", "opencode.json", "opencode.jsonc", "fastagent.config.yaml", "dragoman.toml",
        # Git and package managers read these.
        ".gitconfig", ".gitmodules", ".envrc", "dragoman.db",
    }
)  # fmt: skip
# Files that hold secrets: sensitive to read as well as to change.
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg"})
_SECRET_FILES = frozenset(
    {
        ".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".htpasswd", "credentials",
        "credentials.json", ".credentials.json", "oauth_creds.json", "auth.json", "secrets.json", "secrets.yaml",
        "secrets.yml", "secrets.toml", "fastagent.secrets.yaml", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
    }
)  # fmt: skip
_SECRET_ENDINGS = (".pem", ".key", ".p12", ".pfx", ".keystore")
_SECRET_PATHS = (".docker/config.json", ".kube/config", ".config/gh/hosts.yml", ".config/gcloud")
# `.env` and its variants, but for the ones that are written to be shared.
_ENV = re.compile(r"\.env(?:\.(?!example$|sample$|template$|dist$).*)?")
# What separates the words of a command, or of a sentence about one.
_BETWEEN_WORDS = re.compile(r"[\s'\"`=;|&<>(){}\[\],:]+")
_MOST_RESOLVED = 200


@dataclass(frozen=True)
class Places:
    """The workspace, and what is known of the machine around it. `resolve` says where a path leads."""

    workspace: tuple[str, ...] = ()
    home: str = "/"
    # Folders and files of Dragoman: its state and the user's configuration.
    own: tuple[str, ...] = ()
    resolve: Callable[[str], str] = os.path.normpath

    @classmethod
    def around(cls, workspace: Iterable[object], own: tuple[str, ...] = ()) -> Places:
        """The workspace on this machine, with paths looked up on its disk."""
        home = os.path.expanduser("~")  # noqa: PTH111 - Path's own fails without a home
        return cls(tuple(map(str, workspace)), home, own, os.path.realpath)

    def absolute(self, path: str, folder: str) -> str:
        """The path as a program in `folder` takes it."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return str(PurePosixPath(folder, path.removeprefix("file://")))

    def is_inside(self, path: str) -> bool:
        """Whether an absolute path lies in the workspace, by its words and by where it leads."""
        try:
            return all(
                any(_is_below(lead(path), lead(folder)) for folder in self.workspace)
                for lead in (os.path.normpath, self.resolve)
            )
        except ValueError:
            # Characters that no path can have.
            return False

    def why_changing(self, path: str) -> str | None:
        """Why a change at this absolute path is sensitive; None: it is not."""
        if (why := self._why_named(path, self._ways_to(path), changing=True)) is not None:
            return why
        return None if self.is_inside(path) else f"{path} is outside the workspace"

    def why_reading(self, path: str) -> str | None:
        return self._why_named(path, self._ways_to(path), changing=False)

    def why_mentioning(self, text: str, folder: str) -> str | None:
        """Why a command, or a sentence about one, is sensitive: a sensitive path is one of its words."""
        words = dict.fromkeys(
            word for word in _BETWEEN_WORDS.split(text) if word and not word.startswith("-")
        )
        resolved = 0
        for word in words:
            path = self.absolute(word, folder)
            # Only what looks like a path is looked up, and not without end: a command may have megabytes.
            looks_up = "/" in word and resolved < _MOST_RESOLVED
            resolved += looks_up
            ways = self._ways_to(path) if looks_up else iter((os.path.normpath(path),))
            if self._why_named(path, ways, changing=True) is not None:
                return f"it names {word}"
        return None

    def _why_named(self, path: str, ways: Iterator[str], *, changing: bool) -> str | None:
        """`ways` are the path by its words and, where it is looked up, by where it leads."""
        for plain in map(_plain, ways):
            if _is_secret(plain):
                return f"{path} may hold secrets"
            if any(_is_below(plain, own) for own in self._own_plain):
                return f"{path} belongs to Dragoman itself"
            if changing and _is_protected(self._below_workspace(plain)):
                return f"{path} is protected"
        return None

    def _below_workspace(self, plain: str) -> str:
        """The part of a path that lies below the workspace; all of it where it lies elsewhere.

        Agents keep checkouts in folders such as `.claude/worktrees`: work in one is ordinary work.
        """
        for root in self._roots:
            if _is_below(plain, root):
                return plain[len(root.rstrip("/")) :]
        return plain

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        return tuple(_plain(way) for folder in self.workspace for way in self._ways_to(folder))

    @cached_property
    def _own_plain(self) -> tuple[str, ...]:
        return tuple(_plain(way) for own in self.own for way in self._ways_to(own))

    def _ways_to(self, path: str) -> Iterator[str]:
        yield os.path.normpath(path)
        try:
            yield self.resolve(path)
        except (OSError, ValueError):
            return


def _plain(path: str) -> str:
    """As the most forgiving file system compares it: without case, and without what leaves no mark."""
    if path.isascii():
        return path.lower()
    folded = unicodedata.normalize("NFKC", path).casefold()
    return "".join(character for character in folded if not hides(character))


def _is_secret(plain: str) -> bool:
    parts = PurePosixPath(plain).parts
    name = parts[-1] if parts else ""
    return (
        not _SECRET_FOLDERS.isdisjoint(parts)
        or name in _SECRET_FILES
        or name.endswith(_SECRET_ENDINGS)
        or _ENV.fullmatch(name) is not None
        or any(f"/{path}/" in f"{plain}/" for path in _SECRET_PATHS)
    )


def _is_protected(plain: str) -> bool:
    parts = PurePosixPath(plain).parts
    return (
        any(part in _FOLDERS or part.startswith(_FOLDER_BEGINNINGS) for part in parts)
        or (bool(parts) and parts[-1] in _FILES)
        or "/.config/fish/" in f"{plain}/"
    )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
