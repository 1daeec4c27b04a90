"""What the tests in browsers start is stopped, also in a file without a test to run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

_LIFETIME = Path(__file__).parent / "browser" / "lifetime.mjs"
# As Node 24 does it where a name filter leaves no test: `after` is called while `before` is under way.
_SCRIPT = """
const {{ forAllTests }} = await import({lifetime});
const order = [];
const hooks = {{ before: (does) => (hooks.begin = does), after: (does) => (hooks.end = does) }};
const start = async () => {{
  await new Promise(setImmediate);
  order.push('started');
  if ({fails}) throw new Error('half started');
}};
forAllTests(start, () => order.push('stopped'), hooks);
const beginning = hooks.begin().catch((error) => order.push(error.message));
await hooks.end();
await beginning;
console.log(JSON.stringify(order));
"""


@pytest.mark.parametrize(
    ("fails", "order"), [("false", ["started", "stopped"]), ("true", ["started", "half started", "stopped"])]
)
def test_what_is_still_starting_is_stopped_when_it_has_started(fails: str, order: list[str]) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node on this machine")
    script = _SCRIPT.format(lifetime=json.dumps(_LIFETIME.as_uri()), fails=fails)
    done = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == order
