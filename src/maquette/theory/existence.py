"""Every table has a good small database: eight ways to bound the error of the best one with m rows.

Each form is a bound alpha_m on min over y of max over q of |f_q(x) - f_q(y)|, y of m rows, for every table x.
All are valid at once, so the smallest counts. Fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from maquette import _check
from maquette.errors import ParameterError
from maquette.theory import vc as vc_bounds

Shape = Literal["thresholds", "intervals"]
LETTERS = "abcdefgh"
_ROUNDABLE = 2**60
"""Larger universes are not rounded: form b would need as many rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is publicly known about a class of queries, for the bounds of SmallDB."""

    universe: int
    """N = |X|, or the number of cells that the queries can tell apart (atoms)."""
    log_queries: float
    """ln k after duplicates and complements were merged; infinity for a class without end."""
    vc: int | None = None
    """The VC dimension, for counting queries."""
    shape: Shape | None = None
    """Prefixes or intervals of one ordered domain."""
    covers: tuple[tuple[float, float], ...] = ()
    """(r, ln N_r): a cover of the class by N_r queries within r of each in sup norm."""
    parts: tuple[Facts, ...] = ()
    """Classes on disjoint attributes that make up this one, each by itself."""
    span: float = 1.0
    """D: the largest difference max q - min q of one query's weights."""

    def __post_init__(self) -> None:
        _check.whole(universe=self.universe)
        _check.positive(span=self.span)
        if not self.log_queries >= 0:
            raise ParameterError(f"expected at least one query, log_queries >= 0, got {self.log_queries!r}")
        if self.span > 1:
            raise ParameterError(f"expected weights in [0, 1], so span <= 1, got span={self.span!r}")
        if self.vc is not None:
            _check.whole(least=0, vc=self.vc)
        if self.shape not in (None, "thresholds", "intervals"):
            raise ParameterError(f"expected shape thresholds or intervals, got shape={self.shape!r}")
        if not any(math.isfinite(given) for given in self._finite()):
            raise ParameterError("a class without end needs a VC dimension, a cover or a shape")

    def _finite(self) -> list[float]:
        covered = [log_size for _, log_size in self.covers]
        known = [0.0] if self.vc is not None or self.shape is not None or self.parts else []
        return [self.log_queries, *covered, *known]


@dataclass(frozen=True, slots=True)
class Form:
    """One way to bound alpha_m. `alpha` never rises in m."""

    letter: str
    name: str
    alpha: Callable[[int], float]
    single_valley: bool = True
    """alpha_m plus a multiple of ln|R_m| falls, then rises: proved for A/sqrt(m) and A/m (see `search.valley`)."""


def sampling(*, rows: int, log_queries: float) -> float:
    """Form a, sampling: sqrt(ln(2k) / (2m)).

    Accuracy: m rows of x drawn with replacement, Hoeffding and the union bound; the range is finite, so the
        infimum is attained and equality is fine.
    Holds when: k >= 1 queries with weights in [0, 1].
    """
    _check.whole(rows=rows)
    return math.sqrt((math.log(2) + log_queries) / (2 * rows))


def sampling_rows(*, alpha: float, log_queries: float) -> int:
    """The rows for which form a gives alpha: ceil(ln(2k) / (2 alpha^2))."""
    _check.positive(alpha=alpha)
    return math.ceil((math.log(2) + log_queries) / (2 * alpha**2))


def rounding(*, rows: int, universe: int) -> float:
    """Form b, largest-remainder rounding of m x / n: floor(N/2) ceil(N/2) / (N m) <= N/(4m).

    Accuracy: a bound on the total variation, so it holds for any number of queries. Infinity beyond the doubles.
    """
    _check.whole(rows=rows, universe=universe)
    try:
        return (universe // 2) * ((universe + 1) // 2) / (universe * rows)
    except OverflowError:
        return math.inf


def itself(*, rows: int, n: int) -> float:
    """Form c: 0 if m = n, where the table is its own small database. Holds when: n is public."""
    _check.whole(rows=rows, n=n)
    return 0.0 if rows == n else math.inf


def thresholds(*, rows: int) -> float:
    """Form f, prefixes of an ordered domain: 1/(2m), by the quantiles at (i - 1/2)/m.

    Holds when: the ordered cells may be followed by cells that no prefix counts, and other attributes are free.
    """
    _check.whole(rows=rows)
    return 1 / (2 * rows)


def intervals(*, rows: int) -> float:
    """Form f, intervals of an ordered domain: 1/m, the difference of two prefixes."""
    _check.whole(rows=rows)
    return 1 / rows


def cover(*, rows: int, radius: float, log_cover: float) -> float:
    """Form g, covers: 2r + sqrt(ln(2 N_r) / (2m)).

    Holds when: each query is within r, in sup norm over X, of one of N_r queries with weights in [0, 1].
    """
    return 2 * radius + sampling(rows=rows, log_queries=log_cover)


def forms(facts: Facts, *, n: int | None = None, only: str = LETTERS) -> list[Form]:
    """The forms that apply to a class, except c (which is about the single point m = n).

    `n` is the number of records where it is public and exact: the support of the table then has at most n cells.
    """
    every = [
        *_general(facts),
        *_by_vc(facts, n),
        *_by_shape(facts),
        *_by_cover(facts),
        *_by_parts(facts, n),
    ]
    return [form for form in every if form.letter in only]


def _general(facts: Facts) -> list[Form]:
    found: list[Form] = []
    if math.isfinite(facts.log_queries):
        found.append(Form("a", "sampling", lambda m: sampling(rows=m, log_queries=facts.log_queries)))
    if facts.universe < _ROUNDABLE:
        found.append(Form("b", "rounding", lambda m: rounding(rows=m, universe=facts.universe)))
    return found


def _by_vc(facts: Facts, n: int | None) -> list[Form]:
    if facts.vc is None:
        return []
    d, support = facts.vc, facts.universe if n is None else min(n, facts.universe)
    found = [Form("e", "VC dimension", lambda m: vc_bounds.free_error(rows=m, vc=d), single_valley=False)]
    if vc_bounds.log_growth(vc=d, points=support) < facts.log_queries:
        found.append(
            Form(
                "d",
                "VC dimension on the support",
                lambda m: vc_bounds.support_error(rows=m, vc=d, points=support),
            )
        )
    return found


def _by_shape(facts: Facts) -> list[Form]:
    if facts.shape is None:
        return []
    alpha = thresholds if facts.shape == "thresholds" else intervals
    return [Form("f", f"quantiles ({facts.shape})", lambda m: alpha(rows=m))]


def disjoint(*, rows: int, parts: Sequence[Sequence[Form]]) -> float:
    """Form h, classes on disjoint attributes: the largest over the classes of the least of their own forms.

    Accuracy: rows are put together from the best m rows of every class, in any order: no query looks at two of them.
    """
    return max(min(form.alpha(rows) for form in forms) for forms in parts)


def _by_parts(facts: Facts, n: int | None) -> list[Form]:
    """Any sum with it is searched: the largest of several valleys need not be one."""
    if not facts.parts:
        return []
    parts = [forms(part, n=n) for part in facts.parts]
    return [Form("h", "disjoint attributes", lambda m: disjoint(rows=m, parts=parts), single_valley=False)]


def _by_cover(facts: Facts) -> list[Form]:
    return [_cover_form(radius, log_cover) for radius, log_cover in facts.covers]


def _cover_form(radius: float, log_cover: float) -> Form:
    return Form("g", f"cover at {radius:g}", lambda m: cover(rows=m, radius=radius, log_cover=log_cover))
