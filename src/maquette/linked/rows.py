"""Synthetic rows that point to each other: which rows of a view stand under which row of the parent.

The root's rows are those of its release, and say themselves how many children they have. A child is a whole row of its
view's release: all that its own columns say of each other stays as released. Only under which parent it stands is
decided here, so that its columns and its ancestors' columns together are what the view's release says of them: first
among parents with the same ancestors' columns, or nearly the same; then children change places as long as that brings
the tables of one column and one ancestor's column nearer to the release. Sees released values only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.domain import Domain
from maquette.errors import ReleaseError
from maquette.results.release import Release
from maquette.schema import Schema
from maquette.schema.schema import NUMBER_OF

Integers = NDArray[np.int64]
Codes = Mapping[str, NDArray[Any]]

PASSES = 60
"""Times that every child is offered another's place, at most; fewer where hardly any takes it."""
_STILL = 0.002
"""The share of offers taken below which children stay where they are."""
_BINS = 64
"""Cells of a column in the tables that decide who stands where; longer columns are taken in as many runs of codes."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkedRows:
    """The rows of one table: each is a row of its view's release, under a row of the parent."""

    chosen: Integers
    """The places in the view's release."""
    parents: Integers
    """The places among the parent's rows here; none in the root."""

    def __len__(self) -> int:
        return len(self.chosen)


def link_rows(
    schema: Schema, views: Mapping[str, Release], rng: np.random.Generator
) -> dict[str, LinkedRows]:
    """Rows of every table; numbers of children are those that the parents' rows say."""
    linked: dict[str, LinkedRows] = {}
    for link in schema.links:
        columns = columns_of(views[link.name], link.name)
        if link.parent is None:
            count = len(next(iter(columns.values())))
            linked[link.name] = LinkedRows(np.arange(count), np.zeros(0, dtype=np.int64))
            continue
        above = ancestors_columns(schema, link.parent, views, linked)
        parents = np.repeat(np.arange(len(linked[link.parent])), above[NUMBER_OF + link.name])
        slots = {name: above[name][parents] for name in columns if name in above}
        own = {name: codes for name, codes in columns.items() if name in schema.own_columns(link.name)}
        among = {name: columns[name] for name in slots}
        linked[link.name] = LinkedRows(
            _placed(schema.domain(link.name), own, among, slots, len(parents), rng), parents
        )
    return linked


def columns_of(release: Release, name: str) -> Codes:
    """The rows of a view in codes."""
    if release.database is None:
        raise ReleaseError(
            f"the release of table '{name}' holds answers only, so there are no rows of several tables; a mechanism "
            "that gives rows, such as sculpt, makes them"
        )
    return release.database.columns


def ancestors_columns(
    schema: Schema, name: str, views: Mapping[str, Release], linked: Mapping[str, LinkedRows]
) -> dict[str, NDArray[Any]]:
    """The columns of a table's linked rows: its own, and those of the rows above them."""
    columns: dict[str, NDArray[Any]] = {}
    at = np.arange(len(linked[name]))
    for table in (name, *schema.ancestors(name)):
        released = columns_of(views[table], table)
        chosen = linked[table].chosen[at]
        columns |= {own: released[own][chosen] for own in schema.own_columns(table) if own in released}
        at = linked[table].parents[at] if schema[table].parent is not None else at
    return columns


def _placed(
    domain: Domain, own: Codes, among: Codes, slots: Codes, count: int, rng: np.random.Generator
) -> Integers:
    """For so many slots with given ancestors' columns (`slots`) a row each, with its `own` and ancestors' (`among`)."""
    rows = len(next(iter(own.values())))
    if not count or not rows:
        if count:
            raise ReleaseError(
                "the release of a table has no rows, and its parent's rows say that it has some"
            )
        return np.zeros(0, dtype=np.int64)
    donors = rng.permutation(_spread(rows, count, rng))
    own, among, slots = (
        {name: _cells(codes, domain[name].size) for name, codes in part.items()}
        for part in (own, among, slots)
    )
    order = _by_association(own, among)
    chosen = _matched({name: codes[donors] for name, codes in among.items()}, slots, order, count, rng)
    chosen = donors[chosen]
    if own and slots:
        _exchange(own, among, slots, chosen, rng)
    return chosen


def _spread(rows: int, count: int, rng: np.random.Generator) -> Integers:
    """So many places of rows, each as often as any other, or once more."""
    return ((np.arange(count) + rng.random()) * rows / count).astype(np.int64) % rows


def _cells(codes: NDArray[Any], size: int) -> Integers:
    """The codes of a column of so many cells, or the runs of codes that they are in."""
    cells = codes.astype(np.int64)
    return cells if size <= _BINS else cells * _BINS // size


def _by_association(own: Codes, among: Codes) -> list[str]:
    """Ancestors' columns, those that say most about the rows' own ones first."""
    return sorted(among, key=lambda name: -sum(_information(among[name], codes) for codes in own.values()))


def _information(one: Integers, other: Integers) -> float:
    """Mutual information of two columns of rows."""
    joint = np.zeros((int(one.max()) + 1, int(other.max()) + 1))
    np.add.at(joint, (one, other), 1 / len(one))
    product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    there = joint > 0
    return float((joint[there] * np.log(joint[there] / product[there])).sum())


def _matched(
    donors: Codes, slots: Codes, order: Sequence[str], count: int, rng: np.random.Generator
) -> Integers:
    """A donor for every slot: with the same ancestors' columns, then with all but the last of `order`, and so on."""
    chosen = np.full(count, -1, dtype=np.int64)
    free, waiting = rng.permutation(count), rng.permutation(count)
    for length in range(len(order), -1, -1):
        keys = (
            [np.stack([part[name] for name in order[:length]], axis=1) for part in (donors, slots)]
            if length
            else []
        )
        if keys:
            _, both = np.unique(
                np.concatenate([keys[0][free], keys[1][waiting]]), axis=0, return_inverse=True
            )
            of_donor, of_slot = both.ravel()[: len(free)], both.ravel()[len(free) :]
        else:
            of_donor, of_slot = np.zeros(len(free), np.int64), np.zeros(len(waiting), np.int64)
        rank_donor, rank_slot = _ranks(of_donor), _ranks(of_slot)
        size = max(len(free), 1)
        left, right = of_donor * size + rank_donor, of_slot * size + rank_slot
        _, i, j = np.intersect1d(left, right, assume_unique=True, return_indices=True)
        chosen[waiting[j]] = free[i]
        free, waiting = np.delete(free, i), np.delete(waiting, j)
        if not len(waiting):
            break
    return chosen


def _ranks(groups: Integers) -> Integers:
    """0, 1, 2, ... within each group, in the order in which its members stand."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))
    return ranks


def _exchange(own: Codes, among: Codes, slots: Codes, chosen: Integers, rng: np.random.Generator) -> None:
    """Let children change places while that brings the tables of one own column and one ancestor's nearer."""
    of_row = np.stack(list(own.values()), axis=1)
    of_slot = np.stack([slots[name] for name in slots], axis=1)
    sizes = np.array([max(int(codes.max()), 0) + 1 for codes in own.values()])
    widths = np.array([int(max(slots[name].max(), among[name].max())) + 1 for name in slots])
    cells = np.outer(sizes, widths).ravel()
    offsets = np.concatenate([[0], np.cumsum(cells)]).astype(np.int64).reshape(-1)
    starts = offsets[:-1].reshape(len(sizes), len(widths))
    residual = np.zeros(offsets[-1])
    weights = np.zeros(offsets[-1])
    for i, codes in enumerate(own.values()):
        for j, name in enumerate(slots):
            place = slice(int(starts[i, j]), int(starts[i, j]) + int(sizes[i] * widths[j]))
            goal = np.bincount(codes * widths[j] + among[name], minlength=sizes[i] * widths[j])
            goal = goal * (len(chosen) / len(codes))
            now = np.bincount(codes[chosen] * widths[j] + slots[name], minlength=sizes[i] * widths[j])
            residual[place], weights[place] = goal - now, 1 / (goal + 1)
    for _ in range(PASSES):
        offers = rng.permutation(len(chosen)), rng.integers(0, len(chosen), len(chosen))
        accepted = exchange_pass(chosen, *offers, of_row, of_slot, starts, widths, residual, weights)
        if accepted < _STILL * len(chosen):
            return


@numba.njit(cache=True, nogil=True, plain=True)
def exchange_pass(
    chosen: Any,
    ones: Any,
    others: Any,
    of_row: Any,
    of_slot: Any,
    starts: Any,
    widths: Any,
    residual: Any,
    weights: Any,
) -> Any:
    """One offer for every slot `ones[i]`: to change children with slot `others[i]`. How many were taken.

    `chosen` (slots) are the rows, changed in place; `of_row` (rows, columns) their own codes, `of_slot` (slots,
    ancestors' columns) those of the slots. The table of own column a and ancestor's column b begins at `starts[a, b]`
    and has `widths[b]` cells for each code of a; `residual` (cells) is the wanted minus the current count, kept up to
    date, and `weights` (cells) says how much its square counts. An offer is taken where the sum becomes smaller.
    """
    columns, above = starts.shape
    accepted = 0
    for k in range(len(ones)):
        s, t = ones[k], others[k]
        r, q = chosen[s], chosen[t]
        change = 0.0
        for a in range(columns):
            x, y = of_row[r, a], of_row[q, a]
            if x == y:
                continue
            for b in range(above):
                u, v = of_slot[s, b], of_slot[t, b]
                if u == v:
                    continue
                first, second = starts[a, b] + x * widths[b], starts[a, b] + y * widths[b]
                change += weights[first + u] * (1 + 2 * residual[first + u])
                change += weights[second + v] * (1 + 2 * residual[second + v])
                change += weights[first + v] * (1 - 2 * residual[first + v])
                change += weights[second + u] * (1 - 2 * residual[second + u])
        if change >= 0:
            continue
        accepted += 1
        for a in range(columns):
            x, y = of_row[r, a], of_row[q, a]
            if x == y:
                continue
            for b in range(above):
                u, v = of_slot[s, b], of_slot[t, b]
                if u == v:
                    continue
                first, second = starts[a, b] + x * widths[b], starts[a, b] + y * widths[b]
                residual[first + u] += 1.0
                residual[second + v] += 1.0
                residual[first + v] -= 1.0
                residual[second + u] -= 1.0
        chosen[s], chosen[t] = q, r
    return accepted
