"""For every test: a search is judged by what it finds, never by how long it takes.

In a new clone the first text that Hypothesis makes takes it seconds, because it builds its table of characters; on a
busy machine anything may. What is slow is found in `bench/`.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unhurried", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")
