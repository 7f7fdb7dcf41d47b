"""Every public function and method with hostile values in the place of each argument: what escapes as another error.

The whole of what `tests/surface/test_hostile_arguments.py` makes a part of.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any


def run(data: Path | None = None) -> list[dict[str, Any]]:
    """All calls, in a folder of their own."""
    del data
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from support import hostile_calls  # pyright: ignore[reportMissingImports]

    started, found, count = time.process_time(), hostile_calls.Found(), 0
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stage = hostile_calls.Stage(Path(folder))
        os.chdir(folder)
        try:
            for one in hostile_calls.targets(stage):
                count += 1
                hostile_calls.attack(one, found)
        finally:
            os.chdir(here)
    return [
        {
            "figure": "hostile arguments: calls, and how many ended in anything but an error of the package",
            "functions": count,
            "calls": found.calls,
            "accepted": found.accepted,
            "escaped": len(found.wrong),
            "examples": found.wrong[:5],
            "cpu_seconds": round(time.process_time() - started),
            "goal": "0 escaped",
        }
    ]
