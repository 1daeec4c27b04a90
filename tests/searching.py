"""How many examples Hypothesis tries: few in `make test`, all in `make test-long`. `conftest.py` explains it."""

from hypothesis import settings

__all__ = ["SHORT", "SHORT_EXAMPLES", "WHOLE", "examples"]

WHOLE, SHORT = "whole", "short"
# Where a test says nothing. Most of what a search finds at all, it finds among the first.
SHORT_EXAMPLES = 25
# What is left of a number of its own.
_SHARE = 4


def examples(whole: int) -> int:
    """For `settings(max_examples=…)`."""
    return max(SHORT_EXAMPLES, whole // _SHARE) if settings.get_current_profile_name() == SHORT else whole
