"""Takes a command line apart into simple commands, and says what in it is not understood for certain.

tree-sitter-bash gives the structure. Only the node types named here are understood. Each word is read a second time
from its text (`words`), and between two nodes there may be nothing but white space: so a place where tree-sitter and a
shell disagree is not understood, instead of being misread. A command that runs another one (`wrappers`) is followed by
that one.

What is not understood does not end the reading: simple commands are still collected, because a *deny* rule may match
one of them.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from dragoman.policy.shell_builtins import doubts_about, is_program_name
from dragoman.policy.simple_command import Folders, Redirect, SimpleCommand
from dragoman.policy.words import NotUnderstood, Word, read_word
from dragoman.policy.wrappers import ShellScript, unwrap

__all__ = ["CommandLine", "read_line", "read_vector"]

# A person reads a command before they allow it. A longer one is asked about.
_LONGEST_LINE = 5_000
_MOST_COMMANDS = 200
# Commands within commands within commands: `bash -c "bash -c …"`, `$( … $( … ) )`.
_DEEPEST = 20
# After so many `cd` it is not worth knowing where a command may run.
_MOST_FOLDERS = 8

_BLANK = rb"(?:[ \t]|\\\n)*"
_BLANKS = re.compile(_BLANK)
_BLANKS_AND_LINES = re.compile(rb"(?:[ \t\n]|\\\n)*")
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})
_DUPLICATES = frozenset({">&", "<&"})
_CLOSES = frozenset({">&-", "<&-"})
_SOCKETS = ("/dev/tcp/", "/dev/udp/")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])|\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_EXPANSIONS = frozenset(
    {
        "simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion",
        "translated_string",
    }
)  # fmt: skip
_IN_WORDS = {
    "comment": "a comment, which an interactive zsh runs",
    "function_definition": "a function",
    "variable_assignment": "a variable that is set for the commands after it",
    "variable_assignments": "variables that are set for the commands after them",
    "declaration_command": "a variable that is set for the commands after it",
    "herestring_redirect": "a here-string",
    "heredoc_redirect": "a here-document",
    "test_command": "a test in brackets",
    "process_substitution": "a process substitution",
    "arithmetic_expansion": "arithmetic",
}


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The simple commands of a line. `unsure` says what is not understood: then the commands may not be all of them."""

    commands: tuple[SimpleCommand, ...]
    unsure: tuple[str, ...] = ()


def read_line(text: str, folder: str) -> CommandLine:
    """Take apart what a shell would run in `folder`."""
    reading = _Reading()
    reading.line(text, SimpleCommand((), folders=frozenset({folder})))
    return reading.result()


def read_vector(argv: Sequence[str], folder: str) -> CommandLine:
    """Take apart what runs without a shell."""
    reading = _Reading()
    reading.add(SimpleCommand(tuple(map(Word, argv)), folders=frozenset({folder})))
    return reading.result()


@dataclass(frozen=True, slots=True)
class _Folders:
    """Where the next command may run: if this one succeeded, and in any case."""

    after_success: Folders
    after: Folders


def _same(folders: Folders) -> _Folders:
    return _Folders(folders, folders)


def _in(around: SimpleCommand, folders: Folders) -> SimpleCommand:
    return around if folders == around.folders else replace(around, folders=folders)


def _either(one: Folders, other: Folders) -> Folders:
    if one is None or other is None or len(one | other) > _MOST_FOLDERS:
        return None
    return one | other


class _Reading:
    """Collects the commands of a line, and of the scripts in it."""

    def __init__(self) -> None:
        self.commands: list[SimpleCommand] = []
        # In order, each once.
        self._unsure: dict[str, None] = {}
        self._depth = 0

    def result(self) -> CommandLine:
        return CommandLine(tuple(self.commands), tuple(self._unsure))

    def doubt(self, what: str) -> None:
        self._unsure[what] = None

    def line(self, text: str, around: SimpleCommand) -> None:
        """Read a line or a script. Its commands get the variables, redirects and folders of `around`."""
        if len(text) > _LONGEST_LINE:
            self.doubt(f"more than {_LONGEST_LINE:,} characters")
            return
        if self._depth > _DEEPEST:
            self.doubt("commands that are nested too deeply")
            return
        try:
            source = text.encode()
        except UnicodeEncodeError:
            self.doubt("text that is not Unicode")
            return
        self._depth += 1
        _Line(self, source, around).read()
        self._depth -= 1

    def add(self, command: SimpleCommand, *, is_inner: bool = False) -> None:
        """Add a command and, if it runs another one, that one too."""
        if len(self.commands) >= _MOST_COMMANDS or self._depth > _DEEPEST:
            self.doubt("too many commands")
            return
        for what in doubts_about(command, is_inner=is_inner):
            self.doubt(what)
        try:
            inner = unwrap(command)
        except NotUnderstood as error:
            self.doubt(str(error))
            inner = None
        self.commands.append(command if inner is None else replace(command, is_wrapper=True))
        match inner:
            case SimpleCommand():
                self._depth += 1
                self.add(inner, is_inner=True)
                self._depth -= 1
            case ShellScript(text=text):
                size = len(self.commands)
                self.line(text, command)
                if len(self.commands) == size:
                    # No command carries the shell's variables and redirects to the rules.
                    self.doubt("a shell that runs nothing")
            case None:
                pass


class _Line:
    """Reads one line or script."""

    def __init__(self, reading: _Reading, source: bytes, around: SimpleCommand) -> None:
        self._reading = reading
        self._source = source
        self._around = around
        self._depth = 0

    def read(self) -> None:
        root = _parser().parse(self._source).root_node
        if root.has_error:
            self._doubt("syntax that is not bash's, or that tree-sitter does not know")
            self._search(root, self._around)
            return
        self._sequence(root.children, 0, len(self._source), self._around)

    def _doubt(self, what: str) -> None:
        self._reading.doubt(what)

    # --- Statements. -------------------------------------------------------------------------------------------------

    def _sequence(self, children: Sequence[Node], start: int, end: int, around: SimpleCommand) -> Folders:
        """Statements one after the other, between two places in the text. Returns where the next one may run."""
        before = folders = around.folders
        is_separated = True
        at = start
        for child in children:
            gap = self._source[at : child.start_byte]
            self._check(gap, _BLANKS_AND_LINES)
            is_separated = is_separated or b"\n" in gap
            at = child.end_byte
            match child.type:
                case ";" | "\n":
                    is_separated = True
                case "&":
                    # What runs in the background changes nothing here. Of a list, zsh runs only the end there.
                    is_separated, folders = True, _either(before, folders)
                case _:
                    if not is_separated and child.type != "comment":
                        self._doubt("two commands without an operator between them")
                    before = folders
                    folders = self._statement(child, _in(around, folders)).after
                    is_separated = False
        self._check(self._source[at:end], _BLANKS_AND_LINES)
        return folders

    def _statement(self, node: Node, around: SimpleCommand) -> _Folders:
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                self._doubt("commands that are nested too deeply")
                self._search(node, around)
                return _same(None)
            return self._known_statement(node, around)
        finally:
            self._depth -= 1

    def _known_statement(self, node: Node, around: SimpleCommand) -> _Folders:
        here = around.folders
        match node.type:
            case "command":
                return self._command(node, around)
            case "list":
                return self._list(node, around)
            case "pipeline":
                after = here
                for child in self._operands(node, {"|", "|&"}):
                    # zsh runs the last one in the shell itself.
                    after = _either(here, self._statement(child, around).after)
                return _same(after)
            case "redirected_statement":
                return self._redirected(node, around)
            case "negated_command":
                [_, *rest] = node.children
                if len(rest) == 1:
                    # `!x` is a program in bash.
                    self._check(self._source[node.start_byte + 1 : rest[0].start_byte], _BLANKS, is_wide=True)
                    return _same(self._statement(rest[0], around).after)
            case "subshell" if _is_between(node, "(", ")"):
                self._inside(node, around)
                return _same(here)
            case "compound_statement" if _is_between(node, "{", "}"):
                return _same(self._inside(node, around))
            case _:
                pass
        self._doubt(_IN_WORDS.get(node.type, f"“{node.type.replace('_', ' ')}”"))
        self._search(node, around)
        return _same(None)

    def _inside(self, node: Node, around: SimpleCommand) -> Folders:
        opening, *inner, closing = node.children
        if not inner:
            self._doubt("an empty group")
        elif opening.type == "{" and self._source[opening.end_byte : opening.end_byte + 1] not in b" \t\n":
            # `{x;}` is a group in zsh, and begins with the program `{x` in bash.
            self._doubt("a brace with a word behind it")
        return self._sequence(inner, opening.end_byte, closing.start_byte, around)

    def _list(self, node: Node, around: SimpleCommand) -> _Folders:
        operands = list(self._operands(node, {"&&", "||"}))
        operators = [child.type for child in node.children if child not in operands]
        result = self._statement(operands[0], around)
        for operator, operand in zip(operators, operands[1:], strict=False):
            if operator == "&&":
                right = self._statement(operand, _in(around, result.after_success))
                result = _Folders(right.after_success, _either(result.after, right.after))
            else:
                right = self._statement(operand, _in(around, result.after))
                result = _Folders(
                    _either(result.after_success, right.after_success), _either(result.after, right.after)
                )
        return result

    def _operands(self, node: Node, operators: set[str]) -> Iterator[Node]:
        """The statements of a list or pipeline, with one of these operators between each two."""
        at = node.start_byte
        is_operand = True
        for child in node.children:
            self._check(self._source[at : child.start_byte], _BLANKS_AND_LINES if is_operand else _BLANKS)
            at = child.end_byte
            if is_operand == (child.type in operators):
                self._doubt("an operator in an unusual place")
            if child.type not in operators:
                yield child
            is_operand = not is_operand
        if is_operand:
            self._doubt("an operator in an unusual place")

    def _redirected(self, node: Node, around: SimpleCommand) -> _Folders:
        body: Node | None = None
        redirects: list[Redirect] = []
        at = node.start_byte
        for child in node.children:
            self._check(self._source[at : child.start_byte], _BLANKS, is_wide=at != node.start_byte)
            at = child.end_byte
            if child.type.endswith("_redirect"):
                redirects += self._redirect(child, around)
            elif body is None and not redirects:
                body = child
            else:
                self._doubt("an unusual redirect")
        inner = replace(around, redirects=(*around.redirects, *redirects))
        if body is None:
            self._reading.add(inner)
            return _same(around.folders)
        result = self._statement(body, inner)
        if b"&>" in self._source[body.end_byte : node.end_byte]:
            # dash reads `cd x &> y` as `cd x & > y`: it changes no folder.
            return _same(_either(around.folders, result.after))
        return result

    # --- Commands. ---------------------------------------------------------------------------------------------------

    def _command(self, node: Node, around: SimpleCommand) -> _Folders:
        command = self._simple(node, around)
        self._reading.add(command)
        if not command.words or command.words[0] != Word("cd"):
            return _same(around.folders)
        new = _changed(command, around.folders)
        return _Folders(new, _either(around.folders, new))

    def _simple(self, node: Node, around: SimpleCommand) -> SimpleCommand:
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        at = node.start_byte
        for child in node.children:
            self._check(self._source[at : child.start_byte], _BLANKS, is_wide=at != node.start_byte)
            at = child.end_byte
            match child.type:
                case "variable_assignment" if not words:
                    assignments += self._assignment(child, around)
                case "command_name" if not words:
                    raw = _text(child)
                    if not is_program_name(raw):
                        self._doubt(f"“{raw[:20]}” in the place of a program")
                    words.append(self._word(child, around))
                case str() as kind if kind.endswith("_redirect"):
                    redirects += self._redirect(child, around)
                case _:
                    words.append(self._word(child, around))
        if at != node.end_byte:
            self._doubt("text behind a command")
        return replace(
            around,
            words=tuple(words),
            assignments=(*around.assignments, *assignments),
            redirects=(*around.redirects, *redirects),
        )

    def _assignment(self, node: Node, around: SimpleCommand) -> Iterator[tuple[str, Word]]:
        raw = _text(node)
        name = raw.partition("=")[0]
        parts, values = node.children[:2], node.children[2:]
        if (
            not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
            or [part.type for part in parts] != ["variable_name", "="]
            # The value is all that follows: tree-sitter takes `A=\  b` for a variable with the value `b`.
            or raw != f"{name}={''.join(map(_text, values))}"
            or len(values) > 1
        ):
            self._doubt("an unusual assignment")
            self._search(node, around)
        if "(" in raw or "`" in raw:
            # The variables before it are set for what runs in it.
            self._doubt("a substitution in an assignment")
        value = self._word(values[0], around) if values else Word(raw[len(name) + 1 :], "unknown")
        yield name, value if value.is_exact or not values else replace(value, kind="unknown")

    def _redirect(self, node: Node, around: SimpleCommand) -> Iterator[Redirect]:
        children = list(node.children)
        if children and children[0].type == "file_descriptor":
            # dash and zsh take one digit for a descriptor, and more for an argument.
            is_joined = len(children) > 1 and children[0].end_byte == children[1].start_byte
            if not re.fullmatch("[0-9]", _text(children[0])) or not is_joined:
                self._doubt("an unusual redirect")
            del children[0]
        kinds = [child.type for child in children]
        if node.type != "file_redirect" or not kinds:
            self._doubt(_IN_WORDS.get(node.type, "an unusual redirect"))
            self._search(node, around)
            return
        operator = kinds[0]
        if operator in _CLOSES and len(kinds) == 1:
            return
        if operator not in _WRITES | {"<", "<&"} or len(kinds) != 2:  # noqa: PLR2004 - an operator and a target
            # What follows the target belongs to the command, and stands here in the tree.
            self._doubt("words behind a redirect" if len(kinds) > 2 else "an unusual redirect")  # noqa: PLR2004
            self._search(node, around)
            for child in children[1:]:
                yield Redirect(self._word(child, around), is_write=True)
            return
        self._check(self._source[children[0].end_byte : children[1].start_byte], _BLANKS)
        target = self._word(children[1], around)
        if _text(children[1]).startswith("!") or target.text.startswith(_SOCKETS):
            # zsh knows an operator `>!`, and bash connects to these.
            self._doubt("an unusual redirect")
        if operator in _DUPLICATES:
            if re.fullmatch("[0-9]+", _text(children[1])):
                return
            # bash expands such a target twice: `>&'$(rm x)'` runs rm.
            self._doubt("a file behind >&")
        if target != Word("/dev/null"):
            yield Redirect(target, is_write=operator != "<")

    # --- Words. ------------------------------------------------------------------------------------------------------

    def _word(self, node: Node, around: SimpleCommand) -> Word:
        raw = _text(node)
        expansions = list(_expansions(node))
        try:
            if not expansions:
                return read_word(raw)
            pieces: list[str] = []
            at = node.start_byte
            for expansion, start in expansions:
                pieces.append(self._source[at:start].decode())
                self._expansion(expansion, start, around)
                at = expansion.end_byte
            pieces.append(self._source[at : node.end_byte].decode())
            # The rest must be a word by itself, with a letter in the place of each expansion.
            read_word("x".join(pieces))
        except NotUnderstood as error:
            self._doubt(str(error))
        return Word(raw, "unknown")

    def _expansion(self, node: Node, start: int, around: SimpleCommand) -> None:
        raw = self._source[start : node.end_byte].decode()
        if node.type in ("simple_expansion", "expansion") and _VARIABLE.fullmatch(raw):
            return
        if node.type == "command_substitution" and raw.startswith("$(") and _is_between(node, "$(", ")"):
            # It runs before the command does, without its variables and redirects.
            self._depth += 1
            if self._depth <= _DEEPEST:
                self._inside(node, replace(self._around, folders=around.folders))
                self._depth -= 1
                return
            self._depth -= 1
        self._doubt(_IN_WORDS.get(node.type, f"“{raw[:20]}”"))
        self._search(node, around)

    # --- The rest. ---------------------------------------------------------------------------------------------------

    def _check(self, gap: bytes, allowed: re.Pattern[bytes], *, is_wide: bool = False) -> None:
        """Between two nodes may be white space only; `is_wide`: and there must be some."""
        if not allowed.fullmatch(gap):
            self._doubt("text that tree-sitter passes over")
        elif is_wide and not (b" " in gap or b"\t" in gap):
            self._doubt("words that are not clearly separate")

    def _search(self, node: Node, around: SimpleCommand) -> None:
        """Collect the simple commands below a node that is not understood, as far as they can be read."""
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if each.type in ("command", "declaration_command", "unset_command"):
                words = tuple(_roughly(child) for child in each.children)
                self._reading.add(replace(around, words=words, folders=None))
            waiting += each.children


def _roughly(node: Node) -> Word:
    raw = _text(node)
    try:
        return read_word(raw)
    except NotUnderstood:
        return Word(raw, "unknown")


def _changed(command: SimpleCommand, folders: Folders) -> Folders:
    """Where a `cd` leads; None if that is not known."""
    if folders is None or command.assignments or len(command.words) != 2:  # noqa: PLR2004 - cd and a folder
        # A variable may be CDPATH, which leads elsewhere.
        return None
    target = command.words[1]
    if target.kind == "home":
        return frozenset({target.text})
    if not target.is_exact or target.text.startswith("-") or not target.text:
        return None
    return frozenset(os.path.join(folder, target.text) for folder in folders)  # noqa: PTH118 - `..` stays


def _expansions(node: Node) -> Iterable[tuple[Node, int]]:
    """The outermost expansions in a word, and where each begins: some begin with white space in the tree."""
    if node.type in _EXPANSIONS:
        text = node.text or b""
        yield node, node.start_byte + len(text) - len(text.lstrip())
        return
    for child in node.children:
        yield from _expansions(child)


def _is_between(node: Node, opening: str, closing: str) -> bool:
    kinds = [child.type for child in node.children]
    return len(kinds) > 1 and kinds[0] == opening and kinds[-1] == closing


def _text(node: Node) -> str:
    return (node.text or b"").decode()


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))
