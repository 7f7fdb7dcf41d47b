"""How far the tables of a release are expected to be off, one beside the other: from released numbers alone.

A relative certificate measures the largest error over its scale, so that every table has a bound by its own scale for
the price of one number. Its bounds hold whatever the scales are. Good scales make them small, so the scales
predict errors from what is public by then: the released distribution, the number of records and the noise.

    any condition on one attribute      h = half the sum of min(s, n q) over its cells
    ranges and lists of values of two   root of (h^2 of each unordered attribute + (c s)^2 root(e f))

where s is the deviation of the noise of the certificate's own number, q the released share of a cell, and e and f are
the effective numbers of cells (sum of roots of q)^2 of the two attributes. A list of values takes up the noise of
each of its cells, but no more than there is in a cell; a range has a border in each attribute, and errors there grow
slowly with the cells, as tables with more cells are measured in wider bins. Nothing is taken as smaller than a few
deviations, because the noise of the number is multiplied by scale over smallest scale.

Heuristic: the constants were set on twelve releases of real tables and 43 of generated ones, in the docs
(`docs/certificates.md`) beside what the scales gain there. Comparisons on two and on three attributes are not among the
tables: their errors differ less between tables, and less predictably.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from maquette.queries.base import Margin
from maquette.questions.class_errors import WHOLE
from maquette.questions.classes import ClassTable, Kind
from maquette.results.distribution import Distribution

PAIRS = 3.0
"""c above."""
LEAST = 4.0
"""Of the deviation of the number's noise: the smallest scale."""
FEW = 3
"""Cells of an attribute whose lists of values are no more than its ranges."""


def weights_of(
    distribution: Distribution, tables: Sequence[ClassTable], *, n: float, deviation: float
) -> dict[Margin, int]:
    """What the error of each table counts for in a relative certificate: smallest scale over its own, in `WHOLE`."""
    names = dict.fromkeys(name for table in tables for name in table.margin)
    shares = {name: distribution.table((name,)) / distribution.denominator for name in names}
    half = {name: 0.5 * float(np.minimum(deviation, n * q).sum()) for name, q in shares.items()}
    cells = {name: float(np.sqrt(q).sum()) ** 2 for name, q in shares.items()}
    scales = {table.margin: max(LEAST * deviation, _scale(table, half, cells, deviation)) for table in tables}
    least = min(scales.values(), default=1.0)
    return {margin: max(1, round(WHOLE * least / scale)) for margin, scale in scales.items()}


def _scale(table: ClassTable, half: dict[str, float], cells: dict[str, float], deviation: float) -> float:
    if not table.families:
        return math.fsum(half[name] for name in table.margin)
    lists = (
        half[name] ** 2
        for name, family in zip(table.margin, table.families, strict=True)
        if family.kind is Kind.ANY and family.size > FEW
    )
    effective = math.prod(cells[name] for name in table.margin)
    return math.sqrt(math.fsum(lists) + (PAIRS * deviation) ** 2 * math.sqrt(effective))
