import io
from collections.abc import Callable

import pytest

from own_home import home

__all__ = ["home"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], io.StringIO]:
    """Somebody at a terminal who types this; what they see."""

    def at_terminal(text: str) -> io.StringIO:
        screen = _Terminal()
        monkeypatch.setattr("sys.stdin", _Terminal(text))
        monkeypatch.setattr("sys.stderr", screen)
        return screen

    return at_terminal
