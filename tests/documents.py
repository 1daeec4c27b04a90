"""Reads a Markdown document into the items that have to be accounted for, each with a stable id and a digest.

An item is one of

- a *section*: its heading with the prose that is no item of its own, `004/3.2` or `003/design-decision`;
- a *row* of a table, named by its first cell, `004/3.2/Uniqueness`;
- an *entry* of a list, counted through the section and nested by a further number, `002/cancellation-flow/2/1`;
- a *rule*: a sentence of the prose with a word of obligation in it, `004/1.2/rule-1`;
- a fenced block of *code*, `001/tool-mode/code-1`. A fence that holds a numbered list is read as that list.

This is no Markdown parser. It is made for documents of this kind, and what matters is that the same text always
gives the same ids, and that every line belongs to an item.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

__all__ = ["Item", "heading_anchors", "items_of", "read_documents", "scenario_ids"]

_HEADING = re.compile(r"(#{1,6})\s+(.+)")
_ENTRY = re.compile(r"(\s*)(?:[-*]|\d+\.)\s+(.+)")
_FENCE = re.compile(r"\s*(`{3,})")
_RULER = re.compile(r"-{3,}")
_TABLE_RULER = re.compile(r"\|[\s|:-]+\|")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\*\*))\s+(?=[A-Z*`\"\[])")
_NUMBERED = re.compile(r"\d+(?:\.\d+)+(?=\s)")
_OBLIGATION = re.compile(
    r"\b(?:(?i:must|shall|should|may|cannot|requires?|required|always|never|every|not allowed|recommendation)|NOT)\b"
)
_SCENARIO = re.compile(r"\*{0,2}([A-Z]\d+)\b")

# Ten hexadecimal digits: no changed sentence passes by chance, and a person can still compare two of them.
_DIGEST_LENGTH = 10


@dataclass(frozen=True)
class Item:
    id: str
    text: str

    @property
    def digest(self) -> str:
        plain = " ".join(self.text.split())
        return hashlib.sha256(plain.encode()).hexdigest()[:_DIGEST_LENGTH]


def read_documents(folder: Path) -> dict[str, Item]:
    """The items of every document in a folder; a document is named by the three digits its file begins with."""
    files = sorted(folder.glob("[0-9][0-9][0-9]*"))
    return {item.id: item for path in files for item in items_of(path.name[:3], path.read_text("utf-8"))}


def items_of(name: str, markdown: str) -> list[Item]:
    """All items of the document `name`, section by section."""
    items = [item for section in _sections(name, markdown) for item in section.items()]
    doubled = sorted(id_ for id_, times in Counter(item.id for item in items).items() if times > 1)
    if doubled:
        raise ValueError(f"document {name} has several items named {', '.join(doubled)}")
    return items


def heading_anchors(markdown: str) -> set[str]:
    """The anchors that a Markdown page offers, as GitHub makes them."""
    seen: Counter[str] = Counter()
    anchors = set()
    for block in _blocks(markdown):
        if isinstance(block, _Heading):
            slug = _slug(block.title)
            anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return anchors


def scenario_ids(markdown: str) -> list[str]:
    """The ids in a list of scenarios, where one entry may hold several, set apart by a middle dot."""
    entries = [block.text for block in _blocks(markdown) if isinstance(block, _Entry)]
    pieces = chain.from_iterable(entry.split(" · ") for entry in entries)
    return [match[1] for piece in pieces if (match := _SCENARIO.match(piece))]


class _Heading(NamedTuple):
    level: int
    title: str


class _Entry(NamedTuple):
    indent: int
    text: str


class _Row(NamedTuple):
    cells: tuple[str, ...]


class _TableHead(NamedTuple):
    text: str


class _Code(NamedTuple):
    text: str


class _Paragraph(NamedTuple):
    text: str


_Block = _Heading | _Entry | _Row | _TableHead | _Code | _Paragraph


def _blocks(markdown: str) -> Iterator[_Block]:
    lines = markdown.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        begin = at
        at += 1
        if fence := _FENCE.match(line):
            while at < len(lines) and lines[at].strip() != fence[1]:
                at += 1
            at += 1
            yield from _fenced(lines[begin + 1 : at - 1])
        elif heading := _HEADING.fullmatch(line):
            yield _Heading(len(heading[1]), heading[2])
        elif line.startswith("|"):
            is_head = at < len(lines) and _TABLE_RULER.fullmatch(lines[at].strip())
            if is_head:
                yield _TableHead(line)
            elif not _TABLE_RULER.fullmatch(line.strip()):
                yield _Row(tuple(cell.strip() for cell in _CELL_BORDER.split(line.strip().strip("|"))))
        elif entry := _ENTRY.fullmatch(line):
            while at < len(lines) and lines[at].startswith(" ") and not _begins_block(lines[at]):
                at += 1
            yield _Entry(len(entry[1]), _joined([entry[2], *lines[begin + 1 : at]]))
        elif line.strip() and not _RULER.fullmatch(line):
            while at < len(lines) and not _begins_block(lines[at]):
                at += 1
            yield _Paragraph(_joined(lines[begin:at]))


def _fenced(lines: list[str]) -> Iterator[_Block]:
    """What a fence holds: a numbered list written as a block of text, or code."""
    text = "\n".join(lines)
    if text.startswith("1. "):
        yield from _blocks(text)
    else:
        yield _Code(text)


def _begins_block(line: str) -> bool:
    return (
        not line.strip()
        or line.startswith("|")
        or _FENCE.match(line) is not None
        or any(pattern.fullmatch(line) for pattern in (_HEADING, _ENTRY, _RULER))
    )


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)


@dataclass
class _Section:
    """One heading and what has been read below it so far."""

    id: str
    prose: list[str]
    _found: list[Item] = field(default_factory=list)
    # How often a name has been given: rules, code, and rows that begin alike.
    _named: Counter[str] = field(default_factory=Counter)
    # For each level of nesting its indentation and the number of entries so far.
    _levels: list[tuple[int, int]] = field(default_factory=list)

    def items(self) -> list[Item]:
        return [Item(self.id, " ".join(self.prose)), *self._found]

    def add(self, block: _Block) -> None:
        if isinstance(block, _Entry):
            self._add_entry(block)
            return
        # A list that begins after this one counts on: an id names the n-th entry of the section.
        del self._levels[1:]
        match block:
            case _Heading(title=text) | _TableHead(text):
                self.prose.append(text)
            case _Code(text):
                self._add(f"code-{self._count('code')}", text)
            case _Row(cells):
                name = re.sub(r"[*`\\]", "", cells[0]).strip()
                times = self._count(name)
                self._add(name if times == 1 else f"{name} ({times})", " | ".join(cells))
            case _Paragraph(text):
                for sentence in _SENTENCE_END.split(text):
                    if _OBLIGATION.search(sentence):
                        self._add(f"rule-{self._count('rule')}", sentence)
                    else:
                        self.prose.append(sentence)

    def _add_entry(self, entry: _Entry) -> None:
        while len(self._levels) > 1 and self._levels[-1][0] > entry.indent:
            self._levels.pop()
        if self._levels and self._levels[-1][0] >= entry.indent:
            self._levels[-1] = (entry.indent, self._levels[-1][1] + 1)
        else:
            self._levels.append((entry.indent, 1))
        self._add("/".join(str(count) for _, count in self._levels), entry.text)

    def _add(self, key: str, text: str) -> None:
        self._found.append(Item(f"{self.id}/{key}", text))

    def _count(self, name: str) -> int:
        self._named[name] += 1
        return self._named[name]


def _sections(name: str, markdown: str) -> Iterator[_Section]:
    section: _Section | None = None
    for block in _blocks(markdown):
        if isinstance(block, _Heading):
            if section is not None:
                yield section
            section = _Section(name if block.level == 1 else f"{name}/{_section_key(block.title)}", [])
        if section is None:
            raise ValueError(f"document {name} does not begin with a heading")
        section.add(block)
    if section is not None:
        yield section


def _section_key(title: str) -> str:
    if numbered := _NUMBERED.match(title):
        return numbered[0]
    # What follows a colon or stands in brackets explains the title and makes a long name.
    return _slug(re.split(r"\s*[:(]", title)[0])


def _slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
