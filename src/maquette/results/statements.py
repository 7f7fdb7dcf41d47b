"""What a release states: its bounds, what it cost and the answers it gives. Small frozen values, all public."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from maquette import _html
from maquette.core.budget import Budget
from maquette.domain import Relation
from maquette.mechanisms.base import Guarantee as Guarantee
from maquette.queries import typical
from maquette.queries.base import Queries
from maquette.queries.classes import CLASSES, RULES
from maquette.queries.combinations import COMBINATIONS
from maquette.queries.quality import QUALITY, MeanKind
from maquette.results import wording
from maquette.theory import population, quantiles

if TYPE_CHECKING:
    from maquette.results.release import Release

Exactness = Literal["exact", "approximate with a proven bound", "heuristic"]
"""The class of a privacy claim."""

CRUMB = 1e-6
"""Shares of a budget below this are not worth telling."""

Source = Literal["model", "workload", "rows"]
"""Where an answer comes from: the fitted model, the released answers, or the synthetic rows."""


HoldsFor = Literal["this question alone", "all answers of the release together"]
"""What the confidence of a stated error is about: a question fixed before looking, or whatever is picked afterwards."""


@dataclass(frozen=True, slots=True)
class GroupCertificate:
    """The certified error of one named part of the workload."""

    name: str
    queries: int
    alpha: float
    counts: float


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """Measured afterwards through the gate: every answer within `alpha`, except with probability `beta`.

    `counts` is the same bound on the scale of records. Bounds of `groups`, where there are any, hold together
    with the one for the whole workload.
    """

    alpha: float
    beta: float
    counts: float
    groups: tuple[GroupCertificate, ...] = ()

    def __str__(self) -> str:
        return f"within {wording.points(self.alpha)}, except with probability {wording.chance(self.beta)}"

    def __repr__(self) -> str:
        return f"Certificate({self})"

    def _repr_html_(self) -> str:
        lines = {"all answers": f"within {wording.points(self.alpha)}, about {self.counts:,.0f} records"}
        lines |= {
            group.name: f"within {wording.points(group.alpha)}, about {group.counts:,.0f} records"
            for group in self.groups
        }
        head = f"All of this together, except with probability {wording.chance(self.beta)}."
        return _html.facts("Certificate.", lines, head=head)


WIDER = {"one small attribute": "one attribute", "two attributes with a small one": "two attributes"}
"""For classes all of whose questions another class has: that class."""


@dataclass(frozen=True, slots=True, repr=False)
class ClassCertificate:
    """Measured afterwards through the gate: every question of a class within `alpha`, except with probability `beta`.

    The chance `beta` is for all certificates of the release together. It is about the release's own distribution:
    the answers to whole marginals, or the synthetic rows (`of`).
    """

    name: str
    """The class, one of `queries.classes.CLASSES` or of `queries.combinations.COMBINATIONS`."""
    alpha: float
    beta: float
    counts: float
    """The same bound on the scale of records."""
    of: Literal["answers", "rows"]
    rules: int = RULES
    """The version of the rules that say which questions are in the class."""
    bounds: tuple[float, ...] = ()
    """For every table of the class a bound of its own, in their order; none where all of them have `alpha`."""
    columns: int | None = None
    """The most columns that combinations of values are of; None for any number of them, and for other classes."""

    @property
    def says(self) -> str:
        """The questions of the class, in words."""
        if self.name in COMBINATIONS:
            return COMBINATIONS[self.name].words(self.columns)
        return CLASSES[self.name].says

    @property
    def typical(self) -> float:
        """The bound of half of the tables of the class, which is that of all where they have none of their own."""
        return statistics.median_high(self.bounds) if self.bounds else self.alpha

    @property
    def within(self) -> str:
        """The bound, in words."""
        if not self.bounds:
            return f"within {wording.points(self.alpha)}"
        return f"half of these within {wording.points(self.typical)}"

    def __str__(self) -> str:
        every = f" and all within {wording.points(self.alpha)}" if self.bounds else ""
        return f"{self.says}{self.comma} {self.within}{every}, except with probability {wording.chance(self.beta)}"

    @property
    def comma(self) -> str:
        """Between what is said and the bound."""
        return "," if self.bounds else ""

    def __repr__(self) -> str:
        return f"ClassCertificate({self})"

    def _repr_html_(self) -> str:
        lines = {
            self.says: f"{self.within}, about {self.counts:,.0f} records",
            "holds": f"except with probability {wording.chance(self.beta)}, together with all certificates",
            "about": "the released answers" if self.of == "answers" else "the synthetic rows",
        }
        return _html.facts("Certificate of a class of questions.", lines)


@dataclass(frozen=True, slots=True, repr=False)
class QualityCertificate:
    """Measured afterwards through the gate: how good the rows are, except with probability `beta`.

    A part of all random questions of a kind is within `alpha`, which says nothing about any one of them; or the mean
    total variation of tables is; or every mean of a group is off by at most `alpha` times the range of the column over
    the share that the group has of the records. The chance `beta` is for all certificates of the release together.
    """

    name: str
    """The kind, one of `queries.quality.QUALITY`."""
    alpha: float
    beta: float
    counts: float
    """The same bound on the scale of records."""
    over: int
    """Questions that were drawn, tables that the mean is over, or the most columns of a group and its mean together."""
    rules: int = typical.RULES
    """The version of the law that questions are drawn by."""

    @property
    def kind(self) -> typical.QuestionKind | typical.TableKind | MeanKind:
        return QUALITY[self.name]

    @property
    def says(self) -> str:
        """What is bounded, in words."""
        return self.kind.says

    @property
    def is_about_each(self) -> bool:
        """Does it hold for each question for certain, and not for questions taken together?"""
        return isinstance(self.kind, MeanKind)

    @property
    def within(self) -> str:
        """The bound, in words. That of a mean goes by the share that the group has of the records."""
        if not self.is_about_each:
            return f"within {wording.points(self.alpha)}"
        share, group = (0.1, "a tenth") if self.alpha < 0.1 else (0.5, "half")
        return (
            f"within {wording.percent_at_most(self.alpha / share)} of its column's range for {group} of the records, "
            "in proportion less for larger groups and more for smaller ones"
        )

    def __str__(self) -> str:
        return f"{self.says} {self.within}, except with probability {wording.chance(self.beta)}"

    def __repr__(self) -> str:
        return f"QualityCertificate({self})"

    def _repr_html_(self) -> str:
        lines = {
            self.says: f"{self.within}, about {self.counts:,.0f} records",
            "holds": f"except with probability {wording.chance(self.beta)}, together with all certificates",
            "about": "the synthetic rows",
        }
        return _html.facts("Quality of the rows.", lines)


@dataclass(frozen=True, slots=True)
class Population:
    """What is stated about the population that the records of the table are independent draws from."""

    error: float
    """How far a stated share is from that of the population, at most."""
    chance: float
    """Except with this probability."""
    holds_for: str

    @property
    def vacuous(self) -> bool:
        """Whether it says nothing, answers being fractions."""
        return not self.error < 1

    def __str__(self) -> str:
        if self.vacuous:
            return "nothing can be said about the population"
        about = f"within {wording.points(self.error)} of the population"
        return f"{about}, except with probability {wording.chance(self.chance)}, for {self.holds_for}"


@dataclass(frozen=True, slots=True)
class RowsDistance:
    """How far counts of the synthetic rows lie from the released answers, as fractions, over the whole workload."""

    largest: float
    mean: float

    def __str__(self) -> str:
        if self.largest == 0:
            return "their counts are exactly the answers"
        return f"they differ from the answers by at most {wording.points(self.largest)}"

    def warning(self, answer_error: float) -> str:
        """What to say where the rows lie further from the answers than the answers from the truth."""
        return (
            f"the synthetic rows differ from the answers by up to {wording.points(self.largest)}, more than the error "
            f"stated for the answers ({wording.points(answer_error)}): read the answers, not counts of the rows"
        )


@dataclass(frozen=True, slots=True)
class Spending:
    """One payment: the event's tag and what it took from the ledger."""

    tag: str
    amount: float
    unit: str
    sequence: int | None = None
    asked: str | None = None
    """What the gate was asked, in a word or two."""

    @property
    def label(self) -> str:
        """What it was paid for, for readers."""
        return wording.payment(self.asked, self.tag)


@dataclass(frozen=True, slots=True)
class Account:
    """The ledger as it stood when the release was finished."""

    name: str
    unit: str
    total: float
    spent: float
    reserved: float = 0.0
    """Held by releases and sessions that had not ended; releases of versions before this field count it as spent."""
    opened: str | None = None
    """The head of the ledger's first entry, which tells it from others; unknown in releases of earlier versions."""
    delta: float | None = None
    """Of the ledger's total, where it is not that of the release; unknown in releases of earlier versions."""

    @property
    def left(self) -> float:
        """What can still be spent; crumbs that rounding left are nothing."""
        left = self.total - self.spent - self.reserved
        return left if left > CRUMB * self.total else 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share of the records and the ends that it lies between; those are None where nothing is proved."""

    value: float
    lower: float | None
    upper: float | None
    beta: float | None
    source: Source
    note: str | None = None
    alone: bool = False
    """Do the ends hold for this query alone, rather than for all answers of the release together?"""
    statement: str | None = None
    """By which statement they are known."""

    @classmethod
    def around(
        cls,
        value: float,
        error: float,
        beta: float,
        source: Source,
        note: str | None = None,
        *,
        alone: bool = False,
        statement: str | None = None,
    ) -> Estimate:
        """Within so much of a value, and between 0 and 1; nothing where the error says nothing."""
        inside = min(max(value, 0.0), 1.0)  # the truth lies there too, so this can only lower the error
        low, high = max(inside - error, 0.0), min(inside + error, 1.0)
        if not high - low < 1:
            return cls(
                inside, None, None, None, source, "the bound on its error is too large to say anything"
            )
        return cls(inside, low, high, beta, source, note, alone, statement)

    @property
    def error(self) -> float | None:
        """The farther of both ends."""
        if self.lower is None or self.upper is None:
            return None
        return max(self.value - self.lower, self.upper - self.value)

    @property
    def width(self) -> float:
        """The error, or that of knowing nothing."""
        error = self.error
        return 1.0 if error is None else error

    @property
    def holds_for(self) -> HoldsFor | None:
        if self.lower is None:
            return None
        return "this question alone" if self.alone else "all answers of the release together"


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """One answer. `error` is None where nothing is proved; otherwise it holds with probability `confidence`.

    `holds_for` says for what: for this question alone, fixed before any answer was seen, or for all answers of the
    release that say so together, so that it also holds for the one that surprises most.
    """

    query: str
    value: float
    """The share of the records, between 0 and 1."""
    count: float
    """The same as a number of records, by the released table size."""
    error: float | None
    confidence: float | None
    source: Source
    notes: tuple[str, ...] = ()
    holds_for: HoldsFor | None = None
    statement: str | None = None
    """By which statement the error is covered; None where no error is stated."""
    low: float | None = None
    """The lower end of the stated interval; the error reaches the farther of both ends."""
    high: float | None = None
    """The upper end."""
    typical: str | None = None
    """How far questions of its kind are off typically, which says nothing for certain about this one."""

    def __str__(self) -> str:
        about = f"{wording.percent(self.value)} (about {self.count:,.0f} records)"
        typical = "" if self.typical is None else f"; {self.typical}"
        if self.error is None or self.confidence is None:
            return f"{about}, no stated error{typical}"
        scope = "" if self.holds_for is None else f", for {self.holds_for}"
        error = f"± {wording.points(self.error)} with {wording.chance(self.confidence)} confidence{scope}"
        return f"{about} {error}{typical}"

    def __repr__(self) -> str:
        return f"Answer({self.query!r}: {self})"

    def _repr_html_(self) -> str:
        lines = {"share": wording.percent(self.value), "records": f"about {self.count:,.0f}"}
        if self.error is not None and self.confidence is not None:
            ends = f"{wording.percent(self.low or 0.0)} to {wording.percent(self.high or 0.0)}"
            lines["error"] = f"± {wording.points(self.error)}: {ends}"
            lines["confidence"] = f"{wording.chance(self.confidence)}, for {self.holds_for}"
        else:
            lines["error"] = "not stated"
        lines |= {"known by": self.statement} if self.statement else {}
        lines |= {"questions like it": self.typical} if self.typical else {}
        lines |= {"notes": "; ".join(self.notes)} if self.notes else {}
        return _html.facts("Answer.", lines, head=self.query)


# A predicate that cuts cells, answered from both sides: the records that surely satisfy it and those that
# may.


@dataclass(frozen=True, slots=True)
class Between:
    """The middle between both ends; its error reaches from the lower end's lowest value to the upper end's highest."""

    value: float
    error: float | None
    note: str


def join(low: float, low_error: float | None, high: float, high_error: float | None) -> Between:
    """One answer out of those to both ends.

    Accuracy: if both ends are within their errors, so is the answer to the predicate as it was written.
    """
    value = (low + high) / 2
    surely, maybe = wording.percent(min(max(low, 0.0), 1.0)), wording.percent(min(max(high, 0.0), 1.0))
    note = f"the middle between those who surely satisfy it, {surely}, and those who may, {maybe}"
    if low_error is None or high_error is None:
        return Between(value, None, note)
    error = max(value - max(low - low_error, 0.0), min(high + high_error, 1.0) - value)
    return Between(value, error, f"{note}; the error covers both")


def useful(certificates: Iterable[ClassCertificate]) -> list[ClassCertificate]:
    """Those certificates of classes that say something, and more than that of a class with all their questions."""
    meaningful = [one for one in certificates if one.typical < 1]
    bounds = {one.name: wording.points(one.alpha) for one in meaningful}
    return [
        one
        for one in meaningful
        if bounds.get(WIDER.get(one.name, "")) != bounds[one.name]
        and not any(_is_wider(other, one) and bounds[other.name] == bounds[one.name] for other in meaningful)
    ]


def meaningful(quality: Iterable[QualityCertificate]) -> list[QualityCertificate]:
    """Those typical errors that say something."""
    return [one for one in quality if one.alpha < 1]


def _is_wider(one: ClassCertificate, other: ClassCertificate) -> bool:
    """Has a family of combinations all questions of another one? Plain combinations are said in any case."""
    if (
        one is other
        or other.name == "any combination"
        or one.name not in COMBINATIONS
        or other.name not in COMBINATIONS
    ):
        return False
    columns = one.columns is None or (other.columns is not None and other.columns <= one.columns)
    return columns and COMBINATIONS[other.name].family <= COMBINATIONS[one.name].family


def named_in_headline(certificates: Iterable[ClassCertificate]) -> list[ClassCertificate]:
    """Few enough for one sentence: no class whose questions another one has, none with a bound for each table, and
    combinations of as many columns as there are."""
    plain = [
        one
        for one in useful(certificates)
        if not one.bounds and (one.name not in COMBINATIONS or COMBINATIONS[one.name].order is None)
    ]
    names = {one.name for one in plain}
    return [one for one in plain if WIDER.get(one.name) not in names]


# From the table to the population: what a release or an answer of a session says about where its records come from.

SIZE_PART = 0.1
"""Of the chance for sampling, for a number of records that is noisy."""
FIXED = "this question alone, if it was fixed before any answer was seen"
ADAPTIVE = "all questions of the session together, whatever made one ask them"
WORKLOAD = "the whole workload together"


def of_release(release: Release, query: str | Queries | None) -> Population:
    """See `Release.population`."""
    if query is None:
        bound = release.certificate or release.guarantee
        error, failure, log_queries, scope = (
            bound.alpha,
            bound.beta,
            math.log(release.workload.count),
            WORKLOAD,
        )
    else:
        answer = release.answer(query)
        error, log_queries, scope = answer.error, 0.0, FIXED
        failure = 1.0 if answer.confidence is None else 1 - answer.confidence
    if error is None or error >= 1 or release.size.unpaid:
        return Population(1.0, min(failure, 1.0), scope)
    noise, beta = release.size.noise, release.beta
    n = release.size.divisor - (0.0 if noise is None else quantiles.quantile(noise, SIZE_PART * beta))
    if n < 1:
        return Population(1.0, failure, scope)
    sampled = beta if noise is None else (1 - SIZE_PART) * beta
    share = population.sampling_share(n=n, log_queries=log_queries, beta=sampled)
    return Population(min(1.0, error + share), failure + beta, scope)


def of_session_answer(
    *, error: float, beta: float, n: float, budget: Budget, relation: Relation, chance: float
) -> Population:
    """See `Session.population`; `n` is a number of records that is surely there in the event that `beta` leaves."""
    epsilon, delta = budget.epsilon, budget.delta
    if relation is Relation.ADD_REMOVE:
        epsilon, delta = population.replace_one(epsilon=epsilon, delta=delta)
    adaptive = population.adaptive_error(alpha=error, epsilon=epsilon, delta=delta, beta=beta, chance=chance)
    options = [Population(min(1.0, adaptive), chance, ADAPTIVE)]
    if chance > beta:
        fixed = error + population.sampling_share(n=n, log_queries=0.0, beta=chance - beta)
        options.append(Population(min(1.0, fixed), chance, FIXED))
    return min(options, key=lambda one: one.error)
