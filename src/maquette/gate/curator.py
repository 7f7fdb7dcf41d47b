"""The questions that can be asked of a private table, one method each on top of `Payer._ask`: pay, look, return."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.budget import Budget
from maquette.accounting.events import Event, GaussianEvent, SmoothedEvent
from maquette.accounting.gaussian import log_ratio, smoothing_of
from maquette.accounting.ledger import Ledger
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.gate import calibrate, tables
from maquette.gate.draw.judge import error_of
from maquette.gate.draw.price import pricing
from maquette.gate.draw.run import STAYS_CHARGED, held_by, join_words, run, split_words
from maquette.gate.noise import Noise, SeededNoise
from maquette.gate.noise.samplers import sqrt_up
from maquette.gate.owner import Table
from maquette.gate.payer import Payer
from maquette.gate.scores import check_answers, count_errors, signed_errors
from maquette.models import measurement
from maquette.models.answers import Answers
from maquette.models.draw import Draw, Drawn
from maquette.models.measurement import (
    LargestError,
    Measurement,
    NoisyTable,
    Residual,
    Size,
)
from maquette.models.weighting import Weighting
from maquette.queries import canonical_hash
from maquette.queries.base import Group, Margin, Queries, Sensitivity
from maquette.queries.binned import Binned
from maquette.queries.pieces import LONG, pieces
from maquette.queries.residual import projected_axes, ripple, shift_squared
from maquette.vault.engine import MemoryEngine

_ACCOUNT_BITS = 100
_AT_A_TIME = 2_000


class Curator(Payer):
    """Answers questions about one table out of one allowance, reserved under one key of the ledger."""

    def size(self, *, price: Fraction) -> Size:
        """The number of records.

        Guarantee: exact and free under replace-one, where it is public; under add/remove-one noisy at `price`.
        """
        if self.relation is Relation.REPLACE_ONE:
            return Size(self._engine.size(), None, None)
        values, noise, receipt = self._noisy(
            {"ask": "size"},
            _one_per(1),
            self._priced(price),
            lambda: np.array([self._engine.size()], dtype=np.int64),
            coordinates=1,
        )
        return Size(int(values[0]), noise, receipt)

    def total(self, weight: Weighting, *, price: Fraction) -> Size:
        """The total weight of the records, in units of the largest weight, rounded up, plus noise.

        Guarantee: `price`, under both relations: one record moves the sum by at most 1, and rounding up cannot make
            a gap of at most 1 wider. The total is private where the number of records is not.
        """
        values, noise, receipt = self._noisy(
            {"ask": "total", "weight": weight.to_dict()},
            _one_per(1),
            self._priced(price),
            lambda: np.array([-(-held_by(self._engine, weight).size() // weight.grid)], dtype=np.int64),
            coordinates=1,
        )
        return Size(int(values[0]), noise, receipt)

    def measure(self, queries: Queries, *, noise: measurement.Noise) -> Measurement:
        """Answers to a class of queries, plus noise of the asked kind and price.

        Guarantee: the price of `noise`, pure epsilon or rho-zCDP, under this curator's relation.
        """
        self._check_domain(queries)
        values, law, receipt = self._noisy(
            {"ask": "measure", "queries": canonical_hash(queries)},
            queries.sensitivity(self.relation),
            noise,
            lambda: self._engine.answer(queries),
            denominator=queries.denominator,
            coordinates=queries.count,
        )
        return Measurement(queries, values, law, receipt)

    def measure_residuals(
        self, margins: Sequence[Margin], *, variances: Sequence[Fraction]
    ) -> tuple[Residual, ...]:
        """Residuals of margins: integer noise of the given variances on each table, then the means removed.

        Guarantee: rho-zCDP with rho = sum of shift^2 / (2 variance) (`queries/residual.py`); the noises together
            are one Gaussian in coordinates scaled to variance 1, and that is the event in the ledger. Where mu^2 / 2 is
            counted the noise is wider by the smoothing, and costs as much as asked. The noisy tables before the
            projection are stored in the ledger, which is protected like the data, and never leave it.
        """
        if len(variances) != len(margins) or any(variance <= 0 for variance in variances):
            raise ParameterError(f"expected {len(margins)} variances > 0, one per margin")
        sizes = [tuple(self.domain[name].size for name in margin) for margin in margins]
        smoothing = smoothing_of(self.unit)
        sigmas = [sqrt_up(Fraction(variance) + smoothing) for variance in variances]
        drawn = [Fraction(sigma) ** 2 for sigma in sigmas]
        axes = [projected_axes(shape, variance) for shape, variance in zip(sizes, drawn, strict=True)]
        event = self._residual_event(sizes, axes, drawn)

        def look() -> list[NDArray[np.int64]]:
            tables = self._engine.margins(list(margins))
            return [
                self._noise.gaussian(tables[margin].ravel(), sigma=sigma)
                for margin, sigma in zip(margins, sigmas, strict=True)
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

        smoothing = max(smoothing_of(self.unit), smoothing_of(self._ledger.budget.unit))
        if smoothing > smoothing_of(self.unit):
            calibrate.check_wide(drawn)
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
        self, binned: Sequence[Binned], *, variances: Sequence[Fraction]
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
            plan.event, request, lambda: plan.draw(self._noise, self._engine.binned(binned))
        )
        return tuple(
            NoisyTable(table, counts, variance, receipt)
            for table, counts, variance in zip(binned, values, plan.variances, strict=True)
        )

    def distances(
        self, binned: Sequence[Binned], references: Sequence[NDArray[np.int64]], *, price: Fraction
    ) -> tuple[NDArray[np.int64], measurement.Noise]:
        """The L1 distance in counts of every private table to a public one, plus noise.

        Guarantee: `price`, for a vector of distances that one record moves by 1 each (2 under replace-one).
        """
        tables.check_tables(self.domain, binned)
        tables.check_references(binned, references)
        request = {"ask": "distances"} | _named(binned, references)
        values, law, _ = self._noisy(
            request,
            tables.distance_sensitivity(len(binned), self.relation),
            self._priced(price),
            lambda: self._far(binned, references),
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
        if penalties.dtype.kind != "i" or penalties.shape != (len(binned),) or count < 1:
            raise ParameterError("expected one whole penalty per table and at least one choice")
        plan = tables.plan_choices(count=count, price=price, relation=self.relation, unit=self.unit)

        def look() -> list[NDArray[np.int64]]:
            scores = self._far(binned, references) - penalties
            return [tables.choose(self._noise, plan, scores, binned)]

        request = {"ask": "select tables", "penalties": penalties.tolist()} | _named(binned, references)
        ((chosen,), _) = self._ask(plan.event, request, look)
        return tuple(int(i) for i in chosen)

    def _far(self, binned: Sequence[Binned], references: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """Every table's L1 distance; where the rows are in memory, some tables are counted at a time."""
        step = _AT_A_TIME if isinstance(self._engine, MemoryEngine) else len(binned)
        parts = [slice(start, start + step) for start in range(0, len(binned), step)]
        return np.concatenate(
            [tables.distances(self._engine.binned(binned[part]), references[part]) for part in parts]
        )

    def select(self, queries: Queries, answers: Answers, *, price: Fraction, signed: bool = False) -> int:
        """A query whose released answer is far off, chosen by its error in counts.

        With `signed` the sign is chosen too: i says that the released answer to query i is too small, i + count that it
        is too large.

        Guarantee: permute-and-flip for a pure price, the exponential mechanism for a price in rho; sensitivity 1.
        """
        self._check_domain(queries)
        check_answers(answers, queries.count)
        plan = calibrate.selection(price=price, unit=self.unit)

        def look() -> list[NDArray[np.int64]]:
            scores = self._errors(queries, answers, signed=signed)
            chosen = self._noise.select(scores, scale=plan.scale, method=plan.event.method)
            return [np.array([chosen], dtype=np.int64)]

        request = {
            "ask": "select signed" if signed else "select",
            "queries": canonical_hash(queries),
            "answers": _digest(answers),
        }
        ((chosen,), _) = self._ask(plan.event, request, look)
        return int(chosen[0])

    def draw(self, asked: Draw, *, price: Fraction, report: Callable[[int], None] | None = None) -> Drawn:
        """A small database near the table: SmallDB, drawn exactly.

        Guarantee: the exponential mechanism on a score of sensitivity 1 in counts, under both relations, with a public
            base measure (Blum, Ligett and Roth 2008); see `gate/draw`. Paid before the first look: an interrupted
            draw stays paid, and the same key may draw again. `report` hears how many levels have been counted,
            which depends on the table: it is for the holder of the data.
        """
        plan = pricing(
            price=price,
            unit=self.unit,
            resolution=asked.resolution,
            what=asked.describe(),
            ledger_unit=self._ledger.budget.unit,
        )

        def look() -> list[NDArray[np.int64]]:
            try:
                found = run(
                    asked,
                    self._engine,
                    base=plan.base,
                    bits=self._noise.bits,
                    report=report or (lambda _: None),
                )
            except KeyboardInterrupt:
                raise KeyboardInterrupt(STAYS_CHARGED) from None
            return split_words(found)

        request = {"ask": "draw", "draw": asked.to_dict(), "weight": str(plan.base)}
        halves, receipt = self._ask(plan.event, request, look)
        return Drawn(asked, join_words(halves), plan.epsilon, plan.base, receipt)

    def judge(self, drawn: Drawn, *, price: Fraction) -> LargestError:
        """The largest error of a drawn database over its class, in counts, plus noise.

        Guarantee: `price`. The error is the score that the draw itself used, rounded up to whole counts: sensitivity 1
            under both relations, for weighed records too. It serves classes too large to list, and weighted tables.
        """
        asked = drawn.draw
        request = {"ask": "judge", "draw": asked.to_dict(), "database": _digest_of(drawn.values)}
        values, noise, receipt = self._noisy(
            request,
            _one_per(1),
            self._priced(price),
            lambda: np.array([error_of(asked, drawn.values, self._engine)], dtype=np.int64),
            coordinates=1,
        )
        return LargestError(values, noise, receipt)

    def largest_error(
        self, queries: Queries, answers: Answers, *, groups: Sequence[Group] | None = None, price: Fraction
    ) -> LargestError:
        """The largest error of released answers, in counts, plus noise: over all queries or over each group.

        Guarantee: each group's largest error has sensitivity 1, so g groups are a vector of L1 sensitivity g and
            L2 sensitivity sqrt(g).
        """
        self._check_domain(queries)
        check_answers(answers, queries.count)
        parts = [(0, queries.count)] if groups is None else [(g.start, g.stop) for g in groups]
        if any(not 0 <= start < stop <= queries.count for start, stop in parts):
            raise ParameterError(f"expected groups inside the {queries.count} queries, none of them empty")

        def look() -> NDArray[np.int64]:
            return self._largest(queries, answers, parts)

        request = {
            "ask": "largest error",
            "queries": canonical_hash(queries),
            "answers": _digest(answers),
            "groups": parts,
        }
        values, noise, receipt = self._noisy(
            request, _one_per(len(parts)), self._priced(price), look, coordinates=len(parts)
        )
        return LargestError(values, noise, receipt)

    def _largest(
        self, queries: Queries, answers: Answers, parts: Sequence[tuple[int, int]]
    ) -> NDArray[np.int64]:
        """The largest error in each part; a long class is counted piece by piece where the rows are in memory."""
        whole = [(0, queries)]
        largest = np.zeros(len(parts), dtype=np.int64)
        for begin, piece in pieces(queries) if isinstance(self._engine, MemoryEngine) else whole:
            end = begin + piece.count
            errors = self._errors(piece, Answers(answers.numerators[begin:end], answers.denominator))
            for i, (start, stop) in enumerate(parts):
                inside = errors[max(start - begin, 0) : max(stop - begin, 0)]
                largest[i] = max(largest[i], inside.max(initial=0))
        return largest

    def _errors(self, queries: Queries, answers: Answers, *, signed: bool = False) -> NDArray[np.int64]:
        score = signed_errors if signed else count_errors
        return score(self._engine.answer(queries), queries.denominator, answers, self._engine.size())


class SeededCurator(Curator):
    """A test double whose noise can be reproduced, and therefore removed. Everything it touches carries a watermark."""

    def __init__(self, table: Table, ledger: Ledger, *, key: str, budget: Budget, seed: int) -> None:
        self._seed = seed
        super().__init__(table, ledger, key=key, budget=budget)

    def _source(self) -> Noise:
        return SeededNoise(self._seed)


def _one_per(groups: int) -> Sensitivity:
    return Sensitivity(Fraction(groups), Fraction(groups), Fraction(1))


def _project(table: NDArray[np.int64], axes: Sequence[int]) -> tuple[NDArray[np.int64], int]:
    """Remove the means over `axes`, in whole numbers: the result is over the product of their sizes."""
    for axis in axes:
        table = table * table.shape[axis] - table.sum(axis=axis, keepdims=True)
    return table, math.prod(table.shape[axis] for axis in axes)


def _digest(answers: Answers) -> str:
    hasher = hashlib.sha256(str(answers.denominator).encode())
    for start in range(0, len(answers), LONG):
        hasher.update(np.ascontiguousarray(answers.numerators[start : start + LONG], dtype=np.int64).data)
    return hasher.hexdigest()


def _named(binned: Sequence[Binned], references: Sequence[NDArray[np.int64]]) -> dict[str, Any]:
    """Tables and public references as parts of a request."""
    hasher = hashlib.sha256()
    for reference in references:
        hasher.update(np.ascontiguousarray(reference, dtype=np.int64).tobytes())
    return {"tables": [table.to_json() for table in binned], "references": hasher.hexdigest()}


def _digest_of(values: Sequence[NDArray[Any]]) -> str:
    hasher = hashlib.sha256()
    for column in values:
        hasher.update(np.ascontiguousarray(column).astype(np.uint64).tobytes() + b"/")
    return hasher.hexdigest()


def _up(value: Fraction) -> Fraction:
    """Rounded up to a fixed grid, so that sums stay short."""
    return Fraction(math.ceil(value * 2**_ACCOUNT_BITS), 2**_ACCOUNT_BITS)
