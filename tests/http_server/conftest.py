from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.backends.scripted import ScriptedReply, ScriptStep
from dragoman.lm import GuardedModel, ModelInfo, Part
from http_server.kit import Held, Site, scripted, site_of
from lm.providers import plays


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


@pytest.fixture
def playing(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """A site with one model, `m`, that reports these parts and then fails or not. It stores."""
    with ExitStack() as stack:

        def made(*parts: Part, then: BaseException | None = None) -> Site:
            models = Held(m=GuardedModel(plays(*parts, then=then)))
            return stack.enter_context(contextmanager(site_of)(models, store=tmp_path))

        yield made
