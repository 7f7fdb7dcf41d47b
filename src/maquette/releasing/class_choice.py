"""Which classes of questions a release certifies where nobody names any: decided from public numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from maquette.domain import Domain
from maquette.mechanisms import sizing
from maquette.mechanisms.base import Mechanism, Prepared
from maquette.queries.base import Margin, Queries, Sensitivity
from maquette.questions.classes import CLASSES, MAX_CELLS, cells_of
from maquette.questions.measurement import Size
from maquette.questions.noise import law_at
from maquette.releasing.certify import share_of_beta
from maquette.releasing.request import Request
from maquette.results.distribution import marginal_places

USEFUL = 0.25
"""A class is certified by itself where the bound is expected to be below this."""
_TYPICAL = {
    "one attribute": 3.0,
    "two attributes": 1.8,
    "three attributes": 2.1,
    "two ranges": 3.5,
}
"""The largest error over a class as a multiple of that over the workload's cells, about
(`python -m benchmarks class_certificates`). These classes are certified by default."""


def useful_classes(request: Request, prepared: Prepared) -> tuple[str, ...]:
    """The classes that are certified by default on a table of about `prepared.n` records.

    Those of releases whose answers are the tables of rows in the number of the records, where the bound is expected to
    say something: a number of rows that was asked for, weights and classes asked for by name decide otherwise.
    """
    asked_otherwise = request.classes is not None or request.rows is not None or request.weight is not None
    if asked_otherwise or not prepared.mechanism.traits.answers_from_rows:
        return ()
    return tuple(name for name, error in forecast_classes(request, prepared).items() if error < USEFUL)


def are_classes_useful(request: Request, mechanism: Mechanism, *, size: Size) -> bool:
    """Are classes of questions certified, now that the number of records is released? Those asked for by name are.

    Others are only if one of them is expected to say something about so many records. The number is released before
    anything is measured about the answers, so the choice tells nothing more.
    """
    if request.classes is not None or size.public or not request.bought:
        return True
    return bool(useful_classes(request, mechanism.prepare(request.task, n=size.divisor)))


def forecast_classes(request: Request, prepared: Prepared) -> dict[str, float]:
    """What certificates of the usual classes are expected to state, if all of them are bought.

    The typical largest error over the class, and what the noise of its measurement may hide.
    """
    names, forecast, n = default_classes(request.queries), prepared.forecast, prepared.n
    price = replace(request, bought=names).class_price
    if forecast.expected is None or not names or not price:
        return {}
    each = Sensitivity(Fraction(len(names)), Fraction(len(names)), Fraction(1))
    beta = share_of_beta(request.beta, len(names) + 1) * (1 - sizing.SIZE_BETA)
    margin = law_at(price, each, unit=prepared.task.unit).lower_quantile(beta=beta)
    return {name: min(1.0, _TYPICAL[name] * forecast.expected + margin / n) for name in names}


def default_classes(queries: Queries) -> tuple[str, ...]:
    """The classes that a workload of marginals answers with its own tables: public structure only."""
    sets = tuple(marginal_places(queries))
    order = max(map(len, sets), default=0)
    able = [name for name in _TYPICAL if CLASSES[name].order <= order]
    return tuple(name for name in able if can_be_certified(queries.domain, name, sets))


def can_be_certified(domain: Domain, name: str, sets: Sequence[Margin]) -> bool:
    """Has a class tables here, and few enough cells?"""
    tables = CLASSES[name].tables(domain, sets)
    return bool(tables) and cells_of(domain, tables) <= MAX_CELLS
