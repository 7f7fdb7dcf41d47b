"""What a release states about one set of records: a value, the ends it lies between, and by what it is known.

Every way of asking ends here: answers, cells of tables and of SELECTs, bars and maps of a report. A set of records is
brought into one form first (`as_set`), so that however it is written it has one value and one error.

Of all statements that cover the set the one with the smallest error is taken, and the value is the one that this
statement is about. Then what is stated about its parts narrows the ends: a conjunction has at most as many records as
each of its parts, at least as many as all of them cannot avoid having in common (Fréchet), and as many as a part has
less those of them that lie outside the rest (a difference).

Which statements may be taken together, so that all of it fails with at most beta (`Terms`):

- *With certificates of classes* the chance was divided when they were bought: one part for each class, one for the
  certificate of the workload, one for the noise of the measured tables, and that part is either for all questions of
  the workload at once or for this question alone.
- *With a certificate of the workload and a model*, three quarters of the chance are the model's. The certificate is
  stated as it would be with the last quarter: the law of its noise follows from what was paid for it.
- *Else* one source speaks, and public structure alone decides which: the certificate for a question of the workload,
  then the model, then the answers of the workload. The smaller of two, picked afterwards, would fail more often.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core.budget import Unit
from maquette.core.forms import Sensitivity
from maquette.core.laws import Gaussian
from maquette.mechanisms import sizing
from maquette.models.answers import answer_from
from maquette.models.constraints import possible
from maquette.queries import condition
from maquette.queries.base import Queries
from maquette.queries.condition import MAX_COMPARED_CELLS, Condition, Every, Leaf
from maquette.queries.predicates import of_condition
from maquette.results import wording
from maquette.results.covering import (
    Combination,
    Covered,
    Product,
    as_set,
    cell_weights,
    combinations,
    parts_of,
)
from maquette.results.distribution import records
from maquette.results.statements import Estimate, Source
from maquette.sculpt.model import SculptModel
from maquette.theory import quantiles, ratios
from maquette.theory.quantiles import law_at
from maquette.theory.ratios import Gap

if TYPE_CHECKING:
    from maquette.results.release import Release

MAX_LEAVES = 8
"""Attributes of a conjunction that is bounded by its parts."""
PART_ORDER = 3
"""Attributes of the parts that bound it."""
MODEL_PART = 0.75
"""Of the chance to fail, for the noise of the tables beside a certificate: an interval hardly grows by it, and most
questions are known by theirs."""
MUCH = 2.0
"""A question that is off by so many times the error of the released tables is said to be known better by its own."""
MAX_PRICE = 1e6
"""A payment that is larger was not made here."""
NOISE = "from the noise that was drawn for the measured tables"
PARTS = "what is stated about its parts on fewer attributes"
OUTSIDE = "outside every certified class"
UNCOVERED = "no statement covers it as a whole"
BETWEEN = "its parts on fewer attributes leave it between these ends"


Sums = list[Combination]
"""Ways to write a query as a sum of released answers."""


class Terms(NamedTuple):
    """Which statements are taken together for one question."""

    classes: bool
    workload: bool
    model: bool
    """The noise of the tables, for all questions of the workload at once."""


def estimate(release: Release, query: Queries, *, beta: float | None = None) -> Estimate | None:
    """The best supported estimate of one query, or None if the release does not cover it.

    `beta` is the chance that an interval of the model's fails, that of the release if it is not given.
    """
    return release.knowledge.of(query, beta=beta)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The statements of one release, and what they say about sets of records; parts are looked up once."""

    release: Release

    @property
    def part_of_beta(self) -> float:
        """The part of the chance to fail that each statement has, and a single interval besides: all where only one is
        taken."""
        release = self.release
        if release.shares_beta:
            certificates = (
                len(release.certificates) + len(release.quality) + (release.certificate is not None)
            )
            return 1 / (certificates + 1)
        return MODEL_PART if self._gaps else 1.0

    def of(self, query: Queries, *, beta: float | None = None) -> Estimate | None:
        """See `estimate`."""
        release = self.release
        target = as_set(query)
        if target in (condition.ALWAYS, condition.NEVER):
            is_all = target == condition.ALWAYS
            statement = "all records" if is_all else "no record"
            return Estimate.around(float(is_all), 0.0, 0.0, "workload", statement=statement)
        question = query if target is None else of_condition(query.domain, target)
        if not set(question.attributes) <= set(release.measured):
            return None
        sums = self._sums(question)
        own = self._single(question, sums, (release.beta if beta is None else beta) * self.part_of_beta)
        terms = self._terms(sums, own)
        options = list(self._direct(question, sums, terms._replace(model=False)))
        if own is not None and (self.is_shared or not terms.workload):
            options.append(own)
        best = min(options, key=lambda one: one.width, default=None)
        product = None if target is None else condition.product(target)
        if product is not None:
            best = self._between_parts(product, terms, best)
            best = None if best is None else self._at_most_the_whole(product, best, own)
        if best is None:
            best = self._from_rows(question)
        if best is not None and best.lower is not None and self.is_shared:
            best = replace(best, beta=release.beta)
        return None if best is None else self._possible(question, self._with_hint(question, best))

    # --- which statements ------------------------------------------------------------------------------------------

    def _terms(self, sums: Sums, own: Estimate | None) -> Terms:
        """See the head of this file; `own` is the interval of the question by the noise of the tables."""
        release = self.release
        is_together = own is None or not own.alone
        if release.shares_beta:
            return Terms(True, release.certificate is not None, is_together)
        if self._gaps:
            return Terms(False, True, is_together)
        if release.certificate is not None and _is_single(sums):
            return Terms(False, True, False)
        return Terms(False, own is None, own is not None and is_together)

    @property
    def is_shared(self) -> bool:
        """Was the chance to fail divided between several statements, so that all of them may be taken?"""
        return self.release.shares_beta or bool(self._gaps)

    @cached_property
    def _gaps(self) -> list[tuple[float, Gap, Gap]]:
        """What the noise of a certificate may hide, with all of its chance to fail and with a quarter of it.

        For each way in which versions judge the noise of the number of records beside it: with that number, and a part
        of the chance for it, or both together. None where the law of the noise is not known.
        """
        release, certificate, size = self.release, self.release.certificate, self.release.size
        paid = [
            one
            for one in release.spending
            if one.asked == "largest error" and 0 < one.amount < MAX_PRICE and one.unit in set(Unit)
        ]
        if release.model is None or certificate is None or release.shares_beta or len(paid) != 1:
            return []
        count = max(1, len(certificate.groups))
        vector = Sensitivity(Fraction(count), Fraction(count), Fraction(1))
        noise = law_at(Fraction(paid[0].amount), vector, unit=Unit(paid[0].unit))
        for_size = 0.0 if size.public else sizing.SIZE_BETA
        betas = [release.beta * (part - for_size) / count for part in (1.0, 1 - MODEL_PART)]
        n = records(size, release.model, beta=release.beta)
        apart = [
            ratios.joint_gap(error=quantiles.lower_quantile(noise, beta=beta), size_error=n.value - n.least)
            for beta in betas
        ]
        ways = [(n.value, apart[0], apart[1])]
        by_tables = release.model.total_of_tables if isinstance(release.model, SculptModel) else None
        value, law = by_tables or (float(size.divisor), size.noise)
        if isinstance(noise, Gaussian) and isinstance(law, Gaussian):
            deviations = {"deviation": noise.deviation, "size_deviation": law.deviation}
            together = [ratios.dependent_gap(**deviations, beta=beta) for beta in betas]
            ways.append((value, together[0], together[1]))
        return ways

    def _restated(self, alpha: float) -> float:
        """What a certificate states with that part of its chance to fail, the largest over the ways to judge its noise.

        Accuracy: alpha is where the measured error and its gap reach alpha n, so the measured error follows from it.
        """
        if alpha not in self._stated_again:
            share = np.array([alpha])
            ends = [
                ratios.share_between(alpha * n - whole(share), n, gap=part)[1][0]
                for n, whole, part in self._gaps
            ]
            self._stated_again[alpha] = max(map(float, ends), default=alpha)
        return self._stated_again[alpha]

    @cached_property
    def _stated_again(self) -> dict[float, float]:
        return {}

    def workload_bound(self, indices: NDArray[Any]) -> tuple[float, float]:
        """The error that holds for all of these answers together, and how likely it is exceeded."""
        release = self.release
        certificate = release.certificate
        if certificate is None:
            return release.stated.alpha, release.stated.beta
        named = {group.name: group.alpha for group in certificate.groups}
        inside = (
            min(named[group.name], certificate.alpha)
            for group in release.workload.groups()
            if group.name in named
            and len(indices)
            and group.start <= indices.min()
            and indices.max() < group.stop
        )
        return self._restated(next(inside, certificate.alpha)), certificate.beta

    # --- statements about the question itself ------------------------------------------------------------------------

    def _direct(self, query: Queries, sums: Sums, terms: Terms) -> Iterator[Estimate]:
        """What is stated about a set, by every statement that may be taken."""
        release = self.release
        if terms.classes and release.coverage is not None:
            covered = release.coverage.cover(query)
            if covered is not None:
                yield self._of_class(covered)
        if terms.workload and sums:
            yield min((self._combine(query, *one) for one in sums), key=lambda one: one.width)
        if terms.model and _is_single(sums):
            own = self._single(query, sums, release.beta * self.part_of_beta)
            if own is not None:
                yield own

    def _best(self, query: Queries, terms: Terms) -> Estimate | None:
        """The smallest error of those statements."""
        able = self._direct(query, self._sums(query), terms)
        return min(able, key=lambda one: one.width, default=None)

    def _sums(self, query: Queries) -> Sums:
        """The query as sums of the workload's own."""
        return [
            (offset + indices, weights, constant)
            for offset, part in parts_of(self.release.workload)
            for indices, weights, constant in combinations(part, query)
        ]

    def _of_class(self, covered: Covered) -> Estimate:
        source: Source = "workload" if covered.of == "answers" else "rows"
        return Estimate.around(
            covered.value, covered.error, self.release.beta, source, statement=covered.statement
        )

    def _single(self, query: Queries, sums: Sums, beta: float) -> Estimate | None:
        """By the noise of the measured tables: for the whole workload if the question is in it, else for it alone."""
        release = self.release
        if release.model is None:
            return None
        own = _is_single(sums)
        result = release.model.estimate(query, beta=beta, among=release.workload.count if own else 1)
        if result is None:
            return None
        value, error = result
        return Estimate.around(value, error, beta, "model", alone=not own, statement=NOISE)

    def _combine(
        self, query: Queries, indices: NDArray[Any], weights: NDArray[Any], constant: float
    ) -> Estimate:
        """A weighted sum of released answers. Their common bound holds for all at once, so errors add up."""
        release = self.release
        if release.listed:
            numerators = release.answers.numerators[indices.astype(np.int64)]
            value = constant + float((weights * numerators).sum()) / release.answers.denominator
        else:  # every answer is the rows' own, and so is their sum
            assert release.database is not None
            value = float(answer_from(release.database, query).fractions[0])
        alpha, beta = self.workload_bound(indices)
        note = (
            None
            if len(indices) < 2
            else f"summed from {len(indices):,} released answers, whose errors add up"
        )
        total = float(np.abs(weights).sum())
        return Estimate.around(
            value, total * alpha, beta, "workload", note, statement=self.workload_statement
        )

    @property
    def workload_statement(self) -> str:
        how = "guaranteed in advance" if self.release.certificate is None else "certified"
        return f"{how} for every query of the workload"

    def _from_rows(self, query: Queries) -> Estimate | None:
        release = self.release
        if release.database is None:
            return None
        value = float(answer_from(release.database, query).fractions[0])
        return Estimate(value, None, None, None, "rows", self._of_rows(query))

    def _of_rows(self, query: Queries) -> str:
        """How an answer of the rows is known: whether a measurement looked at its attributes together."""
        if not self._is_measured_together(query):
            return f"{wording.assumption(query.attributes)}, and no error is proved for it"
        better = wording.higher_order(query.attributes)
        return (
            f"not in the released workload: read from the synthetic rows, no error is proved for it; {better}"
        )

    def _is_measured_together(self, query: Queries) -> bool:
        names = {name for name in query.attributes if query.domain[name].size > 1}
        return len(names) < 2 or any(names <= set(margin) for margin in self.release.measured_together)

    # --- what is stated about its parts ------------------------------------------------------------------------------

    @cached_property
    def _parts(self) -> dict[tuple[Product, Terms], Estimate | None]:
        return {}

    def _part(self, product: Product, terms: Terms) -> Estimate | None:
        """A conjunction by itself and its own parts, where something is stated about it."""
        key = (product, terms)
        if key not in self._parts:
            best = self._best(of_condition(self.release.domain, _conjunction(product)), terms)
            has_ends = best is not None and best.lower is not None
            self._parts[key] = self._between_parts(product, terms, best) if has_ends else None
        return self._parts[key]

    def _between_parts(self, product: Product, terms: Terms, best: Estimate | None) -> Estimate | None:
        """A conjunction between the ends that its parts leave it, beside what is stated about it as a whole."""
        ends = self._ends(product, terms) if 1 < len(product) <= MAX_LEAVES else None
        if ends is None:
            return best
        low, high = ends
        if best is None or best.lower is None or best.upper is None:
            return self._anywhere(product, best, low, high)
        lower, upper = max(best.lower, low), min(best.upper, high)
        if (lower, upper) == (best.lower, best.upper) or lower > upper:
            return best
        value = min(max(best.value, lower), upper)
        statement = PARTS if best.statement is None else f"{best.statement}; {PARTS}"
        return replace(best, value=value, lower=lower, upper=upper, statement=statement)

    def _anywhere(self, product: Product, best: Estimate | None, low: float, high: float) -> Estimate | None:
        """Between two ends, where they are all that is stated; the value of the rows, if there are any."""
        release = self.release
        if high - low >= 1 or (release.database is None and release.coverage is None and best is None):
            return best
        value, source, note = (low + high) / 2, "workload", None
        if best is not None:
            value, source = best.value, best.source
        elif release.database is not None:
            query = of_condition(release.domain, _conjunction(product))
            value, source = float(answer_from(release.database, query).fractions[0]), "rows"
            note = None if self._is_measured_together(query) else wording.assumption(query.attributes)
        value = min(max(value, low), high)
        statement = f"{OUTSIDE if release.certificates else UNCOVERED}; {BETWEEN}"
        return Estimate(value, low, high, release.beta, source, note, statement=statement)

    def _ends(self, product: Product, terms: Terms) -> tuple[float, float] | None:
        """The ends that the parts of a conjunction leave it; None where nothing is stated about them."""
        parts: list[tuple[frozenset[int], float, float]] = []
        for length in range(1, min(len(product), PART_ORDER + 1)):
            for places in itertools.combinations(range(len(product)), length):
                part = self._part(tuple(product[i] for i in places), terms)
                if part is not None and part.lower is not None and part.upper is not None:
                    parts.append((frozenset(places), part.lower, part.upper))
        if not parts:
            return None
        low, high = _least_common(parts, len(product)), min(1.0, *(upper for _, _, upper in parts))
        for whole, rest in self._differences(product, terms):
            low, high = max(low, whole[0] - rest[1]), min(high, whole[1] - rest[0])
        return (low, high) if low <= high else None

    def _at_most_the_whole(self, product: Product, best: Estimate, own: Estimate | None) -> Estimate:
        """The value of a set that is most of a larger one is not above that one's.

        Accuracy: neither is its upper end, where the noise of the tables says nothing about the set itself: that part
            of the chance to fail is then for the larger set. Only the first of several may have it.
        """
        is_free = own is None and self.is_shared
        for i, leaf in enumerate(product):
            others = product[:i] + product[i + 1 :]
            if not others or not self._is_most(leaf):
                continue
            whole = self.of(of_condition(self.release.domain, _conjunction(others)))
            if whole is None:
                continue
            least = 0.0 if best.lower is None else best.lower
            if is_free and whole.upper is not None and best.upper is not None and whole.upper < best.upper:
                upper = max(least, whole.upper)
                best = replace(best, upper=upper, value=min(best.value, upper), alone=whole.alone)
                is_free = False
            best = replace(best, value=max(min(best.value, whole.value), least))
        return best

    def _is_most(self, leaf: Leaf) -> bool:
        """Does it leave out fewer cells than it has?"""
        return 2 * condition.count(leaf.runs) > self.release.domain[leaf.attribute].size

    def _differences(
        self, product: Product, terms: Terms
    ) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
        """The ends of a part, and of those of its records that lie outside the rest: a set of few cells."""
        domain = self.release.domain
        for i, leaf in enumerate(product):
            if not self._is_most(leaf):
                continue
            others = product[:i] + product[i + 1 :]
            whole = self._part(others, terms)
            outside = Leaf(leaf.attribute, condition.complement(leaf.runs, domain[leaf.attribute].size))
            rest = self._best(of_condition(domain, _conjunction((*others, outside))), terms)
            if whole is None or rest is None:
                continue
            if whole.lower is None or whole.upper is None or rest.lower is None or rest.upper is None:
                continue
            yield (whole.lower, whole.upper), (rest.lower, rest.upper)

    # --- what else is to be said -------------------------------------------------------------------------------------

    def _with_hint(self, query: Queries, best: Estimate) -> Estimate:
        """Says where a release of a higher order would know it much better."""
        if best.lower is None or self._is_measured_together(query):
            return best
        if best.width <= MUCH * min(1.0, self.release.stated.alpha):
            return best
        better = wording.higher_order(query.attributes)
        return replace(best, note=better if best.note is None else f"{best.note}; {better}")

    def _possible(self, query: Queries, best: Estimate) -> Estimate:
        """Nobody, where the declared constraints rule out every record that the query counts."""
        if not best.value or not _is_impossible(query):
            return best
        note = "the constraints of the domain allow no such record"
        if best.lower is None or best.upper is None:
            return replace(best, value=0.0, note=note)
        return replace(best, value=0.0, lower=0.0, note=note)


def _is_single(sums: Sums) -> bool:
    """Is it one of the workload's queries, or the complement of one? Their errors are stated for all together."""
    return any(len(indices) == 1 and abs(float(weights[0])) == 1 for indices, weights, _ in sums)


def _conjunction(product: Product) -> Condition:
    """A product of sets as a simplified condition."""
    return product[0] if len(product) == 1 else Every(tuple(sorted(product, key=repr)))


def _least_common(parts: Sequence[tuple[frozenset[int], float, float]], count: int) -> float:
    """At least this share lies in all of the sets: one less what each of some parts that name them all leaves out."""
    missing, lacking = set(range(count)), 0.0
    while missing:
        able = [(1 - low, len(names & missing), names) for names, low, _ in parts if names & missing]
        if not able:
            return 0.0
        gap, _, names = min(able, key=lambda one: one[0] / one[1])
        lacking += gap
        missing -= names
    return max(0.0, 1 - lacking)


def _is_impossible(query: Queries) -> bool:
    """Do the declared constraints rule out every record that the query counts?"""
    if not query.domain.constraints or query.domain.cells(query.attributes) > MAX_COMPARED_CELLS:
        return False
    good = possible(query.domain, query.attributes)
    return good is not None and not cell_weights(query, query.attributes)[good].any()
