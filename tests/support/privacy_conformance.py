"""The privacy checks that every mechanism and every question of the gate must pass.

A `Case` says how to run something with a curator. The checks run it through the production curator on neighbouring
tables, with the sampler replaced by a tape, and hold what differs against what was charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from maquette import api
from maquette.core.budget import SLACK_UNITS, UNITS, Budget
from maquette.core.measurement import BinnedResidual, Residual
from maquette.core.residuals import ripple
from maquette.domain import Attribute, Domain, Kind, Persons, Relation
from maquette.mechanisms.base import MECHANISMS
from maquette.queries.base import Queries
from maquette.releasing.plan import Plan
from maquette.releasing.request import Request
from support import privacy_loss
from support.privacy_doubles import (
    Call,
    Divergence,
    RecordingNoise,
    ReplayingNoise,
    TapeCurator,
    neighbours,
    persons_apart,
    table_of,
)
from support.privacy_draws import on_tape
from support.privacy_lattice import projected
from support.privacy_tally import TallyLedger

Histogram = tuple[int, ...]

TINY = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=3),
        Attribute("b", Kind.CATEGORICAL, codes=2),
        Attribute("c", Kind.CATEGORICAL, codes=2),
    )
)
"""12 cells: all tables of up to 3 records are 455, with 14,196 ordered pairs of neighbours."""


@dataclass(frozen=True)
class Case:
    """Something that asks the gate, with a budget. `run` returns whatever becomes public."""

    name: str
    budget: Budget
    run: Callable[[TapeCurator], Any]
    domain: Domain = TINY
    queries: Queries | None = None
    """The workload, where a draw is to be scored by its definition."""


def mechanism_case(
    name: str,
    *,
    delta: float = 0.0,
    queries: Callable[[Domain], Queries],
    epsilon: float = 1.0,
    using: Any = None,
    accounting: Any = "zcdp",
    **options: Any,
) -> Case:
    """A registered mechanism with its certificate, as `release` runs them, without the post-processing.

    `using` is the same mechanism with other settings of its own.
    """
    budget = Budget(epsilon, delta, accounting)

    def run(curator: TapeCurator) -> Any:
        settings = {
            "beta": 0.05,
            "certificate": 0.05,
            "groups": True,
            "rows": None,
            "post": "none",
            "typical_rows": 1000,
        }
        request = Request(
            queries=queries(curator.domain),
            epsilon=epsilon,
            delta=delta,
            accounting=accounting,
            relation=curator.relation,
            mechanism=name,
            persons=curator._ledger.persons,
            **(settings | options),
        )
        return api.run(curator, Plan.of(request, using or MECHANISMS[name]), key="case")

    return Case(name, budget, run, queries=queries(TINY))


@dataclass(frozen=True, eq=False)
class Run:
    """What one table gave: the private inputs of every draw, and everything that is public."""

    calls: tuple[Call, ...]
    residuals: dict[int, Residual | BinnedResidual]
    """By the number of the draw that they come from."""
    charges: tuple[tuple[str, int, int], ...]
    public: str


class WatchingCurator(TapeCurator):
    """Also remembers which draws are released as residuals, projected."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.residuals: dict[int, Residual | BinnedResidual] = {}

    def measure_residuals(self, margins: Any, *, variances: Any) -> tuple[Residual, ...]:
        first = len(self._noise.calls)
        released = super().measure_residuals(margins, variances=variances)
        self.residuals |= dict(enumerate(released, start=first))
        return released

    def measure_binned_residuals(self, binned: Any, *, variances: Any) -> tuple[BinnedResidual, ...]:
        first = len(self._noise.calls)
        released = super().measure_binned_residuals(binned, variances=variances)
        self.residuals |= dict(enumerate(released, start=first))
        return released


def run_on(
    case: Case,
    histogram: Histogram,
    relation: Relation,
    tape: Sequence[Call] | None,
    *,
    ledger: Any = None,
    persons: Persons | None = None,
) -> Run:
    """One run through the production curator, on a tape or (None) making one."""
    book = ledger or TallyLedger(budget=case.budget, relation=relation, persons=persons)
    noise = RecordingNoise() if tape is None else ReplayingNoise(tape)
    curator = WatchingCurator(
        table_of(case.domain, histogram, persons=book.persons),
        book,
        key="case",
        budget=case.budget,
        noise=noise,
    )
    with on_tape(noise, case.queries):
        public = describe(case.run(curator))
    if isinstance(noise, ReplayingNoise):
        noise.check_finished()
    charges = book.charges if isinstance(book, TallyLedger) else _charges(book)
    return Run(tuple(noise.calls), curator.residuals, charges, public)


def _charges(ledger: Any) -> tuple[tuple[str, int, int], ...]:
    return tuple((e.tag, e.units, e.slack) for e in ledger.entries(kind="reserve", parent="case"))


def describe(value: Any) -> str:
    """Everything public in an object, arrays in full, receipts left out."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {describe(v)}" for k, v in sorted(value.items(), key=_name)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(describe, value)) + "]"
    if isinstance(value, Queries):
        return value.describe()
    names = getattr(value, "__dataclass_fields__", None)
    if names is not None:
        return type(value).__name__ + describe(
            {n: getattr(value, n) for n in names if n not in ("receipt", "receipts")}
        )
    return repr(value)


def _name(item: tuple[Any, Any]) -> str:
    return str(item[0])


def loss(one: Run, other: Run, unit: str) -> Fraction:
    """The privacy loss of everything that was drawn, between two tables."""
    total = Fraction(0)
    for i, (a, b) in enumerate(zip(one.calls, other.calls, strict=True)):
        if i in one.residuals:
            total += _residual_loss(one.residuals[i], a, b, unit)
        else:
            total += LOSSES[unit](a, b)
    return total


LOSSES = {"epsilon": privacy_loss.pure, "rho": privacy_loss.rho, "mu^2/2": privacy_loss.half_square}


def _residual_loss(residual: Residual | BinnedResidual, one: Call, other: Call, unit: str) -> Fraction:
    """Of the projected lattice point, which is all that leaves."""
    shape = residual.values.shape
    apart = projected((one.exact - other.exact).reshape(shape), residual.axes)
    of = privacy_loss.gaussian_half_square if unit == "mu^2/2" else privacy_loss.gaussian_rho
    return of(apart, _variance(one), residual.denominator)


def _variance(call: Call) -> Fraction:
    return Fraction(dict(call.parameters)["sigma"]) ** 2


def check_residuals(run: Run) -> None:
    """Released residuals are the projected draws and nothing more, and their ripple is paid for."""
    gap = Fraction(0)
    for i, residual in run.residuals.items():
        shape = residual.values.shape
        expected = projected(np.asarray(run.calls[i].output).reshape(shape), residual.axes)
        if not np.array_equal(residual.values, expected):
            raise Divergence("a residual is not the projection of its draw")
        for axis in residual.axes:
            if residual.values.sum(axis=axis).any():
                raise Divergence(f"the mean over axis {axis} of {residual} was not removed")
        gap += _ripple(shape, _variance(run.calls[i]), residual.axes)
    paid = sum(slack for _, _, slack in run.charges)
    if math.ceil(gap * SLACK_UNITS) > paid:
        raise AssertionError(f"a total variation of {float(gap):.3g} was not paid for")


def check_ratio(run: Run) -> None:
    """Where mu^2 / 2 is counted, every number that got Gaussian noise pays for being whole: 4.2 exp(-4.5 pi^2) each."""
    noisy = sum(call.exact.size for call in run.calls if call.method == "gaussian")
    paid = sum(slack for _, _, slack in run.charges)
    if paid < noisy * 4.2 * math.exp(-4.5 * math.pi**2) * SLACK_UNITS:
        raise AssertionError(f"the whole numbers of {noisy} draws were not paid for")


@lru_cache(maxsize=1024)
def _ripple(shape: tuple[int, ...], variance: Fraction, axes: tuple[int, ...]) -> Fraction:
    return ripple(shape, variance, axes)


def check_pair(one: Run, other: Run, unit: str) -> Fraction:
    """Same questions, same price, same public results, and no more loss than was charged."""
    if [c.public for c in one.calls] != [c.public for c in other.calls]:
        raise Divergence("the questions depend on the table")
    if one.charges != other.charges:
        raise Divergence("the price depends on the table")
    if one.public != other.public:
        raise Divergence("something public depends on the table beyond the draws")
    seen = loss(one, other, unit)
    charged = Fraction(sum(units for _, units, _ in one.charges), UNITS)
    if seen > charged:
        raise AssertionError(f"the loss is {float(seen):.12g}, but {float(charged):.12g} was charged")
    return seen


@dataclass(frozen=True)
class Verdict:
    """How many ordered pairs were checked, and the largest share of the charge that any of them lost."""

    pairs: int
    tightest: float


def check_exactly(
    case: Case, relation: Relation, tables: Iterable[Histogram], *, persons: Persons | None = None
) -> Verdict:
    """All neighbouring pairs among the tables; every table runs once. With `persons`, neighbours are persons."""
    chosen = [t for t in tables if relation is Relation.ADD_REMOVE or sum(t) > 0]
    tapes: dict[int, Sequence[Call]] = {}
    runs: dict[Histogram, Run] = {}
    for table in chosen:
        # under replace-one the size is public and may decide what is asked
        size = sum(table) if relation is Relation.REPLACE_ONE else 0
        runs[table] = run_on(case, table, relation, tapes.get(size), persons=persons)
        tapes.setdefault(size, runs[table].calls)
        check_residuals(runs[table])
        if case.budget.accounting == "gaussian":
            check_ratio(runs[table])
        check_budget(case, runs[table])
    pairs, worst = 0, Fraction(0)
    apart = neighbours(chosen, relation) if persons is None else persons_apart(chosen, persons.rows)
    for one, other in apart:
        worst = max(worst, check_pair(runs[one], runs[other], case.budget.unit))
        pairs += 1
    charged = Fraction(sum(units for _, units, _ in runs[chosen[0]].charges), UNITS)
    return Verdict(pairs, float(worst / charged) if charged else 0.0)


def check_budget(case: Case, run: Run) -> None:
    """All charges together stay inside the promise."""
    units = sum(u for _, u, _ in run.charges)
    slack = sum(s for _, _, s in run.charges)
    if units > case.budget.total_units or slack > case.budget.slack_units:
        raise AssertionError("more was charged than the budget holds")
