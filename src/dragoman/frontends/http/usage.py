"""A model's usage in the form of each API. Values in, values out.

Both APIs require the counts of input and output: without both there is no usage. Open Responses also requires the
details, which are zero where the model does not name them. Chat completions leave them out.
"""

from __future__ import annotations

from typing import Literal

from dragoman.lm import JsonObject, UsagePart

__all__ = ["chat_usage", "response_usage"]


def response_usage(usage: UsagePart | None) -> JsonObject | None:
    if usage is None or usage.input is None or usage.output is None:
        return None
    reported = usage.reported or {}
    return {
        **reported,
        "input_tokens": usage.input,
        "input_tokens_details": {**_details(usage, "input"), "cached_tokens": usage.cached or 0},
        "output_tokens": usage.output,
        "output_tokens_details": {**_details(usage, "output"), "reasoning_tokens": usage.reasoning or 0},
        "total_tokens": _total(usage.input, usage.output, usage.total),
    }


def chat_usage(usage: UsagePart | None) -> JsonObject | None:
    if usage is None or usage.input is None or usage.output is None:
        return None
    counts: JsonObject = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": _total(usage.input, usage.output, usage.total),
    }
    cached = {"cached_tokens": usage.cached} if usage.cached is not None else {}
    reasoned = {"reasoning_tokens": usage.reasoning} if usage.reasoning is not None else {}
    if details := {**_details(usage, "input"), **cached}:
        counts["prompt_tokens_details"] = details
    if details := {**_details(usage, "output"), **reasoned}:
        counts["completion_tokens_details"] = details
    return counts


def _details(usage: UsagePart, side: Literal["input", "output"]) -> JsonObject:
    """Return the details that an endpoint names, also those that a usage part has no field for."""
    details = (usage.reported or {}).get(f"{side}_tokens_details")
    return details if isinstance(details, dict) else {}


def _total(read: int, written: int, total: int | None) -> int:
    """Return the total that the provider reports, which may be more than the sum of both, or else the sum."""
    return read + written if total is None else total
