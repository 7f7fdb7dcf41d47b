"""The direct mechanisms in one table: guaranteed largest error as a fraction, from sizes alone.

Replace-one, n public, any k queries with weights in [0, 1] over N cells; continuous noise. These are the
figures of comparison of the planner's theory; what a release states uses the law it really draws with.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maquette.core import _check
from maquette.theory import draws
from maquette.theory.draws import rising_root

# One noisy histogram answers every query: tails of its linear sums.

_FEW, _SAMPLE = 4096, 24


def histogram_laplace_tail(*, scale: float, universe: float, log_queries: float, beta: float) -> float:
    """Largest error of all queries from a histogram with Laplace noise, when n is public.

    Accuracy: Chernoff: min over 0 < s < 1/c of (ln(2k/beta) - N ln(1 - c^2 s^2)) / s with c = scale/2; the
        answers are n/2 + sum_i (q_i - 1/2) h_i, whose coefficients are at most 1/2.
    Holds when: continuous Laplace noise of this scale in each of the N cells; any k queries with weights
        in [0, 1].
    """
    _check.positive(scale=scale, universe=universe)
    _check.fraction(beta=beta)
    c, failure = scale / 2, math.log(2 / beta) + log_queries

    def slope(log_u: float) -> float:  # the derivative's sign, in u = (c s)^2
        u = math.exp(log_u)
        return universe * (2 * u / (1 - u) + math.log1p(-u)) - failure

    u = math.exp(rising_root(slope, -80.0, math.log1p(-1e-15)))
    return c * (failure - universe * math.log1p(-u)) / math.sqrt(u)


def histogram_discrete_laplace(
    *, scale: float, universe: int, cells: ArrayLike, log_queries: float, beta: float
) -> float:
    """Largest noise of all queries from a discrete Laplace histogram whose total is set to the known size.

    `cells` are the total weights S_q of the queries (how many cells each counts; distinct values suffice).

    Accuracy: the answer of q is sum_i q_i h_i + (S_q/N)(n - sum_i h_i): coefficients q_i - S_q/N. Chernoff
        with the exact cumulant of discrete Laplace noise, psi(s) = -ln(1 - (sinh(s/2)/sinh(1/(2 scale)))^2),
        and the union bound over k; psi is even and convex, so 0/1 weights of the same S_q are the worst.
    Holds when: independent draws on the whole numbers; the known size is exact (else add its error).
    """
    _check.positive(scale=scale)
    _check.whole(universe=universe)
    _check.fraction(beta=beta)
    share = np.unique(np.asarray(cells, dtype=float)) / universe
    share = np.unique(np.minimum(share, 1 - share))  # a query and its complement have the same noise
    failure = math.log(2 / beta) + log_queries
    steps = np.exp(np.linspace(math.log(1e-8), math.log(1 - 1e-6), 400)) / scale
    if len(share) > _FEW:  # any s is valid: those that are best for some of the shares will do for all
        some = share[np.linspace(0, len(share) - 1, _SAMPLE).astype(np.int64)]
        steps = steps[np.unique(_bounds(some, steps, scale, universe, failure).argmin(axis=1))]
    return max(_chernoff(part, steps, scale, universe, failure) for part in _chunks(share))


def histogram_gaussian_max(
    *, sigma: float, universe: int, cells: ArrayLike, counts: ArrayLike, beta: float
) -> float:
    """Largest noise of all queries from a Gaussian histogram whose total is set to the known size.

    Accuracy: the variance of q's answer is sigma^2 S_q (1 - S_q/N) at most, never above sigma^2 N/4; `mixture`
        over the groups of equal S_q (`counts` queries each).
    Holds when: continuous or discrete Gaussian noise, any dependence; the known size is exact.
    """
    _check.positive(sigma=sigma)
    share = np.asarray(cells, dtype=float) / universe
    return draws.gaussian_mixture(
        variances=sigma**2 * universe * share * (1 - share),
        log_counts=np.log(np.asarray(counts, dtype=float)),
        beta=beta,
    )


def histogram_gaussian_exact(*, sigma: float, universe: float, log_queries: float, beta: float) -> float:
    """Largest error of all queries from a histogram with continuous Gaussian noise, when n is public.

    Accuracy: sigma (sqrt(N)/2) Phi^-1(1 - beta/(2k)): each answer has standard deviation sigma ||q - 1/2||.
    Holds when: continuous Gaussian noise; any k queries with weights in [0, 1].
    """
    _check.positive(sigma=sigma, universe=universe)
    _check.fraction(beta=beta)
    return sigma * math.sqrt(universe) / 2 * draws.gaussian_two_sided(math.log(beta) - log_queries)


def _chernoff(
    share: NDArray[np.float64], steps: NDArray[np.float64], scale: float, universe: int, failure: float
) -> float:
    """The best bound on the grid of s for each share, then the worst share. Any s gives a valid bound."""
    return float(_bounds(share, steps, scale, universe, failure).min(axis=1).max())


def _bounds(
    share: NDArray[np.float64], steps: NDArray[np.float64], scale: float, universe: int, failure: float
) -> NDArray[np.float64]:
    """For every share (down) and s (across)."""
    inside = universe * share[:, None] * laplace_cumulant(np.outer(1 - share, steps), scale)
    outside = universe * (1 - share)[:, None] * laplace_cumulant(np.outer(share, steps), scale)
    return (failure + inside + outside) / steps


def laplace_cumulant(s: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """psi(s) = ln E exp(s z) of one discrete Laplace draw: -ln(1 - (sinh(s/2)/sinh(1/(2 scale)))^2)."""
    # sinh(x)/sinh(y) by exponentials that cannot overflow
    x, y = s / 2, 1 / (2 * scale)
    ratio = np.exp(x - y) * np.expm1(-2 * x) / math.expm1(-2 * y)
    return -np.log1p(-(ratio**2))


def _chunks(values: NDArray[np.float64], size: int = 4096) -> list[NDArray[np.float64]]:
    return [values[i : i + size] for i in range(0, len(values), size)]


def laplace(*, n: float, epsilon: float, log_queries: float, beta: float) -> float:
    """Laplace noise of scale k/epsilon: (k / (epsilon n)) t, t the exact quantile of the largest of k."""
    return draws.laplace_exact(scale=math.exp(log_queries) / epsilon, log_queries=log_queries, beta=beta) / n


def linf(*, n: float, epsilon: float, log_queries: float, beta: float) -> float:
    """L-infinity noise: the Gamma(k) quantile over epsilon n."""
    return draws.cube_continuous(epsilon=epsilon, queries=math.exp(log_queries), beta=beta) / n


def histogram_laplace(*, n: float, epsilon: float, universe: float, log_queries: float, beta: float) -> float:
    """A histogram with Laplace noise of scale 2/epsilon, by Chernoff."""
    return (
        histogram_laplace_tail(scale=2 / epsilon, universe=universe, log_queries=log_queries, beta=beta) / n
    )


def gaussian_one_shot(*, n: float, epsilon: float, delta: float, log_queries: float, beta: float) -> float:
    """Gaussian noise at the analytic sigma for L2 sensitivity sqrt(k), exact quantile of the largest of k."""
    sigma = draws.one_shot_sigma(epsilon=epsilon, delta=delta, l2=math.exp(log_queries / 2))
    return draws.gaussian_exact(sigma=sigma, log_queries=log_queries, beta=beta) / n


def histogram_gaussian(
    *, n: float, epsilon: float, delta: float, universe: float, log_queries: float, beta: float
) -> float:
    """A histogram with Gaussian noise at the analytic sigma for L2 sensitivity sqrt(2)."""
    sigma = draws.one_shot_sigma(epsilon=epsilon, delta=delta, l2=math.sqrt(2))
    return histogram_gaussian_exact(sigma=sigma, universe=universe, log_queries=log_queries, beta=beta) / n


# A consistent noisy tree of counts: how far any prefix is off.
#
# Every level of a tree with a branches per node is measured once with the same noise, and least squares
# make the levels agree (Hay et al. 2010). The fit is linear in the noise: a prefix is off by sum a_i z_i.
#
# Sum a_i^2 <= D, because least squares have the smallest variance of all unbiased linear ways, and one way
# adds up D measured nodes: at each level the j children before the border, or their parent less the other
# children. |a_i| <= 1: raising one measured count by 1 raises its fitted subtree by at most 1, its
# ancestors by no more than that, and lowers the subtrees beside it by the difference, so any set of leaves
# moves by at most 1.


def tree_nodes(*, levels: int, branches: int, total_is_public: bool) -> int:
    """D: measured nodes that add up to any prefix.

    Accuracy: at most half of the branches (rounded up) per level, taking the complement inside the parent; at the top
        level the complement needs the total.
    Holds when: `levels` levels below a root whose total is public; else the top level takes all branches but one.
    """
    _check.whole(levels=levels, branches=branches)
    half = (branches + 1) // 2
    return levels * half if total_is_public else (levels - 1) * half + max(branches - 1, 1)


def tree_laplace(*, scale: float, nodes: int, log_queries: float, beta: float) -> float:
    """The largest noise of k prefixes from a tree with discrete Laplace noise, except with probability beta.

    Accuracy: Chernoff and the union bound, min over s of (ln(2k/beta) + D psi(s)) / s. All cumulants of discrete
        Laplace noise are positive, so psi(a s) <= a^2 psi(s) for |a| <= 1 and the sum of psi(a_i s) is at most
        D psi(s).
    """
    _check.positive(scale=scale)
    _check.fraction(beta=beta)
    steps = np.exp(np.linspace(math.log(1e-6), math.log(1 - 1e-6), 600)) / scale
    failure = math.log(2 / beta) + log_queries
    return float(((failure + nodes * laplace_cumulant(steps, scale)) / steps).min())


def tree_gaussian(*, sigma: float, nodes: int, log_queries: float, beta: float) -> float:
    """The same for discrete Gaussian noise, which is subgaussian with its own sigma: sigma sqrt(2 D ln(2k/beta))."""
    _check.positive(sigma=sigma)
    _check.fraction(beta=beta)
    return sigma * math.sqrt(2 * nodes * (math.log(2 / beta) + log_queries))


def linear_gaussian(*, sigma: float, norms: NDArray[np.float64], beta: float) -> float:
    """The largest of some linear sums of independent discrete Gaussian draws, whose coefficients have these norms.

    Accuracy: each sum is subgaussian with sigma times its norm: the smallest x with sum over the norms a > 0 of
        2 exp(-x^2 / (2 a^2 sigma^2)) <= beta. Never above the union bound with the largest norm for all.
    """
    _check.positive(sigma=sigma)
    _check.fraction(beta=beta)
    used, counts = np.unique(np.round(norms[norms > 0], 12), return_counts=True)
    if not len(used):
        return 0.0
    low, high = 0.0, float(used[-1]) * math.sqrt(2 * (math.log(2 / beta) + math.log(counts.sum())))
    for _ in range(60):
        middle = (low + high) / 2
        chance = 2 * float(counts @ np.exp(-((middle / used) ** 2) / 2))
        low, high = (low, middle) if chance <= beta else (middle, high)
    return sigma * high * (1 + 1e-9)


def linear_laplace(*, scale: float, coefficients: NDArray[np.float64], beta: float) -> float:
    """The largest of some linear sums of independent Laplace draws, except with probability beta.

    `coefficients` has the a_i of one sum in each row.

    Accuracy: Chernoff and the union bound over k sums: min over s of (ln(2k/beta) + sum_i psi(a_i s)) / s with
        psi(s) = -ln(1 - (scale s)^2), that of continuous noise. -ln(1 - u) is convex and 0 at u = 0, so with c the
        largest |a_i| and D = |a|^2 / c^2 the sum is at most D psi(c s), which is used for all sums but the largest.
    Holds when: continuous Laplace noise, or discrete on any grid: sinh(x) / x rises, so sinh(s/2) / sinh(1/(2 scale))
        <= scale s, and psi of the discrete law (`laplace_cumulant`) is no larger.
    """
    _check.positive(scale=scale)
    _check.fraction(beta=beta)
    failure = math.log(2 / beta) + math.log(len(coefficients))
    steps = np.exp(np.linspace(math.log(1e-3), math.log(1 - 1e-6), 100))
    largest = np.maximum(np.abs(coefficients).max(axis=1), 1e-300)
    nodes = np.square(coefficients / largest[:, None]).sum(axis=1)
    logs = -np.log1p(-(steps**2))
    rough = np.array([((failure + node * logs) / steps).min() for node in nodes]) * largest
    order = np.argsort(-rough)
    exact, rest = order[:_SAMPLE], order[_SAMPLE:]
    sums = [
        size * ((failure - np.log1p(-np.square(np.outer(steps, row / size))).sum(axis=1)) / steps).min()
        for row, size in zip(coefficients[exact], largest[exact], strict=True)
    ]
    return scale * float(max(*sums, *rough[rest[:1]], 0.0))


# How far a noisy number of records lies from the true one.


def size_geometric(*, scale: float, beta: float) -> float:
    """|released - n| for the two-sided geometric law of this scale, except with probability beta.

    Accuracy: max(0, ceil(scale ln(2/((1+a) beta))) - 1), a = e^(-1/scale): the exact quantile.
    Holds when: add/remove-one; P(z) = (1-a)/(1+a) a^|z|, which costs epsilon = 1/scale.
    """
    return draws.laplace_discrete(scale=scale, log_queries=0.0, beta=beta)


def size_gaussian(*, sigma: float, beta: float) -> float:
    """|released - n| for the discrete Gaussian of this sigma, except with probability beta.

    Accuracy: the exact quantile of the discrete Gaussian.
    Holds when: add/remove-one, where the number of records moves by one: it costs rho = 1/(2 sigma^2).
    """
    return draws.gaussian_discrete(sigma=sigma, log_queries=0.0, beta=beta)


# What post-processing can add to the error, and how much rows can lose against weights.


def consistent_error(*, noise: float, size_error: float = 0.0) -> float:
    """Error in counts of the cells of a table after its projection to the simplex of the released size.

    Accuracy: if every cell's noise is at most e and the released size is off by at most t, every projected
        cell c' satisfies |c'/n^ - c/n| n^ <= 2e + t.
        Proof. The projection is max(y - theta, 0) with y = c + z and theta such that the cells add up to n^.
        At theta = e + (n - n^)+ they add up to at most sum max(c - (n - n^)+, 0) <= n^, at
        theta = -e - (n^ - n)+/cells to at least n^; the sum falls in theta, so theta lies between, and
        |c' - c| <= e + |theta| because c >= 0. If n >= n^: -(2e + n - n^) <= c' - c <= 2e, and
        c'/n^ - c/n = (c' - c + f (n - n^)) / n^ with 0 <= f = c/n <= 1. If n < n^ the signs are exchanged.
    Holds when: the cells partition the records.
    """
    return 2 * noise + size_error


def fitted_error(*, noise: float, size_error: float = 0.0) -> float:
    """Error in counts of answers that stay within e + t of the measured ones, divided by the released size.

    Accuracy: |a' - f n^| <= |a' - a| + |a - q(x)| + |q(x) - f n^| <= (e + t) + e + t. The linear program of Dwork
        et al. 2009 stays within e + t, because n^/n times the true histogram does.
    Holds when: always, where the distance to the measured answers was checked.
    """
    return 2 * noise + 2 * size_error


def shifted_error(*, noise: float, shift: float, size_error: float = 0.0) -> float:
    """Error in counts of answers that post-processing moved by at most `shift` from the measured ones.

    Accuracy: |a' - q(x)| <= |a' - a| + |a - q(x)| <= shift + noise; dividing by n^ instead of n adds at most
        the error of n^.
    Holds when: always; `shift` is public, computed after the fact.
    """
    return noise + shift + size_error


def projection_rmse(*, n: int, rho: float, queries: float, log_universe: float) -> float:
    """Root-mean-square error, as a fraction, of Gaussian answers projected to what some table could answer.

    Accuracy: min(s, (ln N / rho)^(1/4) / sqrt(2n)), s = sqrt(k/(2 rho))/n, in expectation of the mean square
        (Nikolov, Talwar and Zhang 2013): the second term does not depend on k.
    Holds when: replace-one, n public, continuous noise s in each of k fractions, L2 projection to {Qh}.
    """
    _check.whole(n=n)
    _check.positive(rho=rho, queries=queries)
    plain = math.sqrt(queries / (2 * rho)) / n
    return min(plain, (log_universe / rho) ** 0.25 / math.sqrt(2 * n))
