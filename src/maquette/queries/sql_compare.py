"""How a comparison with a literal reads: as values, exactly, and as cells of the declared attribute, as well as it can.

As cells, what is true and what is unknown are sets of cells; the rest is false. A null is unknown to every comparison.
The overflow cell is unknown to comparisons by order; it is not equal to any category. Where a cell is cut by the
literal, the nearest border decides. This reading of cells is the one that stored queries have: it must not change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from maquette.domain import Attribute, Domain
from maquette.domain.attribute import Kind, Scalar
from maquette.errors import WorkloadError
from maquette.queries import condition, names
from maquette.queries import condition as cells
from maquette.queries import condition as valueset
from maquette.queries.condition import Condition, Every, Leaf, Runs, Some, ValueSet, simplify
from maquette.queries.names import quote

Value = str | bool | Fraction
"""A literal: text, truth value or number."""
Sign = str
"""One of = < <= > >=."""

_LISTED = 20
_NOT = {"=": "<>", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True)
class Reading:
    """The values for which a comparison holds, and the cells where it is read to hold and to be unknown."""

    said: str
    opposite: str
    """NOT of it, in words."""
    values: ValueSet
    true: Runs
    unknown: Runs

    def negated(self, size: int) -> Reading:
        """NOT of it, among all cells of the attribute: what is unknown stays so."""
        false = condition.complement(condition.join(self.true, self.unknown), size)
        return Reading(self.opposite, self.said, self.values.others(), false, self.unknown)


def is_null(attribute: Attribute) -> Reading:
    """IS NULL: never unknown."""
    name = quote(attribute.name)
    return Reading(f"{name} IS NULL", f"{name} IS NOT NULL", condition.NULL, _cell(attribute.null_cell), ())


def compare(attribute: Attribute, sign: Sign, value: Value) -> Reading:
    """An attribute compared with a literal."""
    said = partial(
        Reading, *(f"{quote(attribute.name)} {word} {_spelled(value)}" for word in (sign, _NOT[sign]))
    )
    if attribute.kind is Kind.NUMERIC:
        number = _number(attribute, value)
        values = condition.compared(attribute, sign, number)
        return said(values, _number_cells(attribute, sign, number), _unordered(attribute))
    code = _code(attribute, value)
    values = condition.compared(attribute, sign, condition.point(attribute, code))
    if sign == "=":
        return said(values, _cell(code), _cell(attribute.null_cell))
    if not attribute.ordered:
        raise WorkloadError(
            f"'{attribute.name}' is {attribute.kind} and has no order; compare it with = or <> or IN"
        )
    return said(values, _by_order(sign, code, attribute.cells), _unordered(attribute))


def _by_order(sign: Sign, code: int, count: int) -> Runs:
    first, last = {"<": (0, code - 1), "<=": (0, code), ">": (code + 1, count - 1), ">=": (code, count - 1)}[
        sign
    ]
    return condition.normal([(first, last)])


def _number_cells(attribute: Attribute, sign: Sign, value: Fraction) -> Runs:
    if sign == "=":
        return _equal(attribute, value)
    border = _border(attribute, sign, value)
    return condition.normal([(0, border - 1) if sign in ("<", "<=") else (border, attribute.cells - 1)])


def _equal(attribute: Attribute, value: Fraction) -> Runs:
    """The cell that holds the value; bins one wide are read as the whole numbers at their left."""
    within = attribute.edge(0) <= value <= attribute.edge(attribute.cells)
    if not within or (_as_whole(attribute) and value.denominator != 1):
        return ()
    if attribute.one_wide:
        code = int(value - Fraction(attribute.edge(0)))
        return _cell(code) if code < attribute.cells else ()
    return _cell(min(_last_edge_at_most(attribute, value), attribute.cells - 1))


def _border(attribute: Attribute, sign: Sign, value: Fraction) -> int:
    """The cell border nearest to the one that a comparison asks for. The last cell includes its right border."""
    if sign in ("<", ">="):
        below = _last_edge_at_most(attribute, value)
        if below >= 0 and _equals(attribute.edge(below), value):
            return below
    elif _equals(
        attribute.edge(attribute.cells), Fraction(math.floor(value)) if _as_whole(attribute) else value
    ):
        return attribute.cells
    if _as_whole(attribute):
        value = Fraction(math.floor(value) + 1 if sign in ("<=", ">") else math.ceil(value))
    return _nearest_edge(attribute, value)


def _as_whole(attribute: Attribute) -> bool:
    return attribute.integer or attribute.one_wide


def _nearest_edge(attribute: Attribute, value: Fraction) -> int:
    """The nearest border; of two equally near ones the lower."""
    below = _last_edge_at_most(attribute, value)
    if below < 0:
        return 0
    if below >= attribute.cells:
        return attribute.cells
    to_low, to_high = value - Fraction(attribute.edge(below)), Fraction(attribute.edge(below + 1)) - value
    return below if to_low <= to_high else below + 1


def _last_edge_at_most(attribute: Attribute, value: Fraction) -> int:
    """By bisection, so that any number of bins will do; -1 if all borders lie above."""
    low, high = -1, attribute.cells
    while low < high:
        middle = (low + high + 1) // 2
        if Fraction(attribute.edge(middle)) <= value or _equals(attribute.edge(middle), value):
            low = middle
        else:
            high = middle - 1
    return low


def _equals(edge: float, value: Fraction) -> bool:
    """Is this literal the shortest spelling of this border, or the border itself?"""
    return value == edge or float(value) == edge


def _number(attribute: Attribute, value: Value) -> Fraction:
    if isinstance(value, Fraction):
        return value
    raise WorkloadError(
        f"'{attribute.name}' is numeric; compare it with a number without quotes, got {_spelled(value)}"
    )


def _code(attribute: Attribute, value: Value) -> int:
    """The declared cell of a literal."""
    if attribute.codes is not None:
        number = Fraction(value) if isinstance(value, bool) and attribute.codes == 2 else value
        if isinstance(number, Fraction) and number.denominator == 1 and 0 <= number < attribute.codes:
            return int(number)
        raise WorkloadError(
            f"'{attribute.name}' holds the whole numbers 0 to {attribute.codes - 1}, got {_spelled(value)}"
        )
    assert attribute.categories is not None
    for code, category in enumerate(attribute.categories):
        if _matches(category, value):
            return code
    raise WorkloadError(f"{_spelled(value)} is no category of '{attribute.name}'; {_declared(attribute)}")


def _matches(category: Scalar, value: Value) -> bool:
    if isinstance(category, bool) or isinstance(value, bool):
        return category is value or str(category).lower() == str(value).lower()
    if isinstance(category, str):
        return category == (value if isinstance(value, str) else _spelled(value))
    if isinstance(value, Fraction):
        return _equals(float(category), value) if isinstance(category, float) else value == category
    return value == names.number(category)


def _declared(attribute: Attribute) -> str:
    assert attribute.categories is not None
    shown = ", ".join(names.spell(category) for category in attribute.categories[:_LISTED])
    more = attribute.cells - _LISTED
    listed = f"{shown} and {more} more" if more > 0 else shown
    return f"it has {listed}" + (
        " (other values share one cell and cannot be asked for)" if attribute.overflow else ""
    )


def _spelled(value: Value) -> str:
    if isinstance(value, Fraction):
        return str(int(value)) if value.denominator == 1 else repr(float(value))
    text = names.spell(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _unordered(attribute: Attribute) -> Runs:
    return condition.join(_cell(attribute.overflow_cell), _cell(attribute.null_cell))


def _cell(code: int | None) -> Runs:
    return () if code is None else ((code, code),)


# What a predicate says about cells: who surely satisfies it, who may, and how it is read where these differ.
#
# The reader hands over comparisons as values and as cells. Whatever is said about one attribute in one
# place is put together as values first, so that `age >= 30 AND age < 40` is exact wherever the cells have
# these two borders.


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
        surely, maybe = valueset.inside(attribute, tree.values), valueset.touched(attribute, tree.values)
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
    touched = valueset.touched(attribute, values)
    return cells.meet(touched, valueset.touched(attribute, values.complement()))


def _note(attribute: Attribute, reading: Reading, cut: Runs) -> tuple[str, str]:
    surely, maybe = valueset.inside(attribute, reading.values), valueset.touched(attribute, reading.values)
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
