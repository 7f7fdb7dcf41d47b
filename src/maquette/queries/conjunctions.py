"""Conjunctions of a few binary attributes: x = 1 and y = 1 and ..., or with either value of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.core import forms
from maquette.core._arguments import checks, checks_arguments
from maquette.core.forms import Sensitivity
from maquette.core.lattice import MAX_CUBE, conjunction_counts
from maquette.domain import Domain, Relation
from maquette.errors import WorkloadError
from maquette.queries import condition, names
from maquette.queries.base import TableQueries
from maquette.queries.marginals import unravel
from maquette.queries.rows import MAX_ANSWERS, Columns, Margin, Norms, check_index, check_size, check_whole


@dataclass(frozen=True, slots=True, repr=False)
class Conjunctions(TableQueries):
    """All conjunctions of 1 .. width attributes with two declared cells each; narrow ones first.

    Positive conjunctions ask for the second cell of every attribute; with `literals` every combination of cells is
    asked. A record in a null or overflow cell of an attribute satisfies neither value of it.
    """

    kind: ClassVar[str] = "conjunctions"
    domain: Domain
    width: int
    literals: bool
    over: Margin

    def __post_init__(self) -> None:
        over = names.margin(self.domain, self.over)
        wide = [name for name in over if self.domain[name].cells != 2]
        if wide:
            raise WorkloadError(
                f"conjunctions need attributes of two declared cells, but '{wide[0]}' has {self.domain[wide[0]].cells}"
            )
        if not over:
            raise WorkloadError(
                "conjunctions need at least one attribute of two declared cells; there is none"
            )
        check_whole(self.width, least=1, most=len(over), what="a width (of so many binary attributes)")
        object.__setattr__(self, "over", over)

    @property
    def attributes(self) -> Margin:
        return self.over

    @property
    def margins(self) -> tuple[Margin, ...]:
        """The widest tables, off which narrower conjunctions are read; or one over all attributes, if it is smaller."""
        if self.is_one_table:
            return (self.over,)
        if math.comb(len(self.over), self.width) * 2**self.width > MAX_ANSWERS:
            raise WorkloadError(
                f"{self.count:,} conjunctions of up to {self.width} of {len(self.over)} attributes are too many to be "
                f"counted at once; ask narrower ones, or tables such as marginals:2 with rows, which answer every "
                "conjunction and certify combinations of values of as many columns as their plan says"
            )
        return tuple(combinations(self.over, self.width))

    @property
    def count(self) -> int:
        return sum(self._sizes())

    def distinct(self) -> int:
        """The two values of one attribute are complements, unless it has a null or overflow cell."""
        closed = sum(1 for name in self.over if self.domain[name].size == 2)
        return self.count - (closed if self.literals else 0)

    @checks_arguments
    def sensitivity(self, relation: Relation) -> Sensitivity:
        """A record with all second cells satisfies one conjunction per set of attributes, its opposite another."""
        distance = sum(math.comb(len(self.over), j) for j in range(1, self.width + 1))
        if relation is Relation.REPLACE_ONE and self.literals:
            distance *= 2
        return Sensitivity(Fraction(distance), Fraction(distance), Fraction(1))

    @property
    def flat(self) -> bool:
        return self.literals and all(self.domain[name].size == 2 for name in self.over)

    @property
    def spread(self) -> bool:
        return True

    @property
    def pair_cost(self) -> int:
        return len(self.over)

    def columns_of(self, rows: Columns) -> NDArray[Any]:
        has = {(name, code): rows[name] == code for name in self.over for code in self._values}
        return np.array(
            [
                np.all([has[literal] for literal in zip(chosen, codes, strict=True)], axis=0)
                for chosen in self._chosen()
                for codes in product(self._values, repeat=len(chosen))
            ],
            dtype=np.int8,
        )

    def norms(self, rows: Columns) -> Norms:
        fits = [rows[name] < 2 if self.literals else rows[name] == 1 for name in self.over]
        counts = self._sets_within(np.sum(fits, axis=0))
        return Norms(counts, counts)

    def distances(self, left: Columns, right: Columns) -> Norms:
        agree = np.zeros((), dtype=np.int64)
        for name in self.over:
            mine, other = left[name][:, None], right[name]
            agree = agree + ((mine == other) & ((mine < 2) if self.literals else (mine == 1)))
        distance = self.norms(left).l1[:, None] + self.norms(right).l1 - 2 * self._sets_within(agree)
        return Norms(distance, distance)

    def from_margins(self, tables: Mapping[Margin, NDArray[Any]]) -> NDArray[Any]:
        if self.is_one_table:
            return conjunction_counts(np.asarray(tables[self.over]), self._values, self.width)
        answers: list[NDArray[Any]] = []
        for chosen in self._chosen():
            widest = self._containing(chosen)
            gone = tuple(axis for axis, name in enumerate(widest) if name not in chosen)
            table = np.asarray(tables[widest]).sum(axis=gone)
            cells = table[(slice(0, 2) if self.literals else slice(1, 2),) * len(chosen)]
            answers.append(cells.ravel())
        return np.concatenate(answers)

    @property
    def is_one_table(self) -> bool:
        """Are all of them read off one table over all attributes, because the widest ones together are no smaller?"""
        cells = math.prod(max(self.domain[name].size, len(self._values) + 1) for name in self.over)
        widest = math.comb(len(self.over), self.width) * 2**self.width
        return cells <= MAX_CUBE and (self.width == len(self.over) or cells <= widest)

    def form(self) -> forms.Tables | forms.Conjunctions:
        """The cells of every set of attributes whose codes are 0 and 1, or all 1."""
        if self.is_one_table:
            return forms.Conjunctions(self.over, self._values, self.width)
        check_size(self.count)
        chosen = tuple(self._chosen())
        cells: list[NDArray[np.int64]] = []
        for names_ in chosen:
            shape = tuple(self.domain[name].size for name in names_)
            codes = np.indices([len(self._values)] * len(names_)).reshape(len(names_), -1) + self._values[0]
            cells.append(np.ravel_multi_index(tuple(codes), shape).astype(np.int64))
        return forms.Tables(chosen, tuple(cells))

    def query_keys(self) -> Iterator[condition.Key | None]:
        sizes = condition.sizes_of(self.domain)
        for chosen in self._chosen():
            for codes in product(self._values, repeat=len(chosen)):
                leaves = [(name, ((code, code),)) for name, code in zip(chosen, codes, strict=True)]
                yield condition.product_key(sizes, leaves)

    def text(self, index: int) -> str:
        check_index(index, self.count)
        for width, size in enumerate(self._sizes(), start=1):
            if index < size:
                return self._text(index, width)
            index -= size
        raise AssertionError("the widths hold fewer queries than they count")

    def spec(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "width": self.width,
            "literals": self.literals,
            "attributes": list(self.over),
        }

    def describe(self) -> str:
        signs = "" if self.literals else "positive "
        return f"{self.count:,} {signs}conjunctions of up to {self.width} of {len(self.over)} attributes"

    @property
    def _values(self) -> tuple[int, ...]:
        return (0, 1) if self.literals else (1,)

    def _sizes(self) -> list[int]:
        """Queries of each width."""
        return [math.comb(len(self.over), j) * len(self._values) ** j for j in range(1, self.width + 1)]

    def _chosen(self) -> Iterator[Margin]:
        return (chosen for j in range(1, self.width + 1) for chosen in combinations(self.over, j))

    def _containing(self, chosen: Margin) -> Margin:
        others = [name for name in self.over if name not in chosen][: self.width - len(chosen)]
        return tuple(name for name in self.over if name in chosen or name in others)

    def _sets_within(self, fitting: NDArray[Any]) -> NDArray[np.int64]:
        """How many sets of 1 .. width attributes lie within each number of fitting ones."""
        widths = range(1, self.width + 1)
        sums = [sum(math.comb(fit, j) for j in widths) for fit in range(len(self.over) + 1)]
        return np.array(sums, dtype=np.int64)[fitting]

    def _text(self, index: int, width: int) -> str:
        which, signs = divmod(index, len(self._values) ** width)
        chosen = nth_combination(self.over, width, which)
        codes = [self._values[place] for place in unravel(signs, [len(self._values)] * width)]
        pairs = zip(chosen, codes, strict=True)
        return " AND ".join(names.code_text(self.domain[name], code) for name, code in pairs)


@checks("domain", "literals", lists=["attributes"])
def conjunctions(
    domain: Domain,
    width: int | None = None,
    *,
    literals: bool = False,
    attributes: Iterable[str] | None = None,
) -> Conjunctions:
    """All conjunctions of up to `width` binary attributes (all of the domain's, or the given ones), or of any number.

    Positive ones, x = 1 and y = 1 with the second declared cell as 1; or with `literals` either value of each.
    """
    over = tuple([a.name for a in domain if a.cells == 2] if attributes is None else attributes)
    return Conjunctions(domain, max(1, len(over)) if width is None else width, literals, over)


def nth_combination(pool: Sequence[str], size: int, index: int) -> list[str]:
    """The combination at a place of `itertools.combinations`, without listing the others."""
    chosen: list[str] = []
    for place, name in enumerate(pool):
        if len(chosen) == size:
            break
        with_it = math.comb(len(pool) - place - 1, size - len(chosen) - 1)
        if index < with_it:
            chosen.append(name)
        else:
            index -= with_it
    return chosen
