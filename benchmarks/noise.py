"""Exact noise, draws per second: our tables beside opendp's samplers, in one run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from maquette.core import noise as samplers
from maquette.core.inversion import HalfGaussian, SystemBits
from maquette.core.noise import Table

OURS = 4_000_000
THEIRS = 40_000


def run(data: Path | None = None) -> list[dict[str, Any]]:
    """Discrete Gaussian and discrete Laplace noise at three widths."""
    noise = samplers.TableNoise(SystemBits())
    records: list[dict[str, Any]] = []
    for width in (10, 100, 1000):
        started = time.perf_counter()
        Table(HalfGaussian(Fraction(width) ** 2))
        build = time.perf_counter() - started
        laws: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
            "gaussian": (
                lambda zeros, w=width: noise.gaussian(zeros, sigma=float(w)),
                lambda zeros, w=width: samplers._opendp_gaussian(zeros, float(w)),
            ),
            "laplace": (
                lambda zeros, w=width: noise.laplace(zeros, scale=Fraction(w)),
                lambda zeros, w=width: samplers._opendp_laplace(zeros, float(w)),
            ),
        }
        for law, (ours, theirs) in laws.items():
            mine, peer = _per_second(ours, OURS), _per_second(theirs, THEIRS)
            records.append(
                {
                    "figure": f"{law} noise, draws per second",
                    "width": width,
                    "ours": round(mine),
                    "opendp": round(peer),
                    "ratio": round(mine / peer, 1),
                    "table_seconds": round(build, 4),
                }
            )
    return records


def _per_second(draw: Callable[[np.ndarray], Any], count: int) -> float:
    draw(np.zeros(1000, dtype=np.int64))  # tables, libraries
    started = time.perf_counter()
    draw(np.zeros(count, dtype=np.int64))
    return count / (time.perf_counter() - started)


if __name__ == "__main__":
    for record in run():
        print(json.dumps(record))
