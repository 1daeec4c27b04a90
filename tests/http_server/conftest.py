from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.backends.scripted import ScriptedReply, ScriptStep
from dragoman.lm import ModelInfo
from http_server.kit import Held, Site, scripted, site_of


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """A site with one scripted model, `m`, that stores."""
    with ExitStack() as stack:

        def made(
            *replies: ScriptedReply | ScriptStep | str, info: ModelInfo | None = None, **options: Any
        ) -> Site:
            models = Held(m=scripted(*replies, info=info))
            options = {"store": tmp_path, **options}
            return stack.enter_context(contextmanager(site_of)(models, **options))

        yield made
