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
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain
from pathlib import PurePosixPath
from urllib.parse import unquote

from dragoman.visible import hides

__all__ = ["Places", "SensitivePathScan"]

# Folders in which a change alters what programs do: hooks, editor tasks, start-up files, agents' own settings and
# instructions.
_FOLDERS = frozenset(
    {
        ".git", ".githooks", ".husky", ".vscode", ".idea", ".devcontainer", ".ssh", ".gnupg",
        ".zed", ".agents", ".amazonq", ".augment", ".claude", ".clinerules", ".codex", ".continue", ".copilot", ".crush",
        ".cursor", ".fast-agent", ".gemini", ".goose", ".junie", ".kiro", ".opencode", ".qwen", ".roo", ".windsurf",
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
        # Agents follow the instructions in these, also below the workspace's own folder.
        "agents.md", "agents.override.md", "agent.md", "claude.md", "claude.local.md", "crush.md", "gemini.md", "qwen.md",
        ".cursorrules", ".goosehints", ".rules", ".windsurfrules", ".aider.conf.yml",
        # Git, direnv and Dragoman read these.
        ".gitconfig", ".gitmodules", ".gitattributes", ".envrc", "dragoman.db",
        # Package managers, pre-commit and development containers read these: they name programs to run.
        ".yarnrc.yml", ".pre-commit-config.yaml", ".devcontainer.json",
    }
)  # fmt: skip
_ENDINGS = (".code-workspace",)
# Each with what is in it.
_PROTECTED_PATHS = (
    ".config/fish", ".github/workflows", ".cargo/config.toml", ".cargo/config",
    # Instructions for VS Code's chat and for GitHub's agents.
    ".github/copilot-instructions.md", ".github/instructions", ".github/prompts", ".github/agents", ".github/chatmodes",
    ".github/skills", ".github/hooks",
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
_ENV = re.compile(r"\.env(?:\.(?!example$|sample$|template$|dist$).*)?|(?!example|sample|template).*\.env")
# What separates the words of a command, or of a sentence about one; and of patterns, in which brackets mean something.
_BETWEEN_WORDS = re.compile(r"[\s'\"`=;|&<>(){}\[\],:]+")
_BETWEEN_PATTERNS = re.compile(r"[\s'\"`=;|&<>(),:]+")
_QUOTES = re.compile(r"['\"\\]")
_PATTERN = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{.*\}|\[.*\]")
# What may stand before a path in a word: an option (`-f.env`), curl's sign for a file (`@.env`).
_BEFORE_A_PATH = re.compile(r"-\w|[@\\]+")
_FILE_ADDRESS = re.compile(r"file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)
# Of all texts of a request together. More than this is not checked, and counts as sensitive.
_MOST_CHARACTERS = 200_000
_MOST_RESOLVED = 200
_LONGEST_WORD = 4_096


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
        """The path as a program in `folder` takes it. Another user's home and a variable count as outside."""
        if (address := _FILE_ADDRESS.match(path)) is not None:
            path = unquote(path[address.end() :])
        for home in ("~", "$HOME", "${HOME}"):
            if path == home or path.startswith(f"{home}/"):
                path = self.home + path[len(home) :]
        if path.startswith(("~", "$")):
            path = f"/{path}"
        return str(PurePosixPath(folder, path))

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
        if (why := self.why_named(path, self.ways_to(path), changing=True)) is not None:
            return why
        return None if self.is_inside(path) else f"{path} is outside the workspace"

    def why_reading(self, path: str) -> str | None:
        return self.why_named(path, self.ways_to(path), changing=False)

    def why_mentioning(self, text: str, folder: str) -> str | None:
        """Why a command, or a sentence about one, is sensitive: a sensitive path is one of its words."""
        return SensitivePathScan(self, folder).why([text])

    def why_named(self, path: str, ways: Iterator[str], *, changing: bool) -> str | None:
        """`ways` are the path by its words and, where it is looked up, by where it leads."""
        for plain in map(_plain, ways):
            if _is_secret(plain):
                return f"{path} may hold secrets"
            if self._is_own_plain(plain):
                return f"{path} belongs to Dragoman itself"
            if changing and _is_protected(self._below_workspace(plain)):
                return f"{path} is protected"
        return None

    def is_own(self, ways: Iterable[str]) -> bool:
        """Whether one of the ways to a path leads to a file of Dragoman: its configuration, its state."""
        return any(map(self._is_own_plain, map(_plain, ways)))

    def has_own_below(self, path: str) -> bool:
        """Whether an absolute path is a file of Dragoman, or a folder with one in it."""
        ways = tuple(map(_plain, self.ways_to(path)))
        return any(_is_below(own, way) or _is_below(way, own) for own in self._own_plain for way in ways)

    def may_be_own(self, pattern: str) -> bool:
        """Whether a shell may put a file of Dragoman in the place of a pattern."""
        plain = _BRACES.sub("*", _plain(os.path.normpath(pattern)))
        return any(fnmatchcase(own, plain) for own in self._own_plain)

    def _is_own_plain(self, plain: str) -> bool:
        return any(_is_below(plain, own) for own in self._own_plain)

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
        return tuple(_plain(way) for folder in self.workspace for way in self.ways_to(folder))

    @cached_property
    def _own_plain(self) -> tuple[str, ...]:
        return tuple(_plain(way) for own in self.own for way in self.ways_to(own))

    def ways_to(self, path: str) -> Iterator[str]:
        yield os.path.normpath(path)
        if "%" in path:
            yield os.path.normpath(unquote(path))
        try:
            yield self.resolve(path)
        except (OSError, ValueError):
            return


class SensitivePathScan:
    """Looks for sensitive paths among the words of all texts of one request, within a limit for all of them."""

    def __init__(self, places: Places, folder: str, *, changing: bool = True, is_own: bool = False) -> None:
        """`is_own`: look for Dragoman's own files only."""
        self._is_own = is_own
        self._places = places
        self._changing = changing
        self._folder = folder
        self._resolved = 0

    def why(self, texts: Iterable[str]) -> str | None:
        left = _MOST_CHARACTERS
        seen: set[str] = set()
        for text in texts:
            left -= len(text)
            if left < 0:
                return f"it has more than {_MOST_CHARACTERS:,} characters, too many to check for paths"
            for word in self._words(text):
                if word not in seen:
                    seen.add(word)
                    if self._is_sensitive(word):
                        return f"it names {word}"
            if self._resolved > _MOST_RESOLVED:
                return f"it names more than {_MOST_RESOLVED} paths, too many to check"
        return None

    def _words(self, text: str) -> Iterator[str]:
        yield from filter(None, _BETWEEN_WORDS.split(text))
        if _QUOTES.search(text):
            # A shell joins what stands on both sides of a quote: `.e''nv`.
            yield from filter(None, _BETWEEN_WORDS.split(_QUOTES.sub("", text)))
        if _PATTERN.search(text):
            yield from (word for word in _BETWEEN_PATTERNS.split(text) if _PATTERN.search(word))

    def _is_sensitive(self, word: str) -> bool:
        before = _BEFORE_A_PATH.match(word)
        bare = (word if before is None else word[before.end() :]).replace("\\", "")
        if len(bare) > _LONGEST_WORD or not bare:
            return False
        if _PATTERN.search(bare):
            is_own = self._places.may_be_own(self._places.absolute(bare, self._folder))
            return is_own or (not self._is_own and _may_match(bare, changing=self._changing))
        path = self._places.absolute(bare, self._folder)
        # Only what looks like a path is looked up, and a link, which may lead anywhere.
        looks_up = ("/" in bare or os.path.islink(path)) and self._resolved <= _MOST_RESOLVED  # noqa: PTH114 - any text
        self._resolved += looks_up
        ways = self._places.ways_to(path) if looks_up else iter((os.path.normpath(path),))
        unquoted = iter((os.path.normpath(unquote(path)),)) if "%" in path else iter(())
        if self._is_own:
            return self._places.is_own(chain(ways, unquoted))
        return self._places.why_named(path, chain(ways, unquoted), changing=self._changing) is not None


def _may_match(pattern: str, *, changing: bool) -> bool:
    """Whether a pattern of a shell can stand for a name that is listed here. A star does not stand for a leading dot."""
    name = _plain(pattern.rstrip("/").rpartition("/")[2])
    if not name or name[0] not in ".[?{":
        return changing and any(
            _is_protected(f"/{part}") for part in _plain(pattern).split("/") if not _PATTERN.search(part)
        )
    names = [
        *_SECRET_FOLDERS,
        *_SECRET_FILES,
        ".env",
        ".env.local",
        *([*_FOLDERS, *_FILES] if changing else []),
    ]
    return any(fnmatchcase(each, name) for each in names)


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
        or (bool(parts) and (parts[-1] in _FILES or parts[-1].endswith(_ENDINGS)))
        or any(f"/{path}/" in f"{plain}/" for path in _PROTECTED_PATHS)
    )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
