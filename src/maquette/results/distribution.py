"""The distribution that certificates over classes of questions are about: what a release shows, as tables.

Where the released answers hold whole marginals of one distribution (all shares at least 0, every marginal exactly 1
altogether, as counts of rows are), they are that distribution; else the synthetic rows are. Which of the two it is
follows from the released values, before anything is measured about them, and every covered question is answered from
the very tables that were certified.

*Scales* say how far its tables are expected to be off, one beside the other: from released numbers alone. A relative
certificate measures the largest error over its scale, so that every table has a bound by its own scale for the price of
one number. Its bounds hold whatever the scales are. Good scales make them small, so the scales predict errors from what
is public by then: the released distribution, the number of records and the noise.

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
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core.any_order import MAX_ROWS
from maquette.core.bounds import FACTORS
from maquette.core.class_errors import WHOLE, Kind, ReleasedTables
from maquette.core.combinations import ReleasedRows
from maquette.core.laws import Gaussian
from maquette.core.measurement import Size
from maquette.core.tables import count_margins
from maquette.domain import Domain
from maquette.mechanisms import sizing
from maquette.models import answers as coverage
from maquette.models.answers import Answers, SmallDatabase, Unlisted
from maquette.queries.base import Queries
from maquette.queries.classes import CLASSES, ClassTable
from maquette.queries.combinations import able
from maquette.queries.marginals import Marginals
from maquette.queries.rows import Margin
from maquette.sculpt.model import SculptModel

DistributionSource = Literal["answers", "rows"]


@dataclass(frozen=True)
class Distribution:
    """Shares of the records by tables: whole numerators over one denominator."""

    domain: Domain
    source: DistributionSource
    workload: Queries
    answers: Answers
    database: SmallDatabase | None

    @property
    def denominator(self) -> int:
        if self.source == "answers":
            return self.answers.denominator
        assert self.database is not None
        return max(self.database.m, 1)

    @cached_property
    def sets(self) -> tuple[Margin, ...]:
        """The sets of attributes that are answered together: those of the marginals, or of all measurements."""
        if self.source == "answers":
            return tuple(self._places)
        return tuple(sorted(coverage.measured_together(self.workload)))

    def table(self, margin: Margin) -> NDArray[np.signedinteger[Any]]:
        """The numerators of one table, flat; it must lie inside one of `sets`."""
        if self.source == "rows":
            return self._count(margin)
        names = margin if margin in self._places else self._smallest_with(margin)
        shape = [self.domain[name].size for name in names]
        whole = self.answers.numerators[self._places[names]].reshape(shape)
        rest = tuple(axis for axis, name in enumerate(names) if name not in margin)
        return (whole.sum(axis=rest, dtype=np.int64) if rest else whole).ravel()

    @cached_property
    def columns(self) -> Margin:
        """The columns of the rows that combinations of values are about; none without rows."""
        if self.database is None or not 1 <= self.database.m <= MAX_ROWS:
            return ()
        return able(self.domain, (name for name in self.domain.names if name in self.database.columns))

    def rows(self) -> ReleasedRows:
        """The rows by those columns, for the gate."""
        assert self.database is not None
        columns = [self.database.columns[name] for name in self.columns]
        return ReleasedRows(self.columns, np.stack(columns, axis=1).astype(np.uint16))

    def _smallest_with(self, margin: Margin) -> Margin:
        """The marginal with the fewest cells that has these attributes, the first of several."""
        having = (self._marginals_with.get(name, {}) for name in margin)
        places = min(having, key=len, default=dict.fromkeys(self._places))
        inside = [names for names in places if set(margin) <= set(names)]
        return min(inside, key=self.domain.cells)

    @cached_property
    def _marginals_with(self) -> dict[str, dict[Margin, None]]:
        """The marginals that have an attribute, in their order, for every attribute."""
        having: dict[str, dict[Margin, None]] = {}
        for names in self._places:
            for name in names:
                having.setdefault(name, {})[names] = None
        return having

    def _count(self, margin: Margin) -> NDArray[np.int64]:
        """One table of the rows, without the compiled loop, which takes longer to load than to count."""
        assert self.database is not None
        cells = np.zeros(self.database.m, dtype=np.int64)
        for name in margin:
            cells = cells * self.domain[name].size + self.database.columns[name]
        return np.bincount(cells, minlength=self.domain.cells(margin))

    @cached_property
    def _places(self) -> dict[Margin, slice]:
        """Where each marginal of the workload stands among the answers."""
        return marginal_places(self.workload)

    def released(
        self, classes: Sequence[str], weights: dict[str, dict[Margin, int]] | None = None
    ) -> ReleasedTables:
        """All tables that some classes need, for the gate; with weights of those tables, public ones."""
        needed = {table.margin for name in classes for table in CLASSES[name].tables(self.domain, self.sets)}
        if self.source == "answers":
            return ReleasedTables({m: self.table(m) for m in needed}, self.denominator, weights or {})
        assert self.database is not None
        by_margin = count_margins(self.domain.sizes, self.database.columns, needed)
        tables = {m: t.ravel() for m, t in by_margin.items()}
        return ReleasedTables(tables, self.denominator, weights or {})


def distribution_of(
    workload: Queries, answers: Answers, database: SmallDatabase | None
) -> Distribution | None:
    """What a release is as a distribution; None for answers that are none, without rows."""
    if _is_distribution(workload, answers):
        return Distribution(workload.domain, "answers", workload, answers, database)
    if database is None or not 1 <= database.m <= FACTORS:
        return None
    return Distribution(workload.domain, "rows", workload, answers, database)


def _is_distribution(workload: Queries, answers: Answers) -> bool:
    places = marginal_places(workload)
    if isinstance(answers, Unlisted) or not places or answers.denominator > FACTORS:
        return False
    numerators = answers.numerators
    return all(
        int(numerators[place].min()) >= 0
        and int(numerators[place].sum(dtype=np.int64)) == answers.denominator
        for place in places.values()
    )


def marginal_places(workload: Queries) -> dict[Margin, slice]:
    """Where each marginal of a workload stands among its answers."""
    places: dict[Margin, slice] = {}
    start = 0
    for part in workload.classes:
        if isinstance(part, Marginals):
            for margin, place in part.slices.items():
                places.setdefault(margin, slice(start + place.start, start + place.stop))
        start += part.count
    return places


# The number of records of a release as well as it is known: by measured tables where their sums know it better.


class Records(NamedTuple):
    """About how many records there are, and between which ends."""

    least: float
    value: float
    most: float


def records(size: Size, model: object, *, beta: float) -> Records:
    """The number of records out of a released size and the model of a release.

    Accuracy: between both ends, except with the part of beta that is set aside for the number of records
        (`sizing.SIZE_BETA`). Which of the two says it follows from the kind of model: where sculpt measured tables of
        one attribute, their sums are combined with the size by their precision (`SculptModel.total`). The other
        mechanisms measure the size as well as their answers need it, and no other residual knows it.
    """
    if isinstance(model, SculptModel):
        value, error = model.total(beta=beta)
    else:
        value, error = float(size.divisor), sizing.size_error(size, beta)
    return Records(max(value - error, 0.0), value, value + error)


def variance_of_records(size: Size, model: object) -> float | None:
    """Of the noise on the value of `records`, where that is Gaussian; None for other noise and where there is none."""
    if not isinstance(size.noise, Gaussian):
        return None
    return model.variance_of_total if isinstance(model, SculptModel) else float(size.noise.sigma_squared)


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
