"""SmallDB (Blum, Ligett and Roth 2008): one small database, drawn exactly, that answers the whole class."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.core.drawing import DrawnDatabase
from maquette.core.measurement import Size
from maquette.domain import Relation
from maquette.mechanisms import shape, sizing
from maquette.mechanisms.base import Curator as Gate
from maquette.mechanisms.base import Forecast, Guarantee, Mechanism, Outcome, Prepared, Progress, Task, Traits
from maquette.mechanisms.smalldb_routes import Route, find_route, find_rows, no_route
from maquette.models.answers import SmallDatabase
from maquette.samplers.structures import (
    Base,
    Candidates,
    Draw,
    Forest,
    Intervals,
    Nested,
    Single,
    Thresholds,
)
from maquette.theory import smalldb as theory

ROWS_FACTOR = 1.25
"""m = 1.25 sqrt(epsilon n) where a counter draws: near the best of sweeps over four shapes of data."""
TYPICAL: dict[Base, float] = {"tree": 2.0, "flat": 2.5, "sequence": 2.5}
"""Largest error over thresholds times sqrt(epsilon n): mean over four shapes of data (uniform, two bumps, Zipf,
spikes), 2^12 and 2^20 cells, epsilon n = 100, 1,000 and 10,000; 144 draws (sequence: 48, 2^12 cells, up to 1,000).
Single draws lie between 0.5 and 9. `python -m benchmarks smalldb` measures these and the following anew."""
EXPECTED_NOTE = "expected: from simulation, no promise"
TYPICAL_TRELLIS = 1.5
"""The same for a trellis: windows of three of 40 cells, epsilon n = 200 and 1,000, 12 draws."""


DRAWING = "drawing a small database"


@dataclass(frozen=True, eq=False)
class PreparedSmallDb(Prepared):
    """SmallDB for one workload: the sampler is looked for once."""

    mechanism: SmallDb

    def _refuse(self) -> str | None:
        return None if self.is_constant else self.undrawable()

    def undrawable(self) -> str | None:
        """Why nothing can be drawn, or None: from public quantities only."""
        task, options = self.task, self.mechanism
        if task.queries.domain.constraints:
            return (
                "its rows are drawn from all records, also those that the domain's constraints forbid; use another "
                "mechanism, or leave the constraints out of the domain"
            )
        if options.alpha is not None and (task.rows is not None or options.candidates is not None):
            return "alpha and rows both decide the number of rows; give only one of them"
        if options.candidates is not None:
            return shape.too_many(task.queries)
        if self.route is None:
            return no_route(task.queries, task.unit)
        if options.alpha is not None:
            return self._unreachable(options.alpha, self.route)
        unfit = self.route.refusal(task.rows or 1)
        if unfit is not None:
            return f"{task.queries.describe()}: {unfit}"
        return None

    def _unreachable(self, alpha: float, route: Route) -> str | None:
        """Why the rows that the target needs cannot be drawn, what could be drawn instead, or None."""
        m, letter = _target_rows(alpha, route)
        able = find_rows(self.task.queries, self.mechanism.base, m)
        unfit = able.refusal(m)
        if unfit is None:
            return None
        most = able.most_rows()
        near, _ = theory.nearest(route.facts, rows=most)
        return (
            f"alpha={alpha:g} needs m={m:,} rows (existence bound {letter}: the best database of fewer may be "
            f"farther than alpha / 2 from a table), and {unfit}; at most m={most:,} rows can be drawn, which reach "
            f"alpha={_up(2 * near):g}: ask for that, or for rows={most}"
        )

    @cached_property
    def route(self) -> Route | None:
        """The exact sampler of the class, or None."""
        return find_route(self.task.queries, base=self.mechanism.base, rows=self.task.rows)

    @cached_property
    def parts(self) -> sizing.Split:
        """A part of the price for the number of records, where that is private."""
        return sizing.split_for_shares(self.task, n=self.n)

    @property
    def size_price(self) -> Fraction:
        return self.parts.size

    def _foresee(self) -> Forecast:
        task, n = self.task, self.n
        epsilon = float(task.unit.selection_epsilon(self.parts.answers))
        question, route = self.draw_for(n=n, epsilon=epsilon)
        # the released size may lie its error below n, and the true one is only known to lie its error below that
        least = max(n - 2 * self.parts.size_error(task), 1.0)
        bound = error_bound(question, route, task, n=least, epsilon=epsilon)
        guarantee = self._guarantee(bound)
        return Forecast(
            self.mechanism.name,
            bound.alpha,
            typical_error(question, route, task, n=n, epsilon=epsilon),
            1.0 if route is None else route.seconds(question.m),
            self.megabytes,
            True,
            None,
            (f"{sampler_words(question)}, m={question.m}", *target_words(guarantee), EXPECTED_NOTE),
        )

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return ((DRAWING, 1.0),)

    def _run(self, curator: Gate, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, draw once, answer every query from the rows."""
        task = self.task
        size = sizing.released_size(curator, task, self.parts)
        epsilon = float(task.unit.selection_epsilon(self.parts.answers))
        question, route = self.draw_for(n=size.divisor, epsilon=epsilon)
        sample = draw(curator, question, price=self.parts.answers, progress=progress)
        database = fill(sample, task, rng)
        least = max(size.value - sizing.size_error(size, task.beta), 1.0)
        bound = error_bound(question, route, task, n=least, epsilon=float(sample.epsilon))
        guarantee = self._guarantee(bound)
        return Outcome(
            answers=database.answer_all(task.queries),
            database=database,
            size=size,
            guarantee=guarantee,
            parameters=draw_parameters(sample, size, bound),
            notes=target_words(guarantee),
            scored_draw=sample if shape.too_many(task.queries) else None,
        )

    def draw_for(self, *, n: int, epsilon: float) -> tuple[Draw, Route | None]:
        """What to draw for n records, from public or released numbers."""
        task, options, route = self.task, self.mechanism, self.route
        resolution = max(1, math.ceil(epsilon))
        if options.candidates is not None:
            listed = Candidates(task.queries, options.candidates)
            return Draw(listed, "flat", listed.m, resolution), None
        assert route is not None
        if options.alpha is not None:
            m, _ = _target_rows(options.alpha, route, n=n if sizing.size_is_public(task) else None)
            route = find_rows(task.queries, options.base, m)
        else:
            m = task.rows or self._rows(route, n=n, epsilon=epsilon)
        return Draw(route.structure, route.base, m, resolution), route

    def _rows(self, route: Route, *, n: int, epsilon: float) -> int:
        most = route.most_rows()
        if route.has_counter and self.mechanism.by == "expected":
            return min(max(1, math.ceil(ROWS_FACTOR * math.sqrt(epsilon * n))), most)
        return theory.best(
            route.facts,
            n=n,
            epsilon=epsilon,
            beta=self.task.beta,
            n_public=sizing.size_is_public(self.task),
            most_rows=most,
            log_range=route.log_mass,
        ).rows

    def _guarantee(self, bound: DrawBound) -> Guarantee:
        """B(m), and whether it is what was asked for."""
        alpha, beta = self.mechanism.alpha, self.task.beta
        if alpha is None:
            return Guarantee(bound.alpha, beta, bound.words)
        return Guarantee(bound.alpha, beta, bound.words, alpha, bound.records(alpha))


def _target_rows(alpha: float, route: Route, n: int | None = None) -> tuple[int, str]:
    """The theorem's own m: half of the error for the best database, half for the draw.

    A public n can only make it smaller (few records behave in few ways), so that what can be drawn without it can
    be drawn with it.
    """
    return theory.rows_for(route.facts, alpha=alpha / 2, n=n, only=theory.WITHOUT_ITSELF)


@dataclass(frozen=True, slots=True)
class SmallDb(Mechanism):
    """Draw y of m rows with probability proportional to base(y) exp(-epsilon err(x, y) / (2D)).

    Guarantee: the task's price, pure, by one exact draw of the exponential mechanism through the gate (and a noisy
        number of records under add/remove-one, for the choice of m and for the report).
    Accuracy: the proposition of section 4 of our specification with the exact mass of the base (`theory/smalldb.py`);
        what rounding the score adds is included. With `alpha` the guarantee says whether the proposition gives it.
    Holds when: the class has an exact sampler; see `smalldb_routes`.
    Cost: a few dozen counted levels; the time depends on the table and is outside the guarantee.
    """

    prepared_by = PreparedSmallDb
    name: str = "smalldb"
    base: Base | None = None
    """The base measure; None takes the default of the class."""
    alpha: float | None = None
    """A target error: m is then the smallest number of rows whose best database is within alpha / 2 of any table, by
    any of the existence bounds; whether the drawn one is guaranteed to be within alpha depends on n, and is stated."""
    candidates: dict[str, NDArray[Any]] | None = None
    """Public small databases to choose from, for any class: codes of shape (candidates, m) per attribute."""
    by: Literal["expected", "guaranteed"] = "expected"
    """Which error chooses m where neither rows nor alpha do: "guaranteed" takes the m with the smallest B(m)."""
    traits: Traits = Traits(chooses_few_rows=True)

    def __post_init__(self) -> None:
        if self.alpha is not None:
            _check.positive(alpha=self.alpha)
        _check.one_of(("expected", "guaranteed"), by=self.by)

    def to_dict(self) -> dict[str, Any]:
        """The options, for the digest of a request."""
        rows = self.candidates or {}
        listed = {name: np.asarray(codes, dtype=np.int64) for name, codes in sorted(rows.items())}
        digests = {
            n: [list(c.shape), hashlib.sha256(np.ascontiguousarray(c).tobytes()).hexdigest()]
            for n, c in listed.items()
        }
        plain = {"base": self.base, "alpha": self.alpha, "candidates": digests or None}
        return plain if self.by == "expected" else plain | {"by": self.by}


def draw(curator: Gate, question: Draw, *, price: Fraction, progress: Progress) -> DrawnDatabase[Draw]:
    """Ask the gate; how far it has come depends on the table, and is shown to the table's holder by the gate alone."""
    progress(DRAWING, 0.0)
    bound = curator.draw(question, price=price)
    progress(DRAWING, 1.0)
    return bound


def fill(sample: DrawnDatabase[Draw], task: Task, rng: np.random.Generator) -> SmallDatabase:
    """Rows of the attributes that the queries look at; nothing is drawn for the others. Post-processing."""
    codes, queries = sample.columns(rng), task.queries
    blank = np.zeros(sample.draw.m, np.uint8)  # of an attribute that is named and changes no query
    return SmallDatabase(
        {
            a.name: np.asarray(codes.get(a.name, blank)).astype(np.min_scalar_type(a.size - 1))
            for a in queries.domain
            if a.name in codes or a.name in queries.attributes
        }
    )


@dataclass(frozen=True, slots=True)
class DrawBound:
    """B(m) as it will be stated."""

    alpha: float
    words: str
    existence: float | None
    needs: Callable[[float], float] = field(default=lambda _: math.inf, repr=False)
    """The records at which B(m) would be an error."""

    def records(self, alpha: float) -> int | None:
        needed = self.needs(alpha)
        return math.ceil(needed) if math.isfinite(needed) else None


def error_bound(question: Draw, route: Route | None, task: Task, *, n: float, epsilon: float) -> DrawBound:
    """B(m) for the base that is drawn from, with what the rounding of the score adds."""
    if route is None:
        return DrawBound(
            1.0, "none for public candidates: how good the best of them is depends on the table", None
        )
    public = sizing.size_is_public(task)
    beta = task.beta if public else sizing.beta_for_answers(task.beta, Relation.ADD_REMOVE)
    span = route.facts.span
    mass, rounding = route.log_mass(question.m), span / question.resolution
    paid = epsilon * (1 - 1e-12)
    bound = theory.error(
        route.facts,
        rows=question.m,
        n=n,
        epsilon=paid,
        beta=beta,
        n_public=public,
        log_range=mass,
        rounding=rounding,
    )

    def needs(alpha: float) -> float:
        existence, _ = theory.nearest(route.facts, rows=question.m, only=theory.WITHOUT_ITSELF)
        return theory.records_at(
            existence=existence,
            log_range=mass,
            alpha=alpha,
            epsilon=paid,
            beta=beta,
            span=span,
            rounding=rounding,
        )

    return DrawBound(
        bound.alpha,
        f"SmallDB, B(m) at m={question.m}: existence {bound.existence:.3g} (form {bound.form}) + selection "
        f"{bound.selection:.3g} ({sampler_words(question)})",
        bound.existence,
        needs,
    )


def target_words(guarantee: Guarantee) -> tuple[str, ...]:
    """Whether the error that was asked for is guaranteed, in words; nothing where none was."""
    if guarantee.target is None:
        return ()
    if guarantee.alpha <= guarantee.target:
        return (f"alpha={guarantee.target:g} is guaranteed",)
    needed = guarantee.records_needed
    return (
        f"alpha={guarantee.target:g} is not guaranteed: B(m) is {guarantee.alpha:.3g}"
        + (", and no number of records is enough" if needed is None else f", {needed:,} records are enough")
        + "; SmallDb(by='guaranteed') chooses the m with the smallest B(m)",
    )


def typical_error(question: Draw, route: Route | None, task: Task, *, n: int, epsilon: float) -> float | None:
    """From simulation, and never above B(m) at one half, which bounds the median.

    About D factor / sqrt(epsilon n), the factor growing with the root of the number of blocks.
    """
    if route is None:
        return None
    scale = math.sqrt(epsilon * n)
    if route.has_counter:
        factor = sum(_factor(part, base) ** 2 for part, base in route.parts) ** 0.5 or TYPICAL_TRELLIS
        typical = factor / scale * max(ROWS_FACTOR * scale / question.m, 1.0)
    else:
        typical = 0.5 / question.m + 2 * (math.sqrt(route.log_mass(question.m)) + 1) / scale**2
    median = error_bound(question, route, replace(task, beta=0.5), n=n, epsilon=epsilon).alpha
    return min(1.0, route.facts.span * typical, median)


def _factor(part: Single, base: Base) -> float:
    """Means of 16 draws (intervals), 12 (a dyadic tree of 510 sets) and 4 (a chain of 20 bits)."""
    match part:
        case Thresholds():
            return TYPICAL[base]
        case Intervals():
            return 1.35 * TYPICAL[base]
        case Nested():
            return 1.7
        case Forest(edges=edges):
            return 0.9 * math.sqrt(len(edges))


def _up(value: float) -> float:
    """Three digits, never below."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return round(math.ceil(value / step * (1 - 1e-12)) * step, 12)


def sampler_words(question: Draw) -> str:
    return f"{question.structure.kind}, {question.base} base"


def draw_parameters(sample: DrawnDatabase[Draw], size: Size, bound: DrawBound) -> dict[str, Any]:
    question = sample.draw
    return {
        "sampler": question.structure.kind,
        "base": question.base,
        "sampling": "exact: whole numbers and random bits, no floating point between scores and draw",
        "m": question.m,
        "epsilon of the draw": str(sample.epsilon),
        "weight per level": str(sample.weight),
        "levels per count": question.resolution,
        "B(m)": bound.alpha,
        "size": "public" if size.public else "noisy",
    }


SMALLDB = SmallDb()
