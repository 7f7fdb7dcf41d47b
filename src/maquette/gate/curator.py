"""Every question that can be asked of a private table, one method each: pay, look, return.

`Curator` asks on top of `Barrier._ask`. `OnlineCurator` adds questions that come one at a time, in epochs of tests,
over restarts and from several processes; how it follows its steps in the ledger is in `gate/barrier.py`.
`DiscoveryCurator` asks about raw columns, before a domain is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from maquette import _check
from maquette.accounting.budget import Budget
from maquette.accounting.events import Selection
from maquette.accounting.ledger import Ledger, step_key
from maquette.core.any_order import Statistic
from maquette.domain import Relation, rows_of
from maquette.errors import LedgerError, MechanismError
from maquette.gate import prices
from maquette.gate.barrier import Barrier, Exact, Note, SteppedBarrier
from maquette.gate.handle import Table
from maquette.gate.prices import Counts
from maquette.queries.base import Group, Margin, Queries
from maquette.queries.marginals import Binned
from maquette.questions import answers as asking
from maquette.questions import bounds, measurement, sparse
from maquette.questions.answers import Answers, ChoiceQuestion, check_answers, distance_sensitivity, project
from maquette.questions.class_errors import ClassQuestion, ReleasedTables
from maquette.questions.combinations import CombinationQuestion, ReleasedRows
from maquette.questions.draws import Draw, DrawnDatabase
from maquette.questions.findings import KINDS, YEARS, FoundValues, from_bytes, numbers_request, to_bytes
from maquette.questions.noise import IndependentLaw, NoiseRequest
from maquette.questions.sparse import Guess, OpenEpoch, check_guess
from maquette.questions.weighting import Weighting
from maquette.samplers.check import check_database, check_draw, check_weight
from maquette.samplers.draw import error_of, join_words, run, split_words, total_weight
from maquette.samplers.noise import add_noise
from maquette.vault import engine as vault
from maquette.vault.raw import RawTable

Watch = Callable[[int], None]
STAYS_CHARGED = (
    "interrupted while drawing: the price stays charged in the ledger; "
    "the same request under the same key draws again, and is charged once more"
)


class Curator(Barrier):
    """Answers questions about one table out of one allowance, reserved under one key of the ledger.

    `watch` is for the holder of the table and for nobody else: it is called with the number of levels that a draw has
    counted so far, which depends on the table. Mechanisms do not see it.
    """

    def __init__(
        self, table: Table, ledger: Ledger, *, key: str, budget: Budget, watch: Watch | None = None
    ) -> None:
        super().__init__(table, ledger, key=key, budget=budget)
        self._watch: Watch = watch or (lambda levels: None)

    def size(self, *, price: Fraction, note: Note = None) -> measurement.Size:
        """The number of records.

        Guarantee: exact and free under replace-one, where it is public; under add/remove-one noisy at `price`.
        """
        if self.relation is Relation.REPLACE_ONE:
            return measurement.Size(self._engine.size(), None, None)
        return measurement.Size.of(
            self._ones_at({"ask": "size"}, 1, price, lambda: np.array([self._engine.size()]), note)
        )

    def total(self, weight: Weighting, *, price: Fraction) -> measurement.Size:
        """The total weight of the records, in units of the largest weight, rounded up, plus noise.

        Guarantee: `price`, under both relations: one record moves the sum by at most 1, and rounding up cannot make
            a gap of at most 1 wider. The total is private where the number of records is not.
        """
        check_weight(self.domain, weight, [()])
        request = {"ask": "total", "weight": weight.to_dict()}
        return measurement.Size.of(
            self._ones_at(request, 1, price, lambda: total_weight(self._engine, weight))
        )

    def measure(self, queries: Queries, *, noise: NoiseRequest, note: Note = None) -> measurement.Measurement:
        """Answers to a class of queries, plus noise of the asked kind and price.

        Guarantee: the price of `noise`, pure epsilon or rho-zCDP, under this curator's relation.
        """
        query_forms = bounds.forms_of(self.domain, queries)
        bounds.check_type(noise, NoiseRequest, "a request for noise, a kind with its price")
        values, law, receipt = self._noisy(
            {"ask": "measure", "queries": query_forms.name},
            noise.sensitivity_of(query_forms, self.domain, self.relation),
            noise,
            lambda: self._engine.answer(query_forms),
            denominator=query_forms.top,
            coordinates=query_forms.count(self.domain.sizes),
            note=note,
        )
        return measurement.Measurement(queries, values, law, receipt)

    def select(self, queries: Queries, answers: Answers, *, price: Fraction, signed: bool = False) -> int:
        """A query whose released answer is far off, chosen by its error in counts.

        With `signed` the sign is chosen too: i says that the released answer to query i is too small, i + count that it
        is too large.

        Guarantee: permute-and-flip for a pure price, the exponential mechanism for a price in rho; sensitivity 1.
        """
        query_forms = bounds.forms_of(self.domain, queries)
        check_answers(answers, query_forms.count(self.domain.sizes))
        plan = self._prices.choice(price)
        request = {"ask": "select signed" if signed else "select"} | asking.answers_request(
            query_forms.name, answers
        )
        look = partial(vault.errors_of, self._engine, query_forms, answers, signed=signed)
        return self._choose(plan, request, look)

    def choose(self, question: ChoiceQuestion, *, price: Fraction, method: Selection | None = None) -> int:
        """The number of a candidate with a large score.

        Guarantee: `price`, for scores of sensitivity 1 (`questions/answers.py`): permute-and-flip for a pure price, the
            exponential mechanism for a price in rho or where it is asked for.
        """
        bounds.check_type(question, ChoiceQuestion, "candidates with their score")
        query_forms = question.check(self.domain)
        monotone = question.is_monotone(self.relation)
        plan = self._prices.choice(price, monotone=monotone, method=method)
        return self._choose(
            plan,
            question.request(),
            lambda: question.scores(self._engine.answer(query_forms), query_forms.top, self._engine.size()),
        )

    def draw(self, question: Draw, *, price: Fraction) -> DrawnDatabase:
        """A small database near the table: SmallDB, drawn exactly.

        Guarantee: the exponential mechanism on a score of sensitivity 1 in counts, under both relations, with a public
            base measure (Blum, Ligett and Roth 2008); see `samplers/draw.py`. Paid before the first look: a broken-off
            draw stays paid, and the same key draws again at its price.
        """
        check_draw(self.domain, question)
        plan = self._prices.draw(price, resolution=question.resolution, what=question.describe())

        def look() -> list[Counts]:
            try:
                bits = self._noise.bits
                values = run(question, self._engine, decay=plan.decay, bits=bits, report=self._watch)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(STAYS_CHARGED) from None
            return split_words(values)

        request = {"ask": "draw", "draw": question.to_dict(), "weight": str(plan.decay)}
        halves, receipt = self._ask(plan.event, request, look)
        return DrawnDatabase(question, join_words(halves), plan.epsilon, plan.decay, receipt)

    def score_of(self, draw: DrawnDatabase, *, price: Fraction) -> measurement.NoisyCounts:
        """The largest error of a drawn database over its class, in counts, plus noise.

        Guarantee: `price`. The error is the score that the draw itself used, rounded up to whole counts: sensitivity 1
            under both relations, for weighed records too. It serves classes too large to list, and weighted tables.
        """
        check_database(self.domain, draw)
        law = draw.draw
        request = {"ask": "judge", "draw": law.to_dict(), "database": asking.database_digest(draw.values)}
        return self._ones_at(request, 1, price, lambda: np.array([error_of(law, draw.values, self._engine)]))

    def largest_error(
        self, queries: Queries, answers: Answers, *, groups: Sequence[Group] | None = None, price: Fraction
    ) -> measurement.NoisyCounts:
        """The largest error of released answers, in counts, plus noise: over all queries or over each group.

        Guarantee: each group's largest error has sensitivity 1, so g groups are a vector of L1 sensitivity g and
            L2 sensitivity sqrt(g).
        """
        query_forms = bounds.forms_of(self.domain, queries)
        count = query_forms.count(self.domain.sizes)
        check_answers(answers, count)
        parts = [(0, count)] if groups is None else asking.group_ends(groups, count)
        request = {"ask": "largest error", "groups": parts} | asking.answers_request(
            query_forms.name, answers
        )
        return self._ones_at(
            request,
            len(parts),
            price,
            lambda: vault.largest_by_part(self._engine, query_forms, answers, parts),
        )

    def class_errors(
        self, classes: Sequence[str], released: ReleasedTables, *, price: Fraction
    ) -> measurement.NoisyCounts:
        """The largest error of a released distribution over each of several classes of questions, plus noise.

        Guarantee: `price`. Each class's largest error has sensitivity 1 (`questions/class_errors.py`), so g classes
            are a vector of L1 sensitivity g and L2 sensitivity sqrt(g).
        """
        question = ClassQuestion.of(self.domain, classes, released)
        look = partial(vault.largest_errors, self._engine, question)
        return self._ones_at(question.request(), len(question.names), price, look)

    def combination_errors(
        self, released: ReleasedRows, statistics: Sequence[Statistic], *, price: Fraction
    ) -> measurement.NoisyCounts:
        """The largest errors of released rows over combinations of values of any number of columns, plus noise.

        Guarantee: `price`, as for `class_errors`: each family's has sensitivity 1 (`core/any_order.py`).
        """
        question = CombinationQuestion.of(self.domain, released, statistics)
        vault.check_lists_records(self._engine)
        look = partial(vault.combination_errors, self._engine, question)
        return self._ones_at(question.request(), len(question.statistics), price, look)

    def measure_residuals(
        self, margins: Sequence[Margin], *, variances: Sequence[Fraction]
    ) -> tuple[measurement.Residual, ...]:
        """Residuals of margins: integer noise of the given variances on each table, then the means removed.

        Guarantee: that of `Prices.residuals`. The price is that of the projected tables only, and receipts
            publish hashes of what is stored: nothing else may be stored.
        """
        plan = self._prices.residuals(self.domain, margins, variances)

        def look() -> list[Counts]:
            tables = self._engine.margins(list(margins))
            return plan.draw(self._noise, [tables[margin].ravel() for margin in margins])

        request = asking.residuals_request(margins, plan.noise.widths)
        tables, receipt = self._ask(plan.noise.event, request, look)
        parts = zip(margins, plan.axes, tables, plan.sizes, plan.noise.variances, strict=True)
        return tuple(
            measurement.Residual(margin, axes, *project(table.reshape(shape), axes), variance, receipt)
            for margin, axes, table, shape, variance in parts
        )

    def measure_tables(
        self, binned: Sequence[Binned], *, variances: Sequence[Fraction], note: Note = None
    ) -> tuple[measurement.NoisyTable, ...]:
        """Tables in bins, each with noise of its own variance, in one payment: Gaussian for rho, Laplace for epsilon.

        Guarantee: that of `Prices.tables`.
        """
        plan = self._prices.tables(self.domain, binned, variances)
        request = asking.noisy_tables_request(binned, plan.widths)
        values, receipt = self._ask(
            plan.event, request, lambda: plan.draw(self._noise, self._engine.binned(binned)), note=note
        )
        return tuple(
            measurement.NoisyTable(table, counts, variance, receipt)
            for table, counts, variance in zip(binned, values, plan.variances, strict=True)
        )

    def distances(
        self, binned: Sequence[Binned], references: Sequence[Counts], *, price: Fraction
    ) -> tuple[Counts, IndependentLaw]:
        """The L1 distance in counts of every private table to a public one, plus noise.

        Guarantee: `price`, for a vector of distances that one record moves by 1 each (2 under replace-one).
        """
        asking.check_tables(self.domain, binned)
        asking.check_references(binned, references)
        request = {"ask": "distances"} | asking.tables_request(binned, references)
        sensitivity = distance_sensitivity(len(binned), self.relation)
        look = partial(vault.distances, self._engine, binned, references)
        noisy = self._noisy_at(request, sensitivity, price, look, coordinates=len(binned))
        return noisy.values, noisy.noise

    def select_tables(
        self,
        binned: Sequence[Binned],
        references: Sequence[Counts],
        penalties: Counts,
        *,
        count: int,
        price: Fraction,
        related: bool = False,
    ) -> tuple[int, ...]:
        """Up to `count` tables far from their references, less a public penalty, no two of them sharing two attributes.

        With `related` two may share some, but not all of the smaller one's.

        Guarantee: `price` for all choices together, as in `Prices.choices`.
        """
        asking.check_tables(self.domain, binned)
        asking.check_references(binned, references)
        bounds.check_numbers(penalties, len(binned), "whole penalties, one per table")
        plan = self._prices.choices(count, price)

        def look() -> list[Counts]:
            scores = vault.distances(self._engine, binned, references) - penalties
            return [plan.choose(self._noise, scores, binned, related=related)]

        request = {"ask": "select tables"} | asking.selection_request(binned, references, penalties, related)
        ((chosen,), _) = self._ask(plan.event, request, look)
        return tuple(int(i) for i in chosen)


class OnlineCurator(Curator, SteppedBarrier):
    """Tests guesses against one table, and measures where they fail."""

    def open_epoch(self, terms: measurement.EpochTerms) -> measurement.Epoch:
        """Pay for a noisy threshold and for the tests against it.

        Guarantee: see `questions/sparse.py`; the whole epoch is paid before its threshold is drawn, nothing of it is
            refunded, and the threshold is stored before anything is tested against it.
        """
        if self._open is not None:
            raise MechanismError("an epoch is open already; test in it until it is closed")
        event = prices.per_person(self._prices.epoch(terms).event, self._ledger.persons)
        (step,) = self._records(measurement.EPOCH, [event.to_dict() | {"terms": sparse.terms_to_dict(terms)}])
        secret = partial(self._secret, terms)
        with self._ledger.turn(self._key):
            self._follow(self._answered(event, step.request, step.body, secret, takes_look=False))
        if self._open is None:
            raise LedgerError("the ledger did not store the epoch; nothing was tested")
        return self._open.epoch

    def test(
        self, queries: Queries, *, guess: int, about: Mapping[str, Any] | None = None
    ) -> measurement.GuessOutcome:
        """Is a guess of one query's answer far from the table? If so, also its value with fresh noise.

        `guess` is a whole number over the query's denominator. The look was paid for when the epoch opened.
        """
        return self.test_all([Guess(queries, guess, {} if about is None else about)])[0]

    def test_all(self, guesses: Sequence[Guess]) -> list[measurement.GuessOutcome]:
        """The same for several guesses in order, up to and with the first that is far off; the rest is not tested.

        Guarantee: that of the same tests one by one: whoever would choose the next guess after a near outcome may
            choose it before. All are begun before the first look, as many as are given and the rate has room for. If
            storing fails, the same guesses return what was seen; if the process ends, they count as one far guess.
        """
        with self._ledger.turn(self._key):
            bounds.check_list(guesses, Guess, "a list of guesses")
            tests = [(check_guess(self.domain, g, self._tested().epoch), g.guess) for g in guesses]
            records = self._records(measurement.TEST, (one.body for one in guesses))
            if self._begun:  # storing failed: what was seen is stored first, and answers the same guesses
                begun = {entry.key: entry.request for entry in self._begun}
                self._leave_begun()
                if list(begun.values()) == [one.request for one in records[: len(begun)]]:
                    return measurement.outcomes_of(
                        [s for s in self._own if step_key(self._key, s.number) in begun]
                    )
                records = self._records(measurement.TEST, (one.body for one in guesses))
            current, room = self._tested(), self._ledger.room(self._key)
            count = len(guesses) if room is None else max(room, 1)
            self._begun = self._ledger.begin_all(records[:count], parent=self._key)
            stored = self._ledger.store_all(self._begun, lambda: self._look_all(tests[:count], current))
            self._begun = []
            return measurement.outcomes_of([self._follow(entry) for entry in stored])

    def _tested(self) -> OpenEpoch:
        if self._open is None:
            raise MechanismError("no epoch is open; open one before testing")
        return self._open


class DiscoveryCurator(Barrier):
    """Looks at the raw columns of one table, out of one allowance of a ledger that was made before the domain.

    It goes by public structure only: kinds of values, a public ladder of borders, and the texts that occur with at
    least so many records that no single person's values come out but with a chance delta.
    """

    def __init__(self, table: RawTable, ledger: Ledger, *, key: str, budget: Budget) -> None:
        ledger.require_raw(persons=table.persons)
        ledger.bind_raw(table.columns, table.commitment(ledger.salt))
        self._raw = table
        self._begin(ledger, key=key, budget=budget)

    def _cells(
        self, ask: str, column: str, cells: int, price: Fraction, exact: Exact, **facts: Any
    ) -> measurement.NoisyCounts:
        """Counts in disjoint cells; `facts` are what the request says beside its column, public too."""
        _check.one_of(self._raw.columns, column=column)
        request: dict[str, Any] = {"ask": ask, "column": column, **facts}
        one_cell = asking.cell_sensitivity(self.relation)
        return self._noisy_at(request, one_cell, price, exact, coordinates=cells, note={"column": column})

    def kinds(self, column: str, *, price: Fraction) -> measurement.NoisyCounts:
        """How many values of a column are whole numbers, fractions, days, other texts, missing; plus noise.

        Guarantee: `price`; a record is counted in one cell.
        """
        return self._cells("kinds of values", column, len(KINDS), price, lambda: self._raw.kinds(column))

    def numbers(
        self, column: str, *, price: Fraction, borders: tuple[float, ...] | None = None
    ) -> measurement.NoisyCounts:
        """Numbers of a column that lie between the borders of `questions/findings.py` or other public ones, with noise.

        Guarantee: `price`; a record is counted in one cell, beyond the borders and without a number too.
        """
        ask, cells, facts = numbers_request(borders)
        return self._cells(ask, column, cells, price, lambda: self._raw.numbers(column, borders), **facts)

    def years(self, column: str, *, price: Fraction) -> measurement.NoisyCounts:
        """How many days of a column lie in each public year, plus noise.

        Guarantee: `price`; a record is counted in one cell.
        """
        return self._cells("days by year", column, len(YEARS) + 2, price, lambda: self._raw.years(column))

    def common_values(self, column: str, *, price: Fraction, delta: Fraction) -> FoundValues:
        """The values whose number of records, plus noise, reaches a public threshold; with those noisy numbers.

        Noise is drawn for the values that occur, each by itself, and for no others: that is what delta pays for.

        Guarantee: `price` in rho, but for a total variation of `delta`. Let a neighbour have one person more, whose
            records have values that others have too, and new ones. The noisy counts of the former are the Gaussian
            mechanism on a vector that moves by at most k; a new one, of which there are at most k, passes the threshold
            with a chance of at most delta altogether, independently of them. Where none does, both tables give the same
            law on the rest; thresholds are post-processing.
        """
        _check.one_of(self._raw.columns, column=column)
        rows = rows_of(self._ledger.persons)
        plan = self._prices.common_values(price, delta, asking.cell_sensitivity(self.relation), rows=rows)

        def look() -> list[Counts]:
            texts, exact = self._raw.spellings(column)
            noisy = add_noise(exact, plan.law, source=self._noise)
            common = np.flatnonzero(noisy >= plan.threshold)
            return [to_bytes(tuple(texts[i] for i in common)), noisy[common]]

        request = {"ask": "common values", "column": column, "threshold": plan.threshold}
        (texts, counts), receipt = self._ask(plan.event, request, look, note={"column": column})
        return FoundValues(from_bytes(texts), counts, plan.threshold, plan.law, delta, receipt)
