"""The planner: which mechanism, how many records, how much privacy. Public inputs only; it spends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from html import escape
from typing import Any, Literal

from maquette import _check
from maquette.accounting.budget import UNITS, Accounting, Budget
from maquette.accounting.budget import split as split_units
from maquette.accounting.gaussian import SMOOTHING
from maquette.domain import Relation
from maquette.errors import MechanismError, ParameterError
from maquette.mechanisms import shape
from maquette.mechanisms.base import POSTS, Forecast, Mechanism, Task
from maquette.mechanisms.direct import CUBE, GAUSSIAN, HISTOGRAM_GAUSSIAN, HISTOGRAM_LAPLACE, LAPLACE
from maquette.mechanisms.residual import RESIDUAL, RESIDUAL_CELLS
from maquette.mechanisms.roth import ROTH
from maquette.mechanisms.smalldb import SMALLDB
from maquette.mechanisms.tree import TREE, levels
from maquette.mechanisms.weights import MW, MWEM
from maquette.queries.base import Queries
from maquette.queries.marginals import Marginals, moved
from maquette.releasing.certify import SHARE, worth_buying
from maquette.releasing.certify import expected as expected_certificate
from maquette.sculpt.mechanism import SCULPT
from maquette.theory import search

# A plan: what every mechanism promises for one workload and budget, ranked, and how it is shown.

Criterion = Literal["guaranteed", "expected"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What every mechanism promises for one workload and budget, best guarantee first."""

    workload: str
    queries: int
    n: int
    epsilon: float
    delta: float
    relation: Relation
    beta: float
    certificate: float | None
    """The share for a certificate; None where each forecast is with one or without, whichever states less."""
    forecasts: tuple[Forecast, ...]

    def best(self, by: Criterion = "expected") -> Forecast:
        """The mechanism with the smallest expected (or guaranteed) error among those that can run."""
        _check.one_of(("guaranteed", "expected"), by=by)
        able = [f for f in self.forecasts if f.refusal is None]
        if not able:
            reasons = "; ".join(f"{f.mechanism}: {f.refusal}" for f in self.forecasts)
            raise MechanismError(f"no mechanism can answer this workload at this budget ({reasons})")
        other: Criterion = "expected" if by == "guaranteed" else "guaranteed"
        return min(able, key=lambda f: (error_by(f, by), error_by(f, other)))

    def to_dict(self) -> dict[str, Any]:
        """Everything, JSON-ready."""
        return asdict(self) | {
            "relation": str(self.relation),
            "forecasts": [asdict(f) | {"notes": list(f.notes)} for f in self.forecasts],
        }

    def __repr__(self) -> str:
        rows = [_HEADER, *(_cells(f) for f in self.forecasts)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([self._title(), *lines, _LEGEND.format(beta=self.beta)])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(cell)}</th>" for cell in _HEADER)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(f)) + "</tr>"
            for f in self.forecasts
        )
        return (
            f"<p>{escape(self._title())}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p><small>{escape(_LEGEND.format(beta=self.beta))}</small></p>"
        )

    def _title(self) -> str:
        budget = f"epsilon={self.epsilon:g}" + (f", delta={self.delta:g}" if self.delta else "")
        return f"Plan for {self.workload}: n={self.n:,}, {budget}, {self.relation}"


_HEADER = ("mechanism", "guaranteed", "expected", "stated by", "time", "memory", "rows", "remark")
_LEGEND = (
    "guaranteed: largest error over all queries, as a fraction of the records, except with probability {beta:g}; "
    "expected: typical largest error by formula or simulation, no promise; stated by: the guarantee, or a certificate "
    "that is measured afterwards"
)


def error_by(forecast: Forecast, by: Criterion) -> float:
    """One of the two errors of a forecast; infinite where there is none."""
    value = forecast.guaranteed if by == "guaranteed" else forecast.expected
    return float("inf") if value is None else value


def _cells(forecast: Forecast) -> tuple[str, ...]:
    if forecast.refusal is not None:
        return (forecast.mechanism, "-", "-", "-", "-", "-", "-", forecast.refusal)
    remark = forecast.notes[0] if forecast.notes else ""
    return (
        forecast.mechanism,
        _error(forecast.guaranteed),
        _error(forecast.expected),
        forecast.stated or "-",
        _duration(forecast.seconds),
        f"{forecast.megabytes:,.0f} MB",
        "yes" if forecast.gives_rows else "answers only",
        remark,
    )


def _error(value: float | None) -> str:
    return "-" if value is None else "none (vacuous)" if value >= 1 else f"{value:.3g}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "< 1 s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


MECHANISMS: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        LAPLACE,
        CUBE,
        GAUSSIAN,
        HISTOGRAM_LAPLACE,
        HISTOGRAM_GAUSSIAN,
        RESIDUAL,
        RESIDUAL_CELLS,
        SCULPT,
        SMALLDB,
        ROTH,
        TREE,
        MW,
        MWEM,
    )
}
"""Every mechanism that can be asked for by name."""
WEIGHTED = (ROTH.name,)
"""Those that weigh records."""
NOISE_BY_GAUSS = tuple(m.name for m in (GAUSSIAN, HISTOGRAM_GAUSSIAN, RESIDUAL, RESIDUAL_CELLS, SCULPT, TREE))
"""Those that spend a budget with a delta mostly on Gaussian noise."""
PROJECTING = tuple(m.name for m in (RESIDUAL, RESIDUAL_CELLS, SCULPT))
"""Those that may project their noise, which is then exact only within a proven bound."""
SMALL = (SCULPT.name, SMALLDB.name, ROTH.name)
"""Those that choose a really small number of rows if asked to; the last two always do."""


def preferred(made: Plan, queries: Queries) -> str:
    """The mechanism that a release takes by itself.

    Sculpt for workloads with marginals and a delta, since it also gives rows and a far smaller mean error, unless
    another mechanism is expected to have less than half its largest error; else the smallest expected error.
    """
    best = made.best(by="expected")
    carved = next((f for f in made.forecasts if f.mechanism == SCULPT.name and f.refusal is None), None)
    mixed = any(isinstance(part, Marginals) for part in queries.classes)
    if (
        made.delta
        and mixed
        and carved is not None
        and error_by(best, "expected") >= error_by(carved, "expected") / 2
    ):
        return carved.mechanism
    return best.mechanism


def plan(
    queries: Queries,
    *,
    n: int,
    epsilon: float,
    delta: float = 0.0,
    relation: Relation | str = Relation.ADD_REMOVE,
    beta: float = 0.05,
    mechanisms: Sequence[str] | None = None,
    certificate: float | None = None,
    post: str = "auto",
    weight: str | None = None,
    accounting: Accounting | None = None,
) -> Plan:
    """What each mechanism promises for this workload on a table of about n records, best guarantee first.

    `accounting` is how the ledger counts a delta; by default each mechanism is planned in the way that suits it, as a
    release that makes a ledger of its own would count it. `certificate` is the share that measures the largest error
    afterwards; by default each mechanism is planned with one or without, whichever is expected to state less, and its
    `stated` says which.

    Holds when: n, epsilon and the rest are public. Under add/remove-one n is a guess of yours, not the table's
        number of rows, and the guarantee counts what its noisy estimate will add. With `weight`, the attribute
        that weighs the records, n is about their total weight in units of the largest one, and only mechanisms
        for weighted tables are listed.
    """
    _check.whole(n=n)
    asked = partial(
        _task,
        queries,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        beta=beta,
        post=post,
    )
    share = SHARE if certificate is None else certificate
    task = asked(accounting="zcdp", certificate=share)

    def forecast_of(mechanism: Mechanism) -> Forecast:
        way = accounting or suited(
            mechanism.name, queries, relation=task.relation, epsilon=epsilon, delta=delta
        )
        held = replace(asked(accounting=way, certificate=share), weight=weight)
        bought = mechanism.forecast(held, n=n)
        if bought.refusal is not None or certificate is not None:
            return replace(bought, stated="certificate" if share else "guarantee")
        whole = replace(asked(accounting=way, certificate=0.0), weight=weight)
        without = mechanism.forecast(whole, n=n)
        hoped = expected_certificate(bought, held, price=whole.price - held.price, n=n)
        if worth_buying(hoped, without.guaranteed):
            return replace(bought, stated="certificate")
        return replace(without, stated="guarantee")

    chosen = [m for m in _chosen(mechanisms) if weight is None or m.name in WEIGHTED]
    forecasts = sorted(
        map(forecast_of, chosen),
        key=lambda f: (f.refusal is not None, error_by(f, "guaranteed"), error_by(f, "expected")),
    )
    return Plan(
        workload=queries.describe(),
        queries=queries.count,
        n=n,
        epsilon=float(epsilon),
        delta=float(delta),
        relation=task.relation,
        beta=beta,
        certificate=certificate,
        forecasts=tuple(forecasts),
    )


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a mechanism needs for a target error; None where no amount suffices or it cannot run."""

    mechanism: str
    n: int | None = None
    epsilon: float | None = None
    refusal: str | None = None


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
) -> tuple[Requirement, ...]:
    """The records (given epsilon) or the epsilon (given n) that each mechanism needs for an error of alpha.

    Accuracy: the smallest n, or epsilon to a relative 1e-9, by bisection on the bound of `plan`; best first.
    """
    _check.positive(alpha=alpha)
    _check.one_of(("guaranteed", "expected"), by=by)
    if (n is None) == (epsilon is None):
        raise ParameterError(
            "expected either n (to find epsilon) or epsilon (to find n), not both or neither"
        )
    if n is not None:
        _check.whole(n=n)

    def task(at: float, name: str) -> Task:
        way = suited(name, queries, relation=Relation.named(relation), epsilon=at, delta=delta)
        return _task(
            queries,
            accounting=way,
            epsilon=at,
            delta=delta,
            relation=relation,
            beta=beta,
            certificate=certificate,
            post=post,
        )

    def bound(mechanism: Mechanism, *, size: int, at: float) -> float:
        try:
            asked = task(at, mechanism.name)
        except ParameterError:  # below what a ledger counts
            return float("inf")
        return error_by(mechanism.forecast(asked, n=size), by)

    found: list[Requirement] = []
    for mechanism in _chosen(mechanisms):
        refusal = mechanism.forecast(task(epsilon or 1.0, mechanism.name), n=n or 1).refusal
        if refusal is not None:
            found.append(Requirement(mechanism.name, refusal=refusal))
        elif epsilon is not None:
            fixed = partial(bound, mechanism, at=epsilon)
            records = search.records(lambda size, f=fixed: f(size=size), alpha=alpha)
            found.append(Requirement(mechanism.name, n=records, epsilon=float(epsilon)))
        else:
            fixed = partial(bound, mechanism, size=n or 1)
            enough = search.epsilon(lambda at, f=fixed: f(at=at), alpha=alpha)
            found.append(Requirement(mechanism.name, n=n, epsilon=enough))
    return tuple(sorted(found, key=_need))


def _task(
    queries: Queries,
    *,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    beta: float,
    certificate: float,
    post: str,
    accounting: Accounting,
) -> Task:
    """The public task that a release with these parameters would run."""
    _check.fraction(beta=beta)
    between = Relation.named(relation)
    _check.one_of(POSTS, post=post)
    _check.fraction_or_zero(certificate=certificate)
    budget = Budget(epsilon, delta, accounting)
    share = Fraction(str(certificate))
    units, _ = split_units(budget.total_units, [1 - share, share])
    if units < 1:
        raise ParameterError(f"the budget {budget} is too small to be divided")
    asked = shape.merged(queries).queries
    return Task(asked, between, budget.unit, Fraction(units, UNITS), beta, post)


def suited(
    mechanism: str, queries: Queries, *, relation: Relation, epsilon: float, delta: float
) -> Accounting:
    """The way of counting a delta in which a mechanism needs less noise: for a ledger that is made for it.

    Gaussian noise is cheaper by Gaussian differential privacy, unless it is so narrow that the smoothing of
    whole numbers takes more than that; pure noise and private choices are cheaper by zCDP. Public inputs only.
    """
    if not delta or mechanism not in NOISE_BY_GAUSS:
        return "zcdp"
    ways: tuple[Accounting, ...] = ("gaussian", "zcdp")
    gaussian, zcdp = (Fraction(Budget(epsilon, delta, way).total_units, UNITS) for way in ways)
    shift = _moved(mechanism, shape.merged(queries).queries, relation)
    return "gaussian" if shift / (2 * gaussian) + SMOOTHING <= shift / (2 * zcdp) else "zcdp"


def _moved(mechanism: str, queries: Queries, relation: Relation) -> Fraction:
    """The squared distance by which one record moves what is measured, about."""
    if mechanism == HISTOGRAM_GAUSSIAN.name:
        return Fraction(moved(relation))
    if mechanism == TREE.name:
        return Fraction(moved(relation) * levels(queries))
    return shape.sensitivities(queries)[relation].l2_squared


def _chosen(mechanisms: Sequence[str] | None) -> list[Mechanism]:
    if mechanisms is None:
        return list(MECHANISMS.values())
    for name in mechanisms:
        _check.one_of(MECHANISMS, mechanism=name)
    return [MECHANISMS[name] for name in mechanisms]


def _need(requirement: Requirement) -> tuple[bool, float, float]:
    infinite = float("inf")
    refused = requirement.refusal is not None
    n = infinite if requirement.n is None else requirement.n
    return refused, n, infinite if requirement.epsilon is None else requirement.epsilon
