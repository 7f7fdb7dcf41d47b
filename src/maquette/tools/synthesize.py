"""`synthesize`: a database for one's own private answers. Post-processing: it looks at nothing private, and is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.domain import Domain
from maquette.errors import ParameterError, WorkloadError
from maquette.models import answers as rows
from maquette.models import fits
from maquette.models.answers import SmallDatabase
from maquette.queries.base import Queries
from maquette.theory import direct

Method = Literal["auto", "linear program", "fit"]
MAX_PROGRAM = 2_000_000
"""Queries times cells up to which the linear program is solved by default."""
MAX_CELLS = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class Synthetic:
    """Rows that answer like the given answers, and how far off they are."""

    queries: Queries
    answers: NDArray[np.float64]
    n: float
    weights: NDArray[np.float64]
    """A count for every cell of the attributes that the queries look at; they add up to n."""
    database: SmallDatabase
    method: str

    @property
    def counts(self) -> NDArray[np.float64]:
        """The answers of the rows, stretched from their number to n."""
        return self.database.answer(self.queries).fractions * self.n

    @property
    def distance(self) -> float:
        """The largest difference between an answer of the rows and the given one, in counts."""
        return _largest(self.counts - self.answers)

    @property
    def weights_distance(self) -> float:
        """The same for the weights, before they became whole rows."""
        mapped = fits.answer_histogram(self.queries, self.weights)
        return _largest(mapped - self.answers)

    @checks_arguments
    def error(self, noise: float, *, size_error: float = 0.0) -> float:
        """What no count of the rows is off by, if no given answer is off by more than `noise` records.

        Accuracy: noise + distance + size_error (`theory.direct.shifted_error`). The linear program's weights are no
            farther from the answers than the truth is, so before rounding to rows this is at most 2 noise (Dwork, Naor,
            Reingold, Rothblum and Vadhan 2009), and 2 (noise + size_error) where n is a noisy number of records.
        """
        _check.not_negative(noise=noise, size_error=size_error)
        return direct.shifted_error(noise=noise, shift=self.distance, size_error=size_error)


@checks_arguments
def synthesize(
    domain: Domain,
    queries: Queries,
    answers: Sequence[float] | NDArray[Any],
    *,
    n: float,
    rows_count: int | None = None,
    method: Method = "auto",
) -> Synthetic:
    """Rows whose answers are as near as possible to given private answers, in counts.

    `method` is the linear program of Dwork et al. 2009 (smallest largest deviation) where it is small enough, else a
    fit in squared distance that scales to 2^24 cells. The answers must come from a private mechanism: this looks at
    nothing else. `rows_count` is the number of rows, n by default.
    """
    _check.positive(n=n)
    _check.one_of(("auto", "linear program", "fit"), method=method)
    counts = np.asarray(answers, dtype=np.float64)
    if counts.shape != (queries.count,) or not np.isfinite(counts).all():
        raise ParameterError(f"expected {queries.count} finite answers in counts, one per query")
    if queries.domain.fingerprint != domain.fingerprint:
        raise WorkloadError("the queries are about another domain than the one given")
    cells = domain.cells(queries.attributes)
    linear = fits.histogram_map(queries) if cells <= MAX_CELLS else None
    if linear is None:
        raise WorkloadError(
            f"{cells:,} cells, or a class too large for its matrix: synthesize takes up to {MAX_CELLS:,} cells; ask "
            "about fewer attributes"
        )
    weights, used = _fit(linear, counts, n=n, method=method, size=cells * queries.count)
    m = _check_rows(rows_count, n)
    database = rows.database(domain, queries.attributes, rows.largest_remainder(weights.ravel(), m))
    return Synthetic(queries, counts, float(n), weights, database, used)


def _fit(
    linear: fits.HistogramMap, answers: NDArray[np.float64], *, n: float, method: Method, size: int
) -> tuple[NDArray[np.float64], str]:
    if method == "linear program" or (method == "auto" and size <= MAX_PROGRAM):
        solved = fits.fit_largest(linear, answers, total=n)
        if solved is not None:
            return solved[0], "linear program"
        if method == "linear program":
            raise ParameterError("the linear program was not solved; use method='fit'")
    return fits.fit_entropic(linear, answers, total=n, rounds=500), "fit"


def _check_rows(count: int | None, n: float) -> int:
    if count is None:
        return max(1, min(round(n), 1_000_000))
    _check.whole(most=_check.MAX_ROWS, rows_count=count)
    return count


def _largest(gaps: NDArray[np.float64]) -> float:
    return float(np.abs(gaps).max(initial=0.0))
