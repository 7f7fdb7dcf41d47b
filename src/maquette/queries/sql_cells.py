"""What a predicate says about cells: who surely satisfies it, who may, and how it is read where these differ.

The reader hands over comparisons as values and as cells. Whatever is said about one attribute in one place is put
together as values first, so that `age >= 30 AND age < 40` is exact wherever the cells have these two borders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from maquette.core.attribute import Kind
from maquette.domain import Attribute, Domain
from maquette.queries import condition as cells
from maquette.queries import names, sql_compare
from maquette.queries.condition import Condition, Every, Leaf, Runs, Some, simplify
from maquette.queries.sql_compare import Reading, ValueSet

_NAMED = 4
"""Cells that a note names."""


@dataclass(frozen=True, slots=True)
class Compared:
    """All that is said about an attribute in one place: its values, its cells as they are read, and by which words."""

    attribute: str
    values: ValueSet
    cells: Runs
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Parts of which every one holds, or some."""

    every: bool
    parts: tuple[Tree, ...]


Tree = Compared | Group


@dataclass(frozen=True, slots=True)
class Parsed:
    """A predicate as conditions on cells, with what was read otherwise than it was written."""

    condition: Condition
    """As it is read: the nearest border decides about a cell that is cut."""
    surely: Condition
    """Every value in these cells satisfies it."""
    maybe: Condition
    """Some value in these cells satisfies it; equal to `surely` where no cell is cut."""
    cuts: tuple[str, ...]
    """Which comparison cuts which cells, in words."""
    notes: tuple[str, ...]
    """The same, with how it is read."""
    remarks: tuple[str, ...] = ()
    """Which values are not declared."""


def leaf(attribute: Attribute, readings: Sequence[Reading], *, negated: bool) -> Tree:
    """Where any of the readings is true; negated, where all are false (what is unknown stays out)."""
    effective = [one.negated(attribute.size) for one in readings] if negated else readings
    return Group(negated, tuple(Compared(attribute.name, one.values, one.true, (one,)) for one in effective))


def settle(domain: Domain, tree: Tree) -> Parsed:
    """The conditions that a predicate stands for."""
    merged = _merge(tree)
    read, surely, maybe = (simplify(domain, condition) for condition in _conditions(domain, merged))
    if surely == maybe:
        return Parsed(surely, surely, maybe, (), ())
    said = dict(_notes(domain, merged))
    return Parsed(read, surely, maybe, tuple(said), tuple(said.values()))


def _merge(tree: Tree) -> Tree:
    """One set of values per attribute and group."""
    if isinstance(tree, Compared):
        return tree
    flat: list[Tree] = []
    for part in map(_merge, tree.parts):
        flat += part.parts if isinstance(part, Group) and part.every == tree.every else [part]
    together: dict[str, Compared] = {}
    rest: list[Tree] = []
    for part in flat:
        if isinstance(part, Group):
            rest.append(part)
        elif part.attribute in together:
            together[part.attribute] = _together(together[part.attribute], part, every=tree.every)
        else:
            together[part.attribute] = part
    parts = (*together.values(), *rest)
    return parts[0] if len(parts) == 1 else Group(tree.every, parts)


def _together(first: Compared, second: Compared, *, every: bool) -> Compared:
    readings = first.readings + second.readings
    if every:
        values = first.values.meet(second.values)
        return Compared(first.attribute, values, cells.meet(first.cells, second.cells), readings)
    values = first.values.join(second.values)
    return Compared(first.attribute, values, cells.join(first.cells, second.cells), readings)


def _conditions(domain: Domain, tree: Tree) -> tuple[Condition, Condition, Condition]:
    """As it is read, surely and maybe."""
    if isinstance(tree, Compared):
        attribute = domain[tree.attribute]
        surely, maybe = (
            sql_compare.inside(attribute, tree.values),
            sql_compare.touched(attribute, tree.values),
        )
        read = _between(surely, tree.cells, maybe)
        return Leaf(tree.attribute, read), Leaf(tree.attribute, surely), Leaf(tree.attribute, maybe)
    join = Every if tree.every else Some
    parts = [_conditions(domain, part) for part in tree.parts]
    read, surely, maybe = (join(tuple(part[i] for part in parts)) for i in range(3))
    return read, surely, maybe


def _between(surely: Runs, read: Runs, maybe: Runs) -> Runs:
    """The cells as they are read, but every one that surely is and none that surely is not."""
    return cells.join(surely, cells.meet(read, maybe))


def _notes(domain: Domain, tree: Tree) -> Iterator[tuple[str, str]]:
    """What each comparison cuts, without and with how it is read."""
    if isinstance(tree, Group):
        for part in tree.parts:
            yield from _notes(domain, part)
        return
    attribute = domain[tree.attribute]
    cut = _cut(attribute, tree.values)
    for reading in tree.readings if cut else ():
        if some := cells.meet(cut, _cut(attribute, reading.values)):
            yield _note(attribute, reading, some)


def _cut(attribute: Attribute, values: ValueSet) -> Runs:
    """The cells that hold values of the set and others."""
    return cells.meet(
        sql_compare.touched(attribute, values), sql_compare.touched(attribute, values.complement())
    )


def _note(attribute: Attribute, reading: Reading, cut: Runs) -> tuple[str, str]:
    surely, maybe = (
        sql_compare.inside(attribute, reading.values),
        sql_compare.touched(attribute, reading.values),
    )
    read = _between(surely, reading.true, maybe)
    meaning = "no record"
    if read:
        everything = cells.whole(attribute.cells)
        meaning = (
            "all declared cells" if read == everything else names.runs_text(attribute, read) or "some cells"
        )
    first = [code for low, high in cut for code in range(low, min(high, low + _NAMED) + 1)][:_NAMED]
    more = cells.count(cut) - len(first)
    named = " and ".join(cell_words(attribute, code) for code in first) + (
        f" and {more} more" if more else ""
    )
    cuts = f"cuts the cell {named}"
    return f"{reading.said} {cuts}", f"{reading.said} was read as {meaning}, as it {cuts}"


def cell_words(attribute: Attribute, code: int) -> str:
    """A cell by the values that it holds, those beyond the bounds and the missing ones included."""
    if code == attribute.overflow_cell:
        missing = "" if attribute.nullable else " or are missing"
        if attribute.kind is Kind.NUMERIC:
            low, high = (
                names.number(attribute.edge(0)),
                names.number(attribute.edge(attribute.cells)),
            )
            return f"of values that lie outside [{low}, {high}]{missing}"
        return f"of values that are not declared{missing}"
    if attribute.kind is not Kind.NUMERIC or attribute.overflow or 0 < code < attribute.cells - 1:
        return attribute.label(code)
    if attribute.cells == 1:
        return "of all values"
    if code == 0:
        return f"of all values below {names.number(attribute.edge(1))}"
    return f"of all values from {names.number(attribute.edge(code))} on"
