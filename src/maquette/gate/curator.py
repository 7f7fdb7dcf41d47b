"""Every question that can be asked of a private table, one method each on top of `Barrier._ask`: pay, look, return.

Questions that come one at a time, in epochs of tests, are in `gate/online.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.budget import Budget
from maquette.accounting.events import Event, GaussianEvent, SmoothedEvent
from maquette.accounting.gaussian import log_ratio
from maquette.accounting.ledger import Ledger
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.gate import prices, tables
from maquette.gate.barrier import Barrier
from maquette.gate.handle import Table
from maquette.gate.prices import pricing
from maquette.gate.scores import check_answers, count_errors, signed_errors
from maquette.models.answers import Answers
from maquette.queries import canonical_hash
from maquette.queries.base import Group, Margin, Queries, Sensitivity
from maquette.queries.counting import projected_axes, ripple, shift_squared
from maquette.queries.marginals import Binned
from maquette.queries.merging import pieces
from maquette.questions import bounds
from maquette.questions.digests import answers_digest, database_digest, tables_request
from maquette.questions.draws import Draw, Drawn
from maquette.questions.measurement import LargestError, Measurement, NoisyTable, Residual, Size
from maquette.questions.noise import IndependentLaw, NoiseRequest
from maquette.questions.released import ClassQuestion, ReleasedTables
from maquette.questions.tables import check_references, check_tables
from maquette.questions.weighting import Weighting
from maquette.samplers.check import check_database, check_draw, check_weight
from maquette.samplers.draw import error_of, join_words, run, split_words, weighted_view
from maquette.samplers.noise import sqrt_up
from maquette.vault.statistics import distances, largest_errors

STAYS_CHARGED = (
    "interrupted while drawing: the price stays charged in the ledger; "
    "the same request under the same key draws again at no further cost"
)
_ACCOUNT_BITS = 100


class Curator(Barrier):
    """Answers questions about one table out of one allowance, reserved under one key of the ledger.

    `watch` is for the holder of the table and for nobody else: it is called with the number of levels that a draw has
    counted so far, which depends on the table. Mechanisms do not see it.
    """

    def __init__(
        self,
        table: Table,
        ledger: Ledger,
        *,
        key: str,
        budget: Budget,
        watch: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(table, ledger, key=key, budget=budget)
        self._watch: Callable[[int], None] = watch or _unwatched

    def size(self, *, price: Fraction, note: Mapping[str, Any] | None = None) -> Size:
        """The number of records.

        Guarantee: exact and free under replace-one, where it is public; under add/remove-one noisy at `price`.
        """
        if self.relation is Relation.REPLACE_ONE:
            return Size(self._engine.size(), None, None)
        values, noise, receipt = self._noisy_at(
            {"ask": "size"},
            _one_per(1),
            price,
            lambda: np.array([self._engine.size()], dtype=np.int64),
            coordinates=1,
            note=note,
        )
        return Size(int(values[0]), noise, receipt)

    def total(self, weight: Weighting, *, price: Fraction) -> Size:
        """The total weight of the records, in units of the largest weight, rounded up, plus noise.

        Guarantee: `price`, under both relations: one record moves the sum by at most 1, and rounding up cannot make
            a gap of at most 1 wider. The total is private where the number of records is not.
        """
        check_weight(self.domain, weight, [()])
        values, noise, receipt = self._noisy_at(
            {"ask": "total", "weight": weight.to_dict()},
            _one_per(1),
            price,
            lambda: np.array([-(-weighted_view(self._engine, weight).size() // weight.grid)], dtype=np.int64),
            coordinates=1,
        )
        return Size(int(values[0]), noise, receipt)

    def measure(
        self, queries: Queries, *, noise: NoiseRequest, note: Mapping[str, Any] | None = None
    ) -> Measurement:
        """Answers to a class of queries, plus noise of the asked kind and price.

        Guarantee: the price of `noise`, pure epsilon or rho-zCDP, under this curator's relation.
        """
        self._check_queries(queries)
        values, law, receipt = self._noisy(
            {"ask": "measure", "queries": canonical_hash(queries)},
            queries.sensitivity(self.relation),
            noise,
            lambda: self._engine.answer(queries),
            denominator=queries.denominator,
            coordinates=queries.count,
            note=note,
        )
        return Measurement(queries, values, law, receipt)

    def select(self, queries: Queries, answers: Answers, *, price: Fraction, signed: bool = False) -> int:
        """A query whose released answer is far off, chosen by its error in counts.

        With `signed` the sign is chosen too: i says that the released answer to query i is too small, i + count that it
        is too large.

        Guarantee: permute-and-flip for a pure price, the exponential mechanism for a price in rho; sensitivity 1.
        """
        self._check_queries(queries)
        check_answers(answers, queries.count)
        plan = prices.selection(price=price, unit=self.unit)

        def look() -> list[NDArray[np.int64]]:
            scores = self._errors(queries, answers, signed=signed)
            chosen = self._noise.select(scores, scale=plan.scale, method=plan.event.method)
            return [np.array([chosen], dtype=np.int64)]

        request = {
            "ask": "select signed" if signed else "select",
            "queries": canonical_hash(queries),
            "answers": answers_digest(answers.numerators, answers.denominator),
        }
        ((chosen,), _) = self._ask(plan.event, request, look)
        return int(chosen[0])

    def draw(self, question: Draw, *, price: Fraction) -> Drawn:
        """A small database near the table: SmallDB, drawn exactly.

        Guarantee: the exponential mechanism on a score of sensitivity 1 in counts, under both relations, with a public
            base measure (Blum, Ligett and Roth 2008); see `samplers/draw.py`. Paid before the first look: a broken-off
            draw stays paid, and the same key may draw again.
        """
        check_draw(self.domain, question)
        plan = pricing(
            price=price,
            unit=self.unit,
            resolution=question.resolution,
            what=question.describe(),
            ledger_unit=self._ledger.budget.unit,
        )

        def look() -> list[NDArray[np.int64]]:
            try:
                values = run(
                    question,
                    self._engine,
                    base=plan.base,
                    bits=self._noise.bits,
                    report=self._watch,
                )
            except KeyboardInterrupt:
                raise KeyboardInterrupt(STAYS_CHARGED) from None
            return split_words(values)

        request = {"ask": "draw", "draw": question.to_dict(), "weight": str(plan.base)}
        halves, receipt = self._ask(plan.event, request, look)
        return Drawn(question, join_words(halves), plan.epsilon, plan.base, receipt)

    def score_of(self, draw: Drawn, *, price: Fraction) -> LargestError:
        """The largest error of a drawn database over its class, in counts, plus noise.

        Guarantee: `price`. The error is the score that the draw itself used, rounded up to whole counts: sensitivity 1
            under both relations, for weighed records too. It serves classes too large to list, and weighted tables.
        """
        check_database(self.domain, draw)
        law = draw.draw
        request = {"ask": "judge", "draw": law.to_dict(), "database": database_digest(draw.values)}
        values, noise, receipt = self._noisy_at(
            request,
            _one_per(1),
            price,
            lambda: np.array([error_of(law, draw.values, self._engine)], dtype=np.int64),
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
        self._check_queries(queries)
        check_answers(answers, queries.count)
        parts = [(0, queries.count)] if groups is None else _parts(groups, queries.count)

        def look() -> NDArray[np.int64]:
            return self._largest(queries, answers, parts)

        request = {
            "ask": "largest error",
            "queries": canonical_hash(queries),
            "answers": answers_digest(answers.numerators, answers.denominator),
            "groups": parts,
        }
        values, noise, receipt = self._noisy_at(
            request, _one_per(len(parts)), price, look, coordinates=len(parts)
        )
        return LargestError(values, noise, receipt)

    def class_errors(
        self, classes: Sequence[str], released: ReleasedTables, *, price: Fraction
    ) -> LargestError:
        """The largest error of a released distribution over each of several classes of questions, plus noise.

        Guarantee: `price`. Each class's largest error has sensitivity 1 (`questions/class_errors.py`), so g classes
            are a vector of L1 sensitivity g and L2 sensitivity sqrt(g).
        """
        question = ClassQuestion.of(self.domain, classes, released)
        values, noise, receipt = self._noisy_at(
            question.request(),
            _one_per(len(question.names)),
            price,
            lambda: largest_errors(self._engine, question),
            coordinates=len(question.names),
        )
        return LargestError(values, noise, receipt)

    def measure_residuals(
        self, margins: Sequence[Margin], *, variances: Sequence[Fraction]
    ) -> tuple[Residual, ...]:
        """Residuals of margins: integer noise of the given variances on each table, then the means removed.

        Guarantee: rho-zCDP with rho = sum of shift^2 / (2 variance) (`queries/counting.py`); the noises together
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
        check_tables(self.domain, binned)
        check_references(binned, references)
        request = {"ask": "distances"} | tables_request(binned, references)
        values, law, _ = self._noisy_at(
            request,
            tables.distance_sensitivity(len(binned), self.relation),
            price,
            lambda: distances(self._engine, binned, references),
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
        check_tables(self.domain, binned)
        check_references(binned, references)
        bounds.check_numbers(penalties, len(binned), "whole penalties, one per table")
        plan = tables.plan_choices(count=count, price=price, relation=self.relation, unit=self.unit)

        def look() -> list[NDArray[np.int64]]:
            scores = distances(self._engine, binned, references) - penalties
            return [tables.choose(self._noise, plan, scores, binned)]

        request = {"ask": "select tables", "penalties": penalties.tolist()} | tables_request(
            binned, references
        )
        ((chosen,), _) = self._ask(plan.event, request, look)
        return tuple(int(i) for i in chosen)

    def _largest(
        self, queries: Queries, answers: Answers, parts: Sequence[tuple[int, int]]
    ) -> NDArray[np.int64]:
        """The largest error in each part; a long class is counted piece by piece where the rows are in memory."""
        whole = [(0, queries)]
        largest = np.zeros(len(parts), dtype=np.int64)
        for begin, piece in pieces(queries) if self._engine.in_memory else whole:
            end = begin + piece.count
            errors = self._errors(piece, Answers(answers.numerators[begin:end], answers.denominator))
            for i, (start, stop) in enumerate(parts):
                inside = errors[max(start - begin, 0) : max(stop - begin, 0)]
                largest[i] = max(largest[i], inside.max(initial=0))
        return largest

    def _errors(self, queries: Queries, answers: Answers, *, signed: bool = False) -> NDArray[np.int64]:
        score = signed_errors if signed else count_errors
        return score(self._engine.answer(queries), queries.denominator, answers, self._engine.size())


def _unwatched(levels: int) -> None:
    """Nobody follows the draw."""


def _parts(groups: Sequence[Group], count: int) -> list[tuple[int, int]]:
    """Where each group begins and ends; the sensitivity of a vector counts them."""
    bounds.check_list(groups, Group, "a list of groups of queries")
    parts = [(group.start, group.stop) for group in groups]
    for part in parts:
        bounds.check_list(part, int, "groups that begin and end at whole numbers")
    if not parts or not all(0 <= start < stop <= count for start, stop in parts):
        raise ParameterError(f"expected groups inside the {count} queries, none of them empty")
    return parts


def _one_per(groups: int) -> Sensitivity:
    return Sensitivity(Fraction(groups), Fraction(groups), Fraction(1))


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


def _up(value: Fraction) -> Fraction:
    """Rounded up to a fixed grid, so that sums stay short."""
    return Fraction(math.ceil(value * 2**_ACCOUNT_BITS), 2**_ACCOUNT_BITS)
