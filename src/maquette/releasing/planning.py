"""The planner: which mechanism, how many records, how much privacy. Public inputs only; it spends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import psutil

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.budget import UNITS, Accounting, Budget
from maquette.core.conversions import SMOOTHING
from maquette.domain import Persons, Relation, check_relation, rows_of
from maquette.errors import MechanismError, ParameterError
from maquette.mechanisms import postprocess, shape
from maquette.mechanisms.base import MECHANISMS, Forecast, Mechanism
from maquette.queries.base import Queries
from maquette.releasing import parts
from maquette.releasing.certify import SHARE
from maquette.releasing.plan import Plan, forecast_at
from maquette.releasing.ranking import Comparison, Criterion, error_by, preferred
from maquette.releasing.request import Request
from maquette.theory import search

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger

_SHARE_OF_LIMIT = 3 / 8
"""Of a memory limit, what is left for a release beside coded rows and counted tables."""
_SMALL_RELEASE = 128.0
"""Megabytes that a release may take whatever the limit: below them a limit is about the rows of the table alone."""

UNUSED_DELTA = "pure noise is expected to state less, so delta is not used"

# The plan of one release.


def ways_of(request: Request, book: Ledger | None, *, total: Budget, key: str | None) -> tuple[Request, ...]:
    """How a release may be paid: as it began, of what a ledger has left, or of one made with this total.

    The first is as it is asked for; another leaves the delta aside, to be paid of a pure part. An accounting that is
    asked for counts the delta of a ledger that is made.
    """
    if book is None:
        if request.accounting is not None:
            return (request,)
        return _each(request, parts.ways_of_new_ledger(request.budget, total))
    accounting = request.accounting if book.budget.pure else book.budget.accounting
    request = replace(request, accounting=accounting)
    if not book.budget.pure_units or request.budget.pure:
        return (request,)
    both = ways_asked(request)
    begun = parts.begun(both, book, lambda way: (key or way.key, way.digest))
    if begun is not None:
        return (begun,)
    left = book.balance().left.pure
    return _each(request, parts.ways_of_ledger(request.budget, book.budget, pure_left=left))


def ways_asked(request: Request) -> tuple[Request, ...]:
    """Every form that a request may take in a ledger: as it is asked for, and without its delta."""
    return _each(request, (request.budget, Budget(request.epsilon)))


def _each(request: Request, budgets: Sequence[Budget]) -> tuple[Request, ...]:
    """The request with each of the budgets that may be spent."""
    return tuple(
        request if budget.delta == request.delta else replace(request, delta=0.0, unused_delta=request.delta)
        for budget in budgets
    )


def plan_of(*ways: Request) -> Plan:
    """Mechanism and accounting together: the named mechanism, or the one with the best expected error.

    Of several ways to pay the one is taken that states less (`releasing/parts.py`). The accounting is that of the
    ledger where there is one, or what was asked for; else the one in which the mechanism needs less noise. Refusals
    come before any data is touched.
    """
    mechanism = ways[0].configured or _named(ways)
    requests = [_with_accounting(way, mechanism) for way in ways]
    request = requests[0]
    if len(requests) > 1:
        request, _ = _best(requests, mechanism, n=request.typical_rows)
    plan = Plan.of(request, mechanism)
    if plan.prepared.refusal is not None:
        raise MechanismError(f"mechanism '{mechanism.name}' cannot do this: {plan.prepared.refusal}")
    if request.rows == "small" and not mechanism.traits.chooses_few_rows:
        able = ", ".join(name for name, one in MECHANISMS.items() if one.traits.chooses_few_rows)
        raise MechanismError(
            f"rows='small' is for the mechanisms {able}, and this would be '{mechanism.name}'; ask for a number of "
            "rows, or name one of those"
        )
    return plan


def _named(ways: Sequence[Request]) -> Mechanism:
    """By name, or by the errors that all mechanisms are expected to have, with what they choose by themselves."""
    request = ways[0]
    if request.mechanism_name != "auto":
        return MECHANISMS[request.mechanism_name]
    usual = [
        replace(way, certificate=None, groups=False, rows=None, post="auto", lists_records=True)
        for way in ways
    ]
    return MECHANISMS[preferred(compare(*usual, n=request.typical_rows), request.queries)]


def _with_accounting(request: Request, mechanism: Mechanism) -> Request:
    """The request with an accounting: as it says, or the one in which the mechanism needs less noise."""
    accounting = request.accounting or best_accounting(
        mechanism,
        request.queries,
        relation=request.between,
        epsilon=request.epsilon,
        delta=request.delta,
        persons=request.persons,
    )
    return replace(request, accounting=accounting)


def _best(ways: Sequence[Request], mechanism: Mechanism, *, n: int) -> tuple[Request, Forecast]:
    """The first of those that state least; by typical errors where a certificate was never calibrated.

    A mechanism with Gaussian noise keeps its delta: what `sculpt` is expected to state is a fit to releases with one
    (three columns of Adult, epsilon 0.1: .85 points stated with a delta, 1.5 without).
    """
    ways = ways[:1] if mechanism.traits.gaussian else ways
    forecasts = [forecast_at(way, mechanism, n=n) for way in ways]
    alphas = [f.certified if f.stated == "certificate" else f.guaranteed for f in forecasts]
    if any(alpha is None and f.refusal is None for alpha, f in zip(alphas, forecasts, strict=True)):
        alphas = [f.expected for f in forecasts]
    errors = [float("inf") if alpha is None else alpha for alpha in alphas]
    place = errors.index(min(errors))
    return ways[place], forecasts[place]


def check_memory(plan: Plan, *, limit: int | None = None) -> None:
    """Refuse, before anything is paid, what has no room on this machine or under the limit. Public inputs only.

    By the memory that the machine has and not by what is free, which goes by the size of the table. Of a limit (bytes)
    codes take half at most and counted tables an eighth (`core/rows/engine.py`), whatever the number of records; what
    is left is for answers and rows.
    """
    needed = plan.prepared.forecast.megabytes
    if (
        plan.mechanism.traits.projects_noise
    ):  # measured whole if there are records enough, which is not known yet
        needed = max(needed, postprocess.holding(plan.request.queries.count))
    there = psutil.virtual_memory().total / 1e6
    takes = f"mechanism '{plan.mechanism.name}' takes about {{:,.0f}} MB for {plan.request.queries.count:,} answers"
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


def compare(*ways: Request, n: int, mechanisms: Sequence[str] | None = None) -> Comparison:
    """What each mechanism promises on about n records, paid as suits it, best guarantee first."""
    request = ways[0]

    def forecast(mechanism: Mechanism) -> Forecast:
        way, best = _best([_with_accounting(way, mechanism) for way in ways], mechanism, n=n)
        return replace(best, notes=(UNUSED_DELTA, *best.notes)) if way.unused_delta else best

    able = [m for m in _chosen(mechanisms) if request.weight is None or m.traits.weighs_records]
    shown = [
        outlook
        for mechanism in able
        if (outlook := forecast(mechanism)).refusal is None or mechanisms or not mechanism.traits.special
    ]
    order = sorted(
        shown, key=lambda f: (f.refusal is not None, error_by(f, "guaranteed"), error_by(f, "expected"))
    )
    return Comparison(
        workload=request.queries.describe(),
        queries=request.queries.count,
        n=n,
        epsilon=float(request.epsilon),
        delta=float(
            request.delta or request.unused_delta
        ),  # as asked for: a repeat is ranked like the first run
        relation=request.between,
        beta=request.beta,
        certificate=request.share,
        forecasts=tuple(order),
        rows_per_person=rows_of(request.persons),
    )


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
) -> Comparison:
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
    request = Request(
        queries=queries,
        epsilon=epsilon,
        delta=delta,
        relation=between,
        beta=beta,
        certificate=certificate,
        post=post,
        weight=weight,
        accounting=accounting,
        persons=_persons(rows_per_person, between),
    )
    ways = ways_of(request, None, total=request.budget, key=None)
    return compare(*ways, n=n, mechanisms=mechanisms)


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
    request = Request(
        queries=queries,
        epsilon=1.0 if epsilon is None else epsilon,
        delta=delta,
        relation=between,
        beta=beta,
        certificate=certificate,
        post=post,
        persons=_persons(rows_per_person, between),
    )

    def plans_at(mechanism: Mechanism, *, size: int, at: float) -> list[Plan]:
        way = _with_accounting(replace(request, epsilon=at), mechanism)
        ways = _each(way, parts.ways_of_new_ledger(way.budget, way.budget))
        return [Plan.of(way, mechanism, n=size) for way in ways]

    def bound(mechanism: Mechanism, *, size: int, at: float) -> float:
        try:
            return min(error_by(plan.prepared.forecast, by) for plan in plans_at(mechanism, size=size, at=at))
        except ParameterError:  # below what a ledger counts
            return float("inf")

    needs: list[Requirement] = []
    for mechanism in _chosen(mechanisms):
        refusal = plans_at(mechanism, size=n or 1, at=epsilon or 1.0)[0].prepared.refusal
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
