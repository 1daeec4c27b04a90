"""Structured output: the form of the answer that a request of either API asks for.

The format is an option of the request, in the form that Open Responses has (`text.format`). An endpoint gets it as it is.
For a model that follows forms it becomes `RequestOptions.answer_form`, and its schema is checked before the model runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dragoman.forms.checking import schema_fault
from dragoman.frontends.http.create_request import CreateRequest
from dragoman.frontends.http.errors import bad_request
from dragoman.lm import AnswerForm, DataPart, ModelInfo, Part, TextPart, ThinkingPart
from dragoman.lm.parts import ANNOTATION

__all__ = ["form_of", "ignored_options", "outside_text"]

_SCHEMA = "text.format.schema"


async def form_of(create: CreateRequest, info: ModelInfo) -> AnswerForm | None:
    """The form of a request, for a model that follows it. Raise `ApiError` if its schema cannot be used."""
    if not info.takes_forms or info.takes_options:
        return None
    text = create.options.get("text")
    form = _form(text.get("format") if isinstance(text, dict) else None)
    fault = None if form is None else await schema_fault(form)
    if fault is not None:
        raise bad_request(
            f"The schema of the answer cannot be used: {fault}.", param=_SCHEMA, code="invalid_schema"
        )
    return form


def _form(given: object) -> AnswerForm | None:
    match given:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return AnswerForm()
        case {"type": "json_schema", "schema": dict() as schema} if isinstance(given, dict):
            return AnswerForm(schema, _text(given.get("name")), _text(given.get("description")))
        case {"type": "json_schema"}:
            raise bad_request(
                "The schema of the answer must be an object.", param=_SCHEMA, code="invalid_schema"
            )
        case _:
            raise bad_request(
                "The format of the answer must be `text`, `json_object` or `json_schema`.",
                param="text.format",
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
