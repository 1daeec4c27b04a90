"""Pairing codes in the terminal of `dragoman serve`, and the keys that make new ones.

A code comes only from here, or from a session that may decide. No command, file or variable makes one: an agent of the same
user could use those. It could not press a key in this terminal without control over the terminal itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dragoman.config import ClientKey
from dragoman.frontends.console.console import Console
from dragoman.frontends.console.pairing import NewCode
from dragoman.frontends.console.qr_code import terminal_qr
from dragoman.frontends.console.sessions import ConsoleScope, ConsoleSession

__all__ = ["CodeDialogue", "code_text"]

_State: TypeAlias = Literal["idle", "choosing", "confirming"]

# One key press chooses: 0 is for all conversations, these are for the keys.
_CHOICES = "123456789abcdefghijklmnopqrstuvwxyz"
_HELP = "Press p for a new code, r to sign all browsers out."


def code_text(console: Console, code: NewCode) -> str:
    """A code with what a person needs to know about it."""
    until = time.strftime("%H:%M:%S", time.localtime(time.time() + code.seconds))
    scope = code.pairing.scope
    whose = f" for the conversations of {scope.key}" if not scope.sees_all else ""
    if scope.sees_all and console.keys:
        whose = " for all conversations"
    return f"pairing code{whose}: {code.text} (valid once, until {until})\nor open {console.link(code)}"


@dataclass(slots=True)
class CodeDialogue:
    """What is printed, and what a key press does. `show` prints a text and a line's end."""

    console: Console
    show: Callable[[str], None]
    # Whether the terminal can show a QR code.
    can_show_qr: bool = True
    # Whether keys can be read.
    has_keys: bool = True
    _state: _State = field(default="idle", init=False)

    def begin(self) -> None:
        console = self.console
        has_two = console.config.url is not None
        here = f", and on this machine at {console.local_address}" if has_two else ""
        self.show(f"the console is at {console.address}{here}")
        self._new_code(ConsoleScope())
        if self.has_keys:
            self.show(_HELP)
        self.console.on_paired = self._paired

    def press(self, key: str) -> None:
        state, self._state = self._state, "idle"
        match state, key:
            case "idle", "p" | "P":
                self._ask_scope()
            case "idle", "r" | "R":
                self._ask_revoke()
            case "idle", "\n" | "\r" | "?":
                self.show(_HELP)
            case "idle", _:
                pass
            case "choosing", "0":
                self._new_code(ConsoleScope())
            case "choosing", _ if (chosen := _chosen(self.console.keys, key)) is not None:
                self._new_code(self.console.scope(chosen.name) or ConsoleScope())
            case "confirming", "y" | "Y":
                count = self.console.revoke_all()
                self.show(f"signed out: {count}. Earlier codes are not valid any longer.")
            case _:
                self.show("nothing was done.")

    def _ask_scope(self) -> None:
        if not self.console.keys:
            self._new_code(ConsoleScope())
            return
        listed = ["0  administrator (all conversations)"]
        for choice, key in zip(_CHOICES, self.console.keys, strict=False):
            listed.append(f"{choice}  {key.name}{' (all conversations)' if key.role == 'admin' else ''}")
        if len(self.console.keys) > len(_CHOICES):
            listed.append("For the other keys, pair a browser as administrator and make their codes there.")
        self.show("for whom is the code?\n" + "\n".join(f"  {each}" for each in listed))
        self._state = "choosing"

    def _ask_revoke(self) -> None:
        count = len(self.console.sessions.all())
        if not count and not len(self.console.codes):
            self.show("no browser is paired.")
            return
        self.show(f"sign out all paired browsers ({count}) and end all codes? y, or any other key for no")
        self._state = "confirming"

    def _new_code(self, scope: ConsoleScope) -> None:
        code = self.console.new_code("decide", scope)
        # Without `url` the address is one of this machine, and a phone that reads it looks for the console on itself.
        if self.can_show_qr and self.console.config.url is not None:
            self.show(terminal_qr(self.console.link(code)))
        self.show(code_text(self.console, code))

    def _paired(self, session: ConsoleSession) -> None:
        """Say so where the person looks: a session that they do not know of should not go unnoticed."""
        whose = "all conversations" if session.scope.sees_all else f"conversations of {session.scope.key}"
        self.show(f"paired: {session.name} ({session.role}, {whose})")


def _chosen(keys: Sequence[ClientKey], pressed: str) -> ClientKey | None:
    index = _CHOICES.find(pressed.lower()) if pressed else -1
    return keys[index] if 0 <= index < len(keys) else None
