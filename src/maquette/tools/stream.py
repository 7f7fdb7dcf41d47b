"""`count_stream`: running counts over time, each step's with noise that grows with the logarithm of the steps.

Every record has a time, a cell of an ordered attribute. The count up to every step is a prefix; measuring each would
let a record move all later ones. Instead the nodes of a tree over the steps are measured, in which a record is in one
node of every level (Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011), or with a delta the square root
of the matrix of prefixes (`mechanisms/square_root.py`). All steps of a table are paid and measured at once,
because a ledger pays for one table that does not change. What arrives later is another table with a ledger of its own:
a record is in one of them, and is protected by the ledger of that one. `after=` adds up the running counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.laws import IndependentLaw, Laplace, NoiseRequest, independent
from maquette.domain import Domain, Relation
from maquette.errors import ParameterError, WorkloadError
from maquette.mechanisms import square_root
from maquette.models.fits import cell_weights
from maquette.owner import Table
from maquette.queries import canonical_hash, names
from maquette.queries.base import Queries
from maquette.queries.predicates import where
from maquette.queries.weights import Weights, weights
from maquette.releasing.payment import Place
from maquette.requests import Payer, Privacy
from maquette.theory import direct as theory
from maquette.tools.envelope import curator_for

MAX_CELLS = 4096
"""Steps times the cells that a condition looks at."""
MAX_STEPS = square_root.MAX_CELLS
BRANCHES = (2, 4, 8, 16, 32, 64)
"""Children of a node that are tried where no delta is given."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """The running count after one step of time."""

    time: str
    count: float
    error: float
    """The true count is within this, for all steps together except with probability beta."""


@dataclass(frozen=True, slots=True, eq=False)
class CountStream:
    """Running counts over all steps of a table, and of the tables before it."""

    times: tuple[str, ...]
    counts: NDArray[np.float64]
    error: float
    beta: float
    key: str
    draws: tuple[float, ...]
    """Of the last count: the scale or deviation of every independent draw that is in it."""
    pure: bool

    def __iter__(self) -> Iterator[Step]:
        return (
            Step(time, float(count), self.error) for time, count in zip(self.times, self.counts, strict=True)
        )

    def __len__(self) -> int:
        return len(self.times)

    @property
    def last(self) -> Step:
        *_, last = self
        return last


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """What is measured, and how running counts follow from it."""

    weights: Weights
    running: Matrix


@checks_arguments
def count_stream(
    table: Table,
    time: str,
    *,
    epsilon: float,
    condition: Queries | str | None = None,
    after: CountStream | None = None,
    delta: float = 0.0,
    beta: float = 0.05,
    relation: Relation | str = Relation.ADD_REMOVE,
    ledger: Place = None,
    total_epsilon: float | None = None,
    total_delta: float | None = None,
    key: str | None = None,
) -> CountStream:
    """How many records there are up to each step of time, those that satisfy a condition if one is given.

    `time` is an ordered attribute; every declared cell of it is a step. `after` is the stream of the table before this
    one: its last count is where this one begins.

    Guarantee: (epsilon, delta)-DP under `relation` for all steps together, pure if delta is 0; paid before the first
        look. The same request again gives the stored counts and costs nothing. Streams of tables that have no record in
        common protect every record by the budget of its own table.
    Accuracy: every count is within `error`, except with probability beta: linear sums of Laplace draws of scale
        L / epsilon (2 L under replace-one) in a tree of L levels, or the rows of the square root with Gaussian noise,
        and the draws of the earlier streams' last counts; a union over the steps (`theory.direct.linear_laplace`,
        `linear_gaussian`). The error is this stream's own: earlier counts have theirs.
    """
    _check.fraction(beta=beta)
    if after is not None and after.pure != (delta == 0):
        raise ParameterError(
            "a stream continues with noise of the same kind: give a delta to all of its parts, or to none"
        )
    plan = _plan(table.domain, time, condition, pure=delta == 0)
    privacy = Privacy(epsilon=epsilon, delta=delta, relation=relation)
    payer = Payer(ledger=ledger, total_epsilon=total_epsilon, total_delta=total_delta, key=key)
    about = {
        "time": time,
        "condition": None if condition is None else _query(table.domain, condition).spec(),
        "strategy": canonical_hash(plan.weights),
    }
    with curator_for(table, privacy, payer, about, tag="count stream") as paid:
        noise = NoiseRequest.at(paid.price, paid.budget.unit)
        measurement = paid.curator.measure(plan.weights, noise=noise)
    law, start = independent(measurement.noise), 0.0 if after is None else after.counts[-1]
    counts = plan.running @ np.asarray(measurement.counts, dtype=np.float64) + start
    earlier = () if after is None else after.draws
    own = plan.running[-1][plan.running[-1] != 0] * _width(law)
    attribute = table.domain[time]
    return CountStream(
        times=tuple(str(attribute.label(code)) for code in range(attribute.cells)),
        counts=counts,
        error=error(plan.running, law, earlier, beta=beta),
        beta=beta,
        key=paid.key,
        draws=(*earlier, *map(float, np.abs(own))),
        pure=isinstance(law, Laplace),
    )


def error(running: Matrix, law: IndependentLaw, earlier: tuple[float, ...] = (), *, beta: float) -> float:
    """What no running count is off by, except with probability beta; `earlier` are draws that all of them share."""
    own = np.abs(running) * _width(law)
    together = np.column_stack([own, np.broadcast_to(np.array(earlier), (len(own), len(earlier)))])
    if isinstance(law, Laplace):
        return theory.linear_laplace(scale=1.0, coefficients=together, beta=beta)
    return theory.linear_gaussian(sigma=1.0, norms=np.linalg.norm(together, axis=1), beta=beta)


def _width(law: IndependentLaw) -> float:
    return float(law.scale) if isinstance(law, Laplace) else law.deviation


def _plan(domain: Domain, time: str, condition: Queries | str | None, *, pure: bool) -> _Plan:
    """Weights over the steps, times the cells of the condition."""
    names.ordered(domain, time, purpose="steps of time")
    steps, size = domain[time].cells, domain[time].size
    if steps > MAX_STEPS:
        raise WorkloadError(
            f"a stream has up to {MAX_STEPS:,} steps, and '{time}' has {steps:,}; declare wider ones"
        )
    query = None if condition is None else _query(domain, condition)
    if query is not None and (time in query.attributes or query.count != 1 or query.denominator != 1):
        raise WorkloadError(f"expected one condition that counts records, on other attributes than '{time}'")
    if query is not None and size * domain.cells(query.attributes) > MAX_CELLS:
        raise WorkloadError(f"steps and condition look at more than {MAX_CELLS:,} cells; use wider steps")
    rows, running = tree(steps) if pure else _root(steps)
    over_time = np.pad(rows, ((0, 0), (0, size - steps)))  # missing times are counted in no step
    if query is None:
        return _Plan(weights(domain, over_time, attributes=[time]), running)
    inside = np.asarray(cell_weights(query), dtype=np.float64)
    order = [time, *query.attributes]
    return _Plan(weights(domain, np.kron(over_time, inside), attributes=order), running)


def _query(domain: Domain, condition: Queries | str) -> Queries:
    return where(domain, condition) if isinstance(condition, str) else condition


@lru_cache(maxsize=16)
def tree(steps: int) -> tuple[Matrix, Matrix]:
    """Nodes of a tree over the steps (down) by the steps they count, and how running counts follow from them.

    Of trees with more or fewer children to a node the one that states the least; steps alone are one of them. Running
    counts are the least squares of all nodes: nothing is released before the last step, so later nodes help as well.
    """

    def level(option: tuple[Matrix, Matrix]) -> float:
        rows, running = option
        return theory.linear_laplace(scale=float(rows.sum(axis=0).max()), coefficients=running, beta=0.05)

    children = [count for count in BRANCHES if count < steps]
    return min((_least_squares(_nodes(steps, count)) for count in (*children, steps)), key=level)


def _nodes(steps: int, children: int) -> Matrix:
    """All steps, and one level after the other of nodes that count so many of the level below, but no node of all."""
    step = np.arange(steps)
    levels = [np.eye(steps)]
    width = children
    while width < steps:
        starts = np.arange(0, steps, width)
        levels.append(((starts[:, None] <= step) & (step < starts[:, None] + width)).astype(np.float64))
        width *= children
    return np.vstack(levels)


def _least_squares(rows: Matrix) -> tuple[Matrix, Matrix]:
    """P (A'A)^-1 A' for prefixes P: weights that add up to every running count, with the least variance."""
    cells = np.linalg.solve(rows.T @ rows, rows.T)
    return rows, np.cumsum(cells, axis=0, dtype=np.float64)


def _root(steps: int) -> tuple[Matrix, Matrix]:
    """The square root of the matrix of prefixes, in parts of 2^-20, and the matrix that makes prefixes of it."""
    k = np.arange(1, steps)
    diagonals = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    apart = np.arange(steps)[:, None] - np.arange(steps)
    rows = np.rint(np.where(apart >= 0, diagonals[np.abs(apart)], 0.0) * 2**20) / 2**20
    return rows, np.cumsum(np.linalg.inv(rows), axis=0, dtype=np.float64)
