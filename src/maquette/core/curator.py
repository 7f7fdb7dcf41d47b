"""Every question that can be asked of a private table, one method each: pay, look, return.

`Curator` asks on top of `Barrier._ask`. `OnlineCurator` adds questions that come one at a time, in epochs of tests,
over restarts and from several processes; how it follows its steps in the ledger is in `core/barrier.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from maquette.core import bounds, prices, sparse
from maquette.core.answers import (
    Answers,
    ChoiceQuestion,
    answers_request,
    binned_residuals_request,
    check_answers,
    check_references,
    check_tables,
    database_digest,
    distance_sensitivity,
    group_ends,
    noisy_tables_request,
    project,
    residuals_request,
    selection_request,
    tables_request,
)
from maquette.core.any_order import Statistic
from maquette.core.barrier import Barrier, Note, SteppedBarrier
from maquette.core.binned import Binned
from maquette.core.budget import Budget
from maquette.core.class_errors import ClassQuestion, ClassSets, ReleasedTables
from maquette.core.combinations import CombinationQuestion, ReleasedRows
from maquette.core.drawing import (
    D,
    DrawnDatabase,
    Draws,
    check_values,
    in_counts,
    in_shape,
    join_words,
    split_words,
)
from maquette.core.errors import LedgerError, MechanismError
from maquette.core.events import Selection
from maquette.core.fine_sums import SumsQuestion
from maquette.core.forms import Margin
from maquette.core.group_means import GroupMeans, GroupMeansQuestion
from maquette.core.laws import IndependentLaw, NoiseRequest, independent
from maquette.core.ledger.entry import step_key
from maquette.core.ledger.ledger import Ledger
from maquette.core.linear_queries import Group, LinearQueries
from maquette.core.measurement import (
    EPOCH,
    TEST,
    BinnedResidual,
    Epoch,
    EpochTerms,
    GuessOutcome,
    Measurement,
    NoisyCounts,
    NoisySums,
    NoisyTable,
    Q,
    Residual,
    Size,
    outcomes_of,
)
from maquette.core.neighbours import Relation
from maquette.core.prices import Counts
from maquette.core.rows.engine import (
    combination_errors,
    distances,
    errors_of,
    group_mean_errors,
    largest_by_part,
    largest_errors,
    typical_errors,
)
from maquette.core.sparse import Guess, OpenEpoch, check_guess
from maquette.core.table import PrivateTable
from maquette.core.typical import TypicalError, TypicalQuestion
from maquette.core.weighting import Weighting, check_weight, total_weight

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
        self,
        table: PrivateTable,
        ledger: Ledger,
        *,
        key: str,
        budget: Budget,
        draws: Draws | None = None,
        watch: Watch | None = None,
    ) -> None:
        """`draws` is the sampler of small databases: a curator without one draws none."""
        super().__init__(table, ledger, key=key, budget=budget)
        self._draws = draws
        self._watch: Watch = watch or (lambda levels: None)

    def size(self, *, price: Fraction, note: Note = None) -> Size:
        """The number of records.

        Guarantee: exact and free under replace-one, where it is public; under add/remove-one noisy at `price`.
        """
        if self.relation is Relation.REPLACE_ONE:
            return Size(self._engine.size(), None, None)
        return Size.of(
            self._ones_at({"ask": "size"}, 1, price, lambda: np.array([self._engine.size()]), note)
        )

    def total(self, weight: Weighting, *, price: Fraction) -> Size:
        """The total weight of the records, in units of the largest weight, rounded up, plus noise.

        Guarantee: `price`, under both relations: one record moves the sum by at most 1, and rounding up cannot make
            a gap of at most 1 wider. The total is private where the number of records is not.
        """
        check_weight(self.domain, weight, [()])
        request = {"ask": "total", "weight": weight.to_dict()}
        return Size.of(self._ones_at(request, 1, price, lambda: total_weight(self._engine, weight)))

    def measure(self, queries: Q, *, noise: NoiseRequest, note: Note = None) -> Measurement[Q]:
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
        return Measurement(queries, values, law, receipt)

    def sums(self, name: str, by: Margin = (), *, price: Fraction, note: Note = None) -> NoisySums:
        """The sums of a numeric attribute over the groups of some others, at the resolution of its unit, plus noise.

        Guarantee: `price`, by the sensitivity in `core/fine_sums.py`.
        """
        question = SumsQuestion.of(self.domain, name, by)
        task = question.task()
        values, law, receipt = self._noisy(
            question.request(),
            question.sensitivity(self.relation),
            NoiseRequest.at(price, self.unit),
            lambda: question.numerators(self._engine.fold(task)),
            denominator=question.denominator,
            coordinates=question.numbers,
            note=note,
        )
        return NoisySums(name, question.by, values, question.denominator, independent(law), receipt)

    def select(
        self, queries: LinearQueries, answers: Answers, *, price: Fraction, signed: bool = False
    ) -> int:
        """A query whose released answer is far off, chosen by its error in counts.

        With `signed` the sign is chosen too: i says that the released answer to query i is too small, i + count that it
        is too large.

        Guarantee: permute-and-flip for a pure price, the exponential mechanism for a price in rho; sensitivity 1.
        """
        query_forms = bounds.forms_of(self.domain, queries)
        check_answers(answers, query_forms.count(self.domain.sizes))
        plan = self._prices.choice(price)
        request = {"ask": "select signed" if signed else "select"} | answers_request(
            query_forms.name, answers
        )
        return self._choose(
            plan, request, lambda: errors_of(self._engine, query_forms, answers, signed=signed)
        )

    def choose(self, question: ChoiceQuestion, *, price: Fraction, method: Selection | None = None) -> int:
        """The number of a candidate with a large score.

        Guarantee: `price`, for scores of sensitivity 1 (`core/answers.py`): permute-and-flip for a pure price, the
            exponential mechanism for a price in rho or where it is asked for.
        """
        bounds.check_type(question, ChoiceQuestion, "candidates with their score")
        query_forms = question.check(self.domain)
        monotone = question.is_monotone(self.relation)
        plan = self._prices.choice(price, monotone=monotone, method=method)
        return self._choose(
            plan,
            question.request(query_forms.name),
            lambda: question.scores(self._engine.answer(query_forms), query_forms.top, self._engine.size()),
        )

    def draw(self, question: D, *, price: Fraction) -> DrawnDatabase[D]:
        """A small database near the table: SmallDB, drawn exactly.

        Guarantee: the exponential mechanism on a score of sensitivity 1 in counts, under both relations, with a public
            base measure (Blum, Ligett and Roth 2008); see `samplers/draw.py`. Paid before the first look: a broken-off
            draw stays paid, and the same key draws again at its price.
        """
        draws = self._sampler()
        shape = draws.check(self.domain, question)
        plan = self._prices.draw(price, resolution=question.resolution, what=question.describe())

        def look() -> list[Counts]:
            try:
                values = draws.run(
                    question, self._engine, decay=plan.decay, bits=self._noise.bits, report=self._watch
                )
            except KeyboardInterrupt:
                raise KeyboardInterrupt(STAYS_CHARGED) from None
            return split_words(in_shape(values, shape))

        request = {"ask": "draw", "draw": question.to_dict(), "weight": str(plan.decay)}
        halves, receipt = self._ask(plan.event, request, look)
        return DrawnDatabase(question, join_words(halves), plan.epsilon, plan.decay, receipt)

    def score_of(self, draw: DrawnDatabase[Any], *, price: Fraction) -> NoisyCounts:
        """The largest error of a drawn database over its class, in counts, plus noise.

        Guarantee: `price`. The error is the score that the draw itself used, rounded up to whole counts: sensitivity 1
            under both relations, for weighed records too. It serves classes too large to list, and weighted tables.
        """
        bounds.check_type(draw, DrawnDatabase, "a drawn database")
        draws, law = self._sampler(), draw.draw
        check_values(draw.values, draws.check(self.domain, law))
        request = {"ask": "judge", "draw": law.to_dict(), "database": database_digest(draw.values)}
        return self._ones_at(
            request, 1, price, lambda: in_counts(draws.error(law, draw.values, self._engine))
        )

    def _sampler(self) -> Draws:
        if self._draws is None:
            raise MechanismError("this curator draws no databases; give it a sampler with draws=")
        return self._draws

    def largest_error(
        self,
        queries: LinearQueries,
        answers: Answers,
        *,
        groups: Sequence[Group] | None = None,
        price: Fraction,
    ) -> NoisyCounts:
        """The largest error of released answers, in counts, plus noise: over all queries or over each group.

        Guarantee: each group's largest error has sensitivity 1, so g groups are a vector of L1 sensitivity g and
            L2 sensitivity sqrt(g).
        """
        query_forms = bounds.forms_of(self.domain, queries)
        count = query_forms.count(self.domain.sizes)
        check_answers(answers, count)
        parts = [(0, count)] if groups is None else group_ends(groups, count)
        request = {"ask": "largest error", "groups": parts} | answers_request(query_forms.name, answers)
        return self._ones_at(
            request, len(parts), price, lambda: largest_by_part(self._engine, query_forms, answers, parts)
        )

    def class_errors(
        self, classes: Sequence[ClassSets], released: ReleasedTables, *, price: Fraction
    ) -> NoisyCounts:
        """The largest error of a released distribution over each of several classes of questions, plus noise.

        Guarantee: `price`. Each class's largest error has sensitivity 1 (`core/class_errors.py`), so g classes
            are a vector of L1 sensitivity g and L2 sensitivity sqrt(g).
        """
        question = ClassQuestion.of(self.domain, classes, released)
        return self._ones_at(
            question.request(), len(question.names), price, lambda: largest_errors(self._engine, question)
        )

    def combination_errors(
        self, released: ReleasedRows, statistics: Sequence[Statistic], *, price: Fraction
    ) -> NoisyCounts:
        """The largest errors of released rows over combinations of values of any number of columns, plus noise.

        Guarantee: `price`. Each family's largest error has sensitivity 1 (`core/any_order.py`), so g families are a
            vector of L1 sensitivity g and L2 sensitivity sqrt(g). A table whose records are not on this machine is
            refused unpaid.
        """
        question = CombinationQuestion.of(self.domain, released, statistics)
        self._check_lists_records("errors over combinations of values")
        return self._ones_at(
            question.request(),
            len(question.statistics),
            price,
            lambda: combination_errors(self._engine, question),
        )

    def typical_errors(
        self, released: ReleasedRows, statistics: Sequence[TypicalError], *, price: Fraction
    ) -> NoisyCounts:
        """How far released rows are off typically: quantiles of errors and means over tables, plus noise.

        Guarantee: `price`. Each of them has sensitivity 1 (`core/typical.py`), so g of them are a vector of L1
            sensitivity g and L2 sensitivity sqrt(g). Refused unpaid where `combination_errors` is.
        """
        question = TypicalQuestion.of(self.domain, released, statistics)
        self._check_lists_records("typical errors of questions")
        return self._ones_at(
            question.request(),
            len(question.statistics),
            price,
            lambda: typical_errors(self._engine, question),
        )

    def group_mean_errors(
        self, released: ReleasedRows, statistic: GroupMeans, *, price: Fraction
    ) -> NoisyCounts:
        """The largest error of released rows over the means of all groups and columns with numbers, plus noise.

        Guarantee: `price`; sensitivity 1 (`core/group_means.py`). Refused unpaid where `combination_errors` is.
        """
        question = GroupMeansQuestion.of(self.domain, released, statistic)
        self._check_lists_records("errors of group means")
        return self._ones_at(question.request(), 1, price, lambda: group_mean_errors(self._engine, question))

    def _check_lists_records(self, what: str) -> None:
        """Refuses a table that stays elsewhere, by public facts."""
        if not self._engine.lists_records:
            raise MechanismError(
                f"{what} need whole records on this machine, and those of this table stay where they are; ask for "
                "classes of questions on few columns instead. Nothing was paid"
            )

    def measure_residuals(
        self, margins: Sequence[Margin], *, variances: Sequence[Fraction]
    ) -> tuple[Residual, ...]:
        """Residuals of margins: integer noise of the given variances on each table, then the means removed.

        Guarantee: that of `Prices.residuals`. The price is that of the projected tables only, and receipts
            publish hashes of what is stored: nothing else may be stored.
        """
        plan = self._prices.residuals(self.domain, margins, variances)

        def look() -> list[Counts]:
            tables = self._engine.margins(list(margins))
            return plan.draw(self._noise, [tables[margin].ravel() for margin in margins])

        request = residuals_request(margins, plan.noise.widths)
        tables, receipt = self._ask(plan.noise.event, request, look, is_empty=not margins)
        parts = zip(margins, plan.axes, tables, plan.sizes, plan.noise.variances, strict=True)
        return tuple(
            Residual(margin, axes, *project(table.reshape(shape), axes), variance, receipt)
            for margin, axes, table, shape, variance in parts
        )

    def measure_binned_residuals(
        self, binned: Sequence[Binned], *, variances: Sequence[Fraction]
    ) -> tuple[BinnedResidual, ...]:
        """Residuals of tables in bins: integer noise of the given variances on every bin, then the means removed.

        Guarantee: that of `Prices.binned_residuals`; as for `measure_residuals` nothing else may be stored.
        """
        plan = self._prices.binned_residuals(self.domain, binned, variances)
        request = binned_residuals_request(binned, plan.noise.widths)
        tables, receipt = self._ask(
            plan.noise.event, request, lambda: plan.draw(self._noise, self._engine.binned(binned))
        )
        parts = zip(binned, plan.axes, tables, plan.sizes, plan.noise.variances, strict=True)
        return tuple(
            BinnedResidual(table, axes, *project(values.reshape(shape), axes), variance, receipt)
            for table, axes, values, shape, variance in parts
        )

    def measure_tables(
        self, binned: Sequence[Binned], *, variances: Sequence[Fraction], note: Note = None
    ) -> tuple[NoisyTable, ...]:
        """Tables in bins, each with noise of its own variance, in one payment: Gaussian for rho, Laplace for epsilon.

        Guarantee: that of `Prices.tables`.
        """
        plan = self._prices.tables(self.domain, binned, variances)
        request = noisy_tables_request(binned, plan.widths)
        values, receipt = self._ask(
            plan.event, request, lambda: plan.draw(self._noise, self._engine.binned(binned)), note=note
        )
        return tuple(
            NoisyTable(table, counts, variance, receipt)
            for table, counts, variance in zip(binned, values, plan.variances, strict=True)
        )

    def distances(
        self, binned: Sequence[Binned], references: Sequence[Counts], *, price: Fraction
    ) -> tuple[Counts, IndependentLaw]:
        """The L1 distance in counts of every private table to a public one, plus noise.

        Guarantee: `price`, for a vector of distances that one record moves by 1 each (2 under replace-one).
        """
        check_tables(self.domain, binned)
        check_references(binned, references)
        request = {"ask": "distances"} | tables_request(binned, references)
        sensitivity = distance_sensitivity(len(binned), self.relation)
        look = partial(distances, self._engine, binned, references)
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
        check_tables(self.domain, binned)
        check_references(binned, references)
        bounds.check_numbers(penalties, len(binned), "whole penalties, one per table")
        plan = self._prices.choices(count, price)

        def look() -> list[Counts]:
            scores = distances(self._engine, binned, references) - penalties
            return [plan.choose(self._noise, scores, binned, related=related)]

        request = {"ask": "select tables"} | selection_request(binned, references, penalties, related)
        ((chosen,), _) = self._ask(plan.event, request, look)
        return tuple(int(i) for i in chosen)


class OnlineCurator(Curator, SteppedBarrier):
    """Tests guesses against one table, and measures where they fail."""

    def open_epoch(self, terms: EpochTerms) -> Epoch:
        """Pay for a noisy threshold and for the tests against it.

        Guarantee: see `core/sparse.py`; the whole epoch is paid before its threshold is drawn, nothing of it is
            refunded, and the threshold is stored before anything is tested against it.
        """
        if self._open is not None:
            raise MechanismError("an epoch is open already; test in it until it is closed")
        event = prices.per_person(self._prices.epoch(terms).event, self._persons)
        (step,) = self._records(EPOCH, [event.to_dict() | {"terms": sparse.terms_to_dict(terms)}])
        secret = partial(self._secret, terms)
        with self._ledger.turn(self._key):
            self._follow(self._answered(event, step.request, step.body, secret, takes_look=False))
        if self._open is None:
            raise LedgerError("the ledger did not store the epoch; nothing was tested")
        return self._open.epoch

    def test(
        self, queries: LinearQueries, *, guess: int, about: Mapping[str, Any] | None = None
    ) -> GuessOutcome:
        """Is a guess of one query's answer far from the table? If so, also its value with fresh noise.

        `guess` is a whole number over the query's denominator. The look was paid for when the epoch opened.
        """
        return self.test_all([Guess(queries, guess, {} if about is None else about)])[0]

    def test_all(self, guesses: Sequence[Guess]) -> list[GuessOutcome]:
        """The same for several guesses in order, up to and with the first that is far off; the rest is not tested.

        Guarantee: that of the same tests one by one: whoever would choose the next guess after a near outcome may
            choose it before. All are begun before the first look, as many as are given and the rate has room for. If
            storing fails, the same guesses return what was seen; if the process ends, they count as one far guess.
        """
        with self._ledger.turn(self._key):
            bounds.check_list(guesses, Guess, "a list of guesses")
            tests = [(check_guess(self.domain, g, self._tested().epoch), g.guess) for g in guesses]
            bodies = [
                one.body(query_forms.name) for one, (query_forms, _) in zip(guesses, tests, strict=True)
            ]
            records = self._records(TEST, bodies)
            if self._begun:  # storing failed: what was seen is stored first, and answers the same guesses
                begun = {entry.key: entry.request for entry in self._begun}
                self._leave_begun()
                if list(begun.values()) == [one.request for one in records[: len(begun)]]:
                    return outcomes_of([s for s in self._own if step_key(self._key, s.number) in begun])
                records = self._records(TEST, bodies)
            current, room = self._tested(), self._ledger.room(self._key)
            count = len(guesses) if room is None else max(room, 1)
            self._begun = self._ledger.begin_all(records[:count], parent=self._key)
            stored = self._ledger.store_all(self._begun, lambda: self._look_all(tests[:count], current))
            self._begun = []
            return outcomes_of([self._follow(entry) for entry in stored])

    def _tested(self) -> OpenEpoch:
        if self._open is None:
            raise MechanismError("no epoch is open; open one before testing")
        return self._open
