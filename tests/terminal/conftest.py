"""A folder in which a chat takes place."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from terminal_screen import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with ExitStack() as opened:
        yield Folder(tmp_path, opened)
