"""Every target in turn, one process at a time: `make fuzz`.

What was found interesting is kept in the cache, outside the clone, and the next run goes on from there. What breaks a
target is kept as well, and shown: it belongs into `test_fuzz_found.py`, as the smallest case of it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from fuzz import shell_lines
from fuzz.targets import TARGETS

_CORPUS = Path(__file__).with_name("corpus")
_CACHE = Path(os.environ.get("DRAGOMAN_TEST_CACHE") or Path.home() / ".cache" / "dragoman-tests") / "fuzz"
_LONGEST_INPUT = 4_096
_SECONDS_FOR_ONE = 10
_MEGABYTES = 2_048
# It has to start, which takes a while on a busy machine; and after its time it has that of one input left.
_MARGIN_SECONDS = 120


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description="Fuzzes everything that parses.")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument(
        "--only", choices=sorted((*TARGETS, shell_lines.NAME)), action="append", help="this target"
    )
    asked = parser.parse_args()
    names = asked.only or (*TARGETS, shell_lines.NAME)
    if find_spec("atheris") is None and set(names) != {shell_lines.NAME}:
        print(
            "There is no fuzzer for this system: it runs on Linux, with Python 3.11. "
            f"Without it, only --only {shell_lines.NAME} works.",
            file=sys.stderr,
        )
        return 2
    broken = [name for name in names if not _is_unbroken(name, asked.seconds)]
    if broken:
        print(f"\nBroken: {', '.join(broken)}. What did it is in {_CACHE / 'found'}.")
    return 1 if broken else 0


def _is_unbroken(name: str, seconds: int) -> bool:
    return shell_lines.is_clean(seconds) if name == shell_lines.NAME else _fuzzed(name, seconds)


def _fuzzed(name: str, seconds: int) -> bool:
    kept, found = _CACHE / "corpus" / name, _CACHE / "found"
    for folder in (kept, found):
        folder.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "fuzz.guided", name, str(kept), str(_CORPUS / name)),
        f"-max_total_time={seconds}",
        f"-max_len={_LONGEST_INPUT}",
        f"-timeout={_SECONDS_FOR_ONE}",
        f"-rss_limit_mb={_MEGABYTES}",
        f"-artifact_prefix={found / name}-",
    ]
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=seconds + _MARGIN_SECONDS,
        )
    except subprocess.TimeoutExpired:
        print(f"{name:22} did not end in time", flush=True)
        return False
    # What Python says of a failure is on its standard output.
    said = run.stderr + run.stdout
    executions = re.findall(r"^Done (\d+) runs", said, re.MULTILINE) or re.findall(
        r"^#(\d+)\t", said, re.MULTILINE
    )
    coverage = re.findall(r"cov: (\d+)", said)
    print(
        f"{name:22} {int((executions or ['0'])[-1]):>10,} executions {(coverage or ['0'])[-1]:>7} edges",
        flush=True,
    )
    if run.returncode:
        print(said[-4_000:], flush=True)
    return run.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
