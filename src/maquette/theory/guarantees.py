"""Every mechanism with a proved largest error, as one function of the public sizes; and what is known to be impossible.

A class without end on a finite universe is no special case: it has at most G(d, |X|) behaviours there (Sauer and
Shelah), so ln G takes the place of ln k; a class of real weights has a finite cover, and every query within r of a
covered one is off by 2r more. Errors are fractions of n and may exceed 1, where nothing is guaranteed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from maquette.core import _check, conversions
from maquette.domain import Relation
from maquette.theory import direct, draws, lower, multiplicative, online, smalldb
from maquette.theory.existence import LETTERS, Facts

Group = Literal[
    "SmallDB",
    "direct noise",
    "multiplicative weights",
    "online",
    "textbook SmallDB",
    "mean square error",
    "order of magnitude",
    "lower bound",
]
MAX_LOG_HISTOGRAM = 40.0
"""ln |X| beyond which nobody holds a histogram, and ln k beyond which nobody lists answers."""
_MAX_ROUNDS = 10**6
_MAX_LOG_QUESTIONS = 1e6
"""ln k beyond which nothing is computed for questions that come one at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The public numbers that all bounds are computed from."""

    facts: Facts
    n: int
    epsilon: float
    delta: float = 0.0
    beta: float = 0.05
    relation: Relation = Relation.REPLACE_ONE
    fat: tuple[int, Fraction] | None = None
    """(F, gamma): the fat-shattering dimension of a class of real weights, for the lower bound."""

    def __post_init__(self) -> None:
        _check.whole(n=self.n)
        _check.positive(epsilon=self.epsilon)
        _check.fraction(beta=self.beta)
        _check.fraction_or_zero(delta=self.delta)

    @property
    def n_public(self) -> bool:
        return self.relation is Relation.REPLACE_ONE

    @property
    def log_universe(self) -> float:
        return math.log(self.facts.universe)

    @property
    def log_queries(self) -> float:
        """ln k, or the logarithm of the behaviours that the VC dimension leaves on |X| cells if that is less."""
        if self.facts.vc is None:
            return self.facts.log_queries
        return min(self.facts.log_queries, _log_behaviours(self.facts.vc, self.facts.universe))

    @property
    def classes(self) -> list[tuple[float, float, float]]:
        """(ln k, D, what is added to the error) of the finite classes that stand for this one."""
        whole = [(self.log_queries, self.facts.span, 0.0)] if math.isfinite(self.log_queries) else []
        return whole + [(log_size, 1.0, 2 * radius) for radius, log_size in self.facts.covers]


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The largest error of a mechanism over all queries."""

    name: str
    title: str
    group: Group
    remark: str
    error: Callable[[Setting], float]
    """Infinite where the mechanism does not apply."""


def applicable(setting: Setting) -> list[tuple[Guarantee, float]]:
    """The mechanisms that apply to a setting, each with its error."""
    errors = ((one, one.error(setting)) for one in GUARANTEES)
    return [(one, error) for one, error in errors if error < math.inf]


def guarantee(name: str) -> Guarantee:
    """A mechanism by its name."""
    return next(one for one in GUARANTEES if one.name == name)


def knorm(*, n: float, epsilon: float, log_universe: float, log_queries: float, beta: float) -> float:
    """Largest error of the K-norm mechanism for whichever queries: the Gamma(r) quantile, r = min(k, |X| - 1).

    Accuracy: the norm of the noise is Gamma(r, 1/epsilon) exactly, r the dimension of the span of K (Hardt and Talwar
        2010); K lies in the cube, so no answer is off by more than the norm.
    Holds when: replace-one, n public: K is the hull of differences of columns, of at most |X| - 1 dimensions.
    """
    _check.positive(n=n, epsilon=epsilon)
    dimension = math.exp(min(log_queries, log_universe + math.log1p(-math.exp(-log_universe))))
    return draws.cube_continuous(epsilon=epsilon, queries=max(1.0, dimension), beta=beta) / n


def hardt_talwar(*, n: float, epsilon: float, log_universe: float, log_queries: float) -> float:
    """The error of one query that is best possible for random ones, as an order of magnitude without its constant.

    Accuracy: min(k, sqrt(k ln(|X|/k))) / (epsilon n) for k <= |X| (Hardt and Talwar 2010, from the literature): no
        guarantee, and no lower bound for a given class.
    """
    _check.positive(n=n, epsilon=epsilon)
    if log_queries > log_universe:
        return math.inf
    spread = max(1.0, log_universe - log_queries)
    return math.exp(min(log_queries, (log_queries + math.log(spread)) / 2)) / (epsilon * n)


def hardt_talwar_crossing(*, n: float) -> float:
    """The number of queries from which on SmallDB's n^(2/3) is a better rate than Hardt and Talwar's sqrt(k): n^(4/3).

    Accuracy: orders of magnitude alone, logarithms left out, as in Roth (2010), who prints the second rate as
        sqrt(k) log(n/k) with n for |X|; `hardt_talwar` has the published sqrt(k ln(|X|/k)).
    """
    _check.positive(n=n)
    return n ** (4 / 3)


def composed_laplace(*, n: float, epsilon: float, delta: float, log_queries: float, beta: float) -> float:
    """Laplace noise on k queries, each at the epsilon_0 that advanced composition leaves.

    Accuracy: the exact quantile of the largest of k draws of scale 1/epsilon_0 (Dwork, Rothblum and Vadhan 2010).
    Holds when: delta > 0; k queries of sensitivity 1.
    """
    step = float(
        conversions.advanced_step(epsilon=epsilon, k=round(math.exp(log_queries)), delta=delta),
    )
    return draws.laplace_exact(scale=1 / step, log_queries=log_queries, beta=beta) / n


def tree(*, n: float, epsilon: float, cells: int, intervals: bool, beta: float) -> float:
    """Largest error of all prefixes (or intervals) from one noisy tree, at the best number of branches.

    Accuracy: `direct.tree_laplace` at scale 2 L / epsilon for L levels; an interval is a difference of two prefixes.
    Holds when: replace-one, n public, an ordered domain.
    """
    _check.whole(cells=cells)
    if cells < 2:
        return 0.0
    errors: list[float] = []
    for branches in range(2, 17):
        levels = max(1, math.ceil(math.log(cells) / math.log(branches) - 1e-9))
        nodes = direct.tree_nodes(levels=levels, branches=branches, total_is_public=True)
        log_queries = math.log(cells - 1)
        scale = 2 * levels / epsilon
        errors.append(direct.tree_laplace(scale=scale, nodes=nodes, log_queries=log_queries, beta=beta))
    return min(errors) * (2 if intervals else 1) / n


@lru_cache(maxsize=256)
def _log_behaviours(vc: int, universe: int) -> float:
    return lower.log_growth(vc=vc, points=universe)


@lru_cache(maxsize=1024)
def rho_of(epsilon: float, delta: float) -> float:
    """The rho of zCDP that (epsilon, delta) pays for (Canonne, Kamath and Steinke 2020)."""
    return float(conversions.rho_cks(epsilon=epsilon, delta=delta))


def useful_forms(setting: Setting) -> str:
    """Letters of the existence forms that can be the best one.

    Form c needs n public. Form e is never below form a from d + 1 rows on if (2 G(d, d + 1))^4 >= 2k, and with fewer
    rows it states more than 1: then its long search is not worth while.
    """
    letters = LETTERS if setting.n_public else LETTERS.replace("c", "")
    d, log_queries = setting.facts.vc, setting.facts.log_queries
    if d is not None and 4 * ((d + 2) * math.log(2) - 1) >= math.log(2) + log_queries:
        return letters.replace("e", "")
    return letters


def best_smalldb(
    setting: Setting,
    *,
    epsilon: float | None = None,
    only: str | None = None,
    base: smalldb.Base = "multisets",
) -> smalldb.Bound:
    """SmallDB at its best number of rows."""
    return smalldb.best(
        setting.facts,
        n=setting.n,
        epsilon=setting.epsilon if epsilon is None else epsilon,
        beta=setting.beta,
        n_public=setting.n_public,
        base=base,
        only=useful_forms(setting) if only is None else only,
    )


def _over_classes(setting: Setting, error: Callable[[float], float], *, most: float = math.inf) -> float:
    """The least over the finite classes that stand for this one, among those that can be listed.

    Accuracy: `error` is that of queries with weights in [0, 1]. Weights in [a, a + D] are a + D q with such a q, so
        that the answers to q, times D and shifted, are off by D times as much.
    """
    options = (d * error(size) + more for size, d, more in setting.classes if size < most)
    return min(options, default=math.inf)


def _noise(kind: Callable[..., float], **more: float) -> Callable[[Setting], float]:
    """Noise on each of k answers."""

    def error(s: Setting) -> float:
        terms = {"n": s.n, "epsilon": s.epsilon, "beta": s.beta} | more
        return _over_classes(s, lambda k: kind(log_queries=k, **terms), most=MAX_LOG_HISTOGRAM)

    return error


def _with_delta(kind: Callable[..., float]) -> Callable[[Setting], float]:
    return lambda s: _noise(kind, delta=s.delta)(s) if s.delta else math.inf


def _histogram(s: Setting) -> float:
    if s.log_universe >= MAX_LOG_HISTOGRAM:
        return math.inf
    universe = float(s.facts.universe)
    return _over_classes(
        s,
        lambda k: direct.histogram_laplace(
            n=s.n, epsilon=s.epsilon, universe=universe, log_queries=k, beta=s.beta
        ),
    )


def _gaussian_histogram(s: Setting) -> float:
    if s.log_universe >= MAX_LOG_HISTOGRAM or not s.delta:
        return math.inf
    terms = {"n": s.n, "epsilon": s.epsilon, "delta": s.delta, "beta": s.beta}
    universe = float(s.facts.universe)
    return _over_classes(s, lambda k: direct.histogram_gaussian(universe=universe, log_queries=k, **terms))


def _knorm(s: Setting) -> float:
    if min(s.log_universe, s.log_queries) >= MAX_LOG_HISTOGRAM:
        return math.inf
    terms = {"n": s.n, "epsilon": s.epsilon, "log_universe": s.log_universe, "beta": s.beta}
    return _over_classes(s, lambda k: knorm(log_queries=k, **terms))


def _tree(s: Setting) -> float:
    if s.facts.shape is None:
        return math.inf
    intervals = s.facts.shape == "intervals"
    return tree(n=s.n, epsilon=s.epsilon, cells=s.facts.universe, intervals=intervals, beta=s.beta)


def _mw(s: Setting) -> float:
    terms = {"n": s.n, "log_universe": s.log_universe, "beta": s.beta}

    def at(k: float) -> float:
        pure = multiplicative.best_rounds(
            lambda t: multiplicative.mw_pure(epsilon=s.epsilon, log_queries=k, rounds=t, **terms),
            most=_MAX_ROUNDS,
        ).error
        if not s.delta:
            return pure
        rho = rho_of(s.epsilon, s.delta)
        concentrated = multiplicative.best_rounds(
            lambda t: multiplicative.mw_zcdp(rho=rho, log_queries=k, rounds=t, **terms), most=_MAX_ROUNDS
        ).error
        return min(pure, concentrated)

    return _over_classes(s, at)


def _mwem(s: Setting) -> float:
    terms = {"n": s.n, "log_universe": s.log_universe, "beta": s.beta}

    def at(k: float) -> float:
        def best(error: Callable[[float, int], float]) -> float:
            return min(
                multiplicative.best_rounds(lambda t, f=share: error(f, t), most=_MAX_ROUNDS).error
                for share in (0.5, 0.6, 0.7, 0.8)
            )

        pure = best(
            lambda share, t: multiplicative.mwem_pure(
                epsilon=s.epsilon, share=share, log_queries=k, rounds=t, **terms
            )
        )
        if not s.delta:
            return pure
        rho = rho_of(s.epsilon, s.delta)
        return min(
            pure,
            best(
                lambda share, t: multiplicative.mwem_zcdp(
                    rho=rho, share=share, log_queries=k, rounds=t, **terms
                )
            ),
        )

    return _over_classes(s, at)


def _whole_number(log_queries: float) -> int:
    """k from its logarithm, as a whole number of any length, rounded up a little."""
    if log_queries < 30:
        return max(1, round(math.exp(log_queries)))
    exponent = log_queries / math.log(2)
    return (math.floor(2 ** (exponent % 1 + 52)) + 1) << max(0, math.floor(exponent) - 52)


def _price(s: Setting) -> list[tuple[str, float]]:
    pure = [("epsilon", s.epsilon)]
    return [*pure, ("rho", rho_of(s.epsilon, s.delta))] if s.delta else pure


def _pmw(s: Setting) -> float:
    def at(k: float) -> float:
        terms = {"n": s.n, "log_universe": s.log_universe, "k": _whole_number(k), "beta": s.beta}
        return min(online.pmw(unit=unit, price=price, **terms).error for unit, price in _price(s))

    return _over_classes(s, at, most=_MAX_LOG_QUESTIONS)


def _median(s: Setting) -> float:
    def at(k: float) -> float:
        terms = {"n": s.n, "universe": s.facts.universe, "k": _whole_number(k), "beta": s.beta}
        return min(online.median(unit=unit, price=price, **terms).run.error for unit, price in _price(s))

    return _over_classes(s, at, most=_MAX_LOG_QUESTIONS)


GUARANTEES = (
    Guarantee("smalldb", "SmallDB", "SmallDB", "best of all forms", lambda s: best_smalldb(s).alpha),
    Guarantee(
        "laplace",
        "Laplace per query",
        "direct noise",
        "Laplace noise, scale k/epsilon",
        _noise(direct.laplace),
    ),
    Guarantee(
        "linf", "L-infinity noise", "direct noise", "K-norm noise of the cube, Gamma(k)", _noise(direct.linf)
    ),
    Guarantee("k-norm", "K-norm noise", "direct noise", "any queries, Gamma(min(k, |X| - 1))", _knorm),
    Guarantee("histogram-laplace", "Laplace histogram", "direct noise", "one noisy histogram", _histogram),
    Guarantee("tree", "Noisy tree", "direct noise", "a tree over an ordered domain, least squares", _tree),
    Guarantee(
        "advanced-composition",
        "Laplace, advanced composition",
        "direct noise",
        "Laplace noise, epsilon_0 per query",
        _with_delta(composed_laplace),
    ),
    Guarantee(
        "gaussian",
        "Gaussian per query",
        "direct noise",
        "continuous Gaussian noise",
        _with_delta(direct.gaussian_one_shot),
    ),
    Guarantee(
        "histogram-gaussian", "Gaussian histogram", "direct noise", "one noisy histogram", _gaussian_histogram
    ),
    Guarantee(
        "mw", "Multiplicative weights", "multiplicative weights", "offline, signed selection, best T", _mw
    ),
    Guarantee("mwem", "MWEM", "multiplicative weights", "offline, selection and measurement, best T", _mwem),
    Guarantee("pmw", "PMW", "online", "questions one at a time, best c", _pmw),
    Guarantee("median", "Median mechanism", "online", "questions one at a time, best m", _median),
    Guarantee(
        "roth",
        "Roth, as published",
        "SmallDB",
        "weighted tables, published exponent 1/4; ours is 1/2",
        lambda s: best_smalldb(s, epsilon=s.epsilon / 2).alpha,
    ),
)
"""In the order in which they are listed."""


def floor_of(setting: Setting) -> tuple[float, str] | None:
    """What no epsilon-private mechanism can beat on this class, and from which dimension; None if nothing is known.

    Accuracy: Roth 2010, Theorem 2, corrected (`lower.counts`). Pure epsilon only.
    """
    if setting.delta:
        return None
    windows: list[tuple[lower.Window, str]] = []
    if setting.facts.vc is not None:
        windows.append((lower.from_vc(setting.facts.vc), f"VC dimension {setting.facts.vc}"))
    if setting.fat is not None:
        dimension, gamma = setting.fat
        window = lower.from_fat_shattering(dimension, gamma)
        windows.append((window, f"fat-shattering dimension {dimension} at {gamma}"))
    known = [(w, said) for w, said in windows if 2 * setting.n >= w.points]
    if not known:
        return None
    terms = {"epsilon": setting.epsilon, "beta": setting.beta, "relation": setting.relation}
    return max((lower.fraction(w, n=setting.n, **terms), said) for w, said in known)


def with_queries(setting: Setting, log_queries: float) -> Setting:
    """The same setting with another number of queries."""
    return replace(setting, facts=replace(setting.facts, log_queries=log_queries))
