"""A few queries with noise in the norm of all that a record can move: the K-norm mechanism of Hardt and Talwar (2010).

K is the convex hull of the columns of the query matrix and their opposites (of their differences where a record is
replaced). The norm with the unit ball K is the one in which a record moves the answers by at most 1, and no more is
covered by noise than that: Laplace noise covers the smallest cross-polytope around K, L-infinity noise the smallest
cube. Queries that are linear combinations of others are not measured: they are the same combinations of the answers.

The facets of the hull are computed in doubles and rounded to whole numbers; each is then moved outwards until it
provably holds every column. So the body that is used contains K, and the gate computes what a record moves in its norm
anyway: a mistake here would cost accuracy and nothing else. Counts are measured in parts of 2^-20, so that noise on
whole vectors has the law of continuous noise, nearly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.bodies import LARGEST, MAX_DIMENSION, MAX_FACETS, Body
from maquette.core.laws import NoiseRequest, Norm
from maquette.domain import Relation
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import Curator, Forecast, Mechanism, Outcome, Prepared, Progress, Traits
from maquette.mechanisms.postprocess import NoisyAnswers
from maquette.models.fits import cell_weights
from maquette.queries.base import Queries
from maquette.queries.weights import GRID, Weights, weights
from maquette.theory import draws, quantiles

MAX_CELLS, MAX_ENTRIES = 4096, 2**21
"""Cells that the queries look at, and entries of their matrix: independent rows are looked for."""
MAX_MOVES = (2**14, 2**14, 2**14, 2**12, 2**11, 400, 100, 40)
"""Different moves of a record that a hull is computed of, by the dimension: about a second of computing at most."""
POINTS, TRIED, WORK, SMALLEST_SHARE = 20_000, 2**22, 2**28, 1 / 2000
"""Simulated points of the body, points of the box that are tried for them, comparisons with facets, and the least part
of the box that the body may fill: a draw tries one over that many."""
_WHOLE, _FINE = 24, 2**12
"""A facet is multiplied by a number up to the first if that makes it whole, else rounded to parts of the second."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is measured, in which norm, and how the answers follow: reconstruction @ measured + constants * records."""

    measured: Weights
    body: Body
    reconstruction: Matrix
    constants: NDArray[np.float64]
    reach: NDArray[np.float64]
    """The largest answer, in counts, made of simulated uniform points of the body."""
    share: float
    """The part of the box that the body fills."""
    levels: dict[tuple[float, int, float], float] = field(
        default_factory=dict[tuple[float, int, float], float]
    )

    def level(self, law: Norm, *, beta: float) -> float:
        """What no answer is off by, in counts, the number of records being exact."""
        key = law.rate, law.resolution, beta
        if key not in self.levels:
            self.levels[key] = self._level(law, beta)
        return self.levels[key]

    def _level(self, law: Norm, beta: float) -> float:
        across = np.abs(self.reconstruction) / GRID
        corners = np.array(self.body.box, dtype=np.float64)
        return draws.norm_answers(
            rate=law.rate,
            dimension=len(self.body.box),
            cell=self.body.cell,
            step=1 / law.resolution,
            reach=self.reach,
            largest=float((across @ corners).max()),
            shift=float(across.sum(axis=1).max()) / 2,
            beta=beta,
        )


@shape.cached_by_queries
def plan_for(queries: Queries, relation: Relation) -> Plan | str:
    """From public structure alone; why there is none, in words."""
    matrix = np.asarray(cell_weights(queries), dtype=np.float64)
    replaced = relation is Relation.REPLACE_ONE
    rows = independent_rows(matrix, replaced=replaced)
    if len(rows) > MAX_DIMENSION:
        return (
            f"{len(rows)} of the queries are linearly independent, and noise is drawn in at most {MAX_DIMENSION} "
            f"dimensions{_same_as_cells(matrix, len(rows))}"
        )
    reconstruction, constants = combinations(matrix, rows, replaced=replaced)
    on_grid = weights(queries.domain, matrix[rows], attributes=queries.attributes)
    measured = Weights(queries.domain, on_grid.over, on_grid.numerators * (GRID // on_grid.grid), GRID)
    moves = moves_of(measured, relation)
    if isinstance(moves, str):
        return moves
    body = body_of(moves)
    if isinstance(body, str):
        return body
    points, share = uniform_points(body)
    if share < SMALLEST_SHARE:
        return (
            "what a record can change fills less than 1/2000 of the box around it, so a draw would try too many "
            f"points; use laplace or factorisation{_same_as_cells(matrix, len(rows))}"
        )
    reach = np.concatenate(
        [np.abs(points[i : i + 512] @ reconstruction.T).max(axis=1) for i in range(0, len(points), 512)]
    )
    return Plan(measured, body, reconstruction, constants, reach / GRID, share)


def _same_as_cells(matrix: Matrix, rank: int) -> str:
    columns = np.unique(matrix, axis=1)
    if np.count_nonzero(columns.any(axis=0)) == rank:
        return "; here noise on the cells has the same law, use histogram-laplace"
    return ""


def independent_rows(matrix: Matrix, *, replaced: bool) -> NDArray[np.intp]:
    """Rows of which all others are linear combinations, plus a constant where records are replaced."""
    from scipy.linalg import qr

    factors: Any = qr(_centred(matrix, replaced).T, mode="r", pivoting=True)
    sizes = np.abs(np.diagonal(factors[0]))
    return np.sort(factors[1][: int((sizes > 1e-9 * max(sizes[0], 1e-300)).sum())])


def combinations(
    matrix: Matrix, rows: NDArray[np.intp], *, replaced: bool
) -> tuple[Matrix, NDArray[np.float64]]:
    """matrix = reconstruction @ matrix[rows] + constants (the same for every column)."""
    centred = _centred(matrix, replaced)
    solution = np.linalg.lstsq(centred[rows].T, centred.T, rcond=None)[0].T
    reconstruction = np.asarray(solution, dtype=np.float64)
    constants = (matrix - reconstruction @ matrix[rows])[:, 0] if replaced else np.zeros(len(matrix))
    return reconstruction, constants


def _centred(matrix: Matrix, replaced: bool) -> Matrix:
    return matrix - matrix[:, :1] if replaced else matrix


def moves_of(measured: Weights, relation: Relation) -> NDArray[np.int64] | str:
    """Everything by which one record moves the numerators, up to the sign; one move a row."""
    columns = np.unique(measured.numerators.astype(np.int64).T, axis=0)
    most = MAX_MOVES[measured.count - 1]
    too_many = len(columns) > 512
    if relation is Relation.REPLACE_ONE and not too_many:
        first, second = np.triu_indices(len(columns), 1)
        apart = columns[first] - columns[second]  # the columns are sorted, so the first entry is not above 0
        columns = np.unique(apart, axis=0)
    moves = columns[columns.any(axis=1)]
    if len(moves) > most or (relation is Relation.REPLACE_ONE and too_many):
        return (
            f"a record can change the answers in {len(moves):,} ways or more, and the convex hull of these changes in "
            f"{measured.count} dimensions is computed for at most {most:,}; use linf or laplace"
        )
    return moves


def body_of(moves: NDArray[np.int64]) -> Body | str:
    """The hull of the moves and their opposites, or a body a little larger, in whole numbers."""
    box = np.abs(moves).max(axis=0)
    scaled = moves / box
    facets = hull(scaled)
    if len(facets) > MAX_FACETS:
        return (
            f"the convex hull of these changes has {2 * len(facets):,} facets, more than {2 * MAX_FACETS:,}"
        )
    normals = [normal for normal in map(whole_normal, facets) if np.count_nonzero(normal) > 1]
    # on numerators: whole where the sides of the box are equal
    steep = np.array(normals, dtype=np.float64).reshape(-1, len(box)) * (box.max() / box)
    steep *= np.minimum(1.0, LARGEST / np.abs(steep).max(axis=1, keepdims=True, initial=1.0))
    sides = np.rint(steep).astype(np.int64)
    along = np.abs(sides @ moves.T)
    return Body(
        tuple(map(int, box)), tuple(map(tuple, sides.tolist())), tuple(along.max(axis=1, initial=0).tolist())
    )


def hull(points: Matrix) -> Matrix:
    """The normals of the facets of the hull of these points and their opposites, each once and for offset 1."""
    from scipy.spatial import ConvexHull

    if points.shape[1] == 1:
        return np.ones((1, 1))
    equations = ConvexHull(np.vstack([points, -points])).equations
    normals = equations[:, :-1] / -equations[:, -1:]
    leading = np.take_along_axis(normals, (np.abs(normals) > 1e-9).argmax(axis=1)[:, None], axis=1)
    return np.unique(np.round(normals * np.sign(leading), 9), axis=0)


def whole_normal(normal: NDArray[np.float64]) -> NDArray[np.int64]:
    """A whole multiple of a facet's normal where a small one exists, else one near to it."""
    for factor in range(1, _WHOLE + 1):
        near = np.rint(normal * factor)
        if np.abs(normal * factor - near).max() < 1e-6:
            return near.astype(np.int64)
    return np.rint(normal / np.abs(normal).max() * _FINE).astype(np.int64)


def uniform_points(body: Body) -> tuple[Matrix, float]:
    """Uniform points of the body (numerators), and the part of its box that it fills; from a public generator."""
    rng = np.random.default_rng(17)
    found: list[Matrix] = []
    taken, tried, block = 0, 0, 2**13
    rows, limits = body.rows.astype(np.float64), body.limits.astype(np.float64)
    most = min(TRIED, WORK // len(rows))
    while taken < POINTS and tried < most:
        points = rng.uniform(-1, 1, (block, len(body.box))) * body.box
        for i in range(len(body.box), len(rows), 128):
            points = points[(np.abs(points @ rows[i : i + 128].T) <= limits[i : i + 128]).all(axis=1)]
        found.append(points)
        taken, tried = taken + len(points), tried + block
        if tried >= TRIED // 8 and taken < tried * SMALLEST_SHARE:
            break
    return np.concatenate(found), taken / tried


@dataclass(frozen=True, eq=False)
class PreparedKNorm(Prepared):
    """K-norm noise for one workload."""

    def _refuse(self) -> str | None:
        queries = self.task.queries
        cells = shape.universe(queries)
        if cells > MAX_CELLS or cells * queries.count > MAX_ENTRIES:
            return (
                f"the queries form a matrix of {queries.count:,} x {cells:,}, and a norm is computed for at most "
                f"{MAX_CELLS:,} cells and {MAX_ENTRIES:,} entries"
            )
        plan = plan_for(queries, self.task.relation)
        if isinstance(plan, str):
            return plan
        return postprocess.refusal(self.task)

    @property
    def megabytes(self) -> float:
        return postprocess.holding(self.task.queries.count * (shape.universe(self.task.queries) + 512))

    @property
    def _plan(self) -> Plan:
        plan = plan_for(self.task.queries, self.task.relation)
        assert isinstance(plan, Plan)
        return plan

    @cached_property
    def _parts(self) -> sizing.Split:
        method = postprocess.method_for(self.task)
        return sizing.split(self.task, self._level, lambda e, t: postprocess.error_after(e, t, method))

    def _request(self, price: Fraction) -> NoiseRequest:
        return NoiseRequest("norm", self.task.unit.pure_epsilon(price), self._plan.body)

    def _law(self, price: Fraction) -> Norm:
        request = self._request(price)
        measured = self._plan.measured
        law = quantiles.law_of(
            request, request.sensitivity_of(measured.to_forms(), measured.domain, self.task.relation)
        )
        assert isinstance(law, Norm)
        return law

    def _level(self, price: Fraction) -> float:
        beta = sizing.beta_for_answers(self.task.beta, self.task.relation)
        return self._plan.level(self._law(price), beta=beta)

    @property
    def size_price(self) -> Fraction:
        return self._parts.size

    def _foresee(self) -> Forecast:
        task, parts, count = self.task, self._parts, self.task.queries.count
        method, law = postprocess.method_for(task), self._law(parts.answers)
        scale = np.random.default_rng(18).gamma(
            len(self._plan.body.box) + 1, 1 / law.rate, len(self._plan.reach)
        )
        typical = float(np.median(scale * self._plan.reach)) + parts.size_error(task, beta=0.5)
        return Forecast(
            self.mechanism.name,
            postprocess.in_advance(self._level(parts.answers), parts.size_error(task), method, n=self.n),
            min(typical / self.n, 1.0),
            postprocess.seconds(task, n=self.n, cells=shape.universe(task.queries) + count, tables=1),
            self.megabytes,
            method != "none" and shape.gives_rows(task.queries),
            None,
            (self._describe(law), postprocess.EXPECTED_NOTE),
        )

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return ("measuring the queries", 0.5), ("making the other answers", 0.5)

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, measure independent queries, make the others of them, post-process."""
        task, parts, plan = self.task, self._parts, self._plan
        progress("measuring the queries", 0.0)
        size = sizing.released_size(curator, task, parts)
        measurement = curator.measure(plan.measured, noise=self._request(parts.answers))
        progress("making the other answers", 0.5)
        law = measurement.noise
        assert isinstance(law, Norm)
        noisy = NoisyAnswers(
            counts=plan.reconstruction @ np.asarray(measurement.counts) + plan.constants * size.value,
            level=plan.level(law, beta=sizing.beta_for_answers(task.beta, task.relation)),
            size_error=sizing.size_error(size, task.beta),
            size=size,
            law=self._describe(law),
            parameters={"draws": 1, "dimensions": len(plan.body.box), "facets": 2 * len(plan.body.limits)},
        )
        done = postprocess.finish(task, noisy)
        progress("making the other answers", 1.0)
        return done

    def _describe(self, law: Norm) -> str:
        body = law.body
        return (
            f"K-norm noise at epsilon {float(law.epsilon):.4g} in {len(body.box)} dimensions, a body of "
            f"{2 * len(body.limits):,} facets, bounded with {len(self._plan.reach):,} simulated points of it"
        )


@dataclass(frozen=True, slots=True)
class KNorm(Mechanism):
    """One draw of noise for all answers, shaped by what a record can move.

    Guarantee: the task's price, through the gate, which computes exactly what a record moves in the norm.
    Accuracy: `theory.draws.norm_answers`: the law of the largest answer, from simulated points of the body with what
        their number leaves open; never above the Gamma quantile of the norm.
    Holds when: up to 8 independent queries, and a body that fills 1/2000 of its box or more.
    Cost: a convex hull and about 20,000 simulated points before the run; some thousand tried points for the draw.
    """

    prepared_by = PreparedKNorm
    name: str = "knorm"
    traits: Traits = Traits(by_name=True)


KNORM = KNorm()
