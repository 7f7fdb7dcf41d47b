"""SmallDB's counter for all intervals of one ordered attribute.

The error of an interval is the difference of two deviations, so the largest one is the range of D over all
boundaries. D has a range of at most T iff it stays in a window of width T; where the windows lie on a grid of step g
and are g wider, every such database is in one of them, and in few. So: pick a window with the mass of its band, draw
from the band, drop databases with a larger range, and keep the others with probability one over the number of
windows that hold them. Every database with a range of at most T then comes out with its base mass over the sum of
all windows' masses: what `Slices` asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from maquette.gate.draw.column import Band, Column, Places
from maquette.gate.draw.scale import Scale
from maquette.gate.draw.thresholds import Base, draw_from, mass_of_all, paths, quick_mass
from maquette.gate.draw.uniform import Uniform
from maquette.gate.draw.wide import FIRST_PRECISION, Wide, choose


@dataclass(slots=True, eq=False)
class Intervals:
    """Level: the range of D over the boundaries."""

    column: Column
    scale: Scale
    base: Base
    step: int
    """Levels between neighbouring windows: for speed only."""
    _quick: dict[int, list[Wide]] = field(default_factory=dict[int, list[Wide]], init=False)

    @property
    def top(self) -> int:
        return self.scale.level(self.column.n * self.scale.m)

    @property
    def start(self) -> int:
        return self.scale.level(self.column.n // 2)

    @property
    def acceptance(self) -> float:
        return 0.25

    @property
    def total(self) -> Wide:
        return Wide.whole(mass_of_all(self.column.size, self.scale.m, self.base))

    def mass(self, level: int, *, exact: bool) -> Wide:
        masses = self._masses(level, exact=exact)
        grid = max(w.exponent + w.high.bit_length() for w in masses) - 2 * FIRST_PRECISION
        exponent = min(w.exponent for w in masses) if exact else grid
        aligned = [w.at(exponent) for w in masses]
        return Wide(sum(w.low for w in aligned), sum(w.high for w in aligned), exponent)

    def draw(self, level: int, uniform: Uniform) -> Places | None:
        def weights(precision: int) -> list[Wide]:
            return self._masses(level, exact=precision > FIRST_PRECISION)

        low = self._lows(level)[choose(uniform, weights)]
        width = self._width(level)
        band = self._band(low, width)
        assert band is not None
        places = paths(band, self.base).draw(uniform)
        least, most = self.column.deviations(places, self.scale.m)
        if most - least > self.scale.deviation(level):
            return None
        gap = self._gap()
        windows = (
            least // gap - -((width - most) // gap) + 1
        )  # multiples of the gap from most - width to least
        return None if uniform.below(windows) else places

    def draw_any(self, uniform: Uniform) -> Places:
        return draw_from(self.column.size, self.scale.m, self.base, uniform)

    def level(self, small: Places) -> int:
        least, most = self.column.deviations(small, self.scale.m)
        return self.scale.level(most - least)

    def _gap(self) -> int:
        return max(self.scale.deviation(self.step), 1)

    def _width(self, level: int) -> int:
        return self.scale.deviation(level) + self._gap()

    def _lows(self, level: int) -> list[int]:
        """The lower ends of all windows that hold 0, where every D starts."""
        gap = self._gap()
        return list(range(-(self._width(level) // gap) * gap, 1, gap))

    def _band(self, low: int, width: int) -> Band | None:
        return self.column.band(self.scale.m, low, low + width)

    def _masses(self, level: int, *, exact: bool) -> list[Wide]:
        if exact:
            return [self._mass(low, level, exact=True) for low in self._lows(level)]
        if level not in self._quick:
            self._quick[level] = [self._mass(low, level, exact=False) for low in self._lows(level)]
        return self._quick[level]

    def _mass(self, low: int, level: int, *, exact: bool) -> Wide:
        band = self._band(low, self._width(level))
        if band is None:
            return Wide(0, 0)
        quick = None if exact else quick_mass(band, self.base)
        return Wide.whole(paths(band, self.base).count) if quick is None else quick
