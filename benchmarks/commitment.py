"""The commitment to a table: processor time of the digest of records in any order beside that of rows in order."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.counting import SIZES
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Attribute, Domain, Kind

ROWS = 10**6
ROUNDS = 9


def run(data: Path | None) -> list[dict[str, Any]]:
    """Medians over rounds in turn, after one round that compiles."""
    del data
    domain = Domain(tuple(Attribute(f"a{i}", Kind.ORDINAL, codes=size) for i, size in enumerate(SIZES)))
    rng = np.random.default_rng(1)
    batch = {a.name: rng.integers(0, a.size, ROWS).astype(np.uint8) for a in domain}
    engine = MemoryEngine(domain, batch)
    commitments = {
        "multiset": lambda: engine.commitment(b"s" * 32),
        "in_order": lambda: engine.commitment(b"s" * 32, like="an earlier one"),
    }
    taken: dict[str, list[float]] = {"multiset": [], "in_order": []}
    for _ in range(ROUNDS + 1):
        for name, seconds in taken.items():
            start = time.process_time()
            commitments[name]()
            seconds.append(time.process_time() - start)
    median = {name: statistics.median(seconds[1:]) for name, seconds in taken.items()}
    return [
        {
            "what": "processor seconds of one commitment, median",
            "rows": ROWS,
            "columns": len(domain),
            "rounds": ROUNDS,
            "multiset": round(median["multiset"], 4),
            "in_order": round(median["in_order"], 4),
            "ratio": round(median["multiset"] / median["in_order"], 2),
        }
    ]
