"""What a price bought: noise, choices, the tests of an epoch, the weights of a draw. Here noise is drawn.

`gate/prices.py` makes these plans and nobody else; every plan carries the event that is charged for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    Selection,
    SelectionEvent,
    SmoothedEvent,
)
from maquette.queries.marginals import Binned
from maquette.questions.noise import Cube, Gaussian, IndependentLaw, Laplace, NoiseLaw
from maquette.questions.residuals import relative
from maquette.questions.rounding import sigma_of
from maquette.questions.tables import without_overlap
from maquette.samplers.noise import Noise

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """Noise that a price buys on numerators over `denominator`: its law in counts, and the event that is charged."""

    law: NoiseLaw
    event: Event
    denominator: int = 1

    def add(self, values: Counts, source: Noise) -> Counts:
        """Exact numerators plus this noise."""
        return add_noise(values, self.law, denominator=self.denominator, source=source)


def add_noise(values: Counts, law: NoiseLaw, *, denominator: int = 1, source: Noise) -> Counts:
    """Exact numerators over `denominator` plus noise of a law in counts: the one place where noise is drawn."""
    match law:
        case Laplace(scale=scale):
            return source.laplace(values, scale=scale * denominator)
        case Gaussian(sigma_squared=variance):
            return source.gaussian(values, sigma=sigma_of(variance * denominator**2))
        case Cube(base=base):
            return source.cube(values, base=base)


@dataclass(frozen=True, slots=True)
class ThresholdPlan:
    """Noise on counts of which only those at or above a public threshold are returned."""

    law: Gaussian
    event: Event
    threshold: int


@dataclass(frozen=True, slots=True)
class SelectionPlan:
    """A private choice: scores of sensitivity 1 divided by `scale`."""

    scale: float
    event: SelectionEvent


@dataclass(frozen=True, slots=True)
class ChoicePlan:
    """Several private choices in a row, each with scores divided by `scale`."""

    event: ComposedEvent
    scale: float
    method: Selection

    def choose(self, source: Noise, scores: Counts, tables: Sequence[Binned]) -> Counts:
        """Choose one after the other; a chosen table bars those that share two attributes with it.

        Which tables are barred follows from the released choices alone.
        """
        left = list(range(len(tables)))
        choices: list[int] = []
        for _ in self.event.events:
            if not left:
                break
            choices.append(left[source.select(scores[left], scale=self.scale, method=self.method)])
            left = without_overlap(tables, left, choices[-1])
        return np.array(choices, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The noise that the terms of an epoch buy (`questions/sparse.py`), and the event that is charged for it."""

    threshold_scale: Fraction
    test_scale: Fraction
    answer_noise: IndependentLaw | None
    event: Event


@dataclass(frozen=True, slots=True)
class VariancePlan:
    """One payment for several tables, each with noise of its own width."""

    event: Event
    widths: tuple[float, ...]
    """What the sampler gets: sigma, or the scale of Laplace noise."""
    variances: tuple[Fraction, ...]
    """Of the law's parameter: sigma squared, or twice the squared scale."""

    def draw(self, source: Noise, counts: Sequence[Counts]) -> list[Counts]:
        """Noise on every table."""
        if isinstance(self.event, (GaussianEvent, SmoothedEvent)):
            return [source.gaussian(c, sigma=s) for c, s in zip(counts, self.widths, strict=True)]
        return [source.laplace(c, scale=Fraction(s)) for c, s in zip(counts, self.widths, strict=True)]


@dataclass(frozen=True, slots=True)
class ResidualPlan:
    """Noise for the tables of margins, and what is made of each: its sizes and the axes that lose their means."""

    noise: VariancePlan
    sizes: tuple[tuple[int, ...], ...]
    axes: tuple[tuple[int, ...], ...]

    def draw(self, source: Noise, counts: Sequence[Counts]) -> list[Counts]:
        """Noise on every table; what is returned and stored of it is the part without the means that are removed."""
        shaped = zip(self.noise.draw(source, counts), self.sizes, self.axes, strict=True)
        return [relative(noisy.reshape(shape), axes) for noisy, shape, axes in shaped]


@dataclass(frozen=True, slots=True)
class Pricing:
    """Weights base(y) * decay**level(y) of a draw, and the event that pays for them."""

    epsilon: Fraction
    decay: Fraction
    event: Event
