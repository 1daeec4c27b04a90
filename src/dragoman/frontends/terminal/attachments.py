"""What goes along with a prompt: the files that it names with `@`, and pictures.

Only what the user names, and only what is there:

- An agent gets a link to the file, and reads it under its own permissions, as it does with other editors.
- Any other model gets the content of a text file in the workspace. A file that may hold secrets, or is outside, or is too
  large, stays a path: the model can ask to read it, with a tool.
- A picture goes along where the model takes pictures, also from outside of the workspace: people drag screenshots into the
  terminal.

The prompt itself is not changed. A line for each file says what the model gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.frontends.terminal.mentions import PathInPrompt, mentions, pictures
from dragoman.lm import DataPart
from dragoman.permissions.sensitive import Places
from dragoman.regular_file import read_regular
from dragoman.tools.builtin.workspace import is_binary

__all__ = ["Attachments", "ModelTakes", "attachments"]

# About 25,000 tokens, as much as other tools read of a file at once.
_MOST_TEXT_BYTES = 100_000
# The limit of Anthropic's API for a picture; other providers take more.
_MOST_PICTURE_BYTES = 5 * 1024 * 1024
# With more, the user has pasted something.
_MOST_FILES = 20
_SIGNATURE_BYTES = 12
_KILOBYTE = 1_000


@dataclass(frozen=True, slots=True)
class ModelTakes:
    """What a model takes."""

    name: str
    is_agent: bool
    pictures: bool


@dataclass(frozen=True, slots=True)
class Attachments:
    parts: tuple[DataPart, ...] = ()
    # What goes along, a line for each; and what does not, and why.
    sent: tuple[str, ...] = ()
    not_sent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Result:
    part: DataPart | None
    words: str


def attachments(prompt: str, places: Places, folder: Path, takes: ModelTakes) -> Attachments:
    """What goes along with a prompt that is typed in `folder`."""
    found = tuple(_results(prompt, _Reader(places, folder, takes)))
    return Attachments(
        tuple(each.part for each in found if each.part is not None),
        tuple(each.words for each in found if each.part is not None),
        tuple(each.words for each in found if each.part is None),
    )


def _results(prompt: str, reader: _Reader) -> Iterator[_Result]:
    seen: set[Path] = set()
    named = [*((each, True) for each in mentions(prompt)), *((each, False) for each in pictures(prompt))]
    for at, (path, is_mention) in enumerate(named):
        if at >= _MOST_FILES:
            yield _Result(None, f"More than {_MOST_FILES} files are named; the rest stay text.")
            return
        file = reader.find(path)
        if file is None:
            if is_mention:
                yield _Result(None, f"There is no file {path.plain}: @{path.plain} stays text.")
        elif file not in seen:
            seen.add(file)
            if (result := reader.read(file, is_mention=is_mention)) is not None:
                yield result


class _Reader:
    def __init__(self, places: Places, folder: Path, takes: ModelTakes) -> None:
        self._places = places
        self._folder = folder
        self._takes = takes

    def find(self, path: PathInPrompt) -> Path | None:
        """The file or folder that is meant, if it is there."""
        for each in (path.path, path.plain):
            file = Path(self._places.absolute(each, str(self._folder)))
            try:
                if file.exists():
                    return file
            except (OSError, ValueError):
                # Too long for a path, or with characters that none can have.
                continue
        return None

    def read(self, file: Path, *, is_mention: bool) -> _Result | None:
        label = self._label(file)
        if not file.is_file():
            return self._path_only(file, f"{label}, a folder") if is_mention else None
        try:
            kind = _picture_type(file)
        except OSError as error:
            return _Result(None, f"{label} cannot be read: {error.strerror}. It stays text.")
        if kind is not None:
            return self._picture(file, kind, label)
        if not is_mention:
            return None
        return self._path_only(file, label) if self._takes.is_agent else self._text(file, label)

    def _picture(self, file: Path, kind: str, label: str) -> _Result:
        if not self._takes.pictures:
            why = f"{self._takes.name} takes no pictures"
        else:
            try:
                data = read_regular(file, _MOST_PICTURE_BYTES)
            except OSError as error:
                why = f"{error.strerror}"
            else:
                part = DataPart(kind, data, name=file.name)
                return _Result(part, f"{label}, a picture of {_size(len(data))}")
        return self._path_only(file, f"{label} goes along as a path only: {why}")

    def _path_only(self, file: Path, words: str) -> _Result:
        # Any other model reads the path in the prompt; it has tools that take it.
        part = DataPart.link(file.as_uri(), self._label(file)) if self._takes.is_agent else None
        return _Result(part, words)

    def _text(self, file: Path, label: str) -> _Result:
        if not self._places.is_inside(str(file)):
            return _Result(None, f"{label} is outside of this folder, so the model gets its path only.")
        if (why := self._places.why_reading(str(file))) is not None:
            return _Result(None, f"{why}, so the model gets its path only.")
        try:
            data = read_regular(file, _MOST_TEXT_BYTES)
        except OSError as error:
            return _Result(None, f"{label}: {error.strerror}. The model gets its path only.")
        if is_binary(data):
            return _Result(None, f"{label} is no text, so the model gets its path only.")
        return _Result(DataPart("text/plain", data, name=label), f"{label}, {_size(len(data))}")

    def _label(self, file: Path) -> str:
        try:
            return str(file.relative_to(self._folder)) + ("/" if file.is_dir() else "")
        except ValueError:
            return str(file)


def _picture_type(file: Path) -> str | None:
    """The type of a picture, by its first bytes: a name may say anything."""
    with file.open("rb") as opened:
        start = opened.read(_SIGNATURE_BYTES)
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return None


def _size(count: int) -> str:
    return f"{count:,} bytes" if count < _KILOBYTE else f"{count / _KILOBYTE:,.0f} kB"
