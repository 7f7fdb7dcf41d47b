"""Everything observable of neighbouring tables, in worlds where a ledger refuses and a store fails: how much differs.

python -m benchmarks.observables FIRST PAIRS MINUTES runs a part of it, for at most so long, and keeps what was run.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

PAIRS = 50_000
SHARES = {"curator": 40, "session": 9, "http": 1}
"""Pairs of every fifty that are asked through each; the service takes longest."""


def run(data: Path | None = None) -> list[dict[str, Any]]:
    """The whole in one run."""
    del data
    return [measure(0, PAIRS)]


def measure(first: int, pairs: int, *, minutes: float = 1e9) -> dict[str, Any]:
    """Random calls to pairs in their worlds: values, errors, words, numbers, entries, and what a repetition costs."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from support.observed_run import observe  # pyright: ignore[reportMissingImports]

    started, done = time.perf_counter(), dict.fromkeys(SHARES, 0)
    totals = {"answered": 0, "refused": 0, "failed to store": 0, "killed": 0}
    differing: list[str] = []
    turns = [channel for channel, share in SHARES.items() for _ in range(share)]
    for seed in range(first, first + pairs):
        if time.perf_counter() - started > 60 * minutes:
            break
        channel = turns[seed % len(turns)]
        done[channel] += 1
        try:
            # the world follows from the seed too: pairs of one channel go through all of them
            counts = observe([seed // len(turns) * SHARES[channel] + seed % SHARES[channel]], channel=channel)
        except AssertionError as error:
            differing.append(str(error)[:300])
            continue
        totals["answered"] += counts.answered
        totals["refused"] += sum(counts.refused.values())
        totals["failed to store"] += counts.unstored
        totals["killed"] += counts.killed
    return {
        "figure": "observables of neighbouring tables: pairs in twelve worlds, and how many differed",
        "seeds": [first, first + sum(done.values()) - 1],
        "pairs": sum(done.values()),
        "through": done,
        "calls": totals,
        "differing": len(differing),
        "examples": differing[:5],
        "seconds": round(time.perf_counter() - started),
        "goal": "50,000 pairs, none differing",
    }


if __name__ == "__main__":
    from benchmarks.__main__ import append_each

    begin, count, limit = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    command = f"python -m benchmarks.observables {begin} {count} {sys.argv[3]}"
    append_each("observables", [measure(begin, count, minutes=limit) | {"command": command}])
