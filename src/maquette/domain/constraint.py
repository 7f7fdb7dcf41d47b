"""What no record of the universe can be: declared combinations that never occur, and values that follow from others.

Constraints are public like the rest of the declaration. They say what released rows may look like; a private record
that breaks one is counted like any other, because dropping it would depend on the data.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.core.attribute import MISSING, Attribute, Kind, Scalar
from maquette.core.values import spelling
from maquette.errors import DomainError

Cell = Scalar | None
"""A cell by its category, code or label; None is the missing cell."""

MAX_CONSTRAINT_CELLS = 10**6
"""Cells of the table over the attributes of one constraint."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Some cells of one attribute: a list, all declared ones but a list, or those of an interval [start, end)."""

    form: Literal["in", "not", "between"]
    values: tuple[Cell, ...] = ()
    start: float | None = None
    end: float | None = None

    @classmethod
    def read(cls, spec: Any) -> Cells:
        """From a list, {"not": list} or {"from": number, "to": number}."""
        if isinstance(spec, Cells):
            return spec
        if _check.is_mapping(spec):
            return cls._read_words(spec)
        if isinstance(spec, str) or not _is_sequence(spec):
            raise DomainError(
                f'expected a list of cells, {{"not": ...}} or {{"from": ..., "to": ...}}, got {spec!r}'
            )
        return cls("in", tuple(spec))

    @classmethod
    def _read_words(cls, spec: Mapping[str, Any]) -> Cells:
        words = set(spec)
        if words == {"not"}:
            return cls("not", cls.read(spec["not"]).values)
        ends = [spec.get("from"), spec.get("to")]
        numbers = all(e is None or (isinstance(e, (int, float)) and not isinstance(e, bool)) for e in ends)
        if not words or words - {"from", "to"} or not numbers:
            raise DomainError(
                f'expected {{"not": list}} or {{"from": number, "to": number}}, got {dict(spec)!r}'
            )
        return cls("between", (), *ends)

    def spec(self) -> Any:
        """The form that a domain file holds."""
        match self.form:
            case "in":
                return list(self.values)
            case "not":
                return {"not": list(self.values)}
            case "between":
                ends = {"from": self.start, "to": self.end}
                return {word: end for word, end in ends.items() if end is not None}

    def codes(self, book: Book) -> list[int]:
        """Which codes are meant, increasing; at least one."""
        attribute = book.attribute
        if self.form == "between":
            codes = _between(attribute, self.start, self.end)
        else:
            named = {book.find(value) for value in self.values}
            codes = named if self.form == "in" else set(range(attribute.cells)) - named
        if not codes:
            raise DomainError(f"the list names no cell of '{attribute.name}'")
        return sorted(codes)


@dataclass(frozen=True, slots=True)
class Never:
    """No record lies in all of these sets of cells at once."""

    cells: tuple[tuple[str, Cells], ...]

    def __init__(self, cells: Mapping[str, Any]) -> None:
        if not _check.is_mapping(cells) or not cells:
            raise DomainError(f'"never" needs an object from attributes to cells, got {cells!r}')
        read = tuple((name, Cells.read(spec)) for name, spec in cells.items())
        object.__setattr__(self, "cells", read)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.cells)

    def spec(self) -> dict[str, Any]:
        """The form that a domain file holds."""
        return {"never": {name: cells.spec() for name, cells in self.cells}}

    def boxes(self, books: Mapping[str, Book]) -> Iterator[tuple[dict[str, list[int]], bool]]:
        yield {name: cells.codes(books[name]) for name, cells in self.cells}, False

    def __str__(self) -> str:
        return f"never {', '.join(self.names)}"


@dataclass(frozen=True, slots=True)
class Determines:
    """The cell of one attribute follows from those of others, by a public map; what the map leaves out is free."""

    target: str
    by: tuple[str, ...]
    entries: tuple[tuple[tuple[Cell, ...], tuple[Cell, ...]], ...]
    """Cells of `by`, and the one cell (or the few) that the target then has."""

    def __init__(self, target: str, *, by: str | Sequence[str], map: Mapping[Any, Any]) -> None:  # noqa: A002
        names = (by,) if isinstance(by, str) else tuple(by)
        if not names or target in names or len(set(names)) < len(names):
            raise DomainError(f'"determines" needs other attributes in "by", each once, got {list(names)!r}')
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "by", names)
        object.__setattr__(self, "entries", tuple(_paths(map, len(names))))
        if not self.entries:
            raise DomainError('"determines" needs a "map" with at least one entry')

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.by, self.target)

    def spec(self) -> dict[str, Any]:
        """The form that a domain file holds."""
        tree: dict[str, Any] = {}
        for path, cells in self.entries:
            place = tree
            for key in path[:-1]:
                place = place.setdefault(_word(key), {})
            place[_word(path[-1])] = cells[0] if len(cells) == 1 else list(cells)
        return {"determines": self.target, "by": list(self.by), "map": tree}

    def boxes(self, books: Mapping[str, Book]) -> Iterator[tuple[dict[str, list[int]], bool]]:
        entered: set[tuple[int, ...]] = set()
        for path, cells in self.entries:
            codes = tuple(books[name].find(key) for name, key in zip(self.by, path, strict=True))
            if codes in entered:
                entry = ", ".join(_word(key) for key in path)
                raise DomainError(f"the map of '{self.target}' lists {entry} twice")
            entered.add(codes)
            allowed = Cells("in", cells).codes(books[self.target])
            box = {name: [code] for name, code in zip(self.by, codes, strict=True)}
            yield box | {self.target: allowed}, True

    def __str__(self) -> str:
        return f"{self.target} determined by {', '.join(self.by)}"


Constraint = Never | Determines


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A constraint in codes: which cells of the table over its attributes a record may lie in."""

    names: tuple[str, ...]
    """In the order of the domain."""
    allowed: NDArray[np.bool_]
    said: str
    """The constraint in words, for messages."""
    target: str | None = None
    """The attribute that follows from the others, if it is that kind of constraint."""

    def digest(self) -> str:
        """SHA-256 of the names and the allowed cells: the same for two spellings of one constraint."""
        words = json.dumps([*self.names, list(self.allowed.shape)]).encode()
        return hashlib.sha256(words + np.packbits(self.allowed).tobytes()).hexdigest()


def parse(spec: Any) -> Constraint:
    """One entry of a domain file's list of constraints."""
    if _check.is_mapping(spec):
        words = set(spec)
        if words == {"never"}:
            return Never(spec["never"])
        if words == {"determines", "by", "map"}:
            target, by = spec["determines"], spec["by"]
            if isinstance(target, str) and _check.is_mapping(spec["map"]) and _is_names(by):
                return Determines(target, by=by, map=spec["map"])
    raise DomainError('expected {"never": {...}} or {"determines": NAME, "by": NAMES, "map": {...}}')


def resolve(attributes: Sequence[Attribute], constraints: Sequence[Constraint]) -> tuple[Rule, ...]:
    """All constraints in codes; refuses unknown names, tables that are too large and what forbids everything."""
    named = {a.name: a for a in attributes}
    rules: list[Rule] = []
    for number, constraint in enumerate(constraints, start=1):
        try:
            rules.append(_rule(named, constraint))
        except DomainError as error:
            raise DomainError(f"constraint {number} ({constraint}): {error}") from None
    return tuple(rules)


class Book:
    """The cells of one attribute by every way to name them."""

    def __init__(self, attribute: Attribute) -> None:
        self.attribute = attribute
        self._codes: dict[str, int] = {}
        for code in range(attribute.size):
            label = attribute.label(code)
            self._codes.setdefault(label, code)
            self._codes.setdefault(spelling(label), code)
            one_wide = attribute.one_wide or (
                attribute.integer and attribute.closes_on_a_number(attribute.cells - 1)
            )
            if one_wide and code < attribute.cells:  # files may name such a cell by its left border
                self._codes.setdefault(f"{attribute.edge(code):.0f}", code)
        if attribute.categories is not None:  # a truth value has another label than spelling
            for code, category in enumerate(attribute.categories):
                self._codes.setdefault(spelling(category), code)

    def find(self, value: Cell) -> int:
        """The code of a cell by its category, code or label."""
        a = self.attribute
        word = _word(value)
        if word in self._codes:
            return self._codes[word]
        if word == MISSING:
            raise DomainError(f"'{a.name}' is not nullable and has no missing cell")
        hint = ' (numeric cells go by their label, such as "[0, 10)", or by "from" and "to")'
        raise DomainError(f"'{a.name}' has no cell {value!r}" + (hint if a.kind is Kind.NUMERIC else ""))


def _rule(named: Mapping[str, Attribute], constraint: Constraint) -> Rule:
    unknown = [name for name in constraint.names if name not in named]
    if unknown:
        raise DomainError(f"unknown attribute '{unknown[0]}'; the domain has {', '.join(named)}")
    names = tuple(name for name in named if name in constraint.names)
    shape = tuple(named[name].size for name in names)
    if math.prod(shape) > MAX_CONSTRAINT_CELLS:
        raise DomainError(
            f"its attributes span {math.prod(shape):,} cells (at most {MAX_CONSTRAINT_CELLS:,}); declare coarser cells"
        )
    allowed = np.ones(shape, dtype=bool)
    for box, determined in constraint.boxes({name: Book(named[name]) for name in names}):
        if determined:  # all other cells of the target are ruled out
            assert isinstance(constraint, Determines)
            everything = box | {constraint.target: list(range(named[constraint.target].size))}
            allowed[np.ix_(*(everything[name] for name in names))] = False
        allowed[np.ix_(*(box[name] for name in names))] = determined
    if not allowed.any():
        raise DomainError("it forbids every record")
    return Rule(names, allowed, str(constraint), getattr(constraint, "target", None))


def _between(attribute: Attribute, start: float | None, end: float | None) -> set[int]:
    if attribute.bounds is None and attribute.edges is None:
        raise DomainError(
            f'"from" and "to" are for numeric attributes, and \'{attribute.name}\' is {attribute.kind}'
        )
    borders = [attribute.edge(i) for i in range(attribute.cells + 1)]
    for value in (start, end):
        if value is not None and value not in borders:
            raise DomainError(f"{value:g} is not a border of a cell of '{attribute.name}'")
    low, high = borders[0] if start is None else start, borders[-1] if end is None else end
    return {i for i, (left, right) in enumerate(itertools.pairwise(borders)) if low <= left and right <= high}


def _paths(tree: Any, depth: int) -> Iterator[tuple[tuple[Cell, ...], tuple[Cell, ...]]]:
    """The entries of a nested map, one level per attribute of `by`."""
    if not _check.is_mapping(tree):
        raise DomainError('the "map" needs one level of keys per attribute in "by"')
    for key, inner in tree.items():
        if depth > 1:
            yield from (((key, *path), cells) for path, cells in _paths(inner, depth - 1))
        elif isinstance(inner, Mapping):
            raise DomainError('the "map" has more levels of keys than "by" has attributes')
        else:
            yield (key,), _as_tuple(inner)


def _word(key: Cell) -> str:
    return MISSING if key is None else spelling(key)


def _as_tuple(value: Any) -> tuple[Cell, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence)


def _is_names(by: Any) -> bool:
    return isinstance(by, str) or (_check.is_list(by) and all(isinstance(name, str) for name in by))


# Whether declared constraints can be met together, and a record that meets them.


MAX_TRIED_VALUES = 10_000
"""Values tried in the search for one record."""


def check_consistent(attributes: Sequence[Attribute], rules: Sequence[Rule]) -> None:
    """Refuse constraints that leave some attribute without any value."""
    left = possible(attributes, rules)
    empty = [name for name, cells in left.items() if not cells.any()]
    if empty:
        said = "; ".join(rule.said for rule in rules if set(rule.names) & set(empty))
        raise DomainError(
            f"the constraints contradict each other: no value of '{empty[0]}' is left by: {said}"
        )


def possible(
    attributes: Sequence[Attribute],
    rules: Sequence[Rule],
    start: Mapping[str, NDArray[np.bool_]] | None = None,
) -> dict[str, NDArray[np.bool_]]:
    """Which cells of the constrained attributes can still occur, each rule by itself, until nothing changes."""
    sizes = {a.name: a.size for a in attributes}
    used = dict.fromkeys(name for rule in rules for name in rule.names)
    left = {name: np.ones(sizes[name], dtype=bool) for name in used}
    for name, cells in (start or {}).items():
        left[name] = cells.copy()
    changed = True
    while changed:
        changed = False
        for rule in rules:
            for axis, supported in enumerate(_support(rule, left)):
                name = rule.names[axis]
                if supported.sum() < left[name].sum():
                    left[name], changed = supported, True
    return left


def complete(
    attributes: Sequence[Attribute], rules: Sequence[Rule], target: Mapping[str, int]
) -> dict[str, int] | None:
    """A record of the constrained attributes that meets every rule, near the wanted one; None if there is none.

    Keeps wanted values where it can, in the order of the rules. Refuses if the search takes too long.
    """
    steps = iter(range(MAX_TRIED_VALUES))

    def search(fixed: dict[str, int], left: dict[str, NDArray[np.bool_]]) -> dict[str, int] | None:
        name = next((name for name in left if name not in fixed), None)
        if name is None:
            return fixed
        values = sorted(np.flatnonzero(left[name]).tolist(), key=lambda v: v != target.get(name))
        for value in values:
            if next(steps, None) is None:
                raise DomainError("no record that meets all constraints was found; declare them more simply")
            only = np.arange(len(left[name])) == value
            narrowed = possible(attributes, rules, {**left, name: only})
            if all(cells.any() for cells in narrowed.values()):
                completed = search({**fixed, name: value}, narrowed)
                if completed is not None:
                    return completed
        return None

    return search({}, possible(attributes, rules))


def _support(rule: Rule, left: Mapping[str, NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
    """For each attribute of a rule, which cells have a partner among what is left of the others."""
    table = rule.allowed
    for axis, name in enumerate(rule.names):
        table = table & left[name].reshape([-1 if i == axis else 1 for i in range(table.ndim)])
    axes = range(table.ndim)
    return [np.asarray(table.any(axis=tuple(a for a in axes if a != axis))) for axis in axes]
