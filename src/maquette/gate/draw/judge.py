"""How far a given database is off, by the score of its own class: for certificates."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.gate.draw.forest import Forest
from maquette.gate.draw.listed import levels_of
from maquette.gate.draw.run import Held, atom_records, candidate_levels, held_by, single
from maquette.gate.draw.scale import Scale
from maquette.models import draw as public
from maquette.vault.engine import Engine

Values = Sequence[NDArray[Any]]
_ANY = Fraction(1, 2)
"""A counter asks for a base to choose its windows; the level of one database needs none."""


def error_of(asked: public.Draw, values: Values, table: Engine) -> int:
    """max over q of |q(x) - (n/m) q(y)| in counts, rounded up: the level at one level per count."""
    engine = held_by(table, asked.weight)
    scale = Scale(asked.m, 1, 1 if asked.weight is None else asked.weight.grid)
    match asked.structure:
        case public.Candidates() as candidates:
            return int(
                candidate_levels(candidates, engine, scale, unit=candidates.queries.denominator)[
                    int(values[0][0])
                ]
            )
        case public.Blocks(parts):
            starts = np.cumsum([0, *(len(part.attributes) for part, _ in parts)]).tolist()
            places = zip(parts, starts, starts[1:], strict=False)
            return max(_one(part, base, engine, scale, values[a:b]) for (part, base), a, b in places)
        case public.Listed() | public.Trellis() as listed:
            rows = np.asarray(values[0], dtype=np.int64)[None, :]
            records, atoms = atom_records(listed.atoms, engine), listed.atoms
            levels = levels_of(rows, atoms.weights, records, unit=atoms.denominator, scale=scale)
            return int(levels[0])
        case structure:
            return _one(structure, asked.base, engine, scale, values)


def _one(part: public.Single, base: public.Base, engine: Held, scale: Scale, values: Values) -> int:
    counter = single(part, base, engine, scale, _ANY)
    if isinstance(counter, Forest):
        return counter.level([np.flatnonzero(column).tolist() for column in values])
    return counter.level(sorted(int(code) for code in values[0]))
