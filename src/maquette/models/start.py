"""The hypothesis that a session starts from: dense where every cell fits, else weighted rows."""

from __future__ import annotations

from collections.abc import Iterable

from maquette.core import _check
from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.models.dense import Dense
from maquette.models.hypothesis import MAX_DENSE_CELLS, Hypothesis, Prior
from maquette.models.weighted import WeightedRows
from maquette.queries.rows import Margin


def hypothesis_for(
    domain: Domain,
    *,
    kind: str = "auto",
    attributes: Iterable[str] | None = None,
    prior: Prior | None = None,
) -> Hypothesis:
    """The start of a session over the attributes that may be asked about (or all): uniform, or from a `prior`.

    `dense` has a weight for every cell, up to 2^26 cells; `rows` has a few ten thousand weighted rows, for universes of
    any size; `auto` takes the first where it fits.
    """
    _check.one_of(("auto", "dense", "rows"), kind=kind)
    margin = chosen_margin(domain, attributes)
    cells = domain.cells(margin)
    if kind == "rows" or (kind == "auto" and cells > MAX_DENSE_CELLS):
        if prior is not None:
            return WeightedRows.starting(domain, margin, prior)
        return WeightedRows.uniform(domain, margin)
    if cells > MAX_DENSE_CELLS:
        raise ParameterError(
            f"the {cells:,} cells of {', '.join(margin)} are more than a dense hypothesis may have "
            f"({MAX_DENSE_CELLS:,}); use kind='rows' or fewer attributes"
        )
    return Dense.starting(domain, margin, prior)


def chosen_margin(domain: Domain, attributes: Iterable[str] | None) -> Margin:
    """The attributes that may be asked about, in the order of the domain; all of them for None."""
    names = set(domain.names if attributes is None else attributes)
    for name in names:
        domain[name]  # refuses an unknown attribute
    return tuple(name for name in domain.names if name in names)
