"""The OpenAPI description of this server: its paths, request bodies and errors."""

from __future__ import annotations

import msgspec

from dragoman import __version__
from dragoman.frontends.console.openapi import (
    CONSOLE_BODIES,
    CONSOLE_SCHEMAS,
    CONSOLE_SECURITY,
    console_paths,
)
from dragoman.frontends.http.chat import ChatBody
from dragoman.frontends.http.create_request import CompactBody, CreateBody
from dragoman.frontends.http.item_lists import ConversationBody, ItemsBody, MetadataBody
from dragoman.lm import JsonObject

__all__ = ["description"]

_JSON = "application/json"


def description(*, has_console: bool = False) -> JsonObject:
    """Return the OpenAPI 3.1 document. The types that read the bodies also generate their schemas."""
    bodies = (
        CreateBody,
        CompactBody,
        ChatBody,
        ConversationBody,
        MetadataBody,
        ItemsBody,
        *(CONSOLE_BODIES if has_console else ()),
    )
    schemas, components = msgspec.json.schema_components(
        bodies,
        schema_hook=lambda _type: {"description": "Anything."},
        ref_template="#/components/schemas/{name}",
    )
    create, compact, chat, conversation, metadata, items, *console_bodies = (
        {"content": {_JSON: {"schema": schema}}, "required": True} for schema in schemas
    )
    by_id, by_item = [_in_path("id")], [_in_path("id"), _in_path("item")]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Dragoman", "version": __version__},
        "paths": {
            "/": {"get": _operation("The front page, for a browser.", form="text/html", is_open=True)},
            "/v1/responses": {"post": _operation("Create a response.", body=create, streams=True)},
            "/v1/responses/compact": {"post": _operation("Pack a history into one item.", body=compact)},
            "/v1/responses/input_tokens": {
                "post": _operation("Estimate the input tokens of a request.", body=create)
            },
            "/v1/responses/{id}": {
                "get": _operation(
                    "Return a stored response, or the events of a background response.",
                    parameters=[*by_id, *_RESUMING],
                    streams=True,
                ),
                "delete": _operation("Delete a stored response.", parameters=by_id),
            },
            "/v1/responses/{id}/input_items": {
                "get": _operation("List the input items of a stored response.", parameters=[*by_id, *_PAGE])
            },
            "/v1/responses/{id}/cancel": {
                "post": _operation("Cancel a background response.", parameters=by_id)
            },
            "/v1/conversations": {"post": _operation("Make a conversation.", body=conversation)},
            "/v1/conversations/{id}": {
                "get": _operation("Return a conversation.", parameters=by_id),
                "post": _operation(
                    "Replace the metadata of a conversation.", body=metadata, parameters=by_id
                ),
                "delete": _operation("Delete a conversation and its items.", parameters=by_id),
            },
            "/v1/conversations/{id}/items": {
                "get": _operation("List the items of a conversation.", parameters=[*by_id, *_PAGE]),
                "post": _operation("Add items to a conversation.", body=items, parameters=by_id),
            },
            "/v1/conversations/{id}/items/{item}": {
                "get": _operation("Return an item of a conversation.", parameters=by_item),
                "delete": _operation("Delete an item of a conversation.", parameters=by_item),
            },
            "/v1/files/{id}/content": {
                "get": _operation(
                    "Return a picture or a file of an answer. Its id is the credential.",
                    parameters=by_id,
                    form="application/octet-stream",
                    is_open=True,
                )
            },
            "/v1/chat/completions": {
                "post": _operation("Create a chat completion.", body=chat, streams=True)
            },
            "/v1/models": {"get": _operation("List the configured models.")},
            "/v1/models/{id}": {"get": _operation("Return a configured model.", parameters=by_id)},
            "/healthz": {"get": _operation("Whether the server is up.", is_open=True)},
            "/readyz": {"get": _operation("Whether the server can take requests now.", is_open=True)},
            "/metrics": {"get": _operation("Metrics for Prometheus.", form="text/plain")},
            **(console_paths(console_bodies) if has_console else {}),
        },
        "components": {
            "schemas": {**components, "Error": _ERROR, **(CONSOLE_SCHEMAS if has_console else {})},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                **(CONSOLE_SECURITY if has_console else {}),
            },
        },
        "security": [{"key": []}],
    }


def _in_path(name: str) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


_RESUMING: list[JsonObject] = [
    {"name": "stream", "in": "query", "schema": {"type": "boolean", "default": False}},
    {"name": "starting_after", "in": "query", "schema": {"type": "integer", "minimum": 0}},
]
_PAGE: list[JsonObject] = [
    {"name": name, "in": "query", "schema": schema}
    for name, schema in (
        ("limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}),
        ("order", {"enum": ["asc", "desc"], "default": "desc"}),
        ("after", {"type": "string"}),
    )
]

_ERROR: JsonObject = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}


def _operation(
    summary: str,
    *,
    body: JsonObject | None = None,
    parameters: list[JsonObject] | None = None,
    streams: bool = False,
    form: str = _JSON,
    is_open: bool = False,
) -> JsonObject:
    content: JsonObject = {form: {"schema": {"type": "string" if form != _JSON else "object"}}}
    if streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    operation: JsonObject = {
        "summary": summary,
        "responses": {
            "200": {"description": "Done.", "content": content},
            "default": {
                "description": "An error: what is wrong, and what to do about it.",
                "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if body is not None:
        operation["requestBody"] = body
    if parameters is not None:
        operation["parameters"] = parameters
    if is_open:
        operation["security"] = []
    return operation
