"""Declared constraints, compiled: which rows and cells they allow, rows changed to meet them, answers set to zero.

Post-processing of released values: it costs nothing and takes no part in any guarantee of privacy.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.domain import Domain
from maquette.domain.constraint import MAX_CONSTRAINT_CELLS, Rule, complete
from maquette.errors import DomainError
from maquette.models.answers import Answers, SmallDatabase
from maquette.queries.base import Queries
from maquette.queries.marginals import Marginals
from maquette.queries.rows import Columns, Margin

BLOCK = 2**16
"""Rows mended at a time; a limit of memory for their random numbers."""


class Flat(NamedTuple):
    """Rules in flat arrays, for compiled loops; attributes go by their position in the domain."""

    first: NDArray[np.int64]
    """Attribute a appears in the uses first[a] .. first[a + 1]."""
    uses: NDArray[np.int64]
    """The rule of each use."""
    own: NDArray[np.int64]
    """The attribute's stride in that rule's table."""
    start: NDArray[np.int64]
    """Rule r has the members start[r] .. start[r + 1]."""
    members: NDArray[np.int64]
    strides: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """Where the rule's table begins."""
    table: NDArray[np.bool_]
    """All tables of allowed cells, one after the other."""
    targets: NDArray[np.int64]
    """The attribute that follows from the others of a rule, or -1."""


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """The constraints of a domain, compiled."""

    domain: Domain
    rules: tuple[Rule, ...]
    flat: Flat

    def __bool__(self) -> bool:
        return bool(self.rules)

    def allowed(self, columns: Columns) -> NDArray[np.bool_]:
        """Which rows meet every constraint."""
        rows = len(next(iter(columns.values())))
        good = np.ones(rows, dtype=bool)
        for rule in self.rules:
            good &= rule.allowed[tuple(np.asarray(columns[name]).astype(np.intp) for name in rule.names)]
        return good

    def on_cells(self, attributes: Margin) -> NDArray[np.bool_]:
        """Which cells of the table over these attributes a record may lie in, by the rules on them alone."""
        shape = tuple(self.domain[name].size for name in attributes)
        good = np.ones(shape, dtype=bool)
        for rule in self.rules:
            if set(rule.names) <= set(attributes):
                good &= _on_axes(rule, attributes, shape)
        return good

    def mend(self, database: SmallDatabase, *, rng: np.random.Generator) -> SmallDatabase:
        """Change as few values of the rows as it takes to meet every constraint.

        Accuracy: rows that meet them stay as they are; in the others a value that breaks a constraint is drawn again
            in proportion to its column, one that follows from others is set.
        """
        good = self.allowed(database.columns)
        if good.all():
            return database
        names = self.domain.names
        bad = np.flatnonzero(~good)
        rows = np.stack([database.columns[name][bad].astype(np.int64) for name in names], axis=1)
        used = {name for rule in self.rules for name in rule.names}
        sizes = [a.size if a.name in used else 0 for a in self.domain]
        shares = [_shares(database.columns[a.name], a.size) for a in self.domain if a.name in used]
        weights, borders = np.concatenate(shares), _running(sizes)
        solved = np.zeros(len(rows), dtype=bool)
        for start in range(0, len(rows), BLOCK):
            some = slice(start, start + BLOCK)
            chances = rng.random((len(rows[some]), 2 * (4 * len(self.rules) + 4)))
            _mend_rows(rows[some], solved[some], chances, weights, borders, self.flat)
        self._search(rows, np.flatnonzero(~solved))
        columns = {name: codes.copy() for name, codes in database.columns.items()}
        for place, name in enumerate(names):
            columns[name][bad] = rows[:, place].astype(columns[name].dtype)
        return SmallDatabase(columns)

    def _search(self, rows: NDArray[np.int64], hard: NDArray[np.intp]) -> None:
        """Rows that no chain of single changes has mended, by a search; equal ones once."""
        if not len(hard):
            return
        used = np.unique([self.domain.index(name) for rule in self.rules for name in rule.names])
        kinds, which = np.unique(rows[np.ix_(hard, used)], axis=0, return_inverse=True)
        names = [self.domain.names[place] for place in used]
        records = [self._complete(dict(zip(names, kind.tolist(), strict=True))) for kind in kinds]
        rows[np.ix_(hard, used)] = np.array([[one[name] for name in names] for one in records])[which.ravel()]

    def _complete(self, preferred: Mapping[str, int]) -> dict[str, int]:
        record = complete(self.domain.attributes, self.rules, preferred)
        if record is None:
            raise DomainError("the constraints contradict each other: no record meets all of them")
        return record


def compile(  # noqa: A001  (what it does, used as constraints.compile)
    domain: Domain, attributes: Iterable[str] | None = None
) -> Constraints:
    """The constraints of a domain for use on rows, or on rows of some attributes; refuses what no record meets."""
    rules, names = domain.rules, set(domain.names if attributes is None else attributes)
    if not names >= set(domain.names):
        rules = project(rules, names)
        domain = replace(domain, attributes=tuple(a for a in domain if a.name in names), constraints=())
    compiled = Constraints(domain, rules, flatten(domain, rules))
    if rules:
        compiled._complete({})
    return compiled


def project(rules: Sequence[Rule], names: Collection[str]) -> tuple[Rule, ...]:
    """What rules say of some attributes alone: what the others may be beside them decides.

    Accuracy: exact, an attribute at a time, but where the rules on one together span more than `MAX_CONSTRAINT_CELLS`:
        there each rule is projected by itself, which forbids no less than it may and maybe too little.
    """
    for name in dict.fromkeys(name for rule in rules for name in rule.names if name not in names):
        about = [rule for rule in rules if name in rule.names]
        rules = [rule for rule in rules if name not in rule.names]
        for rule in _joined(about):
            others = tuple(other for other in rule.names if other != name)
            allowed = np.asarray(rule.allowed.any(axis=rule.names.index(name)))
            if not allowed.all():
                rules.append(Rule(others, allowed, rule.said, rule.target if rule.target in others else None))
    return tuple(rules)


def _joined(rules: Sequence[Rule]) -> Sequence[Rule]:
    """Rules on one attribute as one rule, where its table can be held."""
    sizes = {name: size for rule in rules for name, size in zip(rule.names, rule.allowed.shape, strict=True)}
    if len(rules) < 2 or math.prod(sizes.values()) > MAX_CONSTRAINT_CELLS:
        return rules
    names, shape = tuple(sizes), tuple(sizes.values())
    together = np.ones(shape, dtype=bool)
    for rule in rules:
        together &= _on_axes(rule, names, shape)
    return (Rule(names, together, "; ".join(rule.said for rule in rules)),)


def _on_axes(rule: Rule, attributes: Margin, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """A rule with one axis per attribute of a margin; axes that it says nothing of have length 1.

    Where the rule reaches beyond the margin, a cell is allowed if something beside it is.
    """
    beyond = tuple(i for i, name in enumerate(rule.names) if name not in attributes)
    inside = [name for name in rule.names if name in attributes]
    order = [inside.index(name) for name in attributes if name in inside]
    sizes = [size if name in inside else 1 for name, size in zip(attributes, shape, strict=True)]
    return np.transpose(np.asarray(rule.allowed.any(axis=beyond)), order).reshape(sizes)


def flatten(domain: Domain, rules: Sequence[Rule]) -> Flat:
    """Rules in the form that compiled loops read."""
    members = [[domain.index(name) for name in rule.names] for rule in rules]
    strides = [_strides(rule.allowed.shape) for rule in rules]
    uses: list[list[tuple[int, int]]] = [[] for _ in domain.names]
    for r, (places, steps) in enumerate(zip(members, strides, strict=True)):
        for place, step in zip(places, steps, strict=True):
            uses[place].append((r, step))
    sizes = [rule.allowed.size for rule in rules]
    return Flat(
        first=_running([len(one) for one in uses]),
        uses=_whole([r for one in uses for r, _ in one]),
        own=_whole([step for one in uses for _, step in one]),
        start=_running([len(places) for places in members]),
        members=_whole([place for places in members for place in places]),
        strides=_whole([step for steps in strides for step in steps]),
        offsets=_running(sizes)[:-1],
        table=np.concatenate([*(rule.allowed.ravel() for rule in rules), np.zeros(0, dtype=bool)]),
        targets=_whole([-1 if rule.target is None else domain.index(rule.target) for rule in rules]),
    )


@numba.njit(cache=True, nogil=True)
def mask(attribute: int, row: Any, out: Any, flat: Flat) -> int:
    """Set out[v] to whether value v is allowed beside the row's other values; returns how many are.

    Only the rules that mention the attribute decide; none at all may be allowed while they are broken elsewhere.
    `row` holds one code per attribute of the domain, `out` has room for every value of the attribute.
    """
    out[:] = True
    for use in range(flat.first[attribute], flat.first[attribute + 1]):
        rule = flat.uses[use]
        base = flat.offsets[rule]
        for m in range(flat.start[rule], flat.start[rule + 1]):
            if flat.members[m] != attribute:
                base += row[flat.members[m]] * flat.strides[m]
        for value in range(len(out)):
            out[value] = out[value] and flat.table[base + value * flat.own[use]]
    return out.sum()


@numba.njit(cache=True, nogil=True)
def broken(row: Any, flat: Flat) -> int:
    """The first rule that a row breaks, or -1."""
    for rule in range(len(flat.offsets)):
        place = flat.offsets[rule]
        for m in range(flat.start[rule], flat.start[rule + 1]):
            place += row[flat.members[m]] * flat.strides[m]
        if not flat.table[place]:
            return rule
    return -1


@numba.njit(cache=True, nogil=True)
def _mend_rows(rows: Any, solved: Any, chances: Any, weights: Any, borders: Any, flat: Flat) -> None:
    """Change one value at a time until no rule is broken or the random numbers are used up.

    `rows` (rows, attributes) are codes, changed in place; `solved` (rows) is set to whether a row meets all rules.
    `chances` (rows, 2 steps) are uniform numbers, two for a step; `weights` are the counts of all values of all
    attributes that a rule names, flat, those of attribute a at `borders[a]` .. `borders[a + 1]`.
    """
    widest = 0
    for a in range(len(borders) - 1):
        widest = max(widest, borders[a + 1] - borders[a])
    room = np.empty(widest, dtype=np.bool_)
    for i in range(len(rows)):
        for step in range(chances.shape[1] // 2):
            rule = broken(rows[i], flat)
            if rule < 0:
                break
            _change(
                rows[i], rule, chances[i, 2 * step], chances[i, 2 * step + 1], weights, borders, room, flat
            )
        solved[i] = broken(rows[i], flat) < 0


@numba.njit(cache=True, nogil=True)
def _change(
    row: Any, rule: int, which: float, value: float, weights: Any, borders: Any, room: Any, flat: Flat
) -> None:
    """Give one member of a broken rule another value: one that breaks no rule, else one that meets this rule.

    `which` and `value` are uniform numbers that choose the member and its value, both in proportion to `weights`;
    `room` is scratch for the values of one attribute. The other arrays are those of `_mend_rows`.
    """
    start, stop = flat.start[rule], flat.start[rule + 1]
    for strict in (True, False):
        total = 0.0
        for m in range(start, stop):
            total += _mass(row, rule, m, strict, weights, borders, room, flat)
        if total <= 0:
            continue
        goal = which * total
        chosen = -1
        for m in range(start, stop):
            mass = _mass(row, rule, m, strict, weights, borders, room, flat)
            if mass > 0:
                chosen = m
                goal -= mass
                if goal < 0:
                    break
        attribute = flat.members[chosen]
        left = value * _mass(row, rule, chosen, strict, weights, borders, room, flat)
        for v in range(borders[attribute + 1] - borders[attribute]):
            if room[v]:
                row[attribute] = v
                left -= weights[borders[attribute] + v]
                if left < 0:
                    break
        return


@numba.njit(cache=True, nogil=True)
def _mass(
    row: Any, rule: int, m: int, strict: bool, weights: Any, borders: Any, room: Any, flat: Flat
) -> float:
    """How much of a member's column is allowed in its place; marks the allowed values in `room`."""
    attribute = flat.members[m]
    if flat.targets[rule] >= 0 and flat.targets[rule] != attribute:
        return 0.0  # what follows from others is what changes
    size = borders[attribute + 1] - borders[attribute]
    if strict:
        mask(attribute, row, room[:size], flat)
    else:
        base = flat.offsets[rule]
        for other in range(flat.start[rule], flat.start[rule + 1]):
            if other != m:
                base += row[flat.members[other]] * flat.strides[other]
        for v in range(size):
            room[v] = flat.table[base + v * flat.strides[m]]
    total = 0.0
    for v in range(size):
        if room[v]:
            total += weights[borders[attribute] + v]
    return total


def _shares(codes: NDArray[Any], size: int) -> NDArray[np.float64]:
    """How often each value occurs, plus a little, so that every value can be chosen."""
    return np.bincount(codes.astype(np.intp), minlength=size).astype(np.float64) + 1e-6


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]


def _running(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _whole(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


# Answers that keep to the declared constraints: combinations that no record has are answered with zero.
#
# Post-processing. A private record that breaks a constraint stays counted, so an error that was stated
# before has to grow by as much as an answer was moved.


def possible(domain: Domain, attributes: Margin) -> NDArray[np.bool_] | None:
    """Which cells of the table over some attributes a record may lie in, flat, by each constraint; None for all.

    A constraint that reaches beyond the attributes rules a cell out if nothing beside it would be allowed.
    """
    shape = tuple(domain[name].size for name in attributes)
    rules = [rule for rule in domain.rules if set(rule.names) & set(attributes)]
    good = [one for one in (_on_axes(rule, attributes, shape) for rule in rules) if not one.all()]
    if not good:
        return None
    return np.ascontiguousarray(np.broadcast_to(reduce(np.logical_and, good), shape)).ravel()


def cleared(answers: Answers, queries: Queries) -> tuple[Answers, float]:
    """The same answers with zero for every cell of a marginal that no record has, and the largest of them before."""
    numerators, largest = answers.numerators, 0
    for place, forbidden in _forbidden_cells(queries):
        before = numerators[place][forbidden]
        if before.any():
            numerators = numerators if numerators is not answers.numerators else numerators.copy()
            numerators[place][forbidden] = 0
            largest = max(largest, int(before.max()))
    return replace(answers, numerators=numerators), largest / answers.denominator


def _forbidden_cells(queries: Queries) -> Iterator[tuple[slice, NDArray[np.bool_]]]:
    """Where each marginal stands that has forbidden cells, and which those are."""
    start = 0
    for part in queries.classes:
        if isinstance(part, Marginals):
            for margin, place in part.slices.items():
                good = possible(part.domain, margin)
                if good is not None:
                    yield slice(start + place.start, start + place.stop), ~good
        start += part.count
