"""Draws of small databases on a tape: the levels of the databases are the private input, the database the output."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from maquette.queries.base import Queries
from maquette.samplers import draw as production
from maquette.samplers import structures as public
from maquette.samplers.brackets import Scale
from maquette.samplers.lists import all_multisets
from maquette.samplers.ordered import Thresholds

MOST = 3000
"""Beyond this many databases a fixed sample of them is looked at."""


@contextmanager
def on_tape(noise: Any, queries: Queries | None = None) -> Iterator[None]:
    """Let the gate's draws of databases go through a recording or replaying double."""

    def run(asked: public.Draw, engine: Any, *, decay: Fraction, bits: Any, report: Any) -> Any:
        return noise.database(
            levels_of(asked, engine, queries),
            base=decay,
            asked=json.dumps(asked.to_dict(), sort_keys=True),
            really=lambda: before(asked, engine, decay=decay, bits=bits, report=report),
        )

    before = production.run
    production.run = run
    try:
        yield
    finally:
        production.run = before


def levels_of(asked: public.Draw, engine: Any, queries: Queries | None) -> np.ndarray:
    """The level of every database of the range: by the counters of the gate itself, or by its definition."""
    view = production.view_of(asked, engine, Fraction(1, 2))
    engine, scale = view.table, view.scale
    match asked.structure:
        case public.Thresholds(attribute):
            counter = Thresholds(production.column_of(engine, attribute), scale, asked.base)
            places = _places(engine.domain[attribute].size, asked.m)
            return np.array([counter.level(p) for p in places], dtype=np.int64)
        case public.Listed() as listed:
            rows = all_multisets(listed.atoms.count, asked.m)
            return production.enumerated(listed, rows, view).levels
        case public.Candidates() as candidates:
            unit = math.ceil(candidates.span * candidates.queries.denominator)
            return production.candidate_levels(candidates, engine, scale, unit=unit)
        case structure:
            assert queries is not None, f"no queries to score {structure.kind} by"
            return _by_definition(asked, engine, queries, scale)


def _by_definition(asked: public.Draw, engine: Any, queries: Queries, scale: Scale) -> np.ndarray:
    """max over q of |q(x) - n q(y) / m| in counts, over D, times the resolution, rounded up."""
    exact, n = engine.answer(queries.to_forms()), engine.size()
    sizes = [engine.domain[name].size for name in queries.attributes]
    levels: list[int] = []
    for places in _places(math.prod(sizes), asked.m):
        codes = np.unravel_index(np.array(places), sizes)
        held = queries.on_rows(dict(zip(queries.attributes, codes, strict=True)))
        gap = int(np.abs(asked.m * exact - n * np.asarray(held)).max())
        error = Fraction(gap, asked.m * queries.denominator * scale.grid) / asked.span
        levels.append(math.ceil(error * asked.resolution))
    return np.array(levels, dtype=np.int64)


def _places(size: int, m: int) -> list[list[int]]:
    if math.comb(size + m - 1, m) <= MOST:
        return [list(p) for p in combinations_with_replacement(range(size), m)]
    sample = np.sort(np.random.default_rng(1).integers(0, size, (100, m)), axis=1)
    return sample.tolist()
