"""The planner: which mechanism, how many records, how much privacy. Public inputs only; it spends nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import psutil

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.budget import UNITS, Accounting, Budget
from maquette.core.budget import split as split_units
from maquette.core.conversions import SMOOTHING
from maquette.core.measurement import Size
from maquette.domain import Persons, Relation, check_relation, rows_of
from maquette.errors import MechanismError, ParameterError
from maquette.mechanisms import postprocess, shape
from maquette.mechanisms.base import MECHANISMS, POSTS, Forecast, Mechanism, Prepared, Task
from maquette.progress import Stage
from maquette.queries.base import Queries
from maquette.releasing import means, parts
from maquette.releasing.certify import (
    CLASS_SHARE,
    MAY_COST,
    SHARE,
    Offer,
    best_share,
    default_classes,
    expected_alpha,
    useful_classes,
)
from maquette.releasing.ranking import Criterion, Plan, error_by, preferred
from maquette.releasing.request import Request, read_certificate
from maquette.theory import search

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger

_SHARE_OF_LIMIT = 3 / 8
"""Of a memory limit, what is left for a release beside coded rows and counted tables."""
_SMALL_RELEASE = 128.0
"""Megabytes that a release may take whatever the limit: below them a limit is about the rows of the table alone."""

UNUSED_DELTA = "pure noise is expected to state less, so delta is not used"

# Mechanism, accounting and certificate of one release, from public inputs.


@dataclass(frozen=True, slots=True)
class Choice:
    """A request of which everything is decided: its accounting and certificate, and the mechanism at its task."""

    request: Request
    prepared: Prepared

    @property
    def mechanism(self) -> Mechanism:
        return self.prepared.mechanism


def choose(
    request: Request, *, accounting: Accounting | None = None, ways: Sequence[Budget] | None = None
) -> Choice:
    """Mechanism and accounting together: the named mechanism, or the one with the best expected error.

    `accounting` is that of the ledger where there is one, or what was asked for; else the one in which the mechanism
    needs less noise. `ways` are the budgets that may be spent, of which the one is taken that states less
    (`releasing/parts.py`). Refusals come before any data is touched.
    """
    planned = _Planned.of(request, accounting, ways or (request.budget,))
    mechanism = request.configured or _named(request, planned)
    budget = planned.best(mechanism)
    unused = request.budget.delta if budget.pure else 0.0
    request = replace(request, budget=budget, unused_delta=unused)
    choice = prepare(request, mechanism)
    if choice.prepared.refusal is not None:
        raise MechanismError(f"mechanism '{mechanism.name}' cannot do this: {choice.prepared.refusal}")
    if request.rows == "small" and not mechanism.traits.chooses_few_rows:
        able = ", ".join(name for name, one in MECHANISMS.items() if one.traits.chooses_few_rows)
        raise MechanismError(
            f"rows='small' is for the mechanisms {able}, and this would be '{mechanism.name}'; ask for a number of "
            "rows, or name one of those"
        )
    return choice


def ways_of(request: Request, book: Ledger | None, *, total: Budget, key: str | None) -> tuple[Budget, ...]:
    """The budgets that a release may spend: as it began, of what a ledger has left, or of one made with this total."""
    if book is None:
        return parts.ways_of_new_ledger(request.budget, total)
    if not book.budget.pure_units or request.budget.pure:
        return (request.budget,)

    def identity(budget: Budget) -> tuple[str, str]:
        one = replace(request, budget=budget)
        return key or one.key, one.digest

    begun = parts.begun((request.budget, Budget(request.budget.epsilon)), book, identity)
    if begun is not None:
        return (begun,)
    return parts.ways_of_ledger(request.budget, book.budget, pure_left=book.balance().left.pure)


def _named(request: Request, planned: _Planned) -> Mechanism:
    if request.mechanism != "auto":
        return MECHANISMS[request.mechanism]
    usual = replace(planned, certificate=None, classes=None, post="auto")
    return MECHANISMS[preferred(_ranked(usual, None, usual.ways[0]), request.queries)]


def prepare(request: Request, mechanism: Mechanism, *, n: int | None = None) -> Choice:
    """A mechanism at the task of a request, on about n records."""
    return Choice(request, mechanism.prepare(request.task, n=n))


def check_memory(choice: Choice, *, limit: int | None = None) -> None:
    """Refuse, before anything is paid, what has no room on this machine or under the limit. Public inputs only.

    By the memory that the machine has and not by what is free, which goes by the size of the table. Of a limit (bytes)
    codes take half at most and counted tables an eighth (`core/rows/engine.py`), whatever the number of records; what
    is left is for answers and rows.
    """
    needed = choice.prepared.forecast.megabytes
    if (
        choice.mechanism.traits.projects_noise
    ):  # measured whole if there are records enough, which is not known yet
        needed = max(needed, postprocess.holding(choice.request.queries.count))
    there = psutil.virtual_memory().total / 1e6
    takes = f"mechanism '{choice.mechanism.name}' takes about {{:,.0f}} MB for {choice.request.queries.count:,} answers"
    smaller = "smaller or fewer tables (fewer attributes together, coarser cells)"
    if needed > there:
        raise MechanismError(
            f"{takes.format(needed)}, beside the coded rows, and this machine has {there:,.0f} MB; ask for {smaller}. "
            "Nothing was paid"
        )
    own = needed - postprocess.LIBRARIES
    if limit is not None and own > max(_SHARE_OF_LIMIT * limit / 1e6, _SMALL_RELEASE):
        raise MechanismError(
            f"{takes.format(own)} beside rows and counted tables, and the memory limit of {limit / 1e6:,.0f} MB leaves "
            f"{_SHARE_OF_LIMIT * limit / 1e6:,.0f} MB for them; set a limit of {own / _SHARE_OF_LIMIT:,.0f} MB "
            f"(memory_limit= in bytes, --memory in MB), or ask for {smaller}. Nothing was paid"
        )


def decide(choice: Choice, *, n: int, size: Size | None = None) -> Choice:
    """The same choice, with or without certificates for a table of about n records; those asked for are bought.

    `size` is the number of records where it is private and was paid for first, for the `size_price` of the choice.
    Public inputs and that number only; the guess instead of it where what is stated in advance judges its noise with
    that of the answers: a number that chose between two such statements would have a say in how often they fail. On
    tables much smaller than the guess this may choose the wider of the two.
    """
    request, mechanism = choice.request, choice.mechanism
    is_asked_for = request.certificate is not None or request.groups
    if size is not None:
        by_size = not (is_asked_for or choice.prepared.judges_size_with_answers)
        n = n if by_size or is_asked_for else request.typical_rows
        price = choice.prepared.size_price
        request = replace(request, size=size, size_price=price, decided_by_size=by_size)

    @cache
    def at(share: float, classes: tuple[str, ...] = request.bought) -> Choice:
        return prepare(replace(request, share=share, bought=classes), mechanism, n=n)

    if is_asked_for:
        return at(request.share)
    share, alpha = best_share(lambda share: at(share).prepared)
    names = useful_classes(at(share).request, at(share).prepared) if share else ()
    if not names:
        return at(share)
    full = at(share, names)
    price = full.request.prices[1]
    beside = expected_alpha(full.prepared, price=price, certificates=full.request.certificates)
    return full if beside is None or beside <= MAY_COST * (alpha or 1.0) else at(share)


def classes_left_out(choice: Choice) -> tuple[str, ...]:
    """The classes of questions that the mechanism could have certified by default, where none of them is."""
    request = choice.request
    if (
        request.bought
        or request.certificate is not None
        or request.rows is not None
        or request.weight is not None
    ):
        return ()
    if not choice.mechanism.traits.answers_from_rows:
        return ()
    return default_classes(request.queries, n=choice.prepared.n, lists_records=request.lists_records)


LARGEST_ERROR = "measuring the largest error"
CERTIFYING = 0.1
"""What certificates take, as a part of the mechanism's time."""


def stages(choice: Choice) -> tuple[Stage, ...]:
    """What a release comes through: the mechanism's own stages, then its certificates; none that nobody predicts."""
    own = choice.prepared.stages
    if not own or not (choice.request.prices[1] or choice.request.class_price):
        return own
    return (*own, Stage.of(LARGEST_ERROR, choice.prepared.forecast.seconds * CERTIFYING))


def best_accounting(
    mechanism: Mechanism,
    queries: Queries,
    *,
    relation: Relation,
    epsilon: float,
    delta: float,
    persons: Persons | None = None,
) -> Accounting:
    """The accounting of a delta in which a mechanism needs less noise: for a ledger that is made for it.

    Gaussian noise is cheaper by Gaussian differential privacy, unless it is so narrow that the smoothing of
    whole numbers takes more than that; pure noise and private choices are cheaper by zCDP. Public inputs only.
    """
    if not delta or not mechanism.traits.gaussian:
        return "zcdp"
    both: tuple[Accounting, ...] = ("gaussian", "zcdp")
    gaussian, zcdp = (
        Fraction(Budget(epsilon, delta, one).row_units(rows_of(persons)), UNITS) for one in both
    )
    shift = mechanism.l2_shift(shape.merged(queries).queries, relation)
    return "gaussian" if shift / (2 * gaussian) + SMOOTHING <= shift / (2 * zcdp) else "zcdp"


# Plans over all mechanisms.


@checks_arguments
def plan(
    queries: Queries,
    *,
    n: int,
    epsilon: float,
    delta: float = 0.0,
    relation: Relation | str = Relation.ADD_REMOVE,
    beta: float = 0.05,
    mechanisms: Sequence[str] | None = None,
    certificate: float | str | Sequence[str] | None = None,
    post: str = "auto",
    weight: str | None = None,
    accounting: Accounting | None = None,
    rows_per_person: int = 1,
) -> Plan:
    """What each mechanism promises for this workload on a table of about n records, best guarantee first.

    `accounting` is how the ledger counts a delta; by default each mechanism is planned in the way that suits it, as a
    release that makes a ledger of its own would count it: with the delta, or pure where that states less. `certificate`
    is the share that measures the largest error afterwards, or words as `release` takes them; by default each mechanism
    is planned with one or without, whichever is expected to state less, at the share at which it is; `stated` says
    which, and `certified` what the certificate is expected to state. `classes` of a forecast are the classes of
    questions that would be certified besides, with the bounds that are expected of them.

    Holds when: n, epsilon and the rest are public. Under add/remove-one n is a guess of yours, not the table's
        number of rows, and the guarantee counts what its noisy estimate will add. With `weight`, the attribute
        that weighs the records, n is about their total weight in units of the largest one, and only mechanisms
        for weighted tables are listed. With `rows_per_person` the budget protects whole persons, of whom at most so
        many records count; n is a number of records all the same.
    """
    _check.whole(n=n)
    between = Relation.named(relation)
    share, classes = read_certificate(certificate)
    budget = Budget(epsilon, delta)
    planned = _Planned(
        queries,
        n,
        between,
        beta,
        share,
        classes,
        post,
        weight,
        _persons(rows_per_person, between),
        accounting,
        (budget,) if accounting else parts.ways_of_new_ledger(budget, budget),
    )
    return _ranked(planned, mechanisms, budget)


def _ranked(planned: _Planned, mechanisms: Sequence[str] | None, budget: Budget) -> Plan:
    """The forecasts of some mechanisms, or of all that suit the task, best guarantee first."""
    chosen = [m for m in _chosen(mechanisms) if planned.weight is None or m.traits.weighs_records]
    forecasts = sorted(
        (
            f
            for m in chosen
            if (f := planned.forecast(m)).refusal is None or mechanisms or not m.traits.special
        ),
        key=lambda f: (f.refusal is not None, error_by(f, "guaranteed"), error_by(f, "expected")),
    )
    return Plan(
        workload=planned.queries.describe(),
        queries=planned.queries.count,
        n=planned.n,
        epsilon=float(budget.epsilon),
        delta=float(budget.delta),
        relation=planned.relation,
        beta=planned.beta,
        certificate=planned.certificate,
        forecasts=tuple(forecasts),
        rows_per_person=rows_of(planned.persons),
    )


@dataclass(frozen=True, slots=True)
class _Planned:
    """What is planned for every mechanism alike: public facts, and the budgets that it may spend."""

    queries: Queries
    n: int
    relation: Relation
    beta: float
    certificate: float | None
    """The share for a certificate; None takes the one at which less is stated."""
    classes: tuple[str, ...] | None
    post: str
    weight: str | None
    persons: Persons | None
    accounting: Accounting | None
    """How a delta is counted; None takes the way in which a mechanism needs less noise."""
    ways: tuple[Budget, ...]

    @classmethod
    def of(cls, request: Request, accounting: Accounting | None, ways: Sequence[Budget]) -> _Planned:
        return cls(
            request.queries,
            request.typical_rows,
            request.relation,
            request.beta,
            request.certificate,
            request.classes,
            request.post,
            request.weight,
            request.persons,
            accounting,
            tuple(ways),
        )

    def best(self, mechanism: Mechanism) -> Budget:
        """The budget at which a mechanism is expected to state least, counted as suits it."""
        budgets = self._budgets(mechanism)
        return budgets[0] if len(budgets) == 1 else self._decide(mechanism, budgets)[0]

    def forecast(self, mechanism: Mechanism) -> Forecast:
        """What a mechanism promises with that budget."""
        budget, forecast = self._decide(mechanism, self._budgets(mechanism))
        if budget.pure and any(way.delta for way in self.ways):
            return replace(forecast, notes=(UNUSED_DELTA, *forecast.notes))
        return forecast

    def _decide(self, mechanism: Mechanism, budgets: Sequence[Budget]) -> tuple[Budget, Forecast]:
        """The first of those that state least; by typical errors where a certificate was never calibrated."""
        forecasts = [self._forecast(mechanism, budget) for budget in budgets]
        alphas = [f.certified if f.stated == "certificate" else f.guaranteed for f in forecasts]
        if any(alpha is None and f.refusal is None for alpha, f in zip(alphas, forecasts, strict=True)):
            alphas = [f.expected for f in forecasts]
        errors = [float("inf") if alpha is None else alpha for alpha in alphas]
        place = errors.index(min(errors))
        return budgets[place], forecasts[place]

    def _budgets(self, mechanism: Mechanism) -> list[Budget]:
        """Each of the ways, counted as suits a mechanism."""
        return [
            replace(
                way,
                accounting=self.accounting
                or best_accounting(
                    mechanism,
                    self.queries,
                    relation=self.relation,
                    epsilon=way.epsilon,
                    delta=way.delta,
                    persons=self.persons,
                ),
            )
            for way in self.ways
        ]

    def _forecast(self, mechanism: Mechanism, budget: Budget) -> Forecast:
        @cache
        def at(share: float) -> Prepared:
            return mechanism.prepare(self._task(budget, share), n=self.n)

        usual = at(SHARE if self.certificate is None else self.certificate)
        if usual.refusal is not None:
            return replace(usual.forecast, stated="guarantee" if self.certificate == 0 else "certificate")
        if self.certificate is not None:
            price = at(0.0).task.price - usual.task.price
            return self._with_classes(at, self.certificate, expected_alpha(usual, price=price))
        share, alpha = best_share(at)
        if share:
            return self._with_classes(at, share, alpha)
        return replace(at(0.0).forecast, stated="guarantee")

    def _with_classes(self, at: Callable[[float], Prepared], share: float, alpha: float | None) -> Forecast:
        bought = at(share)
        forecast = replace(bought.forecast, stated="certificate" if share else "guarantee", certified=alpha)
        if self.classes == () or self.weight is not None:
            return forecast
        less = at(share + CLASS_SHARE)
        offer = Offer(
            self.queries, bought, bought.task.price - less.task.price, is_workload_certified=share > 0
        )
        names = offer.useful() if self.classes is None else self.classes
        if not names or less.refusal is not None:
            return forecast
        price = at(0.0).task.price - bought.task.price
        beside = expected_alpha(less, price=price, certificates=len(names) + (share > 0))
        if self.classes is None and beside is not None and beside > MAY_COST * (alpha or 1.0):
            return forecast
        found = replace(offer, prepared=less).forecasts(names)
        return replace(forecast, classes=found, certified=beside if share else None)

    def _task(self, budget: Budget, share: float) -> Task:
        return replace(
            _task(
                self.queries,
                budget,
                relation=self.relation,
                beta=self.beta,
                certificate=share,
                post=self.post,
                persons=self.persons,
            ),
            weight=self.weight,
        )


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a mechanism needs for a target error; None where no amount suffices or it cannot run."""

    mechanism: str
    n: int | None = None
    epsilon: float | None = None
    refusal: str | None = None


@checks_arguments
def required(
    queries: Queries,
    *,
    alpha: float,
    n: int | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    relation: Relation | str = Relation.ADD_REMOVE,
    beta: float = 0.05,
    mechanisms: Sequence[str] | None = None,
    certificate: float = SHARE,
    post: str = "auto",
    by: Criterion = "guaranteed",
    rows_per_person: int = 1,
) -> tuple[Requirement, ...]:
    """The records (given epsilon) or the epsilon (given n) that each mechanism needs for an error of alpha.

    Accuracy: the smallest n, or epsilon to a relative 1e-9, by bisection on the bound of `plan` with this
        `certificate`; best first.
    """
    _check.fraction(alpha=alpha)
    _check.one_of(("guaranteed", "expected"), by=by)
    if (n is None) == (epsilon is None):
        raise ParameterError(
            "expected either n (to find epsilon) or epsilon (to find n), not both or neither"
        )
    if n is not None:
        _check.whole(n=n)

    between = Relation.named(relation)
    persons = _persons(rows_per_person, between)

    def prepared_at(mechanism: Mechanism, *, size: int, at: float) -> list[Prepared]:
        accounting = best_accounting(
            mechanism, queries, relation=between, epsilon=at, delta=delta, persons=persons
        )
        budget = Budget(at, delta, accounting)
        ways = parts.ways_of_new_ledger(budget, budget)
        terms: dict[str, Any] = {"relation": between, "beta": beta, "certificate": certificate, "post": post}
        return [mechanism.prepare(_task(queries, way, persons=persons, **terms), n=size) for way in ways]

    def bound(mechanism: Mechanism, *, size: int, at: float) -> float:
        try:
            return min(error_by(one.forecast, by) for one in prepared_at(mechanism, size=size, at=at))
        except ParameterError:  # below what a ledger counts
            return float("inf")

    needs: list[Requirement] = []
    for mechanism in _chosen(mechanisms):
        refusal = prepared_at(mechanism, size=n or 1, at=epsilon or 1.0)[0].refusal
        if refusal is not None and mechanism.traits.special and not mechanisms:
            continue
        if refusal is not None:
            needs.append(Requirement(mechanism.name, refusal=refusal))
        elif epsilon is not None:
            fixed = partial(bound, mechanism, at=epsilon)
            records = search.records(lambda size, f=fixed: f(size=size), alpha=alpha)
            needs.append(Requirement(mechanism.name, n=records, epsilon=float(epsilon)))
        else:
            fixed = partial(bound, mechanism, size=n or 1)
            enough = search.epsilon(lambda at, f=fixed: f(at=at), alpha=alpha)
            needs.append(Requirement(mechanism.name, n=n, epsilon=enough))
    return tuple(sorted(needs, key=_need))


def _task(
    queries: Queries,
    budget: Budget,
    *,
    relation: Relation,
    beta: float,
    certificate: float,
    post: str,
    persons: Persons | None,
) -> Task:
    """The public task that a release with these parameters would run."""
    _check.fraction(beta=beta)
    _check.one_of(POSTS, post=post)
    _check.fraction_or_zero(certificate=certificate)
    share = Fraction(str(certificate))
    sums = means.share_of(queries) * (1 - share)
    units, *_ = split_units(budget.row_units(rows_of(persons)), [1 - share - sums, share, sums])
    if units < 1:
        raise ParameterError(f"the budget {budget} is too small to be divided")
    return Task(shape.merged(queries).queries, relation, budget.unit, Fraction(units, UNITS), beta, post)


def _persons(rows_per_person: int, relation: Relation) -> Persons | None:
    """Persons of whom the column does not matter to a plan; None where everybody has one record."""
    _check.whole(rows_per_person=rows_per_person)
    persons = Persons("person", rows_per_person) if rows_per_person > 1 else None
    check_relation(persons, relation)
    return persons


def _chosen(mechanisms: Sequence[str] | None) -> list[Mechanism]:
    if mechanisms is None:
        return [mechanism for mechanism in MECHANISMS.values() if not mechanism.traits.by_name]
    for name in mechanisms:
        _check.one_of(MECHANISMS, mechanism=name)
    return [MECHANISMS[name] for name in mechanisms]


def _need(requirement: Requirement) -> tuple[bool, float, float]:
    infinite = float("inf")
    refused = requirement.refusal is not None
    n = infinite if requirement.n is None else requirement.n
    return refused, n, infinite if requirement.epsilon is None else requirement.epsilon
