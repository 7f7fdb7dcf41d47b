"""The small database: as an Arrow table of real values, and how far it lies from the released answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.domain.attribute import Attribute
from maquette.models.answers import Answers, SmallDatabase, Unlisted
from maquette.models.coverage import answer_from
from maquette.queries.base import Queries
from maquette.queries.pieces import pieces
from maquette.release.statements import RowsDistance

if TYPE_CHECKING:
    import pyarrow

    from maquette.release.release import Release


def decode(
    domain: Domain, database: SmallDatabase, *, rng: np.random.Generator | None = None
) -> pyarrow.Table:
    """Real values for every column that the rows have, in the order of the domain; missing cells become nulls."""
    import pyarrow

    held = [attribute for attribute in domain if attribute.name in database.columns]
    arrays = [_column(attribute, database.columns[attribute.name], rng) for attribute in held]
    return pyarrow.Table.from_arrays(arrays, names=[attribute.name for attribute in held])


def _column(attribute: Attribute, codes: NDArray[Any], rng: np.random.Generator | None) -> pyarrow.Array:
    import pyarrow

    values, missing = attribute.decode(codes, how="midpoint" if rng is None else "uniform", rng=rng)
    if values.dtype == object and len({type(c) for c in attribute.categories or ()}) > 1:
        values = np.array([str(v) for v in values], dtype=object)  # Arrow columns have one type
    return pyarrow.array(values, mask=missing, from_pandas=False)


def with_distance(release: Release) -> Release:
    """The same release, saying how far its rows lie from its answers, with a note where that is far."""
    if release.database is None:
        return release
    found = distance(release.workload, release.answers, release.database)
    stated = next(
        (b.alpha for b in (release.certificate, release.guarantee) if b is not None and b.alpha < 1), None
    )
    warning = found.warning(stated)
    notes = release.notes if warning is None else (*release.notes, warning)
    return replace(release, rows_distance=found, notes=notes)


def distance(workload: Queries, answers: Answers, database: SmallDatabase) -> RowsDistance:
    """The distance between counts of the rows and the released answers. Post-processing: it costs nothing."""
    if isinstance(answers, Unlisted) or not workload.count:
        return RowsDistance(0.0, 0.0)  # such answers are counted on the rows when they are asked for
    largest = total = 0.0
    for start, piece in pieces(workload):
        released = answers.numerators[start : start + piece.count] / answers.denominator
        gaps = np.abs(answer_from(database, piece).fractions - released)
        largest, total = max(largest, float(gaps.max())), total + float(gaps.sum())
    return RowsDistance(largest, total / workload.count)
