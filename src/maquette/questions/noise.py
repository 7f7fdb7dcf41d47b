"""Noise as it is asked for, and the law that was drawn.

A request names a kind and a price. A law has numbers: the gate states it with every value that it releases. All that is
known of a law is a method of it, so that no other module has to tell laws apart. Laplace and Gaussian noise are drawn
for each number alone; L-infinity and K-norm noise (`questions/norms.py`) are one draw for all numbers together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.budget import Unit
from maquette.core.forms import QueryForms, Sensitivity
from maquette.domain.neighbours import Relation
from maquette.domain.universe import Universe as Domain
from maquette.errors import MechanismError, ParameterError
from maquette.questions import bounds
from maquette.questions.norms import Body, levels_for
from maquette.theory import direct, draws, epochs

NoiseKind = Literal["laplace", "gaussian", "cube", "norm"]

ONE = Sensitivity(Fraction(1), Fraction(1), Fraction(1))
"""Of one number that a neighbour moves by at most 1."""

Group = tuple[float, float]
"""How many draws are added up, and the coefficient of each."""


@dataclass(frozen=True, slots=True)
class Laplace:
    """Discrete Laplace noise, P(z) proportional to exp(-|z| / scale), bought with a pure epsilon."""

    kind: ClassVar[NoiseKind] = "laplace"
    name: ClassVar[str] = "Laplace"
    epsilon: Fraction
    scale: Fraction
    """What was really drawn with, in counts."""

    @property
    def price(self) -> Fraction:
        return self.epsilon

    @property
    def deviation(self) -> float:
        """Standard deviation of the continuous law of this scale."""
        return float(self.scale) * math.sqrt(2)

    @property
    def variance(self) -> float:
        """Of one draw on the whole numbers."""
        return 2 * math.exp(-1 / float(self.scale)) / math.expm1(-1 / float(self.scale)) ** 2

    def max_quantile(self, *, count: int, beta: float, denominator: int = 1) -> float:
        """The level in counts that none of `count` independent draws exceeds, except with probability beta: exact."""
        return draws.laplace_discrete(
            scale=float(self.scale), log_queries=math.log(count), beta=beta, grid=1 / denominator
        )

    def max_quantile_on_grids(self, *, count: int, beta: float, denominator: int) -> float:
        """The same where each draw is on the whole numbers or on those over `denominator`."""
        return max(self.max_quantile(count=count, beta=beta, denominator=d) for d in {1, denominator})

    def quantile(self, beta: float) -> float:
        """How far one draw lies from 0, except with probability beta: exact."""
        return direct.size_geometric(scale=float(self.scale), beta=beta)

    def reach(self, beta: float) -> float:
        """The same for a draw on any grid of steps up to 1: never below `quantile`."""
        return epochs.laplace_reach(float(self.scale), beta)

    def lower_quantile(self, *, beta: float, count: int = 1) -> float:
        """How far below 0 any of `count` draws lies, except with probability beta: exact tails and a union bound."""
        return draws.laplace_one_sided(scale=float(self.scale), beta=beta / count)

    def sum_quantile(self, groups: Sequence[Group], *, beta: float) -> float:
        """A bound on |sum of coefficient times draw|, except with probability beta.

        Accuracy: Chernoff with the cumulant -ln(1 - (sinh(s/2)/sinh(1/(2 scale)))^2). Any step s gives a valid bound;
            a grid of 400 steps finds a good one.
        """
        used = _used(groups)
        if not len(used):
            return 0.0
        scale = float(self.scale)
        steps = np.geomspace(1e-8, 1 - 1e-6, 400) / (scale * used[:, 1].max())
        x, y = np.outer(used[:, 1], steps) / 2, 1 / (2 * scale)
        ratio = np.exp(x - y) * np.expm1(-2 * x) / math.expm1(-2 * y)  # sinh(x)/sinh(y), which could overflow
        cumulant = -(used[:, :1] * np.log1p(-(ratio**2))).sum(axis=0)
        return float(((math.log(2 / beta) + cumulant) / steps).min())

    def tree_quantile(self, *, nodes: int, log_queries: float, beta: float) -> float:
        """The largest noise of prefixes that are each put together from `nodes` noisy nodes of a tree."""
        return direct.tree_laplace(scale=float(self.scale), nodes=nodes, log_queries=log_queries, beta=beta)

    def histogram_quantile(
        self,
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
        return direct.histogram_discrete_laplace(
            scale=float(self.scale),
            universe=universe,
            cells=cells,
            log_queries=math.log(max(distinct, 1)),
            beta=beta,
        )

    def sharper(self, factor: int) -> Laplace:
        """The law at a price `factor` times as large."""
        return Laplace(self.epsilon * factor, self.scale / factor)

    def to_dict(self) -> dict[str, Any]:
        """The law in a release file: exact numbers as texts."""
        return {"law": self.kind, "epsilon": str(self.epsilon), "scale": str(self.scale)}


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Discrete Gaussian noise, P(z) proportional to exp(-z^2 / (2 sigma_squared)), bought with rho or mu^2 / 2."""

    kind: ClassVar[NoiseKind] = "gaussian"
    name: ClassVar[str] = "Gaussian"
    rho: Fraction
    """The price, in the unit of the budget."""
    sigma_squared: Fraction
    """What was really drawn with, in counts."""

    @property
    def price(self) -> Fraction:
        return self.rho

    @property
    def deviation(self) -> float:
        """Standard deviation of the continuous law, never below that of the discrete one."""
        return math.sqrt(self.sigma_squared)

    @property
    def variance(self) -> float:
        """The parameter of the law, which is never below the variance of one draw."""
        return float(self.sigma_squared)

    def max_quantile(self, *, count: int, beta: float, denominator: int = 1) -> float:
        """The level in counts that none of `count` independent draws exceeds, except with probability beta: exact."""
        return draws.gaussian_discrete(
            sigma=self.deviation, log_queries=math.log(count), beta=beta, grid=1 / denominator
        )

    def max_quantile_on_grids(self, *, count: int, beta: float, denominator: int) -> float:
        """The continuous quantile rounded up to whole counts: it holds for the discrete law on any finer grid."""
        return math.ceil(draws.gaussian_exact(sigma=self.deviation, log_queries=math.log(count), beta=beta))

    def quantile(self, beta: float) -> float:
        """How far one draw lies from 0, except with probability beta: exact."""
        return direct.size_gaussian(sigma=self.deviation, beta=beta)

    def reach(self, beta: float) -> float:
        """The same for a draw on any grid of steps up to 1: never below `quantile`."""
        return epochs.gaussian_reach(self.deviation, beta)

    def lower_quantile(self, *, beta: float, count: int = 1) -> float:
        """How far below 0 any of `count` draws lies, except with probability beta: exact tails and a union bound."""
        return draws.gaussian_one_sided(sigma=self.deviation, beta=beta / count)

    def sum_quantile(self, groups: Sequence[Group], *, beta: float) -> float:
        """A bound on |sum of coefficient times draw|, except with probability beta.

        Accuracy: Chernoff; discrete Gaussian draws are sub-Gaussian with their variance parameter (Canonne, Kamath and
            Steinke 2020).
        """
        used = _used(groups)
        norm = float((used[:, 0] * used[:, 1] ** 2).sum())
        return math.sqrt(2 * float(self.sigma_squared) * norm * math.log(2 / beta))

    def tree_quantile(self, *, nodes: int, log_queries: float, beta: float) -> float:
        """The largest noise of prefixes that are each put together from `nodes` noisy nodes of a tree."""
        return direct.tree_gaussian(sigma=self.deviation, nodes=nodes, log_queries=log_queries, beta=beta)

    def histogram_quantile(
        self,
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
        return direct.histogram_gaussian_max(
            sigma=self.deviation, universe=universe, cells=cells, counts=counts, beta=beta
        )

    def sharper(self, factor: int) -> Gaussian:
        """The law at a price `factor` times as large."""
        return Gaussian(self.rho * factor, self.sigma_squared / factor)

    def to_dict(self) -> dict[str, Any]:
        """The law in a release file: exact numbers as texts."""
        return {"law": self.kind, "rho": str(self.rho), "sigma_squared": str(self.sigma_squared)}


@dataclass(frozen=True, slots=True)
class Cube:
    """Integer L-infinity noise, P(z) proportional to base^max|z|, bought with a pure epsilon: one draw for all."""

    kind: ClassVar[NoiseKind] = "cube"
    name: ClassVar[str] = "L-infinity"
    epsilon: Fraction
    base: Fraction
    """The rational number that was really drawn with."""

    @property
    def price(self) -> Fraction:
        return self.epsilon

    def max_quantile(self, *, count: int, beta: float, denominator: int = 1) -> float:
        """The level that none of the `count` coordinates exceeds, except with probability beta: exact."""
        # through 1 - base where the base is close to 1, so that a small epsilon keeps its digits
        close = 2 * self.base > 1
        epsilon = -math.log1p(-float(1 - self.base)) if close else -math.log(self.base)
        return draws.cube_integer(epsilon=epsilon, queries=count, beta=beta) / denominator

    def to_dict(self) -> dict[str, Any]:
        """The law in a release file: exact numbers as texts."""
        return {"law": self.kind, "epsilon": str(self.epsilon), "base": str(self.base)}


@dataclass(frozen=True, slots=True)
class Norm:
    """Noise in a norm, P(z) proportional to decay^ceil(resolution |z|), bought with a pure epsilon: one draw of all."""

    kind: ClassVar[NoiseKind] = "norm"
    name: ClassVar[str] = "K-norm"
    epsilon: Fraction
    body: Body
    resolution: int
    decay: Fraction
    """The rational number that was really drawn with."""

    @property
    def price(self) -> Fraction:
        return self.epsilon

    @property
    def rate(self) -> float:
        """By how much the logarithm of the probability falls per unit of the norm."""
        return -math.log1p(-float(1 - self.decay)) * self.resolution

    def max_quantile(self, *, count: int, beta: float, denominator: int = 1) -> float:
        """What no coordinate exceeds, except with probability beta: the norm times the widest side of the box."""
        level = draws.norm_lattice(
            rate=self.rate, dimension=count, cell=self.body.cell, step=1 / self.resolution, beta=beta
        )
        return level * max(self.body.box) / denominator

    def describe(self) -> str:
        """The law in words that tell any two bodies apart."""
        return f"K-norm noise in {len(self.body.box)} dimensions, body {self.body.digest}"

    def to_dict(self) -> dict[str, Any]:
        """The law in a release file: exact numbers as texts."""
        return {
            "law": self.kind,
            "epsilon": str(self.epsilon),
            "resolution": self.resolution,
            "decay": str(self.decay),
            "body": {
                "box": list(self.body.box),
                "normals": [list(normal) for normal in self.body.normals],
                "offsets": list(self.body.offsets),
            },
        }


IndependentLaw = Laplace | Gaussian
"""Noise that is drawn for each number alone."""
NoiseLaw = Laplace | Gaussian | Cube | Norm


def independent(law: NoiseLaw) -> IndependentLaw:
    """A law whose draws are independent; MechanismError for L-infinity and K-norm noise, one draw for all numbers."""
    if isinstance(law, (Cube, Norm)):
        raise MechanismError(f"expected noise that is drawn for each number alone, got {law.name} noise")
    return law


@dataclass(frozen=True, slots=True)
class NoiseRequest:
    """Noise to be bought: Gaussian noise for the budget's own unit, all other kinds for a pure epsilon."""

    kind: NoiseKind
    price: Fraction
    body: Body | None = None
    """The unit ball of K-norm noise; None for all other kinds."""

    @classmethod
    def at(cls, price: Fraction, unit: Unit) -> NoiseRequest:
        """Independent noise for a price in this unit: Laplace for epsilon, else Gaussian."""
        return cls("laplace" if unit.is_pure else "gaussian", price)

    def sensitivity_of(self, query_forms: QueryForms, domain: Domain, relation: Relation) -> Sensitivity:
        """How far one record moves the answers, in the norm of this noise too where it has one."""
        in_counts = bounds.sensitivity_of(query_forms, domain, relation)
        if self.body is None:
            return in_counts
        if not isinstance(self.body, Body):  # pyright: ignore[reportUnnecessaryIsInstance]  (no annotation is checked)
            raise ParameterError("expected K-norm noise with its body")
        return replace(in_counts, norm=self.body.shift(query_forms, relation))

    @property
    def deviation(self) -> float:
        """Standard deviation of this noise on one number of sensitivity 1, before smoothing."""
        if self.kind == "gaussian":
            return float((1 / (2 * self.price)) ** 0.5)
        return float(2**0.5 / self.price)

    def reach(self, beta: float) -> float:
        """How far one number of sensitivity 1 may be off, except with probability beta, on any grid up to 1."""
        if self.kind == "gaussian":
            return epochs.gaussian_reach(1 / math.sqrt(2 * float(self.price)), beta)
        return epochs.laplace_reach(1 / float(self.price), beta)

    def law(self, sensitivity: Sensitivity, *, unit: Unit = Unit.RHO, denominator: int = 1) -> NoiseLaw:
        """The law that the gate will draw from, up to rounding: for forecasts."""
        if not self.price:
            raise ParameterError("the budget is too small to be divided; give a larger epsilon")
        match self.kind:
            case "laplace":
                return Laplace(self.price, sensitivity.l1 / self.price)
            case "gaussian":
                smoothing = unit.smoothing / denominator**2
                return Gaussian(self.price, sensitivity.l2_squared / (2 * self.price) + smoothing)
            case "cube":
                epsilon = min(float(self.price), 700.0)
                small = epsilon < 0.5
                base = 1 - Fraction(-math.expm1(-epsilon)) if small else Fraction(math.exp(-epsilon))
                return Cube(self.price, base)
            case "norm":
                body, resolution, levels = levels_for(self.body, sensitivity.norm, self.price)
                return Norm(self.price, body, resolution, 1 - Fraction(-math.expm1(-self.price / levels)))


def law_at(
    price: Fraction, sensitivity: Sensitivity = ONE, *, unit: Unit, denominator: int = 1
) -> IndependentLaw:
    """The law of independent noise at a price in this unit, up to rounding: for forecasts."""
    return independent(NoiseRequest.at(price, unit).law(sensitivity, unit=unit, denominator=denominator))


def law_near(price: float, *, unit: Unit) -> IndependentLaw:
    """The same for one number of sensitivity 1, in doubles: for searches that ask it often."""
    if unit.is_pure:
        return Laplace(Fraction(price), Fraction(1 / price))
    return Gaussian(Fraction(price), Fraction(0.5 / price + float(unit.smoothing)))


def law_of_variance(
    variance: Fraction | float, *, pure: bool, price: Fraction = Fraction(0), up: bool = False
) -> IndependentLaw:
    """The law of noise with this variance parameter: sigma squared, or twice the squared scale (rounded up on wish)."""
    if pure:
        scale = math.sqrt(variance / 2)
        return Laplace(price, Fraction(math.nextafter(scale, math.inf) if up else scale))
    return Gaussian(price, Fraction(variance))


def _used(groups: Sequence[Group]) -> NDArray[np.float64]:
    """Rows of (how many draws, size of their coefficient), those that add nothing left out."""
    used = [(count, abs(size)) for count, size in groups if count > 0 and size != 0]
    return np.array(used, dtype=np.float64).reshape(-1, 2)


# Rounding to the private side: up, in exact arithmetic, so that noise is never narrower than what was paid for.

_GRID_BITS = 100


def float_up(value: Fraction) -> float:
    """The smallest double that is not below the value."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def sqrt_up(value: Fraction) -> float:
    """A double whose square is not below the value, and hardly above it."""
    root = math.sqrt(float_up(value))
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def sigma_of(variance: Fraction) -> float:
    """The double that is the root of a variance, or one whose square is hardly above it where there is none."""
    root = Fraction(math.isqrt(variance.numerator), math.isqrt(variance.denominator))
    is_exact = root**2 == variance and Fraction(float(root)) == root
    return float(root) if is_exact else sqrt_up(variance)


def grid_up(value: Fraction) -> Fraction:
    """Up to a multiple of 2^-100, so that the numbers that an event stores stay short."""
    return Fraction(math.ceil(value * 2**_GRID_BITS), 2**_GRID_BITS)
