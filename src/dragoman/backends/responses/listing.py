"""What an endpoint says of its models (`GET /models`).

OpenAI and Ollama give ids and little else. vLLM adds how much a model takes; gateways (OpenRouter, Vercel) add limits,
what goes in, and whether tools can be called, each in words of its own. What an endpoint does not report stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.lm import JsonObject

__all__ = ["Listed", "listed_models"]

# More than any gateway lists; what comes after is not looked at.
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Listed:
    id: str
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    tool_calling: bool | None = None
    image_input: bool | None = None
    thinking: bool = False


def listed_models(value: object) -> tuple[Listed, ...]:
    """The models of a list as an endpoint sends it; those that cannot be read are left out."""
    return tuple(_listed(value))


def _listed(value: object) -> Iterator[Listed]:
    match value:
        case {"data": list(models)} | {"models": list(models)} | list(models):
            for model in models[:_MOST]:
                if isinstance(model, dict) and isinstance(id_ := model.get("id") or model.get("name"), str):
                    yield _model(id_, model)
        case _:
            return


def _model(id_: str, model: JsonObject) -> Listed:
    match model.get("top_provider"):
        case {"max_completion_tokens": int(most)}:
            output: object = most
        case _:
            output = model.get("max_tokens")
    tags, parameters = _words(model.get("tags")), _words(model.get("supported_parameters"))
    match model.get("architecture"):
        case {"input_modalities": list(modalities)}:
            takes: frozenset[str] | None = _words(modalities)
        case _:
            takes = _words(model.get("input_modalities"))
    return Listed(
        id_,
        _count(model, "max_model_len", "context_window", "context_length", "max_context_length"),
        output if isinstance(output, int) and output > 0 else None,
        "tool-use" in tags if tags is not None else "tools" in parameters if parameters is not None else None,
        "image" in takes if takes is not None else "vision" in tags if tags is not None else None,
        "reasoning" in (tags or ()) or "reasoning" in (parameters or ()),
    )


def _words(value: object) -> frozenset[str] | None:
    return frozenset(word for word in value if isinstance(word, str)) if isinstance(value, list) else None


def _count(model: JsonObject, *names: str) -> int | None:
    found = (model.get(name) for name in names)
    return next((value for value in found if isinstance(value, int) and value > 0), None)
