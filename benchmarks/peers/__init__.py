"""Other systems: figures quoted from earlier measurements, and a runner for those that can be run again.

`MAQUETTE_PEER_PYTHON` names the Python of an environment with `mbi` 2 in it; without it nothing is run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def run(data: Path | None) -> list[dict[str, Any]]:
    """MST and AIM on the public tables, one process at a time."""
    from benchmarks.peers import again

    python = os.environ.get("MAQUETTE_PEER_PYTHON")
    return [] if python is None or data is None else list(again.measure_all(again.CASES, data, python))
