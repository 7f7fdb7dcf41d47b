"""One draw: look at what the structure needs of the private table, count, draw, hand back whole numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.gate.draw.column import Column, Places
from maquette.gate.draw.listed import Listed, all_multisets, levels_of, sequence_weights
from maquette.gate.draw.scale import Scale
from maquette.gate.draw.slices import Report, Slices
from maquette.gate.draw.thresholds import Thresholds
from maquette.gate.draw.uniform import Uniform
from maquette.gate.noise.bits import Bits
from maquette.models import draw as public
from maquette.vault.engine import Engine

Integers = NDArray[np.int64]
Values = list[NDArray[np.uint64]]

STAYS_CHARGED = (
    "interrupted while drawing: the price stays charged in the ledger; "
    "the same request under the same key draws again at no further cost"
)
_LOW = np.uint64(2**32 - 1)


def run(asked: public.Draw, engine: Engine, *, base: Fraction, bits: Bits, report: Report) -> Values:
    """Draw from the private table. What is returned has the law of the exponential mechanism, exactly."""
    scale = Scale(asked.m, asked.resolution)
    uniform = Uniform(bits)
    match asked.structure:
        case public.Thresholds(attribute):
            counter = Thresholds(column_of(engine, attribute), scale, asked.base)
            places: Places = Slices(counter, base=base, report=report).draw(uniform)
            return [np.array(places, dtype=np.uint64)]
        case public.Listed() as listed:
            rows = all_multisets(listed.atoms.count, asked.m)
            number = Slices(enumerated(listed, rows, asked, engine), base=base, report=report).draw(uniform)
            return [rows[number].astype(np.uint64)]
        case public.Candidates() as candidates:
            levels = candidate_levels(candidates, engine, scale)
            number = Slices(Listed.of(levels), base=base, report=report).draw(uniform)
            return [np.array([number], dtype=np.uint64)]


def column_of(engine: Engine, attribute: str) -> Column:
    """The records of one ordered attribute."""
    codes, counts = engine.values(attribute)
    declared = engine.domain[attribute]
    return Column.of(codes, counts, cells=declared.cells, size=declared.size)


def enumerated(listed: public.Listed, rows: Integers, asked: public.Draw, engine: Engine) -> Listed:
    """Every multiset of atoms with its level."""
    table = engine.margins([listed.attributes])[listed.attributes].ravel()
    records = np.zeros(listed.atoms.count, dtype=np.int64)
    np.add.at(records, listed.atoms.of, table)
    levels = levels_of(
        rows,
        listed.atoms.weights,
        records,
        denominator=listed.atoms.denominator,
        scale=Scale(asked.m, asked.resolution),
    )
    return Listed.of(levels, None if asked.base == "flat" else sequence_weights(rows, listed.atoms.sizes))


def candidate_levels(candidates: public.Candidates, engine: Engine, scale: Scale) -> Integers:
    """The level of every candidate."""
    exact, n = engine.answer(candidates.queries), engine.size()
    levels: list[int] = []
    for number in range(candidates.count):
        rows = {name: codes[number] for name, codes in candidates.rows.items()}
        held = np.asarray(candidates.queries.on_rows(rows), dtype=np.int64)
        gap = int(np.abs(scale.m * exact - n * held).max(initial=0))
        levels.append(-(-gap * scale.resolution // (scale.m * candidates.queries.denominator)))
    return np.array(levels, dtype=np.int64)


def split_words(values: Values) -> list[Integers]:
    """Codes up to 2^64 as pairs of numbers that every payload can hold."""
    return [half.astype(np.int64) for v in values for half in (v >> np.uint64(32), v & _LOW)]


def join_words(halves: list[Integers]) -> list[NDArray[Any]]:
    """The codes of `split_words`; int64 where they fit."""
    joined = [
        (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
        for high, low in zip(halves[::2], halves[1::2], strict=True)
    ]
    return [v.astype(np.int64) if int(v.max(initial=0)) < 2**63 else v for v in joined]
