"""What may be drawn from the gate: a class of queries by its structure, a base measure, and how many rows.

All of it is public. The structure names a score whose sensitivity is 1 whatever the table, the largest error in counts
over D = max over queries of (largest - smallest weight); which one is asked can change the accuracy of a draw, never
its privacy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.core.forms import QueryForms
from maquette.core.weighting import Weighting
from maquette.errors import ParameterError, WorkloadError
from maquette.queries import canonical_hash
from maquette.queries.base import Queries
from maquette.queries.rows import Margin
from maquette.samplers.atoms import Atoms, Layout, atoms, layout, readable

# Nested families of cells of one attribute: of any two sets, one holds the other or they are apart.

Run = tuple[int, int]
"""The first and the last cell of a set."""


@dataclass(frozen=True, slots=True)
class Family:
    """A set with the largest sets inside it."""

    is_asked: bool
    """False for the whole attribute where no query asks for it."""
    loose: tuple[tuple[int, int], ...]
    """Runs of cells that no set inside holds: the first cell and how many."""
    inside: tuple[Family, ...]
    run: Run

    @property
    def cells(self) -> int:
        return self.run[1] - self.run[0] + 1

    @property
    def sets(self) -> int:
        """How many sets are asked for."""
        return self.is_asked + sum(part.sets for part in self.inside)

    @property
    def widest(self) -> int:
        """The most parts that one set is split into."""
        return max([len(self.inside), *(part.widest for part in self.inside)])


def family(runs: Iterable[Run], size: int) -> Family:
    """The tree of a nested family of runs over an attribute of `size` cells."""
    ordered = sorted(set(runs), key=lambda run: (run[0], -run[1]))
    whole = (0, size - 1)
    is_asked = bool(ordered) and ordered[0] == whole
    return _tree(whole, ordered[is_asked:], is_asked=is_asked)


def is_nested(runs: Iterable[Run]) -> bool:
    """Do no two sets cross?"""
    open_ends: list[int] = []
    for first, last in sorted(set(runs), key=lambda run: (run[0], -run[1])):
        while open_ends and open_ends[-1] < first:
            open_ends.pop()
        if open_ends and open_ends[-1] < last:
            return False
        open_ends.append(last)
    return True


def _tree(run: Run, inner: list[Run], *, is_asked: bool) -> Family:
    """`inner` holds the sets strictly inside, by first cell, the larger first."""
    parts: list[Family] = []
    loose: list[tuple[int, int]] = []
    place, i = run[0], 0
    while i < len(inner):
        first, last = inner[i]
        if first < place or last > run[1]:
            raise WorkloadError(f"the sets of cells {inner[i]} and another cross: the family is not nested")
        stop = i + 1
        while stop < len(inner) and inner[stop][0] <= last:
            stop += 1
        if first > place:
            loose.append((place, first - place))
        parts.append(_tree(inner[i], inner[i + 1 : stop], is_asked=True))
        place, i = last + 1, stop
    if place <= run[1]:
        loose.append((place, run[1] - place + 1))
    return Family(is_asked, tuple(loose), tuple(parts), run)


ONE = Fraction(1)
"""The span D of counting queries."""
Base = Literal["tree", "flat", "sequence", "product"]
Codes = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class _OfOne:
    """A class of sets of cells of one attribute: a small database is a list of its cells."""

    kind: ClassVar[str]
    span: ClassVar[Fraction] = ONE
    attribute: str

    @property
    def attributes(self) -> Margin:
        return (self.attribute,)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "attribute": self.attribute}

    def columns(self, values: list[NDArray[Any]], rng: np.random.Generator) -> Codes:
        return {self.attribute: values[0]}


@dataclass(frozen=True, slots=True)
class Thresholds(_OfOne):
    """Every prefix of one ordered attribute."""

    kind: ClassVar[str] = "thresholds"
    bases: ClassVar[tuple[Base, ...]] = ("tree", "flat", "sequence")


@dataclass(frozen=True, slots=True)
class Intervals(_OfOne):
    """Every interval of one ordered attribute."""

    kind: ClassVar[str] = "intervals"
    bases: ClassVar[tuple[Base, ...]] = ("tree", "flat")


@dataclass(frozen=True, slots=True)
class Nested(_OfOne):
    """A nested family of sets of cells of one attribute: its histogram, a hierarchy, a dyadic tree."""

    kind: ClassVar[str] = "nested sets"
    bases: ClassVar[tuple[Base, ...]] = ("flat",)
    runs: tuple[Run, ...]
    size: int

    def __post_init__(self) -> None:
        if not is_nested(self.runs):
            raise ParameterError(f"expected sets of '{self.attribute}' that do not cross")
        if not all(0 <= first <= last < self.size for first, last in self.runs):
            raise ParameterError(f"expected sets of cells 0 .. {self.size - 1} of '{self.attribute}'")

    @property
    def family(self) -> Family:
        return family(self.runs, self.size)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "attribute": self.attribute, "runs": [list(run) for run in self.runs]}


@dataclass(frozen=True, slots=True)
class Forest:
    """Two-way marginals of binary attributes along the edges of a forest, and one-way marginals of some."""

    kind: ClassVar[str] = "binary forest"
    span: ClassVar[Fraction] = ONE
    bases: ClassVar[tuple[Base, ...]] = ("sequence",)
    attributes: Margin
    edges: tuple[tuple[str, str], ...]
    singles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if rooted(self.attributes, self.edges) is None:
            raise ParameterError("expected edges between the attributes that form no cycle")

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "edges": [list(edge) for edge in self.edges],
            "singles": list(self.singles),
        }

    def columns(self, values: list[NDArray[Any]], rng: np.random.Generator) -> Codes:
        return dict(zip(self.attributes, values, strict=True))


def rooted(attributes: Margin, edges: tuple[tuple[str, str], ...]) -> list[tuple[str, str]] | None:
    """The edges from the roots down, the end nearer to the root first; None if they close a circle."""
    near: dict[str, list[str]] = {name: [] for name in attributes}
    for one, other in edges:
        if one not in near or other not in near or one == other:
            return None
        near[one].append(other)
        near[other].append(one)
    directed: list[tuple[str, str]] = []
    visited: set[str] = set()
    for root in attributes:
        waiting = [] if root in visited else [root]
        visited.add(root)
        while waiting:
            name = waiting.pop()
            new = [other for other in near[name] if other not in visited]
            visited.update(new)
            waiting += new
            directed += [(name, other) for other in new]
    return directed if len(directed) == len(edges) else None


@dataclass(frozen=True, slots=True)
class ByAtoms:
    """What classes have in common whose databases are multisets of atoms."""

    kind: ClassVar[str]
    bases: ClassVar[tuple[Base, ...]] = ("flat", "sequence")
    queries: Queries
    atoms: Atoms = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "atoms", atoms(self.queries))

    @property
    def span(self) -> Fraction:
        return Fraction(self.atoms.span, self.atoms.denominator)

    @property
    def attributes(self) -> Margin:
        return self.queries.attributes

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "queries": canonical_hash(self.queries)}

    def columns(self, values: list[NDArray[Any]], rng: np.random.Generator) -> Codes:
        return dict(self.atoms.cells(values[0].astype(np.int64), rng))


@dataclass(frozen=True, slots=True)
class Listed(ByAtoms):
    """Any class over few cells: every multiset of m atoms is scored."""

    kind: ClassVar[str] = "enumeration"


@dataclass(frozen=True, slots=True)
class Trellis(ByAtoms):
    """Any class over few atoms with few queries open at a time, read atom by atom."""

    kind: ClassVar[str] = "trellis"
    layout: Layout = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        ByAtoms.__post_init__(self)
        if not readable(self.atoms):
            raise ParameterError(
                f"the {self.queries.describe()} have too many atoms or queries to be read one by one"
            )
        object.__setattr__(self, "layout", layout(self.atoms))


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Any class: the databases of a public list are scored. `rows` holds one per line, attribute by attribute."""

    kind: ClassVar[str] = "candidates"
    bases: ClassVar[tuple[Base, ...]] = ("flat",)
    queries: Queries
    rows: dict[str, NDArray[Any]]
    """For every attribute of the queries the codes, shape (candidates, m)."""
    forms: QueryForms = field(init=False, repr=False)
    """What is scored, on the table and on the candidates: no code of the queries runs in a look."""

    def __post_init__(self) -> None:
        shapes = {np.shape(codes) for codes in self.rows.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 2 or 0 in next(iter(shapes)):
            raise ParameterError(
                "expected candidates as codes of shape (candidates, m), the same for all attributes"
            )
        missing = [name for name in self.queries.attributes if name not in self.rows]
        if missing:
            raise ParameterError(f"the candidates have no codes for {', '.join(missing)}")
        object.__setattr__(self, "forms", self.queries.to_forms())

    @property
    def attributes(self) -> Margin:
        return tuple(name for name in self.queries.domain.names if name in self.rows)

    @property
    def span(self) -> Fraction:
        """Never below the true one, and 1 where all queries are constant and every score is 0."""
        return self.forms.replaced(self.queries.domain.sizes).linf or ONE

    @property
    def count(self) -> int:
        return len(next(iter(self.rows.values())))

    @property
    def m(self) -> int:
        return next(iter(self.rows.values())).shape[1]

    def to_dict(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for name in self.attributes:
            digest.update(name.encode() + np.ascontiguousarray(self.rows[name], dtype=np.int64).tobytes())
        return {"kind": self.kind, "queries": canonical_hash(self.queries), "candidates": digest.hexdigest()}

    def columns(self, values: list[NDArray[Any]], rng: np.random.Generator) -> Codes:
        return {name: self.rows[name][int(values[0][0])] for name in self.attributes}


Single = Thresholds | Intervals | Nested | Forest
"""A class with a counter of its own."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Classes on disjoint attributes, each with a base of its own; the rows are joined in random orders."""

    kind: ClassVar[str] = "disjoint blocks"
    span: ClassVar[Fraction] = ONE
    bases: ClassVar[tuple[Base, ...]] = ("product",)
    parts: tuple[tuple[Single, Base], ...]

    def __post_init__(self) -> None:
        names = [name for part, _ in self.parts for name in part.attributes]
        if not names or len(set(names)) < len(names):
            raise ParameterError("expected blocks with no attribute in common")
        for part, base in self.parts:
            _check.one_of(part.bases, base=base)

    @property
    def attributes(self) -> Margin:
        return tuple(name for part, _ in self.parts for name in part.attributes)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [[part.to_dict(), base] for part, base in self.parts]}

    def columns(self, values: list[NDArray[Any]], rng: np.random.Generator) -> Codes:
        return dict(zip(self.attributes, values, strict=True))


Structure = Single | Blocks | Listed | Trellis | Candidates


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw of SmallDB: y of m rows with probability proportional to base(y) * B**level(y).

    The level is the largest error over the class in counts, over D (`span`), times `resolution`, rounded up; B is a
    rational number not below exp(-epsilon / (2 resolution)). Where records weigh, counts are sums of weights
    (Roth 2010).
    """

    structure: Structure
    base: Base
    m: int
    resolution: int = 1
    weight: Weighting | None = None

    def __post_init__(self) -> None:
        _check.whole(m=self.m, resolution=self.resolution)
        _check.one_of(self.structure.bases, base=self.base)
        if self.weight is not None and self.weight.attribute in self.structure.attributes:
            raise ParameterError(f"the queries look at '{self.weight.attribute}', which weighs the records")

    @property
    def span(self) -> Fraction:
        """D: the most by which one record moves the error of any query, in counts; 1 for counting queries."""
        return self.structure.span

    def to_dict(self) -> dict[str, Any]:
        """The canonical form that the ledger's digest covers; D is named where it changes the law."""
        plain: dict[str, Any] = {
            "structure": self.structure.to_dict(),
            "base": self.base,
            "m": self.m,
            "resolution": self.resolution,
        }
        if self.span != 1:
            plain["span"] = str(self.span)
        return plain if self.weight is None else plain | {"weight": self.weight.to_dict()}

    def columns(self, values: list[NDArray[Any]], rng: np.random.Generator) -> Codes:
        """Codes of the attributes that the structure speaks of, one per row; the rest is free."""
        return self.structure.columns(values, rng)

    def describe(self) -> str:
        """One line for the ledger."""
        digest = hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:12]
        by_weight = "" if self.weight is None else f"weighed by {self.weight.attribute}, "
        narrow = "" if self.span == 1 else f"weights within {self.span}, "
        return (
            f"smalldb, {self.structure.kind} over {', '.join(self.structure.attributes)}, {self.base} base, {by_weight}"
            f"{narrow}m={self.m}, grid 1/{self.resolution} count, whole numbers, {digest}"
        )
