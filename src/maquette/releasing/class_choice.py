"""Which classes of questions a release certifies where nobody names any: decided from public numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from maquette.domain import Domain
from maquette.mechanisms import sizing
from maquette.mechanisms.base import ClassForecast, Mechanism, Prepared
from maquette.queries.base import Margin, Queries, Sensitivity
from maquette.questions.classes import CLASSES, MAX_CELLS, SMALL, cells_of
from maquette.questions.measurement import Size
from maquette.questions.noise import law_at
from maquette.releasing.certify import beta_for_noise, share_of_beta
from maquette.releasing.request import Request
from maquette.results.distribution import marginal_places

RELATIVE = "relative"
SMALL_PAIRS = "two attributes with a small one"
USEFUL = 0.25
"""A class is certified by itself where the bound is expected to be below this."""
PAYS = 2 / 3
"""Tables have bounds of their own where that of half of them is expected to be below this part of the bound of all."""
MANY = 40
"""Pairs with an attribute of few cells have a bound of their own where two attributes have at least so many: those
are off by more (`python -m benchmarks class_certificates`; `python -m benchmarks.class_forecasts` for smaller ones)."""

# Constants of the typical errors over classes, fitted to generated tables (`python -m benchmarks.class_forecasts`): the
# logarithm of the largest error is linear in 1, the logarithm of the cells of the largest attribute and that of the
# largest error that is expected over the workload's cells.
TYPICAL = {
    "one attribute": (-1.432, 0.617, 0.893),
    "one small attribute": (-1.349, 0.689, 0.927),
    "two attributes": (-0.516, 0.263, 0.906),
    "two attributes with a small one": (-0.463, 0.214, 0.903),
    "three attributes": (-0.413, 0.38, 0.92),
    "two ranges": (-0.888, 0.509, 0.879),
}
DEFAULT = (
    "one attribute",
    "two attributes",
    SMALL_PAIRS,
    "three attributes",
    "two ranges",
    RELATIVE,
)
"""Classes that are certified by default, where they are expected to say something."""
WITHIN = (0.53, 2.46)
"""Nine of ten generated tables that were not fitted have a largest error between these multiples of the typical one."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Classes of questions that can be bought for a price beside what a mechanism does. Public inputs only."""

    queries: Queries
    prepared: Prepared
    price: Fraction
    is_workload_certified: bool

    def useful(self) -> tuple[str, ...]:
        """The classes that are certified by default: those whose bound is expected to say something.

        Only of mechanisms whose answers are the tables of rows in the number of the records.
        """
        if not self.prepared.mechanism.traits.answers_from_rows:
            return ()
        forecasts = {one.name: one.expected or 0.0 for one in self.forecasts(default_classes(self.queries))}
        useful = [name for name, error in forecasts.items() if error < USEFUL]
        if RELATIVE in useful and forecasts[RELATIVE] > PAYS * max(
            forecasts.get(name, 0.0) for name in CLASSES[RELATIVE].parts
        ):
            useful.remove(RELATIVE)
        return tuple(useful)

    def forecasts(self, names: Sequence[str]) -> tuple[ClassForecast, ...]:
        """What certificates of these classes are expected to state, if all of them are bought.

        The typical largest error over the class, and what the noise of its measurement may hide.
        """
        task, n = self.prepared.task, self.prepared.n
        if not names or not self.price:
            return ()
        vector = Sensitivity(Fraction(len(names)), Fraction(len(names)), Fraction(1))
        certificates = len(names) + self.is_workload_certified
        each = share_of_beta(task.beta, certificates)
        beta = beta_for_noise(each, certificates, public=sizing.size_is_public(task))
        margin = law_at(self.price, vector, unit=task.unit).lower_quantile(beta=beta)
        return tuple(
            ClassForecast(
                name,
                CLASSES[name].says + (", half of these" if CLASSES[name].parts else ""),
                None if (error := self._typical(name)) is None else min(1.0, error + margin / n),
            )
            for name in names
        )

    def _typical(self, name: str) -> float | None:
        """The largest error that is typical of a class; None where nothing is known of it."""
        expected = self.prepared.forecast.expected
        if not expected or not self.prepared.mechanism.traits.answers_from_rows:
            return None
        sizes = _sizes(self.queries)
        if (
            name == RELATIVE
        ):  # half of the tables are off by what an attribute of middle size as the largest makes
            part = next(one for one in ("two ranges", "one attribute") if _reaches(self.queries, one))
            return typical_error(part, cells=round(statistics.median(sizes)), expected=expected)
        if name not in TYPICAL:
            return None
        cells = [cells for cells in sizes if cells <= CLASSES[name].max_cells]
        return typical_error(name, cells=max(cells, default=1), expected=expected)


def typical_error(name: str, *, cells: int, expected: float) -> float:
    """The largest error over a class where the largest attribute has so many cells, as a fraction of the records.

    `expected` is the largest error over the workload's cells that is typical.
    """
    constant, by_cells, by_expected = TYPICAL[name]
    return math.exp(constant + by_cells * math.log(cells) + by_expected * math.log(expected))


def useful_classes(request: Request, prepared: Prepared) -> tuple[str, ...]:
    """The classes that are certified by default on a table of about `prepared.n` records.

    A number of rows that was asked for, weights and classes asked for by name decide otherwise.
    """
    if request.classes is not None or request.rows is not None or request.weight is not None:
        return ()
    price = replace(request, bought=default_classes(request.queries)).class_price
    return Offer(request.queries, prepared, price, is_workload_certified=bool(request.prices[1])).useful()


def are_classes_useful(request: Request, mechanism: Mechanism, *, size: Size) -> bool:
    """Are classes of questions certified, now that the number of records is released? Those asked for by name are.

    Others are only if one of them is expected to say something about so many records. The number is released before
    anything is measured about the answers, so the choice tells nothing more.
    """
    if request.classes is not None or size.public or not request.bought:
        return True
    return bool(useful_classes(request, mechanism.prepare(request.task, n=size.divisor)))


def default_classes(queries: Queries) -> tuple[str, ...]:
    """The classes that a workload of marginals answers with its own tables: public structure only."""
    sets = tuple(marginal_places(queries))
    able = [name for name in DEFAULT if _reaches(queries, name)]
    sizes = sorted(_sizes(queries))
    if max(sizes, default=0) <= SMALL and RELATIVE in able:
        able.remove(RELATIVE)  # tables of such attributes are off by much the same
    if SMALL_PAIRS in able and not (sizes[0] <= CLASSES[SMALL_PAIRS].smallest and sizes[-2] >= MANY):
        able.remove(SMALL_PAIRS)
    return tuple(name for name in able if can_be_certified(queries.domain, name, sets))


def _reaches(queries: Queries, name: str) -> bool:
    """Have the marginals of a workload as many attributes as the questions of a class?"""
    return CLASSES[name].order <= max(map(len, marginal_places(queries)), default=0)


def _sizes(queries: Queries) -> list[int]:
    return [queries.domain[name].size for name in queries.attributes]


def can_be_certified(domain: Domain, name: str, sets: Sequence[Margin]) -> bool:
    """Has a class tables here, and few enough cells?"""
    tables = CLASSES[name].tables(domain, sets)
    return bool(tables) and cells_of(domain, tables) <= MAX_CELLS
