"""Failed assertions of the scenarios say what they compared."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("clients.scenarios", "clients.drivers", "clients.programs")
