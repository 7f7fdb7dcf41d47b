"""Arbitrary public arguments to all questions of the gate on pairs of neighbouring tables: how many outcomes differ.

python -m benchmarks.gate_fuzz FIRST PAIRS runs and keeps a part of it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

PAIRS = 2600
"""Pairs of tables with a past of their own, 40 calls each: 104,000 calls."""
REAL = 50
"""One pair in so many is asked with the production ledger, and one with the production samplers: both are slower."""


def run(data: Path | None = None) -> list[dict[str, Any]]:
    """The whole in one run."""
    del data
    return [measure(0, PAIRS)]


def measure(first: int, pairs: int) -> dict[str, Any]:
    """The same call on both tables: outcome, ledger, everything shown, and how far the private inputs moved."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from support.gate_fuzz import fuzz

    started = time.perf_counter()
    answered = refused = 0
    differing: list[str] = []
    for seed in range(first, first + pairs):
        options = {0: {"ledger": "real"}, 1: {"real": True}}.get(seed % REAL, {})
        try:
            tally = fuzz([seed], **options)
        except AssertionError as error:
            differing.append(str(error)[:300])
            continue
        answered += sum(tally.answered.values())
        refused += sum(sum(kinds.values()) for kinds in tally.refused.values())
    return {
        "figure": "gate fuzz: calls on neighbouring pairs, and how many differed in their outcome",
        "seeds": [first, first + pairs - 1],
        "calls": answered + refused,
        "answered": answered,
        "refused": refused,
        "differing": len(differing),
        "examples": differing[:5],
        "seconds": round(time.perf_counter() - started),
        "goal": "at least 100,000 calls, 0 differing outcomes",
    }


if __name__ == "__main__":
    from benchmarks.__main__ import append_each

    begin, count = int(sys.argv[1]), int(sys.argv[2])
    append_each(
        "gate_fuzz",
        [measure(begin, count) | {"command": f"python -m benchmarks.gate_fuzz {begin} {count}"}],
    )
