"""Replicates of a release: sets of rows that differ as much as the noise allows, and a rule for standard errors.

Every replicate is fitted again to the released tables with as much noise again. That is arithmetic on what is public
already: it costs nothing and looks at nothing private.

The rule. Let t(T) be the statistic of rows fitted to tables T. The release has t = t(exact + noise), the replicates
have t_j = t(exact + noise + noise_j), where noise_j has the law of the noise and the fit knows of both. They differ
from each other about as t would if the noise were drawn again; let V be their sample variance. Their mean differs from
t by a shift D, since fitting shrinks what the noise drowns, and a replicate has twice the noise: an effect of variance
s in a table with noise of variance v shrinks to s / (s + v) in the release and to s / (s + 2 v) in a replicate. With
r = v / s, the release has then lost 1 + 2 r times as much as D shows, and its own deviation is (1 + 2 r) / (1 + r)
times that of the replicates: at most twice and 4/3 times where the noise is at most half of the signal. The records are
a sample themselves: U, the variance that the analysis states for so many rows, times rows / records, is added.
Together, with k replicates, W = 16/9 V and q the quantile of Student's law with (k - 1) (1 + U / W)^2 degrees of
freedom,

    t +- (q sqrt(U + W) + 2 |D|).

A rule of thumb and no theorem: a shift that doubling the noise does not show is not in it. Bins are such: where two
attributes were measured in bins, what lies inside a bin was never measured, and its part of a correlation is missing
from rows and replicates alike. So is a weak dependence that was shrunk away whole. `Replicates.covers` says which
attributes were measured code by code, with noise that is no more than the chance of a sample; the simulations behind
the rule are in docs/replicates.md (`python -m benchmarks replicates`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from maquette.core import _check
from maquette.errors import ReleaseError
from maquette.models.answers import SmallDatabase, decode, generator
from maquette.models.residual import ResidualModel
from maquette.results import replacing
from maquette.sculpt.model import SculptModel

if TYPE_CHECKING:
    import pyarrow

    from maquette.results.release import Release

MAX_REPLICATES = 1_000
_SHIFTS, _SPREAD = 2.0, 16 / 9
"""What the release lost to shrinking, in shifts of the replicates, and its variance by theirs: both derived above."""
_MIN_NOISE = 1e-12
"""In place of none, where degrees of freedom are counted."""

Statistic = Callable[["pyarrow.Table"], Any]
"""From rows to an estimate and its variance as if the rows were records: two numbers, or two arrays of one length."""


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """Estimates with standard errors and intervals; arrays where the statistic has several numbers."""

    estimate: NDArray[np.float64]
    error: NDArray[np.float64]
    """Standard errors: of the noise, of the fit and of the records as a sample."""
    shift: NDArray[np.float64]
    """How far shrinking may have moved the estimate, in either direction; added to both sides of the interval."""
    degrees: NDArray[np.float64]
    """Degrees of freedom."""
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Replicates:
    """Sets of rows, each fitted to the released tables with further noise; made by `Release.replicates`."""

    release: Release
    databases: tuple[SmallDatabase, ...]

    @cached_property
    def rows(self) -> tuple[pyarrow.Table, ...]:
        """Every replicate in real values, as `Release.rows` has them."""
        return tuple(decode(self.release.domain, database) for database in self.databases)

    def covers(self, *names: str) -> bool:
        """Was every pair of these attributes measured code by code, with no more noise than chance?

        Else a statistic of them together can be off by more than the interval says.
        """
        from maquette.sculpt.refit import clear_pairs

        full = clear_pairs(self.release.model)
        for name in names:
            self.release.domain.index(name)
        return all((a, b) in full or (b, a) in full for a, b in combinations(names, 2))

    def combine(self, statistic: Statistic, *, level: float = 0.95) -> Inference:
        """Estimates by the released rows, with standard errors and intervals by the replicates.

        `statistic` gets rows as an Arrow table and gives an estimate and its variance (the squared standard error that
        a program states for such rows), each a number or an array. See the module for the rule and its limits.
        """
        _check.fraction(level=level)
        released = _checked(statistic(self.release.rows))
        repeated = np.array([_checked(statistic(rows))[0] for rows in self.rows])
        rows, records = len(self.release.rows), self.release.size.divisor
        return combine(*released, repeated, share=rows / records, level=level)

    def save(self, path: str | Path) -> Path:
        """Write every replicate as a Parquet file of a new folder, whole or not at all."""
        import pyarrow.parquet

        target = Path(path)
        if target.exists():
            raise ReleaseError(f"{target} exists; nothing was written there, choose another place")
        try:
            with replacing.draft(target) as draft:
                for number, rows in enumerate(self.rows, start=1):
                    name = f"replicate-{number:0{len(str(len(self.rows)))}}.parquet"
                    pyarrow.parquet.write_table(rows, draft / name, compression="zstd")
                replacing.move(draft, target)
        except OSError as error:
            raise ReleaseError(f"cannot write {target}: {error.strerror or type(error).__name__}") from None
        return target


def replicates(release: Release, k: int) -> Replicates:
    """k sets of rows, the same for the same release; see `Release.replicates`."""
    from maquette.sculpt.refit import refit

    _check.whole(k=k)
    if not 2 <= k <= MAX_REPLICATES:
        raise ReleaseError(f"expected 2 to {MAX_REPLICATES:,} replicates, got {k:,}")
    model, database = release.model, release.database
    if database is None or not isinstance(model, SculptModel | ResidualModel):
        raise ReleaseError(
            "this release has no tables that rows were fitted to; release marginals with the mechanism 'sculpt'"
        )
    key = _digest(model)
    return Replicates(
        release,
        tuple(
            refit(model, m=database.m, names=database.columns, rng=generator(f"{key} replicate {number}"))
            for number in range(k)
        ),
    )


def _digest(model: SculptModel | ResidualModel) -> str:
    """Of everything measured."""
    hasher = hashlib.sha256()
    for name, array in sorted(model.to_arrays()[1].items()):
        hasher.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()


def combine(
    estimate: NDArray[np.float64],
    variance: NDArray[np.float64],
    repeated: NDArray[np.float64],
    *,
    share: float,
    level: float,
) -> Inference:
    """The rule on numbers: `repeated` has one line per replicate, `share` is rows by records."""
    of_sample = variance * share
    of_noise = _SPREAD * repeated.var(axis=0, ddof=1)
    degrees = (len(repeated) - 1) * (1 + of_sample / np.maximum(of_noise, _MIN_NOISE * (1 + of_sample))) ** 2
    error = np.sqrt(of_sample + of_noise)
    shift = _SHIFTS * np.abs(repeated.mean(axis=0) - estimate)
    reach = stdtrit(degrees, (1 + level) / 2) * error + shift
    return Inference(estimate, error, shift, degrees, estimate - reach, estimate + reach)


def _checked(result: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    try:
        estimate, variance = (np.asarray(part, dtype=np.float64) for part in result)
    except (TypeError, ValueError):
        raise ReleaseError("expected an estimate and its variance from the statistic") from None
    if estimate.shape != variance.shape or not np.isfinite(estimate).all() or not (variance >= 0).all():
        raise ReleaseError("expected finite estimates with variances that are not negative, of one length")
    return estimate, variance
