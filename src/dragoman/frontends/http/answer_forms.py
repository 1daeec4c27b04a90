"""Structured output: the form of the answer that a request of either API asks for.

The format is an option of the request, in the form that Open Responses has (`text.format`). An endpoint gets it as it is.
For a model that follows forms it becomes `RequestOptions.answer_form`, and its schema is checked before the model runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dragoman.frontends.http.create_request import CreateRequest
from dragoman.frontends.http.errors import bad_request
from dragoman.frontends.http.schema_checks import SchemaChecks
from dragoman.lm import AnswerForm, DataPart, ModelInfo, Part, TextPart, ThinkingPart
from dragoman.lm.parts import ANNOTATION

__all__ = ["form_of", "ignored_options", "outside_text"]

# The names of the format and of its schema, for errors.
_FIELDS = ("text.format", "text.format.schema")
_CHAT_FIELDS = ("response_format", "response_format.json_schema.schema")


async def form_of(
    create: CreateRequest, info: ModelInfo, checks: SchemaChecks, connection: str
) -> AnswerForm | None:
    """The form of a request, for a model that follows it. Raise `ApiError` if its schema cannot be used."""
    if not info.takes_forms or info.takes_options:
        return None
    text = create.options.get("text")
    format_field, schema_field = _CHAT_FIELDS if create.is_chat else _FIELDS
    form = _form(text.get("format") if isinstance(text, dict) else None, format_field, schema_field)
    fault = None if form is None else await checks.fault(form, connection)
    if fault is not None:
        raise bad_request(
            f"The schema of the answer cannot be used: {fault}.", param=schema_field, code="invalid_schema"
        )
    return form


def _form(given: object, format_field: str, schema_field: str) -> AnswerForm | None:
    match given:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return AnswerForm()
        case {"type": "json_schema", "schema": dict() as schema} if isinstance(given, dict):
            return AnswerForm(schema, _text(given.get("name")), _text(given.get("description")))
        case {"type": "json_schema"}:
            raise bad_request(
                f"`{schema_field}` must be a JSON object: the schema of the answer.",
                param=schema_field,
                code="invalid_schema",
            )
        case _:
            raise bad_request(
                "The format of the answer must be `text`, `json_object` or `json_schema`.", param=format_field
            )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def outside_text(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts of a file, for a response whose text is JSON: a link is thinking, and has no annotation."""
    for part in parts:
        if isinstance(part, TextPart):
            yield ThinkingPart(part.value)
        elif not (isinstance(part, DataPart) and part.mime_type == ANNOTATION):
            yield part


def ignored_options(create: CreateRequest, info: ModelInfo) -> tuple[str, ...]:
    """The names of the options that have no effect on the model."""
    if info.takes_options:
        return ()
    names = list(create.options)
    text = create.options.get("text")
    if info.takes_forms and isinstance(text, dict):
        place = names.index("text")
        names[place : place + 1] = [f"text.{name}" for name in text if name != "format"]
    return tuple(names)
