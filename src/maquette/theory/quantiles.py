"""How far noise goes: quantiles of every law that the gate draws from, for errors that are stated and forecast.

Nothing is charged by them. The laws themselves are plain values; a request for noise becomes a law here up to rounding,
as the gate will draw it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.core.bodies import levels_for
from maquette.core.budget import Unit
from maquette.core.forms import Sensitivity
from maquette.core.laws import (
    ONE,
    Cube,
    Gaussian,
    IndependentLaw,
    Laplace,
    NoiseLaw,
    NoiseRequest,
    Norm,
    independent,
)
from maquette.errors import ParameterError
from maquette.theory import direct, draws, epochs

Group = tuple[float, float]
"""How many draws are added up, and the coefficient of each."""


def max_quantile(law: NoiseLaw, *, count: int, beta: float, denominator: int = 1) -> float:
    """The level in counts that none of `count` numbers exceeds, except with probability beta.

    Accuracy: exact for independent draws and L-infinity noise; for K-norm noise the norm times the widest side of the
        box.
    """
    grid = 1 / denominator
    match law:
        case Laplace():
            return draws.laplace_discrete(
                scale=float(law.scale), log_queries=math.log(count), beta=beta, grid=grid
            )
        case Gaussian():
            return draws.gaussian_discrete(
                sigma=law.deviation, log_queries=math.log(count), beta=beta, grid=grid
            )
        case Cube():
            # through 1 - base where the base is close to 1, so that a small epsilon keeps its digits
            close = 2 * law.base > 1
            epsilon = -math.log1p(-float(1 - law.base)) if close else -math.log(law.base)
            return draws.cube_integer(epsilon=epsilon, queries=count, beta=beta) / denominator
        case Norm():
            level = draws.norm_lattice(
                rate=law.rate, dimension=count, cell=law.body.cell, step=1 / law.resolution, beta=beta
            )
            return level * max(law.body.box) / denominator


def max_quantile_on_grids(law: IndependentLaw, *, count: int, beta: float, denominator: int) -> float:
    """The same where each draw is on the whole numbers or on those over `denominator`.

    Accuracy: of Gaussian noise the continuous quantile rounded up to whole counts, which holds for the discrete law on
        any finer grid.
    """
    if isinstance(law, Gaussian):
        return math.ceil(draws.gaussian_exact(sigma=law.deviation, log_queries=math.log(count), beta=beta))
    return max(max_quantile(law, count=count, beta=beta, denominator=d) for d in {1, denominator})


def quantile(law: IndependentLaw, beta: float) -> float:
    """How far one draw lies from 0, except with probability beta: exact."""
    if isinstance(law, Gaussian):
        return direct.size_gaussian(sigma=law.deviation, beta=beta)
    return direct.size_geometric(scale=float(law.scale), beta=beta)


def reach(noise: IndependentLaw | NoiseRequest, beta: float) -> float:
    """The same for a draw on any grid of steps up to 1: never below `quantile`. A request is for sensitivity 1."""
    match noise:
        case Laplace():
            return epochs.laplace_reach(float(noise.scale), beta)
        case Gaussian():
            return epochs.gaussian_reach(noise.deviation, beta)
        case NoiseRequest("gaussian"):
            return epochs.gaussian_reach(1 / math.sqrt(2 * float(noise.price)), beta)
        case NoiseRequest():
            return epochs.laplace_reach(1 / float(noise.price), beta)


def lower_quantile(law: IndependentLaw, *, beta: float, count: int = 1) -> float:
    """How far below 0 any of `count` draws lies, except with probability beta: exact tails and a union bound."""
    if isinstance(law, Gaussian):
        return draws.gaussian_one_sided(sigma=law.deviation, beta=beta / count)
    return draws.laplace_one_sided(scale=float(law.scale), beta=beta / count)


def sum_quantile(law: IndependentLaw, groups: Sequence[Group], *, beta: float) -> float:
    """A bound on |sum of coefficient times draw|, except with probability beta.

    Accuracy: Chernoff. Discrete Gaussian draws are sub-Gaussian with their variance parameter (Canonne, Kamath and
        Steinke 2020). For Laplace noise the cumulant is -ln(1 - (sinh(s/2)/sinh(1/(2 scale)))^2): any step s gives a
        valid bound, a grid of 400 steps finds a good one.
    """
    used = _used(groups)
    if isinstance(law, Gaussian):
        norm = float((used[:, 0] * used[:, 1] ** 2).sum())
        return math.sqrt(2 * float(law.sigma_squared) * norm * math.log(2 / beta))
    if not len(used):
        return 0.0
    scale = float(law.scale)
    steps = np.geomspace(1e-8, 1 - 1e-6, 400) / (scale * used[:, 1].max())
    x, y = np.outer(used[:, 1], steps) / 2, 1 / (2 * scale)
    ratio = np.exp(x - y) * np.expm1(-2 * x) / math.expm1(-2 * y)  # sinh(x)/sinh(y), which could overflow
    cumulant = -(used[:, :1] * np.log1p(-(ratio**2))).sum(axis=0)
    return float(((math.log(2 / beta) + cumulant) / steps).min())


def tree_quantile(law: IndependentLaw, *, nodes: int, log_queries: float, beta: float) -> float:
    """The largest noise of prefixes that are each put together from `nodes` noisy nodes of a tree."""
    if isinstance(law, Gaussian):
        return direct.tree_gaussian(sigma=law.deviation, nodes=nodes, log_queries=log_queries, beta=beta)
    return direct.tree_laplace(scale=float(law.scale), nodes=nodes, log_queries=log_queries, beta=beta)


def histogram_quantile(
    law: IndependentLaw,
    *,
    universe: int,
    cells: NDArray[np.float64],
    counts: NDArray[np.float64],
    distinct: int,
    beta: float,
) -> float:
    """The largest noise of queries on a noisy histogram whose total is exact.

    `counts` of the queries look at so many `cells`; `distinct` of all queries differ.
    """
    if isinstance(law, Gaussian):
        return direct.histogram_gaussian_max(
            sigma=law.deviation, universe=universe, cells=cells, counts=counts, beta=beta
        )
    return direct.histogram_discrete_laplace(
        scale=float(law.scale),
        universe=universe,
        cells=cells,
        log_queries=math.log(max(distinct, 1)),
        beta=beta,
    )


def _used(groups: Sequence[Group]) -> NDArray[np.float64]:
    """Rows of (how many draws, size of their coefficient), those that add nothing left out."""
    used = [(count, abs(size)) for count, size in groups if count > 0 and size != 0]
    return np.array(used, dtype=np.float64).reshape(-1, 2)


# The law that a request will be drawn from, up to rounding: for forecasts.


def law_of(
    request: NoiseRequest, sensitivity: Sensitivity, *, unit: Unit = Unit.RHO, denominator: int = 1
) -> NoiseLaw:
    """The law that the gate will draw from, up to rounding."""
    price = request.price
    if not price:
        raise ParameterError("the budget is too small to be divided; give a larger epsilon")
    match request.kind:
        case "laplace":
            return Laplace(price, sensitivity.l1 / price)
        case "gaussian":
            smoothing = unit.smoothing / denominator**2
            return Gaussian(price, sensitivity.l2_squared / (2 * price) + smoothing)
        case "cube":
            epsilon = min(float(price), 700.0)
            small = epsilon < 0.5
            base = 1 - Fraction(-math.expm1(-epsilon)) if small else Fraction(math.exp(-epsilon))
            return Cube(price, base)
        case "norm":
            body, resolution, levels = levels_for(request.body, sensitivity.norm, price)
            return Norm(price, body, resolution, 1 - Fraction(-math.expm1(-price / levels)))


def law_at(
    price: Fraction, sensitivity: Sensitivity = ONE, *, unit: Unit, denominator: int = 1
) -> IndependentLaw:
    """The law of independent noise at a price in this unit."""
    return independent(law_of(NoiseRequest.at(price, unit), sensitivity, unit=unit, denominator=denominator))


def law_near(price: float, *, unit: Unit) -> IndependentLaw:
    """The same for one number of sensitivity 1, in doubles: for searches that ask it often."""
    if unit.is_pure:
        return Laplace(Fraction(price), Fraction(1 / price))
    return Gaussian(Fraction(price), Fraction(0.5 / price + float(unit.smoothing)))
