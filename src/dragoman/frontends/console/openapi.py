"""The console's calls in the OpenAPI description of the server."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.frontends.console.access import TOKEN_HEADER
from dragoman.frontends.console.routes import DecisionBody, PairBody, PairingBody, SeenBody
from dragoman.frontends.console.wire import API_ROOT
from dragoman.lm import JsonObject

__all__ = ["CONSOLE_BODIES", "CONSOLE_SCHEMAS", "CONSOLE_SECURITY", "console_paths"]

_JSON = "application/json"

# In the order in which `console_paths` gets their descriptions.
CONSOLE_BODIES = (PairBody, PairingBody, SeenBody, DecisionBody)

CONSOLE_SCHEMAS: JsonObject = {
    "ConsoleError": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
            },
            "outcome": {"description": "How a question ended that was decided or is over.", "type": "object"},
        },
    }
}
CONSOLE_SECURITY: JsonObject = {
    "consoleToken": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER},
    "consoleCookie": {"type": "apiKey", "in": "cookie", "name": "dragoman-console-PORT"},
}


def console_paths(bodies: Sequence[JsonObject]) -> JsonObject:
    """The paths of the console's API. A call needs a session: its token and its cookie."""
    pair, pairing, seen, decision = bodies
    by_id: JsonObject = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    list_query = [_query(name) for name in ("model", "client", "state")]
    paths: dict[str, JsonObject] = {
        "pair": {"post": _operation("Exchange a pairing code for a session.", pair, is_open=True)},
        "pairing": {"post": _operation("Make a pairing code for another device.", pairing)},
        "sessions": {"get": _operation("List the paired sessions.")},
        "sessions/{id}": {"delete": _operation("End a session; `self` signs out.", parameters=[by_id])},
        "events": {"get": _operation("The event stream.", streams=True, parameters=[_LAST_EVENT])},
        "seen": {"post": _operation("Acknowledge a beat of the event stream.", seen)},
        "questions/{id}": {"get": _operation("Return a question with all of its text.", parameters=[by_id])},
        "questions/{id}/decision": {"post": _operation("Decide a question.", decision, parameters=[by_id])},
        "conversations": {
            "get": _operation("List conversations.", parameters=[*list_query, _query("before", "number")])
        },
        "conversations/{id}": {
            "get": _operation(
                "Return the entries of a conversation.", parameters=[by_id, _query("after", "integer")]
            ),
            "delete": _operation("Delete a conversation.", parameters=[by_id]),
        },
        "conversations/{id}/stop": {"post": _operation("Cancel the turn under way.", parameters=[by_id])},
        "conversations/{id}/park": {"post": _operation("Stop an idle agent.", parameters=[by_id])},
    }
    return {f"{API_ROOT}{path}": methods for path, methods in paths.items()}


_LAST_EVENT: JsonObject = {"name": "last-event-id", "in": "header", "schema": {"type": "string"}}


def _query(name: str, type_: str = "string") -> JsonObject:
    return {"name": name, "in": "query", "schema": {"type": type_}}


def _operation(
    summary: str,
    body: JsonObject | None = None,
    *,
    parameters: Sequence[JsonObject] = (),
    streams: bool = False,
    is_open: bool = False,
) -> JsonObject:
    kind = "text/event-stream" if streams else _JSON
    schema: JsonObject = {"type": "string" if streams else "object"}
    operation: JsonObject = {
        "summary": summary,
        "responses": {
            "200": {"description": "Done.", "content": {kind: {"schema": schema}}},
            "default": {
                "description": "An error: a code for programs, and a sentence for people.",
                "content": {_JSON: {"schema": {"$ref": "#/components/schemas/ConsoleError"}}},
            },
        },
        # Both at once. For `pair` the token is any text.
        "security": [{"consoleToken": []}] if is_open else [{"consoleToken": [], "consoleCookie": []}],
    }
    if body is not None:
        operation["requestBody"] = body
    if parameters:
        operation["parameters"] = list(parameters)
    return operation
