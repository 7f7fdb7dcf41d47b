"""SmallDB's counter for all thresholds of one ordered attribute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from maquette.gate.draw.column import Band, Column, Places
from maquette.gate.draw.flat import FLAT, FlatPaths
from maquette.gate.draw.quick import flat_mass, tree_mass
from maquette.gate.draw.scale import Scale
from maquette.gate.draw.tree import TreePaths, height, place_rows, whole_mass
from maquette.gate.draw.uniform import Uniform
from maquette.gate.draw.wide import Wide

Base = Literal["tree", "flat", "sequence"]


class Paths(Protocol):
    """The databases of one band: how much they weigh together, and one of them."""

    @property
    def count(self) -> int: ...

    def draw(self, uniform: Uniform) -> Places: ...


def paths(band: Band, base: Base) -> Paths:
    """Count a band under a base."""
    return TreePaths(band) if base == "tree" else FlatPaths.of(band, FLAT[base])


def quick_mass(band: Band, base: Base) -> Wide | None:
    """Quick bounds of what `paths(band, base).count` would be, or None."""
    match base:
        case "tree":
            return tree_mass(band, 2 * band.m * height((0, band.size)))
        case "flat":
            return flat_mass(band)
        case "sequence":
            return None


def mass_of_all(size: int, m: int, base: Base) -> int:
    """The base mass of all databases, in the unit of `Paths.count`."""
    return whole_mass(size, m) if base == "tree" else FLAT[base].total(size, m)


def draw_from(size: int, m: int, base: Base, uniform: Uniform) -> Places:
    """A database from the base."""
    if base != "tree":
        return FLAT[base].places(size, m, uniform)
    places: Places = []
    place_rows((0, size), m, uniform, places)
    return places


@dataclass(slots=True, eq=False)
class Thresholds:
    """Level: the largest |D| over the thresholds."""

    column: Column
    scale: Scale
    base: Base
    _last: tuple[int, Paths] | None = field(default=None, init=False)

    @property
    def top(self) -> int:
        return self.scale.level(self.column.n * self.scale.m)

    @property
    def start(self) -> int:
        # m rows cannot follow n distinct records more closely than half a row
        return self.scale.level(self.column.n // 4)

    @property
    def acceptance(self) -> float:
        return 0.15 if self.base == "sequence" else 0.7

    @property
    def total(self) -> Wide:
        return Wide.whole(mass_of_all(self.column.size, self.scale.m, self.base))

    def mass(self, level: int, *, exact: bool) -> Wide:
        quick = None if exact else self._quick(level)
        if quick is not None:
            return quick
        found = self._paths(level)
        return Wide.whole(0 if found is None else found.count)

    def draw(self, level: int, uniform: Uniform) -> Places:
        found = self._paths(level)
        assert found is not None
        return found.draw(uniform)

    def draw_any(self, uniform: Uniform) -> Places:
        return draw_from(self.column.size, self.scale.m, self.base, uniform)

    def level(self, small: Places) -> int:
        low, high = self.column.deviations(small, self.scale.m)
        return self.scale.level(max(-low, high))

    def _band(self, level: int) -> Band | None:
        reach = self.scale.deviation(level)
        return self.column.band(self.scale.m, -reach, reach)

    def _quick(self, level: int) -> Wide | None:
        band = self._band(level)
        return Wide(0, 0) if band is None else quick_mass(band, self.base)

    def _paths(self, level: int) -> Paths | None:
        if self._last is None or self._last[0] != level:
            band = self._band(level)
            if band is None:
                return None
            self._last = (level, paths(band, self.base))
        return self._last[1]
