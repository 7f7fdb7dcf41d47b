"""Marginals: the count of every cell of tables over a few attributes."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations, groupby, product
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain, Relation
from maquette.errors import WorkloadError
from maquette.queries import canonical, names, sql
from maquette.queries.base import Columns, Group, Margin, Norms, Sensitivity, TableQueries
from maquette.queries.limits import check_index, check_whole

MOST_MARGINS = 10**6


@dataclass(frozen=True, slots=True)
class Marginals(TableQueries):
    """Every cell of every margin, margin after margin, the last attribute running fastest."""

    kind: ClassVar[str] = "marginals"
    domain: Domain
    margins: tuple[Margin, ...]  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        tidy = names.margins(self.domain, self.margins)
        if not tidy:
            raise WorkloadError("marginals need at least one set of attributes")
        if len(set(tidy)) < len(tidy):
            twice = next(m for m, group in groupby(sorted(tidy)) if len(list(group)) > 1)
            raise WorkloadError(f"the marginal over ({', '.join(twice)}) is asked twice")
        object.__setattr__(self, "margins", tidy)

    @property
    def count(self) -> int:
        return sum(self._sizes())

    @property
    def slices(self) -> dict[Margin, slice]:
        """Where the answers of each margin stand."""
        ends = [0, *accumulate(self._sizes())]
        return {m: slice(a, b) for m, a, b in zip(self.margins, ends, ends[1:], strict=False)}

    def distinct(self) -> int:
        """Attributes of one cell make no difference; the two cells of a binary attribute are complements."""
        return distinct_cells(self.domain, self.margins)

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """A record is in one cell of each margin; a replaced record leaves one and enters another."""
        if relation is Relation.ADD_REMOVE:
            moved, largest = len(self.margins), 1
        else:
            moved = 2 * sum(1 for size in self._sizes() if size > 1)
            largest = 1 if moved else 0
        return Sensitivity(Fraction(moved), Fraction(moved), Fraction(largest))

    @property
    def flat(self) -> bool:
        return True

    @property
    def spread(self) -> bool:
        return True

    @property
    def pair_cost(self) -> int:
        return sum(len(margin) for margin in self.margins)

    def columns_of(self, rows: Columns) -> NDArray[Any]:
        length = len(next(iter(rows.values())))
        columns = np.zeros((self.count, length), dtype=np.int8)
        for margin, place in self.slices.items():
            cell = np.zeros(length, dtype=np.int64)
            for name in margin:
                cell = cell * self.domain[name].size + rows[name]
            columns[place.start + cell, np.arange(length)] = 1
        return columns

    def norms(self, rows: Columns) -> Norms:
        length = len(next(iter(rows.values())))
        held = np.full(length, len(self.margins), dtype=np.int64)
        return Norms(held, held)

    def distances(self, left: Columns, right: Columns) -> Norms:
        equal = {a: left[a][:, None] == right[a] for a in self.attributes}
        shape = (len(next(iter(left.values()))), len(next(iter(right.values()))))
        moved = np.zeros(shape, dtype=np.int64)
        for margin in self.margins:
            same = np.ones(shape, dtype=bool)
            for name in margin:
                same &= equal[name]
            moved += 2 * ~same
        return Norms(moved, moved)

    def from_margins(self, tables: Mapping[Margin, NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([np.asarray(tables[margin]).ravel() for margin in self.margins])

    def query_keys(self) -> Iterator[canonical.Key | None]:
        sizes = canonical.sizes_of(self.domain)
        leaves = {a: [(a, ((c, c),)) for c in range(sizes[a])] for a in self.attributes}
        for margin in self.margins:
            cells = product(*(leaves[name] for name in margin))
            if sum(sizes[name] > 1 for name in margin) < 2:
                yield from (canonical.product_key(sizes, cell) for cell in cells)
            else:  # the same key, put together without looking at each set
                order = sorted(
                    (i for i, name in enumerate(margin) if sizes[name] > 1), key=margin.__getitem__
                )
                in_order = itemgetter(*order)
                yield from (("box", in_order(cell)) for cell in cells)

    def text(self, index: int) -> str:
        check_index(index, self.count)
        starts = [0, *accumulate(self._sizes())]
        which = bisect_right(starts, index) - 1
        margin = self.margins[which]
        codes = unravel(index - starts[which], [self.domain[name].size for name in margin])
        told = [sql.code_text(self.domain[name], code) for name, code in zip(margin, codes, strict=True)]
        return " AND ".join(told) or "TRUE"

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "margins": [list(margin) for margin in self.margins]}

    def groups(self) -> tuple[Group, ...]:
        """By order, as far as margins of one order stand together."""
        found: list[Group] = []
        start = 0
        sizes = dict(zip(self.margins, self._sizes(), strict=True))
        for order, members in groupby(self.margins, key=len):
            stop = start + sum(sizes[margin] for margin in members)
            found.append(Group(f"{order}-way marginals", start, stop))
            start = stop
        return tuple(found)

    def describe(self) -> str:
        orders = sorted({len(margin) for margin in self.margins})
        told = "- and ".join(str(order) for order in orders)
        return f"{len(self.margins):,} {told}-way marginals ({self.count:,} queries)"

    def _sizes(self) -> list[int]:
        sizes = {a.name: a.size for a in self.domain}
        return [math.prod(sizes[name] for name in margin) for margin in self.margins]


def marginals(
    domain: Domain,
    k: int | Iterable[int] | None = None,
    *,
    attributes: Iterable[Sequence[str]] | None = None,
) -> Marginals:
    """All k-way marginals (k a number or several), or the marginals over the given sets of attributes."""
    if (k is None) == (attributes is None):
        raise WorkloadError("marginals need either k, such as k=3, or attributes, such as [('age', 'sex')]")
    if attributes is not None:
        if isinstance(attributes, str):
            raise WorkloadError(f"expected a list of sets of attributes, got the text {attributes!r}")
        return Marginals(domain, names.margins(domain, attributes))
    assert k is not None
    orders = list(k) if isinstance(k, Iterable) else [k]
    for order in orders:
        _check_order(domain, order)
    chosen = [margin for order in orders for margin in combinations(domain.names, order)]
    return Marginals(domain, tuple(chosen))


def points(domain: Domain, attributes: Iterable[str] | None = None) -> Marginals:
    """Every cell of the universe once, or of the table over some attributes."""
    return Marginals(domain, (domain.names if attributes is None else names.margin(domain, attributes),))


def distinct_cells(domain: Domain, margins: Iterable[Margin]) -> int:
    """Cells of these margins after merging duplicates and complements and dropping constants."""
    sizes = {a.name: a.size for a in domain}
    reduced = {tuple(name for name in margin if sizes[name] > 1) for margin in margins}
    return sum(_distinct([sizes[name] for name in margin]) for margin in reduced)


def unravel(index: int, sizes: Sequence[int]) -> list[int]:
    """The digits of an index, the last running fastest; sizes may be of any length."""
    digits: list[int] = []
    for size in reversed(sizes):
        index, digit = divmod(index, size)
        digits.append(digit)
    return digits[::-1]


def _distinct(sizes: list[int]) -> int:
    return 0 if not sizes else 1 if sizes == [2] else math.prod(sizes)


def _check_order(domain: Domain, order: object) -> None:
    check_whole(order, least=0, most=len(domain), what="an order k (of so many attributes)")
    assert isinstance(order, int)
    if math.comb(len(domain), order) > MOST_MARGINS:
        raise WorkloadError(
            f"there are {math.comb(len(domain), order):,} marginals of order {order}, more than {MOST_MARGINS:,}; "
            "name the sets of attributes that matter"
        )
