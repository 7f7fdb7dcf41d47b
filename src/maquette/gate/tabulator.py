"""Questions about tables of counts: residuals of margins, tables in bins, how far those are from public ones."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.events import Event, GaussianEvent, SmoothedEvent
from maquette.accounting.gaussian import log_ratio
from maquette.gate import prices, tables
from maquette.gate.barrier import Payer
from maquette.queries.base import Margin
from maquette.queries.counting import projected_axes, ripple, shift_squared
from maquette.queries.marginals import Binned
from maquette.questions import bounds
from maquette.questions.measurement import NoisyTable, Residual
from maquette.questions.noise import IndependentLaw
from maquette.samplers.noise import sqrt_up
from maquette.vault.engine import MemoryEngine

_ACCOUNT_BITS = 100
_AT_A_TIME = 2_000


class Tabulator(Payer):
    """Answers questions about tables of counts, on top of `Payer._ask`: pay, look, return."""

    def measure_residuals(
        self, margins: Sequence[Margin], *, variances: Sequence[Fraction]
    ) -> tuple[Residual, ...]:
        """Residuals of margins: integer noise of the given variances on each table, then the means removed.

        Guarantee: rho-zCDP with rho = sum of shift^2 / (2 variance) (`queries/residual.py`); the noises together
            are one Gaussian in coordinates scaled to variance 1, and that is the event in the ledger. Where mu^2 / 2 is
            counted the noise is wider by the smoothing, and costs as much as asked. The price is that of the
            projected tables only, and receipts publish hashes of what is stored: nothing else may be stored.
        """
        bounds.check_margins(self.domain, margins)
        bounds.check_variances(variances, len(margins), "margin")
        sizes = [tuple(self.domain[name].size for name in margin) for margin in margins]
        smoothing = self.unit.smoothing
        sigmas = [sqrt_up(Fraction(variance) + smoothing) for variance in variances]
        drawn = [Fraction(sigma) ** 2 for sigma in sigmas]
        axes = [projected_axes(shape, variance) for shape, variance in zip(sizes, drawn, strict=True)]
        for shape, removed, sigma in zip(sizes, axes, sigmas, strict=True):
            bounds.check_projection(shape, removed, sigma)
        event = self._residual_event(sizes, axes, drawn)

        def look() -> list[NDArray[np.int64]]:
            tables = self._engine.margins(list(margins))
            return [
                _relative(self._noise.gaussian(tables[margin].ravel(), sigma=sigma).reshape(shape), removed)
                for margin, sigma, shape, removed in zip(margins, sigmas, sizes, axes, strict=True)
            ]

        request = {
            "ask": "residuals",
            "margins": [list(m) for m in margins],
            "sigmas": [s.hex() for s in sigmas],
        }
        tables, receipt = self._ask(event, request, look)
        return tuple(
            Residual(margin, removed, *_project(table.reshape(shape), removed), variance, receipt)
            for margin, removed, table, shape, variance in zip(
                margins, axes, tables, sizes, drawn, strict=True
            )
        )

    def _residual_event(
        self, sizes: Sequence[tuple[int, ...]], axes: Sequence[tuple[int, ...]], drawn: Sequence[Fraction]
    ) -> Event:
        moved = [shift_squared(s, self.relation, a) for s, a in zip(sizes, axes, strict=True)]
        gap = sum((_up(ripple(*part)) for part in zip(sizes, drawn, axes, strict=True)), start=Fraction(0))

        def over(less: Fraction) -> Fraction:
            return sum((_up(m / (v - less)) for m, v in zip(moved, drawn, strict=True)), start=Fraction(0))

        smoothing = max(self.unit.smoothing, self._ledger.budget.unit.smoothing)
        if smoothing > self.unit.smoothing:
            prices.check_wide(drawn)
        if not smoothing:
            return GaussianEvent(sigma_squared=Fraction(1), l2_squared=over(smoothing), total_variation=gap)
        ratio = gap + log_ratio(sum(math.prod(shape) for shape in sizes))
        return SmoothedEvent(
            sigma_squared=Fraction(1),
            l2_squared=over(Fraction(0)),
            mu_squared=over(smoothing),
            ripple=gap,
            log_ratio=ratio,
        )

    def measure_tables(
        self,
        binned: Sequence[Binned],
        *,
        variances: Sequence[Fraction],
        note: Mapping[str, Any] | None = None,
    ) -> tuple[NoisyTable, ...]:
        """Tables in bins, each with noise of its own variance, in one payment: Gaussian for rho, Laplace for epsilon.

        Guarantee: see `gate/tables.py`.
        """
        plan = tables.plan_tables(
            self.domain,
            binned,
            variances,
            relation=self.relation,
            unit=self.unit,
            ledger_unit=self._ledger.budget.unit,
        )
        request = {
            "ask": "tables",
            "tables": [table.to_json() for table in binned],
            "noise": [spread.hex() for spread in plan.drawn],
        }
        values, receipt = self._ask(
            plan.event, request, lambda: plan.draw(self._noise, self._engine.binned(binned)), note=note
        )
        return tuple(
            NoisyTable(table, counts, variance, receipt)
            for table, counts, variance in zip(binned, values, plan.variances, strict=True)
        )

    def distances(
        self, binned: Sequence[Binned], references: Sequence[NDArray[np.int64]], *, price: Fraction
    ) -> tuple[NDArray[np.int64], IndependentLaw]:
        """The L1 distance in counts of every private table to a public one, plus noise.

        Guarantee: `price`, for a vector of distances that one record moves by 1 each (2 under replace-one).
        """
        tables.check_tables(self.domain, binned)
        tables.check_references(binned, references)
        request = {"ask": "distances"} | _named(binned, references)
        values, law, _ = self._noisy_at(
            request,
            tables.distance_sensitivity(len(binned), self.relation),
            price,
            lambda: self._exact_distances(binned, references),
            coordinates=len(binned),
        )
        return values, law

    def select_tables(
        self,
        binned: Sequence[Binned],
        references: Sequence[NDArray[np.int64]],
        penalties: NDArray[np.int64],
        *,
        count: int,
        price: Fraction,
    ) -> tuple[int, ...]:
        """Up to `count` tables far from their references, less a public penalty, no two of them sharing two attributes.

        Guarantee: `price` for all choices together; see `gate/tables.py`.
        """
        tables.check_tables(self.domain, binned)
        tables.check_references(binned, references)
        bounds.check_numbers(penalties, len(binned), "whole penalties, one per table")
        plan = tables.plan_choices(count=count, price=price, relation=self.relation, unit=self.unit)

        def look() -> list[NDArray[np.int64]]:
            scores = self._exact_distances(binned, references) - penalties
            return [tables.choose(self._noise, plan, scores, binned)]

        request = {"ask": "select tables", "penalties": penalties.tolist()} | _named(binned, references)
        ((chosen,), _) = self._ask(plan.event, request, look)
        return tuple(int(i) for i in chosen)

    def _exact_distances(
        self, binned: Sequence[Binned], references: Sequence[NDArray[Any]]
    ) -> NDArray[np.int64]:
        """Every table's L1 distance; where the rows are in memory, some tables are counted at a time."""
        step = _AT_A_TIME if isinstance(self._engine, MemoryEngine) else len(binned)
        parts = [slice(start, start + step) for start in range(0, len(binned), step)]
        return np.concatenate(
            [tables.distances(self._engine.binned(binned[part]), references[part]) for part in parts]
        )


def _relative(table: NDArray[np.int64], axes: Sequence[int]) -> NDArray[np.int64]:
    """The table less its first slice along each of `axes`: what the projection keeps of it, and nothing more.

    Both maps forget exactly the tables that are constant along one of the axes, so each is a function of the other;
    this one stays among small whole numbers.
    """
    for axis in axes:
        table = table - table.take([0], axis=axis)
    return table.ravel()


def _project(table: NDArray[np.int64], axes: Sequence[int]) -> tuple[NDArray[np.int64], int]:
    """Remove the means over `axes`, in whole numbers: the result is over the product of their sizes."""
    for axis in axes:
        table = table * table.shape[axis] - table.sum(axis=axis, keepdims=True)
    return table, math.prod(table.shape[axis] for axis in axes)


def _named(binned: Sequence[Binned], references: Sequence[NDArray[np.int64]]) -> dict[str, Any]:
    """Tables and public references as parts of a request."""
    hasher = hashlib.sha256()
    for reference in references:
        hasher.update(np.ascontiguousarray(reference, dtype=np.int64).tobytes())
    return {"tables": [table.to_json() for table in binned], "references": hasher.hexdigest()}


def _up(value: Fraction) -> Fraction:
    """Rounded up to a fixed grid, so that sums stay short."""
    return Fraction(math.ceil(value * 2**_ACCOUNT_BITS), 2**_ACCOUNT_BITS)
