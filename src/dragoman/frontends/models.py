"""What a front end holds: the models that are configured."""

from __future__ import annotations

from typing import Protocol

from dragoman.lm import LanguageModel, ModelInfo
from dragoman.permissions.pipeline import Permissions

__all__ = ["Models"]


class Models(Protocol):
    """The models that are configured, and what they share."""

    @property
    def permissions(self) -> Permissions: ...

    async def learn(self) -> None: ...

    def infos(self) -> tuple[ModelInfo, ...]: ...

    def get(self, model_id: str) -> LanguageModel: ...

    async def close(self) -> None: ...
