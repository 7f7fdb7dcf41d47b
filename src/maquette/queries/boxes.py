"""An explicit list of products of intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from maquette.domain import Domain
from maquette.errors import WorkloadError
from maquette.queries import names, sql
from maquette.queries.condition import Condition, Every, Leaf, simplify
from maquette.queries.limits import check_index
from maquette.queries.sets import SetQueries

Interval = tuple[str, int, int]
"""An attribute and the first and last code that are meant."""


@dataclass(frozen=True, slots=True)
class Boxes(SetQueries):
    """Each query counts the records whose codes lie in all the intervals of its box."""

    kind: ClassVar[str] = "boxes"
    domain: Domain
    boxes: tuple[tuple[Interval, ...], ...]
    conditions: tuple[Condition, ...] = field(init=False, compare=False, repr=False)  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        if not self.boxes:
            raise WorkloadError("boxes need at least one box")
        tidy = tuple(_tidy(self.domain, box) for box in self.boxes)
        leaves = [tuple(Leaf(name, ((low, high),)) for name, low, high in box) for box in tidy]
        object.__setattr__(self, "boxes", tidy)
        object.__setattr__(self, "conditions", tuple(simplify(self.domain, Every(given)) for given in leaves))

    def text(self, index: int) -> str:
        check_index(index, self.count)
        told = [_interval_text(self.domain, interval) for interval in self.boxes[index]]
        return " AND ".join(told) or "TRUE"

    def spec(self) -> dict[str, Any]:
        listed = [{name: [low, high] for name, low, high in box} for box in self.boxes]
        return {"kind": self.kind, "boxes": listed}


def boxes(domain: Domain, given: Iterable[Mapping[str, tuple[int, int]]]) -> Boxes:
    """The listed boxes: for each a mapping from attributes to (first code, last code), both included."""
    return Boxes(domain, tuple(_intervals(box) for box in given))


def _intervals(box: object) -> tuple[Interval, ...]:
    if not isinstance(box, Mapping):
        raise WorkloadError(f"expected a box such as {{'age': (3, 5)}}, got {box!r}")
    found: list[Interval] = []
    for name, ends in cast("Mapping[str, Any]", box).items():
        if not isinstance(ends, (tuple, list)) or len(cast("list[Any]", ends)) != 2:
            raise WorkloadError(f"expected (first code, last code) for '{name}' of a box, got {ends!r}")
        low, high = cast("tuple[int, int]", ends)
        found.append((name, low, high))
    return tuple(found)


def _tidy(domain: Domain, box: tuple[Interval, ...]) -> tuple[Interval, ...]:
    order = names.margin(domain, [name for name, _, _ in box])
    for interval in box:
        _check(domain, *interval)
    return tuple(sorted(box, key=lambda interval: order.index(interval[0])))


def _check(domain: Domain, name: str, low: object, high: object) -> None:
    column = domain[name]
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in (low, high))
    if not (whole and 0 <= cast("int", low) <= cast("int", high) < column.cells):
        raise WorkloadError(
            f"expected codes 0 <= first <= last <= {column.cells - 1} for '{name}', got ({low!r}, {high!r})"
        )
    if low != high:
        names.ordered(domain, name, purpose="intervals of more than one cell")


def _interval_text(domain: Domain, interval: Interval) -> str:
    name, low, high = interval
    column = domain[name]
    return sql.run_text(column, low, high) if column.ordered else sql.code_text(column, low)
