"""For a process whose wall clock can be set. Python imports this by its name at every start.

The clock is beside the real time by as many seconds as the file says that `FAULTS_CLOCK` names.
"""

import os
import time
from pathlib import Path

_file = Path(os.environ.get("FAULTS_CLOCK", os.devnull))
_real = time.time


def _shown() -> float:
    try:
        return _real() + float(_file.read_text() or 0)
    except OSError:
        return _real()


time.time = _shown
