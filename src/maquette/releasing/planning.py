"""The planner: which mechanism, how many records, how much privacy. Public inputs only; it spends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import psutil

from maquette import _check
from maquette._arguments import checks_arguments
from maquette.accounting.budget import UNITS, Accounting, Budget
from maquette.accounting.budget import split as split_units
from maquette.accounting.conversions import SMOOTHING
from maquette.domain import Persons, Relation, check_relation, rows_of
from maquette.errors import MechanismError, ParameterError
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import MECHANISMS, POSTS, Forecast, Mechanism, Prepared, Stated, Task
from maquette.queries.base import Queries
from maquette.questions.measurement import Size
from maquette.releasing.certify import CLASS_SHARE, SHARE, Offer, expected_alpha, useful_classes, worth_buying
from maquette.releasing.ranking import Criterion, Plan, error_by, preferred
from maquette.releasing.request import Request, read_certificate
from maquette.theory import search

_SHARE_OF_LIMIT = 3 / 8
"""Of a memory limit, what is left for a release beside coded rows and counted tables."""
_SMALL_RELEASE = 128.0
"""Megabytes that a release may take whatever the limit: below them a limit is about the rows of the table alone."""

# Mechanism, accounting and certificate of one release, from public inputs.


@dataclass(frozen=True, slots=True)
class Choice:
    """A request of which everything is decided: its accounting and certificate, and the mechanism at its task."""

    request: Request
    prepared: Prepared

    @property
    def mechanism(self) -> Mechanism:
        return self.prepared.mechanism


def choose(request: Request, *, accounting: Accounting | None = None) -> Choice:
    """Mechanism and accounting together: the named mechanism, or the one with the best expected error.

    `accounting` is that of the ledger where there is one, or what was asked for; else the one in which the mechanism
    needs less noise. Refusals come before any data is touched.
    """
    mechanism = request.configured or _named(request, accounting)
    accounting = accounting or best_accounting(
        mechanism,
        request.queries,
        relation=request.relation,
        epsilon=request.budget.epsilon,
        delta=request.budget.delta,
        persons=request.persons,
    )
    request = replace(request, budget=replace(request.budget, accounting=accounting))
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


def _named(request: Request, accounting: Accounting | None) -> Mechanism:
    if request.mechanism != "auto":
        return MECHANISMS[request.mechanism]
    ranked = plan(
        request.queries,
        n=request.typical_rows,
        epsilon=request.budget.epsilon,
        delta=request.budget.delta,
        relation=request.relation,
        beta=request.beta,
        weight=request.weight,
        accounting=accounting,
        rows_per_person=rows_of(request.persons),
    )
    return MECHANISMS[preferred(ranked, request.queries)]


def prepare(request: Request, mechanism: Mechanism, *, n: int | None = None) -> Choice:
    """A mechanism at the task of a request, on about n records."""
    return Choice(request, mechanism.prepare(request.task, n=n))


def check_memory(choice: Choice, *, limit: int | None = None) -> None:
    """Refuse, before anything is paid, what has no room on this machine or under the limit. Public inputs only.

    By the memory that the machine has and not by what is free, which goes by the size of the table. Of a limit (bytes)
    codes take half at most and counted tables an eighth (`vault/engine.py`), whatever the number of records; what is
    left is for answers and rows.
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


def decide(
    choice: Choice, *, n: int, size_error: float = 0.0, classes: tuple[str, ...] | None = None
) -> Choice:
    """The same choice, with or without certificates for a table of about n records. Public inputs only.

    One that was asked for by its share or by groups is bought. `size_error` is how far n may be off, `classes` are
    those that the same request certified before.
    """
    request, mechanism, bought = choice.request, choice.mechanism, choice
    if request.certificate is not None or request.groups:
        return choice
    if not request.certified or choice.prepared.n != n:
        bought = prepare(replace(request, certified=True), mechanism, n=n)
    without = prepare(replace(request, certified=False), mechanism, n=n)
    hoped = expected_alpha(
        bought.prepared.forecast,
        bought.prepared.task,
        price=bought.request.prices[1],
        n=n,
        size_error=size_error,
    )
    if not worth_buying(hoped, without.prepared.forecast.guaranteed):
        return without
    names = useful_classes(bought.request, bought.prepared) if classes is None else classes
    return prepare(replace(bought.request, bought=names), mechanism, n=n) if names else bought


def is_still_certified(choice: Choice, *, size: Size) -> bool:
    """Is a certificate bought, now that the number of records is released? What is set aside need not be spent.

    Holds when: the noise of the answers does not depend on that of the number of records.
    """
    request = choice.request
    again = request.certified and not request.bought and not choice.mechanism.traits.projects_noise
    if again and not size.public:
        choice = decide(choice, n=size.divisor, size_error=sizing.size_error(size, request.beta))
    return bool(choice.request.prices[1])


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
    release that makes a ledger of its own would count it. `certificate` is the share that measures the largest error
    afterwards, or words as `release` takes them; by default each mechanism is planned with one or without, whichever is
    expected to state less, and its `stated` says which. `classes` of a forecast are the classes of questions that would
    be certified besides, with the bounds that are expected of them.

    Holds when: n, epsilon and the rest are public. Under add/remove-one n is a guess of yours, not the table's
        number of rows, and the guarantee counts what its noisy estimate will add. With `weight`, the attribute
        that weighs the records, n is about their total weight in units of the largest one, and only mechanisms
        for weighted tables are listed. With `rows_per_person` the budget protects whole persons, of whom at most so
        many records count; n is a number of records all the same.
    """
    _check.whole(n=n)
    between = Relation.named(relation)
    persons = _persons(rows_per_person, between)
    asked, classes = read_certificate(certificate)
    share = SHARE if asked is None else asked

    def prepare_with(mechanism: Mechanism, share: float) -> Prepared:
        task = _task(
            queries,
            epsilon=epsilon,
            delta=delta,
            relation=between,
            beta=beta,
            post=post,
            certificate=share,
            persons=persons,
            accounting=accounting
            or best_accounting(
                mechanism, queries, relation=between, epsilon=epsilon, delta=delta, persons=persons
            ),
        )
        return mechanism.prepare(replace(task, weight=weight), n=n)

    def with_classes(bought: Prepared, *, stated: Stated) -> Forecast:
        if classes == () or weight is not None:
            return replace(bought.forecast, stated=stated)
        less = prepare_with(bought.mechanism, share + CLASS_SHARE)
        offer = Offer(queries, bought, bought.task.price - less.task.price, is_workload_certified=share > 0)
        names = offer.useful() if classes is None else classes
        if not names or less.refusal is not None:
            return replace(bought.forecast, stated=stated)
        return replace(bought.forecast, stated=stated, classes=replace(offer, prepared=less).forecasts(names))

    def forecast_of(mechanism: Mechanism) -> Forecast:
        bought = prepare_with(mechanism, share)
        if bought.refusal is not None:
            return replace(bought.forecast, stated="certificate" if share else "guarantee")
        if asked is not None:
            return with_classes(bought, stated="certificate" if share else "guarantee")
        without = prepare_with(mechanism, 0.0)
        price = without.task.price - bought.task.price
        hoped = expected_alpha(bought.forecast, bought.task, price=price, n=n)
        if worth_buying(hoped, without.forecast.guaranteed):
            return with_classes(bought, stated="certificate")
        return replace(without.forecast, stated="guarantee")

    chosen = [m for m in _chosen(mechanisms) if weight is None or m.traits.weighs_records]
    forecasts = sorted(
        (f for m in chosen if (f := forecast_of(m)).refusal is None or mechanisms or not m.traits.special),
        key=lambda f: (f.refusal is not None, error_by(f, "guaranteed"), error_by(f, "expected")),
    )
    return Plan(
        workload=queries.describe(),
        queries=queries.count,
        n=n,
        epsilon=float(epsilon),
        delta=float(delta),
        relation=between,
        beta=beta,
        certificate=asked,
        forecasts=tuple(forecasts),
        rows_per_person=rows_per_person,
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

    Accuracy: the smallest n, or epsilon to a relative 1e-9, by bisection on the bound of `plan`; best first.
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

    def prepare_at(mechanism: Mechanism, *, size: int, at: float) -> Prepared:
        task = _task(
            queries,
            accounting=best_accounting(
                mechanism, queries, relation=between, epsilon=at, delta=delta, persons=persons
            ),
            persons=persons,
            epsilon=at,
            delta=delta,
            relation=between,
            beta=beta,
            certificate=certificate,
            post=post,
        )
        return mechanism.prepare(task, n=size)

    def bound(mechanism: Mechanism, *, size: int, at: float) -> float:
        try:
            return error_by(prepare_at(mechanism, size=size, at=at).forecast, by)
        except ParameterError:  # below what a ledger counts
            return float("inf")

    needs: list[Requirement] = []
    for mechanism in _chosen(mechanisms):
        refusal = prepare_at(mechanism, size=n or 1, at=epsilon or 1.0).refusal
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


def expected_certificate(
    queries: Queries,
    forecast: Forecast,
    *,
    n: int,
    epsilon: float,
    delta: float = 0.0,
    relation: Relation | str = Relation.ADD_REMOVE,
    beta: float = 0.05,
    accounting: Accounting | None = None,
) -> float | None:
    """What the certificate of a release is expected to state, for a forecast of `plan` with these arguments.

    None where the forecast states a guarantee instead, or nothing is known. No promise: the certificate itself is one.
    """
    if forecast.stated != "certificate" or forecast.expected is None:
        return None
    between, mechanism = Relation.named(relation), MECHANISMS[forecast.mechanism]
    chosen = accounting or best_accounting(mechanism, queries, relation=between, epsilon=epsilon, delta=delta)
    with_one, without = (
        _task(
            queries,
            epsilon=epsilon,
            delta=delta,
            relation=between,
            beta=beta,
            post="auto",
            certificate=share,
            persons=None,
            accounting=chosen,
        )
        for share in (SHARE, 0.0)
    )
    return expected_alpha(forecast, with_one, price=without.price - with_one.price, n=n)


def _task(
    queries: Queries,
    *,
    epsilon: float,
    delta: float,
    relation: Relation,
    beta: float,
    certificate: float,
    post: str,
    accounting: Accounting,
    persons: Persons | None,
) -> Task:
    """The public task that a release with these parameters would run."""
    _check.fraction(beta=beta)
    _check.one_of(POSTS, post=post)
    _check.fraction_or_zero(certificate=certificate)
    budget = Budget(epsilon, delta, accounting)
    share = Fraction(str(certificate))
    units, _ = split_units(budget.row_units(rows_of(persons)), [1 - share, share])
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
