"""Every table has a good small database: eight ways to bound the error of the best one with m rows.

Each form is a bound alpha_m on min over y of max over q of |f_q(x) - f_q(y)|, y of m rows, for every table x.
All are valid at once, so the smallest counts. Fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from maquette.core import _check
from maquette.domain import Relation
from maquette.errors import ParameterError, WorkloadError
from maquette.queries.base import Queries, log_distinct, union
from maquette.queries.dimension_interval import vc_at_most
from maquette.queries.marginals import Marginals
from maquette.queries.predicates import Boxes
from maquette.queries.ranges import Prefixes, Ranges
from maquette.theory import lower as vc_bounds

Shape = Literal["thresholds", "intervals"]
LETTERS = "abcdefgh"
MAX_ROUNDED_UNIVERSE = 2**60
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
        if not any(math.isfinite(size) for size in self._finite()):
            raise ParameterError("a class without end needs a VC dimension, a cover or a shape")

    def _finite(self) -> list[float]:
        covered = [log_size for _, log_size in self.covers]
        limits = [0.0] if self.vc is not None or self.shape is not None or self.parts else []
        return [self.log_queries, *covered, *limits]


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
        *(_cover_form(radius, log_cover) for radius, log_cover in facts.covers),
        *_by_parts(facts, n),
    ]
    return [form for form in every if form.letter in only]


def _general(facts: Facts) -> list[Form]:
    """Times D: a query with weights in [a, a + D] is a + D q, with q in [0, 1], and constants have no error."""
    d, log_queries, universe = facts.span, facts.log_queries, facts.universe
    forms_here: list[Form] = []
    if math.isfinite(log_queries):
        forms_here.append(Form("a", "sampling", lambda m: d * sampling(rows=m, log_queries=log_queries)))
    if universe < MAX_ROUNDED_UNIVERSE:
        forms_here.append(Form("b", "rounding", lambda m: d * rounding(rows=m, universe=universe)))
    return forms_here


def _by_vc(facts: Facts, n: int | None) -> list[Form]:
    if facts.vc is None:
        return []
    d, support = facts.vc, facts.universe if n is None else min(n, facts.universe)
    forms_here = [
        Form("e", "VC dimension", lambda m: vc_bounds.free_error(rows=m, vc=d), single_valley=False)
    ]
    if vc_bounds.log_growth(vc=d, points=support) < facts.log_queries:
        forms_here.append(
            Form(
                "d",
                "VC dimension on the support",
                lambda m: vc_bounds.support_error(rows=m, vc=d, points=support),
            )
        )
    return forms_here


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


def _cover_form(radius: float, log_cover: float) -> Form:
    return Form("g", f"cover at {radius:g}", lambda m: cover(rows=m, radius=radius, log_cover=log_cover))


# How many small databases there are, as logarithms: the range that SmallDB chooses from.
#
# With a base measure other than the uniform one, the number is 1 over the least mass of any one database.

_EXACT = 64
"""Binomial coefficients with a lower index up to this are taken as whole numbers."""


def log_multisets(*, universe: int, rows: int) -> float:
    """ln C(N+m-1, m): multisets of m rows over N cells, exact to a few units in the last place.

    The textbook lgamma(N+m) - lgamma(m+1) - lgamma(N) loses all digits at N = 2^64; here the difference of the two
    large terms is taken inside Stirling's series.
    """
    _check.whole(universe=universe)
    _check.whole(least=0, rows=rows)
    top = universe + rows - 1
    chosen = min(rows, universe - 1)  # C(top, m) = C(top, N-1); from here on top >= 2 chosen
    if chosen <= _EXACT:
        return math.log(math.comb(top, chosen))
    return _log_rising(top - chosen + 1, chosen) - math.lgamma(chosen + 1)


def log_sequences(*, universe: int, rows: int) -> float:
    """m ln N: sequences of m rows over N cells. More than multisets, so a worse certificate."""
    _check.whole(universe=universe)
    _check.whole(least=0, rows=rows)
    return rows * math.log(universe)


def log_tree(*, universe: int, rows: int) -> float:
    """ln(1 / least mass of a database of m rows) under the Polya tree base on N cells, by the evenest split.

    The base halves the cells again and again; a block with c rows gives a of them to its left half with probability
    C(2a, a) C(2c-2a, c-a) / 4^c. Exact for N a power of two, else an upper bound: that of the next power.

    Proof. With W_0 = 0 and g = W_h(a) - ln C(2a, a), the worst database has W_{h+1}(c) = c ln 4 + max over a of
    g(a) + g(c-a). ln C(2a, a) is convex, since its steps ln(4 - 2/(a+1)) rise; so g is concave if W_h is, the maximum
    is at the evenest split, and W_{h+1} is concave as a sup-convolution of concave sequences.
    """
    _check.whole(universe=universe)
    _check.whole(least=0, rows=rows)
    return _worst(rows, (universe - 1).bit_length(), {})


def _worst(rows: int, height: int, cache: dict[tuple[int, int], float]) -> float:
    """W_height(rows); only two numbers of rows occur at each height."""
    if rows == 0 or height == 0:
        return 0.0
    if rows == 1:
        return height * math.log(2)
    if (rows, height) not in cache:
        halves = (rows // 2, rows - rows // 2)
        below = sum(_worst(half, height - 1, cache) - _log_central(half) for half in halves)
        cache[rows, height] = rows * math.log(4) + below
    return cache[rows, height]


def _log_central(a: int) -> float:
    """ln C(2a, a)."""
    if a <= _EXACT:
        return math.log(math.comb(2 * a, a))
    return a * math.log(4) - math.log(math.pi * a) / 2 + _stirling(2.0 * a) - 2 * _stirling(float(a))


def _log_rising(start: int, steps: int) -> float:
    """ln(start (start+1) ... (start+steps-1)), for start > steps > 64."""
    if start > 2**900:  # beyond the doubles; the other factors differ by less than 2^-800
        return steps * math.log(start)
    end = float(start + steps)
    growth = (start - 0.5) * math.log1p(steps / start)
    return growth + steps * (math.log(end) - 1) + _stirling(end) - _stirling(float(start))


def _stirling(x: float) -> float:
    """What lgamma(x) has beyond (x - 1/2) ln x - x + ln(2 pi)/2; full double precision from x = 64 on."""
    square = 1 / (x * x)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / x


# What the bounds of SmallDB need to know about a class of queries, read off the class.


def facts_of(queries: Queries, *, vc: int | None = None) -> Facts:
    """Public facts of a class: the cells of the attributes it looks at, ln k after merging, its shape, its dimension.

    The VC dimension is that of `vc_at_most`; otherwise it may be given (see `vc_dimension`). Classes on disjoint
    attributes are described one by one as well.
    """
    span = float(queries.sensitivity(Relation.REPLACE_ONE).linf)
    if span == 0:
        raise WorkloadError("all queries are constant: their fractions are known without any table")
    return Facts(
        universe=queries.domain.cells(queries.attributes),
        log_queries=log_distinct(queries),
        vc=vc_at_most(queries) if vc is None else vc,
        shape=_shape(queries),
        span=min(1.0, span),
        parts=tuple(facts_of(part) for part in disjoint_parts(queries)),
    )


def disjoint_parts(queries: Queries) -> list[Queries]:
    """The classes on disjoint attributes that a class consists of, constant ones left out; none if it is one."""
    pieces = [piece for part in queries.classes for piece in _pieces(part)]
    groups = _connected(piece.attributes for piece in pieces)
    if len(groups) < 2:
        return []
    by_attributes = [[piece for piece in pieces if set(piece.attributes) <= names] for names in groups]
    parts = [group[0] if len(group) == 1 else union(*group) for group in by_attributes if group]
    return [part for part in parts if part.distinct()]


def _shape(queries: Queries) -> Shape | None:
    """Prefixes, or runs of the cells of one attribute: intervals, cells of a histogram."""
    if isinstance(queries, Prefixes):
        return "thresholds"
    match queries:
        case Ranges(over=(_,)) | Boxes(attributes=(_,)):
            return "intervals"
        case Marginals(domain=domain, margins=margins):
            names = {name for margin in margins for name in margin if domain[name].size > 1}
            return "intervals" if len(names) == 1 else None
        case _:
            return None


def _pieces(queries: Queries) -> list[Queries]:
    """Marginals one by one, so that they can be told apart; a class that looks at nothing is left out."""
    if isinstance(queries, Marginals):
        margins = [
            margin for margin in queries.margins if prod(queries.domain[name].size for name in margin) > 1
        ]
        return [Marginals(queries.domain, (margin,)) for margin in margins]
    return [queries] if queries.attributes else []


def _connected(margins: Iterable[tuple[str, ...]]) -> list[set[str]]:
    """Sets of attributes, no two of which are looked at together."""
    groups: list[set[str]] = []
    for margin in margins:
        near = [group for group in groups if group & set(margin)]
        groups = [group for group in groups if group not in near]
        groups.append(set(margin).union(*near))
    return groups
