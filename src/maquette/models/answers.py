"""Small databases: the answers that are read off their rows, and rows out of weights on cells.

The last part reads stored models, which a stranger may have written: everything has its declared type, shape and range.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.answers import Answers
from maquette.core.attribute import Attribute
from maquette.core.binned import Binned
from maquette.core.laws import Gaussian, IndependentLaw, Laplace
from maquette.core.measurement import Size
from maquette.domain import Domain
from maquette.errors import ReleaseError
from maquette.queries import condition
from maquette.queries.base import Queries, TableQueries
from maquette.queries.marginals import MAX_PIECE_QUERIES, pieces
from maquette.queries.predicates import SetQueries
from maquette.queries.rows import MAX_ANSWERS, Margin, check_size
from maquette.queries.weights import Weights

if TYPE_CHECKING:
    import pyarrow


class Unlisted(Answers):
    """Answers of a small database to a class too large to list: each is read from the rows when it is asked for."""

    __slots__ = ()

    def __init__(self, denominator: int) -> None:
        super().__init__(np.zeros(0, dtype=np.int64), denominator)

    @property
    def fractions(self) -> NDArray[np.float64]:
        raise ReleaseError(
            "this class has too many queries to list their answers: ask for single ones with release.answer(...), or "
            "count on release.rows"
        )


@dataclass(frozen=True, slots=True, eq=False)
class SmallDatabase:
    """Coded rows that stand for the table: the maquette. Columns by attribute name, all of length `m`."""

    columns: dict[str, NDArray[Any]]

    @property
    def m(self) -> int:
        return len(next(iter(self.columns.values())))

    @checks_arguments
    def answer(self, queries: Queries) -> Answers:
        """Exact fractions of the rows."""
        check_size(queries.count)
        denominator = queries.denominator * max(self.m, 1)
        long = queries.count > MAX_PIECE_QUERIES and denominator < 2**31
        numerators = np.empty(queries.count, dtype=np.int32 if long else np.int64)
        for start, piece in pieces(queries):
            place = numerators[start : start + piece.count]
            factor = queries.denominator // piece.denominator
            np.multiply(piece.on_rows(self.columns), factor, out=place, casting="unsafe")
        return Answers(numerators, denominator)

    @checks_arguments
    def answer_all(self, queries: Queries) -> Answers:
        """The same, or answers on demand where there are too many to list."""
        if queries.count > MAX_ANSWERS:
            return Unlisted(queries.denominator * max(self.m, 1))
        return self.answer(queries)


# Which attributes a release says something about: those that its measurements look at, from public
# structure alone.


def measured_together(workload: Queries, tables: Iterable[Margin] = ()) -> frozenset[Margin]:
    """Every set of attributes that some measurement looked at together.

    Those of the workload's queries, which every mechanism measures or fits; and `tables` that were measured beside
    them.
    """
    return frozenset(tables).union(margin for part in workload.classes for margin in _sets(part))


def only(database: SmallDatabase | None, names: Margin) -> SmallDatabase | None:
    """The same rows with these columns alone; None if none is left."""
    if database is None or set(database.columns) <= set(names):
        return database
    columns = {name: codes for name, codes in database.columns.items() if name in names}
    return SmallDatabase(columns) if columns else None


def answer_from(database: SmallDatabase, queries: Queries) -> Answers:
    """The rows' answers to queries that depend on no other attribute than those of the rows."""
    free = [name for name in queries.attributes if name not in database.columns]
    if not free:
        return database.answer(queries)
    return SmallDatabase(database.columns | dict.fromkeys(free, np.zeros(database.m, np.uint8))).answer(
        queries
    )


def _sets(part: Queries) -> Iterator[Margin]:
    """The sets of attributes that the queries of a plain class look at."""
    if isinstance(part, Weights):
        yield _varied(part)
    elif isinstance(part, SetQueries):
        yield from (condition.attributes(part.domain, one) for one in part.conditions)
    elif isinstance(part, TableQueries) and part.count <= MAX_ANSWERS:
        yield from part.margins
    else:
        yield part.attributes


def _varied(part: Weights) -> Margin:
    """The attributes that change the weight of some query; a constant query says nothing about any."""
    table = part.numerators.reshape(part.count, *(part.domain[name].size for name in part.over))
    firsts = (table.take([0], axis=axis) for axis in range(1, table.ndim))
    return tuple(name for name, first in zip(part.over, firsts, strict=True) if np.any(table != first))


# Whole rows out of weights on cells: by largest remainders, or drawn. Post-processing: it costs nothing.


def generator(key: str) -> np.random.Generator:
    """Randomness for post-processing, the same for the same key: a repeated request gives the same rows.

    It is nobody's secret and takes no part in any guarantee.
    """
    return np.random.default_rng(np.frombuffer(hashlib.sha256(key.encode()).digest(), dtype=np.uint32))


def uniform_codes(rng: np.random.Generator, size: int, shape: int | tuple[int, int]) -> NDArray[Any]:
    """Codes of an attribute with so many cells, all equally likely."""
    # the type decides which codes are drawn: sessions that are stored go on with theirs
    return rng.integers(0, size, shape, dtype=np.uint32 if size <= 2**32 else np.uint64)


def largest_remainder(weights: NDArray[Any], m: int) -> NDArray[np.int64]:
    """Whole counts that add up to m and differ from m times the normalised weights by less than one each.

    Accuracy: no fraction changes by more than floor(N/2) ceil(N/2) / (N m), N the cells of positive weight.
    """
    _check.whole(m=m)
    flat = _normalised(weights)
    if not flat.any():  # nothing to go by: as even as possible
        flat = np.full(len(flat), 1 / len(flat))
    exact = flat * m
    counts = np.floor(exact)
    missing = m - int(counts.sum())
    if missing > 0:
        remainders = np.where(flat > 0, exact - counts, -1.0)
        # a stable order, so that ties do not depend on the sorting method
        chosen = np.argsort(-remainders, kind="stable")[:missing]
        counts[chosen] += 1
    return counts.astype(np.int64).reshape(np.shape(weights))


def systematic(weights: NDArray[Any], m: int) -> NDArray[np.int64]:
    """Whole counts that add up to m, by rounding the running total: every run of cells is kept to within one row.

    Accuracy: a query that counts r runs of consecutive cells changes by at most r / m. Unlike largest remainders it
        does not starve regions of many light cells.
    """
    _check.whole(m=m)
    flat = _normalised(weights)
    if not flat.any():
        flat = np.full(len(flat), 1 / len(flat))
    reached = np.floor(np.cumsum(flat) * m + 0.5)
    reached[-1] = m
    counts = np.diff(np.minimum(reached, m), prepend=0.0)
    return counts.astype(np.int64).reshape(np.shape(weights))


def even_steps(weights: NDArray[Any], m: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
    """m cells, flat, at even steps through the running total of the weights, from a random start.

    Accuracy: a query that counts r runs of consecutive cells changes by at most r / m.
    """
    running = np.cumsum(weights)
    marks = (np.arange(m) + rng.random()) / m * running[-1]
    return np.minimum(np.searchsorted(running, marks, side="right"), running.size - 1).astype(np.int64)


def database(domain: Domain, attributes: Margin, counts: NDArray[np.int64]) -> SmallDatabase:
    """Rows over some attributes from how often each of their cells occurs, in the order of the cells."""
    sizes = tuple(domain[name].size for name in attributes)
    cells = np.repeat(np.arange(math.prod(sizes)), np.asarray(counts).ravel())
    codes = np.unravel_index(cells, sizes) if sizes else ()
    return SmallDatabase(
        {
            name: code.astype(np.min_scalar_type(size - 1))
            for name, size, code in zip(attributes, sizes, codes, strict=True)
        }
    )


def _normalised(weights: NDArray[Any]) -> NDArray[np.float64]:
    flat = np.maximum(np.asarray(weights, dtype=np.float64).ravel(), 0.0)
    total = flat.sum()
    return flat / total if total > 0 else flat


LARGEST = 10**300
"""Numbers up to here fit a float, and so do their inverses."""
MAX_BINS = 2**28
"""Bins of one table."""
_EXACT = re.compile(r"-?[0-9]{1,4000}(/0*[1-9][0-9]{0,4000})?")
_LAWS: dict[str, tuple[type[IndependentLaw], str, str]] = {
    "laplace": (Laplace, "epsilon", "scale"),
    "gaussian": (Gaussian, "rho", "sigma_squared"),
}


def law_of(data: object) -> IndependentLaw:
    """A law of independent noise from its form in a release file: exact numbers as texts."""
    fields = _object(data, "a law of noise")
    law, price, parameter = _LAWS.get(str(fields.get("law")), (None, "", ""))
    if law is None or set(fields) != {"law", price, parameter}:
        raise ReleaseError("the release states noise of an unknown law")
    amount, width = _fraction(fields[price]), _fraction(fields[parameter])
    if amount is None or amount < 0:
        raise ReleaseError("the release states noise without a price")
    if width is None or width <= 0:
        raise ReleaseError("the release states noise of width 0")
    return law(amount, width)


def size_of(data: object) -> Size:
    """The number of records of a model: public, or with noise of a stated width."""
    fields = _object(data, "the size of a model")
    noise = None if fields.get("noise") is None else law_of(fields["noise"])
    return Size(whole(fields.get("value"), least=-LARGEST), noise, None)


def margin_of(domain: Domain, names: object) -> Margin:
    """Distinct attributes of the domain."""
    margin = tuple(_list(names, "a set of attributes"))
    if len(set(map(str, margin))) < len(margin) or any(name not in domain.names for name in margin):
        raise ReleaseError("the model is over attributes that the domain does not have")
    return cast("Margin", margin)


def table_of(arrays: Mapping[str, NDArray[Any]], name: str, shape: Sequence[int]) -> NDArray[Any]:
    """An array of finite numbers of this shape."""
    table = arrays.get(name)
    if table is None or table.shape != tuple(shape) or not np.isfinite(table).all():
        raise ReleaseError(f"the model has no array '{name}' of finite numbers in the shape that it declares")
    return table


def amounts_of(values: object, count: int, *, positive: bool = False) -> list[float]:
    """So many finite numbers that are not negative."""
    numbers = _list(values, "a list of numbers")
    if len(numbers) != count:
        raise ReleaseError(f"the model declares {len(numbers):,} numbers where {count:,} belong")
    return [amount(value, positive=positive) for value in numbers]


def amount(value: Any, *, positive: bool = False, signed: bool = False) -> float:
    """One finite number."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not plain or not math.isfinite(value) or abs(value) > LARGEST:
        raise ReleaseError(f"the model holds {value!r:.80} in the place of a number")
    if not signed and (value < 0 or (positive and value < 1 / LARGEST)):
        raise ReleaseError("the model holds a number that is too small in the place of a variance")
    return float(value)


def whole(value: object, *, least: int) -> int:
    """One whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
        raise ReleaseError(f"the model holds {value!r:.80} in the place of a whole number")
    return value


def binned_of(domain: Domain, named: object) -> tuple[Binned, tuple[int, ...] | None]:
    """A table in bins that is a partition of the universe, and the group of every bin where groups were counted.

    Groups are in releases of earlier versions alone; they are stored as runs of bins.
    """
    parts = _list(named, "a table in bins")
    if len(parts) not in (2, 3):
        raise ReleaseError("the model holds a table in bins of an unknown form")
    cuts = tuple(
        tuple(whole(start, least=0) for start in _list(cut, "cuts")) for cut in _list(parts[1], "cuts")
    )
    table = Binned(margin_of(domain, parts[0]), cuts)
    if table.cells > MAX_BINS:
        raise ReleaseError("the model holds a table of too many bins")
    table.check(domain)
    if len(parts) == 2:
        return table, None
    runs = [[whole(n, least=0) for n in _list(run, "groups")] for run in _list(parts[2], "groups")]
    if any(len(run) != 2 for run in runs) or sum(run[1] for run in runs) != table.cells:
        raise ReleaseError("the model holds groups that do not fit their bins")
    groups = tuple(group for group, times in runs for _ in range(times))
    if (used := set(groups)) != set(range(len(used))):
        raise ReleaseError("the model holds groups that are not numbered from 0 without gaps")
    return table, groups


def _fraction(text: object) -> Fraction | None:
    if text is None:
        return None
    if not isinstance(text, str) or not _EXACT.fullmatch(text):
        raise ReleaseError(f"the release states {text!r:.80} in the place of an exact number")
    value = Fraction(text)
    if abs(value) > LARGEST or (value and abs(value) < Fraction(1, LARGEST)):
        raise ReleaseError("the release states noise whose size is out of range")
    return value


def _object(data: object, what: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ReleaseError(f"expected {what} as an object, got {type(data).__name__}")
    return cast("dict[str, Any]", data)


def _list(data: object, what: str) -> list[Any]:
    if not isinstance(data, list):
        raise ReleaseError(f"expected {what} as a list, got {type(data).__name__}")
    return cast("list[Any]", data)


def decode(
    domain: Domain, database: SmallDatabase, *, rng: np.random.Generator | None = None
) -> pyarrow.Table:
    """Real values for every column that the rows have, in the order of the domain; missing cells become nulls."""
    import pyarrow

    attributes = [attribute for attribute in domain if attribute.name in database.columns]
    arrays = [_column(attribute, database.columns[attribute.name], rng) for attribute in attributes]
    return pyarrow.Table.from_arrays(arrays, names=[attribute.name for attribute in attributes])


def _column(attribute: Attribute, codes: NDArray[Any], rng: np.random.Generator | None) -> pyarrow.Array:
    import pyarrow

    values, missing = attribute.decode(codes, how="midpoint" if rng is None else "uniform", rng=rng)
    if values.dtype == object and len({type(c) for c in attribute.categories or ()}) > 1:
        values = np.array([str(v) for v in values], dtype=object)  # Arrow columns have one type
    return pyarrow.array(values, mask=missing, from_pandas=False)
