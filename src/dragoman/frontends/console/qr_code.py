"""QR codes of pairing links, for the page and for a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import segno

__all__ = ["qr_rows", "terminal_qr"]

# The light border that readers need. The standard asks for four; two do in a terminal, whose lines are dear.
_BORDER = 2
# The blocks are light, on black whatever the terminal's own colours are: not every reader knows light on dark.
_COLOURS = "\x1b[97;40m"
_PLAIN = "\x1b[0m"


def qr_rows(text: str) -> list[str]:
    """The rows of a QR code without its border: `1` is dark."""
    return ["".join("1" if module else "0" for module in row) for row in _made(text).matrix]


def terminal_qr(text: str) -> str:
    """Lines for a terminal, of two rows each."""
    drawn = io.StringIO()
    _made(text).terminal(drawn, border=_BORDER, compact=True)
    return "\n".join(f"{_COLOURS}{line}{_PLAIN}" for line in drawn.getvalue().splitlines())


def _made(text: str) -> segno.QRCode:
    import segno  # noqa: PLC0415 - only when a code is shown

    return segno.make(text, error="m", micro=False)
