"""What belongs to the agent, for the editor: its options, its commands, and how to log in.

Options are chosen without state here: a request carries the chosen values (`options.modelConfiguration`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dragoman.frontends.vscode.protocol import AskOffer, LogIn, decoded
from dragoman.jsonrpc import Incoming
from dragoman.lm import LanguageModelError, until_cancelled
from dragoman.lm.offering import ModelOffer, OfferingModel
from dragoman.models import AgentSource

__all__ = ["AgentHandlers"]


class AgentHandlers:
    def __init__(self, models: AgentSource, folder: Callable[[], str | None]) -> None:
        """`folder` is the first one of the editor's workspace."""
        self._models = models
        self._folder = folder

    @property
    def rows(self) -> dict[str, Callable[[Incoming], Awaitable[object]]]:
        return {"agent/options": self._options, "agent/logins": self._logins, "agent/login": self._log_in}

    async def _options(self, incoming: Incoming) -> object:
        """What the agent offers. With `look`, it is started if no session of it has reported anything yet."""
        wanted = decoded(incoming.params, AskOffer)
        model = self._models.offering(wanted.model_id)
        if model is None:
            return ModelOffer()
        offer = model.offer
        if wanted.look and not (offer.options or offer.commands):
            offer = await until_cancelled(model.look(self._folder()), incoming.token)
        return offer

    async def _logins(self, incoming: Incoming) -> object:
        model = self._model(decoded(incoming.params, AskOffer).model_id)
        if not model.offer.logins:
            try:
                await until_cancelled(model.look(self._folder()), incoming.token)
            except LanguageModelError:
                if not model.offer.logins:
                    raise
        return {"logins": model.offer.logins}

    async def _log_in(self, incoming: Incoming) -> object:
        wanted = decoded(incoming.params, LogIn)
        await until_cancelled(self._model(wanted.model_id).log_in(wanted.method_id), incoming.token)
        return {}

    def _model(self, model_id: str) -> OfferingModel:
        model = self._models.offering(model_id)
        if model is None:
            raise LanguageModelError(
                "bad_request", f"“{model_id}” is no agent: it has no login.", hint="Choose an agent."
            )
        return model
