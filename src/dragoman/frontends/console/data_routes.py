"""The routes of the console's data, for the application."""

from __future__ import annotations

from starlette.routing import BaseRoute

from dragoman.frontends.console.conversation_routes import conversation_routes
from dragoman.frontends.console.data import ConsoleData
from dragoman.frontends.console.question_routes import question_routes

__all__ = ["data_routes"]


def data_routes(data: ConsoleData) -> list[BaseRoute]:
    return [*question_routes(data), *conversation_routes(data)]
