"""The questions that can be asked of a private table, one method each on top of `Payer._ask`: pay, look, return.

Those about tables of counts are in `gate/tabulator.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.budget import Budget
from maquette.accounting.ledger import Ledger
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.gate import prices
from maquette.gate.classes import largest_errors
from maquette.gate.handle import Table
from maquette.gate.prices import pricing
from maquette.gate.scores import check_answers, count_errors, signed_errors
from maquette.gate.tabulator import Tabulator
from maquette.models.answers import Answers
from maquette.queries import canonical_hash
from maquette.queries.base import Group, Queries, Sensitivity
from maquette.queries.merging import MAX_PIECE_QUERIES, pieces
from maquette.questions import bounds
from maquette.questions.draws import Draw, Drawn
from maquette.questions.measurement import LargestError, Measurement, Size
from maquette.questions.noise import NoiseRequest
from maquette.questions.released import ClassQuestion, ReleasedTables
from maquette.questions.weighting import Weighting
from maquette.samplers.check import check_draw, check_drawn, check_weight
from maquette.samplers.draw import STAYS_CHARGED, error_of, held_by, join_words, run, split_words
from maquette.vault.engine import MemoryEngine


class Curator(Tabulator):
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
            lambda: np.array([-(-held_by(self._engine, weight).size() // weight.grid)], dtype=np.int64),
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
            "answers": _digest(answers),
        }
        ((chosen,), _) = self._ask(plan.event, request, look)
        return int(chosen[0])

    def draw(self, asked: Draw, *, price: Fraction) -> Drawn:
        """A small database near the table: SmallDB, drawn exactly.

        Guarantee: the exponential mechanism on a score of sensitivity 1 in counts, under both relations, with a public
            base measure (Blum, Ligett and Roth 2008); see `gate/draw`. Paid before the first look: an interrupted
            draw stays paid, and the same key may draw again.
        """
        check_draw(self.domain, asked)
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
                    report=self._watch,
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
        check_drawn(self.domain, drawn)
        asked = drawn.draw
        request = {"ask": "judge", "draw": asked.to_dict(), "database": _digest_of(drawn.values)}
        values, noise, receipt = self._noisy_at(
            request,
            _one_per(1),
            price,
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
        self._check_queries(queries)
        check_answers(answers, queries.count)
        parts = [(0, queries.count)] if groups is None else _parts(groups, queries.count)

        def look() -> NDArray[np.int64]:
            return self._largest(queries, answers, parts)

        request = {
            "ask": "largest error",
            "queries": canonical_hash(queries),
            "answers": _digest(answers),
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


def _digest(answers: Answers) -> str:
    hasher = hashlib.sha256(str(answers.denominator).encode())
    for start in range(0, len(answers), MAX_PIECE_QUERIES):
        hasher.update(
            np.ascontiguousarray(answers.numerators[start : start + MAX_PIECE_QUERIES], dtype=np.int64).data
        )
    return hasher.hexdigest()


def _digest_of(values: Sequence[NDArray[Any]]) -> str:
    hasher = hashlib.sha256()
    for column in values:
        hasher.update(np.ascontiguousarray(column).astype(np.uint64).tobytes() + b"/")
    return hasher.hexdigest()
