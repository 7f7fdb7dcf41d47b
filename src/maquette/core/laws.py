"""Noise as it is asked for, and the law that was drawn.

A request names a kind and a price. A law has numbers: the gate states it with every value that it releases. How far its
draws go says `theory/quantiles.py`: nothing is charged by that. Laplace and Gaussian noise are drawn
for each number alone; L-infinity and K-norm noise (`core/bodies.py`) are one draw for all numbers together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

from maquette.core import bounds
from maquette.core.bodies import Body
from maquette.core.budget import Unit
from maquette.core.errors import MechanismError, ParameterError
from maquette.core.forms import QueryForms, Sensitivity
from maquette.core.neighbours import Relation
from maquette.core.universe import Universe

NoiseKind = Literal["laplace", "gaussian", "cube", "norm"]

ONE = Sensitivity(Fraction(1), Fraction(1), Fraction(1))
"""Of one number that a neighbour moves by at most 1."""


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

    def sensitivity_of(self, query_forms: QueryForms, domain: Universe, relation: Relation) -> Sensitivity:
        """How far one record moves the answers, in the norm of this noise too where it has one."""
        in_counts = bounds.sensitivity_of(query_forms, domain, relation)
        if self.body is None:
            return in_counts
        if (
            type(self.body) is not Body
        ):  # no annotation is checked, and what is derived from it has another norm
            raise ParameterError("expected K-norm noise with its body")
        return replace(in_counts, norm=self.body.shift(query_forms, relation))

    @property
    def deviation(self) -> float:
        """Standard deviation of this noise on one number of sensitivity 1, before smoothing."""
        if self.kind == "gaussian":
            return float((1 / (2 * self.price)) ** 0.5)
        return float(2**0.5 / self.price)


def law_of_variance(
    variance: Fraction | float, *, pure: bool, price: Fraction = Fraction(0), up: bool = False
) -> IndependentLaw:
    """The law of noise with this variance parameter: sigma squared, or twice the squared scale (rounded up on wish)."""
    if pure:
        scale = math.sqrt(variance / 2)
        return Laplace(price, Fraction(math.nextafter(scale, math.inf) if up else scale))
    return Gaussian(price, Fraction(variance))


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
