"""The small database as an Arrow table: codes to real values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.domain.attribute import Attribute
from maquette.models.answers import SmallDatabase

if TYPE_CHECKING:
    import pyarrow


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
