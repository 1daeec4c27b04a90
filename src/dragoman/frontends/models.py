"""What a front end holds: the models that are configured."""

from __future__ import annotations

from typing import Protocol

from dragoman.backends.agent.grants import Grants
from dragoman.lm import LanguageModel, ModelInfo

__all__ = ["Models"]


class Models(Protocol):
    """The models that are configured, and what they share."""

    @property
    def grants(self) -> Grants: ...

    async def learn(self) -> None: ...

    def infos(self) -> tuple[ModelInfo, ...]: ...

    def get(self, model_id: str) -> LanguageModel: ...

    async def close(self) -> None: ...
