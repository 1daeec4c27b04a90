"""QR codes of pairing links, for the page and for a terminal."""

from __future__ import annotations

__all__ = ["half_blocks", "qr_rows"]

# The light border that readers need. The standard asks for four; two do in a terminal, whose lines are dear.
_BORDER = 2
# Upper and lower half of a character: dark or not.
_BLOCKS = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
# Black on white whatever the terminal's own colours are: not every reader knows light on dark.
_COLOURS = "\x1b[30;107m"
_PLAIN = "\x1b[0m"


def qr_rows(text: str) -> list[str]:
    """The rows of a QR code without its border: `1` is dark."""
    import segno  # noqa: PLC0415 - only when a code is shown

    code = segno.make(text, error="m", micro=False)
    return ["".join("1" if module else "0" for module in row) for row in code.matrix]


def half_blocks(rows: list[str]) -> list[str]:
    """Lines for a terminal, two rows each."""
    width = len(rows[0]) + 2 * _BORDER
    light = ["0" * width] * _BORDER
    side = "0" * _BORDER
    framed = [*light, *(f"{side}{row}{side}" for row in rows), *light]
    if len(framed) % 2:
        framed.append("0" * width)
    return [
        _COLOURS
        + "".join(
            _BLOCKS[above == "1", below == "1"] for above, below in zip(framed[i], framed[i + 1], strict=True)
        )
        + _PLAIN
        for i in range(0, len(framed), 2)
    ]
