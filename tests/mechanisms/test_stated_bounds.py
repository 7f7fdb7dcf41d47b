"""Every bound that a release states is the proved one, computed a second time; half of it would be noticed.

Each case makes a whole release through the gate and computes, from the specification and from what was paid for each
question, what may be stated about it (`support/proved_bounds.py`). The same check must refuse half of the statement,
and refuse a mechanism into which a halved statement was planted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import gamma, norm

import maquette as mq
from maquette.core.answers import GRID
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms.base import MECHANISMS
from maquette.mechanisms.factorisation import factor
from maquette.mechanisms.knorm import Plan, plan_for
from maquette.mechanisms.product import factored
from maquette.mechanisms.weights import MultiplicativeWeights, Mwem
from maquette.queries import marginals, prefixes, weights
from maquette.queries.base import Queries
from support import proved_bounds as proved

pytestmark = pytest.mark.accuracy

BETA = 0.2
N = 5000
DOMAIN = Domain(
    (
        Attribute("a", Kind.CATEGORICAL, codes=3),
        Attribute("b", Kind.CATEGORICAL, codes=4),
        Attribute("c", Kind.CATEGORICAL, codes=3),
        Attribute("age", Kind.ORDINAL, codes=40),
        Attribute("w", Kind.ORDINAL, categories=(1,)),
    )
)
TABLES = marginals(DOMAIN, attributes=[("a", "b"), ("b", "c")])
"""Two tables of twelve cells: no query is constant, twice there, or another's complement."""
AGES = prefixes(DOMAIN, "age")
NARROW = weights(DOMAIN, [[0.5, 0.75, 0.5, 0.625], [0.25, 0.25, 0.5, 0.375]], attributes=["b"])


@dataclass(frozen=True)
class Made:
    """A release and what the check may know of it: its request, what was paid, and the released size."""

    release: mq.Release
    queries: Queries
    unit: str

    @property
    def public(self) -> bool:
        return self.release.relation is Relation.REPLACE_ONE

    def paid(self, *asked: str) -> float:
        return math.fsum(s.amount for s in self.release.spending if s.asked in asked)

    @property
    def beta(self) -> float:
        """What is left of it for the answers."""
        return BETA if self.release.size.public else (1 - proved.SIZE_PART) * BETA

    @property
    def off(self) -> int:
        """How far the released size may be off."""
        return 0 if self.release.size.public else proved.size_off(self.paid("size", "total"), self.unit, BETA)

    @property
    def matrix(self) -> np.ndarray:
        """Every query (down) on every cell of its attributes (across)."""
        shape = [DOMAIN[name].size for name in self.queries.attributes]
        cells = np.unravel_index(np.arange(math.prod(shape)), shape)
        return np.array(self.queries.columns_of(dict(zip(self.queries.attributes, cells, strict=True))))

    def moved(self, power: int) -> float:
        """The L1 or squared L2 sensitivity, over all pairs of cells."""
        columns = self.matrix.T.astype(float)
        if not self.public:
            return float((columns**power).sum(axis=1).max())
        return max(float((np.abs(columns - one) ** power).sum(axis=1).max()) for one in columns)

    def shift(self, measured: np.ndarray) -> float:
        """How far post-processing moved any answer from what was measured, both as fractions."""
        kept = np.clip(measured / max(self.release.size.value, 1), 0, 1)
        return float(np.abs(self.release.answers.fractions - kept).max())

    def of_size(self, counts: float) -> float:
        return counts / max(self.release.size.value, 1)


def of_shares(made: Made, gap: Callable[[float], float]) -> float:
    """Fieller: how far a share p can lie from a released one where |released - p| n <= gap(p), over all answers."""
    n, worst = made.release.size.value, 0.0
    for share in made.release.answers.fractions:
        upper = brentq(lambda p, s=share: (p - s) * n - gap(p), share, share + 2 * gap(1.0) / n)
        lower = 0.0
        if share * n > gap(0.0):
            lower = brentq(lambda p, s=share: (s - p) * n - gap(p), 0.0, share)
        worst = max(worst, min(upper, 1.0) - share, share - lower)
    return worst


def by_laplace(made: Made) -> float:
    scale = made.moved(1) / made.paid("measure")
    law = proved.laplace_law(scale)
    if not made.public:
        size, each = 1 / made.paid("size"), BETA / made.queries.count

        def gap(share: float) -> float:
            """The tail of the sum of two Laplace draws, each side of every answer counted."""
            a, b = scale, share * size
            if not b:
                return a * math.log(1 / each)
            return brentq(
                lambda t: (a**2 * math.exp(-t / a) - b**2 * math.exp(-t / b)) / (a**2 - b**2) - each,
                0,
                100 * (a + b),
            )

        return of_shares(made, gap)
    return made.of_size(proved.largest(law, made.queries.count, made.beta) + made.off)


def by_cube(made: Made) -> float:
    law = proved.cube_law(made.paid("measure"), made.queries.count)
    return made.of_size(proved.largest(law, 1, made.beta) + made.off)


def by_gaussian(made: Made) -> float:
    deviation = math.sqrt(made.moved(2) / (2 * made.paid("measure")))
    law = proved.gaussian_law(deviation)
    if not made.public:
        size = math.sqrt(1 / (2 * made.paid("size")))
        z = norm.isf(BETA / (2 * made.queries.count))
        return of_shares(made, lambda share: z * math.hypot(deviation, share * size))
    return made.of_size(proved.largest(law, made.queries.count, made.beta) + made.off)


def centred(made: Made) -> np.ndarray:
    """The coefficients of every cell's noise in every answer, the total being set to the size: q_i - S_q/N."""
    return made.matrix - made.matrix.mean(axis=1, keepdims=True)


def by_histogram_laplace(made: Made) -> float:
    scale = (2 if made.public else 1) / made.paid("measure")
    rows = np.unique(np.sort(centred(made), axis=1), axis=0)
    level = max(proved.chernoff(row, scale, made.queries.count, made.beta) for row in rows)
    return made.of_size(level + made.off) + made.shift(made.matrix @ made.release.model.cells.ravel())


def by_histogram_gaussian(made: Made) -> float:
    variance = (2 if made.public else 1) / (2 * made.paid("measure"))
    variances = variance * (centred(made) ** 2).sum(axis=1)
    level = proved.gaussians(variances, made.beta)
    return made.of_size(level + made.off) + made.shift(made.matrix @ made.release.model.cells.ravel())


def by_residuals(made: Made) -> float:
    """From the deviations of the answers, which are compared with simulations elsewhere.

    Where the size is private it is one of the residuals, and its law is released with it.
    """
    release, noise, off = made.release, made.release.size.noise, 0
    deviations = release.deviations.astype(float) * release.size.divisor
    if noise is not None:
        law = proved.gaussian_law(math.sqrt(noise.sigma_squared))
        off = proved.largest(law, 1, proved.SIZE_PART * BETA)
    tables = [release.model.table(margin).ravel() for margin in made.queries.margins]
    return made.of_size(proved.gaussians(deviations**2, made.beta) + off) + made.shift(np.concatenate(tables))


def by_tree(made: Made) -> float:
    """Two levels of 16 branches over 40 cells; every prefix is a sum of nodes, none with a weight above 1."""
    levels, branches = 2, 16
    scale = levels * (2 if made.public else 1) / made.paid("tables")
    nodes = proved.tree_nodes(levels, branches, total_is_public=made.public)
    return made.of_size(proved.chernoff(np.ones(nodes), scale, 40, made.beta) + 2 * made.off)


def by_square_root(made: Made) -> float:
    """Coefficients of the power series of (1 - z)^(-1/2); prefixes and the total brought together by least squares."""
    cells = made.queries.count
    series = [math.comb(2 * k, k) / 4**k for k in range(cells)]
    root = np.array([[series[i - j] if i >= j else 0.0 for j in range(cells)] for i in range(cells)])
    moves = [root.T[j] - root.T[i] for i in range(cells) for j in range(cells)] if made.public else root.T
    variance = max(float(move @ move) for move in moves) / (2 * made.paid("measure"))
    of_size = 0.0 if made.public else 1 / (2 * made.paid("size"))
    covariance = (
        variance
        * np.tril(np.ones((cells, cells)))
        @ np.linalg.inv(root.T @ root)
        @ np.triu(np.ones((cells, cells)))
    )
    together = covariance[:, -1]
    fitted = covariance - np.outer(together, together) / (together[-1] + of_size)
    beyond = np.diag(fitted) - 2 * fitted[:, -1] + fitted[-1, -1]
    largest = math.sqrt(max(*np.diag(fitted), *beyond))
    level = largest * math.sqrt(2 * math.log(2 * 2 * cells / BETA))
    return level / made.release.parameters["total"]


def by_factors(made: Made) -> float:
    """The rows of W times the pseudo-inverse of the strategy, each subgaussian; a union over the queries."""
    used = factor(made.queries, pure=False).strategy
    strategy = used.numerators / used.grid
    columns = strategy.T
    moves = [one - other for one in columns for other in columns] if made.public else columns
    variance = max(float(move @ move) for move in moves) / (2 * made.paid("measure"))
    norms = np.linalg.norm(made.matrix @ np.linalg.pinv(strategy), axis=1)
    level = math.sqrt(variance) * norms.max() * math.sqrt(2 * math.log(2 * made.queries.count / made.beta))
    return made.of_size(level + made.off)


def by_product(made: Made) -> float:
    """The rows of W times the pseudo-inverse of the strategy on all cells, each subgaussian; the sum of their tails."""
    used = factored(made.queries).strategy
    strategy = used.numerators / used.grid
    columns = strategy.T
    moves = [one - other for one in columns for other in columns] if made.public else columns
    variance = max(float(move @ move) for move in moves) / (2 * made.paid("measure"))
    norms = np.linalg.norm(made.matrix @ np.linalg.pinv(strategy), axis=1)

    def tails(x: float) -> float:
        return float((2 * np.exp(-((x / norms) ** 2) / (2 * variance))).sum()) - made.beta

    return made.of_size(brentq(tails, 1e-3, 1e5) + made.off)


def by_norm(made: Made) -> float:
    """P(R M > x) by the simulated M, R ~ Gamma(k + 1), and what 20,000 of them leave open; continuous noise."""
    plan = plan_for(made.queries, made.release.relation)
    assert isinstance(plan, Plan)
    epsilon, k = made.paid("measure"), len(plan.body.box)
    largest = max(float(np.abs(row) @ plan.body.box) for row in plan.reconstruction) / 2**20
    margin = math.sqrt(math.log(1e6 / made.beta) / (2 * len(plan.reach)))

    def chance(x: float) -> float:
        beyond = gamma.sf(epsilon * x / plan.reach, k + 1).mean()
        return float(beyond + margin * gamma.sf(epsilon * x / largest, k + 1)) - made.beta

    return made.of_size(brentq(chance, 1e-3, 1e4) + made.off)


def by_draw(made: Made) -> float:
    """Thresholds of 40 cells under the tree base; a table of n - off records is surely there."""
    m = made.release.parameters["m"]
    least = made.release.size.value - made.off - (1 if made.release.mechanism == "roth" else 0)
    return proved.small_database(
        existence=1 / (2 * m),
        mass=proved.least_tree_mass(64, m),  # a tree over 40 cells is no deeper than one over 64
        span=1.0,
        epsilon=made.paid("draw"),
        n=least,
        beta=made.beta,
    )


def by_narrow_draw(made: Made) -> float:
    """Two queries on four cells that no record moves by more than a quarter: all multisets are listed."""
    m, atoms = made.release.parameters["m"], 4
    existence = 0.25 * min(math.sqrt(math.log(4) / (2 * m)), 4 / (4 * m))
    return proved.small_database(
        existence=existence,
        mass=math.log(math.comb(atoms + m - 1, m)),
        span=0.25,
        epsilon=made.paid("draw"),
        n=made.release.size.value - made.off,
        beta=made.beta,
    )


def by_weights(made: Made) -> float:
    asked = {
        "n": made.release.size.value - made.off,
        "universe": 36,
        "k": made.queries.count,
        "rounds": made.release.parameters["rounds"],
        "beta": made.beta,
    }
    if made.unit == "epsilon":
        return proved.weights_pure(epsilon=made.paid("select", "select signed"), **asked)
    return proved.weights_concentrated(rho=made.paid("select", "select signed"), **asked)


def by_measured_weights(made: Made) -> float:
    """MWEM: in advance, or by the smallest gap that was measured, whichever is less."""
    rounds, k, n = made.release.parameters["rounds"], made.queries.count, made.release.size.value - made.off
    chosen, measured = made.paid("select", "select signed"), made.paid("measure")
    failing = 2 * k * rounds / made.beta
    if made.unit == "epsilon":
        lost = 2 * rounds / chosen * math.log(failing) + 1
        width = proved.largest(proved.laplace_law(rounds / measured), rounds, made.beta / 2)
    else:
        lost = math.sqrt(rounds / (2 * chosen)) * math.log(failing) + 1
        law = proved.gaussian_law(math.sqrt(rounds / (2 * measured)))
        width = proved.largest(law, rounds, made.beta / 2)
    advance = math.sqrt(math.log(36) / (2 * rounds)) + (lost + 2 * (width + made.off)) / n
    facts = made.release.parameters
    seen = facts["smallest measured gap and its width"] + facts["moved by the fit"] + lost / n
    return min(advance, seen)


@dataclass(frozen=True)
class Case:
    mechanism: str
    queries: Queries
    bound: Callable[[Made], float]
    epsilon: float = 1.0
    delta: float = 0.0
    options: tuple[tuple[str, Any], ...] = ()
    using: Any = None
    """The mechanism with options of its own; None takes the registered one."""
    slack: float = 0.01
    """How much more than the proved bound may be stated: for grids, searches and bounds by the continuous law."""

    @property
    def name(self) -> str:
        return f"{self.mechanism}{'-delta' if self.delta else ''}-{self.queries.kind}"


DELTA = 1e-5
PLAIN = (("post", "none"),)
CASES = [
    Case("laplace", TABLES, by_laplace, options=PLAIN),
    Case("linf", TABLES, by_cube, options=PLAIN),
    Case("gaussian", TABLES, by_gaussian, delta=DELTA, options=PLAIN),
    Case("histogram-laplace", TABLES, by_histogram_laplace),
    Case("histogram-gaussian", TABLES, by_histogram_gaussian, delta=DELTA),
    Case("residual", TABLES, by_residuals, delta=DELTA, options=PLAIN),
    Case("residual-cells", TABLES, by_residuals, delta=DELTA),
    Case("sculpt", TABLES, by_residuals, epsilon=3.0, delta=DELTA, options=(("rows", 500),)),
    Case("tree", AGES, by_tree, epsilon=4.0, slack=0.02),
    Case("square-root", AGES, by_square_root, delta=DELTA, slack=0.02),
    Case("factorisation", AGES, by_factors, delta=DELTA, options=PLAIN, slack=0.001),
    Case("product", TABLES, by_product, delta=DELTA, options=PLAIN, slack=0.001),
    Case("knorm", NARROW, by_norm, options=PLAIN, slack=0.01),
    Case("smalldb", AGES, by_draw, options=(("rows", 2),)),
    Case("smalldb", NARROW, by_narrow_draw, options=(("rows", 6),)),
    Case("roth", AGES, by_draw, options=(("rows", 2), ("weight", "w"))),
    Case("mw", TABLES, by_weights, epsilon=8.0, using=MultiplicativeWeights(fixed=9)),
    Case("mw", TABLES, by_weights, delta=DELTA, using=MultiplicativeWeights(fixed=9)),
    Case("mwem", TABLES, by_measured_weights, epsilon=4.0, using=Mwem(fixed=7), slack=0.05),
    Case("mwem", TABLES, by_measured_weights, delta=DELTA, using=Mwem(fixed=7), slack=0.05),
]


def columns() -> dict[str, list[Any]]:
    rng = np.random.default_rng(4)
    return {a.name: [1] * N if a.name == "w" else rng.integers(0, a.cells, N).tolist() for a in DOMAIN}


COLUMNS = columns()


def made_by(case: Case, relation: str, *, halved: bool = False) -> Made:
    mechanism = case.using or MECHANISMS[case.mechanism]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MECHANISMS, case.mechanism, Halved(mechanism) if halved else mechanism)
        return _made(case, relation)


def _made(case: Case, relation: str) -> Made:
    release = mq.release(
        mq.open(COLUMNS, domain=DOMAIN),  # a ledger of its own
        case.queries,
        epsilon=case.epsilon,
        delta=case.delta,
        accounting="zcdp" if case.delta else None,
        relation=relation,
        mechanism=case.mechanism,
        beta=BETA,
        certificate=0.0,
        ledger="memory",
        **dict(case.options),
    )
    return Made(release, case.queries, "rho" if case.delta else "epsilon")


def is_proved(stated: float, bound: float, slack: float) -> bool:
    """Not below what is proved (but for rounding), and not far above."""
    return bound * (1 - 1e-6) <= stated <= bound * (1 + slack) + 4 / GRID


def test_every_mechanism_that_states_a_bound_is_here():
    assert {case.mechanism for case in CASES} == set(MECHANISMS)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_stated_bound_is_the_proved_one_and_half_of_it_is_not(case, relation):
    made = made_by(case, relation)
    stated, bound = made.release.guarantee.alpha, case.bound(made)
    # shares of a private n are bounded by a sum of tails (`theory/ratios.py`), a tenth above the exact law at most
    slack = 0.1 if case.mechanism in ("laplace", "gaussian") and not made.public else case.slack
    assert bound < 1, "a vacuous case checks nothing"
    assert is_proved(stated, bound, slack), (stated, bound)
    assert not is_proved(stated / 2, bound, slack)
    planted = made_by(case, relation, halved=True)
    assert not is_proved(planted.release.guarantee.alpha, case.bound(planted), slack)


PLANNED = [case for case in CASES if not {"rows", "weight"} & set(dict(case.options))]
"""Those whose rows are not given, since plans choose them themselves."""


@pytest.mark.parametrize("case", PLANNED, ids=lambda case: case.name)
def test_what_is_forecast_is_what_is_stated_where_the_size_is_public(case):
    """Nothing is left to chance there but measured gaps and moves, and a total weight is never public."""
    stated = made_by(case, "replace-one").release.guarantee.alpha
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MECHANISMS, case.mechanism, case.using or MECHANISMS[case.mechanism])
        planned = mq.plan(
            case.queries,
            n=N,
            epsilon=case.epsilon,
            delta=case.delta,
            relation="replace-one",
            beta=BETA,
            certificate=0.0,
            mechanisms=[case.mechanism],
            accounting="zcdp" if case.delta else None,
            **{name: value for name, value in case.options if name == "post"},
        ).forecasts[0]
    if dict(case.options).get("post") == "none" or case.mechanism in ("tree", "mw"):
        assert planned.guaranteed == pytest.approx(stated, rel=1e-3)
    else:
        assert stated <= planned.guaranteed * (1 + 1e-6)


@dataclass(frozen=True)
class Halved:
    """A mechanism, or one at its task, that states half of its bound."""

    whole: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    @property
    def mechanism(self) -> Any:
        return Halved(self.whole.mechanism)

    def prepare(self, *args: Any, **options: Any) -> Any:
        return Halved(self.whole.prepare(*args, **options))

    def run(self, *args: Any, **options: Any) -> Any:
        outcome = self.whole.run(*args, **options)
        halved = replace(outcome.guarantee, alpha=outcome.guarantee.alpha / 2)
        return replace(outcome, guarantee=halved)
