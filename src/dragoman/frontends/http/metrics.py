"""Metrics in the text format of Prometheus. No client can extend the set of values that a label has."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from dragoman.lm import UsagePart

__all__ = ["Metric", "Metrics"]

# From a scripted model to an agent that works for an hour.
_SECONDS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600)


class Metric(NamedTuple):
    """One number without labels."""

    name: str
    kind: Literal["counter", "gauge"]
    words: str
    value: float


class Metrics:
    def __init__(self, models: Callable[[], Iterable[str]]) -> None:
        """`models` returns the ids of the models that there are now: those of a fleet come and go."""
        self._models = models
        self._known_models: frozenset[str] = frozenset()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._responses: Counter[tuple[str, str]] = Counter()
        self._tokens: Counter[tuple[str, str]] = Counter()
        self._buckets = [0] * (len(_SECONDS) + 1)
        self._seconds = 0.0
        self.under_way = 0
        self.sockets = 0
        # Background responses of other servers that this one has continued.
        self.taken_over = 0
        # What there is beside this server's own numbers: those of a fleet.
        self.others: Callable[[], Iterable[Metric]] = tuple

    def request(self, route: str | None, status: int) -> None:
        """Count a request. `route` is the declared path of its route; None if no route matches."""
        self._requests[route or "other", status] += 1

    def response(self, model: str, outcome: str, seconds: float) -> None:
        """Count a response. `outcome` is one of a fixed set of words."""
        self._responses[self._known(model), outcome] += 1
        self._buckets[bisect_left(_SECONDS, seconds)] += 1
        self._seconds += seconds

    def tokens(self, model: str, usage: UsagePart) -> None:
        for direction, count in (("input", usage.input), ("output", usage.output)):
            if count is not None:
                self._tokens[self._known(model), direction] += count

    def _known(self, model: str) -> str:
        if model not in self._known_models:
            self._known_models |= frozenset(self._models())
        return model if model in self._known_models else "other"

    def text(self) -> str:
        return "\n".join((*self._lines(), ""))

    def _lines(self) -> Iterator[str]:
        yield from _head("dragoman_http_requests_total", "counter", "Requests by route and status.")
        for (route, status), count in sorted(self._requests.items()):
            yield f'dragoman_http_requests_total{{route="{route}",status="{status}"}} {count}'
        yield from _head("dragoman_responses_total", "counter", "Responses by model and outcome.")
        for (model, outcome), count in sorted(self._responses.items()):
            yield f'dragoman_responses_total{{model="{model}",outcome="{outcome}"}} {count}'
        yield from _head("dragoman_tokens_total", "counter", "Tokens, as far as models report them.")
        for (model, direction), count in sorted(self._tokens.items()):
            yield f'dragoman_tokens_total{{model="{model}",direction="{direction}"}} {count}'
        yield from _head("dragoman_responses_under_way", "gauge", "Responses that run now.")
        yield f"dragoman_responses_under_way {self.under_way}"
        yield from _head("dragoman_websockets_open", "gauge", "WebSockets open now.")
        yield f"dragoman_websockets_open {self.sockets}"
        taken_over = Metric(
            "dragoman_responses_taken_over_total",
            "counter",
            "Background responses of servers that are gone, taken over by this one.",
            self.taken_over,
        )
        for metric in (taken_over, *self.others()):
            yield from _head(metric.name, metric.kind, metric.words)
            yield f"{metric.name} {metric.value:.15g}"
        yield from _head(
            "dragoman_response_seconds", "histogram", "Seconds from the request to the end of its response."
        )
        total = 0
        for bound, count in zip((*map(str, _SECONDS), "+Inf"), self._buckets, strict=True):
            total += count
            yield f'dragoman_response_seconds_bucket{{le="{bound}"}} {total}'
        yield f"dragoman_response_seconds_sum {self._seconds}"
        yield f"dragoman_response_seconds_count {total}"


def _head(name: str, kind: str, words: str) -> Iterator[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"
